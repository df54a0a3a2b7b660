//! `status`: facades, nodes with the terms of their load, scheduler and counts.

use std::process::ExitCode;
use std::time::Duration;

use nvpair_proxy::control::client::ControlApiClient;
use nvpair_proxy::rules::units::human_age;
use nvpair_proxy::wire::control::{NodeKind, NodeState, NodeStatus, Status};

use crate::cli::{Globals, StatusArgs};
use crate::connect::with_daemon;
use crate::errors::CliError;
use crate::names;
use crate::output::{self, Fit, Look};

/// Runs it.
pub fn run(_: &StatusArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let status = with_daemon(globals, async |client| {
        client.call(async |c| c.status().await).await
    })?;
    if globals.json {
        output::print_json(&status)?;
    } else {
        output::print(&render(&status, now_ms(), &Look::stdout(globals)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Unix milliseconds.
pub fn now_ms() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.as_millis() as u64)
}

/// The age of a moment; a clock that was set back makes it 0.
pub fn since(now_ms: u64, at: u64) -> String {
    human_age(Duration::from_millis(now_ms.saturating_sub(at)))
}

fn render(status: &Status, now_ms: u64, look: &Look) -> String {
    let mut text = look.heading("Facades");
    text.push_str(&facades(status, now_ms, look));
    text.push('\n');
    text.push_str(&look.heading("Nodes"));
    text.push_str(&nodes(status, look));
    text.push('\n');
    text.push_str(&summary(status));
    text
}

fn facades(status: &Status, now_ms: u64, look: &Look) -> String {
    if status.facades.is_empty() {
        return "  none is enabled\n".to_owned();
    }
    let rows: Vec<_> = status
        .facades
        .iter()
        .map(|f| {
            let nodes = status.nodes.iter().filter(|n| n.engine == f.engine);
            [
                f.engine.spec().display.to_owned(),
                f.port.to_string(),
                output::dash(f.pin.as_ref().map(|id| names::shown(status, id))),
                nodes.count().to_string(),
                f.in_flight.to_string(),
                since(now_ms, f.since_at),
            ]
        })
        .collect();
    let head = ["ENGINE", "PORT", "PIN", "NODES", "IN FLIGHT", "SINCE"];
    look.table(head, &rows, Fit::Cut)
}

fn nodes(status: &Status, look: &Look) -> String {
    if status.nodes.is_empty() {
        return "  none yet\n".to_owned();
    }
    let rows: Vec<_> = status.nodes.iter().map(node_row).collect();
    let head = [
        "NODE",
        "ENGINE",
        "KIND",
        "STATE",
        "LOAD",
        "= PENDING",
        "+ PRESSURE",
        "+ RESERVED",
        "MODELS",
        "WARM",
    ];
    let mut text = look.table(head, &rows, Fit::Cut);
    for node in &status.nodes {
        if let Some(reason) = &node.reason {
            let (name, reason) = (output::clean(&node.name), output::clean(reason));
            text.push_str(&format!(
                "  {name} ({}): {reason}\n",
                node.engine.spec().display
            ));
        }
    }
    text
}

fn node_row(node: &NodeStatus) -> [String; 10] {
    let kind = match node.kind {
        NodeKind::Local => "local",
        NodeKind::Manual => "manual",
        NodeKind::Peer => "peer",
        NodeKind::Sample => "sample",
    };
    let state = match node.state {
        NodeState::Healthy => "healthy",
        NodeState::Unreachable => "unreachable",
        NodeState::Unknown => "unknown",
    };
    [
        node.name.clone(),
        node.engine.spec().display.to_owned(),
        kind.to_owned(),
        state.to_owned(),
        node.load.to_string(),
        node.pending.to_string(),
        node.pressure.to_string(),
        node.reserved.to_string(),
        node.models.len().to_string(),
        output::list(&node.warm),
    ]
}

fn summary(status: &Status) -> String {
    let scheduler = match status.scheduler.age_ms {
        Some(age) => format!(
            "generation {}, {} s old",
            status.scheduler.generation,
            age / 1000
        ),
        None => format!("{}, no snapshot", output::clean(&status.scheduler.policy)),
    };
    let w = &status.workloads;
    format!(
        "Scheduler: {scheduler}.  Workloads: {} running, {} queued, {} done, {} failed, {} cancelled.\n",
        w.running, w.queued, w.completed, w.failed, w.cancelled
    )
}
