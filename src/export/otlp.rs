//! Sends spans and readings to an OTLP collector over HTTP.
//!
//! Owns: batches, tries again, what is lost and what is said of it. Leaves to others: the queue
//! (`telemetry::spans`), the documents (`encode`), one POST (`net::fetch`), settings (`daemon`).
//!
//! Two tasks, so that a collector that is slow with the one does not hold up the other. Each holds one
//! connection and one document at most; whatever comes meanwhile waits in the queue, or is lost and counted. A batch of
//! spans is tried a few times and then lost; a reading only once, since the next one holds all of it.
//! Redirects are not followed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::encode;
use super::gauges::Sources;
use crate::net::client_tls::ClientTls;
use crate::net::fetch::{Kept, Limits};
use crate::rules::addresses::authority;
use crate::rules::worker::backoff;
use crate::telemetry::spans::Span;
use crate::wall_clock;

pub use super::encode::{Form, Speaker};

/// Spans of one POST.
pub const BATCH: usize = 512;

/// After the first span of a batch the others have this long to come.
const GATHER: Duration = Duration::from_secs(1);

/// A batch is tried this often.
const TRIES: u32 = 4;

/// Tries are no further apart, in ms, also where the collector asks for more.
const LONGEST_WAIT: u64 = 30_000;

/// Bounds of one POST.
const LIMITS: Limits = Limits {
    connect: Duration::from_secs(2),
    whole: Duration::from_secs(10),
    body: 64 * 1024,
};

/// Where to send, and what.
#[derive(Clone)]
pub struct Plan {
    /// Name or address, IPv6 without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Whom to trust; `None` = plain HTTP.
    pub tls: Option<ClientTls>,
    /// Path in front of `/v1/traces` and `/v1/metrics`, without trailing slash.
    pub path: String,
    /// Form of the documents.
    pub form: Form,
    /// Headers of every POST.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Whether spans are sent.
    pub traces: bool,
    /// Time between two readings, if any is sent.
    pub metrics: Option<Duration>,
    /// Who speaks.
    pub speaker: Speaker,
}

/// A plan as it is handed on; `None` = nothing is sent.
pub type Planned = Option<Arc<Plan>>;

/// What became of the spans so far, and of the last POST.
#[derive(Debug, Default)]
pub struct Standing {
    sent: AtomicU64,
    /// One a signal: a collector may take the one and not the other.
    problems: [Mutex<Option<String>>; 2],
}

impl Standing {
    /// Spans that the collector took.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Why the last POST of spans or of readings failed, if one did.
    pub fn problem(&self) -> Option<String> {
        let held =
            |p: &Mutex<Option<String>>| p.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.problems.iter().find_map(held)
    }

    fn set(&self, signal: Signal, problem: Option<String>) -> Option<String> {
        let held = &self.problems[signal as usize];
        std::mem::replace(
            &mut *held.lock().unwrap_or_else(PoisonError::into_inner),
            problem,
        )
    }
}

/// The running export; dropped, it ends at once.
pub struct Exporting {
    tasks: Vec<JoinHandle<()>>,
    closing: watch::Sender<bool>,
    /// What became of it.
    pub standing: Arc<Standing>,
}

impl Exporting {
    /// Sends what comes, as the plan of the moment has it. Inside a runtime. `jitter` gives numbers
    /// from 0 to 1.
    pub fn start(
        plan: &watch::Receiver<Planned>,
        spans: mpsc::Receiver<Span>,
        sources: Arc<Sources>,
        jitter: impl Fn() -> f64 + Send + Sync + 'static,
    ) -> Self {
        let (closing, closed) = watch::channel(false);
        let standing = Arc::<Standing>::default();
        let post = |plan: &watch::Receiver<Planned>| Post {
            plan: plan.clone(),
            closing: closed.clone(),
            standing: standing.clone(),
            sources: sources.clone(),
            way: Mutex::new(None),
        };
        let traces = Traces {
            post: post(plan),
            spans,
            jitter: Box::new(jitter),
            batch: Vec::new(),
        };
        let readings = Readings {
            post: post(plan),
            since_ns: wall_clock::unix_ns(),
        };
        Self {
            tasks: vec![tokio::spawn(traces.run()), tokio::spawn(readings.run())],
            closing,
            standing,
        }
    }

    /// Sends what is queued and a last reading, each once, within the limit.
    pub async fn end(mut self, limit: Duration) {
        // Nobody listens where the tasks have ended already.
        let _ = self.closing.send(true);
        let all = async {
            for task in &mut self.tasks {
                // A task that panicked has nothing more to send.
                drop(task.await);
            }
        };
        if timeout(limit, all).await.is_err() {
            tracing::warn!("the telemetry collector did not take the last spans in time");
        }
    }
}

impl Drop for Exporting {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// What is sent.
#[derive(Clone, Copy, Debug)]
enum Signal {
    Traces,
    Metrics,
}

impl Signal {
    const fn path(self) -> &'static str {
        match self {
            Self::Traces => "/v1/traces",
            Self::Metrics => "/v1/metrics",
        }
    }
}

/// What both tasks send with.
struct Post {
    plan: watch::Receiver<Planned>,
    closing: watch::Receiver<bool>,
    standing: Arc<Standing>,
    sources: Arc<Sources>,
    /// The way to the collector of this plan.
    way: Mutex<Option<(Arc<Plan>, Arc<Kept>)>>,
}

/// What the collector made of a document.
enum Said {
    Taken(Bytes),
    /// It will not take this one.
    No(String),
    /// It may, later; not before this time, if it said so.
    NotNow(String, Option<Duration>),
}

impl Post {
    fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    async fn send(&self, plan: &Arc<Plan>, signal: Signal, document: Bytes) -> Said {
        let said = self.try_send(plan, signal, document).await;
        let problem = match &said {
            Said::Taken(_) => None,
            Said::No(why) | Said::NotNow(why, _) => Some(why.clone()),
        };
        let collector = authority(&plan.host, plan.port);
        match (self.standing.set(signal, problem.clone()), problem) {
            (None, Some(reason)) => tracing::warn!(
                collector,
                reason,
                "the telemetry collector takes nothing; `status` counts what is lost"
            ),
            (Some(_), None) => {
                tracing::info!(collector, "the telemetry collector takes data again")
            },
            _ => {},
        }
        said
    }

    /// As long as a plan holds, what is sent goes over one connection.
    fn way(&self, plan: &Arc<Plan>) -> Arc<Kept> {
        let mut held = self.way.lock().unwrap_or_else(PoisonError::into_inner);
        match &*held {
            Some((of, way)) if Arc::ptr_eq(of, plan) => way.clone(),
            _ => {
                let way = Kept::new(&plan.host, plan.port, plan.tls.clone(), LIMITS);
                let way = Arc::new(way);
                *held = Some((plan.clone(), way.clone()));
                way
            },
        }
    }

    async fn try_send(&self, plan: &Arc<Plan>, signal: Signal, document: Bytes) -> Said {
        let mut headers = plan.headers.clone();
        let kind = HeaderValue::from_static(plan.form.content_type());
        headers.push((CONTENT_TYPE, kind));
        let path = format!("{}{}", plan.path, signal.path());
        let way = self.way(plan);
        let answer = way.post(&path, &headers, document);
        match answer.await {
            Ok(answer) if answer.status.is_success() => Said::Taken(answer.body),
            Ok(answer) => {
                let why = format!("HTTP {}", answer.status.as_u16());
                match answer.status.as_u16() {
                    408 | 429 | 502..=504 => {
                        let after = answer.headers.get(RETRY_AFTER);
                        let after = after.and_then(|v| v.to_str().ok()?.trim().parse().ok());
                        Said::NotNow(why, after.map(Duration::from_secs))
                    },
                    _ => Said::No(why),
                }
            },
            Err(e) => Said::NotNow(e.to_string(), None),
        }
    }
}

struct Traces {
    post: Post,
    spans: mpsc::Receiver<Span>,
    jitter: Box<dyn Fn() -> f64 + Send + Sync>,
    batch: Vec<Span>,
}

impl Traces {
    async fn run(mut self) {
        self.batch.reserve_exact(BATCH);
        loop {
            self.batch.clear();
            if self.post.is_closing() {
                self.take_waiting();
                if self.batch.is_empty() {
                    return;
                }
            } else {
                let n = tokio::select! {
                    n = self.spans.recv_many(&mut self.batch, BATCH) => n,
                    _ = self.post.closing.changed() => continue,
                };
                if n == 0 {
                    return;
                }
                self.gather().await;
            }
            let lost = self.deliver().await;
            self.post.sources.telemetry.spans.drop_some(lost);
        }
    }

    async fn gather(&mut self) {
        if self.batch.len() < BATCH {
            tokio::select! {
                () = sleep(GATHER) => {},
                _ = self.post.closing.changed() => {},
            }
        }
        self.take_waiting();
    }

    fn take_waiting(&mut self) {
        while self.batch.len() < BATCH
            && let Ok(span) = self.spans.try_recv()
        {
            self.batch.push(span);
        }
    }

    /// Sends the batch until it is taken or given up; how many spans were lost.
    async fn deliver(&mut self) -> u64 {
        let all = self.batch.len() as u64;
        for tries in 1..=TRIES {
            let closing = self.post.is_closing();
            // As it is now: the settings may have changed since the last try.
            let plan = self.post.plan.borrow_and_update().clone();
            let Some(plan) = plan.filter(|p| p.traces) else {
                // Nobody wants them any more: that is no loss.
                return 0;
            };
            let document = encode::traces(plan.form, &plan.speaker, &self.batch);
            let asked = match self.post.send(&plan, Signal::Traces, document).await {
                Said::Taken(answer) => {
                    let rejected = encode::rejected_spans(plan.form, &answer).min(all);
                    let sent = all - rejected;
                    self.post.standing.sent.fetch_add(sent, Ordering::Relaxed);
                    return rejected;
                },
                Said::No(_) => return all,
                Said::NotNow(_, asked) => asked,
            };
            if closing || tries == TRIES {
                return all;
            }
            let ours = backoff::wait_ms(tries, LONGEST_WAIT, (self.jitter)());
            let theirs = asked.map_or(0, |d| d.as_millis() as u64);
            let wait = ours.max(theirs.min(LONGEST_WAIT));
            tokio::select! {
                () = sleep(Duration::from_millis(wait)) => {},
                _ = self.post.closing.changed() => {},
                Ok(()) = self.post.plan.changed() => {},
            }
        }
        all
    }
}

struct Readings {
    post: Post,
    since_ns: u64,
}

impl Readings {
    async fn run(mut self) {
        let mut last = Instant::now();
        loop {
            let plan = self.post.plan.borrow_and_update().clone();
            let wanted = plan.as_ref().and_then(|p| p.metrics);
            let due = wanted.map(|every| last + every);
            let wait = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            let closing = tokio::select! {
                () = wait => false,
                closed = self.post.closing.changed() => {
                    closed.is_err() || self.post.is_closing()
                },
                changed = self.post.plan.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
            };
            if let Some(plan) = plan.filter(|_| wanted.is_some()) {
                self.read_and_send(&plan).await;
                last = Instant::now();
            }
            if closing {
                return;
            }
        }
    }

    async fn read_and_send(&self, plan: &Arc<Plan>) {
        let families = self.post.sources.read().await;
        let document = encode::metrics(
            plan.form,
            &plan.speaker,
            &families,
            self.since_ns,
            wall_clock::unix_ns(),
        );
        if let Said::Taken(answer) = self.post.send(plan, Signal::Metrics, document).await {
            let rejected = encode::rejected_points(plan.form, &answer);
            if rejected > 0 {
                tracing::debug!(rejected, "the telemetry collector refused some values");
            }
        }
    }
}
