//! What a driver may ask of the daemon: one interface for the broker link, the control socket and
//! the standalone director.
//!
//! Owns: the commands, their parameters and answers, the queue's sending end.
//! Leaves to others: carrying them out (`daemon`), where they come from (`broker`, `control`,
//! `director`).
//!
//! Order is part of the contract: a command's answer is given by calling its responder, and the
//! notices that belong after the answer are emitted only when that call has returned. So a link
//! that writes its reply frame inside the responder gets every frame in the right order.

use tokio::sync::{mpsc, oneshot};

use super::named::NewNode;
use super::settings::RequestSettings;
pub use super::told::{LocalBackend, PrioritySnapshot, Rank};
use crate::config::gateway::TlsFiles;
use crate::rules::discovery::Extra;
use crate::rules::engine::EngineId;
use crate::rules::ids::NodeId;
use crate::rules::log_level::LogLevel;
use crate::rules::policy::Policy;
pub use crate::rules::port::Decided as PortRule;
use crate::wire::broker::{DirectoryNode, NodeRecord};
use crate::wire::control::{ConfigReloaded, NodeAdded, PortSet};
use crate::wire::jsonrpc::{CommandError, ErrorCode};

/// Takes the answer of one command. Called exactly once, on the task that carries commands out
/// (`Reload`: on the one that reloads); must not block.
pub struct Responder<T>(Box<dyn FnOnce(Result<T, CommandError>) + Send>);

impl<T> Responder<T> {
    /// A responder that calls `f`.
    pub fn new(f: impl FnOnce(Result<T, CommandError>) + Send + 'static) -> Self {
        Self(Box::new(f))
    }

    /// Gives the answer.
    pub fn answer(self, result: Result<T, CommandError>) {
        (self.0)(result);
    }
}

/// `facade/enable`.
#[derive(Clone, Debug)]
pub struct Enable {
    /// Engine whose facade to start.
    pub engine: EngineId,
    /// 0 = the engine's standalone port.
    pub port: i64,
    /// Extra loopback addresses, `host:port`.
    pub alias_addresses: Vec<String>,
    /// Use `port` even where a saved port exists.
    pub ignore_persisted_port: bool,
}

/// Answer of `facade/enable`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enabled {
    /// Port actually bound.
    pub port: u16,
    /// Where it came from.
    pub rule: PortRule,
    /// Whether it was up before.
    pub already: bool,
}

/// A node that somebody named by hand, or that this machine's director found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManualNode {
    /// Id, host, port, addresses, models.
    pub record: NodeRecord,
    /// What only a standalone driver knows; empty from a broker.
    pub extra: Extra,
}

/// Values that may change while requests are served.
#[derive(Clone, Debug)]
pub struct Apply {
    /// What requests are held to.
    pub requests: RequestSettings,
    /// Certificates of the facades for callers beyond loopback.
    pub certificates: Vec<(EngineId, TlsFiles)>,
    /// How nodes are chosen; `None` = as before.
    pub policy: Option<Policy>,
    /// Threshold of the log; `None` = as before, since a call may have changed it.
    pub log_level: Option<LogLevel>,
}

/// One request to the daemon. Carried out one at a time, in order of arrival.
pub enum Command {
    /// Start a facade. Emits, before the answer: `error` on a lost bind; otherwise the alias report
    /// or clear, `ready`, `discovery:subscribe`.
    Enable(Enable, Responder<Enabled>),
    /// Move a facade (1..=65535, else invalid params). Emits `ready` before the answer if it moved.
    SetPort(EngineId, i64, Responder<PortSet>),
    /// Pin a node, or `None` for automatic. Emits `node/selection-changed` after the answer.
    Select(EngineId, Option<NodeId>, Responder<()>),
    /// Add or replace a manual node. Emits `node/discovered` or `node/updated` after the answer.
    AddManual(EngineId, Box<ManualNode>, Responder<()>),
    /// Remove a manual node; answers whether it was there. Emits after the answer, if it was:
    /// `node/selection-changed` if it was pinned, then `node/removed`.
    RemoveManual(EngineId, NodeId, Responder<bool>),
    /// Keep a node that a person named, whoever keeps nodes here: standalone it is probed, and
    /// answered after its first probe; under a broker it is a manual node as it stands.
    AddNode(Box<NewNode>, Responder<NodeAdded>),
    /// Forget a node that a person named; answers whether it was there.
    RemoveNode(EngineId, NodeId, Responder<bool>),
    /// Replace what is known of this machine's engine.
    SetLocalBackend(EngineId, LocalBackend, Responder<()>),
    /// Apply a scheduler snapshot once; answers the length of the list now in force.
    SetPriority(PrioritySnapshot, Responder<usize>),
    /// Replace the relayed nodes of a facade; silently dropped where the facade is not enabled.
    /// Emits the differences, before the answer.
    Discovery(EngineId, Vec<DirectoryNode>, Responder<()>),
    /// Change the log's threshold; answers the level now in force.
    SetLogLevel(LogLevel, Responder<LogLevel>),
    /// Put these values in force; requests under way keep theirs. Answers a line for each thing that
    /// could not be done.
    Apply(Box<Apply>, Responder<Vec<String>>),
    /// Listen beyond loopback, or no longer: keys came or went.
    Reach(Responder<()>),
    /// Move a facade to the port that `Enable` would give it now; saves nothing. Emits `ready` before
    /// the answer if it moved.
    Move(Enable, Responder<Enabled>),
    /// Stop listening for an engine; answers whether it did. What is under way goes on, and nodes are
    /// kept for another `Enable`. Refused under a broker, which knows no such call.
    Disable(EngineId, Responder<bool>),
    /// Read the configuration again and apply it. Answered by whoever does that, later.
    Reload(Responder<ConfigReloaded>),
    /// Stop the daemon, after the answer.
    Shutdown(Responder<()>),
}

/// The sending end of the daemon's command queue.
#[derive(Clone)]
pub struct Commands(mpsc::Sender<Command>);

/// The receiving end; the daemon holds the only one.
pub type CommandQueue = mpsc::Receiver<Command>;

impl Commands {
    /// A queue of this many commands; a full one makes senders wait.
    pub fn queue(depth: usize) -> (Self, CommandQueue) {
        let (tx, rx) = mpsc::channel(depth);
        (Self(tx), rx)
    }

    /// Puts a command on the queue. Fails once the daemon is stopping.
    pub async fn send(&self, command: Command) -> Result<(), CommandError> {
        self.0.send(command).await.map_err(|_| stopping())
    }

    /// Sends a command made from a responder and waits for its answer.
    pub async fn call<T: Send + 'static>(
        &self,
        command: impl FnOnce(Responder<T>) -> Command,
    ) -> Result<T, CommandError> {
        let (tx, rx) = oneshot::channel();
        // Nobody waiting any more is no fault of the command.
        let responder = Responder::new(move |r| drop(tx.send(r)));
        self.send(command(responder)).await?;
        match rx.await {
            Ok(answer) => answer,
            // The responder was dropped unanswered: the handler panicked.
            Err(_) => Err(CommandError::new(
                ErrorCode::Internal,
                "internal error while handling the command; see the log",
            )),
        }
    }
}

fn stopping() -> CommandError {
    CommandError::refused("the daemon is shutting down")
}
