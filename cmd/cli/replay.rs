//! `replay`: its flags.
//!
//! Owns: what may be written. Leaves to others: running it (`replay`).

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use nvpair_proxy::rules::engine::EngineId;
use nvpair_proxy::rules::replay::Speed;
use nvpair_proxy::rules::units;

use super::facade_parser;

const REPLAY_EXAMPLES: &str = "\
Examples:
  nvpair-proxy replay --since 1h          who would get the last hour's requests now
  nvpair-proxy replay --speed 2           the same traffic twice as dense
  nvpair-proxy replay week.jsonl --engine ollama
  nvpair-proxy replay --last 50 --send --speed 4
  ssh tower nvpair-proxy workloads --export - | nvpair-proxy replay -
  nvpair-proxy replay --json | jq '.dry.nodes[] | {node, then, now}'

Without --send nothing is sent and nothing changes: each recorded arrival is decided by the running
daemon's own rules, for its nodes and pins of this moment, on a virtual clock that starts idle. Every
dispatch works there, and takes as long as the recorded one did.

With --send the daemon sends made-up requests of the same route, model and length, which ask for as
many tokens as were counted, through its own facades. They are requests like any other: engines work
for them, and they are recorded. At most 256 are under way at once. Ctrl-C ends those under way, and
what was measured until then is shown.

With --json: {schema_version, source, workloads, skipped_lines, from_at, to_at, speed, dry, sent}.
  dry:  {policy, generation, nodes: [{node, name, known, then, now, peak_in_flight}], no_owner_then,
  no_owner_now, moved: [{run_id, engine, id, model, from, to}], unowned: [{run_id, engine, id, model,
  from, reason}]}
  sent: {cancelled, sent, ended, skipped: [{reason, workloads}], shortened, late_ms, took_ms,
  recorded, replayed, failures: [{reason, requests}]}; recorded and replayed are {completed, failed,
  cancelled, completion_tokens, ttft_ms, tokens_per_second}, the last two {count, p50, p95, max}.

Exit codes: 0 done, whatever became of the requests; 1 failed, or stopped by Ctrl-C; 2 wrong usage, or
FILE is no journal; 3 no daemon reachable; 4 the daemon refused.";

/// `replay`.
#[derive(Debug, Args)]
#[command(after_help = REPLAY_EXAMPLES)]
pub struct ReplayArgs {
    /// Recording to replay, as `workloads --export` writes it or a journal's own file; - reads it
    /// from stdin [default: the daemon's own journal]
    pub file: Option<PathBuf>,
    /// Only what arrived in the last DURATION, such as 90s, 15m or 1h30m; of a FILE, in the last
    /// DURATION of the recording
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    pub since: Option<Duration>,
    /// Only the newest N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub last: Option<u32>,
    /// Only this facade's
    #[arg(long, value_parser = facade_parser())]
    pub engine: Option<EngineId>,
    /// Let requests follow each other X times as fast as recorded, 0.01 to 1000
    #[arg(long, value_name = "X", default_value_t = Speed::RECORDED)]
    pub speed: Speed,
    /// Send requests and measure, instead of only deciding
    #[arg(long)]
    pub send: bool,
}
