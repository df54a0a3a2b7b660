//! The registry's three calls.
//!
//! Owns: reading parameters strictly, the order of the checks, answers and refusals.
//! Leaves to others: bounds, patterns and states (`rules::pool`), where an endpoint may be
//! (`endpoint`), keeping it (`state::fleet`).

use std::borrow::Cow;
use std::sync::Arc;

use ipnet::IpNet;
use jsonrpsee::core::RegisterMethodError;
use jsonrpsee::types::{ErrorObjectOwned, Params};
use jsonrpsee::{Extensions, RpcModule};
use ring::rand::{SecureRandom, SystemRandom};
use serde::de::DeserializeOwned;

use super::endpoint;
use super::gate::Caller;
use super::quota::{Kind, Quotas};
use super::resolve::Resolve;
use crate::rules::pool::limits::Limits;
use crate::rules::pool::record::{Beat, Hardware, ModelEntry, PoolEngine, Registration, Session};
use crate::rules::pool::sizes;
use crate::rules::pool::standing::standing;
use crate::state::fleet::{Fleet, Left, StoreDown, Taken};
use crate::wire::jsonrpc::ErrorCode;
use crate::wire::pool::{
    Beaten, CODE_FORBIDDEN, CODE_STALE, CODE_TOO_MANY, CODE_UNAUTHORIZED, CODE_UNAVAILABLE,
    HEARTBEAT, HeartbeatParams, PoolModel, REGISTER, RegisterParams, Registered, UNREGISTER,
    UnregisterParams, Unregistered,
};

/// Characters of an error text that come from the caller's own request.
const QUOTED: usize = 300;

/// What the calls need.
pub(super) struct Registry {
    pub(super) fleet: Arc<dyn Fleet>,
    pub(super) resolver: Arc<dyn Resolve>,
    pub(super) allowed_endpoints: Vec<IpNet>,
    pub(super) quotas: Quotas,
}

/// Why a call is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: i32,
    pub(super) text: String,
    /// Milliseconds after which it may be tried again.
    pub(super) retry_ms: Option<u64>,
}

impl Refusal {
    pub(super) fn new(code: i32, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
            retry_ms: None,
        }
    }

    /// -32602: the parameters are at fault.
    pub(super) fn params(text: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidParams.number(), text)
    }

    /// The key is good and does not allow this.
    pub(super) fn forbidden(text: impl Into<String>) -> Self {
        Self::new(CODE_FORBIDDEN, text)
    }

    /// It cannot be done now.
    pub(super) fn unavailable(text: impl Into<String>) -> Self {
        Self::new(CODE_UNAVAILABLE, text)
    }
}

impl From<StoreDown> for Refusal {
    fn from(down: StoreDown) -> Self {
        Self::unavailable(format!("{down}; try again, the gateway recovers by itself"))
    }
}

impl From<Refusal> for ErrorObjectOwned {
    fn from(refusal: Refusal) -> Self {
        let data = refusal.retry_ms;
        let data = data.map(|ms| serde_json::json!({"retry_after_ms": ms}));
        Self::owned(refusal.code, refusal.text, data)
    }
}

/// The calls by name.
pub(super) fn module(
    registry: Arc<Registry>,
) -> Result<RpcModule<Arc<Registry>>, RegisterMethodError> {
    let mut module = RpcModule::new(registry);
    module.register_async_method(REGISTER, |params, registry, ext| async move {
        let caller = caller(&ext)?;
        answer("register", caller, registry.register(caller, &params).await)
    })?;
    module.register_async_method(HEARTBEAT, |params, registry, ext| async move {
        let caller = caller(&ext)?;
        answer(
            "heartbeat",
            caller,
            registry.heartbeat(caller, &params).await,
        )
    })?;
    module.register_async_method(UNREGISTER, |params, registry, ext| async move {
        let caller = caller(&ext)?;
        answer(
            "unregister",
            caller,
            registry.unregister(caller, &params).await,
        )
    })?;
    Ok(module)
}

fn caller(ext: &Extensions) -> Result<&Caller, ErrorObjectOwned> {
    // The gate put it in; without it nobody may do anything.
    let none = || Refusal::new(CODE_UNAUTHORIZED, "the call came past the gate").into();
    ext.get::<Caller>().ok_or_else(none)
}

fn answer<T>(
    call: &str,
    caller: &Caller,
    result: Result<T, Refusal>,
) -> Result<T, ErrorObjectOwned> {
    result.map_err(|refusal| {
        let (key, peer) = (&caller.key.name, caller.peer);
        tracing::debug!(call, key, %peer, code = refusal.code, "a pool node's call was refused");
        refusal.into()
    })
}

impl Registry {
    async fn register(&self, caller: &Caller, params: &Params<'_>) -> Result<Registered, Refusal> {
        self.count(caller, Kind::Registration, "registrations")?;
        let p: RegisterParams = read(params)?;
        own(caller, &p.node_id)?;
        let engine: PoolEngine = p
            .engine
            .parse()
            .map_err(|e| Refusal::params(format!("engine: {}", short(&format!("{e}")))))?;
        let where_to = endpoint::parse(&p.endpoint)?;
        let hardware = p.hardware.map(|h| Hardware {
            gpu_name: h.gpu_name,
            gpu_count: h.gpu_count,
            vram_total_bytes: h.vram_total_bytes,
        });
        let mut registration = Registration {
            node: caller.key.node.clone(),
            endpoint: p.endpoint,
            // Replaced below, by one that was judged.
            address: (caller.peer, where_to.port).into(),
            engine,
            models: entries(p.models),
            max_concurrency: p.max_concurrency,
            base_weight: p
                .base_weight
                .unwrap_or_else(|| sizes::default_weight(p.max_concurrency)),
            hardware,
            agent_version: p.agent_version,
        };
        sizes::registration(&registration).map_err(|e| Refusal::params(e.to_string()))?;
        registration.address = endpoint::judge(
            &where_to,
            &caller.key,
            caller.peer,
            &self.allowed_endpoints,
            self.resolver.as_ref(),
        )
        .await?;
        let (models, rejected) = admitted(caller, registration.models);
        registration.models = models;
        let session = session()?;
        let (node, address) = (registration.node.clone(), registration.address);
        let name = &caller.key.name;
        self.fleet.register(registration, name, &session).await?;
        self.still_stands(caller).await?;
        tracing::info!(%node, %engine, %address, key = name, "a pool node registered");
        let Limits {
            beat_ms,
            ttl_ms,
            sweep_ms,
            ..
        } = self.fleet.limits();
        Ok(Registered {
            heartbeat_interval_seconds: seconds(beat_ms),
            ttl_seconds: seconds(ttl_ms),
            sweep_interval_seconds: Some(seconds(sweep_ms)),
            session: session.as_str().to_owned(),
            rejected_models: rejected,
        })
    }

    async fn heartbeat(&self, caller: &Caller, params: &Params<'_>) -> Result<Beaten, Refusal> {
        self.count(caller, Kind::Call, "calls")?;
        let p: HeartbeatParams = read(params)?;
        own(caller, &p.node_id)?;
        let session = known_session(&p.session)?;
        let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let mut beat = Beat {
            seq: p.seq,
            draining: p.draining,
            active_requests: count(p.active_requests),
            queue_depth: count(p.queue_depth),
            free_vram_bytes: p.free_vram_bytes,
            gpu_temperature_c: p.gpu_temperature_c,
            gpu_utilization_percent: p.gpu_utilization_percent,
            models: entries(p.models),
        };
        sizes::beat(&beat).map_err(|e| Refusal::params(e.to_string()))?;
        let (models, rejected) = admitted(caller, beat.models);
        beat.models = models;
        let limits = self.fleet.limits();
        let beaten = Beaten {
            heartbeat_interval_seconds: seconds(limits.beat_ms),
            ttl_seconds: seconds(limits.ttl_ms),
            sweep_interval_seconds: Some(seconds(limits.sweep_ms)),
            state: "offline".to_owned(),
            drain: false,
            reregister: true,
            active_proxy_requests: 0,
            rejected_models: rejected,
        };
        match self.fleet.beat(&caller.key.node, &session, beat).await? {
            Taken::Taken(record) => Ok(Beaten {
                // It was heard of just now, by the same clock.
                state: standing(&record, record.beat_at, &limits)
                    .state
                    .as_str()
                    .to_owned(),
                drain: record.drain,
                reregister: false,
                active_proxy_requests: u64::from(record.leases),
                ..beaten
            }),
            Taken::Unknown | Taken::Replaced => Ok(beaten),
            Taken::Stale => Err(Refusal::new(
                CODE_STALE,
                format!(
                    "seq {} was seen before in this session; each beat needs a higher one",
                    p.seq
                ),
            )),
        }
    }

    async fn unregister(
        &self,
        caller: &Caller,
        params: &Params<'_>,
    ) -> Result<Unregistered, Refusal> {
        self.count(caller, Kind::Call, "calls")?;
        let p: UnregisterParams = read(params)?;
        own(caller, &p.node_id)?;
        let session = known_session(&p.session)?;
        let node = &caller.key.node;
        let removed = match self.fleet.leave(node, &session).await? {
            Left::Left => {
                tracing::info!(%node, "a pool node unregistered");
                true
            },
            // A newer registration is not this caller's to end.
            Left::Unknown | Left::Replaced => false,
        };
        Ok(Unregistered { removed })
    }

    fn count(&self, caller: &Caller, kind: Kind, what: &str) -> Result<(), Refusal> {
        let key = &caller.key.name;
        self.quotas.take(key, kind).map_err(|(rate, wait)| Refusal {
            retry_ms: Some(wait),
            ..Refusal::new(
                CODE_TOO_MANY,
                format!(
                    "the key {key:?} had its {} {what} of a minute; wait {} s and try again",
                    rate.count(),
                    wait.div_ceil(1000)
                ),
            )
        })
    }

    /// Whether the key was not revoked while the node came in: its eviction was before that.
    async fn still_stands(&self, caller: &Caller) -> Result<(), Refusal> {
        let now = self.fleet.find_key_fresh(caller.presented.reveal()).await?;
        if now.as_ref() == Some(&caller.key) {
            return Ok(());
        }
        self.fleet.evict(&caller.key.node).await?;
        Err(Refusal::new(
            CODE_UNAUTHORIZED,
            "this node key was revoked; ask for another on the gateway",
        ))
    }
}

/// A key speaks for its own node alone.
fn own(caller: &Caller, node_id: &str) -> Result<(), Refusal> {
    match caller.key.node.as_str() == node_id {
        true => Ok(()),
        false => Err(Refusal::forbidden(format!(
            "the key {:?} speaks for node {:?} and not for {:?}; use that id, or the other \
             node's key",
            caller.key.name,
            caller.key.node.as_str(),
            short(node_id)
        ))),
    }
}

/// A session that may be one of ours. Any other was never given out.
fn known_session(text: &str) -> Result<Session, Refusal> {
    Session::parse(text).ok_or_else(|| {
        Refusal::params("session: it is not one that `node/register` gives; register first")
    })
}

fn session() -> Result<Session, Refusal> {
    let mut bytes = [0; 16];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Refusal::unavailable("the system gives no random bytes; try again"))?;
    Ok(Session::from_bytes(bytes))
}

fn entries(models: Vec<PoolModel>) -> Vec<ModelEntry> {
    let entry = |m: PoolModel| ModelEntry {
        id: m.id,
        context_length: m.context_length,
        is_warm: m.is_warm,
    };
    models.into_iter().map(entry).collect()
}

/// Models that the key allows, and the names of the others.
fn admitted(caller: &Caller, models: Vec<ModelEntry>) -> (Vec<ModelEntry>, Vec<String>) {
    let (good, bad): (Vec<_>, Vec<_>) = models
        .into_iter()
        .partition(|m| caller.key.admits_model(&m.id));
    (good, bad.into_iter().map(|m| m.id).collect())
}

/// Whole seconds, rounded up: an interval of half a second is not one of 0.
fn seconds(ms: u64) -> u64 {
    ms.div_ceil(1000)
}

/// The parameters: an object, every field known and of its type.
fn read<T: DeserializeOwned>(params: &Params<'_>) -> Result<T, Refusal> {
    let text = params.as_str().unwrap_or("null").trim_start();
    if !text.starts_with('{') {
        return Err(Refusal::params(
            "params must be an object with named fields",
        ));
    }
    serde_json::from_str(text).map_err(|e| Refusal::params(short(&e.to_string())))
}

/// A text that may hold what the caller sent, cut to a bearable length.
fn short(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}
