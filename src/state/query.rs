//! What a driver may read without a command: answers come straight from the state.
//!
//! Owns: the list of questions. Leaves to others: the answers (`state`), their form (`wire`).
//! A trait, so that a link or the control socket can be tested without a daemon behind it.

use std::sync::Arc;

use crate::rules::engine::EngineId;
use crate::rules::ids::{JobId, NodeId};
use crate::wire::broker::NodeRecord;
use crate::wire::control::{
    DaemonInfo, ModelList, ProviderStatus, RouteExplained, Status, Workload, WorkloadFilter,
    WorkloadList,
};

use super::clients::Clients;
use super::fleet::PoolDesk;
use super::follow::Follower;
use super::replays::Replays;

/// Questions the daemon answers at once.
pub trait Queries: Send + Sync {
    /// Whether this engine has a facade here. Checked before parameters are decoded (-32002 goes
    /// before -32602).
    fn is_enabled(&self, engine: EngineId) -> bool;
    /// Relayed and manual nodes of a facade, by id; a relayed one wins over a manual one.
    fn nodes(&self, engine: EngineId) -> Vec<NodeRecord>;
    /// The pinned node; `None` = automatic.
    fn selected(&self, engine: EngineId) -> Option<NodeId>;
    /// Who this daemon is.
    fn info(&self) -> DaemonInfo;
    /// Everything `status` shows.
    fn status(&self) -> Status;
    /// Recent and live workloads, newest first.
    fn workloads(&self, filter: &WorkloadFilter) -> WorkloadList;
    /// Workloads with this number: one on the named engine, or one on each engine that has it.
    /// With their timelines.
    fn workload(&self, engine: Option<EngineId>, id: JobId) -> Vec<Workload>;
    /// The merged catalogue.
    fn models(&self, engine: Option<EngineId>, loaded: bool) -> ModelList;
    /// Changes of workloads, from now on; the filter's limit counts for nothing.
    fn follow(&self, filter: WorkloadFilter) -> Follower;
    /// The fallback providers, in the order of the file.
    fn providers(&self) -> Vec<ProviderStatus> {
        Vec::new()
    }
    /// Where a request for this model would go now; `None` where the facade is not enabled.
    fn route(&self, engine: EngineId, model: &str) -> Option<RouteExplained>;
    /// The node pool, where one is configured: its own questions and changes go there.
    fn pool(&self) -> Option<Arc<PoolDesk>> {
        None
    }
    /// Callers that have a key, where some may.
    fn clients(&self) -> Option<Arc<Clients>> {
        None
    }
    /// Replays and recordings; none where nothing can be replayed.
    fn replays(&self) -> Option<Arc<dyn Replays>> {
        None
    }
}
