//! `set-port`: moves a facade.

use std::process::ExitCode;

use nvpair_proxy::control::client::ControlApiClient;

use crate::cli::{Globals, SetPortArgs};
use crate::connect::with_daemon;
use crate::errors::CliError;
use crate::output;

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
    })?;
    if globals.json {
        output::print_json(&set)?;
    } else if !globals.quiet {
        output::print(&format!(
            "{} listens on port {} now; clients use http://localhost:{}{}\n",
            spec.display, set.port, set.port, spec.client_base
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
