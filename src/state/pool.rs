//! The node pool in this process: what is known of it, its nodes in the facades, leases.
//!
//! Owns: the last picture of the store, when to look again, the life of a lease. Leaves to others:
//! each atomic change (`store::pool`), what a record means (`rules::pool`), who is chosen
//! (`rules::policy`).
//!
//! Requests are routed by the picture and admitted by the store: a picture that is a moment old costs
//! a refused lease at most. A store that is down is not asked who is there: what was known stays, and
//! no lease can be had (fail closed).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustc_hash::FxHashMap;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::rules::dispatch::Withheld;
use crate::rules::ids::NodeId;
use crate::rules::pool::blame::{Ended, Outcome};
use crate::rules::pool::key::{self, KeyRecord};
use crate::rules::pool::limits::Limits;
use crate::rules::pool::publish;
use crate::rules::pool::record::{Beat, LeaseId, PoolEngine, Record, Registration, Session};
use crate::store::pool::{Admission, KeyRing, Left, PoolStore, StoreDown, Taken, Version};
use crate::wire::pool::PoolStatus;

use super::facade::FacadeState;
use super::fleet::{Answer, Fleet, node_status};
use super::shared::Shared;

/// Changes come in bursts: so long they are gathered.
const GATHER: Duration = Duration::from_millis(50);

/// A store that is down is asked again after this long.
const DOWN: Duration = Duration::from_millis(500);

/// Standings depend on the time, also when nothing is heard.
const LOOK: Duration = Duration::from_millis(500);

/// The last picture of the store.
struct Seen {
    version: Version,
    /// The store's time, and ours when it was told.
    now_ms: u64,
    at: Instant,
    records: BTreeMap<NodeId, Known>,
    down: Option<String>,
}

/// A record, and the requests on its node that are none of ours.
struct Known {
    record: Record,
    /// Of other gateways, as told then: that leases ran out is told by nobody.
    others: u32,
    told: Instant,
    /// Of nobody's gateway: what the worker counted above all leases at its last beat. Its count is
    /// as old as that beat, ours is not: requests of ours that ended since must not count.
    uncounted: u32,
}

impl Seen {
    /// Takes a record over. `held` = leases of ours there.
    fn take(&mut self, record: Record, held: u32) {
        let node = record.node().clone();
        let before = self.records.get(&node);
        let beat = |r: &Record| (r.session.clone(), r.beat.as_ref().map(|b| b.seq));
        let uncounted = match before {
            Some(known) if beat(&known.record) == beat(&record) => known.uncounted,
            _ => record.in_flight() - record.leases,
        };
        let known = Known {
            others: record.leases.saturating_sub(held),
            told: Instant::now(),
            uncounted,
            record,
        };
        self.records.insert(node, known);
    }

    fn now_ms(&self) -> u64 {
        let since = u64::try_from(self.at.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.now_ms.saturating_add(since)
    }
}

/// The pool over a store.
pub struct Pool<S> {
    store: Arc<S>,
    keys: KeyRing<S>,
    limits: Limits,
    /// `memory` or `redis`.
    kind: &'static str,
    door: OnceLock<PoolDoor>,
    seen: Mutex<Seen>,
    /// Leases of ours, from before they are asked for until they are given back.
    held: Mutex<FxHashMap<NodeId, u32>>,
    wake: Notify,
}

/// Where workers come in.
#[derive(Clone, Debug)]
pub struct PoolDoor {
    /// Where the registry listens.
    pub listen: String,
    /// Whether it speaks TLS.
    pub tls: bool,
}

impl<S: PoolStore + 'static> Pool<S> {
    /// A pool of which nothing is known yet, in a store of this kind.
    pub fn new(store: Arc<S>, limits: Limits, kind: &'static str) -> Arc<Self> {
        Arc::new(Self {
            keys: KeyRing::new(store.clone()),
            store,
            limits,
            kind,
            door: OnceLock::new(),
            seen: Mutex::new(Seen {
                version: 0,
                now_ms: 0,
                at: Instant::now(),
                records: BTreeMap::new(),
                down: None,
            }),
            held: Mutex::default(),
            wake: Notify::new(),
        })
    }

    /// The registry is open there. Once.
    pub fn opened(&self, door: PoolDoor) {
        let _ = self.door.set(door);
    }

    /// Name of the key that a node registered with, as last heard.
    pub fn key_of(&self, node: &NodeId) -> Option<String> {
        let seen = self.lock();
        seen.records.get(node).map(|r| r.record.key_name.clone())
    }

    /// Keeps the picture new and the facades told, until the daemon's state is gone.
    pub async fn run(self: Arc<Self>, shared: Weak<Shared>) {
        let mut swept = Instant::now();
        loop {
            self.refresh().await;
            match shared.upgrade() {
                Some(shared) => self.publish(&shared),
                None => return,
            }
            let sweep = Duration::from_millis(self.limits.sweep_ms);
            if swept.elapsed() >= sweep {
                swept = Instant::now();
                self.sweep().await;
            }
            self.until_worth_a_look(sweep).await;
        }
    }

    async fn until_worth_a_look(&self, sweep: Duration) {
        let (version, down) = {
            let seen = self.lock();
            (seen.version, seen.down.is_some())
        };
        if down {
            tokio::time::sleep(DOWN).await;
            return;
        }
        tokio::select! {
            _ = self.store.changed(version) => {},
            () = self.wake.notified() => {},
            () = tokio::time::sleep(LOOK.min(sweep)) => return,
        }
        tokio::time::sleep(GATHER).await;
    }

    /// Asks the store what changed.
    pub async fn refresh(&self) {
        let since = self.lock().version;
        // Before and after: a lease that is taken or given back meanwhile is still ours.
        let before = self.lock_held().clone();
        let told = self.store.changes(since).await;
        let keys = match told {
            Err(StoreDown { reason }) => {
                let mut seen = self.lock();
                if seen.down.is_none() {
                    tracing::warn!(
                        reason,
                        "the node pool's store is down; its nodes are not used"
                    );
                }
                seen.down = Some(reason);
                return;
            },
            Ok(told) => {
                let after = self.lock_held().clone();
                let ours = |node: &NodeId| {
                    let count = |all: &FxHashMap<NodeId, u32>| all.get(node).copied().unwrap_or(0);
                    count(&before).max(count(&after))
                };
                let mut seen = self.lock();
                if seen.down.take().is_some() {
                    tracing::warn!("the node pool's store is back");
                }
                if told.version != seen.version {
                    // Whoever asked: the facades shall know, too.
                    self.wake.notify_one();
                }
                (seen.version, seen.now_ms, seen.at) = (told.version, told.now_ms, Instant::now());
                if told.whole {
                    seen.records.clear();
                }
                for node in &told.gone {
                    seen.records.remove(node);
                }
                for record in told.records {
                    let held = ours(record.node());
                    seen.take(record, held);
                }
                told.keys_version
            },
        };
        if keys != self.keys.version()
            && let Err(e) = self.keys.refresh().await
        {
            tracing::debug!(reason = %e, "the node keys were not read again");
        }
    }

    /// Tells every facade its nodes.
    pub fn publish(&self, shared: &Shared) {
        let nodes: Vec<_> = {
            let seen = self.lock();
            let now = seen.now_ms();
            let ttl = Duration::from_millis(self.limits.lease_ttl_ms);
            let records = seen.records.values();
            records
                .filter_map(|s| {
                    // By then they were renewed and told again, or are void. The store knows.
                    let others = match s.told.elapsed() < ttl {
                        true => s.others,
                        false => 0,
                    };
                    let elsewhere = others.saturating_add(s.uncounted);
                    let node = publish::node(&s.record, elsewhere, now, &self.limits)?;
                    Some((s.record.registration.engine, node))
                })
                .collect()
        };
        let sources = shared.sources();
        let of = |facade: &FacadeState| PoolEngine::of(facade.engine());
        for facade in &sources {
            let is_own = |engine: &PoolEngine| match of(facade) {
                Some(own) => own == *engine,
                // The gateway: whoever has no place of its own.
                None => !sources.iter().any(|f| of(f) == Some(*engine)),
            };
            let own = nodes.iter().filter(|(engine, _)| is_own(engine));
            facade.set_pool(own.map(|(_, n)| n.clone()).collect());
        }
    }

    /// Forgets nodes that were silent for longer than they are remembered.
    async fn sweep(&self) {
        let old: Vec<_> = {
            let seen = self.lock();
            let since = seen.now_ms().saturating_sub(self.limits.retention_ms);
            let records = seen.records.values().map(|s| &s.record);
            let old = records.filter(|r| r.beat_at < since);
            old.map(|r| (r.node().clone(), since)).collect()
        };
        for (node, since) in old {
            match self.store.purge(&node, since).await {
                Ok(true) => {
                    tracing::info!(%node, "a pool node that was silent for long is forgotten")
                },
                Ok(false) => {},
                Err(_) => return,
            }
        }
    }

    fn changed<T>(&self, answer: Result<T, StoreDown>) -> Result<T, StoreDown> {
        self.wake.notify_one();
        answer
    }

    /// One lease more or less of ours on a node.
    fn count(&self, node: &NodeId, more: bool) {
        let mut held = self.lock_held();
        let count = held.entry(node.clone()).or_default();
        *count = match more {
            true => count.saturating_add(1),
            false => count.saturating_sub(1),
        };
        if *count == 0 {
            held.remove(node);
        }
    }

    fn lock_held(&self) -> MutexGuard<'_, FxHashMap<NodeId, u32>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        // A picture is replaced in one step.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: PoolStore + 'static> Fleet for Pool<S> {
    fn limits(&self) -> Limits {
        self.limits.clone()
    }

    fn find_key<'a>(&'a self, presented: &'a str) -> Answer<'a, Option<KeyRecord>> {
        async move {
            if let Some(found) = self.keys.find(presented) {
                return Ok(Some(found));
            }
            // It may have been made by another gateway a moment ago. What cannot be a key at all is
            // not worth a question.
            if key::secret_part(presented).is_none() {
                return Ok(None);
            }
            self.keys.refresh().await?;
            Ok(self.keys.find(presented))
        }
        .boxed()
    }

    fn find_key_fresh<'a>(&'a self, presented: &'a str) -> Answer<'a, Option<KeyRecord>> {
        async move { Ok(self.keys.find_fresh(presented).await) }.boxed()
    }

    fn register<'a>(
        &'a self,
        registration: Registration,
        key_name: &'a str,
        session: &'a Session,
    ) -> Answer<'a, Record> {
        async move { self.changed(self.store.register(registration, key_name, session).await) }
            .boxed()
    }

    fn beat<'a>(&'a self, node: &'a NodeId, session: &'a Session, beat: Beat) -> Answer<'a, Taken> {
        self.store.beat(node, session, beat).boxed()
    }

    fn leave<'a>(&'a self, node: &'a NodeId, session: &'a Session) -> Answer<'a, Left> {
        async move { self.changed(self.store.leave(node, session).await) }.boxed()
    }

    fn evict<'a>(&'a self, node: &'a NodeId) -> Answer<'a, bool> {
        async move { self.changed(self.store.evict(node).await) }.boxed()
    }

    fn drain<'a>(&'a self, node: &'a NodeId, on: bool) -> Answer<'a, bool> {
        async move { self.changed(self.store.set_drain(node, on).await) }.boxed()
    }

    fn reset<'a>(&'a self, node: &'a NodeId) -> Answer<'a, bool> {
        async move { self.changed(self.store.reset_breaker(node).await) }.boxed()
    }

    fn put_key(&self, key: KeyRecord) -> Answer<'_, bool> {
        async move {
            let new = self.changed(self.store.put_key(key).await)?;
            self.keys.refresh().await?;
            Ok(new)
        }
        .boxed()
    }

    fn revoke_key<'a>(&'a self, name: &'a str) -> Answer<'a, Option<KeyRecord>> {
        async move { self.changed(self.keys.revoke(name).await) }.boxed()
    }

    fn keys(&self) -> Answer<'_, Vec<KeyRecord>> {
        async move { Ok(self.store.keys().await?.keys) }.boxed()
    }

    fn status(&self) -> Answer<'_, PoolStatus> {
        async move {
            self.refresh().await;
            let seen = self.lock();
            let now = seen.now_ms();
            let nodes = seen.records.values().map(|s| {
                let r = &s.record;
                let weight = publish::weight(r, now, &self.limits);
                node_status(r, weight, now, &self.limits)
            });
            Ok(PoolStatus {
                usage: None,
                listen: self
                    .door
                    .get()
                    .map_or_else(String::new, |d| d.listen.clone()),
                tls: self.door.get().is_some_and(|d| d.tls),
                store: self.kind.to_owned(),
                store_error: seen.down.clone(),
                nodes: nodes.collect(),
            })
        }
        .boxed()
    }
}

/// A request that asks for a place on a pool node.
#[derive(Clone, Debug)]
pub struct Place {
    /// The node.
    pub node: NodeId,
    /// The model, as the node advertises it; `None` where none decides.
    pub model: Option<String>,
    /// Names the request, and the attempt, among those of all gateways.
    pub lease: LeaseId,
    /// Requests it runs side by side.
    pub slots: u32,
}

/// Who gives places on pool nodes.
pub trait Admissions: Send + Sync {
    /// A place, or why there is none now.
    fn admit(self: Arc<Self>, place: Place) -> BoxFuture<'static, Result<Lease, Withheld>>;
}

impl<S: PoolStore + 'static> Admissions for Pool<S> {
    fn admit(self: Arc<Self>, place: Place) -> BoxFuture<'static, Result<Lease, Withheld>> {
        async move {
            let Place {
                node,
                model,
                lease,
                slots,
            } = &place;
            let ttl = self.limits.lease_ttl_ms;
            self.count(node, true);
            let asked = self
                .store
                .acquire(node, model.as_deref(), lease, *slots, ttl)
                .await;
            match asked {
                Ok(Admission::Granted { .. }) => Ok(self.kept(place)),
                Ok(other) => {
                    self.count(node, false);
                    // The picture is behind.
                    self.wake.notify_one();
                    tracing::debug!(node = %place.node, answer = ?other, "no place on a pool node");
                    Err(Withheld::Busy)
                },
                Err(e) => {
                    tracing::debug!(node = %place.node, reason = %e, "no lease for a pool node");
                    // It may have been taken all the same.
                    self.settle(place, Outcome::of(Ended::Ours));
                    self.wake.notify_one();
                    Err(Withheld::StoreDown)
                },
            }
        }
        .boxed()
    }
}

impl<S: PoolStore + 'static> Pool<S> {
    /// A lease that was granted: renewed until it is given back.
    fn kept(self: Arc<Self>, place: Place) -> Lease {
        let renewal = {
            let (pool, place) = (self.clone(), place.clone());
            tokio::spawn(async move { pool.renew(&place).await }).abort_handle()
        };
        Lease {
            renewal,
            give_back: Some(Box::new(move |outcome| self.settle(place, outcome))),
        }
    }

    async fn renew(&self, place: &Place) {
        let every = Duration::from_millis(self.limits.lease_renewal_ms);
        loop {
            tokio::time::sleep(every).await;
            let ttl = self.limits.lease_ttl_ms;
            match self.store.renew(&place.node, &place.lease, ttl).await {
                Ok(true) => {},
                // What runs goes on: it is the count of others that is too low for a while.
                Ok(false) => tracing::debug!(node = %place.node, "a lease had expired"),
                Err(e) => {
                    tracing::debug!(node = %place.node, reason = %e, "a lease was not renewed")
                },
            }
        }
    }

    /// Gives a place back, in the background: whoever held it is done.
    fn settle(self: &Arc<Self>, place: Place, outcome: Outcome) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let pool = self.clone();
        runtime.spawn(async move {
            let model = place.model.as_deref();
            let settled = pool.store.settle(&place.node, &place.lease, model, outcome);
            if let Err(e) = settled.await {
                tracing::debug!(node = %place.node, reason = %e, "a lease runs out by itself");
            }
            pool.count(&place.node, false);
        });
    }
}

/// A place on a pool node, given back once: with the outcome, or when it is dropped.
pub struct Lease {
    renewal: AbortHandle,
    give_back: Option<Box<dyn FnOnce(Outcome) + Send + Sync>>,
}

impl Lease {
    /// The request, or its attempt there, ended like this.
    pub fn settle(mut self, outcome: Outcome) {
        self.end(outcome);
    }

    fn end(&mut self, outcome: Outcome) {
        self.renewal.abort();
        if let Some(give_back) = self.give_back.take() {
            give_back(outcome);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.end(Outcome::of(Ended::Ours));
    }
}
