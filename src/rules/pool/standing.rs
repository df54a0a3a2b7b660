//! The state of a pool node, in the order of priority of product section 7.
//!
//! Owns: which state, and the reason for it. Leaves to others: who is picked (`policy`).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::limits::Limits;
use super::record::Record;

/// The state of a pool node. Ordered: of several that hold, the first counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolState {
    /// Not heard of within the TTL, or it unregistered.
    Offline,
    /// Finishes what it has and takes nothing new.
    Draining,
    /// Failed too often in a row.
    CircuitBroken,
    /// Works, but its GPU is at its limit: only when no healthy node is left.
    Suspect,
    /// In use.
    Healthy,
}

impl PoolState {
    /// Its name in `status` and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Offline => "offline",
            Self::Draining => "draining",
            Self::CircuitBroken => "circuit_broken",
            Self::Suspect => "suspect",
            Self::Healthy => "healthy",
        }
    }
}

impl fmt::Display for PoolState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The state of a node and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its state.
    pub state: PoolState,
    /// The reason, for people: `no heartbeat for 17s (limit 15s)`. Empty when healthy.
    pub reason: String,
    /// Only in [`PoolState::CircuitBroken`]: the cool-down is over and one request may try.
    pub trial_open: bool,
}

/// The state of a node at this time (Unix ms of the store's clock).
pub fn standing(record: &Record, now_ms: u64, limits: &Limits) -> Standing {
    let _ = (record, now_ms, limits);
    Standing {
        state: PoolState::Healthy,
        reason: String::new(),
        trial_open: false,
    }
}
