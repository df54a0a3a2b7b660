//! How often one key may call.
//!
//! Owns: a bucket a key and kind of call. Leaves to others: the arithmetic (`rules::rate`), whose
//! key it is (`gate`). Counted by each gateway for itself, so it needs no store and holds while the
//! store is down.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::rules::rate::{Bucket, PerMinute};

/// Heartbeats and the like: five times what the shortest interval makes.
const CALLS: u32 = 600;

/// Above so many keys, those that were quiet for a minute are forgotten.
const KEPT: usize = 1024;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A registration: a name is looked up and a session made.
    Registration,
    /// Anything else.
    Call,
}

/// The buckets of all keys.
pub(super) struct Quotas {
    registrations: PerMinute,
    clock: Arc<dyn Fn() -> u64 + Send + Sync>,
    buckets: Mutex<HashMap<(String, Kind), Bucket>>,
}

impl Quotas {
    pub(super) fn new(registrations: PerMinute, clock: Arc<dyn Fn() -> u64 + Send + Sync>) -> Self {
        Self {
            registrations,
            clock,
            buckets: Mutex::default(),
        }
    }

    /// Counts a call of the key of this name.
    ///
    /// # Errors
    /// It had its share: the limit and the milliseconds until the next.
    pub(super) fn take(&self, key: &str, kind: Kind) -> Result<(), (PerMinute, u64)> {
        let now = (self.clock)();
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() > KEPT {
            buckets.retain(|(_, kind), bucket| !bucket.is_full(self.rate(*kind), now));
        }
        let rate = self.rate(kind);
        let bucket = buckets
            .entry((key.to_owned(), kind))
            .or_insert_with(|| Bucket::full(rate, now));
        bucket.take(rate, now).map_err(|wait| (rate, wait))
    }

    fn rate(&self, kind: Kind) -> PerMinute {
        match kind {
            Kind::Registration => self.registrations,
            Kind::Call => PerMinute::new(CALLS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn keys_do_not_share_and_quiet_ones_are_forgotten() {
        let now = Arc::new(AtomicU64::new(0));
        let read = now.clone();
        let quotas = Quotas::new(
            PerMinute::new(1),
            Arc::new(move || read.load(Ordering::Relaxed)),
        );
        for n in 0..2_000 {
            assert!(quotas.take(&format!("k{n}"), Kind::Registration).is_ok());
        }
        let told = quotas.take("k7", Kind::Registration).unwrap_err();
        assert_eq!((told.0.count(), told.1), (1, 60_000));
        assert!(quotas.take("k7", Kind::Call).is_ok());
        now.store(60_000, Ordering::Relaxed);
        assert!(quotas.take("k7", Kind::Registration).is_ok());
        assert_eq!(quotas.buckets.lock().unwrap().len(), 1);
    }
}
