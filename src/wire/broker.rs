//! Records of the broker link, in its own spelling (control-plane facts; spec §4, §5.5).
//!
//! Owns: the shapes of node records, workload records and request events.
//! Leaves to others: methods and their order (`broker`), what the records mean (`state`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::rules::engine::EngineId;
use crate::rules::ids::{NodeId, RunId};

/// A node as we announce it and as `nodes/list` returns it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeRecord {
    /// Stable id.
    pub id: String,
    /// Host name, for display.
    pub host: String,
    /// Port of the node's facade or engine.
    pub port: u16,
    /// Advertised addresses, best first.
    pub addresses: Vec<String>,
    /// TXT entries (`ip=`, `ips=`).
    pub txt: Vec<String>,
    /// Advertised models; left out when there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// Best address, on events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
}

/// One port of a directory record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServicePort {
    /// The port; 0 if absent.
    pub port: u16,
}

/// A node as `discovery:nodes` delivers it. Unknown fields are ignored: newer brokers send more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DirectoryNode {
    /// Stable host id: the node id everywhere.
    pub host_uuid: String,
    /// Host name, for display.
    pub name: String,
    /// Canonical address; an entry without one is no node of ours.
    pub ip: String,
    /// All published addresses, best first.
    pub ips: Option<Vec<String>>,
    /// Principal of the node's certificate, if it is clustered.
    pub cluster_uuid: Option<String>,
    /// Ports by service key.
    pub services: BTreeMap<String, ServicePort>,
    /// Flat union of models, from older peers.
    pub models: Option<Vec<String>>,
    /// Inventory by engine id. When present, an absent engine serves nothing.
    pub models_by_engine: Option<BTreeMap<String, Option<Vec<String>>>>,
}

pub use crate::rules::workload::State as WorkloadState;

/// Counts measured from a committed response (spec §5.5).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Stats {
    /// Tokens of the prompt, from the engine's own report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u64>,
    /// Tokens generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_tokens: Option<u64>,
    /// Decode throughput, one decimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_second: Option<f64>,
    /// From the request's arrival to the first content byte, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<u64>,
    /// Whether tokens were counted from stream events instead of the engine's report.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

/// The whole record that every workload event carries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadInfo {
    /// Number of the request on its facade, as a decimal string.
    pub id: String,
    /// Model as the request named it.
    pub model: String,
    /// Engine of the facade.
    pub engine: EngineId,
    /// This process's run.
    pub run_id: RunId,
    /// State after this event.
    pub state: WorkloadState,
    /// Always empty: the broker stamps it.
    pub originated_from: String,
    /// Placement; left out while there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_on: Option<NodeId>,
    /// Unix milliseconds of arrival.
    pub created_at: u64,
    /// Unix milliseconds of commit.
    pub started_at: Option<u64>,
    /// Unix milliseconds of the end.
    pub completed_at: Option<u64>,
    /// Normalised text for `failed` and `cancelled`; never content.
    pub error: Option<String>,
    /// Always null.
    pub requester_id: Option<String>,
    /// Counter of this workload's events, from 1.
    pub seq: u64,
    /// Only on the terminal event of a measured response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats: Option<Stats>,
}

/// `proxy/request-started`: a forwarded request committed, or a fan-out began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestStarted {
    /// Number of the request on its facade.
    pub id: String,
    /// The serving node; absent on a fan-out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// HTTP method.
    pub method: String,
    /// Path without query.
    pub path: String,
    /// `host:port`, or `cluster` on a fan-out.
    pub target: String,
}

/// `proxy/request`: a request ended, rejected ones included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestFinished {
    /// Number of the request on its facade.
    pub id: String,
    /// The serving node; absent on rejection and fan-out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// HTTP method.
    pub method: String,
    /// Path without query.
    pub path: String,
    /// `host:port`, `cluster` on a fan-out, empty on rejection.
    pub target: String,
    /// Status the client got; 0 if it left before any answer.
    pub status: u16,
    /// Milliseconds since arrival.
    pub duration_ms: u64,
    /// Milliseconds from arrival to commit; absent without a commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttfb_ms: Option<u64>,
    /// Why it went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
