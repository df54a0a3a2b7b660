//! The subcommands that only look: `status`, `workloads`, `models`, `providers`,
//! `route`, `healthcheck`.
//!
//! Owns: their flags, and how a workload is named. Leaves to others: running them (their files).

use std::path::PathBuf;

use clap::Args;
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser};
use nvpair_proxy::config::kinds::facade_named as engine;
use nvpair_proxy::rules::engine::EngineId;
use nvpair_proxy::rules::ids::JobId;
use nvpair_proxy::wire::broker::WorkloadState;

use super::facade_parser;

const STATUS_EXAMPLES: &str = "\
Examples:
  nvpair-proxy status
  nvpair-proxy status --watch             again every second, in place
  nvpair-proxy status --json | jq '.nodes[] | {id, load}'
  nvpair-proxy status --watch --json      JSON Lines: one document a second

With --json: {schema_version,
  daemon: {version, pid, mode, run_id, started_at, socket},
  facades: [{engine, port, aliases: [], pin, in_flight, since_at}],
  nodes: [{id, name, engine, kind, state, reason?, address?, pending, pressure, reserved, load,
    models: [], warm: []}],
  scheduler: {policy, generation, age_ms},
  workloads: {queued, running, completed, failed, cancelled}, providers: [],
  door: {allowed_hosts: [], allowed_origins, allowed_cidrs: [], client_keys}, pool,
  telemetry?: {collector?, problem?, sent, queued, dropped, admin?}}
providers are as `providers --json` has them, pool as `nodes list --json`, or null. Times end in _at (Unix ms), spans in _ms;
load = pending + pressure + reserved.";

/// `status`.
#[derive(Debug, Args)]
#[command(after_help = STATUS_EXAMPLES)]
pub struct StatusArgs {
    /// Show it again every second, until Ctrl-C; redrawn in place on a terminal
    #[arg(long)]
    pub watch: bool,
}

const WORKLOADS_EXAMPLES: &str = "\
Examples:
  nvpair-proxy workloads --limit 10
  nvpair-proxy workloads --state failed --engine ollama
  nvpair-proxy workloads 90               its timeline, if only one facade has a 90
  nvpair-proxy workloads ollama/90
  nvpair-proxy workloads --follow         changes as they happen, until Ctrl-C
  nvpair-proxy workloads --export week.jsonl          for `replay` here or elsewhere
  nvpair-proxy workloads --export - --model qwen3:8b | gzip > qwen.jsonl.gz
  nvpair-proxy workloads --follow --json | jq -c 'select(.workload.state == \"failed\")'

With --json: {schema_version, workloads: [{engine, id, run_id, model, path, body_bytes, state, node,
  created_at, started_at, ended_at, status, error, stats,
  timeline?: [{at_ms, event, node?, load?, detail?}]}]}
timeline is there with an ID only; stats, once ended, are as on the broker link.

A line of --follow --json is {schema_version, seq, missed, workload}: seq counts the changes of that
workload from 1; missed is above 0 where this reader was too slow, and so many changes of any
workload are not there.

--export writes what the journal has of finished workloads, a line of JSON each, oldest first: times,
engine, model, path, length, nodes tried, outcome and counts, never content. The file is for its owner
only (0600) and appears whole or not at all; an earlier export of that name is replaced, any other file
is not. With --json, into a file: {schema_version, file, records, skipped_lines}";

/// `workloads`.
#[derive(Debug, Args)]
#[command(after_help = WORKLOADS_EXAMPLES)]
pub struct WorkloadsArgs {
    /// Show the timeline of this one: ENGINE/ID, or ID where it is unique
    #[arg(value_name = "ID", value_parser = workload_ref)]
    #[arg(conflicts_with_all = ["state", "model", "node", "limit", "follow", "export"])]
    pub id: Option<WorkloadRef>,
    /// Only this facade
    #[arg(long, value_parser = facade_parser())]
    pub engine: Option<EngineId>,
    /// Only those in this state
    #[arg(long, value_parser = state_parser())]
    pub state: Option<WorkloadState>,
    /// Only those for this model
    #[arg(long)]
    pub model: Option<String>,
    /// Only those on this node, by id or by a name that only one node has
    #[arg(long)]
    pub node: Option<String>,
    /// At most so many, newest first [default: 50]; with --follow, rows on a terminal; with --export,
    /// the newest [default: all]
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Show changes as they happen, until Ctrl-C: on a terminal the newest ones in place, in a pipe a
    /// line for each change from now on
    #[arg(long)]
    pub follow: bool,
    /// Write the records of finished ones to FILE, for `replay`; - writes them to stdout
    #[arg(long, value_name = "FILE", conflicts_with = "follow")]
    pub export: Option<PathBuf>,
}

/// One workload on the command line: `90`, `ollama/90` or `RUN/ollama/90`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadRef {
    /// Run id.
    pub run: Option<String>,
    /// Its facade.
    pub engine: Option<EngineId>,
    /// Its number.
    pub id: JobId,
}

const MODELS_EXAMPLES: &str = "\
Examples:
  nvpair-proxy models
  nvpair-proxy models --engine ollama --loaded

With --json: {schema_version, models: [{engine, model, owners: [], loaded: [], context_length}]}";

/// `models`.
#[derive(Debug, Args)]
#[command(after_help = MODELS_EXAMPLES)]
pub struct ModelsArgs {
    /// Only this facade
    #[arg(long, value_parser = facade_parser())]
    pub engine: Option<EngineId>,
    /// Only models that some node has in memory
    #[arg(long)]
    pub loaded: bool,
}

const PROVIDERS_EXAMPLES: &str = "\
Examples:
  nvpair-proxy providers
  nvpair-proxy providers --json | jq -c '.providers[] | {name, state, cool_down_ms}'

STATE is ready, cooling down (it answered 429), open (it failed 5 times in a row) or half-open (one
request at a time tries it). STANDING is its place in the order of now: lowest tier first, then least
penalty. A penalty is halved by each minute without a failure. FAILED, REQUESTS and 429 count since
the start.

With --json: {schema_version, providers: [{name, base_url, tier, state, standing, penalty_ms,
  cool_down_ms, failures_in_a_row, failures, last_failure: {text, age_ms}, requests, limited,
  models: []}]}
state is ready, cooling_down, open or half_open; standing and last_failure may be null.";

/// `providers`.
#[derive(Debug, Args)]
#[command(after_help = PROVIDERS_EXAMPLES)]
pub struct ProvidersArgs {}

const ROUTE_EXAMPLES: &str = "\
Examples:
  nvpair-proxy route --engine ollama --model qwen3:8b
  nvpair-proxy route --engine ollama --model qwen3:8b --json | jq '.candidates[].node'

With --json: {schema_version, engine, model, policy, generation, pin,
  candidates: [{node, name, address, pending, pressure, reserved, in_flight, load, slots, weight,
    ttft_ms?, tokens_per_second?, warm, pinned}],
  excluded: [{node, name, reason, near?}], nearest?}
candidates are in the order in which they would be tried.";

/// `route`.
#[derive(Debug, Args)]
#[command(after_help = ROUTE_EXAMPLES)]
pub struct RouteArgs {
    /// Engine of the facade
    #[arg(long, value_parser = facade_parser())]
    pub engine: EngineId,
    /// Model, as a request would name it
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub model: String,
}

const HEALTHCHECK_EXAMPLES: &str = "\
Examples:
  nvpair-proxy healthcheck && echo serves
  nvpair-proxy healthcheck ollama         only if the Ollama facade listens
  HEALTHCHECK CMD [\"nvpair-proxy\", \"healthcheck\"]        in a Dockerfile

With --json: {schema_version, healthy, reason?}

Exit codes:
  0  healthy
  1  no facade, or a named one, does not listen
  2  wrong usage
  3  no daemon reachable

Nodes that are down do not count: restarting the daemon would not bring them back.";

/// `healthcheck`.
#[derive(Debug, Args)]
#[command(after_help = HEALTHCHECK_EXAMPLES)]
pub struct HealthcheckArgs {
    /// Facades that must listen [default: at least one; under a broker none]
    #[arg(value_name = "ENGINE", value_parser = facade_parser())]
    pub engines: Vec<EngineId>,
}

/// Every state, in the order of a life.
const STATES: [WorkloadState; 5] = [
    WorkloadState::Queued,
    WorkloadState::Running,
    WorkloadState::Completed,
    WorkloadState::Failed,
    WorkloadState::Cancelled,
];

fn state_parser() -> impl TypedValueParser<Value = WorkloadState> {
    PossibleValuesParser::new(STATES.map(WorkloadState::as_str)).try_map(|s| {
        let state = STATES.into_iter().find(|state| state.as_str() == s);
        state.ok_or("no such state")
    })
}

fn workload_ref(text: &str) -> Result<WorkloadRef, String> {
    let mut parts = text.rsplit('/');
    let id = parts
        .next()
        .and_then(|id| id.parse().ok())
        .ok_or_else(|| format!("{text:?} is no workload; write ID or ENGINE/ID"))?;
    let engine = parts.next().map(engine).transpose()?;
    let run = parts.next().map(str::to_owned);
    if parts.next().is_some() {
        return Err(format!(
            "{text:?} is no workload; write RUN/ENGINE/ID at most"
        ));
    }
    Ok(WorkloadRef {
        run,
        engine,
        id: JobId(id),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ollama() -> EngineId {
        EngineId::parse("ollama").unwrap()
    }

    #[test]
    fn workloads_are_named_with_or_without_engine_and_run() {
        let plain = workload_ref("90").unwrap();
        assert_eq!((plain.run, plain.engine, plain.id), (None, None, JobId(90)));
        assert_eq!(workload_ref("ollama/90").unwrap().engine, Some(ollama()));
        assert_eq!(
            workload_ref("00ff/ollama/90").unwrap().run,
            Some("00ff".to_owned())
        );
        for bad in ["", "x", "ollama/", "vllm/1", "a/b/ollama/1", "-1"] {
            assert!(workload_ref(bad).is_err(), "{bad:?}");
        }
    }
}
