//! The daemon without a parent, as a person starts it: real binaries, scripted engines, the command
//! line as the only other door.

#![expect(
    clippy::unwrap_used,
    reason = "a helper of tests fails the test that calls it"
)]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "each suite uses a part of the support")]
mod support;

#[path = "../support/redis.rs"]
mod redis;

mod control;
mod demo;
mod ending;
mod fleet;
mod journal;
mod keys;
mod looping;
mod nodes;
mod pool;
mod ports;
mod providers;
mod reload;
mod replay;
mod serving;
mod starting;
#[cfg(target_os = "linux")]
mod supervision;
mod usage;

use serde_json::{Value, json};

use support::daemon::{Standalone, World};
use support::engine::{Engine, Reply};

/// An Ollama that lists these models, none of them loaded, and answers anything else like this.
fn ollama(models: &[&str], reply: Reply) -> Engine {
    let list: Vec<_> = models
        .iter()
        .map(|m| json!({"name": m, "model": m}))
        .collect();
    let list = Reply::json(200, &json!({ "models": list }));
    Engine::start(move |request| match request.target.as_str() {
        "/api/tags" => list.clone(),
        "/api/ps" => Reply::json(200, &json!({"models": []})),
        _ => reply.clone(),
    })
}

/// A stream of this one piece.
fn says(text: &str) -> Reply {
    Reply::lines().chunk(text).end()
}

/// A daemon whose Ollama facade has these named nodes, after the top-level settings `more`.
#[track_caller]
fn serve(world: &World, more: &str, nodes: &[(&str, &Engine)]) -> Standalone {
    let mut config = format!("{more}\n");
    for (name, engine) in nodes {
        config.push_str(&format!(
            "[[nodes]]\nengine = \"ollama\"\nname = \"{name}\"\nurl = \"http://127.0.0.1:{}\"\n",
            engine.port()
        ));
    }
    let path = world.file("nvpair.toml", &config);
    Standalone::start(world, &["--config", path.to_str().unwrap()])
}

/// The body of a chat with this model.
fn chat(model: &str) -> Value {
    json!({"model": model, "messages": []})
}
