//! A store, the clock it goes by, and shorthands.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nvpair_proxy::rules::ids::NodeId;
use nvpair_proxy::rules::pool::blame::{Blame, Outcome};
use nvpair_proxy::rules::pool::ema::Sample;
use nvpair_proxy::rules::pool::limits::Limits;
use nvpair_proxy::rules::pool::record::{
    Beat, ModelEntry, PoolEngine, Record, Registration, Session,
};
use nvpair_proxy::store::pool::{
    Admission, Clock, MemoryStore, PoolStore, RedisStore, Store, Taken,
};

use crate::redis::Redis;

/// Longer than any test takes: Redis' own time-outs go by real time.
pub const TTL: u64 = 600_000;
pub const COOLDOWN: u64 = 30_000;

pub struct World {
    pub store: Arc<Store>,
    pub clock: Arc<AtomicU64>,
    pub redis: Option<Redis>,
}

impl World {
    pub fn memory() -> Self {
        let (clock, time) = clock();
        let store = MemoryStore::new(time, Limits::default());
        Self {
            store: Arc::new(Store::Memory(store)),
            clock,
            redis: None,
        }
    }

    /// `None` where there is no Redis.
    pub fn redis() -> Option<Self> {
        let redis = Redis::start(None)?;
        let (clock, time) = clock();
        let address = redis.address().parse_address();
        let store = RedisStore::for_tests(address, Limits::default(), time).unwrap();
        Some(Self {
            store: Arc::new(Store::Redis(store)),
            clock,
            redis: Some(redis),
        })
    }

    pub fn pass(&self, ms: u64) {
        self.clock.fetch_add(ms, Ordering::SeqCst);
    }

    pub fn now(&self) -> u64 {
        self.clock.load(Ordering::SeqCst)
    }

    pub async fn register(&self, node: &str, max: u32) -> Session {
        let session = session(1);
        self.store
            .register(registration(node, max), "key", &session)
            .await
            .unwrap();
        session
    }

    pub async fn record(&self, node: &str) -> Option<Record> {
        let fleet = self.store.fleet().await.unwrap();
        fleet
            .records
            .into_iter()
            .find(|r| r.node().as_str() == node)
    }

    pub async fn acquire(&self, node: &str, lease: &str) -> Admission {
        let model = Some("m");
        self.store
            .acquire(&node.into(), model, &lease.into(), 1000, TTL)
            .await
            .unwrap()
    }

    /// Takes a place that must be there, and gives it back with this end.
    pub async fn request(&self, node: &str, lease: &str, blame: Blame) {
        let got = self.acquire(node, lease).await;
        assert!(matches!(got, Admission::Granted { .. }), "{got:?}");
        self.settle(node, lease, blame).await;
    }

    pub async fn settle(&self, node: &str, lease: &str, blame: Blame) {
        let node = NodeId::from(node);
        self.store
            .settle(&node, &lease.into(), Some("m"), outcome(blame))
            .await
            .unwrap();
    }

    pub async fn beat(&self, node: &str, session: &Session, seq: u64) -> Taken {
        let beat = Beat {
            seq,
            models: vec![model("m")],
            ..Beat::default()
        };
        self.store.beat(&node.into(), session, beat).await.unwrap()
    }
}

pub trait ParseAddress {
    fn parse_address(&self) -> nvpair_proxy::rules::pool::redis_address::RedisAddress;
}

impl ParseAddress for String {
    fn parse_address(&self) -> nvpair_proxy::rules::pool::redis_address::RedisAddress {
        nvpair_proxy::rules::pool::redis_address::RedisAddress::parse(self).unwrap()
    }
}

pub fn clock() -> (Arc<AtomicU64>, Clock) {
    let clock = Arc::new(AtomicU64::new(1_800_000_000_000));
    let time = clock.clone();
    (clock, Arc::new(move || time.load(Ordering::SeqCst)))
}

pub fn session(byte: u8) -> Session {
    Session::from_bytes([byte; 16])
}

pub fn outcome(blame: Blame) -> Outcome {
    Outcome {
        blame,
        sample: Sample::default(),
    }
}

pub fn granted(trial: bool, leases: u32) -> Admission {
    Admission::Granted { trial, leases }
}

pub fn model(id: &str) -> ModelEntry {
    ModelEntry {
        id: id.into(),
        context_length: Some(8192),
        is_warm: true,
    }
}

pub fn registration(node: &str, max: u32) -> Registration {
    Registration {
        node: node.into(),
        endpoint: "http://10.0.0.7:8080/v1".into(),
        address: ([10, 0, 0, 7], 8000).into(),
        engine: PoolEngine::Vllm,
        models: vec![model("m"), model("Größe:x y")],
        max_concurrency: max,
        base_weight: 4,
        hardware: Some(Default::default()),
        agent_version: "1.2.3".into(),
    }
}
