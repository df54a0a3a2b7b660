//! The one seam of selection: the order in which candidates are tried, and whose load is counted
//! (spec §5 steps 2 and 3, §6; product sections 3 and 7).
//!
//! Owns: pin, list and weighted order, what is remembered from one choice to the next. Leaves to
//! others: eligibility (`candidates`), the counts (`reservations`), the rotation itself (`weighted`).
//! The request path and the `route` dry run both call this.
//!
//! Weighted choices are made one at a time: the second candidate is chosen when the first was lost,
//! by the loads of that moment.

use rustc_hash::FxHashMap;

use super::candidates::Candidate;
use super::engine::EngineId;
use super::ids::NodeId;
use super::pool::ema::Sample;
use super::reservations::{Board, Reservation, Seat};
use super::weighted::{Facts, Health, Rotation, Speed, weights};

/// Which policy is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The spec's, under a broker: pin, the broker's list with reservations, then by id, then the
    /// pool by weight.
    Listed,
    /// Standalone: pin, then by tier and weight.
    Weighted,
    /// The spec's bare default order: pin, then by id, then the pool by weight.
    Ordered,
}

impl Policy {
    /// Its name in `status` and in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Listed => "listed",
            Self::Weighted => "weighted",
            Self::Ordered => "ordered",
        }
    }
}

/// For whom candidates are ordered.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The facade.
    pub engine: EngineId,
    /// The model, normalised; empty where none decides.
    pub model: &'a str,
    /// The pinned node, if any.
    pub pin: Option<&'a NodeId>,
}

/// What an order left out, and on whom the request counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ordered {
    /// The node that a reservation belongs on. A pinned request takes none.
    pub reserve: Option<NodeId>,
    /// Pool nodes that were taken out because all their places are taken.
    pub full: Vec<NodeId>,
}

/// What is remembered for one model of one facade.
#[derive(Clone, Debug, Default)]
struct Track {
    rotation: Rotation,
    /// By seat.
    speeds: Vec<Speed>,
}

/// Models that are remembered at most; names come from outside.
const TRACKS: usize = 4096;

/// A policy with its memory.
#[derive(Clone, Debug)]
pub struct Selector {
    policy: Policy,
    /// By facade, then by model.
    tracks: Vec<FxHashMap<Box<str>, Track>>,
    scratch: Vec<Facts>,
}

impl Selector {
    /// A policy that has chosen nobody yet.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            tracks: EngineId::facades().map(|_| FxHashMap::default()).collect(),
            scratch: Vec::new(),
        }
    }

    /// The policy.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// From now on this policy, with what was remembered under the other.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// Puts candidates (given by id) in the order in which they are to be tried, as far as it is
    /// decided now: [`Selector::next`] decides the rest as it comes to it. Pool nodes that are full
    /// are taken out.
    pub fn order(&mut self, board: &Board, ask: Ask, candidates: &mut Vec<Candidate>) -> Ordered {
        let mut full = Vec::new();
        candidates.retain(|c| {
            let is_full = c.target.pooled().is_some() && facts(board, None, c).is_full();
            if is_full {
                full.push(c.target.node.clone());
            }
            !is_full
        });
        let pinned = ask.pin.is_some_and(|pin| to_front(candidates, pin));
        let rest = &mut candidates[usize::from(pinned)..];
        let reserve = match self.policy {
            Policy::Ordered => {
                rest.sort_by_key(|c| c.target.pooled().is_some());
                self.next(board, ask, rest);
                None
            },
            Policy::Listed => {
                let rank = |c: &Candidate| board.rank(&c.target.node).unwrap_or(usize::MAX);
                rest.sort_by_key(|c| (rank(c), c.target.pooled().is_some()));
                if pinned {
                    return Ordered {
                        reserve: None,
                        full,
                    };
                }
                let listed = least_loaded_listed(board, candidates);
                if listed.is_none() {
                    self.next(board, ask, candidates);
                }
                listed
            },
            Policy::Weighted if pinned => None,
            Policy::Weighted => {
                self.next(board, ask, rest);
                rest.first().map(|c| c.target.node.clone())
            },
        };
        Ordered { reserve, full }
    }

    /// Orders and counts in one step, so that concurrent requests see each other.
    pub fn order_and_reserve(
        &mut self,
        board: &mut Board,
        ask: Ask,
        candidates: &mut Vec<Candidate>,
    ) -> (Option<Reservation>, Vec<NodeId>) {
        let Ordered { reserve, full } = self.order(board, ask, candidates);
        (reserve.map(|node| board.take(&node)), full)
    }

    /// Chooses who is next among those that are left, and puts it in front. Does nothing where the
    /// order stands.
    pub fn next(&mut self, board: &Board, ask: Ask, rest: &mut [Candidate]) {
        let by_turns = self.policy == Policy::Weighted
            || rest.first().is_some_and(|c| c.target.pooled().is_some());
        if !by_turns || rest.is_empty() {
            return;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let track = self.track(ask.engine, ask.model);
        scratch.clear();
        scratch.extend(rest.iter().map(|c| facts(board, Some(track), c)));
        if let Some(i) = track.rotation.pick(&scratch) {
            rest[..=i].rotate_right(1);
        }
        self.scratch = scratch;
    }

    /// The whole order as it would be decided now, one lost after the other; nothing is remembered.
    /// Returns the weight of each, in that order.
    pub fn preview(&self, board: &Board, ask: Ask, candidates: &mut Vec<Candidate>) -> Preview {
        let mut trial = Self::new(self.policy);
        if let Some(track) = self.tracks[ask.engine.index()].get(ask.model) {
            trial.tracks[ask.engine.index()].insert(ask.model.into(), track.clone());
        }
        let Ordered { full, .. } = trial.order(board, ask, candidates);
        for i in 1..candidates.len().min(Self::PREVIEWED) {
            trial.next(board, ask, &mut candidates[i..]);
        }
        let track = trial.track(ask.engine, ask.model);
        let all: Vec<_> = candidates
            .iter()
            .map(|c| facts(board, Some(track), c))
            .collect();
        Preview {
            full,
            weights: weights(&all),
            speeds: all.iter().map(|f| f.speed).collect(),
        }
    }

    /// More candidates than this are not told in the order in which they would be tried.
    const PREVIEWED: usize = 64;

    /// An answer of this model on this node was measured.
    pub fn learn(&mut self, engine: EngineId, model: &str, seat: &Seat, sample: Sample) {
        let speeds = &mut self.track(engine, model).speeds;
        if seat.index() >= speeds.len() {
            speeds.resize(seat.index() + 1, Speed::default());
        }
        speeds[seat.index()].learn(sample);
    }

    fn track(&mut self, engine: EngineId, model: &str) -> &mut Track {
        let tracks = &mut self.tracks[engine.index()];
        if !tracks.contains_key(model) {
            if tracks.len() >= TRACKS {
                // Every model there was had its turn; a new rotation is as good.
                tracks.clear();
            }
            tracks.insert(model.into(), Track::default());
        }
        match tracks.get_mut(model) {
            Some(track) => track,
            None => unreachable!("it was put there just now"),
        }
    }
}

/// What [`Selector::preview`] tells beside the order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preview {
    /// Pool nodes whose places are all taken.
    pub full: Vec<NodeId>,
    /// Weights of the others, in their order.
    pub weights: Vec<i64>,
    /// Their measured speeds.
    pub speeds: Vec<Speed>,
}

/// What is known of a candidate now.
fn facts(board: &Board, track: Option<&Track>, c: &Candidate) -> Facts {
    let load = board.load_at(&c.target.seat);
    let own = load.in_flight.max(load.reserved);
    let told = c.target.pooled();
    let seat = c.target.seat.index();
    let measured = || {
        let speeds = track.map_or(&[][..], |t| &t.speeds);
        speeds.get(seat).copied().unwrap_or_default()
    };
    Facts {
        seat,
        slots: c.target.slots,
        base_weight: c.target.weight,
        active: own + told.map_or(0, |p| u64::from(p.active)),
        queue: load.pending + load.pressure + told.map_or(0, |p| u64::from(p.queue)),
        warm: c.warm,
        health: told.map_or(Health::Healthy, |p| p.health),
        speed: c.speed.unwrap_or_else(measured),
    }
}

/// Among the candidates the scheduler listed, the least loaded goes first, ties to the earlier
/// position; the others keep their order.
fn least_loaded_listed(board: &Board, candidates: &mut [Candidate]) -> Option<NodeId> {
    let listed = candidates
        .iter()
        .filter(|c| board.rank(&c.target.node).is_some());
    let best = listed
        .min_by_key(|c| board.load(&c.target.node).estimate())?
        .target
        .node
        .clone();
    to_front(candidates, &best);
    Some(best)
}

/// Moves the candidate on this node to the front; the others keep their order.
fn to_front(candidates: &mut [Candidate], node: &NodeId) -> bool {
    match candidates.iter().position(|c| c.target.node == *node) {
        Some(i) => {
            candidates[..=i].rotate_right(1);
            true
        },
        None => false,
    }
}

#[cfg(test)]
mod tests;
