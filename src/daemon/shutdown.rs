//! The end of a daemon: what stops it, and in which order its parts go.
//!
//! Owns: signals, the broker link's life, the order. Leaves to others: each part's own ending.
//!
//! Facades first, then the pool they share; terminal workload events go out before the link does.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::broker::link;
use crate::broker::outbox::Outbox;
use crate::broker::transport::{self, Parent, Transport};
use crate::control::socket::ControlServer;
use crate::demo::Fleet;
use crate::director::Started;
use crate::facade::Context;
use crate::state::command::Commands;
use crate::state::events::Events;
use crate::state::lifetime::Phase;
use crate::state::query::Queries;
use crate::store::journal::Journal;
use crate::telemetry::manager::Manager;

use super::{Driver, Opened, StartError, heartbeat, journal};

/// What is under way at a cut has this long to report its end.
const REPORT_TIME: Duration = Duration::from_millis(1500);

/// The parent has this long to read what is still queued.
const FLUSH_TIME: Duration = Duration::from_millis(1000);

/// After the drain, everything ends within this: the two above, the journal, and a slow machine.
const CUT_TIME: Duration = Duration::from_secs(15);

/// How a daemon ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// As it was told to.
    Orderly,
}

/// Asks the daemon to stop; clones ask the same daemon.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Notify>);

impl Stop {
    /// Stop now.
    pub fn now(&self) {
        // Kept if nobody waits yet.
        self.0.notify_one();
    }

    async fn asked(&self) {
        self.0.notified().await;
    }
}

/// The way to the broker, before it is served.
pub struct Link {
    transport: transport::Input,
    outbox: Outbox,
    parent: Parent,
}

impl Link {
    /// Opens the way the driver names, and joins it to the notices.
    pub async fn open(
        driver: &Driver,
        events: &Events,
        version: &str,
        stop: &Stop,
    ) -> Result<Self, StartError> {
        let parent = Parent::now();
        let Transport { input, output } = match driver {
            Driver::Ipc(endpoint) => {
                tracing::info!(transport = "socket", "broker link");
                transport::connect_ipc(endpoint).map_err(|e| StartError::Ipc(e.to_string()))?
            },
            _ => {
                tracing::info!(transport = "stdio", "broker link");
                let what = "cannot read standard input";
                transport::stdio().map_err(|source| StartError::System { what, source })?
            },
        };
        let stop = stop.clone();
        let outbox = Outbox::start(output, version, move |gone| {
            tracing::warn!(reason = %gone, "the parent reads no more; shutting down");
            stop.now();
        });
        let outbox = outbox.map_err(|source| StartError::System {
            what: "cannot start a thread",
            source,
        })?;
        events.join(vec![Box::new(outbox.clone())]);
        Ok(Self {
            transport: input,
            outbox,
            parent,
        })
    }

    /// Serves it; its end stops the daemon.
    pub fn start(self, commands: Commands, queries: Arc<dyn Queries>, stop: &Stop) -> Linked {
        let Self {
            transport,
            outbox,
            parent,
        } = self;
        let (out, ends) = (outbox.clone(), stop.clone());
        let task = tokio::spawn(async move {
            tokio::select! {
                end = link::run(transport, out, commands, queries) => {
                    tracing::info!(?end, "broker link ended");
                },
                () = parent.gone() => tracing::warn!("the parent is gone; shutting down"),
            }
            ends.now();
        });
        Linked { outbox, task }
    }
}

/// A link that is served.
pub struct Linked {
    outbox: Outbox,
    task: JoinHandle<()>,
}

/// What a running daemon consists of.
pub struct Parts {
    /// Shared by the facades.
    pub context: Arc<Context>,
    /// Carries commands out.
    pub executor: JoinHandle<()>,
    /// The control socket.
    pub server: Option<ControlServer>,
    /// The journal.
    pub journal: Option<Journal>,
    /// The broker's link.
    pub link: Option<Linked>,
    /// The director.
    pub director: Option<JoinHandle<()>>,
    /// Sample engines.
    pub fleet: Option<Fleet>,
    /// How long requests may go on after the stop.
    pub drain: Duration,
    /// Told when the end begins.
    pub manager: Manager,
}

impl Parts {
    /// The director serves: show it, and let the request path wake its probes.
    pub fn joined(
        &mut self,
        started: Started,
        begun: std::time::Instant,
        opened: impl FnOnce(Opened),
    ) {
        let Started {
            rows,
            warnings,
            probe_now,
            task,
        } = started;
        self.director = Some(task);
        let poke: crate::facade::OnFailure =
            Box::new(move |engine, node| probe_now.poke(engine, node));
        drop(self.context.on_failure.set(poke));
        let socket = self.context.shared.info.socket.as_ref().map(Into::into);
        opened(Opened {
            rows,
            warnings,
            socket,
            took: begun.elapsed(),
        });
    }

    /// Waits until somebody stops the daemon, then ends its parts in order.
    pub async fn until_stopped(mut self, stop: Stop, mut signals: Signals) -> Ended {
        tokio::select! {
            () = stop.asked() => {},
            name = signals.next() => tracing::info!(signal = name, "shutting down"),
        }
        let status = heartbeat::summary(&self.context, Phase::Draining);
        self.manager.stopping(&status, self.drain + CUT_TIME);
        if !self.drain.is_zero() {
            self.drain(&stop, &mut signals).await;
        }
        self.cut().await;
        Ended::Orderly
    }

    /// No new requests; those under way go on, until all are done, the time is over, or somebody
    /// asks again.
    async fn drain(&mut self, stop: &Stop, signals: &mut Signals) {
        self.close_facades();
        self.context.lifetime.advance(Phase::Draining);
        let under_way = self.in_flight();
        if under_way == 0 {
            return;
        }
        let limit = self.drain.as_secs();
        tracing::info!(
            requests = under_way,
            limit_s = limit,
            "waiting for requests; a second signal ends them"
        );
        tokio::select! {
            ended = timeout(self.drain, self.idle()) => {
                if ended.is_err() {
                    tracing::warn!(requests = self.in_flight(), "drain_timeout is over");
                }
            },
            () = stop.asked() => {},
            _ = signals.next() => tracing::warn!(requests = self.in_flight(), "second signal"),
        }
    }

    async fn cut(mut self) {
        self.context.lifetime.advance(Phase::Cut);
        self.close_facades();
        if let Some(task) = self.director.take() {
            task.abort();
        }
        // Requests report their end as they are dropped.
        drop(timeout(REPORT_TIME, self.idle()).await);
        if let Some(journal) = self.journal.take() {
            journal::end(&journal).await;
        }
        if let Some(server) = self.server.take() {
            server.stop().await;
        }
        self.context.upstreams.clear();
        self.context.sockets.clear();
        if let Some(link) = self.link.take() {
            link.task.abort();
            if !link.outbox.flush(Instant::now() + FLUSH_TIME).await {
                tracing::warn!("the parent did not read everything that was queued for it");
            }
            link.outbox.close();
        }
        drop(self.fleet.take());
    }

    /// The executor holds the listeners.
    fn close_facades(&self) {
        self.executor.abort();
    }

    fn in_flight(&self) -> u64 {
        self.context
            .shared
            .facades()
            .iter()
            .map(|f| f.in_flight())
            .sum()
    }

    /// Resolves when no request is under way.
    async fn idle(&self) {
        let mut pause = Duration::from_millis(2);
        while self.in_flight() > 0 {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }
}

/// SIGTERM and SIGINT.
pub struct Signals {
    terminate: Option<Signal>,
    interrupt: Option<Signal>,
}

impl Signals {
    /// Listens from now on.
    pub fn listen() -> Self {
        let listen = |kind| {
            let told: io::Result<Signal> = signal(kind);
            told.inspect_err(|e| tracing::warn!(reason = %e, "cannot listen for a signal"))
                .ok()
        };
        Self {
            terminate: listen(SignalKind::terminate()),
            interrupt: listen(SignalKind::interrupt()),
        }
    }

    async fn next(&mut self) -> &'static str {
        async fn of(signal: &mut Option<Signal>) {
            if let Some(signal) = signal
                && signal.recv().await.is_some()
            {
                return;
            }
            std::future::pending().await
        }
        tokio::select! {
            () = of(&mut self.terminate) => "SIGTERM",
            () = of(&mut self.interrupt) => "SIGINT",
        }
    }
}
