//! Answers about models, routes and nodes, and of the calls that change something.
//!
//! Owns: these shapes, and the one parameter that is a list of objects. Leaves to others: what the
//! calls do (`control::api`).

use serde::{Deserialize, Serialize};

use super::{NodeState, documents};
use crate::rules::engine::EngineId;
use crate::rules::ids::NodeId;
use crate::wire::broker::NodeRecord;

documents!(ModelList, RouteExplained, NodeAdded, NodeGone);

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
