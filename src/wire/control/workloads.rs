//! Requests and what became of them: `workloads/list`, `workloads/get` and `workloads/subscribe`.
//!
//! Owns: these shapes. Leaves to others: their history (`state::workloads`), files (`wire::journal`).

use serde::{Deserialize, Serialize};

use super::documents;
use crate::rules::engine::EngineId;
use crate::rules::ids::{JobId, NodeId, RunId};
use crate::wire::broker::{Stats, WorkloadState};

documents!(WorkloadList, WorkloadChange);

/// What happened to a workload at one moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TimelineEntry {
    /// Milliseconds since arrival.
    pub at_ms: u64,
    /// `admitted`, `dispatched`, `refused`, `waiting`, `started`, `completed`, `failed`,
    /// `cancelled`.
    pub event: String,
    /// Node concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// Load of that node when it was chosen: pending, pressure, reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<[u64; 3]>,
    /// In words, never content: the owners at `admitted`, why it was `refused`, the wait since the
    /// dispatch at `started`, the reason and what was measured of the answer at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// One workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Workload {
    /// Facade.
    pub engine: EngineId,
    /// Number on that facade.
    pub id: JobId,
    /// Run it belongs to.
    pub run_id: RunId,
    /// Model as requested.
    pub model: String,
    /// Path without query.
    pub path: String,
    /// Length of the request body.
    pub body_bytes: u64,
    /// State now.
    pub state: WorkloadState,
    /// Node it is on or was served by.
    pub node: Option<NodeId>,
    /// Unix ms of arrival.
    pub created_at: u64,
    /// Unix ms of commit.
    pub started_at: Option<u64>,
    /// Unix ms of the end.
    pub ended_at: Option<u64>,
    /// HTTP status the client got.
    pub status: Option<u16>,
    /// Why it failed or was cancelled.
    pub error: Option<String>,
    /// Counts, once ended.
    pub stats: Option<Stats>,
    /// Events in order; only when one workload is asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<TimelineEntry>,
}

/// Filter of `workloads/list` and `workloads/subscribe`; every field narrows. The latter has no limit.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkloadFilter {
    /// Facade.
    pub engine: Option<EngineId>,
    /// State.
    pub state: Option<WorkloadState>,
    /// Model, compared as the engine compares.
    pub model: Option<String>,
    /// Node id.
    pub node: Option<String>,
    /// At most so many, newest first.
    pub limit: Option<usize>,
}

/// Answer of `workloads/list`: newest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkloadList {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The workloads.
    pub workloads: Vec<Workload>,
}

/// A notification of `workloads/subscribe`: a workload as it is after a change.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkloadChange {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Number of the change in that workload's life, from 1.
    pub seq: u64,
    /// Changes, of any workload, that this follower was too slow for since the one before.
    pub missed: u64,
    /// The workload, without timeline.
    pub workload: Workload,
}
