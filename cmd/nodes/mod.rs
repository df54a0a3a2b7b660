//! `nodes`: which nodes there are, and adding and removing some.
//!
//! Owns: choosing the subcommand. Leaves to others: each of them (its file).

mod add;
mod list;
mod remove;

use std::process::ExitCode;

use crate::cli::{Globals, NodesArgs, NodesListArgs, NodesVerb};
use crate::errors::CliError;

/// Runs it.
pub fn run(args: &NodesArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    match &args.verb {
        None => list::run(&NodesListArgs::default(), globals),
        Some(NodesVerb::List(args)) => list::run(args, globals),
        Some(NodesVerb::Add(args)) => add::run(args, globals),
        Some(NodesVerb::Remove(args)) => remove::run(args, globals),
    }
}
