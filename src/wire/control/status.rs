//! What the daemon is and knows: `status` and `providers/list`.
//!
//! Owns: these shapes. Leaves to others: gathering them (`state::shared`), pool nodes (`wire::pool`).

use serde::{Deserialize, Serialize};

use super::documents;
use crate::rules::engine::EngineId;
use crate::rules::ids::{NodeId, RunId};
use crate::wire::pool::PoolStatus;

documents!(Status, ProviderList);

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

impl NodeKind {
    /// Its word, as in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Manual => "manual",
            Self::Peer => "peer",
            Self::Sample => "sample",
            Self::Pool => "pool",
        }
    }
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

impl NodeState {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Healthy,
        Self::Unreachable,
        Self::Unknown,
        Self::Resting,
    ];

    /// Its word, as in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Unreachable => "unreachable",
            Self::Unknown => "unknown",
            Self::Resting => "resting",
        }
    }
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
    pub pool: Option<PoolStatus>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_the_json() {
        for mode in [Mode::Broker, Mode::Standalone, Mode::Demo] {
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.as_str());
        }
        for state in NodeState::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
        for kind in [
            NodeKind::Local,
            NodeKind::Manual,
            NodeKind::Peer,
            NodeKind::Sample,
            NodeKind::Pool,
        ] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
