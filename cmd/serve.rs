//! `serve`: runs the daemon in the foreground.

use std::process::ExitCode;

use crate::cli::{Globals, ServeArgs};
use crate::errors::{CliError, Kind};

/// Runs it.
pub fn run(_args: &ServeArgs, _globals: &Globals) -> Result<ExitCode, CliError> {
    Err(CliError::new(Kind::Failed, "serve is not wired yet"))
}
