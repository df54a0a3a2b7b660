//! A request's way through its attempts: the one driver of `rules::dispatch`.
//!
//! Owns: carrying out the machine's actions, candidates, the account of each attempt, the answer
//! when none succeeded. Leaves to others: the decisions (`rules`), sending one attempt ([`Lane`]:
//! `exchange` through the HTTP library, `express` on plain sockets).

mod unserved;

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};

use crate::net::answers;
use crate::rules::budget::Cap;
use crate::rules::candidates::{Candidate, Target};
use crate::rules::demand::Demand;
use crate::rules::dispatch::{Action, Answer, Dispatch, Event, Verdict, Withheld};
use crate::rules::gate::GateMode;
use crate::rules::ids::JobId;
use crate::rules::outcome::{Effort, Failure};
use crate::rules::policy::Ask;
use crate::rules::route::dialect;
use crate::rules::shortlist::Shortlist;
use crate::state::chain::{self, Asker, Wanted};
use crate::state::fate::Commit;
use crate::state::pool::Place;
use crate::state::providers::{Provider, Rest};
use crate::state::workloads::Owners;

use super::report::{Held, Report};

/// What makes an inference request a workload.
pub struct Model {
    /// Its name as requested.
    pub name: String,
    /// Path of the route it came on.
    pub path: &'static str,
}

/// What an attempt is held to.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Wait for headers, and again for first content.
    pub response: Cap,
    /// Which bytes commit.
    pub gate: GateMode,
}

/// A lost attempt.
pub struct Lost {
    /// How.
    pub failure: Failure,
    /// In words, for the timeline; never content.
    pub detail: String,
    /// What a provider said with a status, of its limits among other things.
    pub headers: Option<Box<HeaderMap>>,
}

impl From<Failure> for Lost {
    fn from(failure: Failure) -> Self {
        let detail = match failure {
            Failure::Status(status) => format!("HTTP {status}"),
            other => other.text().to_owned(),
        };
        Self {
            failure,
            detail,
            headers: None,
        }
    }
}

/// Sends attempts.
pub trait Lane {
    /// What a committed attempt leaves to be streamed.
    type Committed;

    /// Tokens that its request may need, estimated.
    fn demand(&self) -> Demand;

    /// One attempt, up to its commit and the claim of it.
    fn attempt(
        &mut self,
        round: &mut Round,
        to: &Candidate,
    ) -> impl Future<Output = Result<(Self::Committed, Commit), Lost>> + Send;
}

/// One request on its way.
pub struct Round {
    /// Its account.
    pub report: Report,
    /// Its attempts.
    pub machine: Dispatch,
    /// Whether it has a retry budget.
    pub effort: Effort,
    /// The model, where it decides.
    model: Option<Model>,
    body_bytes: u64,
    /// Tokens that it may need, once somebody wanted to know.
    demand: Option<Demand>,
    /// Its body can be sent once only.
    once: bool,
    candidates: Shortlist,
    /// Where each link's candidates end.
    ends: Vec<usize>,
    /// The providers among them.
    providers: Vec<Arc<Provider>>,
    /// How long the one rests that rests shortest, where nobody takes the request.
    rest: Option<Duration>,
}

impl Round {
    /// A request whose body is read, and what to do first.
    pub fn new(
        report: Report,
        effort: Effort,
        model: Option<Model>,
        body_bytes: u64,
        once: bool,
    ) -> (Self, Action) {
        let is_chain = report.facade().state.engine().is_gateway() && effort == Effort::Budget;
        let (machine, first) = match is_chain {
            true => Dispatch::along_chain(),
            false => Dispatch::new(effort),
        };
        let new = Self {
            report,
            machine,
            effort,
            model,
            body_bytes,
            demand: None,
            once,
            candidates: Shortlist::default(),
            ends: Vec::new(),
            providers: Vec::new(),
            rest: None,
        };
        (new, first)
    }

    /// Runs it until an attempt commits, or the machine says how to answer.
    pub async fn drive<L: Lane>(
        &mut self,
        lane: &mut L,
        mut action: Action,
    ) -> Result<(Arc<Target>, L::Committed, Commit), Answer> {
        loop {
            let event = match action {
                Action::Resolve => self.resolve(lane)?,
                Action::Send { candidate, .. } if !self.stays(candidate) => Event::Gone,
                Action::Send { candidate, last } => {
                    if let Err(why) = self.hold(candidate).await {
                        action = self.step(Event::Held(why));
                        continue;
                    }
                    let to = self.place(candidate, last);
                    let attempt = { pin!(lane.attempt(self, &to)).await };
                    match attempt {
                        Ok((committed, claimed)) => return Ok((to.target, committed, claimed)),
                        Err(lost) => {
                            self.lost(&to.target, &lost, last);
                            Event::Failed(lost.failure)
                        },
                    }
                },
                Action::Wait(pause) => {
                    self.rest();
                    Box::pin(tokio::time::sleep(pause)).await;
                    Event::Woke
                },
                Action::Answer(answer) => return Err(answer),
            };
            action = self.step(event);
        }
    }

    fn step(&mut self, event: Event) -> Action {
        let now = self.report.arrived().elapsed();
        self.machine.on(event, now, roll(self.report.id(), now))
    }

    /// A pool node takes a request under a lease only.
    async fn hold(&mut self, candidate: usize) -> Result<(), Withheld> {
        let target = self.candidates.target(candidate);
        let send_as = self.candidates.send_as(candidate).map(|name| &**name);
        if target.provider().is_some() {
            return self.admitted(candidate);
        }
        if target.pooled().is_none() {
            return Ok(());
        }
        let shared = self.report.facade().context.shared.clone();
        let run = shared.workloads.run_id();
        let engine = self.report.facade().state.engine();
        let (id, attempt) = (self.report.id(), self.machine.dispatched());
        let model = send_as.or(self.model.as_ref().map(|m| &*m.name));
        let naming = target.facade.spec().naming;
        let place = Place {
            node: target.node.clone(),
            model: model.map(|m| naming.normalize(m).into_owned()),
            lease: format!("{run}/{engine}/{id}/{attempt}").into(),
            slots: target.slots,
        };
        let admissions = shared.admissions().ok_or(Withheld::StoreDown)?;
        // On the heap: requests that need no place shall not carry its room.
        let lease = admissions.admit(place).await?;
        self.report.hold(Held::Lease(lease));
        Ok(())
    }

    /// A provider takes a request by its permit: another one may have sent it to rest meanwhile.
    fn admitted(&mut self, candidate: usize) -> Result<(), Withheld> {
        let node = &self.candidates.target(candidate).node;
        let is_it = |p: &&Arc<Provider>| p.target().node == *node;
        let provider = self.providers.iter().find(is_it).ok_or(Withheld::Busy)?;
        let permit = provider.admit(Instant::now()).map_err(|_| Withheld::Busy)?;
        self.report.hold(Held::Permit(permit));
        Ok(())
    }

    /// What to do with a status of this target.
    pub fn judge(&self, target: &Target, status: u16) -> Verdict {
        match target.provider() {
            Some(_) => self.machine.judge_provider(status),
            None => self.machine.judge(status),
        }
    }

    /// What each attempt is held to.
    pub fn limits(&self) -> Limits {
        let settings = self.report.settings();
        let gate = match settings.commit_on_first_byte {
            true => GateMode::FirstByte,
            false => GateMode::Framing,
        };
        Limits {
            response: settings.response_cap,
            gate,
        }
    }

    /// Looks the candidates up as they are now, and counts the request on the chosen one.
    fn resolve<L: Lane>(&mut self, lane: &L) -> Result<Event, Answer> {
        let facade = self.report.facade().clone();
        let shared = &facade.context.shared;
        let settings = self.report.settings().clone();
        let client = self.report.client().cloned();
        let known = &mut self.demand;
        let mut claim = self.model.is_some().then_some(&mut self.report.claim);
        let wanted = Wanted {
            model: self.model.as_ref().map(|m| &*m.name),
            path: self.model.as_ref().map_or("", |m| m.path),
            clock: Instant::now,
            virtuals: &settings.virtual_models,
            asker: client.as_deref().map(|client| Asker {
                client,
                runs: self.effort == Effort::Budget,
            }),
            demand: &mut || known.get_or_insert_with(|| lane.demand()).total(),
            routing: &|state| facade.routing_of(state),
            order: &mut |ask, candidates, from| {
                let claim = claim.as_deref_mut().filter(|_| from == 0);
                shared.scheduler.order(ask, candidates, from, claim)
            },
        };
        let found = chain::find(shared, &facade.state, wanted);
        if let Some(too_long) = found.too_long.filter(|_| found.candidates.is_empty()) {
            return Err(too_long);
        }
        if found.denied && found.candidates.is_empty() && found.busy.is_empty() {
            return Err(Answer::NotGranted);
        }
        (self.candidates, self.ends) = (found.candidates, found.ends);
        self.providers = found.providers;
        self.rests(&found.resting, found.busy.len());
        if self.once {
            self.candidates.truncate(1);
        }
        if self.candidates.may_be_unconfirmed() {
            for target in self.candidates.targets().filter(|t| t.unconfirmed) {
                if let Some(facade) = facade.of(target) {
                    facade.confirm_address(&target.node);
                }
            }
        }
        let candidates = self.candidates.len();
        let held = !found.busy.is_empty();
        if candidates > 0 {
            self.charge(lane)?;
        }
        if self.model.is_some() && self.report.job().is_none() {
            let chosen = self.candidates.targets().map(|t| &t.node);
            let owners = chosen.chain(&found.busy);
            let owners = Owners::of(candidates + found.busy.len(), owners);
            self.admit(owners);
        }
        Ok(Event::Resolved { candidates, held })
    }

    /// Notes when the first of those that rest takes a request again, where that is all there is.
    fn rests(&mut self, resting: &[(Arc<Provider>, Rest)], busy: usize) {
        if resting.is_empty() && self.rest.is_none() {
            return;
        }
        let until = resting.iter().map(|(_, rest)| rest.until).min();
        let until = until.filter(|_| self.candidates.is_empty() && resting.len() == busy);
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        self.rest = left;
        let arrived = self.report.arrived().elapsed();
        self.machine.nobody_before(left.map(|left| arrived + left));
    }

    /// Counts it on the caller's key, once: an eligible target was found.
    fn charge<L: Lane>(&mut self, lane: &L) -> Result<(), Answer> {
        let Some(client) = self.report.client().cloned() else {
            return Ok(());
        };
        if self.report.is_charged() {
            return Ok(());
        }
        let demand = match client.counts_tokens() && self.effort == Effort::Budget {
            true => *self.demand.get_or_insert_with(|| lane.demand()),
            false => Demand::default(),
        };
        match client.charge(demand) {
            Ok(charge) => {
                self.report.charged(charge);
                Ok(())
            },
            Err(over) => {
                self.report.claim.release();
                Err(Answer::OverLimit(over))
            },
        }
    }

    /// With a model and an owner it is a workload from now on.
    fn admit(&mut self, owners: Owners) {
        if let Some(model) = self.model.as_ref().filter(|_| !owners.is_empty()) {
            let (path, name) = (model.path, model.name.clone());
            self.report.admit(path, name, self.body_bytes, owners);
        }
    }

    /// Decides who the next candidate is, and says whether it is still there. One pass has no attempt
    /// to save.
    fn stays(&mut self, candidate: usize) -> bool {
        let facade = self.report.facade();
        if candidate > 0 {
            let engine = facade.state.engine();
            // The first one of a link was chosen when it was looked up.
            let first = self.ends.contains(&candidate);
            let end = self.ends.iter().copied().find(|end| *end > candidate);
            let send_as = self.candidates.send_as(candidate).cloned();
            let name = send_as.as_deref();
            let name = name.or(self.model.as_ref().map(|m| &*m.name));
            let model = name.map(|name| engine.spec().naming.normalize(name));
            let ask = Ask {
                engine,
                model: model.as_deref().unwrap_or_default(),
                pin: None,
            };
            if !first {
                let end = end.unwrap_or(self.candidates.len());
                let scheduler = &facade.context.shared.scheduler;
                scheduler.next(ask, &mut self.candidates, candidate..end);
            }
        }
        let target = self.candidates.target(candidate);
        self.effort == Effort::OnePass || facade.knows(target)
    }

    /// A dispatch begins: the request counts on this node now.
    fn place(&mut self, candidate: usize, last: bool) -> Candidate {
        let to = self.candidates.candidate(candidate);
        let target = &to.target;
        self.report.dispatched(target);
        if let Some(job) = self.report.job().cloned() {
            let load = self.report.claim.dispatch(&target.node);
            job.place(&target.node, load);
        }
        tracing::debug!(
            engine = %self.report.facade().state.engine(), job = %self.report.id(),
            node = %target.node, attempt = self.machine.dispatched(), last, "dispatched"
        );
        to
    }

    fn lost(&mut self, target: &Target, lost: &Lost, last: bool) {
        if let (Some(status), Some(headers)) = (lost.failure.status(), &lost.headers) {
            self.report.heard(status, headers);
        }
        self.report.lost(lost.failure, &lost.detail);
        let facade = self.report.facade();
        tracing::debug!(
            engine = %facade.state.engine(), job = %self.report.id(), node = %target.node,
            attempt = self.machine.dispatched(), reason = lost.detail, "attempt lost"
        );
        if let Some(job) = self.report.job() {
            job.refused(&target.node, lost.failure, lost.detail.clone());
        }
        if lost.failure.forgets_address(last)
            && let Some(facade) = facade.of(target)
        {
            facade.forget_address(&target.node);
        }
        if lost.failure == Failure::Transport
            && let Some(tell) = facade.context.on_failure.get()
        {
            tell(target.facade, &target.node);
        }
    }

    /// Nothing runs until the next round.
    fn rest(&mut self) {
        self.report.claim.release();
        if let Some(job) = self.report.job() {
            job.clear();
        }
    }

    /// Headers of ours on a relayed answer, where they are wanted.
    pub fn response_headers(&self, target: &Target) -> Option<[(&'static str, String); 3]> {
        let facade = self.report.facade();
        let shared = &facade.context.shared;
        self.report.settings().response_headers.then(|| {
            let (run, engine) = (shared.workloads.run_id(), facade.state.engine());
            [
                ("x-nvpair-node", target.node.to_string()),
                ("x-nvpair-attempts", self.machine.dispatched().to_string()),
                (
                    "x-nvpair-request-id",
                    format!("{run}/{engine}/{}", self.report.id()),
                ),
            ]
        })
    }
}

/// An error of ours in the dialect of the request's path; `short` is what the report says.
pub fn own_error(
    report: &mut Report,
    status: StatusCode,
    text: &str,
    short: String,
) -> Response<Bytes> {
    let response = answers::error(dialect(report.path()), status, text);
    report.answered(status.as_u16(), Some(short));
    response
}

/// A number in 0..1 that differs between requests and moments: it only has to keep waiting requests
/// apart, so mixing the clock's bits does (splitmix64).
fn roll(id: JobId, now: Duration) -> f64 {
    let mut x = id.0 ^ (now.as_nanos() as u64).rotate_left(32);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^= x >> 31;
    (x >> 11) as f64 / (1u64 << 53) as f64
}
