//! Live and recent workloads, and their events (spec §5.5).
//!
//! Owns: the records, and that an event is numbered and sent under one lock.
//! Leaves to others: which event follows which (`rules::workload`), when something happens
//! (`facade`), keeping what ended (a [`Finished`] sink).

// Said in full, since `tests/interleave` reads this file from elsewhere.
#[path = "workloads/record.rs"]
mod record;

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
use crate::wire::control::{TimelineEntry, Workload, WorkloadCounts, WorkloadFilter};
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
    pub owners: Vec<NodeId>,
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
                timeline: Vec::with_capacity(4),
            }),
        });
        {
            let mut inner = job.lock();
            job.note(&mut inner, 0, Step::Admitted);
            self.count(None, State::Queued);
            job.send(&inner, WorkloadNotice::Submitted, first);
        }
        let mut recent = self.recent();
        if recent.len() >= KEPT {
            recent.pop_front();
        }
        recent.push_back(job.clone());
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
        let recent = self.recent();
        let matching = recent.iter().rev().filter(|job| job.matches(filter));
        matching
            .take(limit)
            .map(|job| job.describe(false))
            .collect()
    }

    /// Those with this number, with their timelines.
    pub fn find(&self, engine: Option<EngineId>, id: JobId) -> Vec<Workload> {
        let recent = self.recent();
        let found = recent.iter().filter(|job| {
            job.admission.id == id && engine.is_none_or(|e| e == job.admission.engine)
        });
        found.map(|job| job.describe(true)).collect()
    }

    /// The records of those in memory that ended, oldest first.
    pub fn finished_records(&self) -> Vec<Record> {
        // The list is let go before the records are made: requests wait for it.
        let all: Vec<_> = self.recent().iter().cloned().collect();
        all.iter().filter_map(|job| job.finished_record()).collect()
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

/// What a timeline shows.
#[derive(Clone, Debug)]
enum Step {
    Admitted,
    Dispatched(NodeId, Load),
    Refused(NodeId, Failure, String),
    Waiting,
    Started(NodeId),
    Ended(State, Option<String>),
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
    pub fn framed(&self, content_type: Option<&str>) {
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
        let why = inner.error.clone();
        self.note(&mut inner, age, Step::Ended(state, why));
        let notice = match state {
            State::Completed => WorkloadNotice::Completed,
            _ => WorkloadNotice::Errored,
        };
        self.send(&inner, notice, n);
        let mut sinks = self.all.kept.iter().filter_map(OnceLock::get);
        if let Some(first) = sinks.next() {
            let record = self.record(&inner, ended_at);
            // A copy only for those besides.
            sinks.for_each(|sink| sink.finished(record.clone()));
            first.finished(record);
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

    fn describe(&self, with_timeline: bool) -> Workload {
        self.described(&self.lock(), with_timeline)
    }

    fn described(&self, inner: &Inner, with_timeline: bool) -> Workload {
        let a = &self.admission;
        Workload {
            engine: a.engine,
            id: a.id,
            run_id: self.all.run_id.clone(),
            model: a.model.clone(),
            path: a.path.to_owned(),
            body_bytes: a.body_bytes,
            state: inner.life.state(),
            node: inner.life.placed().cloned(),
            created_at: a.created_at,
            started_at: inner.started_at,
            ended_at: inner.ended_at,
            status: inner.status,
            error: inner.error.clone(),
            stats: inner.stats.clone(),
            timeline: if with_timeline {
                self.timeline(inner)
            } else {
                Vec::new()
            },
        }
    }

    fn timeline(&self, inner: &Inner) -> Vec<TimelineEntry> {
        let entry = |at: u32, event: &str, node: Option<&NodeId>| TimelineEntry {
            at_ms: u64::from(at),
            event: event.to_owned(),
            node: node.cloned(),
            load: None,
            detail: None,
        };
        let owners = || {
            let ids: Vec<_> = self.admission.owners.iter().map(NodeId::as_str).collect();
            let plural = if ids.len() == 1 { "owner" } else { "owners" };
            format!("{} {plural}: {}", ids.len(), ids.join(", "))
        };
        let mut dispatched = 0;
        let mut shown = Vec::with_capacity(inner.timeline.len());
        for (at, step) in &inner.timeline {
            let at = *at;
            shown.push(match step {
                Step::Admitted => TimelineEntry {
                    detail: Some(owners()),
                    ..entry(at, "admitted", None)
                },
                Step::Dispatched(node, l) => {
                    dispatched = at;
                    TimelineEntry {
                        load: Some(record::terms(l)),
                        ..entry(at, "dispatched", Some(node))
                    }
                },
                Step::Refused(node, _, why) => TimelineEntry {
                    detail: Some(why.clone()),
                    ..entry(at, "refused", Some(node))
                },
                Step::Waiting => entry(at, "waiting", None),
                Step::Started(node) => TimelineEntry {
                    detail: Some(format!(
                        "first byte after {} ms",
                        at.saturating_sub(dispatched)
                    )),
                    ..entry(at, "started", Some(node))
                },
                Step::Ended(state, why) => TimelineEntry {
                    detail: ended(why.as_deref(), inner.stats.as_ref()),
                    ..entry(at, state.as_str(), None)
                },
            });
        }
        shown
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why it ended so, and what was measured of its answer, as far as either is known.
fn ended(why: Option<&str>, stats: Option<&Stats>) -> Option<String> {
    let tokens = stats.and_then(|s| {
        let n = s.completion_tokens?;
        let about = if s.estimated { "about " } else { "" };
        let plural = if n == 1 { "" } else { "s" };
        Some(format!("{about}{n} token{plural}"))
    });
    let speed = stats
        .and_then(|s| s.tokens_per_second)
        .map(|t| format!("{t:.1} tok/s"));
    let parts: Vec<_> = [why.map(str::to_owned), tokens, speed]
        .into_iter()
        .flatten()
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::events::Sink;
    use super::*;
    use crate::wire::journal::{Attempt, AttemptOutcome};

    #[derive(Default, Clone)]
    struct Seen(Arc<Mutex<Vec<(WorkloadNotice, WorkloadInfo)>>>);

    impl Sink for Seen {
        fn notice(&self, notice: &Notice) {
            if let Notice::Workload(kind, info) = notice {
                self.0.lock().unwrap().push((*kind, (**info).clone()));
            }
        }
    }

    fn workloads() -> (Arc<Workloads>, Seen) {
        let (seen, events) = (Seen::default(), Arc::new(Events::default()));
        events.join(vec![Box::new(seen.clone())]);
        (
            Arc::new(Workloads::new(RunId::from_bytes([1; 8]), events)),
            seen,
        )
    }

    fn admit(w: &Arc<Workloads>, id: u64) -> Arc<Job> {
        w.admit(Admission {
            engine: EngineId::parse("ollama").unwrap(),
            id: JobId(id),
            model: "m".into(),
            path: "/api/chat",
            body_bytes: 3,
            created_at: 1000,
            arrived: Instant::now(),
            owners: vec!["a".into()],
        })
    }

    #[test]
    fn one_owner_that_refuses_once_then_serves() {
        let (w, seen) = workloads();
        let (job, a) = (admit(&w, 7), NodeId::from("a"));
        job.place(&a, Load::default());
        job.refused(&a, Failure::Status(503), "HTTP 503".into());
        job.clear();
        job.place(&a, Load::default());
        job.start(&a, 200);
        job.finish(End::Relayed { status: 200 }, None, None);
        job.finish(End::ClientGone, None, None);
        let events: Vec<_> = seen
            .0
            .lock()
            .unwrap()
            .iter()
            .map(|(n, i)| (*n, i.seq, i.scheduled_on.clone().map(|n| n.to_string())))
            .collect();
        use WorkloadNotice::*;
        let on = |n: &str| Some(n.to_owned());
        assert_eq!(
            events,
            [
                (Submitted, 1, None),
                (Submitted, 2, on("a")),
                (Submitted, 3, None),
                (Submitted, 4, on("a")),
                (Started, 5, on("a")),
                (Completed, 6, on("a")),
            ]
        );
        assert_eq!(
            w.counts(),
            WorkloadCounts {
                completed: 1,
                ..Default::default()
            }
        );
        let shown: Vec<_> = w.find(None, JobId(7))[0]
            .timeline
            .iter()
            .map(|t| t.event.clone())
            .collect();
        assert_eq!(
            shown,
            [
                "admitted",
                "dispatched",
                "refused",
                "waiting",
                "dispatched",
                "started",
                "completed"
            ]
        );
    }

    #[derive(Default, Clone)]
    struct Kept(Arc<Mutex<Vec<Record>>>);

    impl Finished for Kept {
        fn finished(&self, record: Box<Record>) {
            self.0.lock().unwrap().push(*record);
        }
    }

    #[test]
    fn what_ended_is_kept_once_with_every_attempt() {
        let (w, _) = workloads();
        let kept = Kept::default();
        w.keep_in(Box::new(kept.clone()));
        let [a, b] = ["a", "b"].map(NodeId::from);
        let load = Load {
            pending: 2,
            in_flight: 1,
            ..Load::default()
        };
        let job = admit(&w, 7);
        job.place(&a, load);
        job.refused(&a, Failure::Status(503), "HTTP 503".into());
        job.place(&b, Load::default());
        job.start(&b, 200);
        job.framed(Some("application/x-ndjson"));
        assert!(kept.0.lock().unwrap().is_empty(), "it goes on");
        job.finish(End::Relayed { status: 200 }, None, None);
        job.finish(End::ClientGone, None, None);
        let lost = admit(&w, 8);
        lost.place(&a, Load::default());
        lost.finish(End::ClientGone, None, None);
        let kept = kept.0.lock().unwrap();
        let tries = |r: &Record| -> Vec<_> {
            let of = |a: &Attempt| (a.node.to_string(), a.outcome, a.status);
            r.attempts.iter().map(of).collect()
        };
        assert_eq!(
            tries(&kept[0]),
            [
                ("a".to_owned(), AttemptOutcome::Refused, Some(503)),
                ("b".to_owned(), AttemptOutcome::Committed, Some(200)),
            ]
        );
        assert_eq!(kept[0].attempts[0].load, [2, 0, 1]);
        assert_eq!(kept[0].framing, Some(Framing::Ndjson));
        assert_eq!((kept[0].v, kept[0].state), (1, State::Completed));
        assert_eq!(
            tries(&kept[1]),
            [("a".to_owned(), AttemptOutcome::Abandoned, None)]
        );
        assert_eq!((kept.len(), kept[1].state), (2, State::Cancelled));
    }

    #[tokio::test]
    async fn a_follower_sees_each_change_as_the_broker_does() {
        let (w, seen) = workloads();
        let mut f = w.follow(WorkloadFilter::default());
        let (job, a) = (admit(&w, 7), NodeId::from("a"));
        job.place(&a, Load::default());
        job.start(&a, 200);
        job.finish(End::Relayed { status: 200 }, None, None);
        let told = seen.0.lock().unwrap().clone();
        for (_, info) in &told {
            let change = f.next().await.unwrap();
            assert_eq!((change.seq, change.missed), (info.seq, 0));
            let now = (change.workload.state, change.workload.node.clone());
            assert_eq!(now, (info.state, info.scheduled_on.clone()));
        }
        assert_eq!(told.len(), 4);
    }

    #[test]
    fn the_timeline_says_how_long_the_first_byte_took_and_what_was_measured() {
        let (w, _) = workloads();
        let (job, a) = (admit(&w, 1), NodeId::from("a"));
        job.place(&a, Load::default());
        // The wait counts from the last dispatch, and not from the arrival.
        job.lock().timeline.last_mut().unwrap().0 = 20;
        job.lock()
            .timeline
            .push((616, Step::Started(NodeId::from("a"))));
        let stats = Stats {
            completion_tokens: Some(340),
            tokens_per_second: Some(42.0),
            ..Stats::default()
        };
        job.finish(End::Relayed { status: 200 }, None, Some(stats));
        let details: Vec<_> = w.find(None, JobId(1))[0]
            .timeline
            .iter()
            .map(|t| t.detail.clone().unwrap_or_default())
            .collect();
        let want = [
            "1 owner: a",
            "",
            "first byte after 596 ms",
            "340 tokens, 42.0 tok/s",
        ];
        assert_eq!(details, want);
    }

    #[test]
    fn an_end_tells_its_reason_and_its_measures_as_far_as_they_are_known() {
        let stats = |tokens, speed, estimated| Stats {
            completion_tokens: tokens,
            tokens_per_second: speed,
            estimated,
            ..Stats::default()
        };
        for (why, stats, want) in [
            (None, None, None),
            (Some("gone"), None, Some("gone")),
            (None, Some(stats(None, None, false)), None),
            (None, Some(stats(Some(1), None, false)), Some("1 token")),
            (
                Some("gone"),
                Some(stats(Some(61), Some(40.12), true)),
                Some("gone, about 61 tokens, 40.1 tok/s"),
            ),
        ] {
            assert_eq!(ended(why, stats.as_ref()).as_deref(), want);
        }
    }

    #[test]
    fn filters_narrow_and_the_newest_comes_first() {
        let (w, _) = workloads();
        let first = admit(&w, 1);
        admit(&w, 2);
        first.finish(End::ClientGone, None, None);
        let ids = |f: WorkloadFilter| w.list(&f).iter().map(|w| w.id.0).collect::<Vec<_>>();
        assert_eq!(ids(WorkloadFilter::default()), [2, 1]);
        assert_eq!(
            ids(WorkloadFilter {
                limit: Some(1),
                ..Default::default()
            }),
            [2]
        );
        let state = Some(State::Cancelled);
        assert_eq!(
            ids(WorkloadFilter {
                state,
                ..Default::default()
            }),
            [1]
        );
        let model = Some("m:latest".into());
        assert_eq!(
            ids(WorkloadFilter {
                model,
                ..Default::default()
            }),
            [2, 1]
        );
        let node = Some("zz".into());
        assert!(
            ids(WorkloadFilter {
                node,
                ..Default::default()
            })
            .is_empty()
        );
    }

    #[test]
    fn only_the_last_ten_thousand_are_kept() {
        let (w, _) = workloads();
        for id in 1..=(KEPT as u64 + 5) {
            admit(&w, id);
        }
        assert_eq!(w.recent().len(), KEPT);
        assert!(w.find(None, JobId(5)).is_empty());
        assert_eq!(w.find(None, JobId(6)).len(), 1);
    }
}
