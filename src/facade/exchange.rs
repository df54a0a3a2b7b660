//! A request forwarded to one node at a time: the driver of `rules::dispatch`.
//!
//! Owns: carrying out the machine's actions, and the guards that make each undone.
//! Leaves to others: the decisions (`rules`), one attempt (`attempt`), who else asks all nodes
//! (`inventory`, `preflight`).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, StatusCode, Uri, header, request};
use hyper::body::Incoming;

use crate::net::answers;
use crate::net::body::{Buffered, Collected, Oversized, RequestBody, collect};
use crate::net::headers;
use crate::rules::candidates::{Candidate, Target, drop_shared};
use crate::rules::dispatch::{Action, Answer, Dispatch, Event};
use crate::rules::gate::GateMode;
use crate::rules::ids::JobId;
use crate::rules::model_scan::ModelScan;
use crate::rules::nearest::nearest;
use crate::rules::outcome::{Effort, Failure};
use crate::rules::route::dialect;
use crate::rules::usage::{Tap, TapKind};

use super::answer::Content;
use super::attempt::{self, Committed, Limits};
use super::relay::Relay;
use super::report::Report;
use super::upgrade;

/// At most this much of a refused body is read and thrown away.
const DISCARDED: u64 = 64 * 1024 * 1024;

/// A refused body is read for no longer than this.
const DISCARD_TIME: Duration = Duration::from_secs(30);

/// The body of a request, and how often it can be sent.
enum Outgoing {
    Replay(Arc<Buffered>),
    Once(Option<Oversized>),
}

impl Outgoing {
    fn next(&mut self) -> RequestBody {
        match self {
            Self::Replay(body) => RequestBody::replay(body),
            Self::Once(body) => body
                .take()
                .map_or_else(RequestBody::empty, Oversized::into_stream),
        }
    }
}

/// What makes an inference request a workload.
struct Model {
    /// Its name as requested.
    name: String,
    /// Path of the route it came on.
    path: &'static str,
}

/// One request on its way.
struct Exchange {
    head: request::Parts,
    upgrade: Option<upgrade::Client>,
    body: Outgoing,
    effort: Effort,
    /// The model, where it decides.
    model: Option<Model>,
    machine: Dispatch,
    candidates: Vec<Candidate>,
    report: Report,
}

/// Serves an inference request: body within the limit, model found, retried within the budget.
pub async fn inference(
    report: Report,
    request: Request<Incoming>,
    path: &'static str,
) -> Response<Content> {
    let limit = report.facade().context.shared.settings.max_request_bytes;
    let (head, body) = request.into_parts();
    let mut scan = ModelScan::new();
    let (exchange, first) = match collect(body, limit, |piece| scan.push(piece)).await {
        Collected::Whole(body) => {
            let body = Outgoing::Replay(body);
            let model = scan.finish().map(|name| Model { name, path });
            begin(report, head, None, body, Effort::Budget, model)
        },
        Collected::TooLarge(rest) => return too_large(report, rest, limit),
        Collected::Broken(_) => return broken_request(report),
    };
    exchange.drive(first).await
}

/// Forwards anything else verbatim, to each node at most once. A body over the limit is streamed to
/// the first one, without replay.
pub async fn forward(report: Report, mut request: Request<Incoming>) -> Response<Content> {
    let limit = report.facade().context.shared.settings.max_request_bytes;
    let upgrade = upgrade::Client::take(&mut request);
    let (head, body) = request.into_parts();
    let body = match collect(body, limit, |_| ()).await {
        Collected::Whole(body) => Outgoing::Replay(body),
        Collected::TooLarge(rest) => Outgoing::Once(Some(rest)),
        Collected::Broken(_) => return broken_request(report),
    };
    let (exchange, first) = begin(report, head, upgrade, body, Effort::OnePass, None);
    exchange.drive(first).await
}

/// The request, ready for its first attempt, on the heap: so that it is not copied from one waiting
/// state to the next.
fn begin(
    report: Report,
    mut head: request::Parts,
    upgrade: Option<upgrade::Client>,
    body: Outgoing,
    effort: Effort,
    model: Option<Model>,
) -> (Box<Exchange>, Action) {
    origin_form(&mut head.uri);
    head.version = http::Version::HTTP_11;
    let (machine, first) = Dispatch::new(effort);
    let candidates = Vec::new();
    let exchange = Exchange {
        head,
        upgrade,
        body,
        effort,
        model,
        machine,
        candidates,
        report,
    };
    (Box::new(exchange), first)
}

impl Exchange {
    async fn drive(mut self: Box<Self>, mut action: Action) -> Response<Content> {
        loop {
            let event = match action {
                Action::Resolve => Event::Resolved {
                    candidates: self.resolve(),
                },
                Action::Send { candidate, .. } if self.has_left(candidate) => Event::Gone,
                Action::Send { candidate, last } => match self.send(candidate, last).await {
                    Ok((target, committed)) => return self.commit(target, committed),
                    Err(failure) => Event::Failed(failure),
                },
                Action::Wait(pause) => {
                    self.rest();
                    Box::pin(tokio::time::sleep(pause)).await;
                    Event::Woke
                },
                Action::Answer(answer) => return self.answer(answer),
            };
            let now = self.report.arrived().elapsed();
            action = self.machine.on(event, now, roll(self.report.id(), now));
        }
    }

    /// Looks the candidates up as they are now, and counts the request on the chosen one.
    fn resolve(&mut self) -> usize {
        let facade = self.report.facade().clone();
        let naming = facade.state.engine().spec().naming;
        let model = self.model.as_ref().map(|m| naming.normalize(&m.name));
        let routing = facade.state.routing();
        self.candidates.clear();
        self.candidates
            .extend_from_slice(routing.view.candidates(model.as_deref()));
        let claim = self.model.is_some().then_some(&mut self.report.claim);
        let scheduler = &facade.context.shared.scheduler;
        scheduler.order(routing.pin.as_ref(), &mut self.candidates, claim);
        if routing.view.shares_addresses() {
            drop_shared(&mut self.candidates);
        }
        if matches!(self.body, Outgoing::Once(_)) {
            self.candidates.truncate(1);
        }
        for c in self.candidates.iter().filter(|c| c.target.unconfirmed) {
            facade.confirm_address(&c.target.node);
        }
        self.admit();
        self.candidates.len()
    }

    /// With a model and a candidate it is a workload from now on.
    fn admit(&mut self) {
        let Some(model) = &self.model else { return };
        if self.report.job().is_some() || self.candidates.is_empty() {
            return;
        }
        let owners = self
            .candidates
            .iter()
            .map(|c| c.target.node.clone())
            .collect();
        let body_bytes = match &self.body {
            Outgoing::Replay(body) => body.len(),
            Outgoing::Once(_) => 0,
        };
        self.report
            .admit(model.path, model.name.clone(), body_bytes, owners);
    }

    /// Whether a candidate left discovery since it was looked up. One pass has no attempt to save.
    fn has_left(&self, candidate: usize) -> bool {
        let routing = self.report.facade().state.routing();
        self.effort == Effort::Budget && !routing.knows(&self.candidates[candidate].target.node)
    }

    async fn send(
        &mut self,
        candidate: usize,
        last: bool,
    ) -> Result<(Arc<Target>, Committed), Failure> {
        let target = self.candidates[candidate].target.clone();
        if let Some(job) = self.report.job().cloned() {
            let load = self.report.claim.dispatch(&target.node);
            job.place(&target.node, load);
        }
        tracing::debug!(
            engine = %self.report.facade().state.engine(), job = %self.report.id(),
            node = %target.node, attempt = self.machine.dispatched(), last, "dispatched"
        );
        let mut request = Some(self.request(&target));
        let context = self.report.facade().context.clone();
        let settings = &context.shared.settings;
        let gate = if settings.commit_on_first_byte {
            GateMode::FirstByte
        } else {
            GateMode::Framing
        };
        let limits = Limits {
            response: settings.response_cap,
            gate,
        };
        let mut changes = self.report.facade().state.changes();
        let attempt = attempt::run(
            &context.upstreams,
            &target,
            &mut request,
            &self.machine,
            self.effort,
            limits,
            &mut changes,
        );
        match attempt.await {
            Ok(committed) => Ok((target, committed)),
            Err(lost) => {
                self.lost(&target, &lost, last);
                Err(lost.failure)
            },
        }
    }

    fn lost(&self, target: &Target, lost: &attempt::Lost, last: bool) {
        let facade = self.report.facade();
        tracing::debug!(
            engine = %facade.state.engine(), job = %self.report.id(), node = %target.node,
            attempt = self.machine.dispatched(), reason = lost.detail, "attempt lost"
        );
        if let Some(job) = self.report.job() {
            job.refused(&target.node, lost.detail.clone());
        }
        if lost.failure.forgets_address(last) {
            facade.forget_address(&target.node);
        }
        if lost.failure == Failure::Transport
            && let Some(tell) = facade.context.on_failure.get()
        {
            tell(facade.state.engine(), &target.node);
        }
    }

    /// Nothing runs until the next round.
    fn rest(&mut self) {
        self.report.claim.release();
        if let Some(job) = self.report.job() {
            job.clear();
        }
    }

    fn request(&mut self, target: &Target) -> Request<RequestBody> {
        let mut request = Request::new(self.body.next());
        *request.method_mut() = self.head.method.clone();
        *request.uri_mut() = with_prefix(&target.prefix, &self.head.uri);
        *request.headers_mut() = self.head.headers.clone();
        *request.extensions_mut() = self.head.extensions.clone();
        let headers = request.headers_mut();
        headers.insert(header::HOST, target.host_header.clone());
        if let Some(bearer) = &target.bearer {
            headers.insert(header::AUTHORIZATION, bearer.clone());
        }
        if let Some(upgrade) = &self.upgrade {
            upgrade.ask(headers);
        }
        request
    }

    fn commit(
        mut self: Box<Self>,
        target: Arc<Target>,
        mut committed: Committed,
    ) -> Response<Content> {
        let status = committed.head.status;
        self.report.commit(&target, status.as_u16());
        let settings = &self.report.facade().context.shared.settings;
        if settings.response_headers {
            self.add_response_headers(&target, &mut committed.head);
        }
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return upgrade::switch(self.upgrade, committed, self.report);
        }
        let Committed {
            head,
            held,
            body,
            connection,
        } = committed;
        let text = |name| {
            head.headers
                .get(name)
                .and_then(|v: &HeaderValue| v.to_str().ok())
        };
        let tap = (self.report.job().is_some() && status.as_u16() < 400).then(|| {
            let kind = text(header::CONTENT_TYPE);
            Tap::new(TapKind::for_response(kind, text(header::CONTENT_ENCODING)))
        });
        let relay = Relay::new(held, body, connection, target, tap, self.report);
        Response::from_parts(head, Content::Relayed(Box::new(relay)))
    }

    fn add_response_headers(&self, target: &Target, head: &mut http::response::Parts) {
        let job = self.report.id();
        let run = self.report.facade().context.shared.workloads.run_id();
        let engine = self.report.facade().state.engine();
        for (name, value) in [
            ("x-nvpair-node", target.node.to_string()),
            ("x-nvpair-attempts", self.machine.dispatched().to_string()),
            ("x-nvpair-request-id", format!("{run}/{engine}/{job}")),
        ] {
            if let Ok(value) = HeaderValue::try_from(value) {
                head.headers.insert(name, value);
            }
        }
    }

    fn answer(mut self: Box<Self>, answer: Answer) -> Response<Content> {
        let (status, text, short) = match answer {
            Answer::NoCandidate => {
                let short = match self.model {
                    Some(_) => "no node advertises requested model",
                    None => "no active node",
                };
                (
                    StatusCode::BAD_GATEWAY,
                    self.no_candidate(),
                    short.to_owned(),
                )
            },
            Answer::Attempt(Failure::NoContent) => {
                let text = Failure::NoContent.text().to_owned();
                (StatusCode::GATEWAY_TIMEOUT, self.tried(&text), text)
            },
            Answer::Attempt(failure) => {
                let text = failure.text().to_owned();
                (StatusCode::BAD_GATEWAY, self.tried(&text), text)
            },
            Answer::Exhausted(why) => {
                let text = why.text().to_owned();
                (StatusCode::SERVICE_UNAVAILABLE, self.tried(&text), text)
            },
        };
        if self.machine.dispatched() > 0 {
            let engine = self.report.facade().state.engine();
            tracing::debug!(%engine, job = %self.report.id(), status = status.as_u16(), "request failed");
        }
        own_error(&mut self.report, status, &text, short)
    }

    /// What was asked for, what was tried.
    fn tried(&self, text: &str) -> String {
        let n = self.machine.dispatched();
        let attempts = if n == 1 {
            "1 attempt".to_owned()
        } else {
            format!("{n} attempts")
        };
        match &self.model {
            Some(Model { name, .. }) => format!("{text} (model {name:?}, {attempts})"),
            None => format!("{text} ({attempts})"),
        }
    }

    /// Names the model and, unless a web page asks, the nearest ones there are.
    fn no_candidate(&self) -> String {
        let facade = self.report.facade();
        let display = facade.state.engine().spec().display;
        let Some(Model { name: model, .. }) = &self.model else {
            return format!(
                "no node is reachable through the {display} facade; start an engine or add a node"
            );
        };
        let none = format!("no node advertises the model {model:?}");
        if self.head.headers.contains_key(header::ORIGIN) {
            return none;
        }
        let routing = facade.state.routing();
        let known: Vec<(&str, &[Candidate])> = routing.view.models().collect();
        let near = nearest(model, known.iter().map(|(m, _)| *m), 3);
        if near.is_empty() {
            return format!("{none}; pull it on a node, or ask for one that is listed");
        }
        let owners = |name: &str| {
            let found = known.iter().find(|(m, _)| *m == name);
            let nodes = found.into_iter().flat_map(|(_, c)| c.iter());
            nodes
                .map(|c| c.target.node.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let near: Vec<_> = near
            .iter()
            .map(|m| format!("{m} ({})", owners(m)))
            .collect();
        format!("{none}; nearest: {}", near.join(", "))
    }
}

fn too_large(mut report: Report, rest: Oversized, limit: u64) -> Response<Content> {
    let text = format!(
        "the request body is over the limit of {limit} bytes; raise --max-request-bytes \
         (max_request_bytes in the configuration) or send a smaller one"
    );
    // The client writes before it reads: it must not meet a closed connection.
    tokio::spawn(tokio::time::timeout(DISCARD_TIME, rest.drain(DISCARDED)));
    let short = "request body over the limit".to_owned();
    let mut response = own_error(&mut report, StatusCode::PAYLOAD_TOO_LARGE, &text, short);
    response
        .headers_mut()
        .insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn broken_request(mut report: Report) -> Response<Content> {
    let text = "the request body could not be read; its framing is broken";
    let mut response = own_error(&mut report, StatusCode::BAD_REQUEST, text, text.to_owned());
    response
        .headers_mut()
        .insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// An error of ours in the dialect of the request's path; `short` is what the report says.
pub fn own_error(
    report: &mut Report,
    status: StatusCode,
    text: &str,
    short: String,
) -> Response<Content> {
    let response = answers::error(dialect(report.path()), status, text);
    report.answered(status.as_u16(), Some(short));
    response.map(Content::Own)
}

/// A number in 0..1 that differs between requests and moments: it only has to keep waiting requests
/// apart, so mixing the clock's bits does (splitmix64).
fn roll(id: JobId, now: Duration) -> f64 {
    let mut x = id.0 ^ (now.as_nanos() as u64).rotate_left(32);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^= x >> 31;
    (x >> 11) as f64 / (1u64 << 53) as f64
}

/// Path and query alone: an absolute target names the proxy, not the engine.
fn origin_form(uri: &mut Uri) {
    if uri.authority().is_some() {
        let path = uri.path_and_query().cloned();
        *uri = path.unwrap_or(PathAndQuery::from_static("/")).into();
    }
}

fn with_prefix(prefix: &str, uri: &Uri) -> Uri {
    if prefix.is_empty() {
        return uri.clone();
    }
    let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    format!("{prefix}{path}")
        .parse()
        .unwrap_or_else(|_| uri.clone())
}

/// Prepares a request's head for any target; what it wants to become is handed back.
pub fn prepare(request: &mut Request<Incoming>, client: std::net::IpAddr) -> Option<HeaderValue> {
    headers::forward(request.headers_mut(), client)
}

/// A body of ours as an answer's content.
pub fn own(response: Response<Bytes>) -> Response<Content> {
    response.map(Content::Own)
}
