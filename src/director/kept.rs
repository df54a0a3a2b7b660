//! One node that is kept: how it stands, when it is asked next, what the daemon was told of it.
//!
//! Owns: that record and its form as a command's parameters.
//! Leaves to others: the schedule (`keeper`), counting misses (`standing`).

use tokio::time::Instant;

use super::probe::Target;
use super::standing::{Miss, Reading, Standing};
use crate::rules::discovery::Extra;
use crate::rules::ids::NodeId;
use crate::state::command::{LocalBackend, ManualNode};
use crate::wire::broker::NodeRecord;

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
    /// Found here, and not named by anybody: then it may turn up on another port.
    pub found: bool,
    /// Another proxy of the cluster, which cannot be asked in plain text: its models are configured.
    pub peer: Option<String>,
    /// Taken out: its place in the list may be used again.
    pub removed: bool,
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
            found: false,
            peer: None,
            removed: false,
            standing: Standing::default(),
            turn: Turn::now(),
            told: None,
            told_local: None,
        }
    }

    /// Whether it was found here and is not there any more.
    pub fn has_left(&self) -> bool {
        self.found && !self.turn.in_flight && self.standing.unreachable().is_some()
    }

    /// Whether to ask it now.
    pub fn is_due(&self, now: Instant) -> bool {
        self.peer.is_none() && self.turn.is_due(now)
    }

    /// Takes a probe's outcome; a state that lasts is worth a line.
    pub fn take(&mut self, outcome: Result<Reading, Miss>) {
        let before = self.standing.unreachable().map(str::to_owned);
        let was_asked = self.standing.is_asked();
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
            host: self.id.as_str().to_owned(),
            port: self.target.port,
            addresses: vec![self.address()],
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
            found: self.found,
            peer: self.peer.clone(),
        };
        ManualNode { record, extra }
    }
}
