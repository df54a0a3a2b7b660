//! A request forwarded to one node at a time through the HTTP library: every kind that has a body,
//! odd framing, an upgrade, or a route of its own.
//!
//! Owns: reading the request, building each attempt's, handing the committed answer on.
//! Leaves to others: attempts and candidates (`round`), one attempt (`attempt`), who asks all nodes
//! (`inventory`, `preflight`).

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, StatusCode, Uri, header, request};
use hyper::body::Incoming;

use crate::net::answers;
use crate::net::body::{Buffered, Collected, Oversized, RequestBody, collect, is_framing};
use crate::net::headers;
use crate::rules::candidates::{Candidate, Target};
use crate::rules::demand::{self, Demand};
use crate::rules::form;
use crate::rules::model_scan::ModelScan;
use crate::rules::outcome::Effort;
use crate::rules::route::dialect;
use crate::rules::usage::{Tap, TapKind};
use crate::state::fate::Commit;

use super::answer::Content;
use super::attempt::{self, Committed};
use super::relay::Relay;
use super::report::Report;
use super::round::{self, Lane, Lost, Model, Round};
use super::upgrade;

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

/// What is sent at each attempt.
struct Exchange {
    head: request::Parts,
    upgrade: Option<upgrade::Client>,
    body: Outgoing,
    /// Where the model's name stands in the body, where another may have to be put.
    name: Option<NamePlace>,
}

/// A name's place in a body, and how a name is written there.
struct NamePlace {
    place: Range<u64>,
    /// As a form's field, else as a string of JSON.
    plain: bool,
}

/// Serves an inference request: body within the limit, model found, retried within the budget.
pub async fn inference(
    report: Report,
    request: Request<Incoming>,
    path: &'static str,
) -> Response<Content> {
    let limit = report.settings().max_request_bytes;
    let (mut head, body) = request.into_parts();
    let expects = head.extensions.remove::<Expects>().is_some();
    let mut scan = ModelScan::new();
    match collect(body, limit, |piece| scan.push(piece)).await {
        Collected::Whole(body) => {
            let found = match form_boundary(&report, &head) {
                Some(boundary) => named(form::scan(&body.whole(), boundary), true),
                None => named(scan.finish_in_place(), false),
            };
            let (name, place) = found.unzip();
            let model = name.map(|name| Model { name, path });
            if model.is_none() && report.facade().state.engine().is_gateway() {
                return nameless(report);
            }
            let (len, body) = (body.len(), Outgoing::Replay(body));
            let mut exchange = Exchange::boxed(head, None, body);
            exchange.name = place;
            let (round, first) = Round::new(report, Effort::Budget, model, len, false);
            exchange.run(Box::new(round), first).await
        },
        Collected::TooLarge(rest) => too_large(report, rest, limit, expects),
        Collected::Broken(e) => broken_request(report, &e),
    }
}

/// Forwards anything else verbatim, to each node at most once. A body over the limit is streamed to
/// the first one, without replay.
pub async fn forward(report: Report, mut request: Request<Incoming>) -> Response<Content> {
    let limit = report.settings().max_request_bytes;
    let upgrade = upgrade::Client::take(&mut request);
    let (head, body) = request.into_parts();
    let body = match collect(body, limit, |_| ()).await {
        Collected::Whole(body) => Outgoing::Replay(body),
        Collected::TooLarge(rest) => Outgoing::Once(Some(rest)),
        Collected::Broken(e) => return broken_request(report, &e),
    };
    let once = matches!(body, Outgoing::Once(_));
    let exchange = Exchange::boxed(head, upgrade, body);
    let (round, first) = Round::new(report, Effort::OnePass, None, 0, once);
    exchange.run(Box::new(round), first).await
}

impl Lane for Exchange {
    type Committed = Committed;

    fn demand(&self) -> Demand {
        match &self.body {
            Outgoing::Replay(body) => demand::estimate(&body.whole()),
            Outgoing::Once(_) => Demand::default(),
        }
    }

    async fn attempt(
        &mut self,
        round: &mut Round,
        to: &Candidate,
    ) -> Result<(Committed, Commit), Lost> {
        let mut request = self.request(to);
        round.report.pass_trace(request.headers_mut());
        let mut request = Some(request);
        attempt::run(round, &to.target, &mut request).await
    }
}

impl Exchange {
    /// On the heap, so that it is not copied from one waiting state to the next.
    fn boxed(
        mut head: request::Parts,
        upgrade: Option<upgrade::Client>,
        body: Outgoing,
    ) -> Box<Self> {
        origin_form(&mut head.uri);
        Box::new(Self {
            head,
            upgrade,
            body,
            name: None,
        })
    }

    async fn run(
        mut self: Box<Self>,
        mut round: Box<Round>,
        first: crate::rules::dispatch::Action,
    ) -> Response<Content> {
        match round.drive(&mut *self, first).await {
            Ok((target, committed, claimed)) => self.commit(*round, target, committed, claimed),
            Err(answer) => {
                let page = self.head.headers.contains_key(header::ORIGIN);
                own(round.answer(answer, page))
            },
        }
    }

    fn request(&mut self, to: &Candidate) -> Request<RequestBody> {
        let target = &to.target;
        let renamed = (to.send_as.as_deref()).and_then(|name| self.renamed(name));
        let mut request = Request::new(match &renamed {
            Some(body) => RequestBody::replay(body),
            None => self.body.next(),
        });
        *request.method_mut() = self.head.method.clone();
        *request.uri_mut() = towards(target, &self.head.uri);
        *request.headers_mut() = self.head.headers.clone();
        *request.extensions_mut() = self.head.extensions.clone();
        let headers = request.headers_mut();
        if let Some(body) = renamed {
            // What was said of the other bytes is not true of these.
            for name in DIGESTS {
                headers.remove(name);
            }
            if headers.contains_key(header::CONTENT_LENGTH) {
                headers.insert(header::CONTENT_LENGTH, body.len().into());
            }
        }
        headers.insert(header::HOST, target.host_header.clone());
        if target.provider().is_some() {
            headers::leave_at_home(headers);
        }
        if let Some(bearer) = &target.bearer {
            headers.insert(header::AUTHORIZATION, bearer.clone());
        }
        if let Some(upgrade) = &self.upgrade {
            upgrade.ask(headers);
        }
        request
    }

    /// The body with another model's name in it.
    fn renamed(&self, name: &str) -> Option<Arc<Buffered>> {
        let (Outgoing::Replay(body), Some(at)) = (&self.body, &self.name) else {
            return None;
        };
        let text = match at.plain {
            true => name.to_owned(),
            false => serde_json::Value::from(name).to_string(),
        };
        Some(Arc::new(body.with(&at.place, text.into())))
    }

    fn commit(
        self: Box<Self>,
        mut round: Round,
        target: Arc<Target>,
        mut committed: Committed,
        claimed: Commit,
    ) -> Response<Content> {
        let status = committed.head.status;
        round.report.heard(status.as_u16(), &committed.head.headers);
        round.report.commit(&target, status.as_u16(), claimed);
        for (name, value) in round.response_headers(&target).into_iter().flatten() {
            if let Ok(value) = HeaderValue::try_from(value) {
                committed.head.headers.insert(name, value);
            }
        }
        let report = round.report;
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return upgrade::switch(self.upgrade, committed, report);
        }
        let Committed {
            head,
            held,
            body,
            connection,
        } = committed;
        let text = |name| head.headers.get(name).map(HeaderValue::as_bytes);
        if let Some(job) = report.job() {
            job.framed(text(header::CONTENT_TYPE));
        }
        let tap = (report.job().is_some() && status.as_u16() < 400).then(|| {
            let kind = text(header::CONTENT_TYPE);
            Tap::new(TapKind::for_response(kind, text(header::CONTENT_ENCODING)))
        });
        let relay = Relay::new(held, body, connection, target, tap, report);
        Response::from_parts(head, Content::Relayed(Box::new(relay)))
    }
}

/// Headers that tell a body's bytes.
const DIGESTS: [&str; 4] = ["content-digest", "repr-digest", "digest", "content-md5"];

/// The boundary of a request's form. Engines' own facades take JSON alone.
fn form_boundary<'a>(report: &Report, head: &'a request::Parts) -> Option<&'a str> {
    let kind = head.headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let is_gateway = report.facade().state.engine().is_gateway();
    is_gateway.then(|| form::boundary(kind)).flatten()
}

fn named(found: Option<(String, Range<u64>)>, plain: bool) -> Option<(String, NamePlace)> {
    found.map(|(name, place)| (name, NamePlace { place, plain }))
}

/// Without a model there is no chain to go along.
fn nameless(mut report: Report) -> Response<Content> {
    let text = "the request names no model: `model` is missing, empty or no text, or the body is no \
                valid JSON object or form; GET /v1/models lists what there is";
    let short = "the request names no model".to_owned();
    own_error(&mut report, StatusCode::BAD_REQUEST, text, short)
}

fn too_large(mut report: Report, rest: Oversized, limit: u64, expects: bool) -> Response<Content> {
    let text = format!(
        "the request body is over the limit of {limit} bytes; raise --max-request-bytes \
         (max_request_bytes in the configuration) or send a smaller one"
    );
    // The client writes before it reads: it must not meet a closed connection. One that waits to be
    // told to go on has its answer instead, and reading on would tell it to.
    if !expects {
        rest.discard();
    }
    let short = "request body over the limit".to_owned();
    closing(own_error(
        &mut report,
        StatusCode::PAYLOAD_TOO_LARGE,
        &text,
        short,
    ))
}

fn broken_request(mut report: Report, why: &hyper::Error) -> Response<Content> {
    let status = StatusCode::BAD_REQUEST;
    if is_framing(why) {
        let text = "the request body could not be read; its framing is broken";
        return closing(own_error(&mut report, status, text, text.to_owned()));
    }
    // The client left, and that is what its request is told of as.
    let text = "the request ended within its body";
    closing(own(answers::error(dialect(report.path()), status, text)))
}

fn closing(mut response: Response<Content>) -> Response<Content> {
    response
        .headers_mut()
        .insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// An error of ours as an answer's content.
pub fn own_error(
    report: &mut Report,
    status: StatusCode,
    text: &str,
    short: String,
) -> Response<Content> {
    own(round::own_error(report, status, text, short))
}

/// Path and query alone: an absolute target names the proxy, not the engine.
pub fn origin_form(uri: &mut Uri) {
    if uri.authority().is_some() {
        let path = uri.path_and_query().cloned();
        *uri = path.unwrap_or(PathAndQuery::from_static("/")).into();
    }
}

fn towards(target: &Target, uri: &Uri) -> Uri {
    if target.prefix.is_empty() && target.provider().is_none() {
        return uri.clone();
    }
    let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let path = target.path_for(path);
    path.parse().unwrap_or_else(|_| uri.clone())
}

/// Marks a request whose client waits for `100 Continue` before it sends its body.
#[derive(Clone)]
pub struct Expects;

/// Prepares a request's head for any target; what it wants to become is handed back.
pub fn prepare(request: &mut Request<Incoming>, client: std::net::IpAddr) -> Option<HeaderValue> {
    headers::forward(request.headers_mut(), client)
}

/// A body of ours as an answer's content.
pub fn own(response: Response<Bytes>) -> Response<Content> {
    response.map(Content::Own)
}
