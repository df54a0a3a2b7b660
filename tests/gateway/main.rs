//! The gateway as its users meet it: real binaries, scripted engines of every kind, one endpoint.

#![expect(
    clippy::unwrap_used,
    reason = "a helper of tests fails the test that calls it"
)]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "each suite uses a part of the support")]
mod support;

mod bodies;
mod broker;
mod chain;
mod keys;
mod pool;
mod providers;
mod reload;
mod surface;

use serde_json::{Value, json};

use support::daemon::{Standalone, World};
use support::engine::{Engine, Reply, Request};

/// An engine of this kind that lists these models, and answers anything else like this.
fn engine(
    kind: &str,
    models: &[&str],
    answer: impl Fn(&Request) -> Reply + Send + Sync + 'static,
) -> Engine {
    let list: Vec<_> = models
        .iter()
        .map(|m| json!({"id": m, "name": m, "model": m}))
        .collect();
    let list = match kind {
        "ollama" => json!({ "models": list }),
        _ => json!({"object": "list", "data": list}),
    };
    let list = Reply::json(200, &list);
    Engine::start(
        move |request| match request.target.split('?').next().unwrap() {
            "/api/tags" | "/v1/models" | "/models" => list.clone(),
            "/api/ps" => Reply::json(200, &json!({"models": []})),
            "/api/v0/models" | "/props" => Reply::status(404),
            _ => answer(request),
        },
    )
}

/// The same, with this text as every answer.
fn saying(kind: &str, models: &[&str], text: &str) -> Engine {
    let answer = Reply::json(200, &json!({ "text": text }));
    engine(kind, models, move |_| answer.clone())
}

/// What an engine said.
fn text(answer: &support::client::Response) -> Value {
    answer.json()["text"].clone()
}

/// A gateway over these nodes (kind, name), with this at the top of its configuration.
#[track_caller]
fn serve(world: &World, config: &str, nodes: &[(&str, &str, &Engine)]) -> Standalone {
    let mut config = config.to_owned();
    for (kind, name, engine) in nodes {
        config.push_str(&format!(
            "\n[[nodes]]\nengine = \"{kind}\"\nname = \"{name}\"\nurl = \"http://127.0.0.1:{}\"\n",
            engine.port()
        ));
    }
    let path = world.file("nvpair.toml", &config);
    Standalone::gateway(world, &["--config", path.to_str().unwrap()])
}

/// The body of a chat with this model.
fn chat(model: &str) -> Value {
    json!({"model": model, "messages": []})
}

const CHAT: &str = "/v1/chat/completions";
