//! Names and numbers of the domain, each with a type of its own.
//!
//! Owns: the identifiers that travel through the request path and the control plane.
//! Leaves to others: what they refer to (`discovery`, `workload`, `reservations`).

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A machine that may serve: the host's UUID under a broker, the host name standalone.
///
/// Cheap to clone, since every request carries some. Ordered by bytes: the deterministic default
/// order of candidates (spec §5, step 2).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(Arc<str>);

impl NodeId {
    /// The id as text, as it stands in `scheduledOn` and on the command line.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for NodeId {
    fn from(s: &str) -> Self {
        Self(s.into())
    }
}

impl From<String> for NodeId {
    fn from(s: String) -> Self {
        Self(s.into())
    }
}

impl Borrow<str> for NodeId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The number of a request on its facade, from 1. Every HTTP request takes one, so the ids of
/// workloads have gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub u64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Distinguishes this process from its earlier runs: 16 hex digits, shared by all facades.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(Arc<str>);

impl RunId {
    /// The run id of these eight random bytes.
    pub fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(format!("{:016x}", u64::from_be_bytes(bytes)).into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The number of a scheduler snapshot (spec §6). 0 means that none was applied yet.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Generation(pub u64);

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_id_is_always_sixteen_hex_digits() {
        assert_eq!(
            RunId::from_bytes([0, 0, 0, 0, 0, 0, 0, 1]).as_str(),
            "0000000000000001"
        );
        assert_eq!(RunId::from_bytes([0xff; 8]).as_str(), "ffffffffffffffff");
    }

    #[test]
    fn node_ids_order_by_bytes() {
        let mut ids = vec![NodeId::from("b"), NodeId::from("B"), NodeId::from("a")];
        ids.sort();
        assert_eq!(
            ids,
            vec![NodeId::from("B"), NodeId::from("a"), NodeId::from("b")]
        );
    }
}
