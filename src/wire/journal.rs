//! One line of the journal: what is kept of a finished workload (product section 6).
//!
//! Owns: the record and its version. Leaves to others: the files (`store::journal`), when a record is
//! made (`state::workloads`). Operational data only: never a prompt, a message, an answer or a header.

mod entry;

use serde::{Deserialize, Serialize};

use super::broker::{Stats, WorkloadState};
use crate::rules::engine::EngineId;
use crate::rules::ids::{JobId, NodeId, RunId};
use crate::rules::media_type::{EVENT_STREAM, essence};
use crate::rules::outcome::Failure;

pub use entry::Entry;

/// Version of a line. Raised when a field changes its meaning or goes.
pub const VERSION: u32 = 1;

/// How an answer was framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Framing {
    /// An event stream.
    Sse,
    /// A line of JSON each.
    Ndjson,
    /// One document.
    Json,
}

impl Framing {
    /// The framing that a `Content-Type` tells; anything unknown counts as one document.
    pub fn of(content_type: Option<&[u8]>) -> Self {
        let essence = essence(content_type.unwrap_or_default());
        let is = |kind: &[u8]| essence.eq_ignore_ascii_case(kind);
        if is(EVENT_STREAM) {
            Self::Sse
        } else if is(b"application/x-ndjson") || is(b"application/jsonl") {
            Self::Ndjson
        } else {
            Self::Json
        }
    }
}

/// What became of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttemptOutcome {
    /// Its answer went to the client.
    Committed,
    /// A status that is worth another node.
    Refused,
    /// No connection, or it broke before headers.
    Unreachable,
    /// No headers in time.
    NoHeaders,
    /// Headers, then no content in time.
    NoContent,
    /// Headers, then the connection broke.
    Broken,
    /// The node left discovery.
    NodeGone,
    /// The request ended while it was under way.
    Abandoned,
}

impl From<Failure> for AttemptOutcome {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Status(_) => Self::Refused,
            Failure::Transport => Self::Unreachable,
            Failure::NoHeaders => Self::NoHeaders,
            Failure::NoContent => Self::NoContent,
            Failure::Broken => Self::Broken,
            Failure::TargetGone => Self::NodeGone,
        }
    }
}

/// One try on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt<N = NodeId> {
    /// The node.
    pub node: N,
    /// Milliseconds from arrival to its dispatch.
    pub at_ms: u64,
    /// Load of the node then: pending, pressure, reserved.
    pub load: [u64; 3],
    /// What became of it.
    pub outcome: AttemptOutcome,
    /// HTTP status, if it got that far.
    pub status: Option<u16>,
}

impl<N> Attempt<N> {
    /// The same one, with its node told otherwise.
    pub fn on<M>(&self, node: M) -> Attempt<M> {
        Attempt {
            node,
            at_ms: self.at_ms,
            load: self.load,
            outcome: self.outcome,
            status: self.status,
        }
    }
}

/// A finished workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`VERSION`].
    pub v: u32,
    /// The daemon's run.
    pub run_id: RunId,
    /// Facade.
    pub engine: EngineId,
    /// Number on that facade.
    pub id: JobId,
    /// Model as requested.
    pub model: String,
    /// Path of its route.
    pub path: String,
    /// Length of the request body.
    pub body_bytes: u64,
    /// Unix ms of arrival.
    pub created_at: u64,
    /// Unix ms of commit.
    pub started_at: Option<u64>,
    /// Unix ms of the end.
    pub ended_at: u64,
    /// State at the end.
    pub state: WorkloadState,
    /// HTTP status the client got.
    pub status: Option<u16>,
    /// Why it failed or was cancelled; normalised, never content.
    pub error: Option<String>,
    /// Framing of the answer, once committed.
    pub framing: Option<Framing>,
    /// Every attempt, in order.
    pub attempts: Vec<Attempt>,
    /// What was measured of the answer.
    pub stats: Option<Stats>,
}

/// Why a line is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// It is one of another version.
    #[error("its format is version {0}; this one reads version {VERSION}")]
    Version(u64),
    /// It is none, or a part of one.
    #[error("it is no record of a journal")]
    Malformed,
}

impl Record {
    /// Reads one line of a journal, without its end.
    ///
    /// # Errors
    /// It is no record of this version.
    pub fn parse(line: &[u8]) -> Result<Self, LineError> {
        match serde_json::from_slice::<Self>(line) {
            Ok(record) if record.v == VERSION => Ok(record),
            // Another version may have other fields.
            _ => Err(Self::why_not(line)),
        }
    }

    fn why_not(line: &[u8]) -> LineError {
        #[derive(Deserialize)]
        struct Versioned {
            v: u64,
        }
        match serde_json::from_slice(line) {
            Ok(Versioned { v }) if v != u64::from(VERSION) => LineError::Version(v),
            _ => LineError::Malformed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_another_version_is_told_from_one_that_is_torn() {
        let why = |line: &str| Record::parse(line.as_bytes()).unwrap_err();
        assert_eq!(why(r#"{"v":2,"something":"new"}"#), LineError::Version(2));
        for line in [
            r#"{"v":1,"run_id":"00"#,
            r#"{"v":1}"#,
            r#"{"v":"1"}"#,
            "",
            "[]",
            "x",
        ] {
            assert_eq!(why(line), LineError::Malformed, "{line}");
        }
    }

    #[test]
    fn the_framing_follows_the_content_type() {
        for (kind, want) in [
            (Some("text/event-stream; charset=utf-8"), Framing::Sse),
            (Some("Application/X-NDJSON"), Framing::Ndjson),
            (Some("application/json"), Framing::Json),
            (None, Framing::Json),
        ] {
            assert_eq!(Framing::of(kind.map(str::as_bytes)), want, "{kind:?}");
        }
    }
}
