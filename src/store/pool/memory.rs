//! The pool in this process's memory: for one gateway, gone when it ends.
//!
//! Owns: one lock, never held across an await. Leaves to others: what is under it (`inner`), the
//! file of the keys (`store::key_file`), which outlives the process.

mod inner;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::watch;

use super::{Admission, Fleet, KeySet, Left, PoolStore, StoreDown, Taken, Version};
use crate::rules::ids::NodeId;
use crate::rules::pool::blame::Outcome;
use crate::rules::pool::key::{KeyRecord, Revoked};
use crate::rules::pool::limits::Limits;
use crate::rules::pool::record::{Beat, LeaseId, Perf, Record, Registration, Session};
use crate::store::key_file::{self, KeyFileError};
use crate::wall_clock;

use inner::{Ask, Inner, settle};

type KeyFile = key_file::KeyFile<KeyRecord>;

/// Gives Unix ms and never goes back.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The version of a store in which nothing happened yet.
const BEGIN: Version = 1;

/// The system's time of now, counted on by the monotonic clock: a clock that is set does not make
/// every node offline.
pub fn system_clock() -> Clock {
    let begin = wall_clock::since_epoch();
    let started = Instant::now();
    // Millions of years fit.
    Arc::new(move || (begin + started.elapsed()).as_millis() as u64)
}

/// The pool in memory. Clones are the same one.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Clock,
    limits: Limits,
    inner: Mutex<Inner>,
    version: watch::Sender<Version>,
    keys: Mutex<KeyFile>,
}

impl MemoryStore {
    /// An empty pool whose keys are not saved: for tests.
    pub fn new(clock: Clock, limits: Limits) -> Self {
        Self::with_keys(clock, limits, KeyFile::unsaved())
    }

    /// An empty pool with the keys of a file, which need not be there yet.
    ///
    /// # Errors
    /// The file is there and cannot be used.
    pub fn open(clock: Clock, limits: Limits, key_file: &Path) -> Result<Self, KeyFileError> {
        Ok(Self::with_keys(clock, limits, KeyFile::open(key_file)?))
    }

    fn with_keys(clock: Clock, limits: Limits, keys: KeyFile) -> Self {
        let inner = Inner {
            version: BEGIN,
            keys_version: if keys.keys().is_empty() { 0 } else { BEGIN },
            ..Inner::default()
        };
        let shared = Shared {
            clock,
            limits,
            inner: Mutex::new(inner),
            version: watch::Sender::new(BEGIN),
            keys: Mutex::new(keys),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// One change or look: with the lock, at one time, told of at its end.
    fn with<T>(&self, f: impl FnOnce(&mut Inner, u64) -> T) -> T {
        let mut inner = lock(&self.shared.inner);
        let now = (self.shared.clock)();
        let result = f(&mut inner, now);
        let version = inner.version;
        // Under the lock, so that versions are told in their order.
        self.shared
            .version
            .send_if_modified(|v| std::mem::replace(v, version) != version);
        result
    }

    /// One change of the keys, on a thread that may wait for the disk.
    async fn with_keys_file<T: Send + 'static>(
        &self,
        f: impl FnOnce(&mut KeyFile) -> Result<T, KeyFileError> + Send + 'static,
    ) -> Result<T, StoreDown> {
        let shared = self.shared.clone();
        let work = tokio::task::spawn_blocking(move || f(&mut lock(&shared.keys)));
        let down = |reason: String| StoreDown { reason };
        match work.await {
            Ok(done) => done.map_err(|e| down(e.to_string())),
            Err(_) => Err(down("the daemon is shutting down".to_owned())),
        }
    }
}

/// A panic under the lock left no half change behind that matters: each is one map's.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PoolStore for MemoryStore {
    async fn changes(&self, since: Version) -> Result<Fleet, StoreDown> {
        Ok(self.with(|inner, now| {
            let whole = since == 0 || since < inner.forgotten || since > inner.version;
            let changed: Vec<NodeId> = match whole {
                true => inner.nodes.keys().cloned().collect(),
                false => inner
                    .history
                    .range(since + 1..)
                    .map(|(_, n)| n.clone())
                    .collect(),
            };
            let mut fleet = Fleet {
                now_ms: now,
                version: inner.version,
                whole,
                keys_version: inner.keys_version,
                ..Fleet::default()
            };
            for node in changed {
                match inner.view(&node, now) {
                    Some(record) => fleet.records.push(record),
                    None => fleet.gone.push(node),
                }
            }
            fleet.records.sort_by(|a, b| a.node().cmp(b.node()));
            fleet.gone.sort();
            fleet
        }))
    }

    async fn changed(&self, since: Version) -> Result<(), StoreDown> {
        // The sender is ours, so there is no other end.
        let _ = self
            .shared
            .version
            .subscribe()
            .wait_for(|v| *v != since)
            .await;
        Ok(())
    }

    async fn register(
        &self,
        registration: Registration,
        key_name: &str,
        session: &Session,
    ) -> Result<Record, StoreDown> {
        Ok(self.with(|inner, now| {
            let node = registration.node.clone();
            let mut record = Record {
                registration,
                key_name: key_name.to_owned(),
                session: Some(session.clone()),
                registered_at: now,
                beat: None,
                beat_at: now,
                drain: false,
                breaker: Default::default(),
                perf: BTreeMap::new(),
                leases: 0,
            };
            if let Some(before) = inner.nodes.remove(&node) {
                record.drain = before.drain;
                record.breaker = before.breaker;
                record.perf = before.perf;
                let models = &record.registration.models;
                record
                    .perf
                    .retain(|name, _| models.iter().any(|m| m.id == *name));
            }
            record.leases = inner.count(&node, now);
            inner.nodes.insert(node.clone(), record.clone());
            inner.touch(&node);
            record
        }))
    }

    async fn beat(&self, node: &NodeId, session: &Session, beat: Beat) -> Result<Taken, StoreDown> {
        Ok(self.with(|inner, now| {
            let Some(record) = inner.nodes.get_mut(node) else {
                return Taken::Unknown;
            };
            match &record.session {
                None => return Taken::Unknown,
                Some(current) if current != session => return Taken::Replaced,
                Some(_) => {},
            }
            if beat.seq <= record.beat.as_ref().map_or(0, |b| b.seq) {
                return Taken::Stale;
            }
            record.beat = Some(beat);
            record.beat_at = now;
            inner.touch(node);
            match inner.view(node, now) {
                Some(record) => Taken::Taken(Box::new(record)),
                None => Taken::Unknown,
            }
        }))
    }

    async fn leave(&self, node: &NodeId, session: &Session) -> Result<Left, StoreDown> {
        Ok(self.with(|inner, _| {
            let Some(record) = inner.nodes.get_mut(node) else {
                return Left::Unknown;
            };
            match &record.session {
                None => return Left::Unknown,
                Some(current) if current != session => return Left::Replaced,
                Some(_) => {},
            }
            if record.drain {
                record.session = None;
                inner.touch(node);
            } else {
                inner.remove(node);
            }
            Left::Left
        }))
    }

    async fn evict(&self, node: &NodeId) -> Result<bool, StoreDown> {
        Ok(self.with(|inner, _| inner.remove(node)))
    }

    async fn purge(&self, node: &NodeId, unless_beaten_since: u64) -> Result<bool, StoreDown> {
        Ok(self.with(|inner, _| {
            let record = inner.nodes.get(node);
            record.is_some_and(|r| r.beat_at < unless_beaten_since) && inner.remove(node)
        }))
    }

    async fn set_drain(&self, node: &NodeId, on: bool) -> Result<bool, StoreDown> {
        Ok(self.with(|inner, _| {
            let Some(record) = inner.nodes.get_mut(node) else {
                return false;
            };
            record.drain = on;
            inner.touch(node);
            true
        }))
    }

    async fn reset_breaker(&self, node: &NodeId) -> Result<bool, StoreDown> {
        Ok(self.with(|inner, _| {
            let Some(record) = inner.nodes.get_mut(node) else {
                return false;
            };
            record.breaker = Default::default();
            record
                .perf
                .values_mut()
                .for_each(|p| p.breaker = Default::default());
            record.perf.retain(|_, p| *p != Perf::default());
            inner.touch(node);
            true
        }))
    }

    async fn acquire(
        &self,
        node: &NodeId,
        model: Option<&str>,
        lease: &LeaseId,
        max: u32,
        ttl_ms: u64,
    ) -> Result<Admission, StoreDown> {
        Ok(self.with(|inner, now| {
            let until = now.saturating_add(ttl_ms);
            let ask = Ask {
                node,
                model,
                lease,
                max,
                until,
            };
            inner.acquire(now, &ask, &self.shared.limits)
        }))
    }

    async fn renew(&self, node: &NodeId, lease: &LeaseId, ttl_ms: u64) -> Result<bool, StoreDown> {
        Ok(self.with(|inner, now| {
            let held = inner.holds(node, lease, now);
            if held {
                inner.prolong(node, lease, now.saturating_add(ttl_ms));
            }
            held
        }))
    }

    async fn settle(
        &self,
        node: &NodeId,
        lease: &LeaseId,
        model: Option<&str>,
        outcome: Outcome,
    ) -> Result<(), StoreDown> {
        self.with(|inner, now| {
            if let Some(leases) = inner.leases.get_mut(node) {
                leases.remove(lease);
            }
            inner.count(node, now);
            if let Some(record) = inner.nodes.get_mut(node) {
                settle(record, lease, model, &outcome, now, &self.shared.limits);
                inner.touch(node);
            }
        });
        Ok(())
    }

    async fn put_key(&self, key: KeyRecord) -> Result<bool, StoreDown> {
        let added = self.with_keys_file(move |file| file.add(key)).await?;
        if added {
            self.with(|inner, _| {
                inner.version += 1;
                inner.keys_version = inner.version;
            });
        }
        Ok(added)
    }

    async fn revoke_key(&self, name: &str) -> Result<Option<Revoked>, StoreDown> {
        let removed = name.to_owned();
        let removed = self
            .with_keys_file(move |file| file.remove(&removed))
            .await?;
        let Some(key) = removed else {
            return Ok(None);
        };
        let evicted = self.with(|inner, _| {
            inner.version += 1;
            inner.keys_version = inner.version;
            let node = inner.nodes.get(&key.node);
            let evicted = node.is_some_and(|r| r.key_name == key.name);
            if evicted {
                inner.remove(&key.node);
            }
            evicted
        });
        Ok(Some(Revoked { key, evicted }))
    }

    async fn keys(&self) -> Result<KeySet, StoreDown> {
        let version = self.with(|inner, _| inner.keys_version);
        let keys = lock(&self.shared.keys).keys();
        Ok(KeySet { version, keys })
    }
}
