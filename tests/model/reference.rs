//! The specification's sections 5 and 6 in words of our own: slow, plain, and without the rules.
//!
//! Nothing is counted ahead. A request is its story so far (its rounds and how each attempt ended),
//! and every question is answered by reading that story; loads are counted over all requests.

use std::collections::HashMap;
use std::time::Duration;

use super::transition::{FACADES, Kind, Loads, MODELS, NODES, Seen, Sight, Transition};

/// No attempt starts at this age or later.
const DEADLINE: Duration = Duration::from_secs(600);

/// One facade's nodes: what models each has, where it is listed.
#[derive(Default)]
struct Facade {
    relayed: [Option<u8>; NODES as usize],
    manual: [Option<u8>; NODES as usize],
    pin: Option<u8>,
}

impl Facade {
    fn knows(&self, node: u8) -> bool {
        let node = usize::from(node);
        self.relayed[node].is_some() || self.manual[node].is_some()
    }

    /// A relayed record counts before a manual one, but needs trust or a manual one beside it.
    fn models(&self, node: u8, trusted: u8) -> Option<u8> {
        let at = usize::from(node);
        match (self.relayed[at], self.manual[at]) {
            (Some(models), None) => (trusted >> node & 1 == 1).then_some(models),
            (Some(models), Some(_)) => Some(models),
            (None, manual) => manual,
        }
    }
}

/// How an attempt ended, if it did.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Open,
    /// These headers are here, and no content yet.
    Headed(u16),
    Refused(u16),
    /// Lost after its headers for want of content.
    Silent,
    Lost,
    Served(u16),
    /// Gone before anything was sent to it: no attempt.
    Skipped,
}

struct Round {
    owners: Vec<u8>,
    tried: Vec<Fate>,
}

struct Request {
    number: usize,
    facade: u8,
    kind: Kind,
    arrived: Duration,
    rounds: Vec<Round>,
    rests_until: Option<Duration>,
    /// Node and generation of its reservation.
    counted: Option<(u8, u64)>,
    running: Option<u8>,
    told: u64,
    placed: Option<u8>,
    is_workload: bool,
}

impl Request {
    fn dispatches(&self) -> usize {
        let tried = self.rounds.iter().flat_map(|r| &r.tried);
        tried.filter(|fate| **fate != Fate::Skipped).count()
    }

    /// Dispatches that this request may have in all.
    fn allowed(&self) -> usize {
        match self.kind {
            Kind::Other => self.rounds[0].owners.len(),
            _ => 5,
        }
    }

    fn has_model(&self) -> bool {
        matches!(self.kind, Kind::Model(_))
    }

    /// Node and fate of the attempt under way or just over.
    fn attempt(&self) -> Option<(u8, Fate)> {
        let round = self.rounds.last()?;
        let fate = *round.tried.last()?;
        Some((round.owners[round.tried.len() - 1], fate))
    }

    fn set_fate(&mut self, fate: Fate) {
        let round = self.rounds.last_mut().expect("an attempt is in a round");
        *round.tried.last_mut().expect("an attempt was made") = fate;
    }

    fn is_open(&self) -> bool {
        self.rests_until.is_none() && self.attempt().is_some_and(|(_, f)| f == Fate::Open)
    }

    fn is_headed(&self) -> bool {
        let headed = |(_, f)| matches!(f, Fate::Headed(_));
        self.rests_until.is_none() && self.attempt().is_some_and(headed)
    }

    fn is_streaming(&self) -> bool {
        let served = |(_, f)| matches!(f, Fate::Served(_));
        self.attempt().is_some_and(served)
    }

    /// Whether this status is not the end of it (section 5.4).
    fn tries_elsewhere(&self, status: u16) -> bool {
        if self.dispatches() == self.allowed() {
            return false;
        }
        if status == 501 && self.nobody_supports_it() {
            return false;
        }
        let inference = self.kind != Kind::Other;
        matches!(status, 408 | 429 | 500..) || status == 404 && inference
    }

    /// Whether 501 now would make two rounds running in which each owner said 501.
    fn nobody_supports_it(&self) -> bool {
        let held: Vec<_> = self
            .rounds
            .iter()
            .filter(|r| !r.owners.is_empty())
            .collect();
        let [.., before, now] = held[..] else {
            return false;
        };
        let says_501 = |f: &Fate| matches!(f, Fate::Refused(501) | Fate::Skipped);
        let all_501 = |fates: &[Fate]| fates.iter().all(says_501);
        let now_before_this = &now.tried[..now.tried.len() - 1];
        now.tried.len() == now.owners.len() && all_501(&before.tried) && all_501(now_before_this)
    }
}

/// The whole proxy as the specification has it.
pub struct Reference {
    /// By the scheduler's list, or in turns.
    by_list: bool,
    /// How far each node's turn has come, by facade and model (product section 7).
    turns: HashMap<(u8, Option<u8>), [i64; NODES as usize]>,
    facades: [Facade; FACADES as usize],
    trusted: u8,
    now: Duration,
    generation: u64,
    list: Vec<u8>,
    loads: [(u64, u64); NODES as usize],
    requests: Vec<Request>,
    arrived: usize,
    seen: Vec<Sight>,
}

impl Reference {
    pub fn new(by_list: bool) -> Self {
        Self {
            by_list,
            turns: HashMap::new(),
            facades: Default::default(),
            trusted: 0,
            now: Duration::ZERO,
            generation: 0,
            list: vec![],
            loads: Default::default(),
            requests: vec![],
            arrived: 0,
            seen: vec![],
        }
    }

    /// What has to be seen of this transition. Of time, only the end of it: rests are ended by
    /// [`Self::wake`].
    pub fn apply(&mut self, t: &Transition) -> Vec<Sight> {
        match t {
            Transition::Arrive {
                facade,
                kind,
                upload,
            } => self.arrive(*facade, *kind, *upload),
            Transition::Advance { .. } => {},
            Transition::Headers { pick, status } => {
                if let Some(i) = self.nth(*pick, Request::is_open) {
                    self.headers(i, *status);
                }
            },
            Transition::Content { pick } => {
                if let Some(i) = self.nth(*pick, Request::is_headed) {
                    self.commit(i);
                }
            },
            Transition::Finish { pick } => {
                if let Some(i) = self.nth(*pick, |r| r.is_headed() || r.is_streaming()) {
                    if self.requests[i].is_headed() {
                        self.commit(i);
                    }
                    self.relayed(i);
                }
            },
            Transition::Lose { pick, stalled } => self.lose(*pick, *stalled),
            Transition::Leave { pick, .. } => {
                if let Some(i) = self.nth(*pick, |_| true) {
                    self.end(i, "cancelled");
                }
            },
            Transition::Discover {
                facade,
                present,
                models,
            } => {
                let f = &mut self.facades[usize::from(*facade)];
                for node in 0..NODES {
                    let has = (models >> (node * MODELS)) as u8 & ((1 << MODELS) - 1);
                    let listed = present >> node & 1 == 1;
                    f.relayed[usize::from(node)] = listed.then_some(has);
                }
                f.pin = f.pin.filter(|n| f.knows(*n));
            },
            Transition::Manual {
                facade,
                node,
                models,
            } => {
                let f = &mut self.facades[usize::from(*facade)];
                let had = f.manual[usize::from(*node)].is_some();
                f.manual[usize::from(*node)] = *models;
                if models.is_none() && had && f.pin == Some(*node) {
                    f.pin = None;
                }
            },
            Transition::Trust { nodes } => self.trusted = *nodes,
            Transition::Pin { facade, node } => {
                let f = &mut self.facades[usize::from(*facade)];
                if node.is_none_or(|n| f.knows(n)) {
                    f.pin = *node;
                }
            },
            Transition::Snapshot { step, list, loads } => self.snapshot(*step, list, *loads),
            Transition::Shutdown => {
                while !self.requests.is_empty() {
                    self.end(0, "cancelled");
                }
            },
        }
        self.targets_that_left();
        std::mem::take(&mut self.seen)
    }

    /// It is later now.
    pub fn set_time(&mut self, now: Duration) {
        self.now = now;
    }

    /// The moment at which this request said it would wake.
    pub fn rests_until(&mut self, number: usize, moment: Duration) {
        let rests = self.requests.iter_mut().find(|r| r.number == number);
        rests.expect("it rests").rests_until = Some(moment);
    }

    /// A rest is over.
    pub fn wake(&mut self, number: usize) -> Vec<Sight> {
        let found = self.requests.iter().position(|r| r.number == number);
        if let Some(i) = found {
            assert_eq!(self.requests[i].rests_until.take(), Some(self.now));
            if self.too_late(i) {
                self.out_of_time(i);
            } else {
                self.new_round(i);
            }
        }
        self.targets_that_left();
        std::mem::take(&mut self.seen)
    }

    /// Load of a node, counted anew.
    pub fn load(&self, node: u8) -> Loads {
        let (pending, pressure) = self.loads[usize::from(node)];
        let running = |r: &&Request| r.running == Some(node);
        let in_flight = self.requests.iter().filter(running).count() as u64;
        [pending, pressure, self.reserved(node), in_flight]
    }

    fn reserved(&self, node: u8) -> u64 {
        let counts = |r: &&Request| r.counted == Some((node, self.generation));
        self.requests.iter().filter(counts).count() as u64
    }

    fn nth(&self, pick: u8, fits: impl Fn(&Request) -> bool) -> Option<usize> {
        let all: Vec<_> = (0..self.requests.len())
            .filter(|i| fits(&self.requests[*i]))
            .collect();
        (!all.is_empty()).then(|| all[usize::from(pick) % all.len()])
    }

    fn see(&mut self, i: usize, seen: Seen) {
        self.seen.push((self.requests[i].number, seen));
    }

    fn tell(&mut self, i: usize, event: &'static str, state: &'static str) {
        let r = &mut self.requests[i];
        if !r.is_workload {
            return;
        }
        r.told += 1;
        let (seq, node) = (r.told, r.placed);
        self.see(
            i,
            Seen::Told {
                seq,
                event,
                state,
                node,
            },
        );
    }

    fn arrive(&mut self, facade: u8, kind: Kind, upload: u64) {
        self.arrived += 1;
        self.requests.push(Request {
            number: self.arrived,
            facade,
            kind,
            arrived: self.now.saturating_sub(Duration::from_secs(upload)),
            rounds: vec![],
            rests_until: None,
            counted: None,
            running: None,
            told: 0,
            placed: None,
            is_workload: false,
        });
        self.new_round(self.requests.len() - 1);
    }

    fn too_late(&self, i: usize) -> bool {
        let r = &self.requests[i];
        r.kind != Kind::Other && self.now - r.arrived >= DEADLINE
    }

    /// Section 5, steps 1 to 3.
    fn owners(&self, facade: u8, kind: Kind) -> Vec<u8> {
        let f = &self.facades[usize::from(facade)];
        let serves = |node: &u8| {
            let models = f.models(*node, self.trusted);
            models.is_some_and(|models| match kind {
                Kind::Model(m) => models >> m & 1 == 1,
                _ => true,
            })
        };
        let mut order: Vec<u8> = (0..NODES).filter(serves).collect();
        if self.by_list {
            let place = |n: &u8| self.list.iter().position(|l| l == n);
            order.sort_by_key(|n| place(n).unwrap_or(usize::MAX));
        }
        let pin = f.pin.filter(|p| order.contains(p));
        let listed = order.iter().filter(|n| self.list.contains(n));
        let lightest = listed.min_by_key(|n| {
            let (pending, pressure) = self.loads[usize::from(**n)];
            pending + pressure + self.reserved(**n)
        });
        let first = pin.or(lightest.copied().filter(|_| self.by_list));
        if let Some(first) = first {
            order.retain(|n| *n != first);
            order.insert(0, first);
        }
        order
    }

    /// Whose turn it is among these. Each node has one slot: one that is idle goes before one that is
    /// not, and of the idle ones everybody moves on by a weight of 100 that is shared with what waits
    /// there; who is furthest goes back by all of these weights.
    fn turn(&mut self, facade: u8, kind: Kind, among: &[u8]) -> usize {
        let loads: Vec<_> = among.iter().map(|n| self.load(*n)).collect();
        let busy = |[_, _, reserved, in_flight]: &Loads| *reserved.max(in_flight);
        let waits = |[pending, pressure, ..]: &Loads| pending + pressure;
        if loads.iter().all(|l| busy(l) > 0) {
            let least = (0..among.len()).min_by_key(|i| busy(&loads[*i]) + waits(&loads[*i]));
            return least.expect("somebody is there");
        }
        let model = match kind {
            Kind::Model(m) => Some(m),
            _ => None,
        };
        let turns = self.turns.entry((facade, model)).or_default();
        let weight = |l: &Loads| ((100.0 / (1 + waits(l)) as f64).round() as i64).max(1);
        let idle: Vec<_> = (0..among.len()).filter(|i| busy(&loads[*i]) == 0).collect();
        for i in &idle {
            turns[usize::from(among[*i])] += weight(&loads[*i]);
        }
        let furthest = idle
            .iter()
            .rev()
            .max_by_key(|i| turns[usize::from(among[**i])]);
        let furthest = *furthest.expect("somebody is idle");
        let all: i64 = idle.iter().map(|i| weight(&loads[*i])).sum();
        turns[usize::from(among[furthest])] -= all;
        furthest
    }

    fn new_round(&mut self, i: usize) {
        self.requests[i].counted = None;
        let (facade, kind) = (self.requests[i].facade, self.requests[i].kind);
        let mut owners = self.owners(facade, kind);
        let nobody = owners.is_empty();
        let pin = self.facades[usize::from(facade)].pin;
        if !self.by_list && !nobody && pin != Some(owners[0]) {
            let next = self.turn(facade, kind, &owners);
            owners[..=next].rotate_right(1);
        }
        if let Some(first) = owners.first().copied() {
            let pinned = self.facades[usize::from(facade)].pin == Some(first);
            let weighed = !self.by_list || self.list.contains(&first);
            if self.requests[i].has_model() && !pinned && weighed {
                self.requests[i].counted = Some((first, self.generation));
            }
            if self.requests[i].has_model() && !self.requests[i].is_workload {
                self.requests[i].is_workload = true;
                self.tell(i, "submitted", "queued");
            }
        }
        self.requests[i].rounds.push(Round {
            owners,
            tried: vec![],
        });
        if !nobody {
            self.next_attempt(i);
        } else if self.requests[i].dispatches() == 0 {
            self.answer(i, 502, "nobody");
        } else {
            self.rest(i);
        }
    }

    fn next_attempt(&mut self, i: usize) {
        if self.too_late(i) {
            return self.out_of_time(i);
        }
        let (facade, kind) = (self.requests[i].facade, self.requests[i].kind);
        let round = self.requests[i].rounds.last();
        let round = round.expect("a round was resolved");
        let tried = round.tried.len();
        let rest = round.owners[tried..].to_vec();
        if rest.is_empty() {
            return self.rest(i);
        }
        if !self.by_list && tried > 0 {
            let next = tried + self.turn(facade, kind, &rest);
            let round = self.requests[i].rounds.last_mut();
            round.expect("checked above").owners[tried..=next].rotate_right(1);
        }
        let round = self.requests[i].rounds.last();
        let node = round.expect("checked above").owners[tried];
        let generation = self.generation;
        let r = &mut self.requests[i];
        let tried = &mut r.rounds.last_mut().expect("checked above").tried;
        if r.kind != Kind::Other && !self.facades[usize::from(r.facade)].knows(node) {
            tried.push(Fate::Skipped);
            return self.next_attempt(i);
        }
        tried.push(Fate::Open);
        if let Some(counted) = &mut r.counted
            && counted.0 != node
        {
            *counted = (node, generation);
        }
        if r.has_model() {
            r.running = Some(node);
        }
        let last = r.dispatches() == r.allowed();
        if r.placed != Some(node) {
            r.placed = Some(node);
            self.tell(i, "submitted", "queued");
        }
        self.see(i, Seen::Sent { node, last });
    }

    /// Section 5.1: between rounds nothing runs, so nothing is placed and nothing is counted.
    fn rest(&mut self, i: usize) {
        let r = &mut self.requests[i];
        (r.counted, r.running) = (None, None);
        if r.placed.take().is_some() {
            self.tell(i, "submitted", "queued");
        }
        let r = &self.requests[i];
        let step = [1000, 1000, 2000, 4000, 8000, 8000][r.dispatches()];
        let left = DEADLINE.saturating_sub(self.now - r.arrived);
        let span = |percent: u64| self.now + Duration::from_millis(step * percent / 100).min(left);
        let (from, to) = (span(75), span(125));
        self.see(i, Seen::Rests { from, to });
    }

    fn out_of_time(&mut self, i: usize) {
        let rounds = &self.requests[i].rounds;
        let nobody = rounds.last().is_some_and(|r| r.owners.is_empty());
        self.answer(i, 503, if nobody { "no owner" } else { "deadline" });
    }

    fn headers(&mut self, i: usize, status: u16) {
        if self.requests[i].tries_elsewhere(status) {
            self.requests[i].set_fate(Fate::Refused(status));
            self.see(
                i,
                Seen::Lost {
                    status: Some(status),
                },
            );
            return self.next_attempt(i);
        }
        self.requests[i].set_fate(Fate::Headed(status));
        // The gate is for inference only (section 5.2).
        if self.requests[i].kind == Kind::Other {
            self.commit(i);
        }
    }

    fn commit(&mut self, i: usize) {
        let Some((node, Fate::Headed(status))) = self.requests[i].attempt() else {
            panic!("only an answer can commit");
        };
        self.requests[i].set_fate(Fate::Served(status));
        self.see(i, Seen::Commits { node, status });
        self.requests[i].placed = Some(node);
        self.tell(i, "started", "running");
    }

    fn relayed(&mut self, i: usize) {
        let served = self.requests[i].attempt().map(|(_, fate)| fate);
        let well = matches!(served, Some(Fate::Served(..300)));
        self.end(i, if well { "completed" } else { "failed" });
    }

    fn lose(&mut self, pick: u8, stalled: bool) {
        let attempts = |r: &Request| r.is_open() || r.is_headed() || r.is_streaming();
        let Some(i) = self.nth(pick, attempts) else {
            return;
        };
        // What was committed is the caller's to finish with (section 1.1).
        if self.requests[i].is_streaming() {
            return self.relayed(i);
        }
        let silent = self.requests[i].is_headed() && stalled;
        self.lost(i, if silent { Fate::Silent } else { Fate::Lost });
    }

    fn lost(&mut self, i: usize, fate: Fate) {
        self.requests[i].set_fate(fate);
        self.see(i, Seen::Lost { status: None });
        if self.requests[i].dispatches() < self.requests[i].allowed() {
            self.next_attempt(i);
        } else if fate == Fate::Silent {
            self.answer(i, 504, "attempt");
        } else {
            self.answer(i, 502, "attempt");
        }
    }

    fn answer(&mut self, i: usize, status: u16, why: &'static str) {
        self.see(i, Seen::Answers { status, why });
        self.end(i, "failed");
    }

    fn end(&mut self, i: usize, state: &'static str) {
        let event = if state == "completed" {
            "completed"
        } else {
            "errored"
        };
        self.tell(i, event, state);
        self.see(i, Seen::Ends);
        self.requests.remove(i);
    }

    /// Section 5.3: an attempt whose target left discovery is lost, until it commits.
    fn targets_that_left(&mut self) {
        let left = |r: &Request| {
            let knows = |n| self.facades[usize::from(r.facade)].knows(n);
            (r.is_open() || r.is_headed()) && r.attempt().is_some_and(|(n, _)| !knows(n))
        };
        if let Some(i) = self.requests.iter().position(left) {
            self.lost(i, Fate::Lost);
            self.targets_that_left();
        }
    }

    /// Section 6: a newer snapshot is everything that is known; any other changes nothing.
    fn snapshot(&mut self, step: i8, list: &[u8], loads: u16) {
        let generation = self.generation.saturating_add_signed(step.into());
        if generation <= self.generation {
            return;
        }
        self.generation = generation;
        self.list = list.to_vec();
        for (node, load) in self.loads.iter_mut().enumerate() {
            let three = u64::from(loads >> (3 * node) & 7);
            *load = (three, (three * 2).min(3));
        }
    }
}
