//! A finished workload as the journal keeps it.
//!
//! Owns: reading attempts out of a timeline. Leaves to others: the record's form (`wire::journal`).

use crate::rules::ids::NodeId;
use crate::rules::reservations::Load;
use crate::wire::journal::{Attempt, AttemptOutcome, Entry, Record};

use super::{Inner, Job, Step};

/// Takes finished workloads. Called on the task of the request: must not block.
pub trait Finished: Send + Sync {
    /// Takes one.
    fn finished(&self, entry: &Entry<'_>);
}

/// The load that was shown when a node was chosen.
pub(super) fn terms(l: &Load) -> [u64; 3] {
    [l.pending, l.pressure, l.reserved.max(l.in_flight)]
}

impl Job {
    /// The record, if it ended.
    pub(super) fn finished_record(&self) -> Option<Record> {
        let inner = self.lock();
        let ended_at = inner.ended_at?;
        Some(self.entry(&inner, ended_at).to_record())
    }

    /// What is told of a job that ended at this Unix millisecond.
    pub(super) fn entry<'a>(&'a self, inner: &'a Inner, ended_at: u64) -> Entry<'a> {
        let a = &self.admission;
        Entry {
            run_id: &self.all.run_id,
            engine: a.engine,
            id: a.id,
            model: &a.model,
            path: a.path,
            body_bytes: a.body_bytes,
            created_at: a.created_at,
            started_at: inner.started_at,
            ended_at,
            state: inner.life.state(),
            status: inner.status,
            error: inner.error.as_deref(),
            framing: inner.framing,
            attempts: attempts(inner),
            stats: inner.stats.as_ref(),
            client: a.client.as_deref(),
        }
    }
}

/// Each dispatch with what followed it; what nothing followed was under way at the end.
fn attempts(inner: &Inner) -> Vec<Attempt<&NodeId>> {
    let mut all: Vec<Attempt<&NodeId>> = Vec::with_capacity(1);
    let settle = |node: &NodeId, outcome, status, all: &mut Vec<Attempt<&NodeId>>| {
        if let Some(last) = all.last_mut().filter(|l| l.node == node) {
            last.outcome = outcome;
            last.status = status;
        }
    };
    for (at, step) in &inner.timeline {
        match step {
            Step::Dispatched(node, load) => all.push(Attempt {
                node,
                at_ms: u64::from(*at),
                load: terms(load),
                outcome: AttemptOutcome::Abandoned,
                status: None,
            }),
            Step::Refused(node, failure, _) => {
                settle(node, (*failure).into(), failure.status(), &mut all);
            },
            Step::Started(node) => {
                settle(node, AttemptOutcome::Committed, inner.status, &mut all);
            },
            Step::Waiting => {},
        }
    }
    all
}
