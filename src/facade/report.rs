//! How a request ended, told exactly once, whatever ends it.
//!
//! Owns: the terminal workload event, the request's own event, its claim on the board of loads.
//! Leaves to others: deciding the end while it is known (`exchange`, `relay`).
//!
//! A guard: hyper drops a request whose client left, and a panic unwinds it, so the report is given
//! on drop. What nobody decided by then follows from the circumstances.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::SystemTime;

use http::{HeaderMap, Method, Uri};
use tokio::time::Instant;

use crate::net::client_io::Door;
use crate::rules::candidates::Target;
use crate::rules::ids::{JobId, NodeId};
use crate::rules::outcome::{End, Failure};
use crate::rules::pool::blame::{Ended, Outcome};
use crate::rules::pool::ema::Sample;
use crate::rules::provider::verdict::Verdict;
use crate::rules::semantics::{self, ErrorType};
use crate::rules::usage::Stats;
use crate::state::clients::{Charge, Client};
use crate::state::events::Notice;
use crate::state::facade::InFlight;
use crate::state::fate::Commit;
use crate::state::lifetime::Phase;
use crate::state::pool::Lease;
use crate::state::providers::Permit;
use crate::state::scheduler::Claim;
use crate::state::settings::RequestSettings;
use crate::state::workloads::{Admission, Job, Owners};
use crate::telemetry::request::{About, Ending, Outgoing, Seen};
use crate::wall_clock;
use crate::wire::broker::{RequestFinished, RequestStarted};

use super::{Facade, visit};

/// The target of a request that goes to all nodes.
const CLUSTER: &str = "cluster";

/// What a request was given for the target that it is on; given back with what was learnt.
pub enum Held {
    /// A place on a pool node.
    Lease(Lease),
    /// A provider's permit.
    Permit(Permit),
}

/// What is asked for.
pub enum Path {
    /// A route, in its table's own text.
    Known(&'static str),
    /// Whatever it is.
    Asked(Uri),
}

impl From<&'static str> for Path {
    fn from(route: &'static str) -> Self {
        Self::Known(route)
    }
}

impl From<Uri> for Path {
    fn from(uri: Uri) -> Self {
        Self::Asked(uri)
    }
}

/// How a committed answer broke off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The engine's connection failed or ended early.
    Aborted,
    /// The engine was silent for longer than allowed.
    Silent,
}

impl Cut {
    /// In the words of a request's event.
    pub fn text(self) -> &'static str {
        match self {
            Self::Aborted => "upstream stream aborted mid-response",
            Self::Silent => "upstream was silent for longer than stream_idle_timeout",
        }
    }
}

/// One request's account. It is handed from stage to stage, so its content is on the heap.
pub struct Report(Box<Account>);

impl std::ops::Deref for Report {
    type Target = Account;

    fn deref(&self) -> &Account {
        &self.0
    }
}

impl std::ops::DerefMut for Report {
    fn deref_mut(&mut self) -> &mut Account {
        &mut self.0
    }
}

/// What a report holds.
pub struct Account {
    facade: Facade,
    door: Arc<Door>,
    id: JobId,
    method: Method,
    path: Path,
    arrived: Instant,
    /// Unix nanoseconds of its arrival.
    created_ns: u64,
    node: Option<NodeId>,
    target: Cow<'static, str>,
    status: u16,
    committed_at: Option<Instant>,
    error: Option<String>,
    end: Option<End>,
    stats: Option<Stats>,
    job: Option<Arc<Job>>,
    settings: Arc<RequestSettings>,
    /// Whose key it shows.
    client: Option<Arc<Client>>,
    /// What it counts for there.
    charge: Option<Charge>,
    /// Its weight on the board of loads.
    pub claim: Claim,
    /// What it was given for the target that it is on.
    held: Option<Held>,
    truncated: bool,
    /// The target that answers it.
    answering: Option<Arc<Target>>,
    /// What telemetry sees of it, where anything is wanted.
    seen: Option<Seen>,
    /// The model of a request that no workload was made of.
    asked: Option<Box<str>>,
    _counted: InFlight,
}

impl Report {
    /// The account of a request that just arrived.
    pub fn new(facade: &Facade, door: &Arc<Door>, method: Method, path: Path) -> Self {
        Self(Box::new(Account {
            facade: facade.clone(),
            door: door.clone(),
            id: facade.state.next_job(),
            method,
            path,
            arrived: Instant::now(),
            created_ns: wall_clock::unix_ns(),
            node: None,
            target: Cow::Borrowed(""),
            status: 0,
            committed_at: None,
            error: None,
            end: None,
            stats: None,
            job: None,
            settings: facade.context.shared.settings.now(),
            client: None,
            charge: None,
            claim: Claim::new(facade.context.shared.scheduler.clone()),
            held: None,
            truncated: false,
            answering: None,
            seen: None,
            asked: None,
            _counted: facade.state.enter(),
        }))
    }
}

impl Account {
    /// The facade it is on.
    pub fn facade(&self) -> &Facade {
        &self.facade
    }

    /// What it is held to: as it was when it arrived.
    pub fn settings(&self) -> &Arc<RequestSettings> {
        &self.settings
    }

    /// It is a request of this key's owner.
    pub fn identify(&mut self, client: Arc<Client>) {
        client.seen(self.created_ns / 1_000_000);
        self.client = Some(client);
    }

    /// Whose key it shows, if anybody's.
    pub fn client(&self) -> Option<&Arc<Client>> {
        self.client.as_ref()
    }

    /// Whether it counts already.
    pub fn is_charged(&self) -> bool {
        self.charge.is_some()
    }

    /// It counts, and is settled when it ends.
    pub fn charged(&mut self, charge: Charge) {
        self.charge = Some(charge);
    }

    /// Its number.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// When it arrived.
    pub fn arrived(&self) -> Instant {
        self.arrived
    }

    /// Path without query.
    pub fn path(&self) -> &str {
        match &self.path {
            Path::Known(path) => path,
            Path::Asked(uri) => uri.path(),
        }
    }

    /// The workload it is, if it is one.
    pub fn job(&self) -> Option<&Arc<Job>> {
        self.job.as_ref()
    }

    /// Admits it as a workload.
    pub fn admit(&mut self, path: &'static str, model: String, body_bytes: u64, owners: Owners) {
        self.job = Some(self.facade.context.shared.workloads.admit(Admission {
            engine: self.facade.state.engine(),
            id: self.id,
            model,
            path,
            body_bytes,
            created_at: self.created_ns / 1_000_000,
            arrived: self.arrived,
            owners,
            client: self.client.as_ref().map(|c| c.name().clone()),
        }));
    }

    /// It was given something for a target: kept until it, or its attempt there, ends.
    pub fn hold(&mut self, held: Held) {
        self.held = Some(held);
    }

    /// A provider answered with this head.
    pub fn heard(&mut self, status: u16, headers: &HeaderMap) {
        if let Some(Held::Permit(permit)) = &mut self.held {
            let now = std::time::Instant::now();
            permit.headers(status, headers, now, SystemTime::now());
        }
    }

    /// The caller's lines of trace context. Once, at the beginning.
    pub fn see<'a>(
        &mut self,
        parents: impl Iterator<Item = &'a [u8]>,
        states: impl Iterator<Item = &'a [u8]> + Clone,
    ) {
        let telemetry = &self.facade.context.telemetry;
        self.seen = telemetry.see(parents, states, self.created_ns);
    }

    /// The same out of a library's head.
    pub fn see_headers(&mut self, headers: &HeaderMap) {
        self.seen = visit::seen(&self.facade, headers, self.created_ns);
    }

    /// What its next target is told of the trace; `None` = the caller's lines pass as they came.
    pub fn outgoing(&self) -> Option<Outgoing> {
        self.seen.as_ref()?.outgoing()
    }

    /// Puts the trace into the head of a request to a target.
    pub fn pass_trace(&self, headers: &mut HeaderMap) {
        visit::pass(self.outgoing(), headers);
    }

    /// An attempt at this target begins.
    pub fn dispatched(&mut self, target: &Arc<Target>) {
        if let Some(seen) = &mut self.seen {
            seen.dispatched(&self.facade.context.telemetry, target);
        }
    }

    /// It names this model, and we answer it ourselves.
    pub fn asked_for(&mut self, model: &str) {
        if self.seen.is_some() && self.job.is_none() {
            self.asked = Some(model.into());
        }
    }

    /// What telemetry is told of it besides how it ended.
    fn about(&self) -> (About<'_>, Option<&'static str>) {
        let engine = self.facade.state.engine();
        let route = visit::route(engine, &self.method, self.path());
        let job = self.job.as_ref().map(|job| job.model());
        let about = About {
            engine,
            arrived: self.arrived,
            operation: visit::operation(route),
            model: job.or(self.asked.as_deref()),
        };
        (about, route.map(|r| r.path))
    }

    fn tell(&self, seen: Seen, end: &End) {
        let (about, route) = self.about();
        let (run, engine) = (self.facade.context.shared.workloads.run_id(), about.engine);
        let ending = Ending {
            state: end.clone().terminal().0,
            error: ErrorType::of_end(end, self.status, self.truncated),
            status: (self.status != 0).then_some(self.status),
            truncated: self.truncated,
            owned: self.job.is_some(),
            stats: self.stats.as_ref(),
            method: semantics::method(&self.method),
            route,
        };
        let id = || Some(format!("{run}/{engine}/{}", self.id).into());
        seen.ended(&self.facade.context.telemetry, about, ending, id);
    }

    /// Its attempt was lost like this.
    pub fn lost(&mut self, failure: Failure, detail: &str) {
        if let Some(mut seen) = self.seen.take() {
            seen.lost(&self.facade.context.telemetry, self.about().0, failure);
            self.seen = Some(seen);
        }
        match self.held.take() {
            Some(Held::Lease(lease)) => lease.settle(Outcome::of(ended(failure))),
            Some(Held::Permit(permit)) => {
                let verdict = Verdict::of_loss(failure, detail);
                permit.settle(verdict, std::time::Instant::now());
            },
            None => {},
        }
    }

    /// An answer of this node goes to the client. Takes the claim that made it the answer.
    pub fn commit(&mut self, target: &Arc<Target>, status: u16, _claimed: Commit) {
        self.status = status;
        self.node = Some(target.node.clone());
        self.answering = Some(target.clone());
        if let Some(seen) = &mut self.seen {
            seen.answered(status);
        }
        self.error = None;
        if self.facade.context.shared.events.heard() {
            self.committed_at = Some(Instant::now());
            // What is asked of all nodes stays that where there is but one.
            if self.target != CLUSTER {
                self.target = Cow::Owned(target.authority.to_string());
                self.announce_start();
            }
        }
        if let Some(job) = &self.job {
            job.start(&target.node, status);
        }
    }

    /// It goes to all nodes; announced as started only if there are any.
    pub fn fan_out(&mut self, announce: bool) {
        self.target = Cow::Borrowed(CLUSTER);
        if announce && self.facade.context.shared.events.heard() {
            self.announce_start();
        }
    }

    /// We answer it ourselves, with this status; `why` is what went wrong, if anything did.
    pub fn answered(&mut self, status: u16, why: Option<String>) {
        self.status = status;
        self.end = Some(match &why {
            Some(text) => End::Own(text.clone()),
            None => End::Relayed { status },
        });
        self.error = why;
    }

    /// The committed answer reached its end.
    pub fn relayed(&mut self) {
        self.end = Some(End::Relayed {
            status: self.status,
        });
    }

    /// The committed answer broke off.
    pub fn truncated(&mut self, cut: Cut) {
        self.relayed();
        self.truncated = true;
        self.error = Some(cut.text().to_owned());
    }

    /// What was measured of the answer.
    pub fn measured(&mut self, stats: Option<Stats>) {
        self.stats = stats;
    }

    fn announce_start(&self) {
        let started = RequestStarted {
            id: self.id.to_string(),
            node_id: self.node.clone(),
            method: self.method.to_string(),
            path: self.path().to_owned(),
            target: self.target.to_string(),
        };
        let engine = self.facade.state.engine();
        self.facade
            .context
            .shared
            .events
            .emit(&Notice::RequestStarted(engine, started));
    }

    /// What was measured, for whoever chooses the next node; only of answers that went well.
    fn learn(&mut self, end: &End) {
        let ended = match end {
            End::Relayed { .. } if self.truncated => Ended::Transport,
            End::Relayed { status } => Ended::Status(*status),
            _ => Ended::Ours,
        };
        let well = matches!(ended, Ended::Status(200..=299));
        let sample = self
            .stats
            .as_ref()
            .filter(|_| well)
            .map_or_else(Sample::default, |s| Sample {
                ttft_ms: s.ttft_ms.map(|ms| ms as f64),
                tokens_per_second: s.tokens_per_second,
            });
        let held = self.held.take();
        if let Some(Held::Permit(permit)) = held {
            let verdict = match (end, ended) {
                (End::Relayed { .. }, Ended::Transport) => Verdict::mid_stream(),
                (_, Ended::Status(status)) => Verdict::of_status(status),
                _ => Verdict::Neutral,
            };
            permit.settle(verdict, std::time::Instant::now());
        } else if let Some(Held::Lease(lease)) = held {
            let blame = Outcome::of(ended).blame;
            lease.settle(Outcome { blame, sample });
        } else if let (Some(target), Some(job)) = (&self.answering, &self.job)
            && sample != Sample::default()
        {
            let shared = &self.facade.context.shared;
            let engine = self.facade.state.engine();
            let model = engine.spec().naming.normalize(job.model());
            shared.scheduler.learn(engine, &model, target, sample);
        }
    }

    /// What ended it, where nobody said so.
    fn circumstances(&self) -> End {
        if std::thread::panicking() {
            End::Lost
        } else if self.facade.context.lifetime.phase() == Phase::Cut {
            End::Shutdown
        } else if let Some(cause) = self.door.failure() {
            End::ClientDead(cause)
        } else {
            End::ClientGone
        }
    }

    fn finished(&self, error: Option<String>) -> RequestFinished {
        let ms = |to: Instant| to.duration_since(self.arrived).as_millis() as u64;
        RequestFinished {
            id: self.id.to_string(),
            node_id: self.node.clone(),
            method: self.method.to_string(),
            path: self.path().to_owned(),
            target: self.target.to_string(),
            status: self.status,
            duration_ms: ms(Instant::now()),
            ttfb_ms: self.committed_at.map(ms).filter(|ms| *ms > 0),
            error,
        }
    }
}

/// What a lost attempt says of its node.
fn ended(failure: Failure) -> Ended {
    match failure {
        Failure::Status(status) => Ended::Status(status),
        Failure::TargetGone => Ended::Left,
        Failure::Transport | Failure::NoHeaders | Failure::NoContent | Failure::Broken => {
            Ended::Transport
        },
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        // First nothing is running any more, then it has ended.
        self.claim.release();
        let end = self.end.take().unwrap_or_else(|| self.circumstances());
        self.learn(&end);
        if let Some(seen) = self.seen.take() {
            self.tell(seen, &end);
        }
        if let Some(charge) = self.charge.take()
            && self.answering.is_some()
            && self.status < 400
        {
            charge.answered(self.stats.as_ref());
        }
        let heard = self.facade.context.shared.events.heard();
        let error = self.error.take().or_else(|| match &end {
            End::Relayed { .. } => None,
            other => other.clone().terminal().1,
        });
        if let Some(job) = self.job.take() {
            let status = (self.status != 0).then_some(self.status);
            job.finish(end, status, self.stats.take());
        }
        if heard {
            let notice = Notice::RequestFinished(self.facade.state.engine(), self.finished(error));
            self.facade.context.shared.events.emit(&notice);
        }
    }
}
