//! The runtime of a subcommand, and how a process that logs ends.
//!
//! Owns: that there is one thread, and what the log is given at the end. Leaves to others: what runs
//! on it.

use std::time::Duration;

use anyhow::Context;
use nvpair_proxy::telemetry::logging;
use tokio::runtime::{Builder, Runtime};

use crate::errors::CliError;

/// What was logged gets this long to be written at the end.
const LOG_FLUSH: Duration = Duration::from_millis(300);

/// Threads that read a terminal or a pipe get this long, and must not keep the process.
const THREADS: Duration = Duration::from_millis(50);

/// A runtime of one thread.
pub fn single() -> Result<Runtime, CliError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    Ok(runtime.context("cannot start the runtime")?)
}

/// Ends the runtime of a daemon or an agent, and takes its last lines to the log.
pub fn end(runtime: Runtime) {
    runtime.shutdown_timeout(THREADS);
    logging::flush(LOG_FLUSH);
}
