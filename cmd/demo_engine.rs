//! `demo-engine`: runs one sample engine, alone or with a llama-server behind it.

use std::process::ExitCode;

use anyhow::Context;
use nvpair_proxy::demo::{self, DialectConfig};

use crate::cli::{DemoEngineArgs, Globals};
use crate::errors::CliError;
use crate::runtime;

/// Runs it until it is told to stop.
pub fn run(args: &DemoEngineArgs, _: &Globals) -> Result<ExitCode, CliError> {
    let config = DialectConfig {
        engine: args.engine,
        name: args.name.clone(),
        models: args.models.clone(),
        token_delay: args.token_delay,
        refuse_every: args.refuse_every,
        behind: args.behind.clone(),
        listen: args.listen,
    };
    runtime::single()?
        .block_on(demo::run_single(config))
        .context("the sample engine ended")?;
    Ok(ExitCode::SUCCESS)
}
