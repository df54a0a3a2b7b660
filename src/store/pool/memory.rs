//! The pool in this process's memory: for one gateway, gone when it ends.
//!
//! Owns: one lock, never held across an await, and the history that says what changed. Leaves to
//! others: the transitions (`rules::pool`), the file of the keys (`key_file`), which outlives the
//! process.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use super::key_file::{KeyFile, KeyFileError};
use super::{Admission, Fleet, KeySet, Left, PoolStore, StoreDown, Taken, Version};
use crate::rules::ids::NodeId;
use crate::rules::pool::blame::{Blame, Outcome};
use crate::rules::pool::breaker::Gate;
use crate::rules::pool::key::KeyRecord;
use crate::rules::pool::limits::Limits;
use crate::rules::pool::record::{Beat, LeaseId, Perf, Record, Registration, Session};
use crate::rules::pool::sizes::MAX_MODELS;

/// Gives Unix ms and never goes back.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The version of a store in which nothing happened yet.
const BEGIN: Version = 1;

/// So many nodes that are gone are remembered, so that whoever asks what changed hears of it.
const REMEMBERED: usize = 1_000;

/// The system's time of now, counted on by the monotonic clock: a clock that is set does not make
/// every node offline.
pub fn system_clock() -> Clock {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    let begin = since_epoch.unwrap_or_default();
    let started = Instant::now();
    // Millions of years fit.
    Arc::new(move || (begin + started.elapsed()).as_millis() as u64)
}

/// The pool in memory.
pub struct MemoryStore {
    clock: Clock,
    limits: Limits,
    inner: Mutex<Inner>,
    version: watch::Sender<Version>,
    keys: Arc<Mutex<KeyFile>>,
}

#[derive(Default)]
struct Inner {
    nodes: BTreeMap<NodeId, Record>,
    /// Unix ms of their ends. Apart from the records, which they outlive.
    leases: HashMap<NodeId, HashMap<LeaseId, u64>>,
    /// When each node, also one that is gone, changed last.
    versions: HashMap<NodeId, Version>,
    history: BTreeMap<Version, NodeId>,
    version: Version,
    /// Of changes up to this one not everything is remembered.
    forgotten: Version,
    keys_version: Version,
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
        Self {
            clock,
            limits,
            inner: Mutex::new(inner),
            version: watch::Sender::new(BEGIN),
            keys: Arc::new(Mutex::new(keys)),
        }
    }

    /// One change or look: with the lock, at one time, told of at its end.
    fn with<T>(&self, f: impl FnOnce(&mut Inner, u64) -> T) -> T {
        let mut inner = lock(&self.inner);
        let now = (self.clock)();
        let result = f(&mut inner, now);
        let version = inner.version;
        // Under the lock, so that versions are told in their order.
        self.version
            .send_if_modified(|v| std::mem::replace(v, version) != version);
        result
    }

    /// One change of the keys, on a thread that may wait for the disk.
    async fn with_keys_file<T: Send + 'static>(
        &self,
        f: impl FnOnce(&mut KeyFile) -> Result<T, KeyFileError> + Send + 'static,
    ) -> Result<T, StoreDown> {
        let keys = self.keys.clone();
        let work = tokio::task::spawn_blocking(move || f(&mut lock(&keys)));
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

impl Inner {
    fn touch(&mut self, node: &NodeId) {
        self.version += 1;
        if let Some(old) = self.versions.insert(node.clone(), self.version) {
            self.history.remove(&old);
        }
        self.history.insert(self.version, node.clone());
    }

    fn remove(&mut self, node: &NodeId) -> bool {
        if self.nodes.remove(node).is_none() {
            return false;
        }
        self.touch(node);
        if self.history.len() - self.nodes.len() > REMEMBERED {
            self.forget();
        }
        true
    }

    /// Forgets the older half of the nodes that are gone.
    fn forget(&mut self) {
        let gone = self.history.iter();
        let gone = gone.filter(|(_, node)| !self.nodes.contains_key(*node));
        let old: Vec<_> = gone
            .take(REMEMBERED / 2)
            .map(|(v, n)| (*v, n.clone()))
            .collect();
        for (version, node) in old {
            self.history.remove(&version);
            self.versions.remove(&node);
            self.forgotten = version;
        }
    }

    /// Drops what has expired and counts the rest.
    fn count(&mut self, node: &NodeId, now: u64) -> u32 {
        let Some(leases) = self.leases.get_mut(node) else {
            return 0;
        };
        leases.retain(|_, until| *until > now);
        let count = leases.len();
        if count == 0 {
            self.leases.remove(node);
        }
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn view(&mut self, node: &NodeId, now: u64) -> Option<Record> {
        let leases = self.count(node, now);
        let mut record = self.nodes.get(node)?.clone();
        record.leases = leases;
        Some(record)
    }

    fn holds(&self, node: &NodeId, lease: &LeaseId, now: u64) -> bool {
        let until = self.leases.get(node).and_then(|l| l.get(lease));
        until.is_some_and(|until| *until > now)
    }

    fn hold(&mut self, node: &NodeId, lease: &LeaseId, until: u64) {
        let leases = self.leases.entry(node.clone()).or_default();
        leases.insert(lease.clone(), until);
    }

    /// Prolongs a lease that is held, and the trial that it is.
    fn prolong(&mut self, node: &NodeId, lease: &LeaseId, until: u64) {
        self.hold(node, lease, until);
        if let Some(record) = self.nodes.get_mut(node) {
            record.breaker.renew(lease, until);
            record
                .perf
                .values_mut()
                .for_each(|p| p.breaker.renew(lease, until));
        }
    }

    fn acquire(&mut self, now: u64, ask: &Ask<'_>, limits: &Limits) -> Admission {
        let Ask {
            node,
            model,
            lease,
            max,
            until,
        } = *ask;
        let leases = self.count(node, now);
        let held = self.holds(node, lease, now);
        let Some(record) = self.nodes.get_mut(node) else {
            return Admission::Gone;
        };
        let silent = now.saturating_sub(record.beat_at) > limits.ttl_ms;
        if record.session.is_none() || silent {
            return Admission::Offline;
        }
        let model = model.filter(|m| record.perf.contains_key(*m));
        let is_trial = |r: &Record| {
            let scopes = model.and_then(|m| r.perf.get(m)).map(|p| &p.breaker);
            let scopes = [Some(&r.breaker), scopes].into_iter().flatten();
            scopes
                .filter_map(|b| b.trial.as_ref())
                .any(|t| t.lease == *lease)
        };
        if held {
            let trial = is_trial(record);
            self.prolong(node, lease, until);
            return Admission::Granted { trial, leases };
        }
        if record.drain || record.beat.as_ref().is_some_and(|b| b.draining) {
            return Admission::Draining;
        }
        let of_node = record.breaker.gate(now);
        let of_model = model.and_then(|m| record.perf.get(m));
        let of_model = of_model.map_or(Gate::Pass, |p| p.breaker.gate(now));
        let refused = |gate| match gate {
            Gate::Refuse { until } => Some(until),
            Gate::Pass | Gate::Try => None,
        };
        if let Some(until) = refused(of_node).max(refused(of_model)) {
            return Admission::Broken { until };
        }
        if leases >= max.min(record.registration.max_concurrency) {
            return Admission::Full;
        }
        if of_node == Gate::Try {
            record.breaker.claim(lease, until);
        }
        if of_model == Gate::Try
            && let Some(perf) = model.and_then(|m| record.perf.get_mut(m))
        {
            perf.breaker.claim(lease, until);
        }
        self.hold(node, lease, until);
        self.touch(node);
        Admission::Granted {
            trial: of_node == Gate::Try || of_model == Gate::Try,
            leases: leases + 1,
        }
    }
}

/// Who asks for a place where, until when.
struct Ask<'a> {
    node: &'a NodeId,
    model: Option<&'a str>,
    lease: &'a LeaseId,
    max: u32,
    until: u64,
}

/// Takes the end of a request in.
fn settle(
    record: &mut Record,
    lease: &LeaseId,
    model: Option<&str>,
    outcome: &Outcome,
    now: u64,
    limits: &Limits,
) {
    let (failures, cooldown) = (limits.failures, limits.cooldown_ms);
    let blame = outcome.blame;
    record
        .breaker
        .settle(lease, blame.for_node(), now, failures, cooldown);
    let Some(model) = model else {
        return;
    };
    if !record.perf.contains_key(model) && record.perf.len() >= MAX_MODELS {
        return;
    }
    let perf = record.perf.entry(model.to_owned()).or_default();
    perf.breaker
        .settle(lease, blame.for_model(), now, failures, cooldown);
    if blame == Blame::Success {
        perf.ttft_ms.add(outcome.sample.ttft_ms);
        perf.tokens_per_second.add(outcome.sample.tokens_per_second);
    }
    if *perf == Perf::default() {
        record.perf.remove(model);
    }
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
            fleet
        }))
    }

    async fn changed(&self, since: Version) -> Result<(), StoreDown> {
        // The sender is ours, so there is no other end.
        let _ = self.version.subscribe().wait_for(|v| *v != since).await;
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
            inner.acquire(now, &ask, &self.limits)
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
                settle(record, lease, model, &outcome, now, &self.limits);
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

    async fn revoke_key(&self, name: &str) -> Result<Option<KeyRecord>, StoreDown> {
        let removed = name.to_owned();
        let removed = self
            .with_keys_file(move |file| file.remove(&removed))
            .await?;
        if let Some(key) = &removed {
            self.with(|inner, _| {
                inner.version += 1;
                inner.keys_version = inner.version;
                let node = inner.nodes.get(&key.node);
                if node.is_some_and(|r| r.key_name == key.name) {
                    inner.remove(&key.node);
                }
            });
        }
        Ok(removed)
    }

    async fn keys(&self) -> Result<KeySet, StoreDown> {
        let version = self.with(|inner, _| inner.keys_version);
        let keys = lock(&self.keys).keys();
        Ok(KeySet { version, keys })
    }
}
