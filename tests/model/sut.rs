//! The real rules under a virtual clock: what carries requests in `facade`, without bytes.
//!
//! Nodes, pins and owners come from `state::facade`, loads from `state::scheduler`, events from
//! `state::workloads`, decisions from `rules::dispatch` and `rules::outcome`. Only the carrying out
//! is here, as `facade::exchange` does it.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nvpair_proxy::rules::discovery::{Extra, Node};
use nvpair_proxy::rules::dispatch::{Action, Answer, Dispatch, Event, Exhausted, Verdict};
use nvpair_proxy::rules::engine::EngineId;
use nvpair_proxy::rules::ids::{JobId, NodeId, RunId};
use nvpair_proxy::rules::outcome::{Effort, End, Failure};
use nvpair_proxy::rules::policy::{Ask, Policy};
use nvpair_proxy::rules::shortlist::Shortlist;
use nvpair_proxy::state::command::{PrioritySnapshot, Rank};
use nvpair_proxy::state::events::{Events, Notice, Sink, WorkloadNotice};
use nvpair_proxy::state::facade::{FacadeState, Surroundings};
use nvpair_proxy::state::scheduler::{Claim, Scheduler};
use nvpair_proxy::state::workloads::{Admission, Job, Owners, Workloads};
use tokio::time::Instant;

use super::transition::{Dice, Kind, Live, Loads, MODELS, NODES, Seen, Sight, Transition};

/// What was seen, in order; workload events come here by themselves.
#[derive(Clone, Default)]
struct Sights(Arc<Mutex<Vec<Sight>>>);

impl Sights {
    fn push(&self, request: usize, seen: Seen) {
        self.0.lock().unwrap().push((request, seen));
    }
}

impl Sink for Sights {
    fn notice(&self, notice: &Notice) {
        let Notice::Workload(kind, info) = notice else {
            return;
        };
        let event = match kind {
            WorkloadNotice::Submitted => "submitted",
            WorkloadNotice::Started => "started",
            WorkloadNotice::Completed => "completed",
            WorkloadNotice::Errored => "errored",
        };
        let seen = Seen::Told {
            seq: info.seq,
            event,
            state: info.state.as_str(),
            node: info.scheduled_on.as_ref().map(number),
        };
        self.push(info.id.parse().unwrap(), seen);
    }
}

/// Pins on disk, a bit a node.
struct Cluster(AtomicU8);

impl Surroundings for Cluster {
    fn is_ours(&self, _: IpAddr) -> bool {
        false
    }

    fn is_pinned(&self, principal: &str) -> bool {
        self.0.load(Ordering::Relaxed) >> number(&principal.into()) & 1 == 1
    }

    // The pins themselves: another set is another generation.
    fn generation(&self) -> u64 {
        u64::from(self.0.load(Ordering::Relaxed))
    }
}

fn id(node: u8) -> NodeId {
    char::from(b'a' + node).to_string().into()
}

fn number(id: &NodeId) -> u8 {
    id.as_str().as_bytes()[0] - b'a'
}

/// A node with these models; the first is told with its tag where that is the same.
fn node(facade: u8, n: u8, models: u8, relayed: bool) -> Node {
    let name = |m: u8| match (facade, m) {
        (0, 0) => "m0:latest".to_owned(),
        _ => format!("m{m}"),
    };
    let has = |m: &u8| models >> m & 1 == 1;
    Node {
        id: id(n),
        host: format!("host{n}"),
        port: 5000,
        addresses: vec![format!("192.0.2.{}", n + 1)],
        txt: vec![],
        models: (0..MODELS).filter(has).map(name).collect(),
        principal: relayed.then(|| id(n).to_string()),
        extra: Extra::default(),
    }
}

enum Phase {
    Sent,
    Headed(u16),
    Streaming(u16),
    Resting(Duration),
}

struct Request {
    number: usize,
    facade: u8,
    effort: Effort,
    model: Option<String>,
    arrived: Duration,
    machine: Dispatch,
    candidates: Shortlist,
    claim: Claim,
    job: Option<Arc<Job>>,
    phase: Phase,
    on: Option<NodeId>,
}

impl Request {
    fn finish(mut self, end: End, sights: &Sights) {
        self.claim.release();
        if let Some(job) = self.job.take() {
            job.finish(end, None, None);
        }
        sights.push(self.number, Seen::Ends);
    }
}

/// The rules and what they decide about.
pub struct Sut {
    facades: [Arc<FacadeState>; 2],
    cluster: Arc<Cluster>,
    scheduler: Arc<Scheduler>,
    workloads: Arc<Workloads>,
    sights: Sights,
    now: Duration,
    requests: Vec<Request>,
    arrived: usize,
}

impl Sut {
    pub fn new(policy: Policy) -> Self {
        let (sights, events) = (Sights::default(), Arc::new(Events::default()));
        events.join(vec![Box::new(sights.clone())]);
        let cluster = Arc::new(Cluster(AtomicU8::new(0)));
        let scheduler = Arc::new(Scheduler::new(policy));
        let facades = ["ollama", "llamacpp"].map(|engine| {
            let engine = EngineId::parse(engine).unwrap();
            let facade = FacadeState::new(engine, cluster.clone(), scheduler.clone());
            facade.opened(4000, 0);
            Arc::new(facade)
        });
        Self {
            facades,
            cluster,
            scheduler,
            workloads: Arc::new(Workloads::new(RunId::from_bytes([7; 8]), events)),
            sights,
            now: Duration::ZERO,
            requests: vec![],
            arrived: 0,
        }
    }

    /// What there is for things to happen to.
    pub fn live(&self) -> Live {
        let mut live = Live::default();
        for r in &self.requests {
            match r.phase {
                Phase::Sent => live.sent += 1,
                Phase::Headed(_) => live.headed += 1,
                Phase::Streaming(_) => live.streaming += 1,
                Phase::Resting(_) => live.resting += 1,
            }
        }
        live
    }

    pub fn load(&self, node: u8) -> Loads {
        let load = self.scheduler.load(&id(node));
        [load.pending, load.pressure, load.reserved, load.in_flight]
    }

    pub fn now(&self) -> Duration {
        self.now
    }

    pub fn set_time(&mut self, now: Duration) {
        self.now = now;
    }

    /// The next end of a rest, and whose.
    pub fn next_wake(&self) -> Option<(Duration, usize)> {
        let rests = self.requests.iter().filter_map(|r| match r.phase {
            Phase::Resting(until) => Some((until, r.number)),
            _ => None,
        });
        rests.min()
    }

    /// A rest is over.
    pub fn wake(&mut self, number: usize) -> Vec<Sight> {
        if let Some(i) = self.requests.iter().position(|r| r.number == number) {
            self.on(i, Event::Woke);
        }
        self.settle()
    }

    /// Lets it happen; what was seen.
    pub fn apply(&mut self, t: &Transition) -> Vec<Sight> {
        match t {
            Transition::Arrive {
                facade,
                kind,
                upload,
            } => self.arrive(*facade, *kind, *upload),
            Transition::Advance { .. } => {},
            Transition::Headers { pick, status } => {
                if let Some(i) = self.nth(*pick, |p| matches!(p, Phase::Sent)) {
                    self.headers(i, *status);
                }
            },
            Transition::Content { pick } => {
                if let Some(i) = self.nth(*pick, |p| matches!(p, Phase::Headed(_))) {
                    self.commit(i);
                }
            },
            Transition::Finish { pick } => {
                let answers = |p: &Phase| matches!(p, Phase::Headed(_) | Phase::Streaming(_));
                if let Some(i) = self.nth(*pick, answers) {
                    self.commit(i);
                    self.relayed(i);
                }
            },
            Transition::Lose { pick, stalled } => self.lose(*pick, *stalled),
            Transition::Leave { pick, writing } => {
                if let Some(i) = self.nth(*pick, |_| true) {
                    let dead = || End::ClientDead("reset".into());
                    self.end(i, if *writing { dead() } else { End::ClientGone });
                }
            },
            Transition::Shutdown => {
                while !self.requests.is_empty() {
                    self.end(0, End::Shutdown);
                }
            },
            Transition::Snapshot { step, list, loads } => self.snapshot(*step, list, *loads),
            _ => self.nodes_change(t),
        }
        self.settle()
    }

    fn nodes_change(&mut self, t: &Transition) {
        match t {
            Transition::Discover {
                facade,
                present,
                models,
            } => {
                let listed = (0..NODES).filter(|n| present >> n & 1 == 1);
                let record = |n: u8| node(*facade, n, (models >> (n * MODELS)) as u8, true);
                self.facades[usize::from(*facade)].snapshot(listed.map(record).collect());
            },
            Transition::Manual {
                facade,
                node: n,
                models,
            } => {
                let state = &self.facades[usize::from(*facade)];
                match models {
                    Some(models) => drop(state.add_manual(node(*facade, *n, *models, false))),
                    None => drop(state.remove_manual(&id(*n))),
                }
            },
            Transition::Trust { nodes } => {
                self.cluster.0.store(*nodes, Ordering::Relaxed);
                for facade in &self.facades {
                    facade.refresh();
                }
            },
            Transition::Pin { facade, node } => {
                // An unknown node is refused, which is no change.
                let _refused = self.facades[usize::from(*facade)].select(node.map(id));
            },
            _ => unreachable!("the others are no change of nodes"),
        }
    }

    fn nth(&self, pick: u8, fits: impl Fn(&Phase) -> bool) -> Option<usize> {
        let fitting = || (0..self.requests.len()).filter(|i| fits(&self.requests[*i].phase));
        let count = fitting().count();
        fitting().nth(usize::from(pick).checked_rem(count)?)
    }

    /// Attempts whose target left discovery are lost; then all that was seen.
    fn settle(&mut self) -> Vec<Sight> {
        loop {
            let left = self.requests.iter().position(|r| {
                let routing = self.facades[usize::from(r.facade)].routing();
                let uncommitted = matches!(r.phase, Phase::Sent | Phase::Headed(_));
                uncommitted && r.on.as_ref().is_some_and(|n| !routing.knows(n))
            });
            match left {
                Some(i) => self.lost(i, Failure::TargetGone),
                None => return std::mem::take(&mut self.sights.0.lock().unwrap()),
            }
        }
    }

    fn arrive(&mut self, facade: u8, kind: Kind, upload: u64) {
        self.arrived += 1;
        let (effort, model) = match kind {
            Kind::Model(m) => (Effort::Budget, Some(format!("m{m}"))),
            Kind::Unnamed => (Effort::Budget, None),
            Kind::Other => (Effort::OnePass, None),
        };
        let (machine, first) = Dispatch::new(effort);
        self.requests.push(Request {
            number: self.arrived,
            facade,
            effort,
            model,
            arrived: self.now.saturating_sub(Duration::from_secs(upload)),
            machine,
            candidates: Shortlist::default(),
            claim: Claim::new(self.scheduler.clone()),
            job: None,
            phase: Phase::Sent,
            on: None,
        });
        self.carry_out(self.requests.len() - 1, first);
    }

    fn on(&mut self, i: usize, event: Event) {
        let r = &mut self.requests[i];
        let age = self.now - r.arrived;
        let roll = Dice::new(r.number as u64 ^ (self.now.as_nanos() as u64) << 8).below(1001);
        let action = r.machine.on(event, age, roll as f64 / 1000.0);
        self.carry_out(i, action);
    }

    fn carry_out(&mut self, i: usize, action: Action) {
        match action {
            Action::Resolve => {
                let candidates = self.resolve(i);
                let held = false;
                self.on(i, Event::Resolved { candidates, held });
            },
            Action::Send { candidate, last } => self.send(i, candidate, last),
            Action::Wait(pause) => {
                let r = &mut self.requests[i];
                r.claim.release();
                if let Some(job) = &r.job {
                    job.clear();
                }
                let until = self.now + pause;
                r.phase = Phase::Resting(until);
                let (from, to) = (until, until);
                self.sights.push(r.number, Seen::Rests { from, to });
            },
            Action::Answer(answer) => {
                let (status, why) = match answer {
                    Answer::NoCandidate => (502, "nobody"),
                    Answer::TooLong { .. } => unreachable!("there is no pool here"),
                    Answer::NotGranted | Answer::OverLimit(_) => {
                        unreachable!("there are no keys here")
                    },
                    Answer::Attempt(Failure::NoContent) => (504, "attempt"),
                    Answer::Attempt(_) => (502, "attempt"),
                    Answer::Exhausted(Exhausted::Deadline) => (503, "deadline"),
                    Answer::Exhausted(Exhausted::NoOwner) => (503, "no owner"),
                    Answer::Exhausted(Exhausted::Attempts) => (503, "attempts"),
                    Answer::Exhausted(Exhausted::Busy | Exhausted::StoreDown) => {
                        unreachable!("there is no pool here")
                    },
                };
                let number = self.requests[i].number;
                self.sights.push(number, Seen::Answers { status, why });
                self.end(i, End::Own(why.into()));
            },
        }
    }

    fn resolve(&mut self, i: usize) -> usize {
        let r = &mut self.requests[i];
        let facade = &self.facades[usize::from(r.facade)];
        let routing = facade.routing();
        let naming = facade.engine().spec().naming;
        let model = r.model.as_ref().map(|m| naming.normalize(m));
        r.candidates = routing.view.shortlist(model.as_deref());
        let claim = r.model.is_some().then_some(&mut r.claim);
        let ask = Ask {
            engine: facade.engine(),
            model: model.as_deref().unwrap_or_default(),
            pin: routing.pin.as_ref(),
        };
        self.scheduler.order(ask, &mut r.candidates, 0, claim);
        if routing.view.shares_addresses() {
            r.candidates.drop_shared();
        }
        if let Some(model) = &r.model
            && r.job.is_none()
            && !r.candidates.is_empty()
        {
            r.job = Some(self.workloads.admit(Admission {
                engine: facade.engine(),
                id: JobId(r.number as u64),
                model: model.clone(),
                path: "/v1/chat/completions",
                body_bytes: 1,
                created_at: 1,
                arrived: Instant::now(),
                owners: Owners::default(),
                client: None,
            }));
        }
        r.candidates.len()
    }

    fn send(&mut self, i: usize, candidate: usize, last: bool) {
        let r = &mut self.requests[i];
        let facade = &self.facades[usize::from(r.facade)];
        let naming = facade.engine().spec().naming;
        let model = r.model.as_ref().map(|m| naming.normalize(m));
        if candidate > 0 {
            let ask = Ask {
                engine: facade.engine(),
                model: model.as_deref().unwrap_or_default(),
                pin: None,
            };
            let rest = candidate..r.candidates.len();
            self.scheduler.next(ask, &mut r.candidates, rest);
        }
        let target = r.candidates.target(candidate).node.clone();
        let routing = self.facades[usize::from(r.facade)].routing();
        if r.effort == Effort::Budget && !routing.knows(&target) {
            return self.on(i, Event::Gone);
        }
        if let Some(job) = &r.job {
            let load = r.claim.dispatch(&target);
            job.place(&target, load);
        }
        let node = number(&target);
        self.sights.push(r.number, Seen::Sent { node, last });
        r.on = Some(target);
        r.phase = Phase::Sent;
    }

    fn headers(&mut self, i: usize, status: u16) {
        let r = &mut self.requests[i];
        if r.machine.judge(status) == Verdict::Retry {
            return self.lost(i, Failure::Status(status));
        }
        r.phase = Phase::Headed(status);
        if r.effort == Effort::OnePass {
            self.commit(i);
        }
    }

    fn commit(&mut self, i: usize) {
        let r = &mut self.requests[i];
        let (Phase::Headed(status), Some(target)) = (&r.phase, &r.on) else {
            return;
        };
        let (status, node) = (*status, number(target));
        self.sights.push(r.number, Seen::Commits { node, status });
        if let Some(job) = &r.job {
            job.start(target, status);
        }
        r.phase = Phase::Streaming(status);
    }

    fn relayed(&mut self, i: usize) {
        if let Phase::Streaming(status) = self.requests[i].phase {
            self.end(i, End::Relayed { status });
        }
    }

    fn lose(&mut self, pick: u8, stalled: bool) {
        let Some(i) = self.nth(pick, |p| !matches!(p, Phase::Resting(_))) else {
            return;
        };
        match (&self.requests[i].phase, stalled) {
            (Phase::Sent, true) => self.lost(i, Failure::NoHeaders),
            (Phase::Sent, false) => self.lost(i, Failure::Transport),
            (Phase::Headed(_), true) => self.lost(i, Failure::NoContent),
            (Phase::Headed(_), false) => self.lost(i, Failure::Broken),
            _ => self.relayed(i),
        }
    }

    fn lost(&mut self, i: usize, failure: Failure) {
        let status = match failure {
            Failure::Status(status) => Some(status),
            _ => None,
        };
        let r = &self.requests[i];
        self.sights.push(r.number, Seen::Lost { status });
        if let (Some(job), Some(node)) = (&r.job, &r.on) {
            job.refused(node, failure, failure.text().into());
        }
        self.on(i, Event::Failed(failure));
    }

    fn end(&mut self, i: usize, end: End) {
        self.requests.remove(i).finish(end, &self.sights);
    }

    fn snapshot(&mut self, step: i8, list: &[u8], loads: u16) {
        let generation = self.scheduler.snapshot().0.0;
        let rank = |n: u8| {
            let three = u64::from(loads >> (3 * n) & 7);
            Rank {
                id: id(n),
                pending: three,
                gpu_pressure: three * 2,
            }
        };
        self.scheduler.apply(PrioritySnapshot {
            generation: generation.saturating_add_signed(step.into()),
            nodes: list.iter().map(|n| id(*n)).collect(),
            ranks: (0..NODES).map(rank).collect(),
        });
    }
}
