//! One attempt: dial, headers, first content (spec §5.1 to §5.3).
//!
//! Owns: the three budgets in sequence, the commit gate, noticing that the target left discovery.
//! Leaves to others: what to do with a loss (`round`), streaming (`relay`).
//!
//! Commit and abandon exclude each other by one claim ([`Fate`]): the gate makes it when it sees
//! content, the watcher when the node is gone. The work is polled first, so that a byte that is here
//! wins over a node that is gone.

use std::pin::{Pin, pin};

use http::{Request, header, response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::net::body::RequestBody;
use crate::net::headers;
use crate::net::upstream::{Connection, SendError, Upstreams};
use crate::rules::budget::Cap;
use crate::rules::candidates::Target;
use crate::rules::dispatch::Verdict;
use crate::rules::gate::{Gate, Verdict as Content};
use crate::rules::ids::NodeId;
use crate::rules::outcome::{Effort, Failure};
use crate::state::facade::Routing;
use crate::state::fate::{Commit, Fate};

use super::Facade;
use super::relay::Held;
use super::round::{Limits, Lost, Round};

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

/// Sends a request to a target and waits until its answer commits. The request is taken out of its
/// slot.
///
/// # Errors
/// The attempt was lost before commit.
pub async fn run(
    round: &Round,
    target: &Target,
    request: &mut Option<Request<RequestBody>>,
) -> Result<(Committed, Commit), Lost> {
    let (facade, fate) = (round.report.facade(), Fate::default());
    let upstreams = &facade.context.upstreams;
    let work = pin!(answer(upstreams, target, request, round, &fate));
    watched(facade, target, &fate, work).await
}

/// Runs an attempt beside the watcher of its node. The attempt claims its commit itself, before it
/// returns; given up, it has closed its connection by the time the request goes on. It is pinned, so
/// that it is not moved in here.
///
/// # Errors
/// The attempt's own, or the node left discovery before it committed.
pub async fn watched<T>(
    facade: &Facade,
    target: &Target,
    fate: &Fate,
    attempt: Pin<&mut impl Future<Output = Result<T, Lost>>>,
) -> Result<T, Lost> {
    let mut changes = match target.provider() {
        // It is in no discovery that it could leave.
        Some(_) => None,
        None => Some(facade.changes(target).ok_or(Failure::TargetGone)?),
    };
    let abandoned = async {
        match &mut changes {
            Some(changes) => abandoned(changes, &target.node, fate).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        result = attempt => result,
        () = abandoned => Err(Failure::TargetGone.into()),
    }
}

/// Resolves when the node's leave has decided the attempt's fate: never, if content did before.
async fn abandoned(
    changes: &mut watch::Receiver<std::sync::Arc<Routing>>,
    node: &NodeId,
    fate: &Fate,
) {
    gone(changes, node).await;
    if !fate.abandon() {
        std::future::pending::<()>().await;
    }
}

/// Claims the commit of an attempt whose content is here.
///
/// # Errors
/// The watcher was first.
pub fn claim(fate: &Fate) -> Result<Commit, Lost> {
    fate.commit().ok_or_else(|| Failure::TargetGone.into())
}

async fn answer(
    upstreams: &Upstreams,
    target: &Target,
    request: &mut Option<Request<RequestBody>>,
    round: &Round,
    fate: &Fate,
) -> Result<(Committed, Commit), Lost> {
    let limits = round.limits();
    let sent = request.as_ref();
    let may_switch = sent.is_some_and(|r| r.headers().contains_key(header::UPGRADE));
    let sent = upstreams
        .send(&target.into(), request, limits.response)
        .await;
    let (response, connection) = sent.map_err(not_sent)?;
    let (mut head, mut body) = response.into_parts();
    let status = head.status.as_u16();
    if round.judge(target, status) == Verdict::Retry {
        let told = target.provider().map(|_| Box::new(head.headers));
        return Err(Lost {
            headers: told,
            ..Failure::Status(status).into()
        });
    }
    headers::answer(&mut head, may_switch).map_err(|e| Lost {
        detail: e.to_string(),
        ..Failure::Transport.into()
    })?;
    let held = match round.effort {
        Effort::OnePass => Held::default(),
        Effort::Budget => first_content(&head, &mut body, limits).await?,
    };
    let committed = Committed {
        head,
        held,
        body,
        connection,
    };
    Ok((committed, claim(fate)?))
}

/// Waits for the first content. Framing of an event stream is held; an end without bytes commits.
async fn first_content(
    head: &response::Parts,
    body: &mut Incoming,
    limits: Limits,
) -> Result<Held, Lost> {
    let content_type = head.headers.get(header::CONTENT_TYPE);
    let content_type = content_type.map(|v| v.as_bytes());
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
        headers: None,
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
