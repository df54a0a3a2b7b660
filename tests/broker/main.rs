//! The link to a parent, frame by frame: what is said, in which order, and what is left unsaid.

#![expect(
    clippy::unwrap_used,
    reason = "a helper of tests fails the test that calls it"
)]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "each suite uses a part of the support")]
mod support;

mod methods;
mod nodes;
mod ports;
mod ranking;
mod sequences;
mod volume;

use serde_json::{Value, json};

use support::broker::Broker;

/// A frame in a word or two: `METHOD`, `reply ID`, or `error ID CODE`.
fn short(frame: &Value) -> String {
    match (frame["method"].as_str(), &frame["error"]["code"]) {
        (Some(method), _) => method.to_owned(),
        (None, Value::Null) => format!("reply {}", frame["id"]),
        (None, code) => format!("error {} {code}", frame["id"]),
    }
}

/// Where we are, once everything that was sent is carried out: some frames come behind a reply.
fn settled(broker: &Broker) -> usize {
    drop(broker.call("test/barrier", &json!({})));
    broker.mark()
}

/// Every frame since then, once everything sent so far was carried out.
fn frames_since(broker: &Broker, since: usize) -> Vec<Value> {
    drop(broker.call("test/barrier", &json!({})));
    let mut frames = broker.frames(since);
    frames.pop();
    frames
}

/// The same in short.
fn said_since(broker: &Broker, since: usize) -> Vec<String> {
    frames_since(broker, since).iter().map(short).collect()
}

/// What is said because of one call, in short; replies are numbered by the call.
fn said_by(broker: &Broker, method: &str, params: &Value) -> Vec<String> {
    let mark = settled(broker);
    drop(broker.call(method, params));
    let strip = |line: String| match line.split(' ').collect::<Vec<_>>()[..] {
        ["reply", _] => "reply".to_owned(),
        ["error", _, code] => format!("error {code}"),
        _ => line,
    };
    said_since(broker, mark).into_iter().map(strip).collect()
}

/// What is said because of a directory snapshot, in short.
fn said_by_snapshot(broker: &Broker, nodes: &[Value]) -> Vec<String> {
    let mark = settled(broker);
    broker.notify("ollama:discovery:nodes", &json!({"nodes": nodes}));
    said_since(broker, mark)
}

/// A directory record with an Ollama facade and these models.
fn record(id: &str, port: u16, models: &[&str]) -> Value {
    json!({
        "hostUuid": id, "name": format!("{id}-pc"), "ip": "192.0.2.7", "clusterUuid": id,
        "trusted": true, "services": {"ni": {"port": 1}, "ol": {"port": port}},
        "models": models, "modelsByEngine": {"ollama": models}, "lastSeen": 1_790_000_000,
    })
}
