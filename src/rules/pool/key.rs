//! Node keys: what a worker shows to speak for its node.
//!
//! Owns: their form, their hash, what a key admits. Leaves to others: making the random bytes,
//! keeping the hashes (`store::pool::keys`).
//!
//! A key is 32 random bytes, so one round of SHA-256 is enough: there is nothing to guess that a
//! slow hash would protect.

use serde::{Deserialize, Serialize};

use crate::rules::ids::NodeId;

/// SHA-256 of a key's secret part, in lower-case hex.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyHash(String);

/// What is kept of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRecord {
    /// Its name, for people.
    pub name: String,
    /// The one node it speaks for.
    pub node: NodeId,
    /// Its hash. The key itself is nowhere.
    pub hash: KeyHash,
    /// Where the node may serve: networks and host names; empty = the address that it registers
    /// from.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Patterns of the models it may advertise; empty = all.
    #[serde(default)]
    pub models: Vec<String>,
    /// Unix ms.
    pub created_at: u64,
}
