//! That a node is alive, seen from the bytes it delivers (control-plane facts, `node/activity`).
//!
//! Owns: the limit of one notice per node in two seconds. Leaves to others: when bytes count.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::rules::ids::NodeId;

/// At most one notice per node in this time.
pub const EVERY: Duration = Duration::from_secs(2);

/// When each node was last reported.
#[derive(Debug, Default)]
pub struct Activity(Mutex<HashMap<NodeId, Instant>>);

impl Activity {
    /// Whether a node is due to be reported; then it counts as reported.
    pub fn due(&self, node: &NodeId, now: Instant) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match last.get_mut(node) {
            Some(at) if now.duration_since(*at) < EVERY => false,
            Some(at) => {
                *at = now;
                true
            },
            None => {
                // Nodes come and go over weeks: entries without news are dropped.
                if last.len() > 1024 {
                    last.retain(|_, at| now.duration_since(*at) < EVERY);
                }
                last.insert(node.clone(), now);
                true
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_notice_per_node_in_two_seconds() {
        let (a, now) = (Activity::default(), Instant::now());
        let (x, y) = (NodeId::from("x"), NodeId::from("y"));
        assert!(a.due(&x, now));
        assert!(!a.due(&x, now + EVERY - Duration::from_millis(1)));
        assert!(a.due(&y, now));
        assert!(a.due(&x, now + EVERY));
    }
}
