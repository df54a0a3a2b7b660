//! A committed answer on its way to the client.
//!
//! Owns: streaming it byte for byte, measuring it, giving its connection back at its end.
//! Leaves to others: everything before commit (`attempt`), the write deadline (`net::client_io`).
//!
//! A body that the engine breaks off is broken off for the client too, without a clean end, so that
//! no client takes a cut answer for a whole one.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

use crate::net::upstream::Connection;
use crate::rules::budget::Cap;
use crate::rules::candidates::Target;
use crate::rules::usage::Tap;
use crate::state::activity::EVERY;
use crate::state::events::Notice;

use super::Facade;
use super::report::{Cut, Report};

/// Body frames that were read before the commit. Nearly always one.
#[derive(Debug, Default)]
pub struct Held {
    first: Option<Frame<Bytes>>,
    more: VecDeque<Frame<Bytes>>,
}

impl Held {
    /// Keeps a frame behind the others.
    pub fn push(&mut self, frame: Frame<Bytes>) {
        if self.first.is_none() && self.more.is_empty() {
            self.first = Some(frame);
        } else {
            self.more.push_back(frame);
        }
    }

    fn pop(&mut self) -> Option<Frame<Bytes>> {
        self.first.take().or_else(|| self.more.pop_front())
    }

    fn is_empty(&self) -> bool {
        self.first.is_none() && self.more.is_empty()
    }

    fn frames(&self) -> impl Iterator<Item = &Frame<Bytes>> {
        self.first.iter().chain(&self.more)
    }

    fn len(&self) -> u64 {
        self.frames()
            .map(|f| f.data_ref().map_or(0, |d| d.len() as u64))
            .sum()
    }
}

/// Tells that a node is alive, from the bytes it delivers.
#[derive(Debug, Default)]
pub struct Liveness(Option<Instant>);

impl Liveness {
    /// Bytes of the node's answer go to the client.
    pub fn seen(&mut self, facade: &Facade, target: &Target) {
        let (context, node) = (&facade.context, &target.node);
        // A provider is nobody's machine.
        if !context.shared.events.heard() || target.provider().is_some() {
            return;
        }
        let now = Instant::now();
        if self.0.is_none_or(|at| now.duration_since(at) >= EVERY) {
            self.0 = Some(now);
            if context.activity.due(node, now) {
                context.shared.events.emit(&Notice::Activity(node.clone()));
            }
        }
    }
}

/// Why a relayed body broke off.
#[derive(Debug)]
pub enum Broken {
    /// The engine's connection failed or ended early.
    Upstream(hyper::Error),
    /// The engine was silent for longer than allowed.
    Silent,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut = match self {
            Self::Upstream(_) => Cut::Aborted,
            Self::Silent => Cut::Silent,
        };
        f.write_str(cut.text())
    }
}

impl std::error::Error for Broken {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Upstream(e) => Some(e),
            Self::Silent => None,
        }
    }
}

/// The silence a committed stream is allowed.
struct Silence {
    allowed: Duration,
    timer: Pin<Box<Sleep>>,
}

/// The body of a committed answer.
pub struct Relay {
    held: Held,
    body: Incoming,
    /// The engine's body was read to its end.
    ended: bool,
    connection: Option<Connection>,
    target: Arc<Target>,
    tap: Option<Box<Tap>>,
    silence: Option<Silence>,
    alive: Liveness,
    report: Report,
}

impl Relay {
    /// Streams `held`, then the rest of `body`. All that is done with what is held but writing it is
    /// done here: a fault in it can still be answered.
    pub fn new(
        held: Held,
        body: Incoming,
        connection: Connection,
        target: Arc<Target>,
        tap: Option<Tap>,
        report: Report,
    ) -> Self {
        let silence = match report.settings().stream_idle_cap {
            Cap::Off => None,
            Cap::After(allowed) => Some(Silence {
                allowed,
                timer: Box::pin(tokio::time::sleep(allowed)),
            }),
        };
        let mut new = Self {
            held: Held::default(),
            body,
            ended: false,
            connection: Some(connection),
            target,
            tap: tap.map(Box::new),
            silence,
            alive: Liveness::default(),
            report,
        };
        let mut ended = new.body.is_end_stream();
        for frame in held.frames() {
            new.passing(frame);
            ended |= frame.is_trailers();
        }
        new.held = held;
        if ended {
            new.upstream_ended();
        }
        new
    }

    /// The engine's part is over: its connection can serve others while ours is still writing.
    fn upstream_ended(&mut self) {
        self.ended = true;
        if let Some(connection) = self.connection.take() {
            let upstreams = &self.report.facade().context.upstreams;
            upstreams.give_back(&(&*self.target).into(), connection);
        }
        if self.held.is_empty() {
            self.report.relayed();
        }
    }

    /// A frame goes to the client.
    fn passing(&mut self, frame: &Frame<Bytes>) {
        let Some(data) = frame.data_ref().filter(|d| !d.is_empty()) else {
            return;
        };
        if let Some(tap) = &mut self.tap {
            tap.push(data, self.report.arrived().elapsed().as_micros() as u64);
        }
        self.alive.seen(self.report.facade(), &self.target);
    }

    fn poll_held(&mut self) -> Option<Frame<Bytes>> {
        let frame = self.held.pop()?;
        if self.ended && self.held.is_empty() {
            self.report.relayed();
        }
        Some(frame)
    }

    /// Whether the engine was silent for longer than allowed.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> bool {
        self.silence
            .as_mut()
            .is_some_and(|s| s.timer.as_mut().poll(cx).is_ready())
    }
}

impl Body for Relay {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if let Some(frame) = self.poll_held() {
            return Poll::Ready(Some(Ok(frame)));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.passing(&frame);
                if let Some(s) = &mut self.silence {
                    s.timer.as_mut().reset(Instant::now() + s.allowed);
                }
                // Behind trailers nobody asks for more.
                if frame.is_trailers() || self.body.is_end_stream() {
                    self.upstream_ended();
                }
                Poll::Ready(Some(Ok(frame)))
            },
            Poll::Ready(Some(Err(e))) => {
                self.report.truncated(Cut::Aborted);
                Poll::Ready(Some(Err(Broken::Upstream(e))))
            },
            Poll::Ready(None) => {
                self.upstream_ended();
                Poll::Ready(None)
            },
            Poll::Pending if self.poll_silence(cx) => {
                self.report.truncated(Cut::Silent);
                Poll::Ready(Some(Err(Broken::Silent)))
            },
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_empty() && (self.ended || self.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match self.body.size_hint().exact() {
            Some(n) => SizeHint::with_exact(self.held.len() + n),
            None => SizeHint::default(),
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Some(tap) = &self.tap {
            self.report.measured(tap.finish(0));
        }
    }
}
