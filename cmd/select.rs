//! `select`: pins a facade to a node, or removes the pin.

use std::process::ExitCode;

use nvpair_proxy::control::client::ControlApiClient;
use nvpair_proxy::rules::engine::EngineId;
use nvpair_proxy::wire::control::SCHEMA_VERSION;
use serde::Serialize;

use crate::cli::{Globals, SelectArgs};
use crate::connect::with_daemon;
use crate::errors::{CliError, Kind};
use crate::names;
use crate::output;

/// What `--json` prints.
#[derive(Serialize)]
struct Pin<'a> {
    schema_version: u32,
    engine: EngineId,
    /// None = automatic.
    pin: Option<&'a str>,
}

/// Runs it. The node is found here, so that an unknown one can be answered with the known ones.
pub fn run(args: &SelectArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let engine = args.engine;
    let status = with_daemon(globals, async |client| {
        client.ask(async |c| c.status().await).await
    })?;
    if !status.facades.iter().any(|f| f.engine == engine) {
        let display = engine.spec().display;
        return Err(CliError::new(
            Kind::Refused,
            format!("the {display} facade is not enabled"),
        )
        .why("a pin belongs to an enabled facade")
        .try_this("nvpair-proxy status          (it lists the enabled facades)"));
    }
    let id = match &args.node {
        Some(word) => {
            let again = format!("nvpair-proxy select {engine}");
            names::node_of(&status, engine, word, &again)?
                .as_str()
                .to_owned()
        },
        None => String::new(),
    };
    let pinned = with_daemon(globals, async |client| {
        client.call(async |c| c.node_select(engine, id).await).await
    })
    .map_err(|e| e.or_try("nvpair-proxy nodes list"))?;
    if globals.json {
        output::print_json(&Pin {
            schema_version: SCHEMA_VERSION,
            engine,
            pin: (!pinned.id.is_empty()).then_some(pinned.id.as_str()),
        })?;
    } else if !globals.quiet {
        let display = engine.spec().display;
        output::say(&match pinned.id.as_str() {
            "" => format!("{display}: automatic, no pin"),
            id => format!("{display}: pinned to {}", names::shown(&status, &id.into())),
        })?;
    }
    Ok(ExitCode::SUCCESS)
}
