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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FAILURES: u32 = 5;
    const COOLDOWN: u64 = 30_000;

    fn fail(b: &mut Breaker, lease: &str, now: u64) {
        b.settle(&lease.into(), End::Failure, now, FAILURES, COOLDOWN);
    }

    fn broken(now: u64) -> Breaker {
        let mut b = Breaker::default();
        (0..FAILURES).for_each(|_| fail(&mut b, "x", now));
        b
    }

    #[test]
    fn failures_in_a_row_open_it_and_a_success_between_them_does_not() {
        let mut b = Breaker::default();
        for round in 0..3 {
            (1..FAILURES).for_each(|_| fail(&mut b, "x", 0));
            assert_eq!((b.gate(0), b.failures), (Gate::Pass, 4), "{round}");
            b.settle(&"x".into(), End::Success, 0, FAILURES, COOLDOWN);
        }
        (0..FAILURES).for_each(|_| fail(&mut b, "x", 100));
        assert_eq!(b.gate(100), Gate::Refuse { until: 30_100 });
    }

    #[test]
    fn a_neutral_end_neither_counts_nor_clears() {
        let mut b = Breaker::default();
        fail(&mut b, "x", 0);
        b.settle(&"y".into(), End::Neutral, 0, FAILURES, COOLDOWN);
        assert_eq!(b.failures, 1);
    }

    #[test]
    fn the_cool_down_ends_to_the_millisecond_and_then_one_may_try() {
        let mut b = broken(0);
        assert_eq!(b.gate(29_999), Gate::Refuse { until: 30_000 });
        assert_eq!(b.gate(30_000), Gate::Try);
        b.claim(&"t".into(), 60_000);
        assert_eq!(b.gate(30_000), Gate::Refuse { until: 60_000 });
        b.renew(&"other".into(), 90_000);
        assert_eq!(b.gate(60_000), Gate::Try, "a trial whose gateway died");
        b.renew(&"t".into(), 90_000);
        assert_eq!(b.gate(60_000), Gate::Refuse { until: 90_000 });
    }

    #[test]
    fn the_trials_end_decides_and_nobody_elses() {
        for (end, gate) in [
            (End::Success, Gate::Pass),
            (End::Neutral, Gate::Try),
            (End::Failure, Gate::Refuse { until: 61_000 }),
        ] {
            let mut b = broken(0);
            b.claim(&"t".into(), 60_000);
            for other in [End::Success, End::Failure, End::Neutral] {
                b.settle(&"old".into(), other, 31_000, FAILURES, COOLDOWN);
            }
            assert_eq!(b.gate(31_000), Gate::Refuse { until: 60_000 });
            b.settle(&"t".into(), end, 31_000, FAILURES, COOLDOWN);
            assert_eq!(b.gate(31_000), gate, "{end:?}");
        }
    }

    #[test]
    fn a_trial_given_up_and_ended_late_decides_nothing() {
        let mut b = broken(0);
        b.claim(&"t1".into(), 40_000);
        b.claim(&"t2".into(), 80_000);
        b.settle(&"t1".into(), End::Success, 50_000, FAILURES, COOLDOWN);
        assert_eq!(b.gate(50_000), Gate::Refuse { until: 80_000 });
    }

    proptest! {
        /// Whatever happens, an open breaker has at most one trial at a time.
        #[test]
        fn at_most_one_trial_at_a_time(ops in prop::collection::vec((0u8..4, 0u8..6, 1u64..20_000), 1..200)) {
            let mut b = Breaker::default();
            let mut now = 0;
            let mut trials: Vec<(LeaseId, u64)> = Vec::new();
            for (op, who, passes) in ops {
                let lease = LeaseId::from(format!("l{who}"));
                match op {
                    0 => if b.gate(now) == Gate::Try {
                        trials.retain(|(_, until)| now < *until);
                        prop_assert_eq!(trials.len(), 0, "a second trial");
                        b.claim(&lease, now + 10_000);
                        trials.push((lease, now + 10_000));
                    },
                    1 | 2 => {
                        let end = if op == 1 { End::Failure } else { End::Success };
                        b.settle(&lease, end, now, 2, 5_000);
                        if b.trial.as_ref().is_none_or(|t| t.lease != lease) {
                            trials.retain(|(l, _)| *l != lease);
                        }
                    },
                    _ => now += passes,
                }
                prop_assert!(b.trial.is_none() || b.is_open(), "a closed breaker has no trial");
            }
        }
    }
}
