//! A worker of the node pool that says to a daemon's registry what a test wants.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::client::http;
use super::daemon::World;
use super::engine::Engine;

/// A worker that says what a test wants; nothing of it beats by itself.
pub struct Worker {
    registry: u16,
    id: &'static str,
    pub key: String,
    session: String,
    seq: AtomicUsize,
}

/// One call of the registry, as JSON-RPC answers it.
pub fn call(registry: u16, key: &str, method: &str, params: &Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let bearer = format!("Bearer {key}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
    ];
    http(registry, "POST", "/", &headers, body.as_bytes()).json()
}

fn registration(id: &str, more: Value) -> Value {
    let mut params = json!({
        "node_id": id,
        "engine": "ollama",
        "models": [{"id": "m", "is_warm": true}],
        "max_concurrency": 1,
        "agent_version": "test",
    });
    for (name, value) in more.as_object().unwrap() {
        params[name] = value.clone();
    }
    params
}

impl Worker {
    /// Makes a key for it and registers it.
    pub fn join(
        world: &World,
        registry: u16,
        id: &'static str,
        engine: &Engine,
        more: Value,
    ) -> Self {
        let mut all = json!({"endpoint": format!("http://127.0.0.1:{}", engine.port())});
        for (name, value) in more.as_object().unwrap() {
            all[name] = value.clone();
        }
        Self::register(world, registry, id, all)
    }

    pub fn register(world: &World, registry: u16, id: &'static str, more: Value) -> Self {
        let made = world.json(&[
            "nodes",
            "keys",
            "create",
            id,
            "--node-id",
            id,
            "--allow",
            "127.0.0.1",
        ]);
        let key = made["key"].as_str().unwrap().to_owned();
        let params = registration(id, more);
        let told = call(registry, &key, "node/register", &params);
        let session = told["result"]["session"].as_str();
        Self {
            registry,
            id,
            session: session.unwrap_or_else(|| panic!("{told}")).to_owned(),
            key,
            seq: AtomicUsize::new(0),
        }
    }

    /// Registers once more, with the key it has.
    pub fn again(&self, engine: &Engine, more: Value) -> Value {
        let mut params = registration(self.id, more);
        params["endpoint"] = json!(format!("http://127.0.0.1:{}", engine.port()));
        call(self.registry, &self.key, "node/register", &params)
    }

    pub fn beat(&self, more: Value) -> Value {
        let mut params = json!({
            "node_id": self.id,
            "session": self.session,
            "seq": self.seq.fetch_add(1, Ordering::Relaxed) + 1,
            "draining": false,
            "active_requests": 0,
            "queue_depth": 0,
            "models": [{"id": "m", "is_warm": true}],
        });
        for (name, value) in more.as_object().unwrap() {
            params[name] = value.clone();
        }
        call(self.registry, &self.key, "node/heartbeat", &params)["result"].clone()
    }
}
