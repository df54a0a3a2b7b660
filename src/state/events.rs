//! What the daemon tells the world: notices to the broker and to followers on the control socket.
//!
//! Owns: the notices and handing each to every sink, in order.
//! Leaves to others: their form on a wire (`broker::outbox`, `control::server`).

use std::sync::OnceLock;

use crate::rules::engine::EngineId;
use crate::rules::ids::NodeId;
use crate::wire::broker::{NodeRecord, RequestFinished, RequestStarted, WorkloadInfo};

/// Which workload notice (spec §5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadNotice {
    /// Admitted, placed, or cleared again.
    Submitted,
    /// Committed.
    Started,
    /// Ended in state completed.
    Completed,
    /// Ended in state failed or cancelled.
    Errored,
}

/// One notice. Facade-scoped ones name their engine; the last two are process-scoped (spec §4).
#[derive(Clone, Debug)]
pub enum Notice {
    /// A facade listens.
    Ready(EngineId, u16),
    /// A facade's port could not be bound.
    BindFailed(EngineId, u16, String),
    /// A facade wants its directory records.
    Subscribe(EngineId),
    /// A node is new.
    NodeDiscovered(EngineId, NodeRecord),
    /// A node changed.
    NodeUpdated(EngineId, NodeRecord),
    /// A node is gone.
    NodeRemoved(EngineId, NodeRecord),
    /// The pin changed; `None` = automatic.
    SelectionChanged(EngineId, Option<NodeId>),
    /// A state worth a person's attention, under a stable id.
    ErrorReport(EngineId, String, String),
    /// That state ended.
    ErrorClear(EngineId, String),
    /// A request committed.
    RequestStarted(EngineId, RequestStarted),
    /// A request ended.
    RequestFinished(EngineId, RequestFinished),
    /// A workload changed.
    Workload(WorkloadNotice, Box<WorkloadInfo>),
    /// A node just delivered bytes of a committed answer.
    Activity(NodeId),
}

/// Takes notices. Called on the task that caused them, request tasks included: must not block, and
/// must keep their order.
pub trait Sink: Send + Sync {
    /// Takes one notice.
    fn notice(&self, notice: &Notice);
}

/// Hands notices to the sinks that were joined at start.
#[derive(Default)]
pub struct Events {
    sinks: OnceLock<Vec<Box<dyn Sink>>>,
}

impl Events {
    /// Joins the sinks, once, before anything is emitted. A second call changes nothing.
    pub fn join(&self, sinks: Vec<Box<dyn Sink>>) {
        // Only the daemon calls this, at start.
        drop(self.sinks.set(sinks));
    }

    /// Whether anybody listens: lets the request path skip building records nobody reads.
    pub fn heard(&self) -> bool {
        self.sinks.get().is_some_and(|s| !s.is_empty())
    }

    /// Hands a notice to every sink.
    pub fn emit(&self, notice: &Notice) {
        for sink in self.sinks.get().into_iter().flatten() {
            sink.notice(notice);
        }
    }
}
