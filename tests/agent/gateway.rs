//! A registry over a pool in memory, and agents that come to it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use nvpair_proxy::net::server_tls::ServerTls;
use nvpair_proxy::registry::{self, Options, Server};
use nvpair_proxy::rules::ids::NodeId;
use nvpair_proxy::rules::pool::blame::{Blame, Outcome};
use nvpair_proxy::rules::pool::ema::Sample;
use nvpair_proxy::rules::pool::key::{self, KeyHash, KeyRecord};
use nvpair_proxy::rules::pool::limits::Limits;
use nvpair_proxy::rules::pool::record::{LeaseId, Record};
use nvpair_proxy::state::fleet::Fleet;
use nvpair_proxy::state::pool::Pool;
use nvpair_proxy::store::pool::{Admission, MemoryStore, PoolStore, system_clock};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::support::ask_until;
use crate::support::daemon::{Process, World};
use crate::support::engine::{Engine, Reply, Request};

/// The rhythm of these tests, in ms. A beat cannot be faster on the wire, which has whole seconds.
pub fn limits() -> Limits {
    Limits {
        beat_ms: 1_000,
        ttl_ms: 4_000,
        sweep_ms: 1_000,
        ..Limits::default()
    }
}

/// A gateway's registry, without the gateway.
pub struct Gateway {
    runtime: Runtime,
    store: MemoryStore,
    pool: Arc<Pool<MemoryStore>>,
    keys: Vec<KeyRecord>,
    server: Option<Server>,
    address: SocketAddr,
    tls: Option<Arc<ServerTls>>,
}

impl Gateway {
    pub fn start() -> Self {
        Self::with_tls(None)
    }

    pub fn with_tls(tls: Option<ServerTls>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let store = MemoryStore::new(system_clock(), limits());
        let mut gateway = Self {
            runtime,
            pool: Pool::new(Arc::new(store.clone()), limits(), "memory"),
            store,
            keys: Vec::new(),
            server: None,
            address: SocketAddr::from(([127, 0, 0, 1], crate::support::free_port())),
            tls: tls.map(Arc::new),
        };
        gateway.again();
        gateway
    }

    /// Where it is or was.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Nobody answers any more.
    pub fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            self.runtime.block_on(server.stop());
        }
    }

    /// It answers again, at the same place, and remembers what it knew.
    pub fn again(&mut self) {
        let _inside = self.runtime.enter();
        // The listener before it is closed by a task that was told to end.
        self.server = Some(ask_until("the registry's port is free", || {
            let options = Options {
                tls: self.tls.clone(),
                ..Options::standard(self.address)
            };
            registry::start(options, self.pool.clone()).ok()
        }));
    }

    /// It answers again, and knows nothing but the keys.
    pub fn afresh(&mut self) {
        self.stop();
        self.store = MemoryStore::new(system_clock(), limits());
        self.pool = Pool::new(Arc::new(self.store.clone()), limits(), "memory");
        for key in self.keys.clone() {
            assert!(self.run(self.store.put_key(key)).unwrap());
        }
        self.again();
    }

    fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// A key for this node on this machine.
    pub fn key(&mut self, node: &str) -> String {
        self.key_for(node, &[])
    }

    /// The same for these models alone.
    pub fn key_for(&mut self, node: &str, models: &[&str]) -> String {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let secret = key::make([NEXT.fetch_add(1, Ordering::Relaxed); key::RANDOM_BYTES]);
        let record = KeyRecord {
            name: format!("key-{node}"),
            node: node.into(),
            hash: KeyHash::of(secret.reveal()).unwrap(),
            allow: vec!["127.0.0.0/8".to_owned()],
            models: models.iter().map(|m| (*m).to_owned()).collect(),
            created_at: 0,
        };
        self.keys.push(record.clone());
        assert!(self.run(self.store.put_key(record)).unwrap());
        secret.reveal().to_owned()
    }

    pub fn revoke(&self, node: &str) {
        let name = format!("key-{node}");
        let revoked = self.run(Fleet::revoke_key(&*self.pool, &name));
        assert!(revoked.unwrap().is_some());
        self.run(Fleet::evict(&*self.pool, &node.into())).unwrap();
    }

    pub fn record(&self, node: &str) -> Option<Record> {
        let fleet = self.run(self.store.fleet()).unwrap();
        fleet
            .records
            .into_iter()
            .find(|r| r.node().as_str() == node)
    }

    /// Waits until the node's record is so.
    #[track_caller]
    pub fn until(&self, what: &str, node: &str, so: impl Fn(&Record) -> bool) -> Record {
        ask_until(what, || self.record(node).filter(&so))
    }

    /// Waits for a beat after this record.
    #[track_caller]
    pub fn next_beat(&self, last: &Record) -> Record {
        let seq = |r: &Record| r.beat.as_ref().map_or(0, |b| b.seq);
        self.until("another beat", last.node().as_str(), |r| {
            r.session == last.session && seq(r) > seq(last)
        })
    }

    pub fn drain(&self, node: &str, on: bool) {
        assert!(self.run(self.store.set_drain(&node.into(), on)).unwrap());
    }

    /// Takes a place on a node, as a request does.
    pub fn lease(&self, node: &str) -> Lease<'_> {
        let (node, id) = (NodeId::from(node), LeaseId::from("r1"));
        let got = self.run(self.store.acquire(&node, Some("m"), &id, 8, 60_000));
        assert!(matches!(got.unwrap(), Admission::Granted { .. }));
        Lease {
            gateway: self,
            node,
            id,
        }
    }
}

/// A request on a node, until this is dropped.
pub struct Lease<'a> {
    gateway: &'a Gateway,
    node: NodeId,
    id: LeaseId,
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let outcome = Outcome {
            blame: Blame::Success,
            sample: Sample::default(),
        };
        let store = &self.gateway.store;
        let settled = store.settle(&self.node, &self.id, Some("m"), outcome);
        self.gateway.run(settled).unwrap();
    }
}

/// An agent of node `w1` with these flags besides the usual ones; `key` is in its environment.
pub fn agent(
    world: &World,
    gateway: &Gateway,
    key: &str,
    engine: &str,
    url: &str,
    more: &[&str],
) -> Process {
    agent_at(world, &gateway.address(), key, engine, url, more)
}

/// The same, of a registry that is reached at this address.
pub fn agent_at(
    world: &World,
    registry: &str,
    key: &str,
    engine: &str,
    url: &str,
    more: &[&str],
) -> Process {
    let mut command = world.command(&["agent", "--node-id", "w1"]);
    command
        .args(["--proxy-addr", registry, "--engine", engine])
        .args(["--engine-url", url, "--endpoint", url])
        .args(more)
        .env("NODE_KEY", key)
        // No tool of this machine tells of GPUs.
        .env("PATH", world.path().join("bin"));
    Process::spawn(&mut command)
}

/// An Ollama with two models, one of them loaded.
pub fn ollama() -> Engine {
    Engine::start(|r| ollama_says(r, &["m", "cold"]))
}

/// What an Ollama with these models answers; the first is loaded.
pub fn ollama_says(request: &Request, models: &[&str]) -> Reply {
    let entry = |name: &&str| json!({"name": name, "model": name});
    let list: Vec<Value> = models.iter().map(entry).collect();
    match request.target.as_str() {
        "/api/tags" => Reply::json(200, &json!({ "models": list })),
        "/api/ps" => {
            let mut first = list.into_iter().take(1).collect::<Vec<_>>();
            for model in &mut first {
                model["context_length"] = 8192.into();
            }
            Reply::json(200, &json!({ "models": first }))
        },
        _ => Reply::status(404),
    }
}

pub fn url(engine: &Engine) -> String {
    format!("http://127.0.0.1:{}", engine.port())
}

/// A tool named `nvidia-smi` that prints this.
pub fn nvidia_smi(world: &World, text: &str) {
    let script = format!("#!/bin/sh\n/bin/cat <<'END'\n{text}\nEND\n");
    executable(&world.path().join("bin/nvidia-smi"), &script);
}

pub fn executable(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
