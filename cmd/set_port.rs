//! `set-port`: moves a facade.

use std::process::ExitCode;

use nvpair_proxy::control::client::ControlApiClient;
use nvpair_proxy::rules::engine::EngineId;
use nvpair_proxy::wire::control::SCHEMA_VERSION;
use serde::Serialize;

use crate::cli::{Globals, SetPortArgs};
use crate::connect::with_daemon;
use crate::errors::CliError;
use crate::output;

/// What `--json` prints.
#[derive(Serialize)]
struct Moved {
    schema_version: u32,
    engine: EngineId,
    port: u16,
}

/// Runs it. 0 is resolved here: the link and the socket take 1..65535 only.
pub fn run(args: &SetPortArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let spec = args.engine.spec();
    let port = match args.port {
        0 => spec.standalone_port,
        port => port,
    };
    let set = with_daemon(globals, async |client| {
        client
            .call(async |c| c.set_port(args.engine, i64::from(port)).await)
            .await
    })
    .map_err(|e| e.or_try("nvpair-proxy doctor          (it says who has which port)"))?;
    if globals.json {
        output::print_json(&Moved {
            schema_version: SCHEMA_VERSION,
            engine: args.engine,
            port: set.port,
        })?;
    } else if !globals.quiet {
        output::print(&format!(
            "{} listens on port {} now; clients use http://localhost:{}{}\n",
            spec.display, set.port, set.port, spec.client_base
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
