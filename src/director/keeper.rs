//! Keeps the nodes: probes each in its own time and tells the daemon what changed.
//!
//! Owns: the schedule, the nodes with their standing, and what the daemon was told last.
//! Leaves to others: one probe (`probe`), the rules (`plan`, `standing`), ranking (the daemon), who is
//! kept (`members`, for people by `named`, for the file by `changing`).
//!
//! Probes run beside each other, each bounded and never two of one node: an engine that hangs
//! delays nobody's news but its own.

mod changing;
mod members;
mod named;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::kept::{Kept, Origin, Turn};
use super::local::{self, Place};
use super::plan::{self, Names};
use super::probe::{self, Target};
use super::standing::{Miss, Reading, Standing};
use crate::config::file::NodeSetting;
use crate::net::fetch::Limits;
use crate::rules::engine::EngineId;
use crate::rules::ids::NodeId;
use crate::state::command::{Command, Commands};
use crate::state::named::{Asks, NodeAsk};
use crate::state::query::Queries;
use crate::wire::control::FacadeStatus;
use crate::wire::jsonrpc::ErrorCode;

/// Gives numbers from 0 to 1 that spread probes over time.
pub type Jitter = Box<dyn FnMut() -> f64 + Send>;

/// The director's times.
pub struct Timing {
    /// Between two probes of a node.
    pub interval: Duration,
    /// Stretches or shortens each interval by up to a fifth; 0.5 does neither.
    pub jitter: Jitter,
    /// How long start-up waits for first answers.
    pub first_round: Duration,
    /// Least time between two probes of a node when failures ask for them.
    pub early_gap: Duration,
    /// Bounds of one probe.
    pub limits: Limits,
}

impl Timing {
    /// The usual times, spread by `jitter`.
    pub fn standard(jitter: Jitter) -> Self {
        Self {
            interval: Duration::from_secs(5),
            jitter,
            first_round: Duration::from_secs(1),
            early_gap: Duration::from_millis(500),
            limits: Limits::default(),
        }
    }

    fn next(&mut self) -> Instant {
        let spread = 0.8 + 0.4 * (self.jitter)().clamp(0.0, 1.0);
        Instant::now() + self.interval.mul_f64(spread)
    }
}

/// Asks for an early probe of a node, from the request path. Cheap to clone; never waits.
#[derive(Clone, Debug)]
pub struct ProbeNow(mpsc::Sender<(EngineId, NodeId)>);

impl ProbeNow {
    /// A transport failure towards this node was seen. Where many are, one probe answers all.
    pub fn poke(&self, engine: EngineId, node: &NodeId) {
        // A full queue means that probes are asked for already.
        drop(self.0.try_send((engine, node.clone())));
    }
}

/// A port that is looked at for an engine.
struct Scout {
    place: Place,
    looked: bool,
    found: bool,
    turn: Turn,
}

impl Scout {
    /// What it found counts no more.
    fn look_again(&mut self) {
        (self.looked, self.found) = (false, false);
        (self.turn.active, self.turn.due) = (true, Instant::now());
    }
}

/// What the keeper met.
pub enum News {
    /// A probe of this node ended.
    Probed(usize),
    /// Somebody asks for something.
    Asked(NodeAsk),
    /// Nothing that anybody else has to know.
    Nothing,
}

#[derive(Clone, Copy)]
enum Subject {
    Node(usize),
    Scout(usize),
}

enum Outcome {
    Node(Result<Reading, Miss>),
    Scout(bool),
}

type Ended = Result<(Id, Outcome), JoinError>;

/// The nodes and their probes.
pub struct Keeper {
    commands: Commands,
    queries: Arc<dyn Queries>,
    timing: Timing,
    names: Names,
    nodes: Vec<Kept>,
    scouts: Vec<Scout>,
    running: JoinSet<Outcome>,
    subjects: HashMap<Id, Subject>,
    pokes: mpsc::Receiver<(EngineId, NodeId)>,
    asks: Asks,
    /// Whether the first round still runs: then ports of one engine are taken in their order,
    /// whichever answers first.
    in_order: bool,
    /// Where engines of this machine are looked for, once they have a facade.
    places: Vec<Place>,
    /// Engines without a facade: their nodes rest.
    off: Vec<EngineId>,
    /// What facades that are off still hold; taken from them before they open again.
    stale: Vec<(EngineId, NodeId)>,
}

impl Keeper {
    /// A keeper of the named nodes that also looks at `places`; and the handle to hurry it.
    pub fn new(
        commands: Commands,
        queries: Arc<dyn Queries>,
        timing: Timing,
        host_name: &str,
        named: &[NodeSetting],
        places: &[Place],
        asks: Asks,
    ) -> (Self, ProbeNow) {
        let (tx, pokes) = mpsc::channel(64);
        let mut keeper = Self {
            commands,
            queries,
            timing,
            names: Names::new(host_name),
            nodes: Vec::new(),
            scouts: Vec::new(),
            running: JoinSet::new(),
            subjects: HashMap::new(),
            pokes,
            asks,
            in_order: true,
            places: places.to_vec(),
            off: Vec::new(),
            stale: Vec::new(),
        };
        for node in named {
            keeper.name(node, Origin::Configured);
        }
        keeper.reopen();
        for place in places
            .iter()
            .filter(|p| !keeper.knows(**p))
            .copied()
            .collect::<Vec<_>>()
        {
            keeper.watch(place);
        }
        (keeper, ProbeNow(tx))
    }

    /// Probes everything once, until all have answered or the time for that is over.
    pub async fn first_round(&mut self) {
        let end = Instant::now() + self.timing.first_round;
        loop {
            self.adopt();
            self.start_due();
            match timeout_at(end, self.running.join_next_with_id()).await {
                Ok(Some(ended)) => drop(self.finish(ended)),
                Ok(None) | Err(_) => break,
            }
        }
        self.in_order = false;
        self.adopt();
    }

    /// Tells the daemon everything that it was not told yet.
    pub async fn tell_all(&mut self) {
        for i in 0..self.nodes.len() {
            self.tell(i).await;
        }
    }

    /// The ids of an engine's nodes.
    pub fn ids(&self, engine: EngineId) -> Vec<NodeId> {
        let mut ids: Vec<NodeId> = Vec::new();
        for node in self.of(engine) {
            // Two engines of one machine are one node.
            if !ids.contains(&node.id) {
                ids.push(node.id.clone());
            }
        }
        ids
    }

    /// A model of this engine that can be asked for.
    pub fn example(&self, engine: EngineId) -> Option<String> {
        let up = self.of(engine).filter(|n| n.standing.is_up());
        plan::common_model(up.map(Kept::models))
    }

    /// The ports of this machine on which this engine itself was found.
    pub fn own_ports(&self, engine: EngineId) -> Vec<u16> {
        let here = self
            .active()
            .filter(|n| n.target.engine == engine && n.standing.is_up());
        here.filter(|n| self.is_here(n))
            .map(|n| n.target.port)
            .collect()
    }

    /// A line for each node that was asked and is no candidate.
    pub fn complaints(&self) -> Vec<String> {
        let line = |n: &Kept| {
            let reason = n.standing.unreachable()?;
            Some(format!(
                "node {} ({}): {reason}",
                n.id,
                n.target.engine.spec().display
            ))
        };
        self.active().filter_map(line).collect()
    }

    /// Probes until one ends, somebody asks, or something else is due. Dropped in between, nothing is
    /// lost.
    pub async fn next(&mut self) -> News {
        self.adopt();
        self.start_due();
        let next = self.next_due();
        let ended = tokio::select! {
            Some(ended) = self.running.join_next_with_id() => ended,
            Some((engine, id)) = self.pokes.recv() => {
                self.hurry(engine, &id);
                return News::Nothing;
            }
            Some(ask) = self.asks.queue.recv() => return News::Asked(ask),
            () = sleep_until(next) => return News::Nothing,
        };
        self.finish(ended).map_or(News::Nothing, News::Probed)
    }

    /// Tells everybody who wants to know how a node stands.
    pub async fn announce(&mut self, i: usize) {
        self.tell(i).await;
        self.nodes[i].report(self.asks.book.is_saved());
    }

    /// The nodes that a facade's requests go to.
    fn of(&self, facade: EngineId) -> impl Iterator<Item = &Kept> {
        let all = facade.is_gateway();
        self.active()
            .filter(move |n| all || n.target.engine == facade)
    }

    fn active(&self) -> impl Iterator<Item = &Kept> {
        self.nodes.iter().filter(|n| n.turn.active)
    }

    fn is_here(&self, node: &Kept) -> bool {
        plan::is_this_machine(&node.target.host, self.names.host_name())
    }

    /// Makes nodes of the engines that were found.
    fn adopt(&mut self) {
        let mut waiting: Vec<EngineId> = Vec::new();
        for i in 0..self.scouts.len() {
            let scout = &mut self.scouts[i];
            let engine = scout.place.engine;
            if !scout.turn.active {
                continue;
            }
            if !scout.looked {
                waiting.push(engine);
            } else if scout.found && !(self.in_order && waiting.contains(&engine)) {
                scout.turn.active = false;
                let place = scout.place;
                // Somebody may have named it since.
                if !self.knows(place) {
                    self.adopt_one(place);
                }
            }
        }
    }

    fn adopt_one(&mut self, place: Place) {
        let engine = place.engine;
        let local = self
            .nodes
            .iter()
            .position(|n| !n.gone && n.local && n.target.engine == engine);
        if let Some(i) = local.filter(|i| self.nodes[*i].has_left()) {
            let node = &mut self.nodes[i];
            // This machine's engine came back on another port: one engine, not two.
            let left = Place {
                engine,
                port: std::mem::replace(&mut node.target.port, place.port),
            };
            node.standing = Standing::default();
            node.turn.due = Instant::now();
            self.watch(left);
            return;
        }
        let host = self.names.host_name().to_owned();
        let id = self.names.take(engine, None, &host, place.port, "");
        let target = Target {
            engine,
            host: local::HOST.to_owned(),
            port: place.port,
            prefix: String::new(),
            api_key: None,
            models_known: false,
        };
        tracing::info!(%engine, node = %id, port = place.port, "found an engine on this machine");
        let mut kept = Kept::new(id, target);
        (kept.local, kept.origin) = (local.is_none(), Origin::Found);
        self.keep(kept);
    }

    fn start_due(&mut self) {
        let now = Instant::now();
        for (i, node) in self
            .nodes
            .iter_mut()
            .enumerate()
            .filter(|(_, n)| n.is_due(now))
        {
            node.turn.begin(now);
            let (target, limits) = (node.target.clone(), self.timing.limits);
            let task = async move { Outcome::Node(probe::ask(&target, limits).await) };
            self.subjects
                .insert(self.running.spawn(task).id(), Subject::Node(i));
        }
        if !self.scouts.iter().any(|s| s.turn.is_due(now)) {
            return;
        }
        let ours = facade_ports(&*self.queries);
        for (i, scout) in self
            .scouts
            .iter_mut()
            .enumerate()
            .filter(|(_, s)| s.turn.is_due(now))
        {
            if ours.contains(&scout.place.port) {
                scout.looked = true;
                scout.turn.end(self.timing.next());
                continue;
            }
            scout.turn.begin(now);
            let (place, limits) = (scout.place, self.timing.limits);
            let task = async move { Outcome::Scout(local::identify(place, limits).await) };
            self.subjects
                .insert(self.running.spawn(task).id(), Subject::Scout(i));
        }
    }

    /// Takes the end of a probe; says which node it was of.
    fn finish(&mut self, ended: Ended) -> Option<usize> {
        let (id, outcome) = match ended {
            Ok((id, outcome)) => (id, Some(outcome)),
            // A panic while reading an answer is that node's miss and nobody else's.
            Err(e) => (e.id(), None),
        };
        let next = self.timing.next();
        match (self.subjects.remove(&id)?, outcome) {
            (Subject::Node(i), outcome) => {
                let panicked = || Err(Miss::Silent("its answer could not be read".to_owned()));
                let outcome = match outcome {
                    Some(Outcome::Node(outcome)) => outcome,
                    _ => panicked(),
                };
                let node = &mut self.nodes[i];
                node.turn.end(next);
                if std::mem::take(&mut node.outdated) {
                    node.turn.due = Instant::now();
                    return None;
                }
                if !node.turn.active {
                    return None;
                }
                node.take(outcome);
                Some(i)
            },
            (Subject::Scout(i), outcome) => {
                let scout = &mut self.scouts[i];
                scout.turn.end(next);
                scout.looked = true;
                scout.found = matches!(outcome, Some(Outcome::Scout(true)));
                None
            },
        }
    }

    fn next_due(&self) -> Instant {
        let asked = self.nodes.iter().filter(|n| n.peer.is_none());
        let nodes = asked.map(|n| &n.turn);
        let turns = nodes.chain(self.scouts.iter().map(|s| &s.turn));
        let waiting = turns.filter(|t| t.active && !t.in_flight).map(|t| t.due);
        waiting
            .min()
            .unwrap_or_else(|| Instant::now() + self.timing.interval)
    }

    fn hurry(&mut self, engine: EngineId, id: &NodeId) {
        let gap = self.timing.early_gap;
        for node in self
            .nodes
            .iter_mut()
            .filter(|n| n.target.engine == engine && n.id == *id)
        {
            let now = Instant::now();
            let soonest = node.turn.began.map_or(now, |began| now.max(began + gap));
            // While one is in flight this has no effect: its end sets the time of the next.
            node.turn.due = node.turn.due.min(soonest);
        }
    }

    async fn tell(&mut self, i: usize) {
        let node = &mut self.nodes[i];
        if !node.turn.active {
            return;
        }
        let engine = node.target.engine;
        if node.local && node.told_local.as_ref() != Some(&node.backend()) {
            let backend = node.backend();
            let copy = backend.clone();
            let done = self
                .commands
                .call(|r| Command::SetLocalBackend(engine, copy, r))
                .await;
            node.told_local = done.is_ok().then_some(backend);
        }
        let manual = node.manual();
        if node.told.as_ref() == Some(&manual) {
            return;
        }
        let copy = Box::new(manual.clone());
        match self
            .commands
            .call(|r| Command::AddManual(engine, copy, r))
            .await
        {
            Ok(()) => node.told = Some(manual),
            // Before its facade is up nobody may want to know; it is told again then.
            Err(e) if e.code == ErrorCode::NoFacade => {},
            Err(e) => tracing::debug!(%engine, node = %node.id, error = %e, "node not taken"),
        }
    }
}

/// Every port on which we listen ourselves now.
fn facade_ports(queries: &dyn Queries) -> Vec<u16> {
    let facades = queries.status().facades;
    let aliases = |f: &FacadeStatus| {
        f.aliases
            .iter()
            .filter_map(|a| local::port_of(a))
            .collect::<Vec<_>>()
    };
    facades
        .iter()
        .flat_map(|f| aliases(f).into_iter().chain([f.port]))
        .collect()
}
