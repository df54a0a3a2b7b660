//! How often something may be done: a token bucket.
//!
//! Owns: the arithmetic. Leaves to others: the clock and whose bucket it is (`registry`).

/// So many a minute, with as many at once after a quiet minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerMinute(u32);

impl PerMinute {
    /// So many a minute; 0 counts as 1, since a limit of nothing is a switch and not a rate.
    pub fn new(count: u32) -> Self {
        Self(count.max(1))
    }

    /// The count.
    pub fn count(self) -> u32 {
        self.0
    }
}

/// What is left of a [`PerMinute`]. In 60,000ths, so that every millisecond adds a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    left: u64,
    at_ms: u64,
}

/// One of a minute's share.
const ONE: u64 = 60_000;

impl Bucket {
    /// A full one.
    pub fn full(rate: PerMinute, now_ms: u64) -> Self {
        Self {
            left: ONE * u64::from(rate.0),
            at_ms: now_ms,
        }
    }

    /// Takes one out. A clock that goes back adds nothing.
    ///
    /// # Errors
    /// It is empty: milliseconds until there is one.
    pub fn take(&mut self, rate: PerMinute, now_ms: u64) -> Result<(), u64> {
        let passed = now_ms.saturating_sub(self.at_ms);
        let each = u64::from(rate.0);
        let most = ONE * each;
        self.left = self
            .left
            .saturating_add(passed.saturating_mul(each))
            .min(most);
        self.at_ms = self.at_ms.max(now_ms);
        match self.left.checked_sub(ONE) {
            Some(left) => {
                self.left = left;
                Ok(())
            },
            None => Err((ONE - self.left).div_ceil(each)),
        }
    }

    /// Whether it is full at this time: then it may be forgotten.
    pub fn is_full(&self, rate: PerMinute, now_ms: u64) -> bool {
        let passed = now_ms.saturating_sub(self.at_ms);
        let each = u64::from(rate.0);
        self.left.saturating_add(passed.saturating_mul(each)) >= ONE * each
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_bucket_says_when_there_is_one_and_is_right() {
        let rate = PerMinute::new(3);
        let mut bucket = Bucket::full(rate, 1_000);
        for _ in 0..3 {
            assert_eq!(bucket.take(rate, 1_000), Ok(()));
        }
        assert_eq!(bucket.take(rate, 1_000), Err(20_000));
        assert_eq!(bucket.take(rate, 20_999), Err(1));
        assert!(!bucket.is_full(rate, 20_999));
        assert_eq!(bucket.take(rate, 21_000), Ok(()));
        // Back in time: nothing is added, and nothing added twice.
        assert_eq!(bucket.take(rate, 0), Err(20_000));
        assert!(bucket.is_full(rate, 81_000));
    }

    proptest! {
        #[test]
        fn no_window_lets_more_through_than_a_minute_at_once_and_its_share(
            count in 0u32..500, steps in prop::collection::vec(0u64..3_000, 1..400),
        ) {
            let rate = PerMinute::new(count);
            let mut bucket = Bucket::full(rate, 0);
            let (mut now, mut taken) = (0, 0u64);
            for step in steps {
                now += step;
                taken += u64::from(bucket.take(rate, now).is_ok());
            }
            let each = u64::from(rate.count());
            prop_assert!(taken * 60_000 <= each * 60_000 + each * now);
        }
    }
}
