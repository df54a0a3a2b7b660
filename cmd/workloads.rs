//! `workloads`: recent and live requests, or the timeline of one.

use std::process::ExitCode;

use nvpair_proxy::control::client::{ControlApiClient, ControlClient};
use nvpair_proxy::rules::nearest::nearest;
use nvpair_proxy::rules::units::human_size;
use nvpair_proxy::wire::control::{ModelEntry, TimelineEntry, Workload, WorkloadList};

use crate::cli::{Globals, WorkloadRef, WorkloadsArgs};
use crate::clock::since;
use crate::connect::{attached, with_daemon};
use crate::errors::{CliError, Kind};
use crate::export;
use crate::follow;
use crate::names;
use crate::output::{self, Fit, Look};
use nvpair_proxy::wall_clock::unix_ms;

/// As many as fit on a screen or two.
const DEFAULT_LIMIT: usize = 50;

/// Runs it.
pub fn run(args: &WorkloadsArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let look = Look::stdout(globals);
    if let Some(file) = &args.export {
        return export::run(file, args, globals);
    }
    if args.follow {
        return follow::run(args, globals);
    }
    if let Some(wanted) = &args.id {
        let list = one(args, wanted, globals)?;
        match globals.json {
            true => output::print_json(&list)?,
            false => output::print(&timeline(&list.workloads[0], &look))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (list, hint) = attached(globals, async |client| {
        let list = recent(args, client).await?;
        let hint = match list.workloads.is_empty() && !globals.quiet {
            true => unknown_model(args, client).await?,
            false => None,
        };
        Ok((list, hint))
    })?;
    match globals.json {
        true => output::print_json(&list)?,
        false => output::print(&table(&list.workloads, unix_ms(), &look))?,
    }
    if let Some(hint) = hint {
        output::note(&hint);
    }
    Ok(ExitCode::SUCCESS)
}

/// The id of the node that `--node` means, or the error that lists the nodes. One that left is still
/// known by its id, as long as a workload of it is.
pub async fn node_id(
    args: &WorkloadsArgs,
    client: &ControlClient,
) -> Result<Option<String>, CliError> {
    let Some(word) = &args.node else {
        return Ok(None);
    };
    let status = client.ask(async |c| c.status().await).await?;
    let again = "nvpair-proxy workloads --node";
    match names::among(&status, args.engine, word, again) {
        Ok(id) => Ok(Some(id.as_str().to_owned())),
        Err(unknown) => {
            let of = Some(word.clone());
            let left = client
                .ask(async |c| c.workloads_list(args.engine, None, None, of, Some(1)).await)
                .await?;
            match left.workloads.is_empty() {
                true => Err(unknown),
                false => Ok(Some(word.clone())),
            }
        },
    }
}

async fn recent(args: &WorkloadsArgs, client: &ControlClient) -> Result<WorkloadList, CliError> {
    let node = node_id(args, client).await?;
    let limit = Some(args.limit.unwrap_or(DEFAULT_LIMIT));
    let list = client
        .ask(async |c| {
            c.workloads_list(args.engine, args.state, args.model.clone(), node, limit)
                .await
        })
        .await?;
    Ok(list)
}

/// What to say where nothing matches a model that no node has; it may be mistyped.
async fn unknown_model(
    args: &WorkloadsArgs,
    client: &ControlClient,
) -> Result<Option<String>, CliError> {
    let Some(model) = &args.model else {
        return Ok(None);
    };
    let all = client
        .ask(async |c| c.models_list(args.engine, None).await)
        .await?;
    let same = |m: &ModelEntry| {
        let naming = m.engine.spec().naming;
        naming.normalize(&m.model) == naming.normalize(model)
    };
    if all.models.iter().any(same) {
        return Ok(None);
    }
    let near = nearest(model, all.models.iter().map(|m| m.model.as_str()), 3);
    let near = match near.is_empty() {
        true => String::new(),
        false => format!("; nearest: {}", near.join(", ")),
    };
    Ok(Some(output::clean(&format!("no node has {model:?}{near}"))))
}

/// The list with exactly the one workload that is meant.
fn one(
    args: &WorkloadsArgs,
    wanted: &WorkloadRef,
    globals: &Globals,
) -> Result<WorkloadList, CliError> {
    let engine = wanted.engine.or(args.engine);
    let mut list = with_daemon(globals, async |client| {
        client
            .ask(async |c| c.workloads_get(engine, wanted.id).await)
            .await
    })
    .map_err(|e| e.or_try("nvpair-proxy workloads          (the recent ones)"))?;
    if let Some(run) = &wanted.run {
        list.workloads.retain(|w| w.run_id.as_str() == run);
    }
    match list.workloads.as_slice() {
        [_] => Ok(list),
        [] => Err(CliError::new(
            Kind::Refused,
            format!("no workload {} in that run", wanted.id),
        )
        .why("the daemon keeps only this run's recent workloads")
        .try_this("nvpair-proxy workloads")),
        [first, ..] => {
            let all: Vec<_> = list
                .workloads
                .iter()
                .map(|w| format!("{}/{} ({}, {})", w.engine, w.id, w.model, w.state.as_str()))
                .collect();
            let what = format!("{} facades have a workload {}", all.len(), wanted.id);
            Err(CliError::new(Kind::Refused, what)
                .why(output::clean(&all.join(", ")))
                .try_this(format!(
                    "nvpair-proxy workloads {}/{}",
                    first.engine, first.id
                )))
        },
    }
}

/// Columns of the table; the last one is the reason of a failure.
pub const HEAD: [&str; 10] = [
    "ID", "ENGINE", "MODEL", "STATE", "NODE", "AGE", "TTFT", "TOKENS", "TOK/S", "",
];

/// Workloads, a row each.
pub fn table(workloads: &[Workload], now_ms: u64, look: &Look) -> String {
    if workloads.is_empty() {
        return "  none\n".to_owned();
    }
    let rows: Vec<_> = workloads.iter().map(|w| row(w, now_ms)).collect();
    look.table(HEAD, &rows, Fit::Fold)
}

/// The cells of one.
pub fn row(w: &Workload, now_ms: u64) -> [String; 10] {
    let stats = w.stats.clone().unwrap_or_default();
    let ttft_ms = stats
        .ttft_ms
        .or_else(|| Some(w.started_at?.saturating_sub(w.created_at)));
    [
        w.id.to_string(),
        w.engine.spec().display.to_owned(),
        w.model.clone(),
        w.state.as_str().to_owned(),
        output::dash(w.node.as_ref()),
        since(now_ms, w.created_at),
        output::dash(ttft_ms.map(|ms| format!("{:.2}s", ms as f64 / 1000.0))),
        output::dash(stats.completion_tokens),
        output::dash(stats.tokens_per_second.map(|t| format!("{t:.1}"))),
        w.error.clone().unwrap_or_default(),
    ]
}

fn timeline(w: &Workload, look: &Look) -> String {
    // Inference routes are POST, all of them.
    let title = format!(
        "Workload {} · {} · {} · POST {} · {}",
        w.id,
        w.engine.spec().display,
        w.model,
        w.path,
        human_size(w.body_bytes)
    );
    let mut text = look.heading(&output::clean(&title));
    let node = |e: &TimelineEntry| e.node.as_ref().map_or(0, |n| n.as_str().chars().count());
    let wide = w.timeline.iter().map(node).max().unwrap_or(0);
    for entry in &w.timeline {
        let at = entry.at_ms as f64 / 1000.0;
        let node = entry.node.as_ref().map_or("", |n| n.as_str());
        let line = format!(
            "  +{at:<6.3}  {:<10}  {node:<wide$}  {}",
            entry.event,
            detail(entry)
        );
        text.push_str(output::clean(&line).trim_end());
        text.push('\n');
    }
    text
}

fn detail(entry: &TimelineEntry) -> String {
    let load = entry.load.map(|[pending, pressure, reserved]| {
        let load = pending + pressure + reserved;
        format!("load {load} (pending {pending} + pressure {pressure} + reserved {reserved})")
    });
    let parts: Vec<_> = load.into_iter().chain(entry.detail.clone()).collect();
    parts.join(", ")
}
