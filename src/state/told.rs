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
