//! What a provider's failures cost it among its equals.
//!
//! Owns: how a penalty grows and fades. Leaves to others: what counts as a failure (`verdict`), the
//! order (`order`), when nothing is sent at all (`circuit`). Times are milliseconds of any one clock.
//!
//! It only orders: a provider with a penalty is still tried where no better one is left.

/// What the first failure costs.
pub const FIRST_MS: u64 = 1_000;

/// What failures cost at most.
pub const MOST_MS: u64 = 5 * 60_000;

/// Without a failure for so long, half of it is forgiven.
const HALVES_EVERY_MS: u64 = 60_000;

/// One provider's penalty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Penalty {
    /// Right after the last failure.
    ms: u64,
    /// When that was.
    since: u64,
}

impl Penalty {
    /// What it is now, in milliseconds: half as much for each whole minute without a failure.
    pub fn at(&self, now: u64) -> u64 {
        let minutes = now.saturating_sub(self.since) / HALVES_EVERY_MS;
        let halved = u32::try_from(minutes)
            .ok()
            .and_then(|m| self.ms.checked_shr(m));
        halved.unwrap_or(0)
    }

    /// One more failure: twice what is left of the ones before.
    pub fn add(&mut self, now: u64) {
        self.ms = (2 * self.at(now)).clamp(FIRST_MS, MOST_MS);
        self.since = now.max(self.since);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MINUTE: u64 = 60_000;

    #[test]
    fn decay_transitions() {
        let mut p = Penalty::default();
        assert_eq!(p.at(0), 0);
        let mut grown = Vec::new();
        for _ in 0..11 {
            p.add(7);
            grown.push(p.at(7) / 1000);
        }
        assert_eq!(grown, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        let left = |minutes: u64| p.at(7 + minutes * MINUTE);
        assert_eq!(p.at(7 + MINUTE - 1), 300_000, "a minute is not over");
        assert_eq!(
            [1, 2, 3, 4].map(left),
            [150_000, 75_000, 37_500, 18_750],
            "half for each minute"
        );
        assert_eq!((left(18), left(19)), (1, 0), "forgiven");
        assert_eq!((left(63), left(64), left(1 << 40)), (0, 0, 0));
    }

    #[test]
    fn a_failure_doubles_what_is_left() {
        let mut p = Penalty::default();
        (0..4).for_each(|_| p.add(0));
        assert_eq!(p.at(0), 8_000);
        p.add(2 * MINUTE);
        assert_eq!(p.at(2 * MINUTE), 4_000);
        // All forgiven: it begins again.
        p.add(60 * MINUTE);
        assert_eq!(p.at(60 * MINUTE), FIRST_MS);
    }

    #[test]
    fn failures_that_come_in_out_of_order_do_no_harm() {
        let mut p = Penalty::default();
        p.add(5 * MINUTE);
        p.add(3 * MINUTE);
        assert_eq!((p.at(0), p.at(5 * MINUTE)), (2_000, 2_000));
        assert_eq!(p.at(6 * MINUTE), 1_000);
    }

    proptest! {
        /// It never leaves its bounds and never grows by itself.
        #[test]
        fn it_stays_in_bounds(steps in prop::collection::vec((any::<bool>(), 0u64..400_000), 1..100)) {
            let (mut p, mut now) = (Penalty::default(), 0);
            for (fails, passes) in steps {
                let before = p.at(now);
                now += passes;
                prop_assert!(p.at(now) <= before);
                if fails {
                    p.add(now);
                    prop_assert!((FIRST_MS..=MOST_MS).contains(&p.at(now)));
                }
            }
        }
    }
}
