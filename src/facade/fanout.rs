//! One bodiless request to many nodes at once (data plane 8 and 9).
//!
//! Owns: the concurrent calls, their limits, what travels with them (never a credential).
//! Leaves to others: what the answers mean together (`inventory`, `preflight`).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Limited};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::net::body::RequestBody;
use crate::net::headers;
use crate::net::upstream::Upstreams;
use crate::rules::budget::Cap;
use crate::rules::candidates::{Candidate, Target};

/// Time the whole call may take.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Largest answer taken.
const MAX_ANSWER: usize = 16 * 1024 * 1024;

/// What is asked of every node.
#[derive(Clone)]
pub struct Question {
    /// Method.
    pub method: Method,
    /// Path and query.
    pub uri: Uri,
    /// End-to-end headers, without credentials.
    pub headers: HeaderMap,
}

impl Question {
    /// The question a client's request stands for. Credentials stay here: they were meant for one
    /// target.
    pub fn new(method: Method, uri: Uri, headers: &HeaderMap) -> Self {
        let mut headers = headers.clone();
        headers::leave_credentials(&mut headers);
        headers.remove(header::CONTENT_LENGTH);
        headers.remove(header::CONTENT_TYPE);
        Self {
            method,
            uri,
            headers,
        }
    }
}

/// A node's answer.
pub struct Reply {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body; `None` if it broke off or was too large.
    pub body: Option<Bytes>,
}

/// Asks all candidates, at most `at_once` of them at the same time; answers in candidate order,
/// `None` where nobody answered.
pub async fn ask(
    upstreams: &Arc<Upstreams>,
    candidates: &[Candidate],
    question: &Question,
    at_once: usize,
) -> Vec<Option<Reply>> {
    let mut replies: Vec<Option<Reply>> = Vec::new();
    replies.resize_with(candidates.len(), || None);
    let mut calls = JoinSet::new();
    let mut waiting = candidates.iter().enumerate();
    loop {
        while calls.len() < at_once {
            let Some((i, c)) = waiting.next() else { break };
            let (upstreams, target) = (upstreams.clone(), c.target.clone());
            let request = request(question, &target);
            calls.spawn(async move { (i, call(&upstreams, &target, request).await) });
        }
        // A call that panicked answers nothing.
        match calls.join_next().await {
            None => return replies,
            Some(Ok((i, reply))) => replies[i] = reply,
            Some(Err(_)) => {},
        }
    }
}

fn request(q: &Question, target: &Target) -> Request<RequestBody> {
    let mut request = Request::new(RequestBody::empty());
    *request.method_mut() = q.method.clone();
    let path = q.uri.path_and_query().map_or("/", |p| p.as_str());
    *request.uri_mut() = target
        .path_for(path)
        .parse()
        .unwrap_or_else(|_| q.uri.clone());
    *request.headers_mut() = q.headers.clone();
    let headers = request.headers_mut();
    headers.insert(header::HOST, target.host_header.clone());
    if let Some(bearer) = &target.bearer {
        headers.insert(header::AUTHORIZATION, bearer.clone());
    }
    request
}

async fn call(
    upstreams: &Upstreams,
    target: &Target,
    request: Request<RequestBody>,
) -> Option<Reply> {
    let whole = async {
        let mut slot = Some(request);
        let sent = upstreams.send(&target.into(), &mut slot, Cap::Off).await;
        let (response, connection) = sent.ok()?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_ANSWER).collect().await;
        let body = body.ok().map(|b| b.to_bytes());
        if body.is_some() {
            upstreams.give_back(&target.into(), connection);
        }
        Some(Reply {
            status: head.status,
            headers: head.headers,
            body,
        })
    };
    timeout(CALL_TIMEOUT, whole).await.ok().flatten()
}
