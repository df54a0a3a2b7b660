//! What is known of a pool node: what it registered, its last heartbeat, and what we measured.
//!
//! Owns: the values. Leaves to others: whether their content is acceptable (`sizes`), what they
//! mean (`standing`), keeping them (`store::pool`).
//!
//! All times are Unix milliseconds of the store's clock, the only clock of the pool: neither the
//! worker's nor a gateway's own is ever compared with it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::breaker::Breaker;
use super::ema::Ema;
use crate::rules::engine::EngineId;
use crate::rules::ids::NodeId;

/// What serves on a pool node. Three of them have a facade of their own; the others are reached
/// through the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PoolEngine {
    /// Ollama.
    Ollama,
    /// LM Studio.
    LmStudio,
    /// llama.cpp's `llama-server`.
    LlamaCpp,
    /// vLLM.
    Vllm,
    /// Text Generation Inference.
    Tgi,
    /// Any other server that speaks OpenAI's API.
    OpenAi,
}

impl PoolEngine {
    /// All of them, in the order in which messages list them.
    pub const ALL: [Self; 6] = [
        Self::Ollama,
        Self::LmStudio,
        Self::LlamaCpp,
        Self::Vllm,
        Self::Tgi,
        Self::OpenAi,
    ];

    /// Its name on the wire and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ollama => "ollama",
            Self::LmStudio => "lmstudio",
            Self::LlamaCpp => "llamacpp",
            Self::Vllm => "vllm",
            Self::Tgi => "tgi",
            Self::OpenAi => "openai",
        }
    }

    /// What an engine with a facade is called in the pool.
    pub fn of(engine: EngineId) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|e| e.as_str() == engine.as_str())
    }

    /// The port on which it listens unless it is told otherwise.
    pub fn usual_port(self) -> u16 {
        match self.facade() {
            Some(known) => known.spec().facade_port,
            None if self == Self::Tgi => 8080,
            None => 8000,
        }
    }

    /// The facade whose candidate such a node is, if there is one.
    pub fn facade(self) -> Option<EngineId> {
        EngineId::parse(self.as_str())
    }
}

impl fmt::Display for PoolEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// No engine of a pool node has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown engine {0:?}; a pool node's engine is one of {list}",
    list = PoolEngine::ALL.map(PoolEngine::as_str).join(", ")
)]
pub struct UnknownPoolEngine(pub String);

impl FromStr for PoolEngine {
    type Err = UnknownPoolEngine;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|e| e.as_str() == s);
        known.ok_or_else(|| UnknownPoolEngine(s.to_owned()))
    }
}

/// One registration's token: a new registration of the same node replaces it, and whoever still
/// speaks with the old one is told so. 32 hex digits.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Session(Arc<str>);

impl Session {
    /// The session of these sixteen random bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(format!("{:032x}", u128::from_be_bytes(bytes)).into())
    }

    /// A session as a worker sends it back: 32 lower-case hex digits, or it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let digit = |b: &u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        let valid = text.len() == 32 && text.as_bytes().iter().all(digit);
        valid.then(|| Self(text.into()))
    }

    /// The session as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Masked after eight digits: whoever reads a log must not be able to speak for the node.
impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}…", self.0.get(..8).unwrap_or_default())
    }
}

/// Names one request's place on a node. Unique over all gateways that share a store; no white space.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseId(Arc<str>);

impl LeaseId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for LeaseId {
    fn from(s: &str) -> Self {
        Self(s.into())
    }
}

impl From<String> for LeaseId {
    fn from(s: String) -> Self {
        Self(s.into())
    }
}

/// A model that a node advertises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelEntry {
    /// Its name, as a client writes it.
    pub id: String,
    /// Tokens of input and output together; absent = any request fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_length: Option<u64>,
    /// Whether its weights are loaded now.
    #[serde(default)]
    pub is_warm: bool,
}

/// What a worker says of its GPUs. Shown, never decided upon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hardware {
    /// Name of the GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_name: Option<String>,
    /// Number of GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_count: Option<u32>,
    /// Bytes of video memory of all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vram_total_bytes: Option<u64>,
}

/// What a worker registers. Checked by `sizes::registration` and by the registry (endpoint, key)
/// before it gets here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// The node's id: the one its key speaks for.
    pub node: NodeId,
    /// Where it serves, as it wrote it.
    pub endpoint: String,
    /// The address that was judged when it registered, and the only one that is dialled: a later
    /// change of its name moves nothing.
    pub address: SocketAddr,
    /// What serves there.
    pub engine: PoolEngine,
    /// Its models that the key admits.
    pub models: Vec<ModelEntry>,
    /// Requests it runs at once, at least 1.
    pub max_concurrency: u32,
    /// Its share of the traffic relative to the others, 1 to 1000.
    pub base_weight: u32,
    /// Its GPUs, if it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Hardware>,
    /// The agent's version, shown only.
    #[serde(default)]
    pub agent_version: String,
}

/// One heartbeat's content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Beat {
    /// Counts up within a session, from 1; one that does not is a replay.
    pub seq: u64,
    /// Whether the worker takes no more requests.
    #[serde(default)]
    pub draining: bool,
    /// Requests that its engine runs now.
    #[serde(default)]
    pub active_requests: u32,
    /// Requests that wait in its engine.
    #[serde(default)]
    pub queue_depth: u32,
    /// Free video memory in bytes, where it can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_vram_bytes: Option<u64>,
    /// The hottest GPU's temperature, where it can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_temperature_c: Option<f64>,
    /// The busiest GPU's utilization, 0 to 100, where it can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_utilization_percent: Option<f64>,
    /// Its models that the key admits; they replace the registered ones.
    #[serde(default)]
    pub models: Vec<ModelEntry>,
}

/// What we measured of one model on one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Perf {
    /// Failures of this model on this node.
    pub breaker: Breaker,
    /// Mean time to the first token, in ms.
    pub ttft_ms: Ema,
    /// Mean output tokens a second.
    pub tokens_per_second: Ema,
}

/// A pool node as the store knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// What it registered.
    pub registration: Registration,
    /// Name of the key it registered with.
    pub key_name: String,
    /// Its session; `None` after it unregistered.
    pub session: Option<Session>,
    /// When this session was registered.
    pub registered_at: u64,
    /// Its last heartbeat in this session; `None` before the first.
    pub beat: Option<Beat>,
    /// When it was last heard of; registering counts.
    pub beat_at: u64,
    /// Whether an operator drains it. Outlives its sessions.
    pub drain: bool,
    /// Failures of the node as a whole.
    pub breaker: Breaker,
    /// By model's name, only for models that were used.
    pub perf: BTreeMap<String, Perf>,
    /// Leases that have not expired, of all gateways.
    pub leases: u32,
}

impl Record {
    /// The node's id.
    pub fn node(&self) -> &NodeId {
        &self.registration.node
    }

    /// Its models: those of the last heartbeat, before the first one the registered ones.
    pub fn models(&self) -> &[ModelEntry] {
        let beat = self.beat.as_ref().map(|b| &b.models);
        beat.unwrap_or(&self.registration.models)
    }

    /// The entry of a model that it advertises.
    pub fn model(&self, id: &str) -> Option<&ModelEntry> {
        self.models().iter().find(|m| m.id == id)
    }

    /// Requests on it now: our leases, or what it says itself if that is more.
    pub fn in_flight(&self) -> u32 {
        let active = self.beat.as_ref().map_or(0, |b| b.active_requests);
        self.leases.max(active)
    }

    /// Requests that it can take besides.
    pub fn free(&self) -> u32 {
        let max = self.registration.max_concurrency;
        max.saturating_sub(self.in_flight())
    }

    /// Requests that wait in its engine, as it says.
    pub fn queue_depth(&self) -> u32 {
        self.beat.as_ref().map_or(0, |b| b.queue_depth)
    }
}
