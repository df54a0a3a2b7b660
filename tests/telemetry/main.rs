//! What leaves a daemon about its requests: traces and metrics at a collector that decodes both forms,
//! trace context at engines, the admin listener. Real binaries, scripted engines.

#![expect(
    clippy::unwrap_used,
    reason = "a helper of tests fails the test that calls it"
)]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "each suite uses a part of the support")]
mod support;

mod admin;
mod collector;
mod context;
mod outages;
mod privacy;
mod reload;
mod traces;

use std::path::PathBuf;

use serde_json::{Value, json};

use collector::Collector;
use support::daemon::{Standalone, World};
use support::engine::{Engine, Reply};

/// A caller's trace.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
/// A caller's span.
const SPAN: &str = "00f067aa0ba902b7";

/// The caller's header, recorded or not.
fn caller(sampled: bool) -> String {
    format!("00-{TRACE}-{SPAN}-0{}", u8::from(sampled))
}

/// An Ollama that lists these models and answers anything else like this.
fn ollama(models: &[&str], reply: Reply) -> Engine {
    let list: Vec<_> = models
        .iter()
        .map(|m| json!({"name": m, "model": m}))
        .collect();
    let list = Reply::json(200, &json!({ "models": list }));
    Engine::start(
        move |request| match request.target.split('?').next().unwrap_or_default() {
            "/api/tags" => list.clone(),
            "/api/ps" => Reply::json(200, &json!({"models": []})),
            _ => reply.clone(),
        },
    )
}

/// An answer that reports what it cost.
fn counted() -> Reply {
    Reply::json(
        200,
        &json!({"message": {"content": "x"}, "prompt_eval_count": 11, "eval_count": 7, "done": true}),
    )
}

/// The body of a chat with this model.
fn chat(model: &str) -> Value {
    json!({"model": model, "messages": []})
}

/// A daemon over these engines whose file says `more` in its tables.
#[track_caller]
fn serve(world: &World, more: &str, nodes: &[(&str, u16)]) -> (Standalone, PathBuf) {
    let path = world.file("nvpair.toml", &config(more, nodes));
    let daemon = Standalone::start(world, &["--config", path.to_str().unwrap()]);
    (daemon, path)
}

fn config(more: &str, nodes: &[(&str, u16)]) -> String {
    let nodes: String = nodes
        .iter()
        .map(|(name, port)| {
            format!(
                "[[nodes]]\nengine = \"ollama\"\nname = \"{name}\"\n\
                 url = \"http://127.0.0.1:{port}\"\n"
            )
        })
        .collect();
    format!("{nodes}{more}\n")
}

/// `[telemetry]` towards this collector, with these further lines.
fn telemetry(collector: &Collector, more: &str) -> String {
    telemetry_at(collector.port(), more)
}

fn telemetry_at(port: u16, more: &str) -> String {
    format!(
        "[telemetry]\nendpoint = \"http://127.0.0.1:{port}/otlp\"\nmetrics_interval = \"1s\"\n{more}\n"
    )
}
