//! The process-wide board of loads behind its lock, and a request's claim on it (spec §6).
//!
//! Owns: choose-and-count as one step; a claim that follows the request and is dropped with it.
//! Leaves to others: the order (`rules::policy`), the counts (`rules::reservations`).

use std::ops::Range;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use crate::rules::candidates::Target;
use crate::rules::engine::EngineId;
use crate::rules::hold::Hold;
use crate::rules::ids::{Generation, NodeId};
use crate::rules::policy::{Ask, Policy, Preview, Selector};
use crate::rules::pool::ema::Sample;
use crate::rules::reservations::{Board, Load, Seat};
use crate::rules::shortlist::Shortlist;
use crate::sync::{Mutex, MutexGuard};

use super::told::PrioritySnapshot;

struct Inner {
    board: Board,
    selector: Selector,
    applied_at: Option<Instant>,
}

/// The scheduler's snapshot and everybody's reservations, shared by all facades.
pub struct Scheduler {
    inner: Mutex<Inner>,
}

/// The order that would be taken now, and what it follows from; all of one moment.
#[derive(Debug)]
pub struct Previewed {
    /// The scheduler's generation.
    pub generation: Generation,
    /// Load of each candidate from the place on, in their order.
    pub loads: Vec<Load>,
    /// Weights, speeds, and who is full.
    pub selection: Preview,
}

impl Scheduler {
    /// A board under this policy.
    pub fn new(policy: Policy) -> Self {
        Self {
            inner: Mutex::new(Inner {
                board: Board::default(),
                selector: Selector::new(policy),
                applied_at: None,
            }),
        }
    }

    /// The policy in force.
    pub fn policy(&self) -> Policy {
        self.lock().selector.policy()
    }

    /// From the next request on this policy. Counts, reservations, turns and speeds stay: every policy
    /// keeps them alike.
    pub fn set_policy(&self, policy: Policy) {
        self.lock().selector.set_policy(policy);
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

    /// Puts candidates from a place on in order as far as it is decided now; with `claim`, counts the request on the
    /// chosen one in the same step. Returns the pool nodes that it took out as full.
    pub fn order(
        &self,
        ask: Ask,
        candidates: &mut Shortlist,
        from: usize,
        claim: Option<&mut Claim>,
    ) -> Vec<NodeId> {
        let inner = &mut *self.lock();
        match claim {
            None => {
                let Inner {
                    board, selector, ..
                } = inner;
                selector.order(board, ask, candidates, from).full
            },
            Some(claim) => {
                let Inner {
                    board, selector, ..
                } = inner;
                claim.hold.choose(selector, board, ask, candidates, from)
            },
        }
    }

    /// The one before was lost: chooses who is next among those at these places, and puts it in front
    /// of them.
    pub fn next(&self, ask: Ask, candidates: &mut Shortlist, places: Range<usize>) {
        let inner = &mut *self.lock();
        inner.selector.next(&inner.board, ask, candidates, places);
    }

    /// Puts candidates from a place on in the order in which they would be tried now, without counting
    /// or remembering anything.
    pub fn preview(&self, ask: Ask, candidates: &mut Shortlist, from: usize) -> Previewed {
        let inner = self.lock();
        let selection = inner.selector.preview(&inner.board, ask, candidates, from);
        let load = |target: &Arc<Target>| inner.board.load(&target.node);
        Previewed {
            generation: inner.board.generation(),
            loads: candidates.targets().skip(from).map(load).collect(),
            selection,
        }
    }

    /// An answer of this model on this node was measured.
    /// Counts only where somebody chooses by it.
    pub fn learn(&self, engine: EngineId, model: &str, target: &Target, sample: Sample) {
        let mut inner = self.lock();
        if inner.selector.policy() != Policy::Weighted {
            return;
        }
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
    fn candidates(s: &Arc<Scheduler>) -> Shortlist {
        let facade = FacadeState::new(lmstudio(), Arc::new(Alone), s.clone());
        facade.add_manual(node("a", 1, &["m"]));
        facade.add_manual(node("b", 2, &["m"]));
        facade.routing().view.shortlist(Some("m"))
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
            s.order(ask(), &mut candidates(&s), 0, Some(&mut claim));
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
    fn another_policy_keeps_what_was_learned_and_counts_only_what_it_chooses_by() {
        let s = Arc::new(Scheduler::new(Policy::Ordered));
        let learn = |ttft_ms| {
            let sample = Sample {
                ttft_ms: Some(ttft_ms),
                tokens_per_second: None,
            };
            s.learn(lmstudio(), "m", candidates(&s).target(0), sample);
        };
        let told = || s.preview(ask(), &mut candidates(&s), 0).selection.speeds;
        let nothing = told();
        learn(1.0);
        assert_eq!(told(), nothing, "by id nobody is measured");
        s.set_policy(Policy::Weighted);
        learn(700.0);
        let measured = told();
        assert_ne!(measured, nothing);
        s.set_policy(Policy::Ordered);
        learn(1.0);
        s.set_policy(Policy::Weighted);
        assert_eq!((s.policy(), told()), (Policy::Weighted, measured));
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
        s.order(ask(), &mut candidates(&s), 0, Some(&mut claim));
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
