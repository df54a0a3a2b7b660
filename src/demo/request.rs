//! What a request asks for, whatever its dialect.
//!
//! Owns: which path runs a model and how, and the few members of a body that matter here.
//! Leaves to others: whether the model exists (`engine`), the answer's shape (`answer`).

use serde_json::Value;

use super::answer::Shape;
use super::dialect::{Dialect, Refusal};

/// What an inference route gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Text in this shape.
    Text(Shape),
    /// Vectors in this shape.
    Vectors(Vectors),
}

/// The three shapes of embeddings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vectors {
    /// `/v1/embeddings`
    OpenAi,
    /// `/api/embed`
    Embed,
    /// `/api/embeddings`: one prompt, one vector.
    Embedding,
}

/// The work of a `POST` to this path, if it is an inference route of the dialect.
pub(super) fn work(dialect: Dialect, path: &str) -> Option<Work> {
    let own = match (dialect, path) {
        (Dialect::Ollama, "/api/chat") => Some(Work::Text(Shape::OllamaChat)),
        (Dialect::Ollama, "/api/generate") => Some(Work::Text(Shape::OllamaGenerate)),
        (Dialect::Ollama, "/api/embed") => Some(Work::Vectors(Vectors::Embed)),
        (Dialect::Ollama, "/api/embeddings") => Some(Work::Vectors(Vectors::Embedding)),
        (Dialect::LmStudio, "/api/v0/chat/completions") => Some(Work::Text(Shape::Chat)),
        (Dialect::LmStudio, "/api/v0/completions") => Some(Work::Text(Shape::Completion)),
        (Dialect::LmStudio, "/api/v0/embeddings") => Some(Work::Vectors(Vectors::OpenAi)),
        (Dialect::LlamaCpp, "/chat/completions") => Some(Work::Text(Shape::Chat)),
        _ => None,
    };
    own.or(match path {
        "/v1/chat/completions" => Some(Work::Text(Shape::Chat)),
        "/v1/completions" => Some(Work::Text(Shape::Completion)),
        "/v1/responses" => Some(Work::Text(Shape::Responses)),
        "/v1/messages" => Some(Work::Text(Shape::Anthropic)),
        "/v1/embeddings" => Some(Work::Vectors(Vectors::OpenAi)),
        _ => None,
    })
}

/// The body as an object.
pub(super) fn parse(body: &[u8]) -> Result<Value, Refusal> {
    match serde_json::from_slice::<Value>(body) {
        Ok(v) if v.is_object() => Ok(v),
        Ok(_) => Err(Refusal::invalid("the body must be a JSON object")),
        Err(e) => Err(Refusal::invalid(format!(
            "the body is not valid JSON (line {}, column {})",
            e.line(),
            e.column()
        ))),
    }
}

/// The model a body names: in `model`, or in `name` as some management calls have it.
pub(super) fn model(body: &Value) -> Result<&str, Refusal> {
    ["model", "name"]
        .iter()
        .find_map(|key| body[*key].as_str())
        .filter(|m| !m.trim().is_empty())
        .ok_or_else(|| Refusal::invalid("model is missing from the request"))
}

/// A text request, read.
#[derive(Debug)]
pub(super) struct Ask {
    /// Answer as a stream.
    pub(super) stream: bool,
    /// Most tokens wanted.
    pub(super) limit: Option<u64>,
    /// Go on until the limit (llama.cpp's `ignore_eos`).
    pub(super) endless: bool,
    /// A stream ends with a chunk that holds the usage.
    pub(super) include_usage: bool,
    /// Tokens of the prompt.
    pub(super) prompt_tokens: u64,
    /// Ollama: nothing to say, only load (or, with `keep_alive: 0`, unload) the model.
    pub(super) only_load: Option<Load>,
}

/// What an Ollama request without a prompt does to its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// Loads it.
    Load,
    /// Unloads it.
    Unload,
}

impl Ask {
    pub(super) fn read(shape: Shape, body: &Value) -> Result<Self, Refusal> {
        let native = matches!(shape, Shape::OllamaChat | Shape::OllamaGenerate);
        let prompt = match shape {
            Shape::Chat | Shape::Anthropic | Shape::OllamaChat => &body["messages"],
            Shape::Completion | Shape::OllamaGenerate => &body["prompt"],
            Shape::Responses => &body["input"],
        };
        let messages = matches!(shape, Shape::Chat | Shape::Anthropic | Shape::OllamaChat);
        if prompt.is_null() && !native {
            let name = if messages { "messages" } else { "prompt" };
            return Err(Refusal::invalid(format!(
                "{name} is missing from the request"
            )));
        }
        if messages && !prompt.is_null() && !prompt.is_array() {
            return Err(Refusal::invalid("messages must be a list"));
        }
        let options = &body["options"];
        let limit = match shape {
            Shape::OllamaChat | Shape::OllamaGenerate => options["num_predict"].as_i64(),
            Shape::Responses => body["max_output_tokens"].as_i64(),
            _ => body["max_completion_tokens"]
                .as_i64()
                .or_else(|| body["max_tokens"].as_i64()),
        };
        let empty = words(prompt) == 0 && prompt.as_array().is_none_or(Vec::is_empty);
        Ok(Self {
            stream: body["stream"].as_bool().unwrap_or(native),
            // A negative number means without limit in both families.
            limit: limit.and_then(|n| u64::try_from(n).ok()),
            endless: body["ignore_eos"].as_bool().unwrap_or(false),
            include_usage: body["stream_options"]["include_usage"]
                .as_bool()
                .unwrap_or(false),
            prompt_tokens: words(prompt) + words(&body["system"]),
            only_load: (native && empty).then(|| match body["keep_alive"].as_i64() {
                Some(0) => Load::Unload,
                _ => Load::Load,
            }),
        })
    }
}

/// The texts to embed. A list of token numbers counts as one text.
pub(super) fn inputs(shape: Vectors, body: &Value) -> Result<Vec<String>, Refusal> {
    let key = if shape == Vectors::Embedding {
        "prompt"
    } else {
        "input"
    };
    match &body[key] {
        Value::String(s) => Ok(vec![s.clone()]),
        Value::Array(a) if a.first().is_some_and(Value::is_number) => {
            Ok(vec![Value::Array(a.clone()).to_string()])
        },
        Value::Array(a) => Ok(a
            .iter()
            .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
            .collect()),
        _ => Err(Refusal::invalid(format!(
            "{key} must be a text or a list of texts"
        ))),
    }
}

/// Words in all texts of a prompt: what stands for tokens here.
///
/// Of an object only what a person or a model said counts, not its role or type.
pub(super) fn words(v: &Value) -> u64 {
    match v {
        Value::String(s) => s.split_whitespace().count() as u64,
        Value::Array(a) => a.iter().map(words).sum(),
        Value::Object(o) => ["content", "text"]
            .iter()
            .filter_map(|k| o.get(*k))
            .map(words)
            .sum(),
        Value::Number(_) => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_inference_route_of_the_engine_table_is_known() {
        use crate::rules::engine::{EngineId, RouteKind};
        for engine in EngineId::all() {
            for route in engine.spec().routes {
                if matches!(route.kind, RouteKind::Inference) {
                    let w = work(Dialect::of(engine), route.path);
                    assert!(w.is_some(), "{engine} {}", route.path);
                }
            }
        }
    }

    #[test]
    fn native_requests_stream_unless_told_otherwise_and_others_do_not() {
        let chat = json!({"messages":[{"role":"user","content":"a b"}]});
        assert!(Ask::read(Shape::OllamaChat, &chat).unwrap().stream);
        assert!(!Ask::read(Shape::Chat, &chat).unwrap().stream);
    }

    #[test]
    fn limits_are_read_in_each_family_and_negative_means_none() {
        let m = json!([{"role":"user","content":"a b"}]);
        for (shape, body, want) in [
            (Shape::Chat, json!({"messages":m,"max_tokens":3}), Some(3)),
            (
                Shape::Chat,
                json!({"messages":m,"max_tokens":3,"max_completion_tokens":4}),
                Some(4),
            ),
            (Shape::Chat, json!({"messages":m,"max_tokens":-1}), None),
            (
                Shape::Anthropic,
                json!({"messages":m,"max_tokens":5}),
                Some(5),
            ),
            (
                Shape::OllamaChat,
                json!({"messages":m,"options":{"num_predict":6}}),
                Some(6),
            ),
            (
                Shape::OllamaChat,
                json!({"messages":m,"options":{"num_predict":-1}}),
                None,
            ),
            (
                Shape::OllamaChat,
                json!({"messages":m,"options":null}),
                None,
            ),
            (
                Shape::Responses,
                json!({"input":"a","max_output_tokens":7}),
                Some(7),
            ),
        ] {
            assert_eq!(Ask::read(shape, &body).unwrap().limit, want, "{body}");
        }
    }

    #[test]
    fn a_native_request_without_prompt_only_loads() {
        let r = |b| Ask::read(Shape::OllamaGenerate, &b).unwrap().only_load;
        assert_eq!(r(json!({})), Some(Load::Load));
        assert_eq!(r(json!({"prompt":"", "keep_alive":0})), Some(Load::Unload));
        assert_eq!(r(json!({"prompt":"x"})), None);
    }

    #[test]
    fn words_count_what_was_said_and_no_roles() {
        let v = json!([{"role":"user","content":[{"type":"text","text":"one two"}]},
                       {"role":"user","content":"three"}]);
        assert_eq!(words(&v), 3);
    }
}
