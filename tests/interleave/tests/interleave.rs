//! Every order in which threads can meet on one request's outcome.
//!
//! loom runs each model once for each order of its threads' steps at locks and atomics, with what
//! the memory model allows. `LOOM_MAX_PREEMPTIONS` bounds the switches that no lock asks for; unset,
//! the models with a bound of their own keep it and the others have none.

#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};

use interleave::rules::discovery::{Extra, Node};
use interleave::rules::engine::EngineId;
use interleave::rules::ids::{JobId, NodeId, RunId};
use interleave::rules::outcome::{End, Failure};
use interleave::rules::policy::{Ask, Policy};
use interleave::rules::reservations::Load;
use interleave::rules::shortlist::Shortlist;
use interleave::rules::workload::State;
use interleave::state::events::{Events, Notice, Sink, WorkloadNotice};
use interleave::state::facade::{Alone, FacadeState};
use interleave::state::fate::Fate;
use interleave::state::scheduler::{Claim, Scheduler};
use interleave::state::told::PrioritySnapshot;
use interleave::state::workloads::{Admission, Job, Owners, Workloads};
use interleave::sync::Mutex as Watched;
use interleave::wire::control::WorkloadFilter;
use loom::thread::spawn;

/// Runs every order with at most so many switches that nothing forces; none unless the environment
/// says so.
fn every_order(bound: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let mut loom = loom::model::Builder::new();
    loom.preemption_bound = loom.preemption_bound.or(bound);
    loom.check(model);
}

/// One event as it was told: of which job, its kind, number, state and placement.
type Event = (String, WorkloadNotice, u64, State, Option<String>);

#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Event>>>);

impl Sink for Told {
    fn notice(&self, notice: &Notice) {
        if let Notice::Workload(kind, info) = notice {
            let placed = info.scheduled_on.as_ref().map(ToString::to_string);
            let event = (info.id.clone(), *kind, info.seq, info.state, placed);
            self.0.lock().unwrap().push(event);
        }
    }
}

impl Told {
    /// The states of a job's events, whose numbers have no gap and whose end is the last, once.
    fn of(&self, id: u64) -> Vec<State> {
        let all = self.0.lock().unwrap();
        let mine: Vec<_> = all.iter().filter(|e| e.0 == id.to_string()).collect();
        for (n, event) in mine.iter().enumerate() {
            assert_eq!(event.2, n as u64 + 1, "numbers in wire order: {mine:?}");
            let last = n + 1 == mine.len();
            assert!(last || !event.3.is_terminal(), "behind the end: {mine:?}");
        }
        mine.iter().map(|e| e.3).collect()
    }
}

fn ollama() -> EngineId {
    EngineId::parse("ollama").unwrap()
}

fn workloads() -> (Arc<Workloads>, Told) {
    let (told, events) = (Told::default(), Arc::new(Events::default()));
    events.join(vec![Box::new(told.clone())]);
    let run = RunId::from_bytes([1; 8]);
    (Arc::new(Workloads::new(run, events)), told)
}

fn admit(all: &Arc<Workloads>, id: u64) -> Arc<Job> {
    all.admit(Admission {
        engine: ollama(),
        id: JobId(id),
        model: "m".into(),
        path: "/api/chat",
        body_bytes: 1,
        created_at: 1,
        arrived: tokio::time::Instant::now(),
        owners: Owners::default(),
        client: None,
    })
}

/// The board with both nodes listed, and both as candidates of a request.
fn board() -> (Arc<Scheduler>, Shortlist) {
    let scheduler = Arc::new(Scheduler::new(Policy::Listed));
    scheduler.apply(snapshot(1));
    let facade = FacadeState::new(ollama(), Arc::new(Alone), scheduler.clone());
    for (id, port) in [("a", 1), ("b", 2)] {
        let new = facade.add_manual(Node {
            id: id.into(),
            host: "127.0.0.1".into(),
            port,
            addresses: vec![],
            txt: vec![],
            models: vec!["m:latest".into()],
            principal: None,
            extra: Extra::default(),
        });
        assert!(new);
    }
    let candidates = facade.routing().view.shortlist(Some("m:latest"));
    assert_eq!(candidates.len(), 2);
    (scheduler, candidates)
}

fn snapshot(generation: u64) -> PrioritySnapshot {
    PrioritySnapshot {
        generation,
        nodes: vec!["a".into(), "b".into()],
        ranks: vec![],
    }
}

/// Chooses as the request path does: the order and the count in one step.
fn choose(scheduler: &Arc<Scheduler>, candidates: &Shortlist) -> (Claim, NodeId) {
    let mut claim = Claim::new(scheduler.clone());
    let mut mine = candidates.clone();
    let ask = Ask {
        engine: ollama(),
        model: "m:latest",
        pin: None,
    };
    scheduler.order(ask, &mut mine, 0, Some(&mut claim));
    (claim, mine.target(0).node.clone())
}

fn is_at_rest(scheduler: &Arc<Scheduler>, candidates: &Shortlist) {
    for node in ["a", "b"] {
        let load = scheduler.load(&node.into());
        assert_eq!(load, Load::default(), "at rest on {node}");
    }
    // A count below zero would show now: one request is exactly one.
    let (mut claim, first) = choose(scheduler, candidates);
    assert_eq!(scheduler.load(&first).estimate(), 1);
    claim.release();
    assert_eq!(scheduler.load(&first), Load::default());
}

#[test]
fn of_all_who_claim_an_attempt_one_has_it() {
    every_order(None, || {
        let fate = Arc::new(Fate::default());
        let gate = spawn({
            let fate = fate.clone();
            move || fate.commit().is_some()
        });
        let watcher = spawn({
            let fate = fate.clone();
            move || fate.abandon()
        });
        let another = fate.abandon();
        let won = [gate.join().unwrap(), watcher.join().unwrap(), another];
        assert_eq!(won.iter().filter(|w| **w).count(), 1, "{won:?}");
        assert!(fate.commit().is_none() && !fate.abandon(), "it stays so");
    });
}

/// Content and the node's leave at the same time, while somebody looks at the workloads: the answer
/// goes out or the request goes on, never both, and its weight is off the board.
#[test]
fn content_and_a_leave_never_both_decide() {
    every_order(Some(3), || {
        let ((all, told), (scheduler, candidates)) = (workloads(), board());
        let job = admit(&all, 1);
        let (mut claim, node) = choose(&scheduler, &candidates);
        job.place(&node, claim.dispatch(&node));
        let (fate, claim) = (Arc::new(Fate::default()), Arc::new(Watched::new(claim)));
        let gate = spawn({
            let (fate, job, claim) = (fate.clone(), job.clone(), claim.clone());
            let node = node.clone();
            move || {
                if fate.commit().is_none() {
                    return false;
                }
                job.start(&node, 200);
                claim.lock().unwrap().release();
                job.finish(End::Relayed { status: 200 }, Some(200), None);
                true
            }
        });
        let watcher = spawn({
            let (fate, job, claim) = (fate.clone(), job.clone(), claim.clone());
            move || {
                if !fate.abandon() {
                    return false;
                }
                job.refused(&node, Failure::TargetGone, "gone".into());
                claim.lock().unwrap().release();
                job.clear();
                true
            }
        });
        let seen = all.counts();
        assert_eq!(seen.queued + seen.running + seen.completed, 1, "one moment");
        let (committed, abandoned) = (gate.join().unwrap(), watcher.join().unwrap());
        assert!(committed != abandoned);
        let states = told.of(1);
        let end = match committed {
            true => &[State::Running, State::Completed][..],
            false => &[State::Queued][..],
        };
        assert_eq!(states[..2], [State::Queued, State::Queued]);
        assert_eq!(&states[2..], end);
        drop(claim);
        is_at_rest(&scheduler, &candidates);
    });
}

/// The end of the answer, the client's leave and our own shutdown, all at once.
#[test]
fn whatever_ends_a_workload_it_ends_once() {
    every_order(Some(3), || {
        let (all, told) = workloads();
        let job = admit(&all, 1);
        let relayed = spawn({
            let job = job.clone();
            move || {
                job.start(&"a".into(), 200);
                job.finish(End::Relayed { status: 200 }, Some(200), None);
            }
        });
        let left = spawn({
            let job = job.clone();
            move || job.finish(End::ClientGone, None, None)
        });
        job.clear();
        job.finish(End::Shutdown, None, None);
        relayed.join().unwrap();
        left.join().unwrap();
        let states = told.of(1);
        assert!(states[states.len() - 1].is_terminal(), "{states:?}");
        let counts = all.counts();
        let ended = counts.completed + counts.failed + counts.cancelled;
        assert_eq!((counts.queued, counts.running, ended), (0, 0, 1));
    });
}

/// Two requests at once beside a reader of all of them: each tells its own story, nobody waits for
/// ever.
#[test]
fn workloads_never_wait_for_each_other_in_a_circle() {
    every_order(Some(2), || {
        let (all, told) = workloads();
        let first = admit(&all, 1);
        let one = spawn(move || {
            first.place(&"a".into(), Load::default());
            first.finish(End::Own("no".into()), Some(502), None);
        });
        let two = spawn({
            let all = all.clone();
            move || {
                let second = admit(&all, 2);
                second.finish(End::ClientGone, None, None);
            }
        });
        let listed = all.list(&WorkloadFilter::default()).len();
        assert!((1..=2).contains(&listed));
        assert_eq!(all.find(Some(ollama()), JobId(1)).len(), 1);
        one.join().unwrap();
        two.join().unwrap();
        use State::{Cancelled, Failed, Queued};
        assert_eq!(told.of(1), [Queued, Queued, Failed]);
        assert_eq!(told.of(2), [Queued, Cancelled]);
        let counts = all.counts();
        assert_eq!((counts.failed, counts.cancelled), (1, 1));
    });
}

/// Choosing and counting are one step, so requests that arrive together spread.
#[test]
fn two_requests_at_once_never_take_the_same_idle_node() {
    every_order(None, || {
        let (scheduler, candidates) = board();
        let other = spawn({
            let (scheduler, candidates) = (scheduler.clone(), candidates.clone());
            move || choose(&scheduler, &candidates)
        });
        let (mine, here) = choose(&scheduler, &candidates);
        let (theirs, there) = other.join().unwrap();
        assert_ne!(here, there);
        drop((mine, theirs));
        is_at_rest(&scheduler, &candidates);
    });
}

/// Requests that move, rest and end while the scheduler's snapshot supersedes their counts.
#[test]
fn no_order_of_requests_and_snapshots_leaves_a_count_behind() {
    every_order(Some(3), || {
        let (scheduler, candidates) = board();
        let request = |to: &'static str| {
            let (scheduler, candidates) = (scheduler.clone(), candidates.clone());
            move || {
                let (mut claim, first) = choose(&scheduler, &candidates);
                claim.dispatch(&first);
                // Refused; on to another one, whichever that is.
                claim.dispatch(&to.into());
                drop(claim);
            }
        };
        let (one, two) = (spawn(request("a")), spawn(request("b")));
        scheduler.apply(snapshot(2));
        one.join().unwrap();
        two.join().unwrap();
        is_at_rest(&scheduler, &candidates);
    });
}

/// Whatever comes between: one probe at a time, and an end that lets the next one through only by
/// what is so after it.
#[test]
fn one_probe_at_a_time_goes_to_a_provider() {
    use interleave::rules::provider::circuit::Pass;
    use interleave::rules::provider::verdict::Verdict;
    use interleave::state::standing::Standing;
    use std::sync::atomic::{AtomicU32, Ordering};

    for end in [None, Some(Verdict::failure("x")), Some(Verdict::Success)] {
        every_order(Some(3), move || {
            let standing = Arc::new(Standing::default());
            standing.limit(10);
            // Not loom's: they are looked at, not met at.
            let (under_way, probes) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
            let ask = |end: Option<Verdict>| {
                let (standing, under_way) = (standing.clone(), under_way.clone());
                let probes = probes.clone();
                move || match standing.admit(10) {
                    Ok(Pass::Probe) => {
                        assert_eq!(
                            under_way.fetch_add(1, Ordering::SeqCst),
                            0,
                            "a second probe"
                        );
                        probes.fetch_add(1, Ordering::SeqCst);
                        loom::thread::yield_now();
                        under_way.fetch_sub(1, Ordering::SeqCst);
                        match end {
                            None => standing.give_back(),
                            Some(verdict) => standing.settle(Pass::Probe, verdict, 10),
                        }
                        true
                    },
                    Ok(Pass::Plain) => false,
                    Err(_) => false,
                }
            };
            let others = [spawn(ask(end.clone())), spawn(ask(end.clone()))];
            ask(end.clone())();
            for other in others {
                other.join().unwrap();
            }
            let probes = probes.load(Ordering::SeqCst);
            assert!(probes >= 1, "nobody was let through");
            if end == Some(Verdict::Success) {
                assert_eq!(probes, 1, "a second probe after it was closed");
                assert_eq!(standing.look(10), Ok(Pass::Plain));
            }
        });
    }
}
