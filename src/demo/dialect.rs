//! What an engine's dialect says besides text: lists, settings, errors.
//!
//! Owns: which dialect an engine of the table speaks, the answers about models, the shape of an
//! error on each path. Leaves to others: text answers (`answer`), which models exist (`engine`).
//!
//! Where a real engine is careless, so is this: Ollama's unknown route is plain text, and
//! llama.cpp lists its models twice in one object.

use std::time::{Duration, SystemTime};

use http::StatusCode;
use serde_json::{Value, json};

use super::answer::rfc3339;
use super::request::Vectors;
use super::sample;
use crate::rules::engine::{EngineId, Warm};

/// A family of routes and shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Ollama,
    LmStudio,
    LlamaCpp,
}

impl Dialect {
    /// The dialect of an engine, told by how it shows what is loaded: that is what differs most.
    pub(super) fn of(engine: EngineId) -> Self {
        match engine.spec().inventory.warm {
            Warm::RunningList { .. } => Self::Ollama,
            Warm::StateList { .. } => Self::LmStudio,
            Warm::Props { .. } | Warm::Untold => Self::LlamaCpp,
        }
    }

    /// Names for the demo, as this engine's users write them: shared, of the quick node, of the
    /// slow node.
    pub(super) fn sample_models(self) -> [&'static str; 3] {
        match self {
            Self::Ollama => ["sample:8b", "sample:1b", "sample-coder:14b"],
            Self::LmStudio => [
                "sample/sample-8b-instruct",
                "sample/sample-1b-instruct",
                "sample/coder-14b",
            ],
            Self::LlamaCpp => [
                "sample-8b-Q4_K_M",
                "sample-1b-Q8_0",
                "sample-coder-14b-Q4_K_M",
            ],
        }
    }
}

/// Why a request is not answered with what it asked for.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) kind: Kind,
    pub(super) message: String,
}

/// What sort of refusal it is; each family has its own word for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Invalid,
    NotFound,
    NoRoute,
    Busy,
    Unsupported,
    Server,
}

impl Refusal {
    fn new(status: StatusCode, kind: Kind, message: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            message: message.into(),
        }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Kind::Invalid, message)
    }

    pub(super) fn too_large(limit: usize) -> Self {
        let message = format!("the body is larger than {limit} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, Kind::Invalid, message)
    }

    pub(super) fn unknown_model(model: &str) -> Self {
        let message = format!("model '{model}' not found");
        Self::new(StatusCode::NOT_FOUND, Kind::NotFound, message)
    }

    pub(super) fn no_route(dialect: Dialect, method: &str, path: &str) -> Self {
        let message = match dialect {
            Dialect::Ollama => "404 page not found".to_owned(),
            Dialect::LmStudio => format!("Unexpected endpoint or method. ({method} {path})"),
            Dialect::LlamaCpp => "File Not Found".to_owned(),
        };
        Self::new(StatusCode::NOT_FOUND, Kind::NoRoute, message)
    }

    pub(super) fn busy(node: &str) -> Self {
        let message = format!("{node} is a sample engine and refuses this request on purpose");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, Kind::Busy, message)
    }

    pub(super) fn sample_only(what: &str) -> Self {
        let message = format!("this is a sample engine: it cannot {what} models");
        Self::new(StatusCode::NOT_IMPLEMENTED, Kind::Unsupported, message)
    }

    /// The server behind cannot be reached or broke off.
    pub(super) fn behind(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, Kind::Server, message)
    }

    /// The server behind answered with this status.
    pub(super) fn passed(status: StatusCode, message: impl Into<String>) -> Self {
        let kind = match status.as_u16() {
            404 => Kind::NotFound,
            429 | 503 => Kind::Busy,
            501 => Kind::Unsupported,
            400..=499 => Kind::Invalid,
            _ => Kind::Server,
        };
        Self::new(status, kind, message)
    }

    /// Content type and body on a path of a dialect.
    pub(super) fn body(&self, dialect: Dialect, path: &str) -> (&'static str, String) {
        let json = match (dialect, self.kind) {
            (Dialect::Ollama, Kind::NoRoute) => return ("text/plain", self.message.clone()),
            (Dialect::LmStudio, Kind::NoRoute) => json!({"error": self.message}),
            _ if path.starts_with("/api/") => json!({"error": self.message}),
            _ if path.starts_with("/v1/messages") => json!({
                "type": "error",
                "error": {"type": self.kind.anthropic(), "message": self.message},
            }),
            _ => {
                let code = match dialect {
                    Dialect::LlamaCpp => json!(self.status.as_u16()),
                    Dialect::LmStudio if self.kind == Kind::NotFound => json!("model_not_found"),
                    _ => Value::Null,
                };
                let param = (self.kind == Kind::NotFound).then_some("model");
                json!({"error": {"message": self.message, "type": self.kind.openai(),
                                 "param": param, "code": code}})
            },
        };
        ("application/json", json.to_string())
    }
}

impl Kind {
    fn openai(self) -> &'static str {
        match self {
            Self::Invalid => "invalid_request_error",
            Self::NotFound | Self::NoRoute => "not_found_error",
            Self::Busy => "unavailable_error",
            Self::Unsupported => "not_supported_error",
            Self::Server => "server_error",
        }
    }

    fn anthropic(self) -> &'static str {
        match self {
            Self::Busy => "overloaded_error",
            Self::Unsupported | Self::Server => "api_error",
            other => other.openai(),
        }
    }
}

/// What is known of the weights; of a sample there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) size: u64,
    pub(super) parameters: u64,
    pub(super) context: u64,
    pub(super) width: u64,
    pub(super) sample: bool,
}

impl Facts {
    pub(super) const SAMPLE: Self = Self {
        size: 0,
        parameters: 0,
        context: 8192,
        width: sample::DIMENSIONS as u64,
        sample: true,
    };

    fn family(&self) -> &'static str {
        if self.sample { "sample" } else { "llama" }
    }

    fn parameter_size(&self) -> String {
        match self.parameters {
            0 => "none".to_owned(),
            n if n < 1_000_000_000 => format!("{}M", n / 1_000_000),
            n => format!("{}.{}B", n / 1_000_000_000, n / 100_000_000 % 10),
        }
    }
}

/// One model of a node.
#[derive(Clone, Debug)]
pub(super) struct Card {
    pub(super) name: String,
    pub(super) loaded: bool,
    pub(super) facts: Facts,
}

impl Card {
    /// Stands for a digest: of the name, so that it is the same on every node.
    fn digest(&self) -> String {
        let mut out = String::with_capacity(64);
        let mut h = 0xcbf2_9ce4_8422_2325_u64;
        for round in 0u8..4 {
            for b in self.name.bytes().chain([round]) {
                h = (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3);
            }
            out.push_str(&format!("{h:016x}"));
        }
        out
    }

    fn details(&self) -> Value {
        let family = self.facts.family();
        json!({"parent_model": "", "format": "gguf", "family": family, "families": [family],
               "parameter_size": self.facts.parameter_size(), "quantization_level": "unknown"})
    }

    fn native(&self) -> Value {
        json!({"name": self.name, "model": self.name, "size": self.facts.size,
               "digest": self.digest(), "details": self.details()})
    }

    /// An entry of `/api/tags`.
    pub(super) fn tag(&self, since: SystemTime) -> Value {
        let mut v = self.native();
        v["modified_at"] = json!(rfc3339(since));
        v
    }

    /// An entry of `/api/ps`.
    pub(super) fn running(&self) -> Value {
        let mut v = self.native();
        let five_minutes = SystemTime::now() + Duration::from_secs(300);
        v["expires_at"] = json!(rfc3339(five_minutes));
        v["size_vram"] = json!(0);
        v["context_length"] = json!(self.facts.context);
        v
    }

    /// `/api/show`.
    pub(super) fn show(&self, since: SystemTime) -> Value {
        let (family, facts) = (self.facts.family(), &self.facts);
        let mut info = json!({"general.architecture": family, "general.basename": self.name,
                              "general.parameter_count": facts.parameters});
        info[format!("{family}.context_length")] = json!(facts.context);
        info[format!("{family}.embedding_length")] = json!(facts.width);
        let license = if facts.sample {
            "A sample: there are no weights."
        } else {
            ""
        };
        json!({"modelfile": format!("FROM {}\n", self.name), "parameters": "",
               "template": "{{ .Prompt }}", "license": license, "details": self.details(),
               "model_info": info, "capabilities": ["completion", "embedding"],
               "modified_at": rfc3339(since)})
    }

    /// An entry of `/v1/models`.
    pub(super) fn openai(&self, dialect: Dialect, created: u64) -> Value {
        let mut v = json!({"id": self.name, "object": "model", "created": created});
        v["owned_by"] = json!(match dialect {
            Dialect::Ollama => "library",
            Dialect::LmStudio => "organization_owner",
            Dialect::LlamaCpp => "llamacpp",
        });
        if dialect == Dialect::LlamaCpp {
            let state = if self.loaded { "loaded" } else { "unloaded" };
            v["status"] = json!({"value": state});
            v["aliases"] = json!([]);
            v["meta"] = json!({"n_ctx": self.facts.context, "n_params": self.facts.parameters,
                               "n_embd": self.facts.width, "size": self.facts.size});
        }
        v
    }

    /// An entry of LM Studio's `/api/v0/models`.
    pub(super) fn lmstudio(&self) -> Value {
        let state = if self.loaded { "loaded" } else { "not-loaded" };
        let publisher = self.name.split_once('/').map_or("unknown", |(p, _)| p);
        let mut v = json!({"id": self.name, "object": "model", "type": "llm", "state": state,
                           "publisher": publisher, "arch": self.facts.family(),
                           "compatibility_type": "gguf", "quantization": "unknown",
                           "max_context_length": self.facts.context});
        if self.loaded {
            v["loaded_context_length"] = json!(self.facts.context);
        }
        v
    }

    /// An entry of the Ollama-like half of llama.cpp's `/models`.
    pub(super) fn llamacpp_native(&self) -> Value {
        json!({"name": self.name, "model": self.name, "modified_at": "", "size": "", "digest": "",
               "type": "model", "description": "", "tags": [], "parameters": "",
               "capabilities": ["completion"],
               "details": {"parent_model": "", "format": "gguf", "family": "", "families": [],
                           "parameter_size": "", "quantization_level": ""}})
    }
}

/// Embeddings as the route has them; `base64` concerns OpenAI's route alone.
pub(super) fn embeddings(
    shape: Vectors,
    model: &str,
    vectors: &[Vec<f32>],
    base64: bool,
    tokens: u64,
    took: Duration,
) -> Value {
    match shape {
        Vectors::Embedding => json!({"embedding": vectors.first()}),
        Vectors::Embed => {
            let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
            json!({"model": model, "embeddings": vectors, "total_duration": nanos,
                   "load_duration": 1, "prompt_eval_count": tokens})
        },
        Vectors::OpenAi => {
            let data: Vec<Value> = vectors
                .iter()
                .enumerate()
                .map(|(index, v)| {
                    let vector = if base64 {
                        json!(sample::base64(v))
                    } else {
                        json!(v)
                    };
                    json!({"object": "embedding", "index": index, "embedding": vector})
                })
                .collect();
            json!({"object": "list", "model": model, "data": data,
                   "usage": {"prompt_tokens": tokens, "total_tokens": tokens}})
        },
    }
}
