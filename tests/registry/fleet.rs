//! A pool for tests of its door: plain maps, and switches for what goes wrong in one.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nvpair_proxy::rules::ids::NodeId;
use nvpair_proxy::rules::pool::key::{self, KeyRecord, Revoked};
use nvpair_proxy::rules::pool::limits::Limits;
use nvpair_proxy::rules::pool::record::{Beat, Record, Registration, Session};
use nvpair_proxy::state::fleet::{Answer, Fleet, Left, StoreDown, Taken, node_status};
use nvpair_proxy::wire::pool::PoolStatus;

#[derive(Default)]
pub struct TestFleet {
    nodes: Mutex<BTreeMap<NodeId, Record>>,
    keys: Mutex<BTreeMap<String, KeyRecord>>,
    looks: AtomicU64,
    /// Nothing can be asked of the store.
    pub down: AtomicBool,
    /// Keys are found all the same.
    pub keys_are_cached: AtomicBool,
    /// A registration meets a fault.
    pub panics: AtomicBool,
    /// A registration's key is revoked before it is through.
    pub revoke_during_register: AtomicBool,
}

impl TestFleet {
    pub fn record(&self, node: &str) -> Option<Record> {
        self.nodes.lock().unwrap().get(node).cloned()
    }

    /// As if the gateways had so many requests on it.
    pub fn lease(&self, node: &str, leases: u32) {
        self.nodes.lock().unwrap().get_mut(node).unwrap().leases = leases;
    }

    /// How often everything was asked for.
    pub fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }

    /// As if it had failed too often in a row.
    pub fn break_node(&self, node: &str) {
        let mut nodes = self.nodes.lock().unwrap();
        let breaker = &mut nodes.get_mut(node).unwrap().breaker;
        breaker.failures = 5;
        breaker.open_until = Some(30_000);
    }

    /// As the control socket does it.
    pub async fn revoke(&self, name: &str) -> bool {
        let Some(revoked) = self.revoke_key(name).await.unwrap() else {
            return false;
        };
        self.evict(&revoked.key.node).await.unwrap();
        true
    }

    fn up(&self) -> Result<(), StoreDown> {
        match self.down.load(Ordering::Relaxed) {
            true => Err(StoreDown {
                reason: "it is stopped".to_owned(),
            }),
            false => Ok(()),
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<NodeId, Record>) -> T) -> Answer<'_, T>
    where
        T: Send + 'static,
    {
        let answer = self.up().map(|()| change(&mut self.nodes.lock().unwrap()));
        Box::pin(async move { answer })
    }
}

impl Fleet for TestFleet {
    fn limits(&self) -> Limits {
        Limits::default()
    }

    fn find_key<'a>(&'a self, presented: &'a str) -> Answer<'a, Option<KeyRecord>> {
        Box::pin(async move {
            if !self.keys_are_cached.load(Ordering::Relaxed) {
                self.up()?;
            }
            let keys = self.keys.lock().unwrap();
            Ok(key::find(keys.values(), presented).cloned())
        })
    }

    fn register<'a>(
        &'a self,
        registration: Registration,
        key_name: &'a str,
        session: &'a Session,
    ) -> Answer<'a, Record> {
        assert!(!self.panics.load(Ordering::Relaxed), "a fault on purpose");
        if self.revoke_during_register.load(Ordering::Relaxed) {
            self.keys.lock().unwrap().remove(key_name);
        }
        let record = Record {
            registration,
            key_name: key_name.to_owned(),
            session: Some(session.clone()),
            registered_at: 0,
            beat: None,
            beat_at: 0,
            drain: false,
            breaker: Default::default(),
            perf: BTreeMap::new(),
            leases: 0,
        };
        self.change(|nodes| {
            nodes.insert(record.node().clone(), record.clone());
            record
        })
    }

    fn beat<'a>(&'a self, node: &'a NodeId, session: &'a Session, beat: Beat) -> Answer<'a, Taken> {
        self.change(|nodes| match nodes.get_mut(node) {
            None => Taken::Unknown,
            Some(r) if r.session.as_ref() != Some(session) => Taken::Replaced,
            Some(r) if r.beat.as_ref().map_or(0, |b| b.seq) >= beat.seq => Taken::Stale,
            Some(r) => {
                r.beat = Some(beat);
                Taken::Taken(Box::new(r.clone()))
            },
        })
    }

    fn leave<'a>(&'a self, node: &'a NodeId, session: &'a Session) -> Answer<'a, Left> {
        self.change(|nodes| match nodes.get(node) {
            None => Left::Unknown,
            Some(r) if r.session.as_ref() != Some(session) => Left::Replaced,
            Some(_) => {
                nodes.remove(node);
                Left::Left
            },
        })
    }

    fn evict<'a>(&'a self, node: &'a NodeId) -> Answer<'a, bool> {
        self.change(|nodes| nodes.remove(node).is_some())
    }

    fn drain<'a>(&'a self, node: &'a NodeId, on: bool) -> Answer<'a, bool> {
        self.change(|nodes| nodes.get_mut(node).map(|r| r.drain = on).is_some())
    }

    fn reset<'a>(&'a self, node: &'a NodeId) -> Answer<'a, bool> {
        self.change(|nodes| {
            let found = nodes.get_mut(node);
            found.map(|r| r.breaker = Default::default()).is_some()
        })
    }

    fn put_key(&self, key: KeyRecord) -> Answer<'_, bool> {
        Box::pin(async move {
            self.up()?;
            let mut keys = self.keys.lock().unwrap();
            let is_new = !keys.contains_key(&key.name);
            if is_new {
                keys.insert(key.name.clone(), key);
            }
            Ok(is_new)
        })
    }

    fn revoke_key<'a>(&'a self, name: &'a str) -> Answer<'a, Option<Revoked>> {
        Box::pin(async move {
            self.up()?;
            let key = self.keys.lock().unwrap().remove(name);
            let mut nodes = self.nodes.lock().unwrap();
            Ok(key.map(|key| {
                let is_its = nodes.get(&key.node).is_some_and(|n| n.key_name == key.name);
                let evicted = is_its && nodes.remove(&key.node).is_some();
                Revoked { key, evicted }
            }))
        })
    }

    fn keys(&self) -> Answer<'_, Vec<KeyRecord>> {
        Box::pin(async move {
            self.up()?;
            Ok(self.keys.lock().unwrap().values().cloned().collect())
        })
    }

    fn status(&self) -> Answer<'_, PoolStatus> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.change(|nodes| PoolStatus {
            usage: None,
            listen: "127.0.0.1:9090".to_owned(),
            tls: false,
            store: "memory".to_owned(),
            store_error: None,
            nodes: nodes
                .values()
                .map(|r| node_status(r, 1, 0, &Limits::default()))
                .collect(),
        })
    }
}
