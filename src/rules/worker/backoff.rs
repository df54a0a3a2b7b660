//! How long to wait before another try.
//!
//! Owns: the arithmetic. Leaves to others: the randomness, what is tried.

/// The first wait, in ms.
const FIRST: u64 = 500;

/// After the `failures`-th failure in a row, in ms: doubled each time up to `longest`, and of that a
/// part between half and all, as `jitter` (0 to 1) says, so that a thousand workers do not come back
/// in step.
pub fn wait_ms(failures: u32, longest: u64, jitter: f64) -> u64 {
    let doublings = failures.saturating_sub(1).min(32);
    let full = FIRST.saturating_mul(1 << doublings).min(longest.max(FIRST));
    let part = 0.5 + jitter.clamp(0.0, 1.0) / 2.0;
    (full as f64 * part) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let all = [1, 2, 3, 4, 5, 6, 7, 60].map(|n| wait_ms(n, 15_000, 1.0));
        assert_eq!(
            all,
            [500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000, 15_000]
        );
        assert_eq!(wait_ms(1, 15_000, 0.0), 250);
        assert_eq!(wait_ms(0, 15_000, 1.0), 500);
        assert_eq!(wait_ms(9, 1, 1.0), 500, "never less than the first");
    }

    proptest! {
        #[test]
        fn every_wait_is_within_its_bounds(n in any::<u32>(), longest in 500u64..100_000, j in any::<f64>()) {
            let wait = wait_ms(n, longest, j);
            prop_assert!((250..=longest).contains(&wait), "{}", wait);
        }
    }
}
