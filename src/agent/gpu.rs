//! The GPUs of this machine, by `nvidia-smi`.
//!
//! Owns: running it, within bounds. Leaves to others: the query and its answer (`rules::worker::gpu`).
//! A machine without the tool has no figures, which is no fault.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::time::timeout;

use crate::rules::worker::gpu::{self, Gpus};

/// The tool, on the path.
const TOOL: &str = "nvidia-smi";

/// It takes no longer: a driver that hangs must not hold up a beat.
const LIMIT: Duration = Duration::from_secs(3);

/// Bytes of its answer.
const BYTES: u64 = 64 * 1024;

/// Looks once; `None` where nothing is known.
pub(super) async fn look() -> Option<Gpus> {
    timeout(LIMIT, ask()).await.ok().flatten()
}

async fn ask() -> Option<Gpus> {
    let mut child = Command::new(TOOL)
        .args(gpu::QUERY)
        // No child needs the node key.
        .env_remove("NODE_KEY")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .ok()?;
    let mut answer = Vec::new();
    let pipe = child.stdout.take()?;
    pipe.take(BYTES).read_to_end(&mut answer).await.ok()?;
    let ended = child.wait().await.ok()?;
    match ended.success() {
        true => gpu::parse(&String::from_utf8_lossy(&answer)),
        false => None,
    }
}
