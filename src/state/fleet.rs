//! The node pool as the registry and the control socket see it.
//!
//! Owns: the list of what may be asked of it, how a record is shown. Leaves to others: doing it
//! (`state::pool` over `store::pool`), what states mean (`rules::pool`).
//!
//! A trait, so that the listener and the control socket can be tested without a daemon, and since
//! neither may know in which store the pool is kept.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::rules::ids::NodeId;
use crate::rules::pool::breaker::Breaker;
use crate::rules::pool::key::{KeyRecord, Revoked};
use crate::rules::pool::limits::Limits;
use crate::rules::pool::record::{Beat, Record, Registration, Session};
use crate::rules::pool::standing::standing;
use crate::wire::pool::{
    KeyInfo, PoolBreaker, PoolHardware, PoolModelStatus, PoolNodeStatus, PoolStatus, PoolUsage,
};

pub use crate::store::pool::{Left, StoreDown, Taken};

/// What the pool answers, or that its store is down.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, StoreDown>>;

/// The pool. Each method is one atomic change or one look.
pub trait Fleet: Send + Sync {
    /// Its limits: what workers are told, and what states depend on.
    fn limits(&self) -> Limits;

    /// The record of a key as a worker presents it, compared in constant time. `None`: it is no
    /// key, unknown, or revoked. Known keys may be found while the store is down.
    fn find_key<'a>(&'a self, presented: &'a str) -> Answer<'a, Option<KeyRecord>>;

    /// The same, after a look into the store: a key that another gateway revoked a moment ago is not
    /// found.
    fn find_key_fresh<'a>(&'a self, presented: &'a str) -> Answer<'a, Option<KeyRecord>> {
        self.find_key(presented)
    }

    /// Puts a node in under a new session.
    fn register<'a>(
        &'a self,
        registration: Registration,
        key_name: &'a str,
        session: &'a Session,
    ) -> Answer<'a, Record>;

    /// Takes a heartbeat in.
    fn beat<'a>(&'a self, node: &'a NodeId, session: &'a Session, beat: Beat) -> Answer<'a, Taken>;

    /// Takes a node out that says so itself.
    fn leave<'a>(&'a self, node: &'a NodeId, session: &'a Session) -> Answer<'a, Left>;

    /// Takes a node out, whatever it says; `false` if there was none.
    fn evict<'a>(&'a self, node: &'a NodeId) -> Answer<'a, bool>;

    /// Sets or lifts an administrator's drain; `false` if there is no such node.
    fn drain<'a>(&'a self, node: &'a NodeId, on: bool) -> Answer<'a, bool>;

    /// Closes a node's breakers; `false` if there is no such node.
    fn reset<'a>(&'a self, node: &'a NodeId) -> Answer<'a, bool>;

    /// Adds a key; `false` if one of its name exists.
    fn put_key(&self, key: KeyRecord) -> Answer<'_, bool>;

    /// Removes a key, if it is there, and its node if that registered with it. Another key may speak for
    /// the node too: whoever wants it gone all the same evicts it.
    fn revoke_key<'a>(&'a self, name: &'a str) -> Answer<'a, Option<Revoked>>;

    /// All keys, by name.
    fn keys(&self) -> Answer<'_, Vec<KeyRecord>>;

    /// Everything that is shown of it, as of now.
    fn status(&self) -> Answer<'_, PoolStatus>;
}

/// The pool and its door, as the control socket needs them.
#[derive(Clone)]
pub struct PoolDesk {
    /// The pool.
    pub fleet: Arc<dyn Fleet>,
    /// `HOST:PORT` of the registry, as workers should reach it.
    pub proxy_addr: String,
    /// The fingerprint of the certificate it serves now; `None` without TLS.
    pub fingerprint: Arc<dyn Fn() -> Option<String> + Send + Sync>,
    /// What became of usage events; `None` where none are kept.
    pub usage: Option<Arc<dyn Fn() -> PoolUsage + Send + Sync>>,
}

impl PoolDesk {
    /// The pool as `status` shows it, also while its store is down.
    pub async fn shown(&self) -> PoolStatus {
        let usage = self.usage.as_ref().map(|usage| usage());
        match self.fleet.status().await {
            Ok(status) => PoolStatus { usage, ..status },
            Err(down) => PoolStatus {
                listen: self.proxy_addr.clone(),
                tls: (self.fingerprint)().is_some(),
                // The one in memory is never down.
                store: "redis".to_owned(),
                store_error: Some(down.to_string()),
                nodes: Vec::new(),
                usage,
            },
        }
    }
}

/// A key as it is shown: without its hash.
pub fn key_info(key: &KeyRecord) -> KeyInfo {
    KeyInfo {
        name: key.name.clone(),
        node_id: key.node.as_str().to_owned(),
        allow: key.allow.clone(),
        models: key.models.clone(),
        created_at: key.created_at,
    }
}

/// A record as it is shown. `weight` is what it would be picked by now, which the selection knows.
pub fn node_status(record: &Record, weight: u64, now_ms: u64, limits: &Limits) -> PoolNodeStatus {
    let standing = standing(record, now_ms, limits);
    let r = &record.registration;
    let beat = record.beat.as_ref();
    let models = record.models().iter().map(|model| {
        let perf = record.perf.get(&model.id);
        let failed = perf
            .map(|p| &p.breaker)
            .filter(|b| **b != Breaker::default());
        PoolModelStatus {
            id: model.id.clone(),
            context_length: model.context_length,
            warm: model.is_warm,
            ttft_ms: perf.and_then(|p| p.ttft_ms.value()),
            tokens_per_second: perf.and_then(|p| p.tokens_per_second.value()),
            breaker: failed.map(|b| breaker(b, now_ms)),
        }
    });
    PoolNodeStatus {
        id: r.node.as_str().to_owned(),
        engine: r.engine.as_str().to_owned(),
        endpoint: r.endpoint.clone(),
        address: r.address.to_string(),
        state: standing.state.as_str().to_owned(),
        reason: standing.reason,
        drain: record.drain,
        slots: r.max_concurrency,
        leases: u64::from(record.leases),
        active_requests: beat.map_or(0, |b| u64::from(b.active_requests)),
        queue_depth: u64::from(record.queue_depth()),
        models: models.collect(),
        base_weight: r.base_weight,
        weight,
        last_beat_age_ms: now_ms.saturating_sub(record.beat_at),
        breaker: breaker(&record.breaker, now_ms),
        hardware: r.hardware.as_ref().map(|h| PoolHardware {
            gpu_name: h.gpu_name.clone(),
            gpu_count: h.gpu_count,
            vram_total_bytes: h.vram_total_bytes,
        }),
        free_vram_bytes: beat.and_then(|b| b.free_vram_bytes),
        gpu_temperature_c: beat.and_then(|b| b.gpu_temperature_c),
        gpu_utilization_percent: beat.and_then(|b| b.gpu_utilization_percent),
        key: record.key_name.clone(),
        agent_version: r.agent_version.clone(),
    }
}

fn breaker(b: &Breaker, now_ms: u64) -> PoolBreaker {
    let rest = b.open_until.map(|until| until.saturating_sub(now_ms));
    let state = match rest {
        None => "closed",
        Some(0) => "half_open",
        Some(_) => "open",
    };
    PoolBreaker {
        state: state.to_owned(),
        failures: b.failures,
        retry_in_ms: rest.filter(|ms| *ms > 0),
    }
}
