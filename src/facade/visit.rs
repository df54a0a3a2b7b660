//! A peer's request in a trace.
//!
//! Owns: the one span of a request that comes over mTLS, told once, whatever ends it. Leaves to others:
//! serving it (`ingress`); the attempt and the model are the peer's to tell, whose workload it is.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use tokio::time::Instant;

use crate::rules::engine::{EngineId, Route, RouteKind, Verb};
use crate::rules::outcome::End;
use crate::rules::semantics::{self, ErrorType, Operation};
use crate::rules::trace_context::{TRACEPARENT, TRACESTATE};
use crate::state::lifetime::Phase;
use crate::telemetry::request::{About, Ending, Outgoing, Seen};
use crate::wall_clock;

use super::Facade;

/// The classified route of a request, if it is on one.
pub fn route(engine: EngineId, method: &Method, path: &str) -> Option<&'static Route> {
    let verb = match *method {
        Method::POST => Verb::Post,
        Method::GET => Verb::Get,
        _ => return None,
    };
    let mut routes = engine.spec().routes.iter();
    routes.find(|r| r.verb == verb && r.path == path)
}

/// What a route does, if it runs a model.
pub fn operation(route: Option<&Route>) -> Option<Operation> {
    let runs = route.filter(|r| r.kind == RouteKind::Inference);
    runs.map(|r| Operation::of(r.path))
}

/// Takes a caller's trace over, where anything is wanted of requests.
pub fn seen(facade: &Facade, headers: &HeaderMap, at_ns: u64) -> Option<Seen> {
    let telemetry = &facade.context.telemetry;
    if !telemetry.is_on() {
        return None;
    }
    let lines = |name: &str| -> Vec<&[u8]> {
        let lines = headers.get_all(name).iter();
        lines.map(HeaderValue::as_bytes).collect()
    };
    let (parents, states) = (lines(TRACEPARENT), lines(TRACESTATE));
    telemetry.see(parents.into_iter(), states.into_iter(), at_ns)
}

/// Puts a trace into the head of a request to a target; `None` leaves it as it came.
pub fn pass(trace: Option<Outgoing>, headers: &mut HeaderMap) {
    let Some(trace) = trace else { return };
    if let Ok(parent) = HeaderValue::from_bytes(&trace.parent) {
        headers.insert(HeaderName::from_static(TRACEPARENT), parent);
    }
    if !trace.keeps_state {
        headers.remove(TRACESTATE);
    }
}

/// A peer's request under way. Dropped, it is told of as it stands then.
pub struct Visit(Option<Box<Inner>>);

struct Inner {
    facade: Facade,
    seen: Seen,
    arrived: Instant,
    method: &'static str,
    route: Option<&'static Route>,
    status: u16,
    end: Option<End>,
    truncated: bool,
}

impl Visit {
    /// It arrived. Where telemetry is off this is one look.
    pub fn begin<B>(facade: &Facade, request: &Request<B>) -> Self {
        if !facade.context.telemetry.is_on() {
            return Self(None);
        }
        let seen = seen(facade, request.headers(), wall_clock::unix_ns());
        Self(seen.map(|seen| {
            Box::new(Inner {
                facade: facade.clone(),
                seen,
                arrived: Instant::now(),
                method: semantics::method(request.method()),
                route: route(
                    facade.state.engine(),
                    request.method(),
                    request.uri().path(),
                ),
                status: 0,
                end: None,
                truncated: false,
            })
        }))
    }

    /// Tells the engine of the trace.
    pub fn pass_trace(&self, headers: &mut HeaderMap) {
        if let Some(inner) = &self.0 {
            pass(inner.seen.outgoing(), headers);
        }
    }

    /// The engine answers with this status.
    pub fn answered(&mut self, status: StatusCode) {
        if let Some(inner) = &mut self.0 {
            inner.status = status.as_u16();
        }
    }

    /// We answer it ourselves.
    pub fn refused(&mut self, status: StatusCode) {
        self.answered(status);
        if let Some(inner) = &mut self.0 {
            inner.end = Some(End::Own(String::new()));
        }
    }

    /// The answer reached its end.
    pub fn relayed(&mut self) {
        if let Some(inner) = &mut self.0 {
            let status = inner.status;
            inner.end = Some(End::Relayed { status });
        }
    }

    /// The engine broke its answer off.
    pub fn truncated(&mut self) {
        self.relayed();
        if let Some(inner) = &mut self.0 {
            inner.truncated = true;
        }
    }

    /// Hands it on to the answer's body.
    pub fn take(&mut self) -> Self {
        Self(self.0.take())
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let Some(inner) = self.0.take() else { return };
        let context = inner.facade.context.clone();
        let end = inner.end.unwrap_or_else(|| {
            if std::thread::panicking() {
                End::Lost
            } else if context.lifetime.phase() == Phase::Cut {
                End::Shutdown
            } else {
                End::ClientGone
            }
        });
        let about = About {
            engine: inner.facade.state.engine(),
            arrived: inner.arrived,
            operation: operation(inner.route),
            model: None,
        };
        let ending = Ending {
            error: ErrorType::of_end(&end, inner.status, inner.truncated),
            state: end.terminal().0,
            status: (inner.status != 0).then_some(inner.status),
            truncated: inner.truncated,
            owned: false,
            stats: None,
            method: inner.method,
            route: inner.route.map(|r| r.path),
        };
        inner.seen.ended(&context.telemetry, about, ending, || None);
    }
}
