//! Layer 5: the request path of a facade.
//!
//! The way of one request: `server` accepts it; `express` takes it if it is plain inference, else
//! `exchange` reads it through the HTTP library; `round` runs it through its attempts; `report`
//! tells how it ended. On the library's lane `attempt` makes one attempt and `relay` streams.
//! `inventory` and `preflight` ask all nodes at once instead. A caller's key is taken out and judged
//! by `keyed`, ahead of all of them; `secured` speaks TLS with callers beyond loopback. A peer's request takes none of these
//! ways: `ingress` hands it to this machine's engine.

mod answer;
mod attempt;
mod exchange;
mod express;
mod fanout;
mod gateway;
mod ingress;
mod inventory;
mod keyed;
mod preflight;
mod relay;
mod report;
mod round;
mod secured;
mod server;
mod upgrade;
mod visit;

use std::sync::Arc;

use tokio::sync::watch;

use crate::net::confirm;
use crate::net::places::Places;
use crate::net::sockets::Sockets;
use crate::net::tls::Cluster;
use crate::net::upstream::Upstreams;
use crate::rules::candidates::Target;
use crate::rules::engine::EngineId;
use crate::rules::ids::NodeId;
use crate::state::activity::Activity;
use crate::state::facade::{FacadeState, Routing};
use crate::state::lifetime::Lifetime;
use crate::state::shared::Shared;
use crate::telemetry::hub::Telemetry;

pub use secured::{Certificate, Certificates};
pub use server::{accept, plaintext};

/// Told of a transport failure on the request path, so that a driver may probe early.
pub type OnFailure = Box<dyn Fn(EngineId, &NodeId) + Send + Sync>;

/// What all facades of the process share.
pub struct Context {
    /// The daemon's state.
    pub shared: Arc<Shared>,
    /// Connections to engines, through the HTTP library.
    pub upstreams: Arc<Upstreams>,
    /// Connections to engines of the express lane.
    pub sockets: Arc<Sockets>,
    /// The cluster this node may be a member of; `None` = it never is.
    pub cluster: Option<Arc<Cluster>>,
    /// The process's phase.
    pub lifetime: Arc<Lifetime>,
    /// When each node was last reported alive.
    pub activity: Activity,
    /// How many clients may be connected, over all facades.
    pub places: Places,
    /// What the facades prove themselves with beyond loopback.
    pub certificates: Certificates,
    /// This machine's name, which may stand in `Host`.
    pub machine: String,
    /// Spans and measurements.
    pub telemetry: Arc<Telemetry>,
    /// Told of transport failures.
    pub on_failure: std::sync::OnceLock<OnFailure>,
}

/// One facade as the request path sees it.
#[derive(Clone)]
pub struct Facade {
    /// Shared parts.
    pub context: Arc<Context>,
    /// Its own state.
    pub state: Arc<FacadeState>,
}

impl Facade {
    /// The routing of this moment, with the cluster as it is on disk now: a peer that left is no
    /// candidate from the very next request on.
    fn routing(&self) -> Arc<Routing> {
        self.routing_of(&self.state)
    }

    /// The same of another facade's nodes.
    fn routing_of(&self, state: &FacadeState) -> Arc<Routing> {
        if let Some(cluster) = &self.context.cluster {
            cluster.members().refresh();
            if state.refresh() {
                self.context.upstreams.drop_unpinned();
            }
        }
        state.routing()
    }

    /// Whether a target's node is still there, in the view of the facade that it is of.
    fn knows(&self, target: &Target) -> bool {
        if target.provider().is_some() {
            // One that is taken out of the configuration still ends what it began.
            return true;
        }
        match target.facade == self.state.engine() {
            true => self.state.routing().knows(&target.node),
            false => self.of(target).is_some_and(|f| f.knows(target)),
        }
    }

    /// Wakes when the routing changes that a target is of. `None` if it is nobody's any more.
    fn changes(&self, target: &Target) -> Option<watch::Receiver<Arc<Routing>>> {
        match target.facade == self.state.engine() {
            true => Some(self.state.changes()),
            false => Some(self.of(target)?.state.changes()),
        }
    }

    /// The facade whose node a target is: its own, or on the gateway an engine's. `None` if it is
    /// nobody's any more.
    fn of(&self, target: &Target) -> Option<Self> {
        if target.facade == self.state.engine() {
            return Some(self.clone());
        }
        let state = self.context.shared.known(target.facade)?;
        let context = self.context.clone();
        Some(Self { context, state })
    }

    /// A node could not be reached: another of its addresses may answer. The confirmation starts
    /// now, so that it has landed by the next round.
    fn forget_address(&self, node: &NodeId) {
        self.state.forget_address(node);
        self.confirm_address(node);
    }

    /// Finds out in the background which of a node's addresses answers, if that is open.
    fn confirm_address(&self, node: &NodeId) {
        let Some(job) = self.state.confirmation(node) else {
            return;
        };
        let state = self.state.clone();
        tokio::spawn(async move {
            let answering = confirm::best_answering(&job.addresses, job.port).await;
            state.confirmed(&job, answering);
        });
    }
}
