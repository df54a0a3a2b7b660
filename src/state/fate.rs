//! Whether an attempt commits or is abandoned, decided once (spec §5.3).
//!
//! Owns: the one claim that both sides make. Leaves to others: who makes it and when
//! (`facade::attempt`), what follows (`rules::dispatch`, `facade::report`).
//!
//! Both can become true at once: content arrives while the node leaves discovery. Whoever claims
//! first has it; the other does nothing. That a watcher runs in the task of its attempt is a matter
//! of how lanes are written, and no part of the promise.

use crate::sync::{AtomicU8, Ordering};

const OPEN: u8 = 0;
const COMMITTED: u8 = 1;
const ABANDONED: u8 = 2;

/// The fate of one attempt.
#[derive(Debug, Default)]
pub struct Fate(AtomicU8);

/// The attempt is its request's answer. Only [`Fate::commit`] makes one, once.
#[derive(Debug)]
#[must_use = "a claimed commit is the request's answer"]
pub struct Commit(());

impl Fate {
    /// Content is here: the attempt commits, unless it was abandoned (or committed) before.
    pub fn commit(&self) -> Option<Commit> {
        self.claim(COMMITTED).then_some(Commit(()))
    }

    /// The node is gone: the attempt is given up. `false` if it had committed, or was given up
    /// before; then nothing may follow from this call.
    #[must_use]
    pub fn abandon(&self) -> bool {
        self.claim(ABANDONED)
    }

    fn claim(&self, side: u8) -> bool {
        let (won, lost) = (Ordering::AcqRel, Ordering::Acquire);
        self.0.compare_exchange(OPEN, side, won, lost).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_claim_is_the_only_one() {
        let fate = Fate::default();
        assert!(fate.commit().is_some());
        assert!(fate.commit().is_none() && !fate.abandon());
        let fate = Fate::default();
        assert!(fate.abandon());
        assert!(fate.commit().is_none() && !fate.abandon());
    }
}
