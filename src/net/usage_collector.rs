//! Sends usage events to an HTTP collector (product section 7).
//!
//! Owns: the queue, batches, tries again. Leaves to others: what an event is (`wire::usage_event`), one
//! POST and the connection that stays for the next (`fetch`).
//!
//! Whoever hands an event over never waits. A batch is sent until the collector takes it, with the same
//! ids each time, so that what arrived twice is counted once; what the queue cannot hold meanwhile is
//! lost and counted. A collector that says that a batch is wrong (400, 413, 422) would say so for ever:
//! that batch is lost. Redirects are not followed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::client_tls::ClientTls;
use super::fetch::{Kept, Limits};
use crate::rules::addresses::authority;
use crate::rules::worker::backoff;
use crate::wire::usage_event::{UsageBatch, UsageEvent};

/// Events waiting for the collector: about a quarter of an hour at ten a second.
const QUEUE: usize = 10_000;

/// Events of one POST.
pub const BATCH: usize = 500;

/// After the first event of a batch the others have this long to come.
const GATHER: Duration = Duration::from_secs(1);

/// Bounds of one POST.
const LIMITS: Limits = Limits {
    connect: Duration::from_secs(2),
    whole: Duration::from_secs(5),
    body: 64 * 1024,
};

/// Tries are no further apart, in ms.
const LONGEST_WAIT: u64 = 60_000;

/// Where the collector is.
#[derive(Clone, Debug)]
pub struct CollectorAddress {
    /// Name or address, IPv6 without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Whom to trust; `None` = plain HTTP.
    pub tls: Option<ClientTls>,
    /// Path, beginning with a slash.
    pub path: String,
}

/// What became of the events so far.
#[derive(Debug, Default)]
pub struct Counts {
    sent: AtomicU64,
    lost: AtomicU64,
    /// Of those lost, the ones that the queue could not hold.
    overflowed: AtomicU64,
    queued: AtomicU64,
}

/// The handing-over end. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Collector {
    queue: mpsc::Sender<Arc<UsageEvent>>,
    counts: Arc<Counts>,
}

/// The sending end.
#[derive(Debug)]
pub struct Sending {
    task: JoinHandle<()>,
    closing: watch::Sender<bool>,
    counts: Arc<Counts>,
}

impl Collector {
    /// Starts to send to a collector. `jitter` gives numbers from 0 to 1. Inside a runtime.
    pub fn start(
        address: CollectorAddress,
        jitter: impl Fn() -> f64 + Send + Sync + 'static,
    ) -> (Self, Sending) {
        Self::with_queue(address, jitter, QUEUE)
    }

    fn with_queue(
        address: CollectorAddress,
        jitter: impl Fn() -> f64 + Send + Sync + 'static,
        size: usize,
    ) -> (Self, Sending) {
        let (queue, received) = mpsc::channel(size);
        let (closing, closed) = watch::channel(false);
        let counts = Arc::<Counts>::default();
        let a = &address;
        let sender = Sender {
            way: Kept::new(&a.host, a.port, a.tls.clone(), LIMITS),
            address,
            jitter: Box::new(jitter),
            counts: counts.clone(),
            closing: closed,
            failing: false,
            told_lost: 0,
            behind: false,
        };
        let task = tokio::spawn(sender.run(received));
        let collector = Self {
            queue,
            counts: counts.clone(),
        };
        let sending = Sending {
            task,
            closing,
            counts,
        };
        (collector, sending)
    }

    /// Hands an event over, or loses it where the collector cannot follow.
    pub fn send(&self, event: Arc<UsageEvent>) {
        self.counts.queued.fetch_add(1, Ordering::Relaxed);
        if self.queue.try_send(event).is_err() {
            self.counts.queued.fetch_sub(1, Ordering::Relaxed);
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
            self.counts.overflowed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Events that the collector took.
    pub fn sent(&self) -> u64 {
        self.counts.sent.load(Ordering::Relaxed)
    }

    /// Events lost since the start.
    pub fn lost(&self) -> u64 {
        self.counts.lost.load(Ordering::Relaxed)
    }

    /// Events that wait or are on their way.
    pub fn queued(&self) -> u64 {
        self.counts.queued.load(Ordering::Relaxed)
    }
}

impl Sending {
    /// Sends what is queued, each batch once more, within the limit; how many events are left behind.
    pub async fn end(mut self, limit: Duration) -> u64 {
        // Nobody listens where the task has ended already.
        let _ = self.closing.send(true);
        if timeout(limit, &mut self.task).await.is_err() {
            self.task.abort();
        }
        self.counts.queued.load(Ordering::Relaxed)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What the collector made of a batch.
enum Said {
    Taken,
    /// It is wrong, and will be.
    Wrong(u16),
    /// It may be taken the next time.
    NotNow(String),
}

struct Sender {
    way: Kept,
    address: CollectorAddress,
    jitter: Box<dyn Fn() -> f64 + Send + Sync>,
    counts: Arc<Counts>,
    closing: watch::Receiver<bool>,
    failing: bool,
    told_lost: u64,
    behind: bool,
}

impl Sender {
    async fn run(mut self, mut queue: mpsc::Receiver<Arc<UsageEvent>>) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            batch.clear();
            if *self.closing.borrow() {
                while batch.len() < BATCH
                    && let Ok(event) = queue.try_recv()
                {
                    batch.push(event);
                }
                if batch.is_empty() {
                    return;
                }
            } else {
                let received = tokio::select! {
                    n = queue.recv_many(&mut batch, BATCH) => n,
                    _ = self.closing.changed() => continue,
                };
                if received == 0 {
                    return;
                }
                self.gather(&mut queue, &mut batch).await;
            }
            if !self.deliver(&batch).await {
                return;
            }
            self.tell_overflow();
        }
    }

    async fn gather(
        &mut self,
        queue: &mut mpsc::Receiver<Arc<UsageEvent>>,
        batch: &mut Vec<Arc<UsageEvent>>,
    ) {
        if batch.len() < BATCH {
            tokio::select! {
                () = sleep(GATHER) => {},
                _ = self.closing.changed() => {},
            }
        }
        while batch.len() < BATCH
            && let Ok(event) = queue.try_recv()
        {
            batch.push(event);
        }
    }

    /// Sends a batch until it is taken or lost; `false` when it is left behind at the end.
    async fn deliver(&mut self, batch: &[Arc<UsageEvent>]) -> bool {
        let body = UsageBatch {
            events: batch.iter().map(|e| &**e).collect(),
        };
        let count = batch.len() as u64;
        let Ok(body) = serde_json::to_vec(&body) else {
            self.done(0, count);
            return true;
        };
        let body = Bytes::from(body);
        let mut failures = 0;
        loop {
            let last = *self.closing.borrow();
            let reason = match self.post(body.clone()).await {
                Said::Taken => {
                    if std::mem::take(&mut self.failing) {
                        let lost = self.counts.lost.load(Ordering::Relaxed);
                        tracing::info!(lost, "the usage collector takes events again");
                    }
                    self.done(count, 0);
                    return true;
                },
                Said::Wrong(status) => {
                    tracing::warn!(
                        collector = self.shown(),
                        status,
                        events = count,
                        "the usage collector refused a batch; it is lost"
                    );
                    self.done(0, count);
                    return true;
                },
                Said::NotNow(reason) => reason,
            };
            failures += 1;
            if !std::mem::replace(&mut self.failing, true) {
                tracing::warn!(
                    collector = self.shown(),
                    reason,
                    "the usage collector takes no events; tried again until it does"
                );
            }
            if last {
                return false;
            }
            self.tell_overflow();
            let wait = backoff::wait_ms(failures, LONGEST_WAIT, (self.jitter)());
            tokio::select! {
                () = sleep(Duration::from_millis(wait)) => {},
                _ = self.closing.changed() => {},
            }
        }
    }

    async fn post(&self, body: Bytes) -> Said {
        let answer = self.way.post_json(&self.address.path, &[], body);
        match answer.await {
            Ok(answer) if answer.status.is_success() => Said::Taken,
            Ok(answer) => match answer.status.as_u16() {
                status @ (400 | 413 | 422) => Said::Wrong(status),
                status => Said::NotNow(format!("HTTP {status}")),
            },
            Err(e) => Said::NotNow(e.to_string()),
        }
    }

    fn done(&self, sent: u64, lost: u64) {
        self.counts.sent.fetch_add(sent, Ordering::Relaxed);
        self.counts.lost.fetch_add(lost, Ordering::Relaxed);
        self.counts.queued.fetch_sub(sent + lost, Ordering::Relaxed);
    }

    /// Once when events begin to be lost to a full queue, and once when they no longer are.
    fn tell_overflow(&mut self) {
        let lost = self.counts.overflowed.load(Ordering::Relaxed);
        let more = lost > self.told_lost;
        self.told_lost = lost;
        match (more, self.behind) {
            (true, false) => {
                tracing::warn!(
                    lost,
                    "usage events for the collector are lost: the queue is full"
                )
            },
            // While it is down the next overflow may only be a matter of time.
            (false, true) if !self.failing => {
                tracing::info!(lost, "usage events for the collector are all kept again")
            },
            (false, true) => return,
            _ => {},
        }
        self.behind = more;
    }

    fn shown(&self) -> String {
        authority(&self.address.host, self.address.port)
    }
}

#[cfg(test)]
mod tests;
