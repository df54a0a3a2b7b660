//! One attempt of the express lane: a plain request on a plain socket, up to its commit.
//!
//! Owns: the head that is sent, the replacement of a connection that was closed while it was idle, the
//! wait for head and content. Leaves to others: the client's connection, streaming (`super`), every
//! decision (`facade::round`).

use std::pin::pin;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::time::Instant;

use crate::facade::attempt::{claim, watched};
use crate::facade::round::{Lane, Lost, Round};
use crate::net::buffers::READ;
use crate::net::h1::framing::Tracker;
use crate::net::h1::request::{Plain, Without};
use crate::net::lazy_timer::LazyTimer;
use crate::net::sockets::{Answered, Exchange, poll_read_into};
use crate::net::stream::Stream;
use crate::rules::budget::Cap;
use crate::rules::candidates::{Candidate, Target};
use crate::rules::demand::{self, Demand};
use crate::rules::dispatch::Verdict;
use crate::rules::gate::{Gate, Verdict as Content};
use crate::rules::outcome::Failure;
use crate::state::fate::{Commit, Fate};
use crate::telemetry::request::Outgoing;

/// A committed attempt.
pub(super) struct Begun {
    /// The answer, and what was read of it.
    pub answered: Answered,
    /// The body as far as it was read.
    pub tracker: Tracker,
    /// The connection ended, and the body with it.
    pub ended: bool,
}

/// Sends a plain request.
pub(super) struct Plainly<'a> {
    /// Its head.
    pub plain: &'a Plain,
    /// What it was found in.
    pub head: Bytes,
    /// Its client's address as text.
    pub client: &'a str,
    /// Its body.
    pub body: Bytes,
    /// For whatever its engine is waited for.
    pub timer: &'a mut LazyTimer,
}

impl Lane for Plainly<'_> {
    type Committed = Begun;

    fn demand(&self) -> Demand {
        demand::estimate(&self.body)
    }

    async fn attempt(
        &mut self,
        round: &mut Round,
        to: &Candidate,
    ) -> Result<(Begun, Commit), Lost> {
        let (facade, fate) = (round.report.facade(), Fate::default());
        let work = pin!(self.exchange(round, &to.target, &fate));
        watched(facade, &to.target, &fate, work).await
    }
}

impl Plainly<'_> {
    async fn exchange(
        &mut self,
        round: &Round,
        target: &Target,
        fate: &Fate,
    ) -> Result<(Begun, Commit), Lost> {
        if target.is_tls() || target.provider().is_some() {
            // It became one while this request waited: never in plain text, and never past the
            // limits and proxies of providers.
            return Err(lost("the node takes requests over TLS only"));
        }
        let limits = round.limits();
        let answered = pin!(self.send(round, target, limits.response)).await?;
        let status = answered.head.status;
        if round.judge(target, status) == Verdict::Retry {
            return Err(Failure::Status(status).into());
        }
        let gate = Gate::for_response(answered.head.content_type(), limits.gate);
        let end = deadline(limits.response);
        let begun = pin!(content(answered, gate, self.timer, end)).await?;
        Ok((begun, claim(fate)?))
    }

    async fn send(&mut self, round: &Round, target: &Target, cap: Cap) -> Result<Answered, Lost> {
        let pool = &round.report.facade().context.sockets;
        let head = self.head(target, round.report.outgoing());
        loop {
            let (stream, reused) = match pool.take(&target.authority) {
                Some(stream) => (stream, true),
                None => {
                    let dialled = Box::pin(pool.dial(target)).await;
                    (dialled.map_err(|e| lost(&e.kind().to_string()))?, false)
                },
            };
            let mut exchange = Exchange::new(stream, head.clone(), self.body.clone());
            self.timer.set(deadline(cap));
            match self.timer.within(|cx| exchange.poll_head(cx)).await {
                Some(Ok(head)) => return Ok(exchange.answered(head)),
                // Closed while it was idle: nothing was delivered, so nothing was dispatched.
                Some(Err(failed)) if failed.undelivered && reused => {},
                Some(Err(_)) => return Err(lost("the connection broke before response headers")),
                None => return Err(Failure::NoHeaders.into()),
            }
        }
    }

    /// The head of one attempt.
    fn head(&self, target: &Target, trace: Option<Outgoing>) -> Bytes {
        let path = self.plain.target(&self.head);
        let room = self.plain.room(self.client) + target.prefix.len() + path.len() + 192;
        let mut head = BytesMut::with_capacity(room);
        head.put_slice(b"POST ");
        head.put_slice(target.prefix.as_bytes());
        head.put_slice(path);
        head.put_slice(b" HTTP/1.1\r\nHost: ");
        head.put_slice(target.host_header.as_bytes());
        head.put_slice(b"\r\n");
        let without = Without {
            authorization: target.bearer.is_some(),
            parents: trace.is_some(),
            states: trace.is_some_and(|t| !t.keeps_state),
        };
        self.plain
            .put_lines(&self.head, self.client, without, &mut head);
        if let Some(bearer) = &target.bearer {
            head.put_slice(b"Authorization: ");
            head.put_slice(bearer.as_bytes());
            head.put_slice(b"\r\n");
        }
        if let Some(trace) = trace {
            head.put_slice(b"traceparent: ");
            head.put_slice(&trace.parent);
            head.put_slice(b"\r\n");
        }
        head.put_slice(b"\r\n");
        head.freeze()
    }
}

/// Waits for the first content. Framing of an event stream is held; an end without bytes commits.
async fn content(
    mut answered: Answered,
    mut gate: Gate,
    timer: &mut LazyTimer,
    // Reckoned from the head, whatever framing comes meanwhile.
    end: Option<Instant>,
) -> Result<Begun, Lost> {
    let mut tracker = answered.head.body.clone();
    let mut seen = 0;
    loop {
        let mut commits = false;
        let used = tracker.feed(&answered.input[seen..], |data| {
            commits |= gate.push(data) == Content::Commit;
        });
        seen += used.map_err(|_| Failure::Broken)?;
        // What follows the answer is nobody's: such a connection is not used again.
        if seen < answered.input.len() {
            answered.input.truncate(seen);
            answered.head.keep_alive = false;
        }
        if commits || tracker.is_done() {
            return Ok(Begun {
                answered,
                tracker,
                ended: false,
            });
        }
        let Some(n) = read(&mut answered.stream, &mut answered.input, timer, end).await else {
            return Err(Failure::NoContent.into());
        };
        match n {
            Ok(0) if tracker.ends_with_close() => {
                return Ok(Begun {
                    answered,
                    tracker,
                    ended: true,
                });
            },
            Ok(n) if n > 0 => {},
            _ => return Err(Failure::Broken.into()),
        }
    }
}

fn lost(detail: &str) -> Lost {
    Lost {
        failure: Failure::Transport,
        detail: detail.to_owned(),
        headers: None,
    }
}

/// The moment at which a cap that begins now ends.
pub(super) fn deadline(cap: Cap) -> Option<Instant> {
    match cap {
        Cap::Off => None,
        Cap::After(cap) => Some(Instant::now() + cap),
    }
}

/// Reads until then; `None` = nothing came.
pub(super) async fn read(
    stream: &mut Stream,
    buf: &mut BytesMut,
    timer: &mut LazyTimer,
    until: Option<Instant>,
) -> Option<std::io::Result<usize>> {
    timer.set(until);
    timer
        .within(|cx| poll_read_into(stream, buf, READ, cx))
        .await
}
