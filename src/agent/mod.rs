//! Layer 6: the agent of a pool node (product section 7). It runs beside an engine and speaks for it
//! to a gateway's registry.
//!
//! Owns: the loop that does what [`course`] says, signals, what is logged. Leaves to others: when what
//! is due (`rules::worker::course`), the engine (`engine`), the calls (`registry`), the optional door in
//! front of the engine (`proxy`).
//!
//! No clock but the monotonic one is read, and no time is sent: the registry goes by its own.
//!
//! [`course`]: crate::rules::worker::course

mod engine;
mod gpu;
mod proxy;
mod registry;
mod signals;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::rules::pool::endpoint::Endpoint;
use crate::rules::pool::record::{ModelEntry, PoolEngine};
use crate::rules::secret::Secret;
use crate::rules::worker::course::{Course, Cut, Heard, Pace, Step};
use crate::wire::pool::{
    Beaten, HEARTBEAT, HeartbeatParams, PoolHardware, PoolModel, REGISTER, RegisterParams,
    Registered, UNREGISTER, UnregisterParams, Unregistered,
};
use engine::{Seen, Watched, Watcher};
use proxy::{Active, Proxy};
pub use registry::RegistryAddress;
use registry::{CallError, Client};
use signals::Signals;

/// How an agent is started.
pub struct Options {
    /// Where the registry is.
    pub registry: RegistryAddress,
    /// The node key.
    pub key: Secret,
    /// The node it speaks for.
    pub node: String,
    /// What serves here.
    pub engine: PoolEngine,
    /// Where the agent reaches it; in the clear.
    pub engine_url: Endpoint,
    /// Where gateways reach it, as it is registered.
    pub endpoint: String,
    /// Requests it runs side by side; `None` = what the engine tells, else 1.
    pub max_concurrency: Option<u32>,
    /// Its share of the traffic, 1 to 1000; `None` = its concurrency.
    pub base_weight: Option<u32>,
    /// Where requests are taken for the engine and counted; `None` = nowhere.
    pub listen: Option<SocketAddr>,
    /// How often the gateways look who drains; `None` = as they tell.
    pub sweep: Option<Duration>,
    /// A drain takes no longer.
    pub drain: Duration,
    /// Version of the binary.
    pub version: String,
}

/// Why an agent ended that nobody stopped.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The key cannot stand in a header.
    #[error("the node key has signs that no key has")]
    BadKey,
    /// `listen` cannot be had.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// Which.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The registry does not want this node.
    #[error("the registry at {registry} refused: {text}")]
    Refused {
        /// Which.
        registry: String,
        /// In its own words.
        text: String,
    },
    /// Who answers is not the registry that is meant.
    #[error("the registry at {registry} cannot be trusted: {text}")]
    Distrust {
        /// Which.
        registry: String,
        /// Why.
        text: String,
    },
}

/// Runs an agent until a signal ends it, or the registry refuses it for good. Inside a runtime.
///
/// # Errors
/// It could not start, or was refused. Requests under way through it had their time.
pub async fn run(options: Options) -> Result<(), Failure> {
    // From here on a signal ends it orderly, also while it still starts.
    let mut signals = Signals::listen();
    let proxy = match options.listen {
        Some(address) => {
            let proxy = Proxy::open(address, &options.engine_url)
                .map_err(|source| Failure::Bind { address, source })?;
            tracing::info!(address = %proxy.address, "requests for the engine are taken and counted");
            Some(proxy)
        },
        None => None,
    };
    let client = Client::new(options.registry.clone(), &options.key).ok_or(Failure::BadKey)?;
    let watched = Watched::new(options.engine, &options.engine_url);
    let watcher = tokio::select! {
        watcher = Watcher::start(watched) => watcher,
        name = signals.next() => {
            tracing::info!(signal = name, "ending; it had not registered");
            return Ok(());
        },
    };
    let active = proxy
        .as_ref()
        .map_or_else(Active::none, |p| p.active.clone());
    let agent = Agent {
        course: Course::new(options.sweep.map(ms), ms(options.drain)),
        begun: Instant::now(),
        changes: active.changes(),
        active,
        client,
        watcher,
        told: Told::default(),
        options,
    };
    agent.run(&mut signals).await
}

/// What was logged or sent last, so that only changes are.
#[derive(Default)]
struct Told {
    models: Vec<ModelEntry>,
    slots: u32,
    state: String,
    drain: bool,
    rejected: Vec<String>,
    silent: bool,
    rival: bool,
}

struct Agent {
    options: Options,
    client: Client,
    watcher: Watcher,
    active: Active,
    changes: watch::Receiver<u64>,
    course: Course,
    begun: Instant,
    told: Told,
}

/// Why the loop goes on no more.
enum Stop {
    /// A second signal.
    Now,
    /// The registry's word, for good.
    Failed(Failure),
}

impl Agent {
    async fn run(mut self, signals: &mut Signals) -> Result<(), Failure> {
        let mut draining = false;
        loop {
            let step = self.course.step(self.now(), self.active.count());
            let stop = match step {
                Step::Wait(until) => self
                    .wait(until, draining, signals)
                    .await
                    .map_or(Ok(()), |()| self.signalled(&mut draining)),
                Step::Leave { session, cut } => {
                    self.leave(session, cut).await;
                    return Ok(());
                },
                Step::End(cut) => {
                    ended(cut);
                    return Ok(());
                },
                call => self.call(call, &mut draining, signals).await,
            };
            match stop {
                Ok(()) => {},
                Err(Stop::Now) => {
                    tracing::warn!(
                        requests = self.active.count(),
                        "second signal: ended at once, without unregistering"
                    );
                    return Ok(());
                },
                Err(Stop::Failed(failure)) => {
                    self.finish_own(signals).await;
                    return Err(failure);
                },
            }
        }
    }

    /// Waits for the time or for something that may change the step; `Some` = a signal came.
    async fn wait(&mut self, until: u64, draining: bool, signals: &mut Signals) -> Option<()> {
        let until = self.begun + Duration::from_millis(until);
        tokio::select! {
            () = sleep_until(until) => {},
            _ = signals.next() => return Some(()),
            // Only a drain waits for requests.
            Ok(()) = self.changes.changed(), if draining => {},
            Ok(()) = self.watcher.seen.changed() => self.look(),
        }
        None
    }

    /// The engine was looked at: is it worth a call?
    fn look(&mut self) {
        let now = self.now();
        let seen = self.watcher.seen.borrow_and_update().clone();
        let models = seen.models != self.told.models;
        let slots = self.slots(&seen);
        if slots != self.told.slots && self.course.is_registered() {
            tracing::info!(
                slots,
                "the engine's number of slots changed; registering anew"
            );
            self.course.forget_session(now);
        } else if models {
            self.course.hurry(now);
        }
    }

    fn signalled(&mut self, draining: &mut bool) -> Result<(), Stop> {
        if *draining {
            return Err(Stop::Now);
        }
        *draining = true;
        tracing::info!(
            limit_s = self.options.drain.as_secs(),
            "draining: the gateways are told, and requests under way go on; a second signal ends them"
        );
        self.course.drain(self.now());
        Ok(())
    }

    /// Makes a call, and takes in what it came to.
    async fn call(
        &mut self,
        step: Step,
        draining: &mut bool,
        signals: &mut Signals,
    ) -> Result<(), Stop> {
        let sent = self.now();
        let seen = self.watcher.seen.borrow_and_update().clone();
        self.told.models.clone_from(&seen.models);
        let told_drain = matches!(step, Step::Beat { draining: true, .. });
        let registers = step == Step::Register;
        let answer = {
            let call = async {
                match &step {
                    Step::Beat {
                        session,
                        seq,
                        draining,
                    } => {
                        let params = self.beat(&seen, session, *seq, *draining);
                        let beaten = self.client.call(HEARTBEAT, &params).await;
                        beaten.map(Answer::Beaten)
                    },
                    _ => {
                        let registered = self.client.call(REGISTER, &self.register(&seen)).await;
                        registered.map(Answer::Registered)
                    },
                }
            };
            tokio::pin!(call);
            loop {
                tokio::select! {
                    answer = &mut call => break answer,
                    name = signals.next() => match *draining {
                        true => return Err(Stop::Now),
                        false => {
                            tracing::info!(signal = name, "draining after this call; a second signal ends at once");
                            *draining = true;
                        },
                    },
                }
            }
        };
        if registers {
            self.told.slots = self.slots(&seen);
        }
        let heard = self.understand(answer)?;
        let now = self.now();
        self.course.hear(sent, now, told_drain, heard, jitter());
        if *draining {
            self.course.drain(now);
        }
        self.watcher.every(self.course.beat_ms());
        self.tell_rival();
        Ok(())
    }

    /// Logs what is new in an answer and says what it means for the course.
    fn understand(&mut self, answer: Result<Answer, CallError>) -> Result<Heard, Stop> {
        let registry = self.client.shown();
        let first = !self.course.is_registered();
        let error = match answer {
            Ok(answer) => {
                if std::mem::take(&mut self.told.silent) {
                    tracing::info!(registry, "the registry answers again");
                }
                return Ok(match answer {
                    Answer::Registered(registered) => self.registered(registered),
                    Answer::Beaten(beaten) => self.beaten(&beaten),
                });
            },
            Err(error) => error,
        };
        match error {
            CallError::Refused(text) => Err(Stop::Failed(Failure::Refused { registry, text })),
            // Nobody has trusted this one yet; later it may be a certificate that is being replaced.
            CallError::Distrust(text) if first && self.told.state.is_empty() => {
                Err(Stop::Failed(Failure::Distrust { registry, text }))
            },
            CallError::Distrust(reason) | CallError::Silent(reason) => {
                if !std::mem::replace(&mut self.told.silent, true) {
                    tracing::warn!(
                        registry,
                        reason,
                        "the registry cannot be used; asked again until it can"
                    );
                }
                Ok(Heard::Failed)
            },
            CallError::TooMany(wait_ms, reason) => {
                tracing::warn!(registry, reason, "the registry wants fewer calls");
                Ok(Heard::NotBefore(wait_ms))
            },
            // The next one has a higher number, and comes soon: if this one was taken and its answer
            // lost, what stood in it is still to be heard.
            CallError::Stale => Ok(Heard::Failed),
        }
    }

    fn registered(&mut self, registered: Registered) -> Heard {
        tracing::info!(
            node = self.options.node,
            registry = self.client.shown(),
            models = self.told.models.len(),
            "registered"
        );
        if self.told.state.is_empty() {
            // Whoever trusted it once goes on asking.
            "registered".clone_into(&mut self.told.state);
        }
        self.tell_rejected(registered.rejected_models);
        Heard::Registered {
            session: registered.session,
            pace: pace(
                registered.heartbeat_interval_seconds,
                registered.ttl_seconds,
                registered.sweep_interval_seconds,
            ),
        }
    }

    fn beaten(&mut self, beaten: &Beaten) -> Heard {
        if beaten.reregister {
            tracing::info!("the registry does not know this session any more");
            return Heard::Reregister;
        }
        if self.told.state != beaten.state {
            // It is the gateway's word: kept short, and on one line.
            let state: String = beaten
                .state
                .chars()
                .filter(|c| !c.is_control())
                .take(40)
                .collect();
            tracing::info!(state, "the gateway's view of this node");
            self.told.state.clone_from(&beaten.state);
        }
        if self.told.drain != beaten.drain {
            match beaten.drain {
                true => tracing::info!("an administrator drains this node: no new requests come"),
                false => tracing::info!("an administrator resumed this node"),
            }
            self.told.drain = beaten.drain;
        }
        self.tell_rejected(beaten.rejected_models.clone());
        Heard::Taken {
            pace: pace(
                beaten.heartbeat_interval_seconds,
                beaten.ttl_seconds,
                beaten.sweep_interval_seconds,
            ),
            leased: beaten.active_proxy_requests,
        }
    }

    fn tell_rejected(&mut self, rejected: Vec<String>) {
        if rejected != self.told.rejected {
            if !rejected.is_empty() {
                tracing::warn!(models = ?rejected, "the key does not allow these models");
            }
            self.told.rejected = rejected;
        }
    }

    fn tell_rival(&mut self) {
        let rival = self.course.short_sessions() > 1;
        if rival && !self.told.rival {
            tracing::warn!(
                node = self.options.node,
                "sessions do not last: is there another agent with this node id?"
            );
        }
        self.told.rival = rival;
    }

    async fn leave(&self, session: String, cut: Cut) {
        let params = UnregisterParams {
            node_id: self.options.node.clone(),
            session,
        };
        let left: Result<Unregistered, _> = self.client.call(UNREGISTER, &params).await;
        match left {
            Ok(_) => tracing::info!("unregistered"),
            Err(e) => {
                tracing::warn!(reason = ?e, "could not unregister; its beats end, which says the same")
            },
        }
        ended(cut);
    }

    /// The registry wants nothing of us any more; who is being served has not heard of that.
    async fn finish_own(&mut self, signals: &mut Signals) {
        let limit = Instant::now() + self.options.drain;
        while self.active.count() > 0 {
            tokio::select! {
                () = sleep_until(limit) => return,
                _ = signals.next() => return,
                _ = self.changes.changed() => {},
            }
        }
    }

    fn now(&self) -> u64 {
        ms(self.begun.elapsed())
    }

    fn slots(&self, seen: &Seen) -> u32 {
        self.options.max_concurrency.or(seen.slots).unwrap_or(1)
    }

    fn register(&self, seen: &Seen) -> RegisterParams {
        let o = &self.options;
        RegisterParams {
            node_id: o.node.clone(),
            endpoint: o.endpoint.clone(),
            engine: o.engine.as_str().to_owned(),
            models: models(&seen.models),
            max_concurrency: self.slots(seen),
            base_weight: o.base_weight,
            hardware: seen.gpus.as_ref().map(|g| PoolHardware {
                gpu_name: g.name.clone(),
                gpu_count: Some(g.count),
                vram_total_bytes: g.total_bytes,
            }),
            agent_version: o.version.clone(),
        }
    }

    fn beat(&self, seen: &Seen, session: &str, seq: u64, draining: bool) -> HeartbeatParams {
        let gpus = seen.gpus.as_ref();
        HeartbeatParams {
            node_id: self.options.node.clone(),
            session: session.to_owned(),
            seq,
            draining,
            // Whoever asks the engine past this process is in its own figure only.
            active_requests: self.active.count().max(seen.figures.active.unwrap_or(0)),
            queue_depth: seen.figures.queued.unwrap_or(0),
            free_vram_bytes: gpus.and_then(|g| g.free_bytes),
            gpu_temperature_c: gpus.and_then(|g| g.temperature_c),
            gpu_utilization_percent: gpus.and_then(|g| g.utilization_percent),
            models: models(&seen.models),
        }
    }
}

enum Answer {
    Registered(Registered),
    Beaten(Beaten),
}

fn ended(cut: Cut) {
    if cut.is_nothing() {
        tracing::info!("left; no request was cut");
        return;
    }
    match cut.leased {
        Some(leased) => tracing::warn!(
            gateway_requests = leased,
            own_requests = cut.own,
            "left while requests were under way"
        ),
        None => tracing::warn!(
            own_requests = cut.own,
            "left without a registry: whether gateways had requests here is not known"
        ),
    }
}

fn models(entries: &[ModelEntry]) -> Vec<PoolModel> {
    let model = |m: &ModelEntry| PoolModel {
        id: m.id.clone(),
        context_length: m.context_length,
        is_warm: m.is_warm,
    };
    entries.iter().map(model).collect()
}

/// The gateway's rhythm, which it tells in seconds.
fn pace(beat: u64, ttl: u64, sweep: Option<u64>) -> Pace {
    let ms = |seconds: u64| seconds.saturating_mul(1_000);
    Pace {
        beat_ms: ms(beat),
        ttl_ms: ms(ttl),
        sweep_ms: sweep.map(ms),
    }
}

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Between 0 and 1: the standard library's hasher is keyed from the system's random source.
fn jitter() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    (RandomState::new().hash_one(0u8) >> 11) as f64 / (1u64 << 53) as f64
}
