//! The `nvpair-proxy` command: reads the command line, runs one subcommand, gives its exit code.
//!
//! Owns: start and end of the process. Leaves to others: everything else. No decisions here; this
//! is the only crate that prints.

mod agent;
mod argv;
mod cli;
mod clients;
mod clock;
mod complete;
mod completions;
mod config;
mod connect;
mod demo_engine;
mod doctor;
mod errors;
mod export;
mod fold;
mod follow;
mod generate;
mod healthcheck;
mod keys;
mod live;
mod man;
mod models;
mod names;
mod nodes;
mod output;
mod providers;
mod replay;
mod route;
mod runtime;
mod select;
mod serve;
mod set_port;
mod status;
mod units;
mod workloads;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use crate::argv::Invocation;
use crate::cli::{Cli, Verb};
use crate::errors::CliError;

/// A request makes and frees some dozens of small things; this allocator does it in about half the
/// time of the system's (measured per request, in the commit that brought it).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = match argv::normalise(std::env::args_os(), std::io::stdin().is_terminal()) {
        Invocation::Parse(args) => args,
        Invocation::Help => {
            return output::told(Cli::command().print_long_help())
                .map_or_else(|e| e.report(false), |_| ExitCode::SUCCESS);
        },
    };
    // Help and usage errors are printed before the flag is parsed.
    let command = Cli::command().color(argv::color(&args));
    let parsed = command.try_get_matches_from(args);
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(told) => {
            // Help and version come this way too, with code 0.
            let code = ExitCode::from(u8::try_from(told.exit_code()).unwrap_or(1));
            return match output::told(told.print()) {
                Err(e) if !told.use_stderr() => e.report(false),
                _ => code,
            };
        },
    };
    dispatch(&cli).unwrap_or_else(|error| error.report(output::stderr_color(&cli.globals)))
}

fn dispatch(cli: &Cli) -> Result<ExitCode, CliError> {
    let globals = &cli.globals;
    match &cli.verb {
        Verb::Serve(args) => serve::run(args, globals),
        Verb::Status(args) => status::run(args, globals),
        Verb::Select(args) => select::run(args, globals),
        Verb::SetPort(args) => set_port::run(args, globals),
        Verb::Workloads(args) => workloads::run(args, globals),
        Verb::Models(args) => models::run(args, globals),
        Verb::Providers(_) => providers::run(globals),
        Verb::Route(args) => route::run(args, globals),
        Verb::Nodes(args) => nodes::run(args, globals),
        Verb::Keys(args) => keys::run(args, globals),
        Verb::Agent(args) => agent::run(args, globals),
        Verb::Doctor(args) => doctor::run(args, globals),
        Verb::Replay(args) => replay::run(args, globals),
        Verb::Config(args) => config::run(args, globals),
        Verb::Healthcheck(args) => healthcheck::run(args, globals),
        Verb::Completions(args) => completions::run(args, globals),
        Verb::Complete(args) => complete::run(args, globals),
        Verb::Generate(args) => generate::run(args, globals),
        Verb::DemoEngine(args) => demo_engine::run(args, globals),
    }
}
