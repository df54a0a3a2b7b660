//! `demo-engine`: runs one sample engine.

use std::process::ExitCode;

use crate::cli::{DemoEngineArgs, Globals};
use crate::errors::{CliError, Kind};

/// Runs it.
pub fn run(_args: &DemoEngineArgs, _globals: &Globals) -> Result<ExitCode, CliError> {
    Err(CliError::new(Kind::Failed, "demo-engine is not wired yet"))
}
