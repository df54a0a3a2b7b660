//! `completions`: prints the completion script of a shell.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::cli::{Cli, CompletionsArgs};
use crate::errors::CliError;
use crate::output;

/// Runs it.
pub fn run(args: &CompletionsArgs) -> Result<ExitCode, CliError> {
    output::print(&String::from_utf8_lossy(&script(args.shell)))?;
    Ok(ExitCode::SUCCESS)
}

/// The script of a shell.
pub fn script(shell: clap_complete::Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "nvpair-proxy", &mut script);
    script
}
