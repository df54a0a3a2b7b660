//! One attempt: dial, headers, first content (spec §5.1 to §5.3).
//!
//! Owns: the three budgets in sequence, the commit gate, noticing that the target left discovery.
//! Leaves to others: what to do with a loss (`exchange`), streaming (`relay`).
//!
//! Commit and abandon exclude each other because one `select` decides both, the work first: a byte
//! that is here wins over a node that is gone.

use http::{Request, Response, header, response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::net::body::RequestBody;
use crate::net::headers;
use crate::net::upstream::{Connection, SendError, Upstreams};
use crate::rules::budget::Cap;
use crate::rules::candidates::Target;
use crate::rules::dispatch::{Dispatch, Verdict};
use crate::rules::gate::{Gate, GateMode, Verdict as Content};
use crate::rules::ids::NodeId;
use crate::rules::outcome::{Effort, Failure};
use crate::state::facade::Routing;

use super::relay::Held;

/// A committed answer.
pub struct Committed {
    /// Status and end-to-end headers.
    pub head: response::Parts,
    /// What was read before the commit.
    pub held: Held,
    /// The rest.
    pub body: Incoming,
    /// The connection it comes on.
    pub connection: Connection,
}

/// What an attempt is held to.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Wait for headers, and again for first content.
    pub response: Cap,
    /// Which bytes commit.
    pub gate: GateMode,
}

/// A lost attempt.
pub struct Lost {
    /// How.
    pub failure: Failure,
    /// In words, for the timeline; never content.
    pub detail: String,
}

impl From<Failure> for Lost {
    fn from(failure: Failure) -> Self {
        let detail = match failure {
            Failure::Status(status) => format!("HTTP {status}"),
            other => other.text().to_owned(),
        };
        Self { failure, detail }
    }
}

/// Sends a request to a target and waits until its answer commits. The request is taken out of its
/// slot.
///
/// # Errors
/// The attempt was lost before commit.
pub async fn run(
    upstreams: &Upstreams,
    target: &Target,
    request: &mut Option<Request<RequestBody>>,
    machine: &Dispatch,
    effort: Effort,
    limits: Limits,
    changes: &mut watch::Receiver<std::sync::Arc<Routing>>,
) -> Result<Committed, Lost> {
    tokio::select! {
        biased;
        result = answer(upstreams, target, request, machine, effort, limits) => result,
        () = gone(changes, &target.node) => Err(Failure::TargetGone.into()),
    }
}

async fn answer(
    upstreams: &Upstreams,
    target: &Target,
    request: &mut Option<Request<RequestBody>>,
    machine: &Dispatch,
    effort: Effort,
    limits: Limits,
) -> Result<Committed, Lost> {
    let sent = upstreams
        .send(&target.into(), request, limits.response)
        .await;
    let (response, connection) = sent.map_err(not_sent)?;
    judge(response, connection, machine, effort, limits).await
}

async fn judge(
    response: Response<Incoming>,
    connection: Connection,
    machine: &Dispatch,
    effort: Effort,
    limits: Limits,
) -> Result<Committed, Lost> {
    let (mut head, mut body) = response.into_parts();
    // The version is one connection's: an HTTP/1.0 engine must not make the client's so.
    head.version = http::Version::HTTP_11;
    let status = head.status.as_u16();
    if machine.judge(status) == Verdict::Retry {
        return Err(Failure::Status(status).into());
    }
    // A switch of protocols is what the fields that are stripped otherwise are about.
    if status != 101 {
        headers::strip(&mut head.headers);
    }
    let held = match effort {
        Effort::OnePass => Held::default(),
        Effort::Budget => first_content(&head, &mut body, limits).await?,
    };
    Ok(Committed {
        head,
        held,
        body,
        connection,
    })
}

/// Waits for the first content. Framing of an event stream is held; an end without bytes commits.
async fn first_content(
    head: &response::Parts,
    body: &mut Incoming,
    limits: Limits,
) -> Result<Held, Lost> {
    let content_type = head
        .headers
        .get(header::CONTENT_TYPE)
        .and_then(|v| v.to_str().ok());
    let mut gate = Gate::for_response(content_type, limits.gate);
    let mut held = Held::default();
    // Measured from the headers, whatever framing comes meanwhile.
    let deadline = match limits.response {
        Cap::Off => None,
        Cap::After(cap) => Some(Instant::now() + cap),
    };
    loop {
        let frame = match deadline {
            None => body.frame().await,
            Some(deadline) => match timeout_at(deadline, body.frame()).await {
                Ok(frame) => frame,
                Err(_) => return Err(Failure::NoContent.into()),
            },
        };
        match frame {
            None => return Ok(held),
            Some(Err(_)) => return Err(Failure::Broken.into()),
            Some(Ok(frame)) => {
                let verdict = match frame.data_ref() {
                    Some(data) => gate.push(data),
                    // Trailers end the body.
                    None => Content::Commit,
                };
                held.push(frame);
                if verdict == Content::Commit {
                    return Ok(held);
                }
            },
        }
    }
}

fn not_sent(e: SendError) -> Lost {
    let failure = match e {
        SendError::NoHeaders => Failure::NoHeaders,
        SendError::Dial(_) | SendError::Exchange(_) => Failure::Transport,
    };
    Lost {
        failure,
        detail: e.text(),
    }
}

/// Resolves when the node is in neither overlay any more. Wakes on changes only: a quiet discovery
/// costs nothing.
async fn gone(changes: &mut watch::Receiver<std::sync::Arc<Routing>>, node: &NodeId) {
    while changes.borrow_and_update().knows(node) {
        if changes.changed().await.is_err() {
            // The facade itself is gone; its requests are ended otherwise.
            std::future::pending::<()>().await;
        }
    }
    // Let work that became ready at the same time be seen first.
    tokio::task::yield_now().await;
}
