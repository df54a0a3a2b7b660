//! The process-wide board of loads behind its lock, and a request's claim on it (spec §6).
//!
//! Owns: choose-and-count as one step; a claim that follows the request and is dropped with it.
//! Leaves to others: the order (`rules::policy`), the counts (`rules::reservations`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::rules::candidates::Candidate;
use crate::rules::ids::{Generation, NodeId};
use crate::rules::policy::Policy;
use crate::rules::reservations::{Board, Load, Reservation};

use super::command::PrioritySnapshot;

struct Inner {
    board: Board,
    applied_at: Option<Instant>,
}

/// The scheduler's snapshot and everybody's reservations, shared by all facades.
pub struct Scheduler {
    policy: Policy,
    inner: Mutex<Inner>,
}

impl Scheduler {
    /// A board under this policy.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            inner: Mutex::new(Inner {
                board: Board::default(),
                applied_at: None,
            }),
        }
    }

    /// The policy in force.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Applies a snapshot if it is newer; the length of the list in force after it.
    pub fn apply(&self, s: PrioritySnapshot) -> usize {
        let mut inner = self.lock();
        let ranks = s
            .ranks
            .into_iter()
            .map(|r| (r.id, r.pending, r.gpu_pressure));
        if inner.board.apply(Generation(s.generation), s.nodes, ranks) {
            inner.applied_at = Some(Instant::now());
        }
        inner.board.priority().len()
    }

    /// Generation and age of the snapshot in force.
    pub fn snapshot(&self) -> (Generation, Option<Instant>) {
        let inner = self.lock();
        (inner.board.generation(), inner.applied_at)
    }

    /// Load of a node.
    pub fn load(&self, node: &NodeId) -> Load {
        self.lock().board.load(node)
    }

    /// Puts candidates in order; with `claim`, counts the request on the chosen one in the same
    /// step.
    pub fn order(
        &self,
        pin: Option<&NodeId>,
        candidates: &mut [Candidate],
        claim: Option<&mut Claim>,
    ) {
        let mut inner = self.lock();
        match claim {
            None => drop(self.policy.order(&inner.board, pin, candidates)),
            Some(claim) => {
                if let Some(old) = claim.reservation.take() {
                    inner.board.release(old);
                }
                claim.reservation =
                    self.policy
                        .order_and_reserve(&mut inner.board, pin, candidates);
            },
        }
    }

    /// Puts candidates in the order in which they would be tried now, without counting anything:
    /// the generation, and the load of each in that order, all of one moment.
    pub fn preview(
        &self,
        pin: Option<&NodeId>,
        candidates: &mut [Candidate],
    ) -> (Generation, Vec<Load>) {
        let inner = self.lock();
        drop(self.policy.order(&inner.board, pin, candidates));
        let load = |c: &Candidate| inner.board.load(&c.target.node);
        (
            inner.board.generation(),
            candidates.iter().map(load).collect(),
        )
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Counts stay consistent across a panic elsewhere: each change is one step.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request's weight on the board. It follows each dispatch, is taken off before a wait, and goes
/// with the request whatever ends it.
pub struct Claim {
    scheduler: Arc<Scheduler>,
    reservation: Option<Reservation>,
    running_on: Option<NodeId>,
}

impl Claim {
    /// A request that counts nowhere yet.
    pub fn new(scheduler: Arc<Scheduler>) -> Self {
        Self {
            scheduler,
            reservation: None,
            running_on: None,
        }
    }

    /// Dispatched to this node: the reservation moves there. One that never was (a pin) does not
    /// begin here. Returns the node's load without this dispatch.
    pub fn dispatch(&mut self, node: &NodeId) -> Load {
        let scheduler = self.scheduler.clone();
        let mut inner = scheduler.lock();
        let before = inner.board.load(node);
        let mine = self.reservation.as_ref().is_some_and(|r| r.node() == node);
        if let Some(r) = &mut self.reservation {
            inner.board.move_to(r, node);
        }
        if self.running_on.as_ref() != Some(node) {
            if let Some(old) = self.running_on.take() {
                inner.board.end(&old);
            }
            inner.board.begin(node);
            self.running_on = Some(node.clone());
        }
        Load {
            reserved: before.reserved.saturating_sub(u64::from(mine)),
            ..before
        }
    }

    /// Nothing is running any more: before a wait, and at the end.
    pub fn release(&mut self) {
        if self.reservation.is_none() && self.running_on.is_none() {
            return;
        }
        let mut inner = self.scheduler.lock();
        if let Some(r) = self.reservation.take() {
            inner.board.release(r);
        }
        if let Some(node) = self.running_on.take() {
            inner.board.end(&node);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_leaves_nothing_behind_whatever_it_did() {
        let s = Arc::new(Scheduler::new(Policy::Listed));
        let a = NodeId::from("a");
        let b = NodeId::from("b");
        let n = s.apply(PrioritySnapshot {
            generation: 1,
            nodes: vec![a.clone(), b.clone()],
            ranks: vec![],
        });
        assert_eq!(n, 2);
        {
            let mut claim = Claim::new(s.clone());
            claim.reservation = Some(s.lock().board.take(&a));
            assert_eq!(
                claim.dispatch(&a),
                Load::default(),
                "its own count is not its load"
            );
            claim.dispatch(&b);
            assert_eq!(
                (
                    s.load(&a).estimate(),
                    s.load(&b).reserved,
                    s.load(&b).in_flight
                ),
                (0, 1, 1)
            );
        }
        assert_eq!((s.load(&a), s.load(&b)), (Load::default(), Load::default()));
    }
}
