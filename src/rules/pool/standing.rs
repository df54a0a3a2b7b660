//! The state of a pool node, in the order of priority of product section 7.
//!
//! Owns: which state, and the reason for it. Leaves to others: who is picked (`policy`).

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::breaker::{Breaker, Gate};
use super::limits::Limits;
use super::record::Record;
use crate::rules::units::human_age;

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

impl Standing {
    /// Whether the node may be sent a request.
    pub fn takes(&self) -> bool {
        match self.state {
            PoolState::Healthy | PoolState::Suspect => true,
            PoolState::CircuitBroken => self.trial_open,
            PoolState::Offline | PoolState::Draining => false,
        }
    }
}

/// The state of a node at this time (Unix ms of the store's clock).
pub fn standing(record: &Record, now_ms: u64, limits: &Limits) -> Standing {
    let plain = |state, reason| Standing {
        state,
        reason,
        trial_open: false,
    };
    if let Some(reason) = offline(record, now_ms, limits) {
        return plain(PoolState::Offline, reason);
    }
    if let Some(reason) = draining(record) {
        return plain(PoolState::Draining, reason);
    }
    if let Some((reason, trial_open)) = broken(&record.breaker, now_ms) {
        return Standing {
            state: PoolState::CircuitBroken,
            reason,
            trial_open,
        };
    }
    match suspect(record, limits) {
        Some(reason) => plain(PoolState::Suspect, reason),
        None => plain(PoolState::Healthy, String::new()),
    }
}

fn offline(record: &Record, now_ms: u64, limits: &Limits) -> Option<String> {
    if record.session.is_none() {
        return Some("unregistered".to_owned());
    }
    let silent = now_ms.saturating_sub(record.beat_at);
    (silent > limits.ttl_ms).then(|| {
        format!(
            "no heartbeat for {} (limit {})",
            span(silent),
            span(limits.ttl_ms)
        )
    })
}

fn draining(record: &Record) -> Option<String> {
    let worker = record.beat.as_ref().is_some_and(|b| b.draining);
    let by = match (record.drain, worker) {
        (true, true) => "an operator and by its worker",
        (true, false) => "an operator",
        (false, true) => "its worker",
        (false, false) => return None,
    };
    Some(format!("drained by {by}"))
}

/// Why a breaker lets nobody through, and whether it would let a trial through; `None` when closed.
fn broken(breaker: &Breaker, now_ms: u64) -> Option<(String, bool)> {
    let failures = format!("{} failures in a row", breaker.failures);
    let cooling = breaker.open_until.is_some_and(|until| now_ms < until);
    match breaker.gate(now_ms) {
        Gate::Pass => None,
        Gate::Try => Some((format!("{failures}; the next request is a trial"), true)),
        Gate::Refuse { until } if cooling => {
            let left = span(until.saturating_sub(now_ms));
            Some((format!("{failures}; a trial in {left}"), false))
        },
        Gate::Refuse { .. } => Some((format!("{failures}; a trial is under way"), false)),
    }
}

fn suspect(record: &Record, limits: &Limits) -> Option<String> {
    let beat = record.beat.as_ref()?;
    let hot = beat.gpu_temperature_c;
    let hot = hot.filter(|t| *t >= limits.suspect_temperature.into());
    let busy = beat.gpu_utilization_percent;
    let busy = busy.filter(|u| *u >= limits.suspect_utilization.into());
    let hot = hot.map(|t| {
        let limit = limits.suspect_temperature;
        format!("GPU at {t} \u{b0}C (limit {limit})")
    });
    let busy = busy.map(|u| {
        let limit = limits.suspect_utilization;
        format!("GPU {u} % busy (limit {limit})")
    });
    match (hot, busy) {
        (Some(hot), Some(busy)) => Some(format!("{hot}, {busy}")),
        (hot, busy) => hot.or(busy),
    }
}

/// Whole units rounded up, so that a limit of 15 s is never told as exceeded after "15s".
fn span(ms: u64) -> String {
    human_age(Duration::from_secs(ms.div_ceil(1000)))
}

#[cfg(test)]
mod tests;
