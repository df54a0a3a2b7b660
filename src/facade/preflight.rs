//! A browser's permission question (spec §5.8, data plane 9).
//!
//! Owns: asking every node and answering for all of them together. Leaves to others: the
//! intersection (`rules::cors`), the single node's own answer (`exchange`).

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::net::headers;
use crate::rules::cors::{self, Ask, Grant, Preflight};

use super::answer::Content;
use super::exchange::{forward, own, own_error};
use super::fanout::{self, CALL_TIMEOUT, Question};
use super::inventory::everybody;
use super::report::Report;

/// Nodes asked at the same time.
const AT_ONCE: usize = 8;

/// Answers a preflight: one node's answer is relayed as it is, several are intersected.
pub async fn answer(mut report: Report, mut request: Request<Incoming>) -> Response<Content> {
    let facade = report.facade().clone();
    let candidates = everybody(&facade);
    match candidates.len() {
        0 => {
            report.fan_out(false);
            let text = "no available engine for preflight";
            return own_error(&mut report, StatusCode::BAD_GATEWAY, text, text.to_owned());
        },
        1 if !facade.state.engine().is_gateway() => {
            report.fan_out(false);
            return forward(report, request).await;
        },
        _ => report.fan_out(false),
    }
    let ask = match Preflight::parse(request.headers()) {
        Ok(preflight) => Ask::Preflight(preflight),
        Err(denied) => return refuse(&mut report, StatusCode::FORBIDDEN, &denied.to_string()),
    };
    headers::strip(request.headers_mut());
    let uri = request.uri().clone();
    let mut question = Question::new(http::Method::OPTIONS, uri, request.headers());
    report.pass_trace(&mut question.headers);
    let asked = fanout::ask(&facade.context.upstreams, &candidates, &question, AT_ONCE);
    // One limit for the whole, however many nodes there are.
    let replies = timeout(CALL_TIMEOUT, asked).await.unwrap_or_default();
    let mut grants = Vec::new();
    for reply in replies.into_iter().flatten() {
        if reply.status.is_server_error() {
            continue;
        }
        if !reply.status.is_success() {
            return refuse(
                &mut report,
                StatusCode::FORBIDDEN,
                "engine denied preflight",
            );
        }
        grants.push(Grant::read(&reply.headers));
    }
    if grants.is_empty() {
        return refuse(
            &mut report,
            StatusCode::BAD_GATEWAY,
            "engine unavailable for preflight",
        );
    }
    match cors::combine(&ask, &grants) {
        Ok(combined) => {
            let mut response = Response::new(Bytes::new());
            *response.status_mut() = StatusCode::NO_CONTENT;
            *response.headers_mut() = combined.headers();
            report.answered(StatusCode::NO_CONTENT.as_u16(), None);
            own(response)
        },
        Err(_) => {
            let text = "engines do not all permit this preflight";
            refuse(&mut report, StatusCode::FORBIDDEN, text)
        },
    }
}

fn refuse(report: &mut Report, status: StatusCode, text: &str) -> Response<Content> {
    own_error(report, status, text, text.to_owned())
}
