//! Recorded arrivals through the live decisions, on a virtual clock (product section 6).
//!
//! Owns: which recorded workloads are taken, the virtual clock, who would get each of them.
//! Leaves to others: the decision itself, which is made by the very parts that serve a request
//! (`candidates`, `policy`, `hold`, `dispatch`); the records (`wire::journal`), the report (`replay`).
//!
//! Nothing fails on the virtual clock: whoever is dispatched to serves for as long as the recorded
//! node did. Arrivals of one millisecond keep one order, so that the same recording and the same
//! snapshot always give the same outcome.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::candidates::{Candidate, View};
use super::dispatch::{Action, Dispatch, Event};
use super::engine::EngineId;
use super::gateway::{Link, Place as Where, VirtualModels, node_serves, provider_serves};
use super::hold::Hold;
use super::ids::{JobId, NodeId, RunId};
use super::outcome::Effort;
use super::policy::{Ask, Selector};
use super::reservations::Board;
use super::shortlist::Shortlist;
use super::usage::Stats;
use super::workload::State;

/// Workloads of one replay, at most: over twice what a full journal holds.
pub const MOST: usize = 250_000;

/// One recorded workload, as far as a replay needs it. No content, and no address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arrival {
    /// The daemon's run that recorded it.
    pub run_id: RunId,
    /// Facade.
    pub engine: EngineId,
    /// Number on that facade.
    pub id: JobId,
    /// Model as requested.
    pub model: String,
    /// Path of its route.
    pub path: String,
    /// Length of the request body.
    pub body_bytes: u64,
    /// Unix ms of arrival.
    pub created_at: u64,
    /// Milliseconds from its last dispatch to its end.
    pub held_ms: u64,
    /// State at the end.
    pub state: State,
    /// HTTP status the client got.
    pub status: Option<u16>,
    /// Whether the answer came as a stream; null where none was committed.
    pub streamed: Option<bool>,
    /// The node that served it, or was tried last.
    pub node: Option<NodeId>,
    /// What was measured of the answer.
    pub stats: Option<Stats>,
}

impl Arrival {
    /// What tells it from every other one; also the order in which arrivals are replayed.
    fn key(&self) -> (u64, &str, EngineId, JobId) {
        (self.created_at, self.run_id.as_str(), self.engine, self.id)
    }
}

/// Which recorded workloads are replayed; each part narrows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pick {
    /// Only this facade's.
    pub engine: Option<EngineId>,
    /// Only what arrived at this Unix millisecond or later.
    pub from_at: Option<u64>,
    /// Only the newest so many of what is left.
    pub last: Option<usize>,
}

impl Pick {
    /// Sorts what is picked by arrival. One that is there twice, as in joined recordings, counts
    /// once.
    pub fn apply(&self, arrivals: &mut Vec<Arrival>) {
        arrivals.retain(|a| {
            self.engine.is_none_or(|e| e == a.engine)
                && self.from_at.is_none_or(|at| a.created_at >= at)
        });
        arrivals.sort_by(|a, b| a.key().cmp(&b.key()));
        arrivals.dedup_by(|a, b| a.key() == b.key());
        if let Some(last) = self.last {
            arrivals.drain(..arrivals.len().saturating_sub(last));
        }
    }
}

/// How many times as fast arrivals follow each other: 0.01 to 1000.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Speed(f64);

/// Why a number is no speed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no speed; write a number from 0.01 to 1000, such as 0.5, 1 or 4")]
pub struct NoSpeed(String);

impl Speed {
    /// The recorded pace.
    pub const RECORDED: Self = Self(1.0);

    /// The time from the first arrival to one that came so much later in the recording.
    pub fn scale(self, recorded: Duration) -> Duration {
        // No recording is long enough to overflow at the slowest speed.
        Duration::from_micros((recorded.as_micros() as f64 / self.0) as u64)
    }

    fn due_us(self, since_first_ms: u64) -> u64 {
        self.scale(Duration::from_millis(since_first_ms))
            .as_micros() as u64
    }
}

impl TryFrom<f64> for Speed {
    type Error = NoSpeed;

    fn try_from(n: f64) -> Result<Self, NoSpeed> {
        // Also refuses what is no number.
        match (0.01..=1000.0).contains(&n) {
            true => Ok(Self(n)),
            false => Err(NoSpeed(n.to_string())),
        }
    }
}

impl From<Speed> for f64 {
    fn from(speed: Speed) -> Self {
        speed.0
    }
}

impl FromStr for Speed {
    type Err = NoSpeed;

    fn from_str(text: &str) -> Result<Self, NoSpeed> {
        let no = || NoSpeed(text.to_owned());
        let n: f64 = text.parse().map_err(|_| no())?;
        Self::try_from(n).map_err(|_| no())
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A facade as it is now.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Its engine.
    pub engine: EngineId,
    /// Its nodes.
    pub view: &'a View,
    /// Its pin.
    pub pin: Option<&'a NodeId>,
    /// Whether it is enabled; the gateway uses the nodes of one that is not.
    pub open: bool,
}

/// What decides.
#[derive(Debug)]
pub struct Scene<'a> {
    /// The policy in force, as it stands in its turns.
    pub selector: Selector,
    /// Loads to begin with; the replay's own come on top.
    pub board: Board,
    /// What is known of each engine.
    pub places: &'a [Place<'a>],
    /// The gateway's virtual models.
    pub virtuals: &'a VirtualModels,
}

/// Why nobody would get a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unplaced {
    /// Its facade is not enabled.
    NoFacade,
    /// No reachable node has the model.
    NoOwner,
    /// Every node that has it is full or takes nothing now: it would wait.
    Busy,
    /// It would go to a provider, or ask for one, which a dry replay leaves alone.
    Provider,
}

impl Unplaced {
    /// The reason in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoFacade => "its facade is not enabled",
            Self::NoOwner => "no reachable node has the model",
            Self::Provider => "no node ahead of a provider takes it, so that it would go there",
            Self::Busy => "every node that has the model is full or rests, so that it would wait",
        }
    }
}

/// What would happen.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Who would get each arrival, in their order.
    pub placed: Vec<Result<NodeId, Unplaced>>,
    /// Most requests at one moment, by node.
    pub peaks: BTreeMap<NodeId, u64>,
}

/// Replays arrivals, which are in the order of [`Pick::apply`].
pub fn simulate(scene: Scene<'_>, arrivals: &[Arrival], speed: Speed) -> Outcome {
    let mut clock = Clock::new(scene);
    let first = arrivals.first().map_or(0, |a| a.created_at);
    for arrival in arrivals {
        let now_us = speed.due_us(arrival.created_at.saturating_sub(first));
        clock.end_until(now_us);
        clock.arrive(arrival, now_us);
    }
    clock.end_until(u64::MAX);
    clock.outcome
}

/// The virtual clock: what runs, by the moment at which it ends.
struct Clock<'a> {
    scene: Scene<'a>,
    /// End in microseconds since the first arrival, and place in `running`.
    ends: BinaryHeap<Reverse<(u64, usize)>>,
    running: Vec<Hold>,
    outcome: Outcome,
}

impl<'a> Clock<'a> {
    fn new(scene: Scene<'a>) -> Self {
        Self {
            scene,
            ends: BinaryHeap::new(),
            running: Vec::new(),
            outcome: Outcome::default(),
        }
    }

    /// What ended up to this moment counts no more. An end goes before an arrival of its moment.
    fn end_until(&mut self, now_us: u64) {
        while let Some(Reverse((end, at))) = self.ends.peek().copied() {
            if end > now_us {
                return;
            }
            self.ends.pop();
            self.running[at].release(&mut self.scene.board);
        }
    }

    fn arrive(&mut self, arrival: &Arrival, now_us: u64) {
        let mut hold = Hold::default();
        let placed = self.decide(arrival, &mut hold);
        if let Ok(node) = &placed {
            let in_flight = self.scene.board.load(node).in_flight;
            let peak = self.outcome.peaks.entry(node.clone()).or_default();
            *peak = (*peak).max(in_flight);
            let end = now_us.saturating_add(arrival.held_ms.saturating_mul(1000));
            self.ends.push(Reverse((end, self.running.len())));
            self.running.push(hold);
        }
        self.outcome.placed.push(placed);
    }

    /// As `facade::round` carries out the machine's actions, up to the first dispatch.
    fn decide(&mut self, arrival: &Arrival, hold: &mut Hold) -> Result<NodeId, Unplaced> {
        let is_open = |p: &&Place| p.engine == arrival.engine && p.open;
        let place = self.scene.places.iter().find(is_open);
        let place = place.ok_or(Unplaced::NoFacade)?;
        let (mut busy, mut why) = (false, Unplaced::NoOwner);
        let mut candidates = Shortlist::default();
        if arrival.engine.is_gateway() {
            for link in self.scene.virtuals.chain(&arrival.model) {
                if matches!(link.place, Where::Provider(_) | Where::Providers) {
                    if provider_serves(&arrival.path) {
                        why = Unplaced::Provider;
                        break;
                    }
                    continue;
                }
                busy |= self.link(&link, &arrival.path, hold, &mut candidates);
                if !candidates.is_empty() {
                    break;
                }
            }
        } else {
            let model = arrival.engine.spec().naming.normalize(&arrival.model);
            candidates = place.view.shortlist(Some(&model));
            busy |= !place.view.resting(&model).is_empty();
            let ask = Ask {
                engine: arrival.engine,
                model: &model,
                pin: place.pin,
            };
            busy |= self.choose(ask, hold, &mut candidates);
            if place.view.shares_addresses() {
                candidates.drop_shared();
            }
        }
        let (mut machine, first) = Dispatch::new(Effort::Budget);
        debug_assert_eq!(first, Action::Resolve);
        let found = Event::Resolved {
            candidates: candidates.len(),
            held: busy,
        };
        let board = &mut self.scene.board;
        match machine.on(found, Duration::ZERO, 0.0) {
            Action::Send { candidate, .. } => {
                let node = candidates.target(candidate).node.clone();
                hold.dispatch(board, &node);
                Ok(node)
            },
            Action::Wait(_) => {
                hold.release(board);
                Err(match why {
                    Unplaced::Provider => why,
                    _ => Unplaced::Busy,
                })
            },
            Action::Answer(_) | Action::Resolve => {
                hold.release(board);
                Err(why)
            },
        }
    }

    /// The nodes of one link of the gateway's chain, as `state::chain` finds them; whether an owner
    /// takes nothing now.
    fn link(
        &mut self,
        link: &Link,
        path: &str,
        hold: &mut Hold,
        candidates: &mut Shortlist,
    ) -> bool {
        let mut busy = false;
        for place in self.scene.places {
            if matches!(link.place, Where::Engine(engine) if engine != place.engine) {
                continue;
            }
            let name = place.engine.spec().naming.normalize(&link.model);
            if let Some(owners) = place.view.owners(Some(&name)) {
                let takes = |c: &Candidate| link.place.takes(c) && node_serves(c.target.runs, path);
                candidates.add(owners, None, takes);
            }
            busy |= place
                .view
                .resting(&name)
                .iter()
                .any(|(id, _)| match &link.place {
                    Where::Node(wanted) => id == wanted,
                    _ => true,
                });
        }
        candidates.sort_by_id(0);
        let ask = Ask {
            engine: EngineId::GATEWAY,
            model: &link.model,
            pin: None,
        };
        busy | self.choose(ask, hold, candidates)
    }

    /// Orders and counts; whether a pool node was full.
    fn choose(&mut self, ask: Ask, hold: &mut Hold, candidates: &mut Shortlist) -> bool {
        let Scene {
            selector, board, ..
        } = &mut self.scene;
        !hold.choose(selector, board, ask, candidates, 0).is_empty()
    }
}

#[cfg(test)]
mod tests;
