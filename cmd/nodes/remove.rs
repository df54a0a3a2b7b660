//! `nodes remove`: forgets a node that was added.

use std::process::ExitCode;

use nvpair_proxy::control::client::ControlApiClient;

use crate::cli::{Globals, NodesRemoveArgs};
use crate::connect::with_daemon;
use crate::errors::{CliError, Kind};
use crate::names;
use crate::output;

/// Runs it. The node is found here, so that an unknown one can be answered with the known ones.
pub fn run(args: &NodesRemoveArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let status = with_daemon(globals, async |client| {
        client.ask(async |c| c.status().await).await
    })?;
    let again = "nvpair-proxy nodes remove";
    let (engine, id) = names::only(&status, args.engine, &args.node, again)?;
    let gone = with_daemon(globals, async |client| {
        let id = id.as_str().to_owned();
        client.ask(async |c| c.nodes_remove(engine, id).await).await
    })
    .map_err(|e| e.or_try("nvpair-proxy nodes list"))?;
    if !gone.removed {
        let what = format!("node {id} was not added, or is gone already");
        return Err(CliError::new(Kind::Refused, output::clean(&what))
            .why("only nodes that were added can be removed")
            .try_this("nvpair-proxy nodes list"));
    }
    if globals.json {
        output::print_json(&gone)?;
    } else if !globals.quiet {
        let display = engine.spec().display;
        output::say(&format!("{display}: removed {id}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
