//! `nodes`: which nodes there are, adding and removing some, and those of the pool.
//!
//! Owns: choosing the subcommand. Leaves to others: each of them (its file).

mod add;
mod keys;
mod list;
pub mod pool;
mod remove;

use std::process::ExitCode;

use crate::cli::{Globals, NodesArgs, NodesListArgs, NodesVerb, PoolVerb};
use crate::errors::CliError;

/// Runs it.
pub fn run(args: &NodesArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    match &args.verb {
        None => list::run(&NodesListArgs::default(), globals),
        Some(NodesVerb::List(args)) => list::run(args, globals),
        Some(NodesVerb::Add(args)) => add::run(args, globals),
        Some(NodesVerb::Remove(args)) => remove::run(args, globals),
        Some(NodesVerb::Pool(PoolVerb::Drain(args))) => pool::drain(args, globals),
        Some(NodesVerb::Pool(PoolVerb::Resume(args))) => pool::resume(args, globals),
        Some(NodesVerb::Pool(PoolVerb::Reset(args))) => pool::reset(args, globals),
        Some(NodesVerb::Pool(PoolVerb::Keys(args))) => keys::run(args, globals),
    }
}
