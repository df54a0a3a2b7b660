//! A workload as it is shown: in a list, to a follower, with its timeline.
//!
//! Owns: the words of a timeline. Leaves to others: the shape (`wire::control`), what is kept of a job
//! (`super`).

use std::fmt;

use crate::rules::ids::NodeId;
use crate::rules::units;
use crate::wire::broker::Stats;
use crate::wire::control::{TimelineEntry, Workload};

use super::{Inner, Job, Owners, Step, record};

impl Job {
    /// As it is now.
    pub(super) fn describe(&self, with_timeline: bool) -> Workload {
        self.described(&self.lock(), with_timeline)
    }

    /// The same for whoever holds the lock.
    pub(super) fn described(&self, inner: &Inner, with_timeline: bool) -> Workload {
        let a = &self.admission;
        Workload {
            engine: a.engine,
            id: a.id,
            run_id: self.all.run_id.clone(),
            model: a.model.clone(),
            path: a.path.to_owned(),
            body_bytes: a.body_bytes,
            state: inner.life.state(),
            node: inner.life.placed().cloned(),
            created_at: a.created_at,
            started_at: inner.started_at,
            ended_at: inner.ended_at,
            status: inner.status,
            error: inner.error.clone(),
            stats: inner.stats.clone(),
            timeline: if with_timeline {
                self.timeline(inner)
            } else {
                Vec::new()
            },
        }
    }

    fn timeline(&self, inner: &Inner) -> Vec<TimelineEntry> {
        let entry = |at_ms: u64, event: &str, node: Option<&NodeId>| TimelineEntry {
            at_ms,
            event: event.to_owned(),
            node: node.cloned(),
            load: None,
            detail: None,
        };
        let mut dispatched = 0;
        let mut shown = Vec::with_capacity(inner.timeline.len() + 2);
        shown.push(TimelineEntry {
            detail: Some(self.admission.owners.to_string()),
            ..entry(0, "admitted", None)
        });
        for (at, step) in &inner.timeline {
            let at = u64::from(*at);
            shown.push(match step {
                Step::Dispatched(node, l) => {
                    dispatched = at;
                    TimelineEntry {
                        load: Some(record::terms(l)),
                        ..entry(at, "dispatched", Some(node))
                    }
                },
                Step::Refused(node, _, why) => TimelineEntry {
                    detail: Some(why.clone()),
                    ..entry(at, "refused", Some(node))
                },
                Step::Waiting => entry(at, "waiting", None),
                Step::Started(node) => TimelineEntry {
                    detail: Some(format!(
                        "first byte after {} ms",
                        at.saturating_sub(dispatched)
                    )),
                    ..entry(at, "started", Some(node))
                },
            });
        }
        if let Some(ended_at) = inner.ended_at {
            let at = ended_at.saturating_sub(self.admission.created_at);
            shown.push(TimelineEntry {
                detail: ended(inner.error.as_deref(), inner.stats.as_ref()),
                ..entry(at, inner.life.state().as_str(), None)
            });
        }
        shown
    }
}

impl fmt::Display for Owners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<_> = self.named.iter().map(NodeId::as_str).collect();
        let owners = units::count(self.count, "owner");
        write!(f, "{owners}: {}", ids.join(", "))?;
        match self.count - ids.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Why it ended so, and what was measured of its answer, as far as either is known.
pub(super) fn ended(why: Option<&str>, stats: Option<&Stats>) -> Option<String> {
    let tokens = stats.and_then(|s| {
        let n = s.completion_tokens?;
        let about = if s.estimated { "about " } else { "" };
        let plural = if n == 1 { "" } else { "s" };
        Some(format!("{about}{n} token{plural}"))
    });
    let speed = stats
        .and_then(|s| s.tokens_per_second)
        .map(|t| format!("{t:.1} tok/s"));
    let parts: Vec<_> = [why.map(str::to_owned), tokens, speed]
        .into_iter()
        .flatten()
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}
