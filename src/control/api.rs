//! Every call of the control socket: one trait for both ends, so that they agree by compilation.
//!
//! Owns: method names, parameter names, types. Leaves to others: what a call does (`server`), the
//! shapes of answers (`wire::control`), the engine check and strictness (`door`).
//! Methods that the broker link has too keep its names and its spelling of parameters; an engine is
//! the first parameter of each that concerns one facade.

use jsonrpsee::core::{RpcResult, SubscriptionResult};
use jsonrpsee::proc_macros::rpc;

use crate::rules::engine::EngineId;
use crate::rules::ids::{JobId, NodeId};
use crate::wire::broker::WorkloadState;
use crate::wire::control::{
    Added, ConfigReloaded, DaemonInfo, Done, EnabledPort, LevelSet, ModelList, NodeAdded, NodeGone,
    NodeList, PortSet, ProviderList, RankParam, Ranked, Removed, RouteExplained, Selected, Status,
    WorkloadChange, WorkloadList,
};
use crate::wire::replay::{
    Arrival, ExportPart, ReplayAdded, ReplayCancelled, ReplayStarted, ReplayUpdate, Source, Speed,
};

/// The control socket's calls. `ControlApiServer` is what the daemon implements,
/// `ControlApiClient` what a client calls.
#[rpc(server, client)]
pub trait ControlApi {
    /// Facades, nodes, scheduler and counts.
    #[method(name = "status", param_kind = map)]
    async fn status(&self) -> RpcResult<Status>;

    /// Who answers.
    #[method(name = "daemon/info", param_kind = map)]
    async fn daemon_info(&self) -> RpcResult<DaemonInfo>;

    /// Recent and live workloads, newest first; each parameter narrows.
    #[method(name = "workloads/list", param_kind = map)]
    async fn workloads_list(
        &self,
        engine: Option<EngineId>,
        state: Option<WorkloadState>,
        model: Option<String>,
        node: Option<String>,
        limit: Option<usize>,
    ) -> RpcResult<WorkloadList>;

    /// The workloads of this number with their timelines: one of the engine named, else one of each
    /// engine that has it. None at all is an error.
    #[method(name = "workloads/get", param_kind = map)]
    async fn workloads_get(&self, engine: Option<EngineId>, id: JobId) -> RpcResult<WorkloadList>;

    /// Changes of workloads from now on, until the caller unsubscribes or goes; each parameter
    /// narrows. A caller that is too slow loses the oldest ones, and is told how many.
    #[subscription(
        name = "workloads/subscribe" => "workloads/changed",
        unsubscribe = "workloads/unsubscribe",
        item = WorkloadChange,
        param_kind = map
    )]
    async fn workloads_subscribe(
        &self,
        engine: Option<EngineId>,
        state: Option<WorkloadState>,
        model: Option<String>,
        node: Option<String>,
    ) -> SubscriptionResult;

    /// Finished workloads as the journal keeps them, by arrival, in parts; each parameter narrows,
    /// and the limit takes the newest. The last part says so: parts that end without it are not all.
    #[subscription(
        name = "workloads/export" => "workloads/exported",
        unsubscribe = "workloads/unexport",
        item = ExportPart,
        param_kind = map
    )]
    async fn workloads_export(
        &self,
        engine: Option<EngineId>,
        state: Option<WorkloadState>,
        model: Option<String>,
        node: Option<String>,
        limit: Option<usize>,
    ) -> SubscriptionResult;

    /// Prepares a replay of the journal, or of what `replay/add` gives; it runs once it is
    /// followed. Each of `engine`, `since_ms` and `last` narrows. A time counts back from now, or
    /// from the last arrival of what is given.
    #[method(name = "replay/start", param_kind = map)]
    async fn replay_start(
        &self,
        engine: Option<EngineId>,
        source: Option<Source>,
        since_ms: Option<u64>,
        last: Option<usize>,
        send: Option<bool>,
        speed: Option<Speed>,
    ) -> RpcResult<ReplayStarted>;

    /// Gives workloads to a prepared replay.
    #[method(name = "replay/add", param_kind = map)]
    async fn replay_add(&self, replay: u64, arrivals: Vec<Arrival>) -> RpcResult<ReplayAdded>;

    /// Stops a replay: requests under way end, and its follower gets the report up to then; where
    /// none are sent there is no report.
    #[method(name = "replay/cancel", param_kind = map)]
    async fn replay_cancel(&self, replay: u64) -> RpcResult<ReplayCancelled>;

    /// Runs a prepared replay and follows it to its report. A follower that goes cancels it.
    #[subscription(
        name = "replay/subscribe" => "replay/update",
        unsubscribe = "replay/unsubscribe",
        item = ReplayUpdate,
        param_kind = map
    )]
    async fn replay_subscribe(&self, replay: u64) -> SubscriptionResult;

    /// The merged catalogue.
    #[method(name = "models/list", param_kind = map)]
    async fn models_list(
        &self,
        engine: Option<EngineId>,
        loaded: Option<bool>,
    ) -> RpcResult<ModelList>;

    /// The fallback providers, in the order of the file.
    #[method(name = "providers/list", param_kind = map)]
    async fn providers_list(&self) -> RpcResult<ProviderList>;

    /// Where a request for this model would go now, and why. Changes nothing.
    #[method(name = "route/explain", param_kind = map)]
    async fn route_explain(&self, engine: EngineId, model: String) -> RpcResult<RouteExplained>;

    /// Nodes of a facade.
    #[method(name = "nodes/list", param_kind = map)]
    async fn nodes_list(&self, engine: EngineId) -> RpcResult<NodeList>;

    /// Pins a node; an empty id is automatic.
    #[method(name = "node/select", param_kind = map)]
    async fn node_select(&self, engine: EngineId, id: String) -> RpcResult<Selected>;

    /// The pin in force.
    #[method(name = "node/selected", param_kind = map)]
    async fn node_selected(&self, engine: EngineId) -> RpcResult<Selected>;

    /// Adds or replaces a manual node.
    #[method(name = "node/add-manual", param_kind = map)]
    async fn node_add_manual(
        &self,
        engine: EngineId,
        id: String,
        host: Option<String>,
        port: u16,
        addresses: Vec<String>,
        txt: Option<Vec<String>>,
        models: Option<Vec<String>>,
    ) -> RpcResult<Added>;

    /// Removes a manual node.
    #[method(name = "node/remove-manual", param_kind = map)]
    async fn node_remove_manual(&self, engine: EngineId, id: String) -> RpcResult<Removed>;

    /// Keeps a node, as the configuration's `[[nodes]]` would: standalone it is probed, answered
    /// after its first probe, and saved. One of the same URL is replaced.
    #[method(name = "nodes/add", param_kind = map)]
    async fn nodes_add(
        &self,
        engine: EngineId,
        url: String,
        name: Option<String>,
        models: Option<Vec<String>>,
        api_key: Option<String>,
        slots: Option<u32>,
        weight: Option<u32>,
    ) -> RpcResult<NodeAdded>;

    /// Forgets a node that was added.
    #[method(name = "nodes/remove", param_kind = map)]
    async fn nodes_remove(&self, engine: EngineId, id: String) -> RpcResult<NodeGone>;

    /// Replaces what is known of this machine's engine.
    #[method(name = "node/set-local-backend", param_kind = map)]
    async fn node_set_local_backend(
        &self,
        engine: EngineId,
        host: Option<String>,
        port: Option<u16>,
        healthy: Option<bool>,
    ) -> RpcResult<Done>;

    /// Applies a scheduler snapshot once.
    #[method(name = "node/set-priority", param_kind = map)]
    async fn node_set_priority(
        &self,
        generation: u64,
        nodes: Option<Vec<NodeId>>,
        ranks: Option<Vec<RankParam>>,
    ) -> RpcResult<Ranked>;

    /// Moves a facade; 1..=65535.
    #[method(name = "set-port", param_kind = map)]
    async fn set_port(&self, engine: EngineId, port: i64) -> RpcResult<PortSet>;

    /// Starts a facade. The engine is a text, since an unknown one is refused as the link refuses
    /// it (-32000), not as a parameter that does not decode.
    #[method(name = "facade/enable", param_kind = map)]
    async fn facade_enable(
        &self,
        engine: String,
        port: Option<i64>,
        #[argument(rename = "aliasAddresses")] alias_addresses: Option<Vec<String>>,
        #[argument(rename = "ignorePersistedPort")] ignore_persisted_port: Option<bool>,
    ) -> RpcResult<EnabledPort>;

    /// Changes the log's threshold.
    #[method(name = "log/set-level", param_kind = map)]
    async fn log_set_level(&self, level: String) -> RpcResult<LevelSet>;

    /// Reads the configuration again and applies it as a whole, or says why not and changes nothing.
    #[method(name = "config/reload", param_kind = map)]
    async fn config_reload(&self) -> RpcResult<ConfigReloaded>;

    /// Stops the daemon, after the answer.
    #[method(name = "shutdown", param_kind = map)]
    async fn shutdown(&self) -> RpcResult<()>;
}
