//! Shapes of `replay` and of the export of the journal, in the control socket's spelling.
//!
//! Owns: what `replay/*` and `workloads/export` say. Leaves to others: the records (`journal`), which
//! workloads are taken and who would get them (`rules::replay`), methods (`control::api`).

use serde::{Deserialize, Serialize};

use super::broker::WorkloadState;
use super::journal::{Framing, Record};
use crate::rules::engine::EngineId;
use crate::rules::ids::{JobId, NodeId, RunId};

pub use crate::rules::replay::{Arrival, Speed};

/// Where a replay's workloads come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The daemon's own journal and memory.
    Journal,
    /// Given with `replay/add`.
    Given,
}

/// What is replayed, and how: the parameters of `replay/start`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wanted {
    /// Where it comes from.
    pub source: Source,
    /// Only this facade's.
    pub engine: Option<EngineId>,
    /// Only what arrived in the last so many milliseconds.
    pub since_ms: Option<u64>,
    /// Only the newest so many.
    pub last: Option<usize>,
    /// Whether requests are sent.
    pub send: bool,
    /// How many times as fast they follow each other.
    pub speed: Speed,
}

/// Answer of `replay/start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayStarted {
    /// Its number, for the other calls.
    pub replay: u64,
}

/// Answer of `replay/add`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayAdded {
    /// Workloads it has now.
    pub workloads: usize,
}

/// Answer of `replay/cancel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayCancelled {
    /// Whether there was one of this number.
    pub cancelled: bool,
}

/// A notification of `replay/subscribe`: how far it is, or at the end what came of it. Exactly one
/// of the last three is there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReplayUpdate {
    /// `SCHEMA_VERSION`.
    pub schema_version: u32,
    /// How far it is; only where requests are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<ReplayProgress>,
    /// What came of it; nothing follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<ReplayReport>,
    /// Why nothing came of it; nothing follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// How far the sending is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayProgress {
    /// Requests to be sent in all.
    pub total: u64,
    /// Those that ended.
    pub done: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Requests under way.
    pub in_flight: u64,
    /// Milliseconds until the end, as far as can be told.
    pub left_ms: u64,
}

/// What came of a replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplayReport {
    /// `SCHEMA_VERSION`.
    pub schema_version: u32,
    /// Where the workloads came from.
    pub source: Source,
    /// Workloads taken.
    pub workloads: u64,
    /// Lines of the recording that could not be read.
    pub skipped_lines: u64,
    /// Unix ms of the first arrival; null without any.
    pub from_at: Option<u64>,
    /// Unix ms of the last one.
    pub to_at: Option<u64>,
    /// How many times as fast they followed each other.
    pub speed: Speed,
    /// What would happen; null where requests were sent.
    pub dry: Option<DryReport>,
    /// What happened; null where none were sent.
    pub sent: Option<SentReport>,
}

/// What would happen with the recorded traffic now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DryReport {
    /// `listed`, `weighted` or `ordered`.
    pub policy: String,
    /// The scheduler's generation; 0 for none.
    pub generation: u64,
    /// Every node that is known now or served then, by id.
    pub nodes: Vec<NodeShare>,
    /// Workloads that were dispatched nowhere then.
    pub no_owner_then: u64,
    /// Workloads that nobody would get now.
    pub no_owner_now: u64,
    /// Workloads that another node would get, by arrival.
    pub moved: Vec<Moved>,
    /// Workloads that nobody would get, by arrival.
    pub unowned: Vec<Unowned>,
}

/// One node's part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeShare {
    /// Node id.
    pub node: NodeId,
    /// Host name, for display; may be empty.
    pub name: String,
    /// Whether it is a node of an enabled facade now.
    pub known: bool,
    /// Workloads it served then.
    pub then: u64,
    /// Workloads it would get now.
    pub now: u64,
    /// Most of them at one moment.
    pub peak_in_flight: u64,
}

/// A workload that another node would get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// Run that recorded it.
    pub run_id: RunId,
    /// Facade.
    pub engine: EngineId,
    /// Number on that facade.
    pub id: JobId,
    /// Model as requested.
    pub model: String,
    /// Node that served it.
    pub from: NodeId,
    /// Node that would get it.
    pub to: NodeId,
}

/// A workload that nobody would get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unowned {
    /// Run that recorded it.
    pub run_id: RunId,
    /// Facade.
    pub engine: EngineId,
    /// Number on that facade.
    pub id: JobId,
    /// Model as requested.
    pub model: String,
    /// Node that served it, if any did.
    pub from: Option<NodeId>,
    /// Why not, in words.
    pub reason: String,
}

/// What happened to the requests that were sent. `recorded` and `replayed` are about the same
/// workloads: those whose request came to an end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SentReport {
    /// Whether it was stopped before the end.
    pub cancelled: bool,
    /// Requests that were sent.
    pub sent: u64,
    /// Those of them that came to an end.
    pub ended: u64,
    /// Workloads that could not be sent, with the reason.
    pub skipped: Vec<Skipped>,
    /// Requests shorter than the recorded ones, which were over 1 MiB.
    pub shortened: u64,
    /// Longest time that a request was sent later than its pace wanted.
    pub late_ms: u64,
    /// From the first request to the last end.
    pub took_ms: u64,
    /// As it was.
    pub recorded: Side,
    /// As it is now.
    pub replayed: Side,
    /// How the failed ones failed, most frequent first.
    pub failures: Vec<FailureCount>,
}

/// Workloads that were not sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Why, in words.
    pub reason: String,
    /// How many.
    pub workloads: u64,
}

/// Requests that failed alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureCount {
    /// How, in words: a status, or what happened to the connection.
    pub reason: String,
    /// How many.
    pub requests: u64,
}

/// One side of the comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Ended well.
    pub completed: u64,
    /// Ended badly.
    pub failed: u64,
    /// Ended by the requester.
    pub cancelled: u64,
    /// Tokens of the answers.
    pub completion_tokens: u64,
    /// Milliseconds to the first content; null where none was measured.
    pub ttft_ms: Option<Spread>,
    /// Tokens a second of an answer; null where none was measured.
    pub tokens_per_second: Option<Spread>,
}

/// How measurements are spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// How many there are.
    pub count: u64,
    /// Half of them are not above this.
    pub p50: f64,
    /// 95 in 100 are not above this.
    pub p95: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of these values, by nearest rank; none without any.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let max = *values.last()?;
        let rank = |percent: usize| values[(values.len() * percent).div_ceil(100).max(1) - 1];
        Some(Self {
            count: values.len() as u64,
            p50: rank(50),
            p95: rank(95),
            max,
        })
    }
}

/// A notification of `workloads/export`: records by arrival, in parts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExportPart {
    /// `SCHEMA_VERSION`.
    pub schema_version: u32,
    /// Some of them.
    pub records: Vec<Record>,
    /// Set on the last part.
    pub end: Option<ExportEnd>,
}

/// The end of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportEnd {
    /// Records in all parts.
    pub records: u64,
    /// Lines of the journal that could not be read.
    pub skipped_lines: u64,
}

impl From<&Record> for Arrival {
    fn from(record: &Record) -> Self {
        let last = record.attempts.last();
        // A file may hold any numbers.
        let dispatched = record
            .created_at
            .saturating_add(last.map_or(0, |a| a.at_ms));
        Self {
            run_id: record.run_id.clone(),
            engine: record.engine,
            id: record.id,
            model: record.model.clone(),
            path: record.path.clone(),
            body_bytes: record.body_bytes,
            created_at: record.created_at,
            held_ms: record.ended_at.saturating_sub(dispatched),
            state: record.state,
            status: record.status,
            streamed: record.framing.map(|f| f != Framing::Json),
            node: last.map(|a| a.node.clone()),
            stats: record.stats.clone(),
        }
    }
}

impl Side {
    /// Counts one that ended so.
    pub fn count(&mut self, state: WorkloadState) {
        match state {
            WorkloadState::Completed => self.completed += 1,
            WorkloadState::Cancelled => self.cancelled += 1,
            _ => self.failed += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::journal::{Attempt, AttemptOutcome, VERSION};

    #[test]
    fn a_record_becomes_an_arrival_that_was_held_from_its_last_dispatch_on() {
        let attempt = |node: &str, at_ms| Attempt {
            node: node.into(),
            at_ms,
            load: [0; 3],
            outcome: AttemptOutcome::Refused,
            status: None,
        };
        let mut record = Record {
            v: VERSION,
            run_id: RunId::from_bytes([1; 8]),
            engine: EngineId::parse("ollama").unwrap(),
            id: JobId(7),
            model: "m".into(),
            path: "/api/chat".into(),
            body_bytes: 9,
            created_at: 1000,
            started_at: None,
            ended_at: 1900,
            state: WorkloadState::Completed,
            status: Some(200),
            error: None,
            framing: Some(Framing::Ndjson),
            attempts: vec![attempt("a", 1), attempt("b", 400)],
            stats: None,
        };
        let a = Arrival::from(&record);
        assert_eq!((a.held_ms, a.node.as_ref().unwrap().as_str()), (500, "b"));
        assert_eq!((a.streamed, a.id), (Some(true), JobId(7)));
        record.attempts.clear();
        record.framing = Some(Framing::Json);
        record.ended_at = 0;
        let a = Arrival::from(&record);
        assert_eq!((a.held_ms, a.node, a.streamed), (0, None, Some(false)));
    }

    #[test]
    fn a_spread_is_by_nearest_rank() {
        assert_eq!(Spread::of(vec![]), None);
        let of = |n: u32| Spread::of((1..=n).rev().map(f64::from).collect()).unwrap();
        let told = |s: Spread| (s.count, s.p50, s.p95, s.max);
        assert_eq!(told(of(1)), (1, 1.0, 1.0, 1.0));
        assert_eq!(told(of(2)), (2, 1.0, 2.0, 2.0));
        assert_eq!(told(of(100)), (100, 50.0, 95.0, 100.0));
    }
}
