//! Shapes of the node pool: what a worker sends to the registry, and what `status` and `nodes` show.
//!
//! Owns: parameters and results of `node/register`, `node/heartbeat` and `node/unregister`; of the
//! control socket's `pool/…` calls; the pool's part of `status`.
//! Leaves to others: limits and what the values mean (`rules::pool`), methods (`registry`,
//! `control::api`).
//!
//! Parameters refuse unknown fields, so that a misspelt one is an error and not a default. Results
//! are read leniently: a newer gateway may tell an older agent more.

use serde::{Deserialize, Serialize};

use super::control::documents;

/// Name of the registering call.
pub const REGISTER: &str = "node/register";
/// Name of the heartbeat.
pub const HEARTBEAT: &str = "node/heartbeat";
/// Name of the leaving call.
pub const UNREGISTER: &str = "node/unregister";

/// No node key, an unknown or a revoked one. HTTP 401.
pub const CODE_UNAUTHORIZED: i32 = -32020;
/// The key is good and does not allow this: another node's id, an endpoint outside its addresses.
pub const CODE_FORBIDDEN: i32 = -32021;
/// Too many registrations with this key; wait and try again.
pub const CODE_TOO_MANY: i32 = -32022;
/// The registry cannot do it now: its store is down. Try again.
pub const CODE_UNAVAILABLE: i32 = -32023;
/// The heartbeat's number was seen before in its session.
pub const CODE_STALE: i32 = -32024;

/// One model a worker serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolModel {
    /// Its name, as clients ask for it.
    pub id: String,
    /// Tokens of context it takes, if known; at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_length: Option<u64>,
    /// Whether it is in memory.
    #[serde(default)]
    pub is_warm: bool,
}

/// What a worker is made of. Absent means not known, never 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolHardware {
    /// Name of its (first) GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_name: Option<String>,
    /// Number of GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_count: Option<u32>,
    /// Video memory of all of them, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vram_total_bytes: Option<u64>,
}

/// Parameters of `node/register`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegisterParams {
    /// The worker's id; the key has to be this node's.
    pub node_id: String,
    /// Where its engine answers: `http://HOST:PORT`, a trailing `/v1` is the OpenAI base.
    pub endpoint: String,
    /// `ollama`, `lmstudio`, `llamacpp`, `vllm`, `tgi` or `openai`.
    pub engine: String,
    /// What it serves; may be empty while its engine is down.
    pub models: Vec<PoolModel>,
    /// Requests it runs side by side; at least 1.
    pub max_concurrency: u32,
    /// 1 to 1000; `max_concurrency` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_weight: Option<u32>,
    /// What it is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<PoolHardware>,
    /// Version of the agent, for display.
    pub agent_version: String,
}

/// Answer of `node/register`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    /// Beat this often, in seconds.
    pub heartbeat_interval_seconds: u64,
    /// Silent for longer, in seconds, is offline.
    pub ttl_seconds: u64,
    /// In this time, in seconds, every gateway has heard of a drain; absent = not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep_interval_seconds: Option<u64>,
    /// Names this registration in every beat; the one before it is void.
    pub session: String,
    /// Models that the key does not allow; they were left out.
    pub rejected_models: Vec<String>,
}

/// Parameters of `node/heartbeat`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatParams {
    /// The worker's id.
    pub node_id: String,
    /// From its registration.
    pub session: String,
    /// Grows by each beat of a session; one that does not is stale.
    pub seq: u64,
    /// Whether it wants no new requests.
    pub draining: bool,
    /// Requests its engine is serving now.
    pub active_requests: u64,
    /// Requests waiting in its engine.
    pub queue_depth: u64,
    /// Free video memory in bytes, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_vram_bytes: Option<u64>,
    /// Of its hottest GPU, in degrees Celsius, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_temperature_c: Option<f64>,
    /// Of its busiest GPU, 0 to 100, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_utilization_percent: Option<f64>,
    /// What it serves now, whole; empty while its engine is down.
    pub models: Vec<PoolModel>,
}

/// Answer of `node/heartbeat`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beaten {
    /// Beat this often, in seconds.
    pub heartbeat_interval_seconds: u64,
    /// Silent for longer, in seconds, is offline.
    pub ttl_seconds: u64,
    /// In this time, in seconds, every gateway has heard of a drain; absent = not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep_interval_seconds: Option<u64>,
    /// What the gateway takes the node for: `healthy`, `suspect`, `circuit_broken`, `draining` or
    /// `offline`.
    pub state: String,
    /// Whether an administrator drains it.
    pub drain: bool,
    /// The session is unknown or replaced: register again. Everything else is then of no use.
    pub reregister: bool,
    /// Requests the gateways have on it now.
    pub active_proxy_requests: u64,
    /// Models that the key does not allow; they were left out.
    pub rejected_models: Vec<String>,
}

/// Parameters of `node/unregister`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnregisterParams {
    /// The worker's id.
    pub node_id: String,
    /// From its registration.
    pub session: String,
}

/// Answer of `node/unregister`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unregistered {
    /// Whether it was there under this session.
    pub removed: bool,
}

/// One model of a pool node, as `status` shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolModelStatus {
    /// Its name.
    pub id: String,
    /// Tokens of context, if told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_length: Option<u64>,
    /// Whether it is in memory.
    pub warm: bool,
    /// Moving average of the time to the first token, in ms; absent without samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<f64>,
    /// Moving average of its speed; absent without samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_second: Option<f64>,
    /// The breaker of this model on this node; absent while closed and without failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaker: Option<PoolBreaker>,
}

/// A circuit breaker, as `status` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolBreaker {
    /// `closed`, `open`, or `half_open`: its cool-down is over and one trial is admitted.
    pub state: String,
    /// Consecutive failures.
    pub failures: u32,
    /// Rest of the cool-down in ms, while open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_in_ms: Option<u64>,
}

/// One pool node, as `status` and `nodes list` show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolNodeStatus {
    /// Its id.
    pub id: String,
    /// Its engine.
    pub engine: String,
    /// As it registered it, without anything secret.
    pub endpoint: String,
    /// The address that was checked and is dialled.
    pub address: String,
    /// `healthy`, `suspect`, `circuit_broken`, `draining` or `offline`.
    pub state: String,
    /// Why, in words; empty for a healthy node.
    pub reason: String,
    /// Whether an administrator drains it.
    pub drain: bool,
    /// Requests it takes side by side.
    pub slots: u32,
    /// Requests the gateways have on it now.
    pub leases: u64,
    /// Requests its engine serves now, as it reports.
    pub active_requests: u64,
    /// Requests waiting in its engine, as it reports.
    pub queue_depth: u64,
    /// What it serves.
    pub models: Vec<PoolModelStatus>,
    /// Weight it registered, or its slots.
    pub base_weight: u32,
    /// Weight it would be picked by now, before speed; 0 if it would not be picked.
    pub weight: u64,
    /// Milliseconds since its last beat, by the store's clock.
    pub last_beat_age_ms: u64,
    /// The node's breaker.
    pub breaker: PoolBreaker,
    /// What it is made of, if told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<PoolHardware>,
    /// Free video memory in bytes, if told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_vram_bytes: Option<u64>,
    /// Degrees Celsius, if told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_temperature_c: Option<f64>,
    /// 0 to 100, if told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_utilization_percent: Option<f64>,
    /// Name of the key it registered with.
    pub key: String,
    /// Version of its agent, as it reports.
    pub agent_version: String,
}

/// Answer of `pool/list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolList {
    /// Version of this document.
    pub schema_version: u32,
    /// The pool.
    pub pool: PoolStatus,
}

/// The pool's part of `status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolStatus {
    /// Where the registry listens, as `ADDRESS:PORT`.
    pub listen: String,
    /// Whether it speaks TLS.
    pub tls: bool,
    /// `memory` or `redis`.
    pub store: String,
    /// Why the store cannot be used now; pool nodes are not used then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_error: Option<String>,
    /// By id.
    pub nodes: Vec<PoolNodeStatus>,
    /// What became of usage events; absent where none are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<PoolUsage>,
}

/// What became of usage events since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolUsage {
    /// Lost on their way to the file; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_lost: Option<u64>,
    /// Those for the collector; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collector: Option<CollectorUsage>,
}

/// What became of usage events for a collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectorUsage {
    /// It took them.
    pub sent: u64,
    /// They wait, or are on their way.
    pub queued: u64,
    /// The queue could not hold them, or it refused them.
    pub lost: u64,
}

/// A node key, without the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyInfo {
    /// What it is called.
    pub name: String,
    /// The one node it speaks for.
    pub node_id: String,
    /// Addresses its endpoint may have; empty: that of its registration alone.
    pub allow: Vec<String>,
    /// Patterns of models it may advertise; empty: all.
    pub models: Vec<String>,
    /// Unix ms of its making.
    pub created_at: u64,
}

/// Answer of `pool/keys/create`: the only time that the key is shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyCreated {
    /// Version of this document.
    pub schema_version: u32,
    /// The record.
    pub info: KeyInfo,
    /// The key itself.
    pub key: String,
    /// `HOST:PORT` of the registry, as workers should reach it.
    pub proxy_addr: String,
    /// Whether the registry speaks TLS.
    pub tls: bool,
    /// `sha256:` and the digest of the registry's certificate in hex, where it speaks TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
}

/// Without the key: a debug line must not be the second time that it is shown.
impl std::fmt::Debug for KeyCreated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyCreated")
            .field("info", &self.info)
            .field("key", &"***")
            .field("proxy_addr", &self.proxy_addr)
            .field("tls", &self.tls)
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

/// Answer of `pool/keys/list`: by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyList {
    /// Version of this document.
    pub schema_version: u32,
    /// The keys.
    pub keys: Vec<KeyInfo>,
}

/// Answer of `pool/keys/revoke`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRevoked {
    /// Version of this document.
    pub schema_version: u32,
    /// The key.
    pub info: KeyInfo,
    /// Whether its node was there, and so was put out.
    pub evicted: bool,
}

/// Answer of `pool/drain`, `pool/resume` and `pool/reset`: the node as it is after the change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolNodeChanged {
    /// Version of this document.
    pub schema_version: u32,
    /// The node.
    pub node: PoolNodeStatus,
}

documents!(PoolList, KeyCreated, KeyList, KeyRevoked, PoolNodeChanged);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> String {
        match serde_json::from_value::<T>(value) {
            Ok(_) => panic!("taken"),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn a_registration_as_documented_is_read_and_a_misspelt_field_named() {
        let good = json!({"node_id": "w1", "endpoint": "http://10.0.0.5:8000/v1", "engine": "vllm",
            "models": [{"id": "m", "context_length": 8192, "is_warm": true}, {"id": "n"}],
            "max_concurrency": 4, "agent_version": "0.1.0"});
        let read: RegisterParams = serde_json::from_value(good.clone()).unwrap();
        assert_eq!(
            (read.models[0].is_warm, read.models[1].is_warm),
            (true, false)
        );
        assert_eq!((read.base_weight, &read.hardware), (None, &None));
        for (at, field) in [("", "weight"), ("models/0", "warm")] {
            let mut bad = good.clone();
            let place = match at {
                "" => &mut bad,
                _ => bad.pointer_mut("/models/0").unwrap(),
            };
            place[field] = json!(1);
            let text = refused::<RegisterParams>(bad);
            assert!(text.contains(&format!("unknown field `{field}`")), "{text}");
        }
        for field in ["node_id", "endpoint", "engine", "models", "max_concurrency"] {
            let mut bad = good.clone();
            bad.as_object_mut().unwrap().remove(field);
            let text = refused::<RegisterParams>(bad);
            assert!(text.contains(&format!("missing field `{field}`")), "{text}");
        }
    }

    #[test]
    fn figures_that_are_not_known_are_left_out_and_never_zero() {
        let beat = HeartbeatParams {
            node_id: "w1".into(),
            session: "s".into(),
            seq: 1,
            draining: false,
            active_requests: 0,
            queue_depth: 0,
            free_vram_bytes: None,
            gpu_temperature_c: None,
            gpu_utilization_percent: None,
            models: vec![],
        };
        let sent = serde_json::to_value(&beat).unwrap();
        assert_eq!(
            sent,
            json!({"node_id": "w1", "session": "s", "seq": 1, "draining": false,
                "active_requests": 0, "queue_depth": 0, "models": []})
        );
        let text = refused::<HeartbeatParams>(json!({"node_id": "w1", "session": "s", "seq": -1}));
        assert!(text.contains("-1"), "{text}");
    }

    #[test]
    fn answers_of_a_newer_gateway_are_read() {
        let beaten: Beaten = serde_json::from_value(json!({"heartbeat_interval_seconds": 5,
            "ttl_seconds": 15, "state": "healthy", "drain": false, "reregister": false,
            "active_proxy_requests": 2, "rejected_models": [], "new": 1}))
        .unwrap();
        assert_eq!(beaten.active_proxy_requests, 2);
        // And so are those of an older one.
        assert_eq!(beaten.sweep_interval_seconds, None);
    }

    #[test]
    fn a_created_key_is_not_in_its_debug_output() {
        let created = KeyCreated {
            schema_version: 1,
            info: KeyInfo {
                name: "a".into(),
                node_id: "w1".into(),
                allow: vec![],
                models: vec![],
                created_at: 0,
            },
            key: "ktms_node_canary".into(),
            proxy_addr: "gw:9090".into(),
            tls: true,
            fingerprint: None,
        };
        assert!(!format!("{created:?}").contains("canary"));
    }
}
