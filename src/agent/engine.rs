//! The engine beside the agent: looked at again and again.
//!
//! Owns: when it is asked, when it counts as down. Leaves to others: one probe (`net::probe`), what is
//! advertised of it (`rules::worker`), telling the gateway (`super`).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use http::StatusCode;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::gpu;
use crate::net::fetch::Limits;
use crate::net::probe::{self, OpenServer, Target};
use crate::rules::engine::EngineId;
use crate::rules::inventory::{Miss, Reading};
use crate::rules::pool::endpoint::Endpoint;
use crate::rules::pool::record::{ModelEntry, PoolEngine};
use crate::rules::worker::advertise;
use crate::rules::worker::figures::{self, Figures};
use crate::rules::worker::gpu::Gpus;

/// Bounds of one look.
const LOOK: Limits = Limits {
    connect: Duration::from_secs(1),
    whole: Duration::from_secs(3),
    body: 8 << 20,
};

/// After one miss it is looked again so soon; it is down at the second, since a busy engine may miss
/// one.
const AGAIN: Duration = Duration::from_secs(1);

/// What is known of the engine and its machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Seen {
    /// What it serves; empty while it is down.
    pub(super) models: Vec<ModelEntry>,
    /// Requests it runs side by side, where it tells.
    pub(super) slots: Option<u32>,
    /// How busy it is, where it tells.
    pub(super) figures: Figures,
    /// The machine's GPUs, where they can be read.
    pub(super) gpus: Option<Gpus>,
}

/// Whom to look at, and how.
pub(super) struct Watched {
    kind: PoolEngine,
    known: Option<EngineId>,
    server: OpenServer,
}

impl Watched {
    pub(super) fn new(kind: PoolEngine, origin: &Endpoint) -> Self {
        Self {
            kind,
            known: kind.facade(),
            server: OpenServer {
                host: origin.host.clone(),
                port: origin.port,
                prefix: origin.prefix.clone(),
            },
        }
    }

    async fn look(&self) -> Result<Reading, Miss> {
        let s = &self.server;
        let Some(engine) = self.known else {
            let mut reading = s.ask(LOOK).await?;
            // These two load what they serve before they serve it; others may load on demand.
            if matches!(self.kind, PoolEngine::Vllm | PoolEngine::Tgi) {
                reading.warm = reading.models.clone();
            }
            return Ok(reading);
        };
        let target = Target {
            engine,
            host: s.host.clone(),
            port: s.port,
            prefix: s.prefix.clone(),
            api_key: None,
            models_known: false,
        };
        probe::ask(&target, LOOK).await
    }

    async fn figures(&self) -> Figures {
        let Some(source) = figures::source(self.kind) else {
            return Figures::default();
        };
        if let Some(body) = self.body(source.metrics).await {
            let told = figures::metrics(&String::from_utf8_lossy(&body), &source);
            if told.active.is_some() {
                return told;
            }
        }
        let slots = match source.slots {
            Some(path) => self.body(path).await,
            None => None,
        };
        Figures {
            active: slots.and_then(|body| figures::slots(&body)),
            queued: None,
        }
    }

    async fn body(&self, path: &str) -> Option<bytes::Bytes> {
        let answer = self.server.get(path, LOOK).await.ok()?;
        (answer.status == StatusCode::OK).then_some(answer.body)
    }
}

/// Tasks that look, until this is dropped.
pub(super) struct Watcher {
    pub(super) seen: watch::Receiver<Seen>,
    /// Time between two looks, in ms.
    interval: Arc<AtomicU64>,
    tasks: [JoinHandle<()>; 2],
}

impl Drop for Watcher {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Watcher {
    /// Begins to look; the first look is over.
    pub(super) async fn start(watched: Watched) -> Self {
        let interval = Arc::new(AtomicU64::new(5_000));
        let (out, seen) = watch::channel(Seen::default());
        let out = Arc::new(out);
        let mut eye = Eye {
            watched,
            out: out.clone(),
            up: false,
            missed: false,
            left_out: 0,
        };
        let gpus = async {
            let gpus = gpu::look().await;
            out.send_modify(|seen| seen.gpus = gpus);
        };
        tokio::join!(eye.look(), gpus);
        let engine = tokio::spawn(again(interval.clone(), eye));
        let gpus = tokio::spawn(again_gpus(interval.clone(), out));
        Self {
            seen,
            interval,
            tasks: [engine, gpus],
        }
    }

    /// From now on looks so often.
    pub(super) fn every(&self, ms: u64) {
        self.interval.store(ms, Ordering::Relaxed);
    }
}

struct Eye {
    watched: Watched,
    out: Arc<watch::Sender<Seen>>,
    up: bool,
    missed: bool,
    /// Models that were not advertised, so that it is told once.
    left_out: usize,
}

impl Eye {
    async fn look(&mut self) {
        match self.watched.look().await {
            Ok(reading) => {
                let (models, left_out) = advertise::models(&reading);
                if left_out != self.left_out && left_out > 0 {
                    tracing::warn!(
                        left_out,
                        "the engine lists models that no registry takes: names that are too long, \
                         or more than 1000"
                    );
                }
                self.left_out = left_out;
                if !self.up {
                    tracing::info!(models = models.len(), "the engine answers");
                }
                (self.up, self.missed) = (true, false);
                let figures = self.watched.figures().await;
                self.out.send_modify(|seen| {
                    seen.models = models;
                    // A look that does not tell leaves what was known.
                    seen.slots = reading.slots.or(seen.slots);
                    seen.figures = figures;
                });
            },
            Err(miss) => {
                let down = self.missed || !self.up || miss == Miss::Facade;
                let reason = match miss {
                    Miss::Silent(reason) => reason,
                    Miss::Facade => {
                        "it is a facade of a proxy, not an engine; --engine-url has to \
                                     name the engine itself"
                            .to_owned()
                    },
                };
                if down && (self.up || !self.missed) {
                    tracing::warn!(reason, "the engine is down: no models are advertised");
                }
                self.missed = true;
                if down {
                    self.up = false;
                    self.out.send_modify(|seen| {
                        seen.models.clear();
                        seen.figures = Figures::default();
                    });
                }
            },
        }
    }

    /// Whether the next look decides.
    fn in_doubt(&self) -> bool {
        self.up && self.missed
    }
}

async fn again(interval: Arc<AtomicU64>, mut eye: Eye) {
    loop {
        let pause = Duration::from_millis(interval.load(Ordering::Relaxed));
        let pause = match eye.in_doubt() {
            true => pause.min(AGAIN),
            false => pause,
        };
        tokio::time::sleep(pause).await;
        // What cannot be looked at is not advertised, whatever the reason.
        if AssertUnwindSafe(eye.look()).catch_unwind().await.is_err() {
            eye.up = false;
            eye.out.send_modify(|seen| seen.models.clear());
        }
    }
}

async fn again_gpus(interval: Arc<AtomicU64>, out: Arc<watch::Sender<Seen>>) {
    loop {
        tokio::time::sleep(Duration::from_millis(interval.load(Ordering::Relaxed))).await;
        let gpus = gpu::look().await;
        out.send_if_modified(|seen| {
            let is_new = seen.gpus != gpus;
            seen.gpus = gpus;
            is_new
        });
    }
}
