//! One node that is kept: how it stands, when it is asked next, what the daemon was told of it.
//!
//! Owns: that record and its form as a command's parameters.
//! Leaves to others: the schedule (`keeper`), counting misses (`standing`).

use tokio::time::Instant;

use super::probe::Target;
use super::standing::{Miss, Reading, Standing};
use crate::config::file::NodeSetting;
use crate::config::node_url::NodeUrl;
use crate::rules::addresses::authority;
use crate::rules::discovery::Extra;
use crate::rules::engine::EngineId;
use crate::rules::ids::NodeId;
use crate::state::command::{LocalBackend, ManualNode, Responder};
use crate::wire::broker::NodeRecord;
use crate::wire::control::{NodeAdded, NodeState, SCHEMA_VERSION};

/// When something is asked next.
pub struct Turn {
    /// Not before this.
    pub due: Instant,
    /// When it was asked last.
    pub began: Option<Instant>,
    /// Whether it is being asked.
    pub in_flight: bool,
    /// Whether it is asked at all.
    pub active: bool,
}

impl Turn {
    /// Due at once.
    pub fn now() -> Self {
        Self {
            due: Instant::now(),
            began: None,
            in_flight: false,
            active: true,
        }
    }

    /// Whether to ask now.
    pub fn is_due(&self, now: Instant) -> bool {
        self.active && !self.in_flight && self.due <= now
    }

    /// It is being asked.
    pub fn begin(&mut self, now: Instant) {
        self.in_flight = true;
        self.began = Some(now);
    }

    /// It was asked; again at `due`.
    pub fn end(&mut self, due: Instant) {
        self.in_flight = false;
        self.due = due;
    }
}

/// Where a node comes from, and so how long it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Named by a flag or the file.
    Configured,
    /// Found here, and not named by anybody: then it may turn up on another port.
    Found,
    /// Added by somebody; it is in the book.
    Added,
    /// Added by somebody for as long as this process lives.
    Passing,
}

/// One node.
pub struct Kept {
    /// Its id.
    pub id: NodeId,
    /// Whom to ask.
    pub target: Target,
    /// Configured models.
    pub models: Option<Vec<String>>,
    /// Configured slots.
    pub slots: Option<u32>,
    /// Configured weight; 0 = none.
    pub weight: u32,
    /// This machine's engine of its kind.
    pub local: bool,
    /// Where it comes from.
    pub origin: Origin,
    /// Name for display; empty = its id.
    pub host: String,
    /// All its addresses, where it has more than the one that is asked.
    pub addresses: Vec<String>,
    /// Whoever waits for its first probe since it was added, and whether it replaced one.
    pub waiting: Vec<(bool, Responder<NodeAdded>)>,
    /// Another proxy of the cluster, which cannot be asked in plain text: its models are configured.
    pub peer: Option<String>,
    /// Taken out: its place in the list may be used again.
    pub gone: bool,
    /// Whether the probe under way asks something that is no longer meant.
    pub outdated: bool,
    /// What its probes told.
    pub standing: Standing,
    /// When it is asked.
    pub turn: Turn,
    /// What the daemon took last.
    pub told: Option<ManualNode>,
    /// The same as this machine's engine.
    pub told_local: Option<LocalBackend>,
}

impl Kept {
    /// A node of which nothing but its place is known.
    pub fn new(id: NodeId, target: Target) -> Self {
        Self {
            id,
            target,
            models: None,
            slots: None,
            weight: 0,
            local: false,
            origin: Origin::Configured,
            host: String::new(),
            addresses: Vec::new(),
            waiting: Vec::new(),
            peer: None,
            gone: false,
            outdated: false,
            standing: Standing::default(),
            turn: Turn::now(),
            told: None,
            told_local: None,
        }
    }

    /// Makes it what was said of it, and asks it soon. `local`: it is this machine's engine.
    pub fn describe(&mut self, node: &NodeSetting, origin: Origin, local: bool) {
        self.target = Target::of(node);
        self.models.clone_from(&node.models);
        self.slots = node.slots;
        self.weight = node.weight.unwrap_or(0);
        self.peer.clone_from(&node.peer);
        self.host.clear();
        self.addresses.clear();
        (self.origin, self.local) = (origin, local);
        self.outdated = self.turn.in_flight;
        self.turn.due = Instant::now();
    }

    /// Is asked no more until it is woken; says whether the daemon was told of it.
    pub fn rest(&mut self) -> bool {
        (self.turn.active, self.told_local) = (false, None);
        self.told.take().is_some()
    }

    /// Is asked at once, and told anew.
    pub fn wake(&mut self) {
        (self.told, self.told_local) = (None, None);
        (self.turn.active, self.turn.due) = (true, Instant::now());
    }

    /// Whether its place in the list is free.
    pub fn is_free(&self) -> bool {
        self.gone && !self.turn.in_flight
    }

    /// Whether to ask it now. A peer answers no plain text.
    pub fn is_due(&self, now: Instant) -> bool {
        self.peer.is_none() && self.turn.is_due(now)
    }

    /// Whether nobody named it.
    pub fn is_found(&self) -> bool {
        self.origin == Origin::Found
    }

    /// Whether it is at this URL.
    pub fn is_at(&self, engine: EngineId, url: &NodeUrl) -> bool {
        let t = &self.target;
        (t.engine, &t.host, t.port, &t.prefix) == (engine, &url.host, url.port, &url.prefix)
    }

    /// Tells whoever waits how it stands.
    pub fn report(&mut self, saved: bool) {
        for (replaced, r) in std::mem::take(&mut self.waiting) {
            let reason = self.standing.unreachable().map(str::to_owned);
            let state = match (&reason, self.standing.is_up()) {
                (Some(_), _) => NodeState::Unreachable,
                (None, true) => NodeState::Healthy,
                (None, false) => NodeState::Unknown,
            };
            let at = authority(&self.target.host, self.target.port);
            r.answer(Ok(NodeAdded {
                schema_version: SCHEMA_VERSION,
                engine: self.target.engine,
                id: self.id.clone(),
                url: format!("http://{at}{}", self.target.prefix),
                replaced,
                saved: saved && self.origin == Origin::Added,
                state,
                reason,
                models: self.models().to_vec(),
            }));
        }
    }

    /// Whether it was found here and is not there any more.
    pub fn has_left(&self) -> bool {
        self.is_found() && !self.turn.in_flight && self.standing.unreachable().is_some()
    }

    /// Takes a probe's outcome; a state that lasts is worth a line.
    pub fn take(&mut self, outcome: Result<Reading, Miss>) {
        let before = self.standing.unreachable().map(str::to_owned);
        let was_asked = self.standing.is_asked();
        if outcome.is_err() {
            self.next_address();
        }
        self.standing.take(outcome);
        let (engine, node) = (self.target.engine, &self.id);
        match (before, self.standing.unreachable()) {
            (None, Some(reason)) => tracing::warn!(%engine, %node, reason, "node is unreachable"),
            (Some(_), None) => tracing::info!(%engine, %node, "node is back"),
            (None, None) if !was_asked => tracing::info!(%engine, %node, "node answers"),
            _ => {},
        }
    }

    /// It as this machine's engine.
    pub fn backend(&self) -> LocalBackend {
        LocalBackend {
            host: self.address(),
            port: self.target.port,
            healthy: self.standing.is_up(),
        }
    }

    /// Asks another of its addresses the next time, if it has several.
    fn next_address(&mut self) {
        let at = self.addresses.iter().position(|a| *a == self.target.host);
        if let Some(at) = at {
            let next = (at + 1) % self.addresses.len();
            self.target.host.clone_from(&self.addresses[next]);
        }
    }

    fn address(&self) -> String {
        if self.target.host.eq_ignore_ascii_case("localhost") {
            return "127.0.0.1".to_owned();
        }
        self.target.host.clone()
    }

    /// What it serves: as configured, else as it told.
    pub fn models(&self) -> &[String] {
        let told = self.standing.reading().models.as_ref();
        self.models.as_ref().or(told).map_or(&[], Vec::as_slice)
    }

    /// It as a node.
    pub fn manual(&self) -> ManualNode {
        let reading = self.standing.reading();
        let record = NodeRecord {
            id: self.id.as_str().to_owned(),
            // The id is the machine's name, or what somebody called the node: what people know.
            host: match self.host.as_str() {
                "" => self.id.as_str().to_owned(),
                host => host.to_owned(),
            },
            port: self.target.port,
            addresses: match self.addresses.len() {
                0 | 1 => vec![self.address()],
                _ => self.addresses.clone(),
            },
            txt: Vec::new(),
            models: self.models().to_vec(),
            ip: None,
        };
        let extra = Extra {
            prefix: self.target.prefix.clone(),
            api_key: self.target.api_key.clone(),
            warm: reading.warm.clone().unwrap_or_default(),
            slots: self.slots.or(reading.slots).unwrap_or(0),
            weight: self.weight,
            context: reading.context.clone(),
            unreachable: self.standing.unreachable().map(str::to_owned),
            local: self.local,
            found: self.is_found(),
            pool: None,
            peer: self.peer.clone(),
        };
        ManualNode { record, extra }
    }
}
