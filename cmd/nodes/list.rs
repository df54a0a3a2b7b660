//! `nodes list`: where each node is and how it is.

use std::process::ExitCode;

use nvpair_proxy::control::client::{ControlApiClient, ControlClient};
use nvpair_proxy::wire::control::{NodeStatus, SCHEMA_VERSION, Status};
use nvpair_proxy::wire::pool::PoolStatus;
use serde::Serialize;

use crate::cli::{Globals, NodesListArgs};
use crate::connect::{attached, with_daemon};
use crate::errors::CliError;
use crate::live;
use crate::names;
use crate::output::{self, Fit, Look};
use crate::status::no_nodes;

/// What `--json` prints.
#[derive(Serialize)]
struct Listed<'a> {
    schema_version: u32,
    nodes: Vec<&'a NodeStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<PoolStatus>,
}

/// Runs it.
pub fn run(args: &NodesListArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let now = async |client: &ControlClient| client.ask(async |c| c.status().await).await;
    if args.watch {
        return attached(globals, async |client| {
            live::watch(globals, async || {
                let status = now(client).await?;
                match globals.json {
                    true => output::json_line(&listed(&status, args)),
                    false => Ok(text(&status, args, &Look::stdout(globals))),
                }
            })
            .await
        });
    }
    let status = with_daemon(globals, now)?;
    match globals.json {
        true => output::print_json(&listed(&status, args))?,
        false => output::print(&text(&status, args, &Look::stdout(globals)))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What there is of the wanted engine, or of all.
fn listed<'a>(status: &'a Status, args: &NodesListArgs) -> Listed<'a> {
    let wanted = |n: &&NodeStatus| args.engine.is_none_or(|e| e == n.engine);
    let pool = status.pool.clone().map(|mut pool| {
        let wanted = |e: &str| args.engine.is_none_or(|wanted| wanted.as_str() == e);
        pool.nodes.retain(|n| wanted(&n.engine));
        pool
    });
    Listed {
        schema_version: SCHEMA_VERSION,
        nodes: status.nodes.iter().filter(wanted).collect(),
        pool,
    }
}

fn text(status: &Status, args: &NodesListArgs, look: &Look) -> String {
    let Listed { nodes, pool, .. } = listed(status, args);
    let mut text = match nodes.is_empty() {
        true => no_nodes(status, args.engine),
        false => table(status, &nodes, look),
    };
    if let Some(pool) = &pool {
        text.push('\n');
        text.push_str(&super::pool::table(pool, look));
    }
    text
}

fn table(status: &Status, nodes: &[&NodeStatus], look: &Look) -> String {
    let row = |n: &&NodeStatus| {
        [
            names::label(status, n).to_owned(),
            n.engine.spec().display.to_owned(),
            n.kind.as_str().to_owned(),
            n.state.as_str().to_owned(),
            output::dash(n.address.as_ref()),
            n.models.len().to_string(),
            n.reason.clone().unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = nodes.iter().map(row).collect();
    let head = ["NODE", "ENGINE", "KIND", "STATE", "ADDRESS", "MODELS", ""];
    look.table(head, &rows, Fit::Fold)
}
