//! Which node a request goes to (spec §5).

use serde_json::json;

use crate::support::broker::Broker;
use crate::support::client::{get, post};
use crate::support::engine::Engine;
use crate::support::own_address;

fn chat(model: &str) -> serde_json::Value {
    json!({"model": model, "messages": []})
}

#[test]
fn only_owners_of_the_model_are_asked() {
    let (a, b) = (Engine::serving("a"), Engine::serving("b"));
    let (broker, port) = Broker::with_facade("ollama");
    broker.node("ollama", "a", a.port(), &["qwen"]);
    broker.node("ollama", "b", b.port(), &["phi", "llava:7b"]);
    broker.priority(&["a", "b"]);
    for model in ["phi", "llava:7b", "phi:latest"] {
        assert_eq!(post(port, "/api/chat", &chat(model)).text(), "b", "{model}");
    }
    assert_eq!(a.hits(), 0);
}

#[test]
fn an_unknown_model_is_refused_without_asking_anybody() {
    let a = Engine::serving("a");
    let (_broker, port) = Broker::over(&[&a]);
    assert_eq!(post(port, "/api/chat", &chat("other")).status, 502);
    assert_eq!(a.hits(), 0);
}

#[test]
fn only_ollama_reads_a_missing_tag_as_latest() {
    let a = Engine::serving("a");
    let (broker, port) = Broker::with_facade("llamacpp");
    broker.node("llamacpp", "a", a.port(), &["phi:latest"]);
    let status = |model| post(port, "/v1/chat/completions", &chat(model)).status;
    assert_eq!((status("phi"), status("phi:latest")), (502, 200));
}

#[test]
fn the_brokers_list_decides_between_idle_owners() {
    let (a, b) = (Engine::serving("a"), Engine::serving("b"));
    let (broker, port) = Broker::over(&[&a, &b]);
    assert_eq!(post(port, "/api/chat", &chat("m")).text(), "a");
    broker.priority(&["n1", "n0"]);
    assert_eq!(post(port, "/api/chat", &chat("m")).text(), "b");
}

#[test]
fn a_pin_goes_before_the_list_and_no_pin_overrides_the_model() {
    let (a, b) = (Engine::serving("a"), Engine::serving("b"));
    let (broker, port) = Broker::over(&[&a, &b]);
    broker.node("ollama", "n0", a.port(), &["m", "only-a"]);
    broker.request("ollama:node/select", &json!({"id": "n1"}));
    assert_eq!(post(port, "/api/chat", &chat("m")).text(), "b");
    assert_eq!(post(port, "/api/chat", &chat("only-a")).text(), "a");
    broker.request("ollama:node/select", &json!({"id": ""}));
    assert_eq!(post(port, "/api/chat", &chat("m")).text(), "a");
}

#[test]
fn requests_under_way_push_the_next_one_to_another_node() {
    use crate::support::client::Client;
    use crate::support::engine::{Gate, Reply};
    let gate = Gate::new();
    let held = Reply::lines().chunk("a1").gate(&gate).chunk("a2").end();
    let (a, b) = (Engine::always(held), Engine::serving("b"));
    let (broker, port) = Broker::over(&[&a, &b]);
    // The board of loads is one for all facades: the second request comes by another engine's.
    let other = broker.enable("lmstudio");
    broker.node("lmstudio", "n0", a.port(), &["m"]);
    broker.node("lmstudio", "n1", b.port(), &["m"]);
    let mut first = Client::connect(port);
    first.post("/api/chat", &chat("m"));
    gate.reached();
    assert_eq!(post(other, "/v1/chat/completions", &chat("m")).text(), "b");
    gate.open();
    assert_eq!(first.answer().text(), "a1a2");
    // Released with the end, so the list decides again. The terminal event comes behind it.
    broker.story("1");
    assert_eq!(
        post(other, "/v1/chat/completions", &chat("m")).text(),
        "a1a2"
    );
}

#[test]
fn an_inference_without_a_model_goes_to_any_node_and_is_no_workload() {
    let a = Engine::serving("a");
    let (broker, port) = Broker::over(&[&a]);
    for body in [
        json!({"messages": []}),
        json!({"model": 7}),
        json!({"model": ""}),
    ] {
        assert_eq!(post(port, "/api/chat", &body).text(), "a", "{body}");
    }
    broker.expect("ollama:proxy/request", |p| p["id"] == "3");
    assert!(broker.workloads().is_empty());
}

#[test]
fn the_model_in_the_body_of_another_route_has_no_effect() {
    let a = Engine::serving("a");
    let (_broker, port) = Broker::over(&[&a]);
    assert_eq!(post(port, "/api/show", &chat("nobody-has-it")).text(), "a");
    assert_eq!(get(port, "/api/version").text(), "a");
}

#[test]
fn our_own_directory_record_is_known_by_any_address_of_this_machine() {
    // A machine without a network has no other.
    let Some(own) = own_address() else { return };
    let a = Engine::serving("a");
    let (broker, port) = Broker::with_facade("ollama");
    let node = json!({
        "hostUuid": "u", "name": "tower", "ip": own, "services": {"ol": {"port": port}},
        "models": ["m"],
    });
    broker.notify("ollama:discovery:nodes", &json!({"nodes": [node]}));
    broker.expect("ollama:node/discovered", |p| p["id"] == "u");
    let backend = json!({"engine": "ollama", "port": a.port(), "healthy": true});
    broker.request("ollama:node/set-local-backend", &backend);
    assert_eq!(post(port, "/api/chat", &chat("m")).text(), "a");
}

#[test]
fn our_own_directory_record_is_served_by_the_local_engine_until_it_is_taken_away() {
    let a = Engine::serving("a");
    let (broker, port) = Broker::with_facade("ollama");
    let asked = broker.expect("ollama:discovery:subscribe", |_| true);
    let key = asked["services"][0].as_str().unwrap();
    let node = json!({
        "hostUuid": "u", "name": "tower", "ip": "127.0.0.1", "ips": ["127.0.0.1"],
        "services": {key: {"port": port}}, "modelsByEngine": {"ollama": ["m"]},
    });
    broker.notify("ollama:discovery:nodes", &json!({"nodes": [node]}));
    broker.expect("ollama:node/discovered", |p| p["id"] == "u");
    assert_eq!(
        post(port, "/api/chat", &chat("m")).status,
        502,
        "no engine is known here"
    );
    let backend = json!({
        "engine": "ollama", "host": "127.0.0.1", "port": a.port(), "healthy": true,
    });
    broker.request("ollama:node/set-local-backend", &backend);
    assert_eq!(post(port, "/api/chat", &chat("m")).text(), "a");
    broker.notify("ollama:discovery:nodes", &json!({"nodes": []}));
    broker.expect("ollama:node/removed", |p| p["id"] == "u");
    assert_eq!(post(port, "/api/chat", &chat("m")).status, 502);
}
