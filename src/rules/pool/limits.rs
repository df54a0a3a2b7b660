//! The pool's limits: each a setting with a range.
//!
//! Owns: defaults, ranges, and which of them must fit together. Leaves to others: reading them
//! (`config`), what they do (`standing`, `breaker`, the store).

use std::fmt;
use std::ops::RangeInclusive;

/// The pool's limits. Times in milliseconds. [`Limits::check`] knows the ranges.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// A node that was not heard of for longer is offline. 2 s to 1 h, at least two beats.
    pub ttl_ms: u64,
    /// How often workers are told to beat. 500 ms to 10 min.
    pub beat_ms: u64,
    /// How often standings are looked at again. 500 ms to 10 min.
    pub sweep_ms: u64,
    /// A node that was not heard of for longer is forgotten. 1 min to 365 days, more than the TTL.
    pub retention_ms: u64,
    /// Failures in a row that break a circuit. 1 to 1000.
    pub failures: u32,
    /// How long a broken circuit stays so before a trial. 1 s to 1 h.
    pub cooldown_ms: u64,
    /// From this GPU temperature (°C) on a node is suspect. 30 to 150.
    pub suspect_temperature: f64,
    /// From this GPU utilization (percent) on a node is suspect. 1 to 101; 101 is never.
    pub suspect_utilization: f64,
    /// A lease that is not renewed for longer is void. 3 s to 10 min.
    pub lease_ttl_ms: u64,
    /// How often leases are renewed. 1 s to 5 min, at most half of the lease's TTL.
    pub lease_renewal_ms: u64,
}

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

impl Default for Limits {
    fn default() -> Self {
        Self {
            ttl_ms: 15 * SECOND,
            beat_ms: 5 * SECOND,
            sweep_ms: 5 * SECOND,
            retention_ms: DAY,
            failures: 5,
            cooldown_ms: 30 * SECOND,
            suspect_temperature: 88.0,
            suspect_utilization: 98.0,
            lease_ttl_ms: 30 * SECOND,
            lease_renewal_ms: 10 * SECOND,
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

impl Limits {
    /// Everything that is wrong with these limits; empty when they can be used.
    pub fn check(&self) -> Vec<BadLimit> {
        let mut bad = Vec::new();
        for (setting, ms, range) in [
            ("ttl", self.ttl_ms, 2 * SECOND..=HOUR),
            ("heartbeat_interval", self.beat_ms, 500..=10 * MINUTE),
            ("sweep_interval", self.sweep_ms, 500..=10 * MINUTE),
            ("retention", self.retention_ms, MINUTE..=365 * DAY),
            ("cooldown", self.cooldown_ms, SECOND..=HOUR),
            ("lease_ttl", self.lease_ttl_ms, 3 * SECOND..=10 * MINUTE),
            ("lease_renewal", self.lease_renewal_ms, SECOND..=5 * MINUTE),
        ] {
            bad.extend(out_of_range(setting, ms, range));
        }
        if !(1..=1000).contains(&self.failures) {
            let why = format!("{} is not in 1..1000", self.failures);
            bad.push(BadLimit {
                setting: "failures",
                why,
            });
        }
        // Written so that NaN is out of range.
        if !(30.0..=150.0).contains(&self.suspect_temperature) {
            let why = format!("{} is not in 30..150 (°C)", self.suspect_temperature);
            bad.push(BadLimit {
                setting: "suspect_temperature",
                why,
            });
        }
        if !(1.0..=101.0).contains(&self.suspect_utilization) {
            let why = format!(
                "{} is not in 1..101 (percent; 101 is never)",
                self.suspect_utilization
            );
            bad.push(BadLimit {
                setting: "suspect_utilization",
                why,
            });
        }
        bad.extend(self.misfits());
        bad
    }

    /// Limits that are each in range but not together.
    fn misfits(&self) -> Vec<BadLimit> {
        let mut bad = Vec::new();
        if self.ttl_ms < self.beat_ms.saturating_mul(2) {
            let why = format!(
                "{} is less than two heartbeats of {}, so one lost beat would take a node offline",
                text(self.ttl_ms),
                text(self.beat_ms)
            );
            bad.push(BadLimit {
                setting: "ttl",
                why,
            });
        }
        if self.retention_ms <= self.ttl_ms {
            let why = format!(
                "{} is not more than the TTL of {}, so a node would be forgotten before it is offline",
                text(self.retention_ms),
                text(self.ttl_ms)
            );
            bad.push(BadLimit {
                setting: "retention",
                why,
            });
        }
        if self.lease_renewal_ms > self.lease_ttl_ms / 2 {
            let why = format!(
                "{} is more than half of the lease's {}, so one late renewal would void a lease",
                text(self.lease_renewal_ms),
                text(self.lease_ttl_ms)
            );
            bad.push(BadLimit {
                setting: "lease_renewal",
                why,
            });
        }
        bad
    }
}

fn out_of_range(setting: &'static str, ms: u64, range: RangeInclusive<u64>) -> Option<BadLimit> {
    let why = || {
        format!(
            "{} is not in {}..{}",
            text(ms),
            text(*range.start()),
            text(*range.end())
        )
    };
    (!range.contains(&ms)).then(|| BadLimit {
        setting,
        why: why(),
    })
}

/// As it is written in a configuration file, in one unit.
fn text(ms: u64) -> String {
    let units = [
        (DAY, 24, "h"),
        (HOUR, 1, "h"),
        (MINUTE, 1, "m"),
        (SECOND, 1, "s"),
    ];
    let whole = units
        .into_iter()
        .find(|(unit, ..)| ms > 0 && ms.is_multiple_of(*unit));
    match whole {
        Some((unit, times, name)) => format!("{}{name}", ms / unit * times),
        None => format!("{ms}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_documented_ones_and_valid() {
        let limits = Limits::default();
        assert_eq!(limits.check(), []);
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
            (88.0, 98.0)
        );
        assert_eq!(
            (limits.lease_ttl_ms, limits.lease_renewal_ms),
            (30_000, 10_000)
        );
    }

    #[test]
    fn every_limit_has_a_range_and_the_error_names_setting_and_range() {
        type Set = fn(&mut Limits);
        let cases: [(&str, Set, &str); 16] = [
            ("ttl", |l| l.ttl_ms = 1_999, "is not in 2s..1h"),
            ("ttl", |l| l.ttl_ms = 3_600_001, "is not in 2s..1h"),
            (
                "heartbeat_interval",
                |l| l.beat_ms = 499,
                "is not in 500ms..10m",
            ),
            ("sweep_interval", |l| l.sweep_ms = 0, "is not in 500ms..10m"),
            (
                "retention",
                |l| l.retention_ms = 59_999,
                "is not in 1m..8760h",
            ),
            ("cooldown", |l| l.cooldown_ms = 999, "is not in 1s..1h"),
            (
                "lease_ttl",
                |l| l.lease_ttl_ms = 700_000,
                "is not in 3s..10m",
            ),
            (
                "lease_renewal",
                |l| l.lease_renewal_ms = 999,
                "is not in 1s..5m",
            ),
            ("failures", |l| l.failures = 0, "0 is not in 1..1000"),
            ("failures", |l| l.failures = 1001, "1001 is not in 1..1000"),
            (
                "suspect_temperature",
                |l| l.suspect_temperature = f64::NAN,
                "is not in 30..150",
            ),
            (
                "suspect_temperature",
                |l| l.suspect_temperature = 29.9,
                "is not in 30..150",
            ),
            (
                "suspect_utilization",
                |l| l.suspect_utilization = 0.0,
                "is not in 1..101",
            ),
            ("ttl", |l| l.beat_ms = 7_501, "two heartbeats"),
            (
                "retention",
                |l| {
                    l.ttl_ms = 60_000;
                    l.retention_ms = 60_000
                },
                "forgotten before",
            ),
            (
                "lease_renewal",
                |l| l.lease_renewal_ms = 15_001,
                "half of the lease",
            ),
        ];
        for (setting, set, part) in cases {
            let mut limits = Limits::default();
            set(&mut limits);
            let bad = limits.check();
            let named = bad
                .iter()
                .any(|b| b.setting == setting && b.why.contains(part));
            assert!(named, "{setting} {part}: {bad:?}");
        }
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        let limits = Limits {
            failures: 0,
            cooldown_ms: 0,
            sweep_ms: 0,
            ..Limits::default()
        };
        let settings: Vec<_> = limits.check().iter().map(|b| b.setting).collect();
        assert_eq!(settings, ["sweep_interval", "cooldown", "failures"]);
    }
}
