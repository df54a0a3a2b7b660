//! The pool's limits: each a setting with a range.
//!
//! Owns: defaults, ranges, and which of them must fit together. Leaves to others: reading them
//! (`config`), what they do (`standing`, `breaker`, the store).

use std::fmt;

/// The pool's limits. Times in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// A node that was not heard of for longer is offline. 2 s to 1 h, at least two beats.
    pub ttl_ms: u64,
    /// How often workers are told to beat. 500 ms to 10 min.
    pub beat_ms: u64,
    /// How often standings are looked at again. 500 ms to 10 min.
    pub sweep_ms: u64,
    /// A node that was not heard of for longer is forgotten. 1 min to 365 days, at least the TTL.
    pub retention_ms: u64,
    /// Failures in a row that break a circuit. 1 to 1000.
    pub failures: u32,
    /// How long a broken circuit stays so before a trial. 1 s to 1 h.
    pub cooldown_ms: u64,
    /// From this GPU temperature (°C) on a node is suspect. 30 to 150.
    pub suspect_temperature: f64,
    /// From this GPU utilization (percent) on a node is suspect. 1 to 100; above 100 is never.
    pub suspect_utilization: f64,
    /// A lease that is not renewed for longer is void. 3 s to 10 min.
    pub lease_ttl_ms: u64,
    /// How often leases are renewed. 1 s to 5 min, at most half of the lease's TTL.
    pub lease_renewal_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            ttl_ms: 15_000,
            beat_ms: 5_000,
            sweep_ms: 5_000,
            retention_ms: 86_400_000,
            failures: 5,
            cooldown_ms: 30_000,
            suspect_temperature: 88.0,
            suspect_utilization: 98.0,
            lease_ttl_ms: 30_000,
            lease_renewal_ms: 10_000,
        }
    }
}

/// A limit that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLimit {
    /// The setting's name.
    pub setting: &'static str,
    /// What is wrong and what would do.
    pub why: String,
}

impl fmt::Display for BadLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.setting, self.why)
    }
}
