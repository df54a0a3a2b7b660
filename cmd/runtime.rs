//! The runtime of a subcommand, and how long what goes on beside it may take at the end.
//!
//! Owns: that there is one thread, and these limits. Leaves to others: what runs on it, the log.

use std::time::Duration;

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};

use crate::errors::CliError;

/// What a daemon or an agent logged gets this long to be written at the end.
pub const LOG_FLUSH: Duration = Duration::from_millis(300);

/// Threads that read a terminal or a pipe get this long, and must not keep the process.
const THREADS: Duration = Duration::from_millis(50);

/// A runtime of one thread.
pub fn single() -> Result<Runtime, CliError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    Ok(runtime.context("cannot start the runtime")?)
}

/// Ends the runtime of a daemon or an agent.
pub fn end(runtime: Runtime) {
    runtime.shutdown_timeout(THREADS);
}
