//! Everything the daemon knows, joined; answers to the read-only questions.
//!
//! Owns: which facades are up, and the answers of `status`, `models`, `workloads`.
//! Leaves to others: changing any of it (`daemon`).

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use crate::rules::candidates::{Candidate, Exclusion, Kind};
use crate::rules::discovery::Node;
use crate::rules::engine::EngineId;
use crate::rules::ids::{JobId, NodeId};
use crate::wire::broker::NodeRecord;
use crate::wire::control::{
    DaemonInfo, DoorStatus, FacadeStatus, Mode, ModelEntry, ModelList, NodeKind, NodeState,
    NodeStatus, ProviderStatus, RouteExplained, SCHEMA_VERSION, SchedulerStatus, Status,
    TelemetryStatus, Workload, WorkloadFilter, WorkloadList,
};

use super::clients::Clients;
use super::discovery::record;
use super::events::Events;
use super::explain::{explain, explain_along};
use super::facade::{FacadeState, Routing};
use super::fleet::PoolDesk;
use super::follow::Follower;
use super::pool::Admissions;
use super::providers::Providers;
use super::query::Queries;
use super::replays::Replays;
use super::scheduler::Scheduler;
use super::settings::{Live, RequestSettings};
use super::workloads::Workloads;

/// The daemon's state.
pub struct Shared {
    /// Who this daemon is.
    pub info: DaemonInfo,
    /// Limits and door rules.
    pub settings: Live,
    /// Where notices go.
    pub events: Arc<Events>,
    /// Loads and reservations.
    pub scheduler: Arc<Scheduler>,
    /// Live and recent workloads.
    pub workloads: Arc<Workloads>,
    /// What the gateway falls back to.
    pub providers: Arc<Providers>,
    /// Callers that have a key.
    pub clients: Arc<Clients>,
    /// The node pool, once it is there.
    pool: OnceLock<Arc<PoolDesk>>,
    /// Who gives places on its nodes.
    admissions: OnceLock<Arc<dyn Admissions>>,
    /// Enabled facades, one slot each.
    facades: Slots,
    /// What is known of each engine, whether it has a facade or not: where the gateway looks.
    known: Slots,
    replays: OnceLock<Arc<dyn Replays>>,
    telemetry: OnceLock<ShownTelemetry>,
}

/// What `status` shows of telemetry at the moment; `None` = it is off.
pub type ShownTelemetry = Box<dyn Fn() -> Option<TelemetryStatus> + Send + Sync>;

impl Shared {
    /// A daemon without facades.
    pub fn new(
        info: DaemonInfo,
        settings: RequestSettings,
        events: Arc<Events>,
        scheduler: Scheduler,
    ) -> Self {
        let workloads = Arc::new(Workloads::new(info.run_id.clone(), events.clone()));
        let slots = || RwLock::new(EngineId::facades().map(|_| None).collect());
        let scheduler = Arc::new(scheduler);
        let providers = Arc::new(Providers::new(scheduler.clone(), Instant::now()));
        Self {
            info,
            settings: Live::new(settings),
            events,
            scheduler,
            workloads,
            providers,
            clients: Arc::default(),
            pool: OnceLock::new(),
            admissions: OnceLock::new(),
            facades: slots(),
            known: slots(),
            replays: OnceLock::new(),
            telemetry: OnceLock::new(),
        }
    }

    /// Makes the node pool known to the control socket. Once; later calls change nothing.
    pub fn set_pool(&self, desk: PoolDesk) {
        // The first one is the daemon's, and there is no second.
        let _ = self.pool.set(Arc::new(desk));
    }

    /// Lets requests have places on pool nodes. Once.
    pub fn set_admissions(&self, admissions: Arc<dyn Admissions>) {
        let _ = self.admissions.set(admissions);
    }

    /// Who gives places on pool nodes, where there is a pool.
    pub fn admissions(&self) -> Option<Arc<dyn Admissions>> {
        self.admissions.get().cloned()
    }

    /// From now on recorded workloads can be replayed. Once, at start; a second call changes
    /// nothing.
    pub fn replay_with(&self, replays: Arc<dyn Replays>) {
        drop(self.replays.set(replays));
    }

    /// Makes telemetry known to `status`. Once; later calls change nothing.
    pub fn show_telemetry(&self, shown: ShownTelemetry) {
        drop(self.telemetry.set(shown));
    }

    /// The facade of an engine, if enabled.
    pub fn facade(&self, engine: EngineId) -> Option<Arc<FacadeState>> {
        read(&self.facades)[engine.index()].clone()
    }

    /// Enabled facades, in table order.
    pub fn facades(&self) -> Vec<Arc<FacadeState>> {
        read(&self.facades).iter().flatten().cloned().collect()
    }

    /// Publishes a facade.
    pub fn publish(&self, facade: Arc<FacadeState>) {
        self.remember(facade.clone());
        set(&self.facades, facade.engine(), Some(facade));
    }

    /// Withdraws a facade; what is known of its engine stays.
    pub fn withdraw(&self, engine: EngineId) {
        set(&self.facades, engine, None);
    }

    /// What is known of an engine, for the gateway; its facade may come later or never.
    pub fn remember(&self, state: Arc<FacadeState>) {
        set(&self.known, state.engine(), Some(state));
    }

    /// What is known of an engine.
    pub fn known(&self, engine: EngineId) -> Option<Arc<FacadeState>> {
        read(&self.known)[engine.index()].clone()
    }

    /// Whose nodes requests go to: of engines that have a facade, and of all where the gateway is.
    pub fn sources(&self) -> Vec<Arc<FacadeState>> {
        match self.facade(EngineId::GATEWAY) {
            None => self.facades(),
            Some(_) => read(&self.known).iter().flatten().cloned().collect(),
        }
    }

    fn door_status(&self) -> DoorStatus {
        let settings = self.settings.now();
        DoorStatus {
            allowed_hosts: settings.allowed_hosts.clone(),
            allowed_origins: settings.allowed_origins.clone(),
            allowed_cidrs: settings
                .allowed_cidrs
                .iter()
                .map(ToString::to_string)
                .collect(),
            client_keys: self.clients.count(),
        }
    }

    fn facade_status(&self, f: &FacadeState) -> FacadeStatus {
        FacadeStatus {
            engine: f.engine(),
            port: f.port(),
            aliases: f.aliases(),
            pin: f.pin(),
            in_flight: f.in_flight(),
            since_at: f.since(),
        }
    }

    fn node_statuses(&self, f: &FacadeState) -> Vec<NodeStatus> {
        let routing = f.routing();
        let mut nodes = f.nodes();
        nodes.extend(f.pool_nodes());
        nodes
            .into_iter()
            .map(|n| self.node_status(f, &routing, n))
            .collect()
    }

    fn node_status(&self, f: &FacadeState, routing: &Routing, n: Node) -> NodeStatus {
        let reachable = routing.view.everybody();
        let target = reachable
            .iter()
            .find(|c| c.target.node == n.id)
            .map(|c| &c.target);
        let excluded = routing.view.excluded().iter().find(|(id, _)| *id == n.id);
        let kind = match self.info.mode {
            Mode::Demo => NodeKind::Sample,
            _ => kind(&n, target.map(|t| &t.kind), f.is_manual(&n.id)),
        };
        let load = self.scheduler.load(&n.id);
        NodeStatus {
            name: n.shown().to_owned(),
            engine: f.engine(),
            kind,
            state: match (target, excluded) {
                (Some(_), _) => NodeState::Healthy,
                (None, Some((_, Exclusion::Resting(_)))) => NodeState::Resting,
                (None, _) => NodeState::Unreachable,
            },
            reason: excluded.map(|(_, why)| why.to_string()),
            address: target.map(|t| t.authority.to_string()),
            pending: load.pending,
            pressure: load.pressure,
            reserved: load.reserved,
            load: load.estimate(),
            models: n.models,
            warm: n.extra.warm,
            id: n.id,
        }
    }

    fn facade_models(&self, f: &FacadeState, loaded: bool) -> Vec<ModelEntry> {
        let routing = f.routing();
        let mut context: BTreeMap<String, u64> = BTreeMap::new();
        let naming = f.engine().spec().naming;
        for node in f.nodes() {
            for (model, tokens) in &node.extra.context {
                context.insert(naming.normalize(model).into_owned(), *tokens);
            }
        }
        let ids = |c: &[Candidate], warm_only: bool| -> Vec<NodeId> {
            let wanted = c.iter().filter(|c| c.warm || !warm_only);
            wanted.map(|c| c.target.node.clone()).collect()
        };
        let mut models: Vec<_> = routing
            .view
            .models()
            .map(|(model, owners)| ModelEntry {
                engine: f.engine(),
                model: model.to_owned(),
                owners: ids(owners, false),
                loaded: ids(owners, true),
                context_length: context.get(model).copied(),
            })
            .filter(|m| !loaded || !m.loaded.is_empty())
            .collect();
        models.sort_by(|a, b| a.model.cmp(&b.model));
        models
    }
}

/// One slot for whatever may have a facade.
type Slots = RwLock<Vec<Option<Arc<FacadeState>>>>;

fn read(slots: &Slots) -> std::sync::RwLockReadGuard<'_, Vec<Option<Arc<FacadeState>>>> {
    slots.read().unwrap_or_else(PoisonError::into_inner)
}

fn set(slots: &Slots, engine: EngineId, state: Option<Arc<FacadeState>>) {
    let mut slots = slots.write().unwrap_or_else(PoisonError::into_inner);
    slots[engine.index()] = state;
}

/// How a node is known, which is not how it is reached: the first engine that was named on this
/// machine is reached as its local backend, and still was named.
fn kind(node: &Node, reached: Option<&Kind>, is_manual: bool) -> NodeKind {
    match reached {
        _ if node.extra.found => NodeKind::Local,
        _ if node.extra.pool.is_some() => NodeKind::Pool,
        _ if node.extra.local => NodeKind::Manual,
        Some(Kind::Own) => NodeKind::Local,
        Some(Kind::Peer(_)) => NodeKind::Peer,
        // A provider is in no overlay; where one came up, somebody has named it.
        Some(Kind::Manual | Kind::Provider(_)) => NodeKind::Manual,
        Some(Kind::Pool(_)) => NodeKind::Pool,
        None if is_manual => NodeKind::Manual,
        None => NodeKind::Peer,
    }
}

impl Queries for Shared {
    fn pool(&self) -> Option<Arc<PoolDesk>> {
        self.pool.get().cloned()
    }

    fn clients(&self) -> Option<Arc<Clients>> {
        Some(self.clients.clone())
    }

    fn is_enabled(&self, engine: EngineId) -> bool {
        self.facade(engine).is_some()
    }

    fn nodes(&self, engine: EngineId) -> Vec<NodeRecord> {
        self.facade(engine)
            .map_or_else(Vec::new, |f| f.nodes().iter().map(record).collect())
    }

    fn selected(&self, engine: EngineId) -> Option<NodeId> {
        self.facade(engine)?.pin()
    }

    fn info(&self) -> DaemonInfo {
        self.info.clone()
    }

    fn status(&self) -> Status {
        let facades = self.facades();
        let (generation, applied_at) = self.scheduler.snapshot();
        let age = |at: Instant| at.elapsed().as_millis() as u64;
        Status {
            schema_version: SCHEMA_VERSION,
            daemon: self.info.clone(),
            facades: facades.iter().map(|f| self.facade_status(f)).collect(),
            nodes: (self.sources().iter())
                .flat_map(|f| self.node_statuses(f))
                .collect(),
            scheduler: SchedulerStatus {
                policy: self.scheduler.policy().as_str().to_owned(),
                generation: generation.0,
                age_ms: applied_at.map(age),
            },
            workloads: self.workloads.counts(),
            providers: self.providers.status(Instant::now()),
            door: self.door_status(),
            pool: None,
            telemetry: self.telemetry.get().and_then(|shown| shown()),
        }
    }

    fn workloads(&self, filter: &WorkloadFilter) -> WorkloadList {
        let workloads = self.workloads.list(filter);
        WorkloadList {
            schema_version: SCHEMA_VERSION,
            workloads,
        }
    }

    fn workload(&self, engine: Option<EngineId>, id: JobId) -> Vec<Workload> {
        self.workloads.find(engine, id)
    }

    fn models(&self, engine: Option<EngineId>, loaded: bool) -> ModelList {
        let sources = self.sources();
        let wanted = sources
            .iter()
            .filter(|f| engine.is_none_or(|e| e == f.engine()));
        let models = wanted.flat_map(|f| self.facade_models(f, loaded)).collect();
        ModelList {
            schema_version: SCHEMA_VERSION,
            models,
        }
    }

    fn providers(&self) -> Vec<ProviderStatus> {
        self.providers.status(Instant::now())
    }

    fn follow(&self, filter: WorkloadFilter) -> Follower {
        self.workloads.follow(filter)
    }

    fn route(&self, engine: EngineId, model: &str) -> Option<RouteExplained> {
        let facade = self.facade(engine)?;
        Some(match engine.is_gateway() {
            true => explain_along(self, &facade, model),
            false => explain(&facade, &self.scheduler, model),
        })
    }

    fn replays(&self) -> Option<Arc<dyn Replays>> {
        self.replays.get().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::discovery::Extra;
    use crate::rules::discovery::tests::node;

    #[test]
    fn the_kind_says_how_a_node_is_known() {
        let kind_of = |local, found, reached: Option<Kind>| {
            let extra = Extra {
                local,
                found,
                ..Extra::default()
            };
            let node = Node {
                extra,
                ..node("n", 1, &[])
            };
            kind(&node, reached.as_ref(), true)
        };
        for (local, found, reached, want) in [
            // Detected: the first of its engine, and further ones.
            (true, true, Some(Kind::Own), NodeKind::Local),
            (false, true, Some(Kind::Manual), NodeKind::Local),
            (true, true, None, NodeKind::Local),
            // Named on this machine: the first of its engine, and further ones.
            (true, false, Some(Kind::Own), NodeKind::Manual),
            (false, false, Some(Kind::Manual), NodeKind::Manual),
            (true, false, None, NodeKind::Manual),
            // A broker's record of this machine.
            (false, false, Some(Kind::Own), NodeKind::Local),
            (false, false, Some(Kind::Peer("p".into())), NodeKind::Peer),
        ] {
            let got = kind_of(local, found, reached.clone());
            assert_eq!(got, want, "{local} {found} {reached:?}");
        }
        assert_eq!(kind(&node("n", 1, &[]), None, false), NodeKind::Peer);
    }
}
