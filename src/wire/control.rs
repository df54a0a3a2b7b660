//! Shapes of the local control socket: our own spelling (product: snake_case, `schema_version`,
//! times `*_at` in Unix ms, spans `*_ms`).
//!
//! Owns: what `status`, `workloads`, `models` and `nodes` answer, for the daemon and its clients.
//! Leaves to others: methods (`control::api`), tables (`cmd`).

use serde::{Deserialize, Serialize};

use super::broker::{NodeRecord, Stats, WorkloadState};
use crate::rules::engine::EngineId;
use crate::rules::ids::{JobId, NodeId, RunId};

/// Version of every document below. Raised when a field changes its meaning or goes.
pub const SCHEMA_VERSION: u32 = 1;

/// A document that tells its version.
pub trait Document {
    /// The version it says it has.
    fn schema_version(&self) -> u32;
}

macro_rules! documents {
    ($($document:ty),*) => {
        $(impl $crate::wire::control::Document for $document {
            fn schema_version(&self) -> u32 {
                self.schema_version
            }
        })*
    };
}

pub(super) use documents;

documents!(
    Status,
    WorkloadList,
    WorkloadChange,
    ModelList,
    ProviderList,
    RouteExplained,
    NodeAdded,
    NodeGone
);

/// How the daemon is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// By a broker.
    Broker,
    /// By its own director.
    Standalone,
    /// Sample engines only.
    Demo,
}

impl Mode {
    /// Its word, as in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Broker => "broker",
            Self::Standalone => "standalone",
            Self::Demo => "demo",
        }
    }
}

/// Who answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DaemonInfo {
    /// Version of the binary.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Its driver.
    pub mode: Mode,
    /// This process's run.
    pub run_id: RunId,
    /// Unix ms of its start.
    pub started_at: u64,
    /// Path of the control socket, if there is one.
    pub socket: Option<String>,
}

/// Answer of `config/reload`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigReloaded {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Whether the file was taken. If not, everything is as before.
    pub applied: bool,
    /// The file; null where none is known.
    pub file: Option<String>,
    /// Keys that are in force now with another value than before.
    pub changed: Vec<String>,
    /// Keys whose new value takes another start.
    pub restart: Vec<String>,
    /// What was taken and is odd, or could not be done: a line each.
    pub warnings: Vec<String>,
    /// Why the file was not taken: `FILE:LINE:COLUMN  text` each.
    pub errors: Vec<String>,
}

/// One enabled facade.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FacadeStatus {
    /// Its engine.
    pub engine: EngineId,
    /// Bound port.
    pub port: u16,
    /// Bound alias addresses.
    pub aliases: Vec<String>,
    /// The pinned node, if any.
    pub pin: Option<NodeId>,
    /// Requests being served now.
    pub in_flight: u64,
    /// Unix ms since when it is enabled.
    pub since_at: u64,
}

/// How a node came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeKind {
    /// An engine of this machine that was found by looking, or that a broker tells of.
    Local,
    /// Named by a flag, the configuration or a call, whichever machine it is on.
    Manual,
    /// Another proxy of the cluster.
    Peer,
    /// A built-in sample engine.
    Sample,
    /// It registered itself with the node pool.
    Pool,
}

/// Whether a node can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// It answers.
    Healthy,
    /// It did not answer the last probes, or cannot be reached at all.
    Unreachable,
    /// Known, but it was not asked yet.
    Unknown,
    /// A pool node that takes nothing now: it drains, or rests after failures.
    Resting,
}

/// One node of one facade.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Node id.
    pub id: NodeId,
    /// Host name, for display.
    pub name: String,
    /// Facade it belongs to.
    pub engine: EngineId,
    /// How it is known.
    pub kind: NodeKind,
    /// Whether it can be used.
    pub state: NodeState,
    /// Why not, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Address that would be dialled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Jobs the scheduler knows of.
    pub pending: u64,
    /// GPU pressure, 0 to 3.
    pub pressure: u64,
    /// Reservations and, standalone, requests of ours in flight.
    pub reserved: u64,
    /// Sum of the three.
    pub load: u64,
    /// Advertised models.
    pub models: Vec<String>,
    /// Models in its memory.
    pub warm: Vec<String>,
}

/// What decides between nodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SchedulerStatus {
    /// `listed`, `weighted` or `ordered`.
    pub policy: String,
    /// Last applied generation; 0 for none.
    pub generation: u64,
    /// Age of that snapshot; null for none.
    pub age_ms: Option<u64>,
}

/// Workloads by state, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadCounts {
    /// Waiting now.
    pub queued: u64,
    /// Producing now.
    pub running: u64,
    /// Ended well.
    pub completed: u64,
    /// Ended badly.
    pub failed: u64,
    /// Ended by the requester.
    pub cancelled: u64,
}

/// What the door of every facade admits beyond what it always does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoorStatus {
    /// Further names that `Host` may have.
    pub allowed_hosts: Vec<String>,
    /// The only browser origins that are let in; null = the engines decide.
    pub allowed_origins: Option<Vec<String>>,
    /// Networks whose callers are let in, with a client key.
    pub allowed_cidrs: Vec<String>,
    /// Client keys in force.
    pub client_keys: usize,
}

/// Answer of `status`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Who answers.
    pub daemon: DaemonInfo,
    /// Enabled facades, in table order.
    pub facades: Vec<FacadeStatus>,
    /// Nodes, by facade and id.
    pub nodes: Vec<NodeStatus>,
    /// The scheduler.
    pub scheduler: SchedulerStatus,
    /// Counts.
    pub workloads: WorkloadCounts,
    /// Fallback providers; empty while none is configured.
    pub providers: Vec<ProviderStatus>,
    /// Who may come in besides loopback callers with a usual `Host`.
    #[serde(default)]
    pub door: DoorStatus,
    /// The dynamic node pool; null while it is off.
    pub pool: Option<super::pool::PoolStatus>,
    /// What is told to others of traces and metrics; absent where nobody is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<TelemetryStatus>,
}

/// Where traces and metrics go, and how well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TelemetryStatus {
    /// The collector, as `http://HOST:PORT/PATH`; absent where nothing is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collector: Option<String>,
    /// Why it did not take the last document, in words; absent where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Spans that it took, since the start.
    pub sent: u64,
    /// Spans that wait for it.
    pub queued: u64,
    /// Spans that were lost, since the start.
    pub dropped: u64,
    /// Where the admin listener listens, as `ADDRESS:PORT`; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin: Option<String>,
}

/// Whether a provider is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderState {
    /// Yes.
    Ready,
    /// Not before its rate limit resets.
    CoolingDown,
    /// Not before its circuit is tried again: it failed too often in a row.
    Open,
    /// By one request at a time, until one succeeds.
    HalfOpen,
}

/// The last failure of a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderFailure {
    /// In words.
    pub text: String,
    /// How long ago.
    pub age_ms: u64,
}

/// A fallback provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderStatus {
    /// Its name.
    pub name: String,
    /// Its OpenAI base.
    pub base_url: String,
    /// Its tier.
    pub tier: u32,
    /// Whether it is asked.
    pub state: ProviderState,
    /// Its place, from 1, in the order in which providers would be asked now for a model that all of
    /// them have; null while it is not asked.
    pub standing: Option<u32>,
    /// What failures cost it among those of its tier.
    pub penalty_ms: u64,
    /// Time until it is asked again; 0 unless it is open or cooling down.
    pub cool_down_ms: u64,
    /// Failures in a row.
    pub failures_in_a_row: u32,
    /// Failures since it is known.
    pub failures: u64,
    /// The last one, if any.
    pub last_failure: Option<ProviderFailure>,
    /// Requests sent to it since it is known.
    pub requests: u64,
    /// Those among them that it answered 429.
    pub limited: u64,
    /// Models it is asked for, by our names; empty = those that virtual models name.
    pub models: Vec<String>,
}

/// Answer of `providers/list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderList {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Providers in the order of the file.
    pub providers: Vec<ProviderStatus>,
}

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

/// One model of the merged catalogue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ModelEntry {
    /// Facade.
    pub engine: EngineId,
    /// Name.
    pub model: String,
    /// Nodes that advertise it.
    pub owners: Vec<NodeId>,
    /// Nodes that have it in memory.
    pub loaded: Vec<NodeId>,
    /// Context length in tokens, when a node told it.
    pub context_length: Option<u64>,
}

/// Answer of `models/list`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ModelList {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Models by facade and name.
    pub models: Vec<ModelEntry>,
}

/// A node that would be tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RouteCandidate {
    /// Node id.
    pub node: NodeId,
    /// Host name, for display; may be empty.
    pub name: String,
    /// Address that would be dialled.
    pub address: String,
    /// The model's name there, where it is not the one that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Jobs the scheduler knows of.
    pub pending: u64,
    /// GPU pressure, 0 to 3.
    pub pressure: u64,
    /// Reservations.
    pub reserved: u64,
    /// Dispatches of ours under way there now.
    pub in_flight: u64,
    /// pending + pressure + reserved.
    pub load: u64,
    /// Requests it runs side by side.
    pub slots: u32,
    /// Weight by which it is picked among its equals now.
    pub weight: i64,
    /// Moving average of the time to the first token on it, in ms; absent without samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<f64>,
    /// Moving average of its speed; absent without samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_second: Option<f64>,
    /// Whether it has the model in memory.
    pub warm: bool,
    /// Whether it is pinned.
    pub pinned: bool,
}

/// A node that would not be tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteExcluded {
    /// Node id.
    pub node: NodeId,
    /// Host name, for display; may be empty.
    pub name: String,
    /// Why not, in words.
    pub reason: String,
    /// Models it has whose names are near, where it lacks the model asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub near: Vec<String>,
}

/// Answer of `route/explain`: what one request would meet now. Nothing was reserved for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RouteExplained {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Facade.
    pub engine: EngineId,
    /// Model as asked for.
    pub model: String,
    /// `listed`, `weighted` or `ordered`.
    pub policy: String,
    /// The scheduler's generation; 0 for none.
    pub generation: u64,
    /// The pinned node, if any, eligible or not.
    pub pin: Option<NodeId>,
    /// Nodes in the order in which they would be tried.
    pub candidates: Vec<RouteCandidate>,
    /// The other nodes, by id.
    pub excluded: Vec<RouteExcluded>,
    /// Where nobody has the model: the nearest names that some reachable node has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<String>,
}

/// Answer of `set-port`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PortSet {
    /// Version of the daemon.
    pub version: String,
    /// Port the facade listens on now.
    pub port: u16,
}

/// Answer of `node/select` and `node/selected`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Selected {
    /// The pinned node; empty for automatic.
    pub id: String,
}

/// Answer of `facade/enable`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnabledPort {
    /// The engine.
    pub engine: EngineId,
    /// Port actually bound.
    pub port: u16,
}

/// Answer of `nodes/list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeList {
    /// Relayed and manual nodes, by id.
    pub nodes: Vec<NodeRecord>,
}

/// Answer of `node/add-manual`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    /// Always true: a node that was there is replaced.
    pub added: bool,
}

/// Answer of `node/remove-manual`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// Whether it was there.
    pub removed: bool,
}

/// Answer of `nodes/add`: the node as its first probe left it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAdded {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Facade it belongs to.
    pub engine: EngineId,
    /// Its id.
    pub id: NodeId,
    /// Where it is.
    pub url: String,
    /// Whether it took the place of one that was there.
    pub replaced: bool,
    /// Whether it outlives the daemon.
    pub saved: bool,
    /// Whether it can be used. `unknown` where nobody probes: under a broker.
    pub state: NodeState,
    /// Why not, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Advertised models.
    pub models: Vec<String>,
}

/// Answer of `nodes/remove`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeGone {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Facade it belonged to.
    pub engine: EngineId,
    /// Its id.
    pub id: NodeId,
    /// Whether it was there.
    pub removed: bool,
}

/// Answer of `node/set-local-backend`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Always true.
    pub ok: bool,
}

/// One rank of `node/set-priority`, in the link's spelling.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RankParam {
    /// Node id; an empty one is skipped.
    pub id: String,
    /// Jobs pending there; below 0 counts as 0.
    pub pending: i64,
    /// GPU pressure; clamped to 0..3.
    pub gpu_pressure: i64,
    /// Its place in the list; unused.
    pub rank: i64,
}

/// Answer of `node/set-priority`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ranked {
    /// Length of the list now in force.
    pub count: usize,
}

/// Answer of `log/set-level`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelSet {
    /// Level now in force.
    pub level: String,
}
