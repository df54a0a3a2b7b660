//! The process-wide board of loads behind its lock, and a request's claim on it (spec §6).
//!
//! Owns: choose-and-count as one step; a claim that follows the request and is dropped with it.
//! Leaves to others: the order (`rules::policy`), the counts (`rules::reservations`).

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use crate::rules::candidates::{Candidate, Target};
use crate::rules::engine::EngineId;
use crate::rules::hold::Hold;
use crate::rules::ids::{Generation, NodeId};
use crate::rules::policy::{Ask, Policy, Preview, Selector};
use crate::rules::pool::ema::Sample;
use crate::rules::reservations::{Board, Load, Seat};
use crate::sync::{Mutex, MutexGuard};

use super::told::PrioritySnapshot;

struct Inner {
    board: Board,
    selector: Selector,
    applied_at: Option<Instant>,
}

/// The scheduler's snapshot and everybody's reservations, shared by all facades.
pub struct Scheduler {
    policy: Policy,
    inner: Mutex<Inner>,
}

/// The order that would be taken now, and what it follows from; all of one moment.
#[derive(Debug)]
pub struct Previewed {
    /// The scheduler's generation.
    pub generation: Generation,
    /// Load of each candidate, in their order.
    pub loads: Vec<Load>,
    /// Weights, speeds, and who is full.
    pub selection: Preview,
}

impl Scheduler {
    /// A board under this policy.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            inner: Mutex::new(Inner {
                board: Board::default(),
                selector: Selector::new(policy),
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

    /// A node's place on the board.
    pub fn seat(&self, node: &NodeId) -> Arc<Seat> {
        self.lock().board.seat(node)
    }

    /// Puts candidates in order as far as it is decided now; with `claim`, counts the request on the
    /// chosen one in the same step. Returns the pool nodes that it took out as full.
    pub fn order(
        &self,
        ask: Ask,
        candidates: &mut Vec<Candidate>,
        claim: Option<&mut Claim>,
    ) -> Vec<NodeId> {
        let inner = &mut *self.lock();
        match claim {
            None => inner.selector.order(&inner.board, ask, candidates).full,
            Some(claim) => {
                let Inner {
                    board, selector, ..
                } = inner;
                claim.hold.choose(selector, board, ask, candidates)
            },
        }
    }

    /// The one before was lost: chooses who is next among those that are left, and puts it in front.
    pub fn next(&self, ask: Ask, rest: &mut [Candidate]) {
        let inner = &mut *self.lock();
        inner.selector.next(&inner.board, ask, rest);
    }

    /// Puts candidates in the order in which they would be tried now, without counting or
    /// remembering anything.
    pub fn preview(&self, ask: Ask, candidates: &mut Vec<Candidate>) -> Previewed {
        let inner = self.lock();
        let selection = inner.selector.preview(&inner.board, ask, candidates);
        let load = |c: &Candidate| inner.board.load(&c.target.node);
        Previewed {
            generation: inner.board.generation(),
            loads: candidates.iter().map(load).collect(),
            selection,
        }
    }

    /// An answer of this model on this node was measured.
    /// Counts only where somebody chooses by it.
    pub fn learn(&self, engine: EngineId, model: &str, target: &Target, sample: Sample) {
        if self.policy != Policy::Weighted {
            return;
        }
        let mut inner = self.lock();
        inner.selector.learn(engine, model, &target.seat, sample);
    }

    /// The scheduler's list and counts without anything of ours: what a dry replay starts from.
    /// With it the policy as it stands in its turns.
    pub fn background(&self) -> (Board, Selector) {
        let inner = self.lock();
        (inner.board.without_ours(), inner.selector.clone())
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
    hold: Hold,
}

impl Claim {
    /// A request that counts nowhere yet.
    pub fn new(scheduler: Arc<Scheduler>) -> Self {
        Self {
            scheduler,
            hold: Hold::default(),
        }
    }

    /// Dispatched to this node. Returns the node's load without this dispatch.
    pub fn dispatch(&mut self, node: &NodeId) -> Load {
        self.hold.dispatch(&mut self.scheduler.lock().board, node)
    }

    /// Nothing is running any more: before a wait, and at the end.
    pub fn release(&mut self) {
        if !self.hold.is_empty() {
            self.hold.release(&mut self.scheduler.lock().board);
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
    use super::super::command::Rank;
    use super::super::facade::{Alone, FacadeState};
    use super::*;
    use crate::rules::discovery::tests::node;

    fn lmstudio() -> EngineId {
        EngineId::parse("lmstudio").unwrap()
    }

    fn ask() -> Ask<'static> {
        Ask {
            engine: lmstudio(),
            model: "m",
            pin: None,
        }
    }

    /// Owners `a` and `b`.
    fn candidates(s: &Arc<Scheduler>) -> Vec<Candidate> {
        let facade = FacadeState::new(lmstudio(), Arc::new(Alone), s.clone());
        facade.add_manual(node("a", 1, &["m"]));
        facade.add_manual(node("b", 2, &["m"]));
        facade.routing().view.candidates(Some("m")).to_vec()
    }

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
            s.order(ask(), &mut candidates(&s), Some(&mut claim));
            assert_eq!(s.load(&a).reserved, 1);
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

    #[test]
    fn the_background_is_the_scheduler_s_counts_alone_and_live_ones_stay() {
        let s = Arc::new(Scheduler::new(Policy::Listed));
        let a = NodeId::from("a");
        s.apply(PrioritySnapshot {
            generation: 7,
            nodes: vec![a.clone()],
            ranks: vec![Rank {
                id: a.clone(),
                pending: 3,
                gpu_pressure: 1,
            }],
        });
        let mut claim = Claim::new(s.clone());
        s.order(ask(), &mut candidates(&s), Some(&mut claim));
        claim.dispatch(&a);
        let live = s.load(&a);
        let (board, _) = s.background();
        let seen = board.load(&a);
        assert_eq!((seen.pending, seen.pressure), (3, 1));
        assert_eq!((seen.reserved, seen.in_flight), (0, 0));
        assert_eq!(
            (board.generation(), board.rank(&a)),
            (Generation(7), Some(0))
        );
        assert_eq!((live.reserved, s.load(&a)), (1, live));
    }
}
