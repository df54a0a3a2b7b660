//! One usage event: what is told of a finished request to whoever counts usage (product section 7).
//!
//! Owns: the shape, and how it follows from a journal's record. Leaves to others: its id and the moment
//! (`daemon::usage`), the file (`store::usage_file`), the collector (`net::usage_collector`).
//! Operational data only: never a prompt, a message, an answer or a header.

use serde::{Deserialize, Serialize};

use super::journal::{AttemptOutcome, Entry};
use crate::rules::engine::EngineId;
use crate::rules::ids::{JobId, NodeId, RunId};
use crate::rules::workload::State;

/// Version of an event. Raised when a field changes its meaning or goes.
pub const VERSION: u32 = 1;

/// Who did the work, where it was no provider: the fleet.
pub const VENDOR: &str = "local";

/// Characters of a model's name. It is what a client wrote.
const MODEL: usize = 256;

/// Who a target of a request is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// A node, and the name of the key that it registered with, if it has one.
    Node(Option<String>),
    /// A provider.
    Provider,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UsageStatus {
    /// Answered below 300, to the end or as far as the node came.
    Success,
    /// Answered otherwise, or by ourselves.
    Error,
    /// The client left, or the daemon ended.
    Cancelled,
    /// No node answered in time.
    Timeout,
}

/// One finished request. A request that was tried on several nodes is one event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsageEvent {
    /// [`VERSION`].
    pub v: u32,
    /// UUID, version 4. The same event sent again has the same id.
    pub event_id: String,
    /// When the request ended, in RFC 3339, UTC, with milliseconds.
    pub occurred_at: String,
    /// [`VENDOR`], or the name of the provider that served it.
    pub vendor: String,
    /// Name of the key it counts for: the client's, else that of the node which served it. Absent where
    /// there is neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Facade.
    pub engine: EngineId,
    /// The node that served it last; absent where none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// Model as requested, cut to 256 characters.
    pub model: String,
    /// The daemon's run.
    pub run_id: RunId,
    /// Number of the request on its facade in that run.
    pub request_id: JobId,
    /// How it ended.
    pub status: UsageStatus,
    /// Status the client got; absent if it left before any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
    /// Tries on nodes.
    pub attempts: u32,
    /// Tokens of the prompt, where told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u64>,
    /// Tokens of the answer, where told or counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_tokens: Option<u64>,
    /// The answer's tokens were counted from events, not reported.
    pub estimated: bool,
    /// Milliseconds from arrival to the end.
    pub duration_ms: u64,
    /// Milliseconds from arrival to the first byte of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<u64>,
}

impl UsageEvent {
    /// The event of a finished workload. `who` tells nodes from providers.
    pub fn of(
        record: &Entry<'_>,
        event_id: String,
        occurred_at: String,
        who: impl FnOnce(&NodeId) -> Served,
    ) -> Self {
        let last = record.attempts.last();
        let node = last.map(|a| a.node).cloned();
        let stats = record.stats;
        let (vendor, key) = match node.as_ref().map(|n| (n, who(n))) {
            Some((provider, Served::Provider)) => (provider.as_str(), None),
            Some((_, Served::Node(key))) => (VENDOR, key),
            None => (VENDOR, None),
        };
        let vendor = vendor.to_owned();
        Self {
            v: VERSION,
            event_id,
            occurred_at,
            vendor,
            key: record.client.map(str::to_owned).or(key),
            engine: record.engine,
            node,
            model: record.model.chars().take(MODEL).collect(),
            run_id: record.run_id.clone(),
            request_id: record.id,
            status: status(record),
            http_status: record.status,
            attempts: u32::try_from(record.attempts.len()).unwrap_or(u32::MAX),
            prompt_tokens: stats.and_then(|s| s.prompt_tokens),
            completion_tokens: stats.and_then(|s| s.completion_tokens),
            estimated: stats.is_some_and(|s| s.estimated),
            duration_ms: record.ended_at.saturating_sub(record.created_at),
            ttft_ms: stats.and_then(|s| s.ttft_ms),
        }
    }
}

fn status(record: &Entry<'_>) -> UsageStatus {
    let too_slow = |outcome| {
        matches!(
            outcome,
            AttemptOutcome::NoHeaders | AttemptOutcome::NoContent
        )
    };
    let last = record.attempts.last().map(|a| a.outcome);
    match record.state {
        State::Completed => UsageStatus::Success,
        State::Cancelled => UsageStatus::Cancelled,
        // Also where our own answer names another status: nothing else was wrong but the time.
        _ if record.status == Some(504) || last.is_some_and(too_slow) => UsageStatus::Timeout,
        _ => UsageStatus::Error,
    }
}

/// What is sent to a collector at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsageBatch<E> {
    /// The events, in the order in which the requests ended.
    pub events: Vec<E>,
}

/// An event for tests, told from others by its id (`id-` and the number).
#[cfg(test)]
pub(crate) fn sample(n: u64) -> UsageEvent {
    UsageEvent {
        v: VERSION,
        event_id: format!("id-{n}"),
        occurred_at: "2026-01-01T00:00:00.000Z".into(),
        vendor: VENDOR.into(),
        key: None,
        engine: EngineId::parse("ollama").expect("it is one"),
        node: None,
        model: "m".into(),
        run_id: RunId::from_bytes([1; 8]),
        request_id: JobId(n),
        status: UsageStatus::Success,
        http_status: Some(200),
        attempts: 1,
        prompt_tokens: None,
        completion_tokens: None,
        estimated: false,
        duration_ms: 1,
        ttft_ms: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::journal::{Attempt, Record};
    use super::*;
    use crate::rules::usage::Stats;

    fn record(state: State, status: Option<u16>, outcome: AttemptOutcome) -> Record {
        let attempt = |node: &str, outcome| Attempt {
            node: node.into(),
            at_ms: 0,
            load: [0; 3],
            outcome,
            status: None,
        };
        Record {
            v: 1,
            run_id: RunId::from_bytes([1; 8]),
            engine: EngineId::parse("ollama").unwrap(),
            id: JobId(7),
            model: "é".repeat(300),
            path: "/api/chat".into(),
            body_bytes: 10,
            created_at: 1_000,
            started_at: Some(1_100),
            ended_at: 3_500,
            state,
            status,
            error: Some("canary".into()),
            framing: None,
            attempts: vec![
                attempt("a", AttemptOutcome::Unreachable),
                attempt("b", outcome),
            ],
            stats: Some(Stats {
                prompt_tokens: Some(3),
                completion_tokens: Some(5),
                tokens_per_second: Some(9.0),
                ttft_ms: Some(100),
                estimated: true,
            }),
        }
    }

    #[test]
    fn a_request_is_one_event_whatever_it_was_tried_on() {
        let record = record(State::Completed, Some(200), AttemptOutcome::Committed);
        let key = |node: &NodeId| (node.as_str() == "b").then(|| "key-b".to_owned());
        let who = |node: &NodeId| Served::Node(key(node));
        let event = UsageEvent::of(&Entry::from(&record), "id".into(), "now".into(), who);
        let json = serde_json::to_value(&event).unwrap();
        assert_eq!(
            json,
            serde_json::json!({"v": 1, "event_id": "id", "occurred_at": "now", "vendor": "local",
                "key": "key-b", "engine": "ollama", "node": "b", "model": "é".repeat(256),
                "run_id": record.run_id, "request_id": record.id, "status": "success",
                "http_status": 200, "attempts": 2, "prompt_tokens": 3, "completion_tokens": 5,
                "estimated": true, "duration_ms": 2_500, "ttft_ms": 100})
        );
        assert_eq!(serde_json::from_value::<UsageEvent>(json).unwrap(), event);
    }

    #[test]
    fn the_client_s_key_goes_before_the_node_s_and_is_in_no_journal() {
        let record = record(State::Completed, Some(200), AttemptOutcome::Committed);
        let mut entry = Entry::from(&record);
        entry.client = Some("phone");
        let rig = |_: &NodeId| Served::Node(Some("rig".into()));
        let event = UsageEvent::of(&entry, "id".into(), "now".into(), rig);
        assert_eq!(event.key.as_deref(), Some("phone"));
        let mut line = Vec::new();
        entry.write(&mut line).unwrap();
        assert!(!String::from_utf8(line).unwrap().contains("phone"));
    }

    #[test]
    fn what_a_provider_served_is_not_the_fleets() {
        let record = record(State::Completed, Some(200), AttemptOutcome::Committed);
        let provider = |_: &NodeId| Served::Provider;
        let event = UsageEvent::of(&Entry::from(&record), "id".into(), "now".into(), provider);
        assert_eq!((event.vendor.as_str(), event.key), ("b", None));
    }

    #[test]
    fn each_end_has_its_status() {
        use AttemptOutcome as O;
        for (state, http, outcome, want) in [
            (
                State::Completed,
                Some(200),
                O::Committed,
                UsageStatus::Success,
            ),
            (State::Cancelled, None, O::Abandoned, UsageStatus::Cancelled),
            (
                State::Cancelled,
                Some(200),
                O::Committed,
                UsageStatus::Cancelled,
            ),
            (State::Failed, Some(400), O::Committed, UsageStatus::Error),
            (State::Failed, Some(502), O::Refused, UsageStatus::Error),
            (State::Failed, Some(504), O::Refused, UsageStatus::Timeout),
            (State::Failed, Some(502), O::NoHeaders, UsageStatus::Timeout),
            (State::Failed, Some(502), O::NoContent, UsageStatus::Timeout),
        ] {
            assert_eq!(
                status(&Entry::from(&record(state, http, outcome))),
                want,
                "{state:?} {http:?}"
            );
        }
        let mut nowhere = record(State::Failed, Some(503), O::Refused);
        nowhere.attempts.clear();
        let event = UsageEvent::of(&Entry::from(&nowhere), String::new(), String::new(), |_| {
            Served::Node(Some("k".into()))
        });
        assert_eq!((event.node, event.key, event.attempts), (None, None, 0));
        assert_eq!(event.vendor, VENDOR);
    }
}
