//! The circuit breaker, for a node and for one model on one node.
//!
//! Owns: its transitions. Leaves to others: what counts as a failure (`blame`), carrying them out
//! atomically (`store::pool`, whose Redis scripts mirror this file; one test-suite runs over both).
//!
//! Closed: failures in a row are counted, a success clears them. Open: nobody gets through until
//! the cool-down is over. Then exactly one request, the trial, gets through; its end decides. The
//! ends of other requests that were under way decide nothing while the breaker is open: they say
//! how the node was before.

use serde::{Deserialize, Serialize};

use super::record::LeaseId;

/// A request that tries whether a broken node works again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// Its lease.
    pub lease: LeaseId,
    /// Unix ms after which it is given up, in case its gateway died.
    pub until: u64,
}

/// State of one breaker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breaker {
    /// Failures in a row.
    pub failures: u32,
    /// Unix ms of the end of the cool-down; `None` when closed.
    pub open_until: Option<u64>,
    /// The trial that is under way.
    pub trial: Option<Trial>,
}

/// What a breaker says to a request that asks.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Closed: go on.
    Pass,
    /// The cool-down is over and nobody tries: this request may, as the trial.
    Try,
    /// Not now; ask again at this time (Unix ms).
    Refuse {
        /// End of the cool-down, or of the trial that is under way at the latest.
        until: u64,
    },
}

/// How a request ended, as far as one breaker is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It works.
    Success,
    /// It does not.
    Failure,
    /// Neither: the request says nothing about it.
    Neutral,
}

impl Breaker {
    /// Whether it is open, trial or not.
    pub fn is_open(&self) -> bool {
        self.open_until.is_some()
    }

    /// What a request may do now.
    pub fn gate(&self, now: u64) -> Gate {
        let Some(open_until) = self.open_until else {
            return Gate::Pass;
        };
        let trial = self.trial.as_ref().map_or(0, |t| t.until);
        let until = open_until.max(trial);
        if now < until {
            Gate::Refuse { until }
        } else {
            Gate::Try
        }
    }

    /// Makes a request the trial, after [`Breaker::gate`] said [`Gate::Try`].
    pub fn claim(&mut self, lease: &LeaseId, until: u64) {
        self.trial = Some(Trial {
            lease: lease.clone(),
            until,
        });
    }

    /// Prolongs the trial if this request is it.
    pub fn renew(&mut self, lease: &LeaseId, until: u64) {
        if let Some(trial) = self.trial.as_mut().filter(|t| t.lease == *lease) {
            trial.until = until;
        }
    }

    /// Takes a request's end in: `failures` in a row open it for `cooldown_ms`.
    pub fn settle(&mut self, lease: &LeaseId, end: End, now: u64, failures: u32, cooldown_ms: u64) {
        if self.is_open() {
            if self.trial.as_ref().is_none_or(|t| t.lease != *lease) {
                return;
            }
            self.trial = None;
        }
        match end {
            End::Success => *self = Self::default(),
            End::Neutral => {},
            End::Failure => {
                self.failures = self.failures.saturating_add(1);
                if self.failures >= failures {
                    self.open_until = Some(now.saturating_add(cooldown_ms));
                }
            },
        }
    }
}
