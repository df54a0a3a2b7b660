//! One request as telemetry sees it, from its arrival to its end.
//!
//! Owns: its place in a trace, its attempt under way, what is said of either when it ends. Leaves to
//! others: when that is (`facade::report`), whether it is wanted at all (`hub`).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::hub::Telemetry;
use super::metrics::{Ended, Inference};
use super::spans::{Attempt, MAX_MODEL, Part, Request, Span};
use crate::rules::candidates::Target;
use crate::rules::engine::EngineId;
use crate::rules::outcome::Failure;
use crate::rules::semantics::{ANSWERED, CANCELLED, ErrorType, Operation, TRUNCATED, outcome};
use crate::rules::trace_context::{PARENT_LEN, SpanId, TraceContext};
use crate::rules::usage::Stats;
use crate::rules::workload::State;

/// A request's place in a trace.
#[derive(Debug)]
pub(super) struct Tracing {
    /// The trace, and the request's own span.
    pub(super) context: TraceContext,
    /// The caller's span.
    pub(super) parent: Option<SpanId>,
    /// The caller's `tracestate`, if the span will be exported.
    pub(super) state: Option<Box<str>>,
    /// Whether the caller's `tracestate` is passed on.
    pub(super) keeps_state: bool,
    pub(super) start_ns: u64,
}

/// An attempt under way.
#[derive(Debug)]
struct Running {
    span: SpanId,
    began: Instant,
    target: Arc<Target>,
    number: u32,
    /// Once it is the answer.
    status: Option<u16>,
}

/// A request that is watched.
#[derive(Debug)]
pub struct Seen {
    trace: Option<Tracing>,
    measured: bool,
    attempt: Option<Running>,
    attempts: u32,
    /// The target of the last attempt.
    asked: Option<Arc<Target>>,
}

/// What a target is told of the trace.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing {
    /// `traceparent`, instead of the caller's.
    pub parent: [u8; PARENT_LEN],
    /// Whether the caller's `tracestate` goes with it.
    pub keeps_state: bool,
}

/// What the request is.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The facade.
    pub engine: EngineId,
    /// When it arrived.
    pub arrived: Instant,
    /// What it does, if it runs a model.
    pub operation: Option<Operation>,
    /// Its model, as requested.
    pub model: Option<&'a str>,
}

/// How it ended.
#[derive(Clone, Copy, Debug)]
pub struct Ending<'a> {
    /// State of a workload that ends so.
    pub state: State,
    /// What went wrong.
    pub error: Option<ErrorType>,
    /// What the client was told.
    pub status: Option<u16>,
    /// Whether the engine broke its answer off.
    pub truncated: bool,
    /// Whether some node has its model: only then it is measured under it.
    pub owned: bool,
    /// What was measured of the answer.
    pub stats: Option<&'a Stats>,
    /// Its method, one that everybody knows.
    pub method: &'static str,
    /// Its route, where it is classified.
    pub route: Option<&'static str>,
}

impl Seen {
    pub(super) fn new(trace: Option<Tracing>, measured: bool) -> Self {
        Self {
            trace,
            measured,
            attempt: None,
            attempts: 0,
            asked: None,
        }
    }

    /// What the next target is told; `None` = the caller's lines pass as they came.
    pub fn outgoing(&self) -> Option<Outgoing> {
        let trace = self.trace.as_ref()?;
        let span = self.attempt.as_ref().map_or(trace.context.span, |a| a.span);
        Some(Outgoing {
            parent: trace.context.at(span).header(),
            keeps_state: trace.keeps_state,
        })
    }

    /// An attempt begins.
    pub fn dispatched(&mut self, telemetry: &Telemetry, target: &Arc<Target>) {
        self.attempts += 1;
        self.asked = Some(target.clone());
        self.attempt = Some(Running {
            span: telemetry.span_id(),
            began: Instant::now(),
            target: target.clone(),
            number: self.attempts,
            status: None,
        });
    }

    /// Its answer goes to the client.
    pub fn answered(&mut self, status: u16) {
        if let Some(attempt) = &mut self.attempt {
            attempt.status = Some(status);
        }
    }

    /// It was lost.
    pub fn lost(&mut self, telemetry: &Telemetry, about: About, failure: Failure) {
        if let Some(mut attempt) = self.attempt.take() {
            attempt.status = failure.status();
            let error = Some(ErrorType::of_failure(failure));
            self.attempt_ended(telemetry, about, &attempt, outcome(failure), error);
        }
    }

    /// The request ended, and with it the attempt whose answer it had.
    pub fn ended(
        mut self,
        telemetry: &Telemetry,
        about: About,
        ending: Ending,
        id: impl FnOnce() -> Option<Box<str>>,
    ) {
        if let Some(attempt) = self.attempt.take() {
            let ended = match (attempt.status, ending.error) {
                (None, error) => (CANCELLED, error),
                (Some(_), error) if ending.truncated => (TRUNCATED, error),
                (Some(_), error) if ending.state == State::Cancelled => (CANCELLED, error),
                (Some(_), error) => (ANSWERED, error),
            };
            self.attempt_ended(telemetry, about, &attempt, ended.0, ended.1);
        }
        let asked = self.asked.take();
        let provider = match &asked {
            Some(target) => provider(target),
            // Nobody was asked: all that is known is where it came in.
            None => about.engine.as_str(),
        };
        let took = about.arrived.elapsed();
        let stats = ending.stats;
        let tokens = stats.map_or((None, None), |s| {
            // What was only counted from events is no report of the engine.
            let completion = s.completion_tokens.filter(|_| !s.estimated);
            (s.prompt_tokens, completion)
        });
        if self.measured {
            let model = about.model.filter(|_| ending.owned);
            let inference = about
                .operation
                .zip(model)
                .map(|(operation, model)| Inference {
                    operation,
                    provider,
                    model,
                    first: stats.and_then(|s| s.ttft_ms).map(Duration::from_millis),
                    prompt_tokens: tokens.0,
                    completion_tokens: tokens.1,
                });
            telemetry.metrics.ended(&Ended {
                engine: about.engine,
                state: ending.state,
                error: ending.error,
                took,
                inference,
            });
        }
        let Some(trace) = self.trace.filter(|t| t.context.is_sampled()) else {
            return;
        };
        telemetry.spans.offer(|| Span {
            context: trace.context,
            parent: trace.parent,
            start_ns: trace.start_ns,
            end_ns: trace.start_ns + nanos(took),
            state: trace.state,
            engine: about.engine,
            operation: about.operation,
            provider: provider.into(),
            model: about.model.map(bounded),
            status: ending.status,
            error: ending.error,
            part: Part::Request(Request {
                id: id(),
                method: ending.method,
                route: ending.route,
                state: ending.state,
                attempts: self.attempts,
                prompt_tokens: tokens.0,
                completion_tokens: tokens.1,
            }),
        });
    }

    fn attempt_ended(
        &self,
        telemetry: &Telemetry,
        about: About,
        attempt: &Running,
        outcome: &'static str,
        error: Option<ErrorType>,
    ) {
        if self.measured {
            telemetry.metrics.attempted(about.engine, outcome);
        }
        let Some(trace) = self.trace.as_ref().filter(|t| t.context.is_sampled()) else {
            return;
        };
        telemetry.spans.offer(|| Span {
            context: trace.context.at(attempt.span),
            parent: Some(trace.context.span),
            start_ns: trace.start_ns + nanos(attempt.began.duration_since(about.arrived)),
            end_ns: trace.start_ns + nanos(about.arrived.elapsed()),
            state: trace.state.clone(),
            engine: about.engine,
            operation: about.operation,
            provider: provider(&attempt.target).into(),
            model: about.model.map(bounded),
            status: attempt.status,
            error,
            part: Part::Attempt(Attempt {
                node: attempt.target.node.clone(),
                host: attempt.target.host.as_str().into(),
                port: attempt.target.port,
                number: attempt.number,
                outcome,
            }),
        });
    }
}

/// Who runs the model of a request to this target: a provider, or what runs on the node.
fn provider(target: &Target) -> &str {
    match target.provider() {
        Some(_) => target.node.as_str(),
        None => target.runs.as_str(),
    }
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

/// The name, or its beginning.
fn bounded(name: &str) -> Box<str> {
    name[..name.floor_char_boundary(MAX_MODEL)].into()
}
