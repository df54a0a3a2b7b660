//! Live and recent workloads, and their events (spec §5.5).
//!
//! Owns: the records, and that an event is numbered and sent under one lock.
//! Leaves to others: which event follows which (`rules::workload`), when something happens
//! (`facade`), keeping what ended (a [`Finished`] sink).

// Said in full, since `tests/interleave` reads this file from elsewhere.
#[path = "workloads/record.rs"]
mod record;
#[path = "workloads/shown.rs"]
mod shown;

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, PoisonError};

use tokio::time::Instant;

use crate::rules::engine::EngineId;
use crate::rules::ids::{JobId, NodeId, RunId};
use crate::rules::outcome::{End, Failure};
use crate::rules::reservations::Load;
use crate::rules::workload::{Lifecycle, Numbered, State};
use crate::sync::{Mutex, MutexGuard};
use crate::wire::broker::{Stats, WorkloadInfo};
use crate::wire::control::{Workload, WorkloadCounts, WorkloadFilter};
use crate::wire::journal::{Framing, Record};

use super::events::{Events, Notice, WorkloadNotice};
use super::follow::{Feed, Follower, fits};
pub use record::Finished;

/// Sinks of what ended.
const SINKS: usize = 2;

/// Workloads kept in memory.
const KEPT: usize = 10_000;

/// Listed without a limit of the caller's own.
const LISTED: usize = 50;

/// What is known of a request when it is admitted.
pub struct Admission {
    /// Facade.
    pub engine: EngineId,
    /// Its number there.
    pub id: JobId,
    /// Model as requested.
    pub model: String,
    /// Path of the request's route.
    pub path: &'static str,
    /// Length of the request body.
    pub body_bytes: u64,
    /// Unix ms of arrival.
    pub created_at: u64,
    /// The same moment on the monotonic clock.
    pub arrived: Instant,
    /// Eligible owners.
    pub owners: Owners,
    /// Name of the client key that it came with.
    pub client: Option<Arc<str>>,
}

/// Who might have served a request: how many, and the first of them by name. Thousands of workloads are
/// kept, so that each keeps a few names only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    count: usize,
    named: Vec<NodeId>,
}

impl Owners {
    /// As many as are told by name.
    const NAMED: usize = 8;

    /// This many, in the order in which they would be tried.
    pub fn of<'a>(count: usize, ids: impl Iterator<Item = &'a NodeId>) -> Self {
        Self {
            count,
            named: ids.take(Self::NAMED).cloned().collect(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// All workloads of this process.
pub struct Workloads {
    run_id: RunId,
    events: Arc<Events>,
    recent: Mutex<VecDeque<Arc<Job>>>,
    /// The live ones by state, and what ended since the start: one moment, whoever looks.
    counts: Mutex<WorkloadCounts>,
    /// The journal, and usage events.
    kept: [OnceLock<Box<dyn Finished>>; SINKS],
    feed: Feed,
}

impl Workloads {
    /// None yet.
    pub fn new(run_id: RunId, events: Arc<Events>) -> Self {
        Self {
            run_id,
            events,
            recent: Mutex::default(),
            counts: Mutex::default(),
            kept: Default::default(),
            feed: Feed::default(),
        }
    }

    /// What ends from now on is handed to this sink too. At the start, and to no more than two; a
    /// third changes nothing.
    pub fn keep_in(&self, mut sink: Box<dyn Finished>) {
        for kept in &self.kept {
            match kept.set(sink) {
                Ok(()) => return,
                Err(back) => sink = back,
            }
        }
    }

    /// This process's run.
    pub fn run_id(&self) -> &RunId {
        &self.run_id
    }

    /// Admits a request as a workload and sends its first event.
    pub fn admit(self: &Arc<Self>, admission: Admission) -> Arc<Job> {
        let (life, first) = Lifecycle::admit();
        let job = Arc::new(Job {
            all: self.clone(),
            admission,
            inner: Mutex::new(Inner {
                life,
                started_at: None,
                ended_at: None,
                status: None,
                error: None,
                framing: None,
                stats: None,
                // Dispatched, started.
                timeline: Vec::with_capacity(2),
            }),
        });
        {
            let inner = job.lock();
            self.count(None, State::Queued);
            job.send(&inner, WorkloadNotice::Submitted, first);
        }
        let oldest = {
            let mut recent = self.recent();
            let full = recent.len() >= KEPT;
            let oldest = full.then(|| recent.pop_front());
            recent.push_back(job.clone());
            oldest
        };
        // Let go where nobody waits for it.
        drop(oldest);
        job
    }

    /// By state: the live ones counted now, the ended ones since the start.
    pub fn counts(&self) -> WorkloadCounts {
        *self.lock_counts()
    }

    /// A workload steps from one state to another.
    fn count(&self, from: Option<State>, to: State) {
        let mut counts = self.lock_counts();
        if let Some(from) = from {
            let n = of_state(&mut counts, from);
            *n = n.saturating_sub(1);
        }
        *of_state(&mut counts, to) += 1;
    }

    fn lock_counts(&self) -> MutexGuard<'_, WorkloadCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Newest first.
    pub fn list(&self, filter: &WorkloadFilter) -> Vec<Workload> {
        let limit = filter.limit.unwrap_or(LISTED);
        let all = self.all();
        let matching = all.iter().rev().filter(|job| job.matches(filter));
        matching
            .take(limit)
            .map(|job| job.describe(false))
            .collect()
    }

    /// Those with this number, with their timelines.
    pub fn find(&self, engine: Option<EngineId>, id: JobId) -> Vec<Workload> {
        let all = self.all();
        let found = all.iter().filter(|job| {
            job.admission.id == id && engine.is_none_or(|e| e == job.admission.engine)
        });
        found.map(|job| job.describe(true)).collect()
    }

    /// The records of those in memory that ended, oldest first.
    pub fn finished_records(&self) -> Vec<Record> {
        self.all()
            .iter()
            .filter_map(|job| job.finished_record())
            .collect()
    }

    /// All of them, oldest first. The list itself is let go before anything is made of it: requests
    /// wait for it.
    fn all(&self) -> Vec<Arc<Job>> {
        self.recent().iter().cloned().collect()
    }

    /// Follows changes from now on.
    pub fn follow(&self, filter: WorkloadFilter) -> Follower {
        self.feed.follow(filter)
    }

    fn recent(&self) -> MutexGuard<'_, VecDeque<Arc<Job>>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn of_state(counts: &mut WorkloadCounts, state: State) -> &mut u64 {
    match state {
        State::Queued => &mut counts.queued,
        State::Running => &mut counts.running,
        State::Completed => &mut counts.completed,
        State::Failed => &mut counts.failed,
        State::Cancelled => &mut counts.cancelled,
    }
}

/// What a timeline shows between the request's admission and its end.
#[derive(Clone, Debug)]
enum Step {
    Dispatched(NodeId, Load),
    Refused(NodeId, Failure, String),
    Waiting,
    Started(NodeId),
}

struct Inner {
    life: Lifecycle,
    started_at: Option<u64>,
    ended_at: Option<u64>,
    status: Option<u16>,
    error: Option<String>,
    framing: Option<Framing>,
    stats: Option<Stats>,
    timeline: Vec<(u32, Step)>,
}

/// One workload.
pub struct Job {
    all: Arc<Workloads>,
    admission: Admission,
    inner: Mutex<Inner>,
}

impl Job {
    /// Its model, as requested.
    pub fn model(&self) -> &str {
        &self.admission.model
    }

    /// Dispatched to a node, which had this load.
    pub fn place(&self, node: &NodeId, load: Load) {
        let mut inner = self.lock();
        self.note(&mut inner, self.age(), Step::Dispatched(node.clone(), load));
        if let Some(n) = inner.life.place(node) {
            self.send(&inner, WorkloadNotice::Submitted, n);
        }
    }

    /// The node did not take it; why, also in words.
    pub fn refused(&self, node: &NodeId, failure: Failure, why: String) {
        self.note(
            &mut self.lock(),
            self.age(),
            Step::Refused(node.clone(), failure, why),
        );
    }

    /// Placed nowhere, before a wait.
    pub fn clear(&self) {
        let mut inner = self.lock();
        self.note(&mut inner, self.age(), Step::Waiting);
        if let Some(n) = inner.life.clear() {
            self.send(&inner, WorkloadNotice::Submitted, n);
        }
    }

    /// Committed on a node with this status.
    pub fn start(&self, node: &NodeId, status: u16) {
        let mut inner = self.lock();
        let before = inner.life.state();
        if let Some(n) = inner.life.start(node) {
            self.all.count(Some(before), State::Running);
            let age = self.age();
            inner.started_at = Some(self.admission.created_at + age);
            inner.status = Some(status);
            self.note(&mut inner, age, Step::Started(node.clone()));
            self.send(&inner, WorkloadNotice::Started, n);
        }
    }

    /// The committed answer has this `Content-Type`.
    pub fn framed(&self, content_type: Option<&[u8]>) {
        self.lock().framing = Some(Framing::of(content_type));
    }

    /// Ended; the first end wins.
    pub fn finish(&self, end: End, status: Option<u16>, stats: Option<Stats>) {
        let (state, error) = end.terminal();
        let mut inner = self.lock();
        let before = inner.life.state();
        let Some(n) = inner.life.finish(state) else {
            return;
        };
        self.all.count(Some(before), state);
        let age = self.age();
        let ended_at = self.admission.created_at + age;
        inner.ended_at = Some(ended_at);
        inner.status = inner.status.or(status);
        inner.error = error;
        inner.stats = stats;
        let notice = match state {
            State::Completed => WorkloadNotice::Completed,
            _ => WorkloadNotice::Errored,
        };
        self.send(&inner, notice, n);
        let mut sinks = self.all.kept.iter().filter_map(OnceLock::get).peekable();
        if sinks.peek().is_some() {
            let entry = self.entry(&inner, ended_at);
            sinks.for_each(|sink| sink.finished(&entry));
        }
    }

    /// Milliseconds since arrival.
    fn age(&self) -> u64 {
        self.admission.arrived.elapsed().as_millis() as u64
    }

    fn note(&self, inner: &mut Inner, age: u64, step: Step) {
        // A workload of seven weeks shows the last moment that fits.
        inner
            .timeline
            .push((u32::try_from(age).unwrap_or(u32::MAX), step));
    }

    /// Sends while the caller holds the lock: events of one job leave in the order of their numbers.
    fn send(&self, inner: &Inner, notice: WorkloadNotice, Numbered(seq): Numbered) {
        if self.all.feed.is_followed() {
            self.all.feed.publish(seq, self.described(inner, false));
        }
        if !self.all.events.heard() {
            return;
        }
        let a = &self.admission;
        let info = WorkloadInfo {
            id: a.id.to_string(),
            model: a.model.clone(),
            engine: a.engine,
            run_id: self.all.run_id.clone(),
            state: inner.life.state(),
            originated_from: String::new(),
            scheduled_on: inner.life.placed().cloned(),
            created_at: a.created_at,
            started_at: inner.started_at,
            completed_at: inner.ended_at,
            error: inner.error.clone(),
            requester_id: None,
            seq,
            stats: inner.stats.clone(),
        };
        self.all
            .events
            .emit(&Notice::Workload(notice, Box::new(info)));
    }

    fn matches(&self, f: &WorkloadFilter) -> bool {
        let a = &self.admission;
        let inner = self.lock();
        fits(
            f,
            a.engine,
            inner.life.state(),
            &a.model,
            inner.life.placed(),
        )
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "workloads/tests.rs"]
mod tests;
