//! The node pool in this process: what is known of it, and its nodes in the facades.
//!
//! Owns: the last picture of the store, when to look again, what is put out of it. Leaves to others:
//! each atomic change (`store::pool`), what a record means (`rules::pool`), who is chosen
//! (`rules::policy`), places on nodes (`leases`).
//!
//! Requests are routed by the picture and admitted by the store: a picture that is a moment old costs
//! a refused lease at most. A store that is down is not asked who is there: what was known stays, and
//! no lease can be had (fail closed). Its silence is not the nodes' (`rules::pool::outage`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use crate::rules::ids::NodeId;
use crate::rules::pool::key::{KeyRecord, Revoked};
use crate::rules::pool::limits::Limits;
use crate::rules::pool::outage::Outage;
use crate::rules::pool::publish;
use crate::rules::pool::record::{Beat, PoolEngine, Record, Registration, Session};
use crate::store::pool::{KeyRing, Left, PoolStore, StoreDown, Taken, Version};
use crate::wire::pool::PoolStatus;

use super::facade::FacadeState;
use super::fleet::{Answer, Fleet, node_status};
use super::shared::Shared;

mod leases;

pub use leases::{Admissions, Lease, Place};

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
    outage: Outage,
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

impl Known {
    /// Requests of other gateways there. Told for longer than a lease lives ago, they were renewed and
    /// told again, or are void. The store knows.
    fn others(&self, limits: &Limits) -> u32 {
        match self.told.elapsed() < Duration::from_millis(limits.lease_ttl_ms) {
            true => self.others,
            false => 0,
        }
    }

    /// The record as it is now, where `held` leases are ours: a node of which nothing is heard any more
    /// has not those that it had then.
    fn now(&self, held: u32, limits: &Limits) -> Record {
        let leases = self.others(limits).saturating_add(held);
        Record {
            leases: leases.min(self.record.leases),
            ..self.record.clone()
        }
    }
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

    /// The time by which nodes are judged.
    fn now_ms(&self) -> u64 {
        self.outage.judged_at(self.clock_ms())
    }

    /// The store's time, as far as it is known.
    fn clock_ms(&self) -> u64 {
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
    /// Whose facades are told.
    shared: OnceLock<Weak<Shared>>,
    /// The version of the picture that they were told last. Held while they are told, so that nobody
    /// tells them an older one behind a newer.
    told: Mutex<Version>,
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
                outage: Outage::default(),
            }),
            held: Mutex::default(),
            wake: Notify::new(),
            shared: OnceLock::new(),
            told: Mutex::default(),
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
        let _ = self.shared.set(shared.clone());
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
                let now = seen.clock_ms();
                seen.outage.down(now);
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
                if seen.outage.up(told.now_ms, self.limits.ttl_ms) {
                    seen.version = 0;
                    self.wake.notify_one();
                }
                if told.whole && !seen.outage.keeps_unknown() {
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

    /// Whoever is shown a node may use it: tells the facades what they were not told yet.
    fn catch_up(&self) {
        let told = *self.lock_told();
        let known = self.lock().version;
        if told != known
            && let Some(shared) = self.shared.get().and_then(Weak::upgrade)
        {
            self.publish(&shared);
        }
    }

    fn lock_told(&self) -> MutexGuard<'_, Version> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells every facade its nodes.
    pub fn publish(&self, shared: &Shared) {
        let mut told = self.lock_told();
        let nodes: Vec<_> = {
            let seen = self.lock();
            *told = seen.version;
            let now = seen.now_ms();
            // What others have there is no reason to wait for a place while there is none for anybody.
            let down = seen.outage.is_down();
            let records = seen.records.values();
            records
                .filter_map(|s| {
                    let elsewhere = match down {
                        true => 0,
                        false => s.others(&self.limits).saturating_add(s.uncounted),
                    };
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

    /// Puts out what has no place any more: nodes that were silent for longer than they are
    /// remembered, and those whose key is not valid any more.
    async fn sweep(&self) {
        self.sweep_silent().await;
        self.sweep_keyless().await;
    }

    /// A key's revocation takes its node with it; but a gateway may have ended, or lost the store,
    /// between a registration and its second look at the key.
    async fn sweep_keyless(&self) {
        if self.keyless().is_empty() {
            return;
        }
        // It may be a key that another gateway made a moment ago. What the store does not know after
        // this was revoked: a key is there before anybody registers with it.
        if self.keys.refresh().await.is_err() {
            return;
        }
        for (node, beat_at) in self.keyless() {
            // Not if it was heard of since: then it is another registration, with another key.
            match self.store.purge(&node, beat_at.saturating_add(1)).await {
                Ok(true) => {
                    tracing::warn!(%node, "a pool node whose key is not valid any more is put out");
                    self.wake.notify_one();
                },
                Ok(false) => {},
                Err(_) => return,
            }
        }
    }

    /// Nodes without a key that speaks for them, and when they were heard of.
    fn keyless(&self) -> Vec<(NodeId, u64)> {
        let keys = self.keys.list();
        let seen = self.lock();
        let records = seen.records.values().map(|s| &s.record);
        let speaks = |r: &Record| {
            keys.iter()
                .any(|k| k.name == r.key_name && k.node == *r.node())
        };
        let orphans = records.filter(|r| !speaks(r));
        orphans.map(|r| (r.node().clone(), r.beat_at)).collect()
    }

    async fn sweep_silent(&self) {
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
        self.keys.find_anywhere(presented).boxed()
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
            if let Err(e) = self.keys.refresh().await {
                // It is kept; the next look at the store finds it.
                tracing::debug!(reason = %e, "the node keys were not read again");
            }
            Ok(new)
        }
        .boxed()
    }

    fn revoke_key<'a>(&'a self, name: &'a str) -> Answer<'a, Option<Revoked>> {
        async move { self.changed(self.keys.revoke(name).await) }.boxed()
    }

    fn keys(&self) -> Answer<'_, Vec<KeyRecord>> {
        async move { Ok(self.store.keys().await?.keys) }.boxed()
    }

    fn status(&self) -> Answer<'_, PoolStatus> {
        async move {
            self.refresh().await;
            self.catch_up();
            let held = self.lock_held().clone();
            let seen = self.lock();
            let now = seen.now_ms();
            let nodes = seen.records.values().map(|s| {
                let ours = held.get(s.record.node()).copied().unwrap_or(0);
                let r = s.now(ours, &self.limits);
                let weight = publish::weight(&r, now, &self.limits);
                node_status(&r, weight, now, &self.limits)
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

#[cfg(test)]
mod tests;
