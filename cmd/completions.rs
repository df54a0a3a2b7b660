//! `completions`: prints the completion script of a shell.

use std::process::ExitCode;

use clap::{Command, CommandFactory};

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
    clap_complete::generate(shell, &mut offered(), "nvpair-proxy", &mut script);
    script
}

/// The command with what is offered to people. The generators offer hidden subcommands too, and
/// clap cannot take one out.
fn offered() -> Command {
    let whole = Cli::command();
    Command::new("nvpair-proxy")
        .version(env!("CARGO_PKG_VERSION"))
        .args(whole.get_arguments().cloned())
        .subcommands(
            whole
                .get_subcommands()
                .filter(|s| !s.is_hide_set())
                .cloned(),
        )
}
