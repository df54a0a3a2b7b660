//! A request's way through its attempts: the one driver of `rules::dispatch`.
//!
//! Owns: carrying out the machine's actions, candidates, the account of each attempt, the answer
//! when none succeeded. Leaves to others: the decisions (`rules`), sending one attempt ([`Lane`]:
//! `exchange` through the HTTP library, `express` on plain sockets).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};

use crate::net::answers;
use crate::rules::budget::Cap;
use crate::rules::candidates::{Candidate, Target, drop_shared};
use crate::rules::dispatch::{Action, Answer, Dispatch, Event, Withheld};
use crate::rules::gate::GateMode;
use crate::rules::ids::{JobId, NodeId};
use crate::rules::nearest::nearest;
use crate::rules::outcome::{Effort, Failure};
use crate::rules::policy::Ask;
use crate::rules::route::dialect;
use crate::state::fate::Commit;
use crate::state::pool::Place;

use super::report::Report;

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
}

impl From<Failure> for Lost {
    fn from(failure: Failure) -> Self {
        let detail = match failure {
            Failure::Status(status) => format!("HTTP {status}"),
            other => other.text().to_owned(),
        };
        Self { failure, detail }
    }
}

/// Sends attempts.
pub trait Lane {
    /// What a committed attempt leaves to be streamed.
    type Committed;

    /// Tokens that its request may need, estimated.
    fn demand(&self) -> u64;

    /// One attempt, up to its commit and the claim of it.
    fn attempt(
        &mut self,
        round: &mut Round,
        target: &Arc<Target>,
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
    demand: Option<u64>,
    /// Its body can be sent once only.
    once: bool,
    candidates: Vec<Candidate>,
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
        let (machine, first) = Dispatch::new(effort);
        let candidates = Vec::new();
        let new = Self {
            report,
            machine,
            effort,
            model,
            body_bytes,
            demand: None,
            once,
            candidates,
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
                    let target = self.place(candidate, last);
                    match lane.attempt(self, &target).await {
                        Ok((committed, claimed)) => return Ok((target, committed, claimed)),
                        Err(lost) => {
                            self.lost(&target, &lost, last);
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
        let target = &self.candidates[candidate].target;
        if target.pooled().is_none() {
            return Ok(());
        }
        let shared = self.report.facade().context.shared.clone();
        let run = shared.workloads.run_id();
        let engine = self.report.facade().state.engine();
        let (id, attempt) = (self.report.id(), self.machine.dispatched());
        let (model, naming) = (self.model.as_ref(), engine.spec().naming);
        let place = Place {
            node: target.node.clone(),
            model: model.map(|m| naming.normalize(&m.name).into_owned()),
            lease: format!("{run}/{engine}/{id}/{attempt}").into(),
            slots: target.slots,
        };
        let admissions = shared.admissions().ok_or(Withheld::StoreDown)?;
        // On the heap: requests that need no place shall not carry its room.
        let lease = admissions.admit(place).await?;
        self.report.hold(lease);
        Ok(())
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
        let naming = facade.state.engine().spec().naming;
        let model = self.model.as_ref().map(|m| naming.normalize(&m.name));
        let routing = facade.routing();
        self.candidates.clear();
        self.candidates
            .extend_from_slice(routing.view.candidates(model.as_deref()));
        let resting = model
            .as_deref()
            .map_or(&[][..], |m| routing.view.resting(m));
        if let Some(too_long) = fit(&mut self.candidates, &mut self.demand, lane)
            && resting.is_empty()
        {
            return Err(too_long);
        }
        let claim = self.model.is_some().then_some(&mut self.report.claim);
        let ask = Ask {
            engine: facade.state.engine(),
            model: model.as_deref().unwrap_or_default(),
            pin: routing.pin.as_ref(),
        };
        let scheduler = &facade.context.shared.scheduler;
        let full = scheduler.order(ask, &mut self.candidates, claim);
        if routing.view.shares_addresses() {
            drop_shared(&mut self.candidates);
        }
        if self.once {
            self.candidates.truncate(1);
        }
        for c in self.candidates.iter().filter(|c| c.target.unconfirmed) {
            facade.confirm_address(&c.target.node);
        }
        let busy = full
            .into_iter()
            .chain(resting.iter().map(|(id, _)| id.clone()));
        let owners: Vec<_> = self
            .candidates
            .iter()
            .map(|c| c.target.node.clone())
            .chain(busy)
            .collect();
        let candidates = self.candidates.len();
        let held = owners.len() > candidates;
        self.admit(owners);
        Ok(Event::Resolved { candidates, held })
    }

    /// With a model and an owner it is a workload from now on.
    fn admit(&mut self, owners: Vec<NodeId>) {
        let Some(model) = &self.model else { return };
        if self.report.job().is_none() && !owners.is_empty() {
            self.report
                .admit(model.path, model.name.clone(), self.body_bytes, owners);
        }
    }

    /// Decides who the next candidate is, and says whether it is still there. One pass has no attempt
    /// to save.
    fn stays(&mut self, candidate: usize) -> bool {
        let facade = self.report.facade();
        if candidate > 0 {
            let naming = facade.state.engine().spec().naming;
            let model = self.model.as_ref().map(|m| naming.normalize(&m.name));
            let ask = Ask {
                engine: facade.state.engine(),
                model: model.as_deref().unwrap_or_default(),
                pin: None,
            };
            let rest = &mut self.candidates[candidate..];
            facade.context.shared.scheduler.next(ask, rest);
        }
        let node = &self.candidates[candidate].target.node;
        self.effort == Effort::OnePass || facade.state.routing().knows(node)
    }

    /// A dispatch begins: the request counts on this node now.
    fn place(&mut self, candidate: usize, last: bool) -> Arc<Target> {
        let target = self.candidates[candidate].target.clone();
        self.report.dispatched(&target);
        if let Some(job) = self.report.job().cloned() {
            let load = self.report.claim.dispatch(&target.node);
            job.place(&target.node, load);
        }
        tracing::debug!(
            engine = %self.report.facade().state.engine(), job = %self.report.id(),
            node = %target.node, attempt = self.machine.dispatched(), last, "dispatched"
        );
        target
    }

    fn lost(&mut self, target: &Target, lost: &Lost, last: bool) {
        self.report.lost(lost.failure);
        let facade = self.report.facade();
        tracing::debug!(
            engine = %facade.state.engine(), job = %self.report.id(), node = %target.node,
            attempt = self.machine.dispatched(), reason = lost.detail, "attempt lost"
        );
        if let Some(job) = self.report.job() {
            job.refused(&target.node, lost.failure, lost.detail.clone());
        }
        if lost.failure.forgets_address(last) {
            facade.forget_address(&target.node);
        }
        if lost.failure == Failure::Transport
            && let Some(tell) = facade.context.on_failure.get()
        {
            tell(facade.state.engine(), &target.node);
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

    /// The answer we make where no attempt's was one. `page`: a web page asks, which is told no
    /// names it did not say.
    pub fn answer(&mut self, answer: Answer, page: bool) -> Response<Bytes> {
        if let Some(model) = &self.model {
            self.report.asked_for(&model.name);
        }
        let (status, text, short) = match answer {
            Answer::NoCandidate => {
                let short = match self.model {
                    Some(_) => "no node advertises requested model",
                    None => "no active node",
                };
                (
                    StatusCode::BAD_GATEWAY,
                    self.no_candidate(page),
                    short.to_owned(),
                )
            },
            Answer::TooLong { needs, fits } => {
                let text = format!(
                    "the request may need about {needs} tokens, and the largest context of a node \
                     with this model has {fits}; shorten it, or ask for fewer tokens"
                );
                let short = "the request fits no node's context".to_owned();
                (StatusCode::BAD_REQUEST, text, short)
            },
            Answer::Attempt(failure) => {
                let status = match failure {
                    Failure::NoContent => StatusCode::GATEWAY_TIMEOUT,
                    _ => StatusCode::BAD_GATEWAY,
                };
                let text = failure.text().to_owned();
                (status, self.tried(&text), text)
            },
            Answer::Exhausted(why) => {
                let text = why.text().to_owned();
                (StatusCode::SERVICE_UNAVAILABLE, self.tried(&text), text)
            },
        };
        if self.machine.dispatched() > 0 {
            let engine = self.report.facade().state.engine();
            let job = self.report.id();
            tracing::debug!(%engine, %job, status = status.as_u16(), "request failed");
        }
        own_error(&mut self.report, status, &text, short)
    }

    /// What was asked for, what was tried.
    fn tried(&self, text: &str) -> String {
        let n = self.machine.dispatched();
        let attempts = if n == 1 {
            "1 attempt".to_owned()
        } else {
            format!("{n} attempts")
        };
        match &self.model {
            Some(Model { name, .. }) => format!("{text} (model {name:?}, {attempts})"),
            None => format!("{text} ({attempts})"),
        }
    }

    /// Names the model and, unless a web page asks, the nearest ones there are.
    fn no_candidate(&self, page: bool) -> String {
        let facade = self.report.facade();
        let display = facade.state.engine().spec().display;
        let Some(Model { name: model, .. }) = &self.model else {
            return format!(
                "no node is reachable through the {display} facade; start an engine or add a node"
            );
        };
        let none = format!("no node advertises the model {model:?}");
        if page {
            return none;
        }
        let routing = facade.state.routing();
        let known: Vec<(&str, &[Candidate])> = routing.view.models().collect();
        let near = nearest(model, known.iter().map(|(m, _)| *m), 3);
        if near.is_empty() {
            return format!("{none}; pull it on a node, or ask for one that is listed");
        }
        let owners = |name: &str| {
            let found = known.iter().find(|(m, _)| *m == name);
            let nodes = found.into_iter().flat_map(|(_, c)| c.iter());
            nodes
                .map(|c| c.target.node.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let near: Vec<_> = near
            .iter()
            .map(|m| format!("{m} ({})", owners(m)))
            .collect();
        format!("{none}; nearest: {}", near.join(", "))
    }
}

/// Takes candidates out whose context the request does not fit; the answer if that were all.
fn fit<L: Lane>(
    candidates: &mut Vec<Candidate>,
    demand: &mut Option<u64>,
    lane: &L,
) -> Option<Answer> {
    let fits = candidates.iter().filter_map(|c| c.context).max()?;
    let needs = *demand.get_or_insert_with(|| lane.demand());
    candidates.retain(|c| c.context.is_none_or(|context| needs <= context));
    candidates
        .is_empty()
        .then_some(Answer::TooLong { needs, fits })
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
