//! How much effort one request may cost (spec §5.1).
//!
//! Owns: the numbers, the caps' "off", the backoff. Leaves to others: the order of things
//! (`dispatch`), the timers (`facade`).

use std::time::Duration;

/// Dispatches an inference request may fail.
pub const MAX_DISPATCHES: u32 = 5;

/// After this much time since arrival no new attempt starts.
pub const JOB_DEADLINE: Duration = Duration::from_secs(600);

/// Time one connection attempt may take.
pub const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Default of both response caps.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// What is buffered of a request for another try by default: 128 MiB.
pub const MAX_REQUEST_BYTES: u64 = 128 << 20;

/// Time one write or flush towards the client may take.
pub const CLIENT_WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// A limit that may be off. Parsers turn "0" into `Off`, so that nothing behind them has to
/// remember what 0 means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cap {
    /// At most this long.
    After(Duration),
    /// For ever.
    Off,
}

impl Cap {
    /// The cap that a setting stands for: 0 = off.
    pub fn from_setting(value: Duration) -> Self {
        if value.is_zero() {
            Self::Off
        } else {
            Self::After(value)
        }
    }
}

/// The wait before the next round, by dispatches made so far: 1, 2, 4, then 8 seconds, spread by
/// 25 % either way so that waiting requests do not come back together, and never past `left`.
///
/// `roll` is uniform in 0..1; anything else is clamped.
pub fn backoff(dispatches: u32, roll: f64, left: Duration) -> Duration {
    let step = match dispatches {
        0 | 1 => 1.0,
        2 => 2.0,
        3 => 4.0,
        _ => 8.0,
    };
    let spread = 0.75
        + 0.5
            * if roll.is_finite() {
                roll.clamp(0.0, 1.0)
            } else {
                0.5
            };
    Duration::from_secs_f64(step * spread).min(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn backoff_doubles_from_one_to_eight_seconds() {
        let secs: Vec<_> = (0..7)
            .map(|n| backoff(n, 0.5, LONG).as_secs_f64())
            .collect();
        assert_eq!(secs, [1.0, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]);
    }

    #[test]
    fn jitter_stays_within_a_quarter() {
        assert_eq!(backoff(3, 0.0, LONG), Duration::from_secs(3));
        assert_eq!(backoff(3, 1.0, LONG), Duration::from_secs(5));
        assert_eq!(backoff(3, -7.0, LONG), Duration::from_secs(3));
        assert_eq!(backoff(3, f64::NAN, LONG), Duration::from_secs(4));
    }

    #[test]
    fn backoff_never_passes_the_deadline() {
        let left = Duration::from_millis(300);
        assert_eq!(backoff(4, 1.0, left), left);
        assert_eq!(backoff(4, 1.0, Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn zero_turns_a_cap_off() {
        assert_eq!(Cap::from_setting(Duration::ZERO), Cap::Off);
        assert_eq!(
            Cap::from_setting(Duration::from_millis(1)),
            Cap::After(Duration::from_millis(1))
        );
    }
}
