//! The pool's limits: each a setting with a range.
//!
//! Owns: defaults, ranges, and which of them must fit together. Leaves to others: reading them
//! (`config`, which has its ranges and its check from here), what they do (`standing`, `breaker`, the
//! store).

use std::time::Duration;

use crate::rules::units::duration_text;

/// The pool's limits. Times in milliseconds. [`Limits::check`] knows the ranges.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// A node that was not heard of for longer is offline. [`TTL`], at least two beats.
    pub ttl_ms: u64,
    /// How often workers are told to beat. [`BEAT`].
    pub beat_ms: u64,
    /// How often standings are looked at again. [`SWEEP`].
    pub sweep_ms: u64,
    /// A node that was not heard of for longer is forgotten. [`RETENTION`], more than the TTL.
    pub retention_ms: u64,
    /// Failures in a row that break a circuit. [`FAILURES`].
    pub failures: u32,
    /// How long a broken circuit stays so before a trial. [`COOLDOWN`].
    pub cooldown_ms: u64,
    /// From this GPU temperature (°C) on a node is suspect. [`TEMPERATURE`].
    pub suspect_temperature: u32,
    /// From this GPU utilization (percent) on a node is suspect. [`UTILIZATION`]; 101 is never.
    pub suspect_utilization: u32,
    /// A lease that is not renewed for longer is void. [`LEASE`].
    pub lease_ttl_ms: u64,
    /// How often leases are renewed. [`RENEWAL`], at most half of the lease's TTL.
    pub lease_renewal_ms: u64,
}

/// The least and the most that a setting may be.
pub type Range<T> = (T, T);

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Range of a node's TTL, in ms.
pub const TTL: Range<u64> = (2 * SECOND, HOUR);
/// Range of the time between two beats, in ms. Workers are told it in seconds.
pub const BEAT: Range<u64> = (SECOND, 10 * MINUTE);
/// Range of the time between two sweeps, in ms.
pub const SWEEP: Range<u64> = (500, 10 * MINUTE);
/// Range of the retention, in ms.
pub const RETENTION: Range<u64> = (MINUTE, 365 * DAY);
/// Range of the failures that break a circuit.
pub const FAILURES: Range<u32> = (1, 1000);
/// Range of a circuit's cool-down, in ms.
pub const COOLDOWN: Range<u64> = (SECOND, HOUR);
/// Range of the temperature from which a node is suspect, in °C.
pub const TEMPERATURE: Range<u32> = (30, 150);
/// Range of the utilization from which a node is suspect, in percent; one more than all is never.
pub const UTILIZATION: Range<u32> = (1, 101);
/// Range of a lease's TTL, in ms.
pub const LEASE: Range<u64> = (3 * SECOND, 10 * MINUTE);
/// Range of the time between two renewals of a lease, in ms.
pub const RENEWAL: Range<u64> = (SECOND, 5 * MINUTE);

impl Default for Limits {
    fn default() -> Self {
        Self {
            ttl_ms: 15 * SECOND,
            beat_ms: 5 * SECOND,
            sweep_ms: 5 * SECOND,
            retention_ms: DAY,
            failures: 5,
            cooldown_ms: 30 * SECOND,
            suspect_temperature: 88,
            suspect_utilization: 98,
            lease_ttl_ms: 30 * SECOND,
            lease_renewal_ms: 10 * SECOND,
        }
    }
}

/// Two limits that do not fit together, though each is in its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The setting's name.
    pub setting: &'static str,
    /// The name of the one that it does not fit.
    pub beside: &'static str,
    /// What is wrong.
    pub why: String,
}

impl Limits {
    /// The limits that do not fit together; empty when they can be used. Their ranges are looked at
    /// where they are read, one by one.
    pub fn misfits(&self) -> Vec<Misfit> {
        let mut bad = Vec::new();
        if self.ttl_ms < self.beat_ms.saturating_mul(2) {
            let why = format!(
                "{} is less than two heartbeats of {}, so one lost beat would take a node offline",
                text(self.ttl_ms),
                text(self.beat_ms)
            );
            bad.push(Misfit {
                setting: "heartbeat_ttl",
                beside: "heartbeat_interval",
                why,
            });
        }
        if self.retention_ms <= self.ttl_ms {
            let why = format!(
                "{} is not more than the TTL of {}, so a node would be forgotten before it is offline",
                text(self.retention_ms),
                text(self.ttl_ms)
            );
            bad.push(Misfit {
                setting: "retention",
                beside: "heartbeat_ttl",
                why,
            });
        }
        if self.lease_renewal_ms > self.lease_ttl_ms / 2 {
            let why = format!(
                "{} is more than half of the lease's {}, so one late renewal would void a lease",
                text(self.lease_renewal_ms),
                text(self.lease_ttl_ms)
            );
            bad.push(Misfit {
                setting: "lease_renewal",
                beside: "lease_ttl",
                why,
            });
        }
        bad
    }
}

fn text(ms: u64) -> String {
    duration_text(Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_documented_ones_and_valid() {
        let limits = Limits::default();
        assert_eq!(limits.misfits(), []);
        assert_eq!(
            (
                limits.ttl_ms,
                limits.beat_ms,
                limits.sweep_ms,
                limits.retention_ms
            ),
            (15_000, 5_000, 5_000, 86_400_000)
        );
        assert_eq!((limits.failures, limits.cooldown_ms), (5, 30_000));
        assert_eq!(
            (limits.suspect_temperature, limits.suspect_utilization),
            (88, 98)
        );
        assert_eq!(
            (limits.lease_ttl_ms, limits.lease_renewal_ms),
            (30_000, 10_000)
        );
    }

    #[test]
    fn limits_that_do_not_fit_are_told_all_at_once_with_both_names() {
        let limits = Limits {
            ttl_ms: 60_000,
            beat_ms: 30_001,
            retention_ms: 60_000,
            lease_renewal_ms: 15_001,
            ..Limits::default()
        };
        let told = limits.misfits();
        let names: Vec<_> = told.iter().map(|m| (m.setting, m.beside)).collect();
        assert_eq!(
            names,
            [
                ("heartbeat_ttl", "heartbeat_interval"),
                ("retention", "heartbeat_ttl"),
                ("lease_renewal", "lease_ttl"),
            ]
        );
        assert!(told[0].why.starts_with("1m is less than two heartbeats"));
        let just = Limits {
            beat_ms: 30_000,
            retention_ms: 60_001,
            lease_renewal_ms: 15_000,
            ..limits
        };
        assert_eq!(just.misfits(), []);
    }
}
