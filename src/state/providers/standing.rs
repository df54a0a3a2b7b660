//! How one provider stands, for all requests at once.
//!
//! Owns: letting requests through, exactly one at a time after a rest, and taking their ends in.
//! Leaves to others: the decisions (`rules::provider`), guards and clocks (`providers`).
//!
//! The probe is claimed by a compare-and-swap under the read lock: whoever does not get it goes on at
//! once, and nobody waits for a write. Its end is taken in and its place given back under the write
//! lock, in one step, so that nobody becomes the next probe by what was so before.

use std::borrow::Cow;
use std::sync::atomic::AtomicU64;

use crate::rules::provider::circuit::{Circuit, Gate, Pass, Why};
use crate::rules::provider::penalty::Penalty;
use crate::rules::provider::verdict::Verdict;
use crate::sync::{AtomicBool, Ordering, RwLock};

/// Why a request is not let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The provider rests until this time (ms).
    Rests {
        /// End of the rest.
        until: u64,
        /// What for.
        why: Why,
    },
    /// Its rest is over, and another request is the probe.
    Probing,
}

/// What is remembered between requests.
#[derive(Clone, Debug, Default)]
pub struct Remembered {
    /// Circuit and cool-down.
    pub circuit: Circuit,
    /// What failures cost.
    pub penalty: Penalty,
    /// Failures.
    pub failures: u64,
    /// Answers 429.
    pub limits: u64,
    /// The last failure in words, and when it was (ms).
    pub last_failure: Option<(Cow<'static, str>, u64)>,
}

/// One provider's standing. Times are milliseconds of one clock.
#[derive(Debug, Default)]
pub struct Standing {
    remembered: RwLock<Remembered>,
    probing: AtomicBool,
    /// Requests let through.
    requests: AtomicU64,
}

impl Standing {
    /// Lets a request through, or says why not. A probe must be settled or given back.
    ///
    /// # Errors
    /// The provider rests, or is being probed.
    pub fn admit(&self, now: u64) -> Result<Pass, Refused> {
        let pass = self.ask(now, true)?;
        self.requests.fetch_add(1, Ordering::Relaxed);
        Ok(pass)
    }

    /// What [`Standing::admit`] would say, for nobody.
    ///
    /// # Errors
    /// The provider rests, or is being probed.
    pub fn look(&self, now: u64) -> Result<Pass, Refused> {
        self.ask(now, false)
    }

    fn ask(&self, now: u64, claim: bool) -> Result<Pass, Refused> {
        // Held over the swap: a probe's end, which needs the write lock, comes before or after both.
        let remembered = self.remembered.read().unwrap_or_else(|e| e.into_inner());
        match remembered.circuit.gate(now) {
            Gate::Pass => Ok(Pass::Plain),
            Gate::Rest { until, why } => Err(Refused::Rests { until, why }),
            Gate::Try => {
                let free = match claim {
                    true => self.claim(),
                    false => !self.probing.load(Ordering::SeqCst),
                };
                free.then_some(Pass::Probe).ok_or(Refused::Probing)
            },
        }
    }

    fn claim(&self) -> bool {
        let order = Ordering::SeqCst;
        let claimed = self.probing.compare_exchange(false, true, order, order);
        claimed.is_ok()
    }

    /// Takes the end of a request in that was let through like this.
    pub fn settle(&self, pass: Pass, verdict: Verdict, now: u64) {
        self.change(|all| {
            all.circuit.settle(pass, &verdict, now);
            if let Verdict::Failure(how) = verdict {
                all.penalty.add(now);
                all.failures += 1;
                all.last_failure = Some((how, now));
            }
            if pass == Pass::Probe {
                self.probing.store(false, Ordering::SeqCst);
            }
        });
    }

    /// The provider answered 429, and is to be left alone until then.
    pub fn limit(&self, until: u64) {
        self.change(|all| {
            all.limits += 1;
            all.circuit.limit(until);
        });
    }

    /// The probe ended without saying anything: another request may be it.
    pub fn give_back(&self) {
        self.probing.store(false, Ordering::SeqCst);
    }

    /// Requests let through so far.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// The penalty now, in ms.
    pub fn penalty(&self, now: u64) -> u64 {
        let remembered = self.remembered.read().unwrap_or_else(|e| e.into_inner());
        remembered.penalty.at(now)
    }

    /// All that is remembered.
    pub fn remembered(&self) -> Remembered {
        let remembered = self.remembered.read().unwrap_or_else(|e| e.into_inner());
        remembered.clone()
    }

    fn change(&self, change: impl FnOnce(&mut Remembered)) {
        let mut remembered = self.remembered.write().unwrap_or_else(|e| e.into_inner());
        change(&mut remembered);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_probe_is_claimed_beside_readers() {
        let standing = Standing::default();
        standing.limit(5);
        let reader = standing.remembered.read().unwrap();
        let (told, claimed) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| told.send((standing.admit(5), standing.admit(5))));
            let claimed = claimed.recv_timeout(Duration::from_secs(30));
            drop(reader);
            let want = (Ok(Pass::Probe), Err(Refused::Probing));
            assert_eq!(claimed, Ok(want), "no write lock is waited for");
        });
    }
}
