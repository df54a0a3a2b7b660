//! Changes of workloads, for whoever follows them (product section 4, `workloads --follow`).
//!
//! Owns: the bounded buffer between the request path and its followers, and what a filter lets by.
//! Leaves to others: making a change (`workloads`), carrying it to a follower (`control`).
//!
//! Nobody waits for a follower: one that is too slow loses the oldest changes, and is told how many.

use std::sync::Arc;

use tokio::sync::broadcast::{self, error::RecvError};

use crate::rules::engine::EngineId;
use crate::rules::ids::NodeId;
use crate::rules::workload::State;
use crate::wire::control::{SCHEMA_VERSION, Workload, WorkloadChange, WorkloadFilter};

/// Changes that a follower may be behind.
const BUFFER: usize = 1024;

struct Change {
    seq: u64,
    workload: Workload,
}

/// Where changes come from.
pub struct Feed {
    changes: broadcast::Sender<Arc<Change>>,
    /// Held by each follower too. The channel knows them behind a lock, and every request asks.
    followed: Arc<()>,
}

impl Default for Feed {
    fn default() -> Self {
        Self {
            changes: broadcast::Sender::new(BUFFER),
            followed: Arc::default(),
        }
    }
}

impl Feed {
    /// Whether anybody follows: lets the request path skip building what nobody reads.
    pub fn is_followed(&self) -> bool {
        Arc::strong_count(&self.followed) > 1
    }

    /// Tells of a change. Never waits.
    pub fn publish(&self, seq: u64, workload: Workload) {
        // The last follower may have gone just now.
        drop(self.changes.send(Arc::new(Change { seq, workload })));
    }

    /// Follows from now on.
    pub fn follow(&self, filter: WorkloadFilter) -> Follower {
        Follower {
            changes: self.changes.subscribe(),
            filter,
            missed: 0,
            _follows: self.followed.clone(),
        }
    }
}

/// One follower's place.
pub struct Follower {
    changes: broadcast::Receiver<Arc<Change>>,
    filter: WorkloadFilter,
    missed: u64,
    _follows: Arc<()>,
}

impl Follower {
    /// The next change that its filter lets by; `None` when there will be none. Dropped while it
    /// waits, it loses nothing.
    pub async fn next(&mut self) -> Option<WorkloadChange> {
        loop {
            match self.changes.recv().await {
                Ok(change) if self.wants(&change.workload) => {
                    return Some(WorkloadChange {
                        schema_version: SCHEMA_VERSION,
                        seq: change.seq,
                        missed: std::mem::take(&mut self.missed),
                        workload: change.workload.clone(),
                    });
                },
                Ok(_) => {},
                Err(RecvError::Lagged(missed)) => self.missed += missed,
                Err(RecvError::Closed) => return None,
            }
        }
    }

    fn wants(&self, w: &Workload) -> bool {
        fits(&self.filter, w.engine, w.state, &w.model, w.node.as_ref())
    }
}

/// Whether a workload passes a filter.
pub fn fits(
    f: &WorkloadFilter,
    engine: EngineId,
    state: State,
    model: &str,
    node: Option<&NodeId>,
) -> bool {
    let naming = engine.spec().naming;
    let same_model = |m: &String| naming.normalize(m) == naming.normalize(model);
    f.engine.is_none_or(|e| e == engine)
        && f.state.is_none_or(|s| s == state)
        && f.model.as_ref().is_none_or(same_model)
        && f.node
            .as_ref()
            .is_none_or(|n| node.is_some_and(|p| p.as_str() == n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::ids::{JobId, RunId};

    fn workload(id: u64, state: State) -> Workload {
        Workload {
            engine: EngineId::parse("ollama").unwrap(),
            id: JobId(id),
            run_id: RunId::from_bytes([1; 8]),
            model: "m".into(),
            path: "/api/chat".into(),
            body_bytes: 1,
            state,
            node: None,
            created_at: 1,
            started_at: None,
            ended_at: None,
            status: None,
            error: None,
            stats: None,
            timeline: vec![],
        }
    }

    #[tokio::test]
    async fn a_follower_gets_what_its_filter_lets_by_from_then_on() {
        let feed = Feed::default();
        assert!(!feed.is_followed());
        feed.publish(1, workload(1, State::Failed));
        let mut f = feed.follow(WorkloadFilter {
            state: Some(State::Failed),
            ..WorkloadFilter::default()
        });
        assert!(feed.is_followed());
        feed.publish(1, workload(2, State::Queued));
        feed.publish(2, workload(2, State::Failed));
        let got = f.next().await.unwrap();
        assert_eq!((got.workload.id.0, got.seq, got.missed), (2, 2, 0));
        let other = feed.follow(WorkloadFilter::default());
        drop(other);
        assert!(feed.is_followed(), "by the first one");
        drop(f);
        assert!(!feed.is_followed());
    }

    #[tokio::test]
    async fn a_feed_that_ends_ends_its_followers() {
        let feed = Feed::default();
        let mut f = feed.follow(WorkloadFilter::default());
        feed.publish(1, workload(1, State::Failed));
        drop(feed);
        assert!(f.next().await.is_some());
        assert!(f.next().await.is_none());
    }

    #[tokio::test]
    async fn a_slow_follower_loses_the_oldest_and_is_told_how_many() {
        let feed = Feed::default();
        let mut f = feed.follow(WorkloadFilter::default());
        let all = BUFFER as u64 + 10;
        for id in 1..=all {
            feed.publish(1, workload(id, State::Queued));
        }
        let first = f.next().await.unwrap();
        assert_eq!((first.missed, first.workload.id.0), (10, 11));
        let mut last = first;
        while last.workload.id.0 < all {
            last = f.next().await.unwrap();
            assert_eq!(last.missed, 0);
        }
    }
}
