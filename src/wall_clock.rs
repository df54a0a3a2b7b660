//! What time it is, for moments that people and other machines read.
//!
//! Owns: the reading, as Unix time. Leaves to others: what is decided: that goes by a clock which
//! nobody sets.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Since the Unix epoch; 0 on a machine whose clock stands before it.
pub fn since_epoch() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}

/// Unix milliseconds.
pub fn unix_ms() -> u64 {
    // Half a billion years fit.
    since_epoch().as_millis() as u64
}

/// Unix nanoseconds: what traces carry. Fits until 2554.
pub fn unix_ns() -> u64 {
    since_epoch().as_nanos() as u64
}
