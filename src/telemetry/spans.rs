//! Finished spans on their way out.
//!
//! Owns: what is kept of a request and an attempt, the queue between requests and the export. Leaves
//! to others: when a span ends (`request`), its form on a wire and sending it (`export`).
//!
//! Whoever hands a span over never waits. Where the queue is full the span is never made: a drop
//! costs one look and one count, and no memory.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use crate::rules::engine::EngineId;
use crate::rules::ids::NodeId;
use crate::rules::semantics::{ErrorType, Operation};
use crate::rules::trace_context::{SpanId, TraceContext};
use crate::rules::workload::State;

/// Spans that wait for the export.
pub const QUEUE: usize = 1_024;

/// A longer model name is cut: it comes from outside.
pub const MAX_MODEL: usize = 256;

/// One finished span. No field holds anything of a body, a header or a query.
#[derive(Clone, Debug)]
pub struct Span {
    /// Trace, own id and flags.
    pub context: TraceContext,
    /// The span above it.
    pub parent: Option<SpanId>,
    /// `tracestate`, as the caller gave it.
    pub state: Option<Box<str>>,
    /// Unix nanoseconds of its start.
    pub start_ns: u64,
    /// Unix nanoseconds of its end.
    pub end_ns: u64,
    /// The facade.
    pub engine: EngineId,
    /// What an inference request does.
    pub operation: Option<Operation>,
    /// Who ran the model.
    pub provider: Box<str>,
    /// Its model, as requested.
    pub model: Option<Box<str>>,
    /// Status that was told or met.
    pub status: Option<u16>,
    /// What went wrong.
    pub error: Option<ErrorType>,
    /// What it is a span of.
    pub part: Part,
}

/// What a span is of.
#[derive(Clone, Debug)]
pub enum Part {
    /// A request at a facade.
    Request(Request),
    /// One attempt at a node.
    Attempt(Attempt),
}

/// What is known of a request alone.
#[derive(Clone, Debug)]
pub struct Request {
    /// `RUN/ENGINE/ID`, as the command line takes it; none for a peer's request, which has its number
    /// where it came from.
    pub id: Option<Box<str>>,
    /// Its method, one that everybody knows.
    pub method: &'static str,
    /// Its route, where it is classified.
    pub route: Option<&'static str>,
    /// How it ended.
    pub state: State,
    /// Its attempts.
    pub attempts: u32,
    /// Tokens of the prompt, where the engine told.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the answer, where the engine told.
    pub completion_tokens: Option<u64>,
}

/// What is known of an attempt alone.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The node.
    pub node: NodeId,
    /// Its host.
    pub host: Box<str>,
    /// Its port.
    pub port: u16,
    /// Which attempt of its request, from 1.
    pub number: u32,
    /// How it ended, in one word.
    pub outcome: &'static str,
}

/// The handing-over end of the queue.
#[derive(Debug)]
pub struct SpanQueue {
    sender: mpsc::Sender<Span>,
    dropped: AtomicU64,
}

impl SpanQueue {
    /// A queue of this length, and its other end.
    pub fn new(length: usize) -> (Self, mpsc::Receiver<Span>) {
        let (sender, receiver) = mpsc::channel(length);
        let dropped = AtomicU64::new(0);
        (Self { sender, dropped }, receiver)
    }

    /// Hands a span over that is made only if there is room for it.
    pub fn offer(&self, make: impl FnOnce() -> Span) {
        match self.sender.try_reserve() {
            Ok(room) => room.send(make()),
            Err(_) => self.drop_some(1),
        }
    }

    /// Spans that were lost on their way: here, or behind the queue.
    pub fn drop_some(&self, n: u64) {
        self.dropped.fetch_add(n, Ordering::Relaxed);
    }

    /// Spans lost since the start.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Spans that wait.
    pub fn waiting(&self) -> usize {
        self.sender.max_capacity() - self.sender.capacity()
    }
}
