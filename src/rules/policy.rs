//! The one seam of selection: the order in which candidates are tried, and whose load is counted
//! (spec §5 steps 2 and 3, §6; product sections 3 and 7).
//!
//! Owns: pin, list and weighted order, what is remembered from one choice to the next. Leaves to
//! others: eligibility (`candidates`), the counts (`reservations`), the rotation itself (`weighted`).
//! The request path and the `route` dry run both call this.
//!
//! Weighted choices are made one at a time: the second candidate is chosen when the first was lost,
//! by the loads of that moment.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::candidates::Candidate;
use super::engine::EngineId;
use super::ids::NodeId;
use super::pool::ema::Sample;
use super::reservations::{Board, Reservation, Seat};
use super::sheets::Sheets;
use super::shortlist::Shortlist;
use super::weighted::{Rotation, Speed, Survey, weights};

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
    sheets: Sheets,
}

/// Whether what was reckoned of the candidates is of this moment.
#[derive(Clone, Copy)]
enum Rows {
    Old,
    /// In the track at this place, where all of them were looked over.
    Fresh(usize, Survey),
}

/// Models that are remembered at most; names come from outside.
const TRACKS: usize = 4096;

/// A policy with its memory.
#[derive(Clone, Debug)]
pub struct Selector {
    policy: Policy,
    /// By facade.
    tracks: Vec<Tracks>,
}

/// By model. The names lead to places, so that a track is found by one look-up.
#[derive(Clone, Debug, Default)]
struct Tracks {
    places: FxHashMap<Box<str>, usize>,
    tracks: Vec<Track>,
}

impl Selector {
    /// A policy that has chosen nobody yet.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            tracks: EngineId::facades().map(|_| Tracks::default()).collect(),
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
    /// are taken out. Only those from a place on are looked at: the ones before it are other links'.
    pub fn order(
        &mut self,
        board: &Board,
        ask: Ask,
        candidates: &mut Shortlist,
        from: usize,
    ) -> Ordered {
        let (full, mut rows) = self.take_out_full(board, ask, candidates, from);
        let pinned = ask
            .pin
            .is_some_and(|pin| to_front(candidates, from, |c| c.target.node == *pin));
        let rest = from + usize::from(pinned);
        if pinned {
            // The others are looked over without it.
            rows = Rows::Old;
        }
        let reserve = match self.policy {
            Policy::Ordered => {
                pool_last(candidates, rest, |_| ());
                self.turn(board, ask, candidates, rest..candidates.len(), rows);
                None
            },
            Policy::Listed => {
                let rank = |c: &Candidate| board.rank(&c.target.node).unwrap_or(usize::MAX);
                pool_last(candidates, rest, rank);
                if pinned {
                    return Ordered {
                        reserve: None,
                        full,
                    };
                }
                let listed = least_loaded_listed(board, candidates, from);
                if listed.is_none() {
                    self.turn(board, ask, candidates, from..candidates.len(), rows);
                }
                listed
            },
            Policy::Weighted if pinned => None,
            Policy::Weighted => {
                self.turn(board, ask, candidates, from..candidates.len(), rows);
                let first = (from < candidates.len()).then(|| candidates.target(from));
                first.map(|target| target.node.clone())
            },
        };
        Ordered { reserve, full }
    }

    /// Orders and counts in one step, so that concurrent requests see each other.
    pub fn order_and_reserve(
        &mut self,
        board: &mut Board,
        ask: Ask,
        candidates: &mut Shortlist,
        from: usize,
    ) -> (Option<Reservation>, Vec<NodeId>) {
        let Ordered { reserve, full } = self.order(board, ask, candidates, from);
        (reserve.map(|node| board.take(&node)), full)
    }

    /// Chooses who is next among those at these places, and puts it in front of them. Does nothing
    /// where the order stands.
    pub fn next(
        &mut self,
        board: &Board,
        ask: Ask,
        candidates: &mut Shortlist,
        places: Range<usize>,
    ) {
        self.turn(board, ask, candidates, places, Rows::Old);
    }

    fn turn(
        &mut self,
        board: &Board,
        ask: Ask,
        candidates: &mut Shortlist,
        places: Range<usize>,
        rows: Rows,
    ) {
        let by_turns = !places.is_empty()
            && (self.policy == Policy::Weighted
                || candidates.target(places.start).pooled().is_some());
        if !by_turns {
            return;
        }
        let tracks = &mut self.tracks[ask.engine.index()];
        let (track, fresh) = match rows {
            Rows::Fresh(track, survey) => (track, Some(survey)),
            Rows::Old => (tracks.find(ask.model), None),
        };
        let Track { rotation, sheets } = &mut tracks.tracks[track];
        let refresh = || sheets.refresh(board, candidates, places.clone()).survey;
        let survey = fresh.unwrap_or_else(refresh);
        if let Some(i) = sheets.turn(rotation, survey, candidates.picks(places.clone())) {
            candidates.put_first(places.start, places.start + i);
        }
    }

    /// Pool nodes without a free slot are not asked. Says whether it brought the rows up to date.
    fn take_out_full(
        &mut self,
        board: &Board,
        ask: Ask,
        candidates: &mut Shortlist,
        from: usize,
    ) -> (Vec<NodeId>, Rows) {
        let mut full = Vec::new();
        if !candidates.may_be_pooled() {
            return (full, Rows::Old);
        }
        let tracks = &mut self.tracks[ask.engine.index()];
        let track = tracks.find(ask.model);
        let sheets = &mut tracks.tracks[track].sheets;
        let seen = sheets.refresh(board, candidates, from..candidates.len());
        if seen.full > 0 {
            candidates.retain_picks(from, |pick, c| {
                let is_full = c.target.pooled().is_some() && sheets.facts(pick).is_full();
                if is_full {
                    full.push(c.target.node.clone());
                }
                !is_full
            });
        }
        (full, Rows::Fresh(track, seen.survey))
    }

    /// The whole order as it would be decided now, one lost after the other; nothing is remembered.
    /// Returns the weight of each from the place on, in that order.
    pub fn preview(
        &self,
        board: &Board,
        ask: Ask,
        candidates: &mut Shortlist,
        from: usize,
    ) -> Preview {
        let mut trial = Self::new(self.policy);
        let Tracks { places, tracks } = &self.tracks[ask.engine.index()];
        if let Some(place) = places.get(ask.model) {
            *trial.track(ask.engine, ask.model) = tracks[*place].clone();
        }
        let Ordered { full, .. } = trial.order(board, ask, candidates, from);
        let end = candidates.len();
        for next in from + 1..end.min(from + Self::PREVIEWED) {
            trial.next(board, ask, candidates, next..end);
        }
        let sheets = &mut trial.track(ask.engine, ask.model).sheets;
        sheets.refresh(board, candidates, from..end);
        let picks = candidates.picks(from..end);
        let all: Vec<_> = picks.map(|pick| *sheets.facts(pick)).collect();
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
        self.track(engine, model).sheets.learn(seat, sample);
    }

    fn track(&mut self, engine: EngineId, model: &str) -> &mut Track {
        let tracks = &mut self.tracks[engine.index()];
        let place = tracks.find(model);
        &mut tracks.tracks[place]
    }
}

impl Tracks {
    /// The place of a model's track, which is made for it if there is none.
    fn find(&mut self, model: &str) -> usize {
        if let Some(place) = self.places.get(model) {
            return *place;
        }
        if self.tracks.len() >= TRACKS {
            // Every model there was had its turn; a new rotation is as good.
            *self = Self::default();
        }
        self.places.insert(model.into(), self.tracks.len());
        self.tracks.push(Track::default());
        self.tracks.len() - 1
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

/// Orders by a key, of one key the pool's nodes last.
fn pool_last<K: Ord>(candidates: &mut Shortlist, from: usize, key: impl Fn(&Candidate) -> K) {
    candidates.sort_by_key(from, |c| (key(c), c.target.pooled().is_some()));
}

/// Among the candidates the scheduler listed, the least loaded goes first, ties to the earlier
/// position; the others keep their order.
fn least_loaded_listed(board: &Board, candidates: &mut Shortlist, from: usize) -> Option<NodeId> {
    let listed = candidates
        .targets()
        .skip(from)
        .filter(|target| board.rank(&target.node).is_some());
    let best = listed
        .min_by_key(|target| board.load(&target.node).estimate())?
        .node
        .clone();
    to_front(candidates, from, |c| c.target.node == best);
    Some(best)
}

/// Moves the first such candidate to the front; the others keep their order.
fn to_front(candidates: &mut Shortlist, from: usize, is_it: impl Fn(&Candidate) -> bool) -> bool {
    let place = (from..candidates.len()).find(|place| is_it(candidates.listed(*place)));
    if let Some(place) = place {
        candidates.put_first(from, place);
    }
    place.is_some()
}

#[cfg(test)]
mod tests;
