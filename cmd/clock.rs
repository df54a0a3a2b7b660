//! What time it is, for ages: the daemon tells moments, people read how long ago.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nvpair_proxy::rules::units::human_age;

/// Unix milliseconds.
pub fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |d| d.as_millis() as u64)
}

/// The age of a moment; a clock that was set back makes it 0.
pub fn since(now_ms: u64, at: u64) -> String {
    human_age(Duration::from_millis(now_ms.saturating_sub(at)))
}
