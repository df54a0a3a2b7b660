//! The fleet's model list: every node asked at once, the answers merged (data plane 8).
//!
//! Owns: which answers count. Leaves to others: the calls (`fanout`), the merge (`rules::models`),
//! what a browser may read (`rules::cors`).

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, header};
use hyper::body::Incoming;

use crate::net::answers;
use crate::rules::candidates::Candidate;
use crate::rules::cors::{self, Ask, Grant};
use crate::rules::engine::{ListShape, Naming};
use crate::rules::models::{self, Record};
use crate::rules::policy;
use crate::rules::shortlist::Shortlist;
use crate::state::clients::Client;

use super::Facade;
use super::answer::Content;
use super::exchange::{own, own_error};
use super::fanout::{self, Question, Reply};
use super::report::Report;

const UNAVAILABLE: &str = "model inventory unavailable";

/// What one node's answer is worth.
enum Verdict<'a> {
    /// No connection, or a status of 500 and above.
    Unavailable,
    /// It does not let this origin read.
    Denied,
    /// It answered, but not with a list.
    Unusable,
    /// Its records.
    Valid(Vec<Record<'a>>),
}

/// Every reachable node in the order a request would try them.
pub fn everybody(facade: &Facade) -> Vec<Candidate> {
    if facade.state.engine().is_gateway() {
        return of_all_engines(facade);
    }
    let routing = facade.routing();
    let mut all = Shortlist::from(routing.view.everybody().to_vec());
    let ask = policy::Ask {
        engine: facade.state.engine(),
        model: "",
        pin: routing.pin.as_ref(),
    };
    facade.context.shared.scheduler.preview(ask, &mut all, 0);
    if routing.view.shares_addresses() {
        all.drop_shared();
    }
    all.to_vec()
}

/// The nodes of every engine, each address once.
fn of_all_engines(facade: &Facade) -> Vec<Candidate> {
    let mut all = Vec::new();
    for source in facade.context.shared.sources() {
        all.extend_from_slice(facade.routing_of(&source).view.everybody());
    }
    let mut all = Shortlist::from(all);
    all.drop_shared();
    all.to_vec()
}

/// Answers the gateway's model list, which is in `body`, to a browser: what every engine lets this
/// origin read, it may read together.
pub async fn list_to_origin(
    report: &mut Report,
    request: &Request<Incoming>,
    origin: HeaderValue,
    body: Bytes,
) -> Response<Content> {
    let facade = report.facade().clone();
    let candidates = everybody(&facade);
    let replies = ask(report, &candidates, question(request, "/v1/models")).await;
    let asked = Asked {
        naming: Naming::Exact,
        // The list is made, of what the caller may use: here only the permission counts.
        client: None,
        shape: ListShape::OpenAi,
    };
    let replies: Vec<_> = std::iter::zip(&candidates, &replies).collect();
    match agreed(report, &asked, &replies, origin) {
        Ok((_, headers)) => listed(report, body, headers),
        Err(refused) => *refused,
    }
}

/// Answers a model list.
pub async fn list(
    mut report: Report,
    request: Request<Incoming>,
    shape: ListShape,
    upstream: &'static str,
) -> Response<Content> {
    let facade = report.facade().clone();
    let mut candidates = everybody(&facade);
    let there_are_some = !candidates.is_empty();
    if let Some(client) = report.client() {
        candidates.retain(|c| client.grants().allows_some(c.target.as_granted()));
    }
    report.fan_out(!candidates.is_empty());
    if there_are_some && candidates.is_empty() {
        // There is a list, and this caller's part of it is empty.
        return merged(&mut report, Vec::new(), shape, HeaderMap::new());
    }
    let origin = request
        .headers()
        .get(header::ORIGIN)
        .filter(|o| !o.is_empty())
        .cloned();
    let replies = ask(&report, &candidates, question(&request, upstream)).await;
    let asked = Asked {
        naming: facade.state.engine().spec().naming,
        client: report.client().cloned(),
        shape,
    };
    let replies: Vec<_> = std::iter::zip(&candidates, &replies).collect();
    match origin {
        None => plain(&mut report, &asked, &replies),
        Some(origin) => for_origin(&mut report, &asked, &replies, origin),
    }
}

/// Asks all of them at once. Who cannot be reached may answer at another of its addresses.
async fn ask(
    report: &Report,
    candidates: &[Candidate],
    mut question: Question,
) -> Vec<Option<Reply>> {
    let facade = report.facade();
    report.pass_trace(&mut question.headers);
    let upstreams = &facade.context.upstreams;
    let replies = fanout::ask(upstreams, candidates, &question, usize::MAX).await;
    for (candidate, reply) in candidates.iter().zip(&replies) {
        if reply.is_none()
            && let Some(facade) = facade.of(&candidate.target)
        {
            facade.forget_address(&candidate.target.node);
        }
    }
    replies
}

/// What is asked for, and by whom.
struct Asked {
    naming: Naming,
    client: Option<Arc<Client>>,
    shape: ListShape,
}

/// A node and what it answered.
type Told<'a> = (&'a Candidate, &'a Option<Reply>);

fn question(request: &Request<Incoming>, upstream: &'static str) -> Question {
    let uri = match request.uri().query() {
        None => Uri::from_static(upstream),
        Some(query) => format!("{upstream}?{query}")
            .parse()
            .unwrap_or_else(|_| Uri::from_static(upstream)),
    };
    let mut question = Question::new(http::Method::GET, uri, request.headers());
    question
        .headers
        .entry(header::ACCEPT)
        .or_insert(HeaderValue::from_static("application/json"));
    // Answers are read here, so they must come as they are.
    question.headers.remove(header::ACCEPT_ENCODING);
    question
}

/// Without a browser any valid list is enough; bad nodes are skipped.
fn plain(report: &mut Report, asked: &Asked, replies: &[Told]) -> Response<Content> {
    let lists: Vec<_> = replies
        .iter()
        .filter_map(|told| match asked.judge(told, None) {
            Verdict::Valid(records) => Some(records),
            _ => None,
        })
        .collect();
    if lists.is_empty() {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        return own_error(report, status, UNAVAILABLE, UNAVAILABLE.to_owned());
    }
    merged(report, lists, asked.shape, HeaderMap::new())
}

fn for_origin(
    report: &mut Report,
    asked: &Asked,
    replies: &[Told],
    origin: HeaderValue,
) -> Response<Content> {
    match agreed(report, asked, replies, origin) {
        Ok((lists, headers)) => merged(report, lists, asked.shape, headers),
        Err(refused) => *refused,
    }
}

/// The records of each node that answered well.
type Lists<'r> = Vec<Vec<Record<'r>>>;

/// For a browser everybody who answered has to agree, and one live refusal is enough.
fn agreed<'r>(
    report: &mut Report,
    asked: &Asked,
    replies: &[Told<'r>],
    origin: HeaderValue,
) -> Result<(Lists<'r>, HeaderMap), Box<Response<Content>>> {
    let mut lists = Vec::new();
    let mut grants = Vec::new();
    let mut unusable = false;
    for told in replies {
        match asked.judge(told, Some(&origin)) {
            Verdict::Unavailable => continue,
            Verdict::Denied => {
                let text = "an engine denied access to the model list";
                let refused = own_error(report, StatusCode::FORBIDDEN, text, text.to_owned());
                return Err(Box::new(refused));
            },
            Verdict::Unusable => unusable = true,
            Verdict::Valid(records) => lists.push(records),
        }
        grants.extend(told.1.as_ref().map(|r| Grant::read(&r.headers)));
    }
    let agreed = cors::combine(&Ask::Read(origin), &grants).map(|c| c.headers());
    if unusable || grants.is_empty() {
        let status = StatusCode::BAD_GATEWAY;
        let mut response = own_error(report, status, UNAVAILABLE, UNAVAILABLE.to_owned());
        response.headers_mut().extend(agreed.unwrap_or_default());
        return Err(Box::new(response));
    }
    agreed.map(|headers| (lists, headers)).map_err(|_| {
        let text = "engines do not all permit access to the model list";
        Box::new(own_error(
            report,
            StatusCode::FORBIDDEN,
            text,
            text.to_owned(),
        ))
    })
}

impl Asked {
    /// What an answer is worth; of its records those that the caller's key may use.
    fn judge<'a>(
        &self,
        (candidate, reply): &Told<'a>,
        origin: Option<&HeaderValue>,
    ) -> Verdict<'a> {
        let naming = self.naming;
        let mut verdict = judge(reply.as_ref(), self.shape, naming, origin);
        if let (Verdict::Valid(records), Some(client)) = (&mut verdict, &self.client) {
            let target = candidate.target.as_granted();
            records.retain(|r| client.grants().allows(target, &naming.normalize(r.key())));
        }
        verdict
    }
}

fn judge<'a>(
    reply: Option<&'a Reply>,
    shape: ListShape,
    naming: Naming,
    origin: Option<&HeaderValue>,
) -> Verdict<'a> {
    let Some(reply) = reply.filter(|r| !r.status.is_server_error()) else {
        return Verdict::Unavailable;
    };
    if let Some(origin) = origin {
        let refused = matches!(
            reply.status,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN
        );
        let closed =
            reply.status == StatusCode::OK && !Grant::read(&reply.headers).allows_origin(origin);
        if refused || closed {
            return Verdict::Denied;
        }
    }
    if reply.status != StatusCode::OK {
        return Verdict::Unusable;
    }
    match reply
        .body
        .as_ref()
        .map(|body| models::parse(body, shape, naming))
    {
        Some(Ok(records)) => Verdict::Valid(records),
        Some(Err(_)) | None => Verdict::Unusable,
    }
}

fn merged(
    report: &mut Report,
    lists: Vec<Vec<Record<'_>>>,
    shape: ListShape,
    cors: HeaderMap,
) -> Response<Content> {
    let merged = models::merge(lists);
    for model in &merged.conflicts {
        let engine = report.facade().state.engine();
        tracing::debug!(%engine, model, "nodes list different digests for one model");
    }
    let body = Bytes::from(models::render(shape, &merged.records));
    listed(report, body, cors)
}

fn listed(report: &mut Report, body: Bytes, cors: HeaderMap) -> Response<Content> {
    let mut response = answers::json_response(StatusCode::OK, body);
    response.headers_mut().extend(cors);
    report.answered(StatusCode::OK.as_u16(), None);
    own(response)
}
