//! Ages: the daemon tells moments, people read how long ago.

use std::time::Duration;

use nvpair_proxy::rules::units::human_age;

/// The age of a moment; a clock that was set back makes it 0.
pub fn since(now_ms: u64, at: u64) -> String {
    human_age(Duration::from_millis(now_ms.saturating_sub(at)))
}
