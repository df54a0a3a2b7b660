//! What a driver tells of loads and of this machine's engine.
//!
//! Owns: the values. Leaves to others: the commands that carry them (`command`), what they change
//! (`scheduler`, `facade`).

use crate::rules::ids::NodeId;

/// `node/set-local-backend`: this machine's engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalBackend {
    /// Loopback host; empty = 127.0.0.1.
    pub host: String,
    /// 0 = none.
    pub port: u16,
    /// Whether it may be used.
    pub healthy: bool,
}

/// Highest band of GPU pressure.
const MAX_PRESSURE: i64 = 3;

/// One rank of a scheduler snapshot, after clamping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Node.
    pub id: NodeId,
    /// Jobs pending there.
    pub pending: u64,
    /// 0 to 3.
    pub gpu_pressure: u64,
}

impl Rank {
    /// A rank as it is told, within the limits that the rules expect; none without an id.
    pub fn told(id: impl Into<NodeId>, pending: i64, gpu_pressure: i64) -> Option<Self> {
        let id = id.into();
        (!id.as_str().is_empty()).then(|| Self {
            id,
            pending: pending.max(0).unsigned_abs(),
            gpu_pressure: gpu_pressure.clamp(0, MAX_PRESSURE).unsigned_abs(),
        })
    }
}

/// `node/set-priority`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrioritySnapshot {
    /// Above 0.
    pub generation: u64,
    /// Best first; unknown ids are kept.
    pub nodes: Vec<NodeId>,
    /// Load by node; a missing node has none.
    pub ranks: Vec<Rank>,
}
