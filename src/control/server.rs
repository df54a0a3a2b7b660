//! Handlers of the control socket: a command and its reply, or a read of the state.
//!
//! Owns: turning parameters into commands and answers into their wire form.
//! Leaves to others: carrying commands out (`daemon`), the engine check and panics (`door`).

use std::sync::Arc;

use jsonrpsee::core::{RpcResult, SubscriptionResult, async_trait};
use jsonrpsee::types::ErrorObjectOwned;
use jsonrpsee::{PendingSubscriptionSink, SubscriptionSink};
use ring::rand::{SecureRandom, SystemRandom};

use super::api::ControlApiServer;
use crate::rules::engine::EngineId;
use crate::rules::ids::{JobId, NodeId};
use crate::rules::key_form::RANDOM_BYTES;
use crate::rules::log_level::LogLevel;
use crate::rules::secret::Secret;
use crate::state::command::{Command, Commands, Enable, LocalBackend, PrioritySnapshot, Rank};
use crate::state::follow::Follower;
use crate::state::named::{Details, NewNode};
use crate::state::query::Queries;
use crate::state::replays::{Parts, Replays};
use crate::wire::broker::{NodeRecord, WorkloadState};
use crate::wire::control::{
    Added, ConfigReloaded, DaemonInfo, Done, EnabledPort, LevelSet, ModelList, NodeAdded, NodeGone,
    NodeList, PortSet, ProviderList, RankParam, Ranked, Removed, RouteExplained, SCHEMA_VERSION,
    Selected, Status, WorkloadFilter, WorkloadList,
};
use crate::wire::jsonrpc::CommandError;
use crate::wire::replay::{
    Arrival, ReplayAdded, ReplayCancelled, ReplayStarted, Source, Speed, Wanted,
};

/// The daemon's end of the trait.
pub(super) struct Handlers {
    /// Where changes go.
    pub(super) commands: Commands,
    /// Where reads come from.
    pub(super) queries: Arc<dyn Queries>,
}

/// The error object of a refusal.
pub(super) fn refusal(error: &CommandError) -> ErrorObjectOwned {
    ErrorObjectOwned::owned(error.code.number(), error.message.clone(), None::<()>)
}

fn refused(error: CommandError) -> ErrorObjectOwned {
    refusal(&error)
}

/// Bytes for a new key of either kind.
pub(super) fn random() -> RpcResult<[u8; RANDOM_BYTES]> {
    let mut bytes = [0; RANDOM_BYTES];
    let none = |_| CommandError::refused("the system gives no random bytes; try again");
    let filled = SystemRandom::new().fill(&mut bytes).map_err(none);
    filled.map_err(refused)?;
    Ok(bytes)
}

#[async_trait]
impl ControlApiServer for Handlers {
    async fn status(&self) -> RpcResult<Status> {
        let mut status = self.queries.status();
        if let Some(desk) = self.queries.pool() {
            status.pool = Some(desk.shown().await);
        }
        Ok(status)
    }

    async fn daemon_info(&self) -> RpcResult<DaemonInfo> {
        Ok(self.queries.info())
    }

    async fn workloads_list(
        &self,
        engine: Option<EngineId>,
        state: Option<WorkloadState>,
        model: Option<String>,
        node: Option<String>,
        limit: Option<usize>,
    ) -> RpcResult<WorkloadList> {
        Ok(self.queries.workloads(&WorkloadFilter {
            engine,
            state,
            model,
            node,
            limit,
        }))
    }

    async fn workloads_get(&self, engine: Option<EngineId>, id: JobId) -> RpcResult<WorkloadList> {
        let workloads = self.queries.workload(engine, id);
        if workloads.is_empty() {
            let on = engine.map_or(String::new(), |e| format!(" on {e}"));
            return Err(refused(CommandError::refused(format!(
                "no workload {id}{on} in memory"
            ))));
        }
        Ok(WorkloadList {
            schema_version: SCHEMA_VERSION,
            workloads,
        })
    }

    async fn workloads_subscribe(
        &self,
        pending: PendingSubscriptionSink,
        engine: Option<EngineId>,
        state: Option<WorkloadState>,
        model: Option<String>,
        node: Option<String>,
    ) -> SubscriptionResult {
        // Before the answer, so that nothing that happens after it is missed.
        let follower = self.queries.follow(WorkloadFilter {
            engine,
            state,
            model,
            node,
            limit: None,
        });
        Ok(stream(follower, &pending.accept().await?).await?)
    }

    async fn workloads_export(
        &self,
        pending: PendingSubscriptionSink,
        engine: Option<EngineId>,
        state: Option<WorkloadState>,
        model: Option<String>,
        node: Option<String>,
        limit: Option<usize>,
    ) -> SubscriptionResult {
        let filter = WorkloadFilter {
            engine,
            state,
            model,
            node,
            limit,
        };
        let parts = self.replays().map(|replays| replays.export(filter));
        hand_on(parts, pending).await
    }

    async fn replay_start(
        &self,
        engine: Option<EngineId>,
        source: Option<Source>,
        since_ms: Option<u64>,
        last: Option<usize>,
        send: Option<bool>,
        speed: Option<Speed>,
    ) -> RpcResult<ReplayStarted> {
        let wanted = Wanted {
            source: source.unwrap_or(Source::Journal),
            engine,
            since_ms,
            last,
            send: send.unwrap_or(false),
            speed: speed.unwrap_or(Speed::RECORDED),
        };
        let started = self.replays().and_then(|replays| replays.start(wanted));
        let replay = started.map_err(refused)?;
        Ok(ReplayStarted { replay })
    }

    async fn replay_add(&self, replay: u64, arrivals: Vec<Arrival>) -> RpcResult<ReplayAdded> {
        let added = self
            .replays()
            .and_then(|replays| replays.add(replay, arrivals));
        let workloads = added.map_err(refused)?;
        Ok(ReplayAdded { workloads })
    }

    async fn replay_cancel(&self, replay: u64) -> RpcResult<ReplayCancelled> {
        let cancelled = self.replays().map(|replays| replays.cancel(replay));
        let cancelled = cancelled.map_err(refused)?;
        Ok(ReplayCancelled { cancelled })
    }

    async fn replay_subscribe(
        &self,
        pending: PendingSubscriptionSink,
        replay: u64,
    ) -> SubscriptionResult {
        let parts = self.replays().and_then(|replays| replays.follow(replay));
        hand_on(parts, pending).await
    }

    async fn models_list(
        &self,
        engine: Option<EngineId>,
        loaded: Option<bool>,
    ) -> RpcResult<ModelList> {
        Ok(self.queries.models(engine, loaded.unwrap_or(false)))
    }

    async fn providers_list(&self) -> RpcResult<ProviderList> {
        Ok(ProviderList {
            schema_version: SCHEMA_VERSION,
            providers: self.queries.providers(),
        })
    }

    async fn route_explain(&self, engine: EngineId, model: String) -> RpcResult<RouteExplained> {
        if engine.spec().naming.normalize(&model).is_empty() {
            return Err(refused(CommandError::params("model must not be empty")));
        }
        // The door saw the facade a moment ago.
        let gone = || refused(CommandError::no_facade(engine.as_str()));
        self.queries.route(engine, &model).ok_or_else(gone)
    }

    async fn nodes_list(&self, engine: EngineId) -> RpcResult<NodeList> {
        Ok(NodeList {
            nodes: self.queries.nodes(engine),
        })
    }

    async fn node_select(&self, engine: EngineId, id: String) -> RpcResult<Selected> {
        let pin = (!id.is_empty()).then(|| NodeId::from(id.as_str()));
        self.commands
            .call(|r| Command::Select(engine, pin, r))
            .await
            .map_err(refused)?;
        Ok(Selected { id })
    }

    async fn node_selected(&self, engine: EngineId) -> RpcResult<Selected> {
        let pin = self.queries.selected(engine);
        Ok(Selected {
            id: pin.map_or(String::new(), |id| id.as_str().to_owned()),
        })
    }

    async fn node_add_manual(
        &self,
        engine: EngineId,
        id: String,
        host: Option<String>,
        port: u16,
        addresses: Vec<String>,
        txt: Option<Vec<String>>,
        models: Option<Vec<String>>,
    ) -> RpcResult<Added> {
        let record = NodeRecord {
            id,
            host: host.unwrap_or_default(),
            port,
            addresses,
            txt: txt.unwrap_or_default(),
            models: models.unwrap_or_default(),
            ip: None,
        };
        if record.id.is_empty() || port == 0 || record.addresses.iter().all(String::is_empty) {
            return Err(refused(CommandError::params(
                "a manual node needs id, port and at least one address",
            )));
        }
        let node = Box::new(NewNode::of_record(engine, record));
        self.commands
            .call(|r| Command::AddNode(node, r))
            .await
            .map_err(refused)?;
        Ok(Added { added: true })
    }

    async fn node_remove_manual(&self, engine: EngineId, id: String) -> RpcResult<Removed> {
        let removed = self
            .commands
            .call(|r| Command::RemoveNode(engine, id.into(), r))
            .await
            .map_err(refused)?;
        Ok(Removed { removed })
    }

    async fn nodes_add(
        &self,
        engine: EngineId,
        url: String,
        name: Option<String>,
        models: Option<Vec<String>>,
        api_key: Option<String>,
        slots: Option<u32>,
        weight: Option<u32>,
    ) -> RpcResult<NodeAdded> {
        let details = Details {
            name,
            models,
            api_key: api_key.map(Secret::new),
            slots,
            weight,
        };
        let node = NewNode::at(engine, &url, details);
        let node = Box::new(node.map_err(|e| refused(CommandError::params(e)))?);
        let added = self.commands.call(|r| Command::AddNode(node, r)).await;
        added.map_err(refused)
    }

    async fn nodes_remove(&self, engine: EngineId, id: String) -> RpcResult<NodeGone> {
        let id = NodeId::from(id.as_str());
        let gone = id.clone();
        let removed = self
            .commands
            .call(|r| Command::RemoveNode(engine, gone, r))
            .await
            .map_err(refused)?;
        Ok(NodeGone {
            schema_version: SCHEMA_VERSION,
            engine,
            id,
            removed,
        })
    }

    async fn node_set_local_backend(
        &self,
        engine: EngineId,
        host: Option<String>,
        port: Option<u16>,
        healthy: Option<bool>,
    ) -> RpcResult<Done> {
        let backend = LocalBackend {
            host: host.unwrap_or_default(),
            port: port.unwrap_or(0),
            healthy: healthy.unwrap_or(false),
        };
        self.commands
            .call(|r| Command::SetLocalBackend(engine, backend, r))
            .await
            .map_err(refused)?;
        Ok(Done { ok: true })
    }

    async fn node_set_priority(
        &self,
        generation: u64,
        nodes: Option<Vec<NodeId>>,
        ranks: Option<Vec<RankParam>>,
    ) -> RpcResult<Ranked> {
        if generation == 0 {
            return Err(refused(CommandError::params(
                "generation must be above 0: it numbers the snapshot",
            )));
        }
        let snapshot = PrioritySnapshot {
            generation,
            nodes: nodes.unwrap_or_default(),
            ranks: (ranks.unwrap_or_default().into_iter())
                .filter_map(|r| Rank::told(r.id, r.pending, r.gpu_pressure))
                .collect(),
        };
        let count = self
            .commands
            .call(|r| Command::SetPriority(snapshot, r))
            .await
            .map_err(refused)?;
        Ok(Ranked { count })
    }

    async fn set_port(&self, engine: EngineId, port: i64) -> RpcResult<PortSet> {
        self.commands
            .call(|r| Command::SetPort(engine, port, r))
            .await
            .map_err(refused)
    }

    async fn facade_enable(
        &self,
        engine: String,
        port: Option<i64>,
        alias_addresses: Option<Vec<String>>,
        ignore_persisted_port: Option<bool>,
    ) -> RpcResult<EnabledPort> {
        let engine: EngineId =
            engine
                .parse()
                .map_err(|e: crate::rules::engine::UnknownFacade| {
                    refused(CommandError::refused(e.to_string()))
                })?;
        let enable = Enable {
            engine,
            port: port.unwrap_or(0),
            alias_addresses: alias_addresses.unwrap_or_default(),
            ignore_persisted_port: ignore_persisted_port.unwrap_or(false),
        };
        let enabled = self
            .commands
            .call(|r| Command::Enable(enable, r))
            .await
            .map_err(refused)?;
        Ok(EnabledPort {
            engine,
            port: enabled.port,
        })
    }

    async fn log_set_level(&self, level: String) -> RpcResult<LevelSet> {
        let level = LogLevel::parse(&level).ok_or_else(|| {
            refused(CommandError::params(format!(
                "unknown level {level:?}; levels are debug, info, warn and error"
            )))
        })?;
        let level = self
            .commands
            .call(|r| Command::SetLogLevel(level, r))
            .await
            .map_err(refused)?;
        Ok(LevelSet {
            level: level.as_str().to_owned(),
        })
    }

    async fn config_reload(&self) -> RpcResult<ConfigReloaded> {
        self.commands.call(Command::Reload).await.map_err(refused)
    }

    async fn shutdown(&self) -> RpcResult<()> {
        self.commands.call(Command::Shutdown).await.map_err(refused)
    }
}

impl Handlers {
    fn replays(&self) -> Result<Arc<dyn Replays>, CommandError> {
        let none = || CommandError::refused("this daemon replays nothing");
        self.queries.replays().ok_or_else(none)
    }
}

/// Hands the parts of an answer on as fast as the subscriber takes them. Dropped when it goes, they
/// end the work behind them.
async fn hand_on(
    parts: Result<Parts, CommandError>,
    pending: PendingSubscriptionSink,
) -> SubscriptionResult {
    let mut parts = match parts {
        Ok(parts) => parts,
        Err(error) => {
            pending.reject(refused(error)).await;
            return Ok(());
        },
    };
    let sink = pending.accept().await?;
    loop {
        let part = tokio::select! {
            part = parts.recv() => part,
            () = sink.closed() => return Ok(()),
        };
        let Some(part) = part else { return Ok(()) };
        if sink.send(part).await.is_err() {
            return Ok(());
        }
    }
}

/// Hands changes on as fast as the subscriber takes them, until it goes.
async fn stream(mut follower: Follower, sink: &SubscriptionSink) -> serde_json::Result<()> {
    loop {
        let change = tokio::select! {
            change = follower.next() => change,
            () = sink.closed() => return Ok(()),
        };
        let Some(change) = change else { return Ok(()) };
        let message = serde_json::value::to_raw_value(&change)?;
        if sink.send(message).await.is_err() {
            return Ok(());
        }
    }
}
