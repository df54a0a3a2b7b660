//! Workers that register themselves, of engines that have no facade of their own, behind the gateway;
//! and what becomes of a request when the pool has no place for it.

use std::fs;

use serde_json::json;

use super::*;
use crate::support::client::{Client, get, post};
use crate::support::engine::Gate;
use crate::support::worker::Worker;
use crate::support::{ask_until, free_port};

/// A gateway with a pool and nothing else but what `more` names; the second is its registry's port.
#[track_caller]
fn pool(world: &World, more: &str) -> (Standalone, u16) {
    let registry = free_port();
    // No worker here beats by itself: on a slow machine a test may take longer than a TTL of people.
    let config = format!(
        "{more}\n[pool]\nlisten = \"127.0.0.1:{registry}\"\nheartbeat_ttl = \"1h\"\n\
         usage_file = {:?}\n",
        usage_file(world)
    );
    (serve(world, &config, &[]), registry)
}

fn usage_file(world: &World) -> std::path::PathBuf {
    world.path().join("usage.jsonl")
}

/// The provider `cloud`, which knows this model.
fn provider(engine: &Engine, model: &str) -> String {
    format!(
        "[[providers]]\nname = \"cloud\"\nbase_url = \"http://localhost:{}/v1\"\napi_key = \"k\"\n\
         models = [\"{model}\"]\n",
        engine.port()
    )
}

/// An engine that answers every chat with this, once the gate is open.
fn held(text: &'static str, gate: &Gate) -> Engine {
    let gate = gate.clone();
    Engine::start(move |_| {
        Reply::stream("application/json")
            .gate(&gate)
            .chunk(&json!({ "text": text }).to_string())
            .end()
    })
}

fn says(text: &str) -> Engine {
    Engine::always(Reply::json(200, &json!({ "text": text })))
}

/// Registers a worker that runs this engine and serves this model.
#[track_caller]
fn join(
    world: &World,
    registry: u16,
    id: &'static str,
    kind: &str,
    engine: &Engine,
    model: Value,
) -> Worker {
    let more = json!({
        "engine": kind,
        "endpoint": format!("http://127.0.0.1:{}/v1", engine.port()),
        "models": [model],
    });
    Worker::register(world, registry, id, more)
}

fn model(name: &str) -> Value {
    json!({"id": name, "is_warm": true})
}

fn candidates(world: &World, model: &str) -> Vec<String> {
    let told = world.json(&["route", "--engine", "gateway", "--model", model]);
    let all = told["candidates"].as_array().unwrap().clone();
    let node = |c: &Value| c["node"].as_str().unwrap().to_owned();
    all.iter().map(node).collect()
}

#[track_caller]
fn until_routed(world: &World, model: &str, want: &[&str]) {
    ask_until("the candidates", || {
        (candidates(world, model) == want).then_some(())
    });
}

/// Waits until so many usage events are on disk.
#[track_caller]
fn events(world: &World, count: usize) -> Vec<Value> {
    ask_until("the usage events", || {
        let text = fs::read_to_string(usage_file(world)).unwrap_or_default();
        // The last line may be half written.
        let read: Vec<Value> = (text.lines())
            .filter_map(|l| serde_json::from_str(l).ok())
            .collect();
        (read.len() >= count).then_some(read)
    })
}

#[test]
fn workers_of_engines_without_a_facade_serve_through_the_gateway() {
    let world = World::new();
    let (daemon, registry) = pool(&world, "");
    let kinds = [("wv", "vllm"), ("wt", "tgi"), ("wo", "openai")];
    let engines = kinds.map(|(_, kind)| says(kind));
    let _workers: Vec<_> = (kinds.iter().zip(&engines))
        .map(|((id, kind), engine)| {
            let own = model(&format!("m-{kind}"));
            join(&world, registry, id, kind, engine, own)
        })
        .collect();
    for ((id, kind), engine) in kinds.iter().zip(&engines) {
        let name = format!("m-{kind}");
        until_routed(&world, &name, &[id]);
        let body = json!({"model": name, "messages": [{"role": "user", "content": "hi"}]});
        let answer = post(daemon.port, CHAT, &body);
        assert_eq!((answer.status, text(&answer)), (200, json!(kind)));
        let got = engine.only();
        assert_eq!(got.target, CHAT, "the base of its endpoint, once");
        assert_eq!(serde_json::from_slice::<Value>(&got.body).unwrap(), body);
        assert_eq!(got.header("authorization"), None, "no key of the pool");
    }
    let list = get(daemon.port, "/v1/models").json();
    let ids: Vec<_> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| &m["id"])
        .collect();
    assert_eq!(ids, ["m-openai", "m-tgi", "m-vllm"]);
    assert_eq!(post(daemon.port, CHAT, &chat("nobodys")).status, 502);

    let told = events(&world, 3);
    for (event, (id, kind)) in told.iter().zip(kinds) {
        let seen = [
            &event["vendor"],
            &event["key"],
            &event["node"],
            &event["engine"],
        ];
        assert_eq!(
            seen,
            [&json!("local"), &json!(id), &json!(id), &json!("gateway")]
        );
        assert_eq!(event["model"], format!("m-{kind}"));
        let end = [&event["status"], &event["http_status"], &event["attempts"]];
        assert_eq!(end, [&json!("success"), &json!(200), &json!(1)]);
    }
}

#[test]
fn a_stream_of_a_pool_node_comes_as_it_is_and_its_tokens_are_counted() {
    let world = World::new();
    let (daemon, registry) = pool(&world, "");
    let gate = Gate::new();
    let usage =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\n";
    let engine = Engine::always(
        Reply::stream("text/event-stream")
            .chunk("data: {\"choices\":[{\"delta\":{\"content\":\"1\"}}]}\n\n")
            .gate(&gate)
            .chunk(usage)
            .chunk("data: [DONE]\n\n")
            .end(),
    );
    let _worker = join(&world, registry, "w", "vllm", &engine, model("m"));
    until_routed(&world, "m", &["w"]);
    let mut client = Client::connect(daemon.port);
    client.post(CHAT, &json!({"model": "m", "messages": [], "stream": true}));
    let mut head = client.head();
    assert!(client.read_until(&mut head, "\"1\""), "before its end");
    gate.open();
    assert!(client.finish(head).text().ends_with("data: [DONE]\n\n"));
    let event = &events(&world, 1)[0];
    let counts = [&event["prompt_tokens"], &event["completion_tokens"]];
    assert_eq!(counts, [&json!(7), &json!(2)]);
    assert_eq!(event["estimated"], false);
}

#[test]
fn a_full_pool_sends_the_request_on_to_a_provider() {
    let (gate, cloud) = (Gate::new(), says("cloud"));
    let engine = held("pool", &gate);
    let world = World::new();
    let (daemon, registry) = pool(&world, &provider(&cloud, "m"));
    let _worker = join(&world, registry, "w", "vllm", &engine, model("m"));
    until_routed(&world, "m", &["w", "cloud"]);
    let port = daemon.port;
    let first = std::thread::spawn(move || post(port, CHAT, &chat("m")));
    engine.hit(1);
    // Its one place is taken: not a moment is waited for it.
    assert_eq!(text(&post(port, CHAT, &chat("m"))), "cloud");
    assert_eq!((engine.hits(), cloud.hits()), (1, 1));
    gate.open();
    assert_eq!(text(&first.join().unwrap()), "pool");
    until_routed(&world, "m", &["w", "cloud"]);
    assert_eq!(text(&post(port, CHAT, &chat("m"))), "pool");
    assert_eq!((engine.hits(), cloud.hits()), (2, 1));

    let told = events(&world, 3);
    let who = |e: &Value| [e["vendor"].clone(), e["key"].clone(), e["node"].clone()];
    assert_eq!(who(&told[0]), [json!("cloud"), Value::Null, json!("cloud")]);
    assert_eq!(who(&told[1]), [json!("local"), json!("w"), json!("w")]);
}

#[test]
fn a_draining_pool_sends_new_requests_to_a_provider_and_drops_none() {
    let (gate, cloud) = (Gate::new(), says("cloud"));
    let engine = held("pool", &gate);
    let world = World::new();
    let (daemon, registry) = pool(&world, &provider(&cloud, "m"));
    let worker = join(&world, registry, "w", "openai", &engine, model("m"));
    until_routed(&world, "m", &["w", "cloud"]);
    let port = daemon.port;
    let first = std::thread::spawn(move || post(port, CHAT, &chat("m")));
    engine.hit(1);
    let beat = |draining: bool| {
        let more = json!({"draining": draining, "models": [model("m")]});
        worker.beat(more)
    };
    assert_eq!(beat(true)["active_proxy_requests"], 1);
    until_routed(&world, "m", &["cloud"]);
    assert_eq!(text(&post(port, CHAT, &chat("m"))), "cloud");
    gate.open();
    assert_eq!(text(&first.join().unwrap()), "pool", "it was not cut");
    assert_eq!(engine.hits(), 1);
    assert_eq!(beat(false)["state"], "healthy");
    until_routed(&world, "m", &["w", "cloud"]);
    assert_eq!(text(&post(port, CHAT, &chat("m"))), "pool");
    // An administrator's drain, too.
    assert_eq!(world.run(&["nodes", "drain", "w"]).code, 0);
    until_routed(&world, "m", &["cloud"]);
    assert_eq!(text(&post(port, CHAT, &chat("m"))), "cloud");
    assert_eq!((engine.hits(), cloud.hits()), (2, 2));
}

#[test]
fn what_fits_no_context_of_the_pool_goes_to_a_provider() {
    let (cloud, engine) = (says("cloud"), says("pool"));
    let world = World::new();
    let (daemon, registry) = pool(&world, &provider(&cloud, "m"));
    let short = json!({"id": "m", "is_warm": true, "context_length": 100});
    let _worker = join(&world, registry, "w", "vllm", &engine, short.clone());
    let alone = json!({"id": "pool-only", "is_warm": true, "context_length": 100});
    let other = says("other");
    let _other = join(&world, registry, "w2", "vllm", &other, alone);
    until_routed(&world, "m", &["w", "cloud"]);
    until_routed(&world, "pool-only", &["w2"]);
    let long = |model: &str| json!({"model": model, "messages": [{"role": "user", "content": "x".repeat(1000)}]});
    assert_eq!(text(&post(daemon.port, CHAT, &long("m"))), "cloud");
    assert_eq!((engine.hits(), cloud.hits()), (0, 1));
    assert_eq!(text(&post(daemon.port, CHAT, &chat("m"))), "pool");
    // Nobody else has this one: the answer names the largest context.
    let told = post(daemon.port, CHAT, &long("pool-only"));
    assert_eq!(told.status, 400);
    assert!(told.error_text().contains("100"), "{}", told.error_text());
    assert_eq!(other.hits(), 0);
}

#[test]
fn a_virtual_model_names_the_pool_as_a_target() {
    let (gate, cloud) = (Gate::new(), says("cloud"));
    let engine = held("pool", &gate);
    let world = World::new();
    let config = format!(
        "[virtual_models]\nfast = [\"pool/m\", \"cloud/big\"]\n{}",
        provider(&cloud, "big")
    );
    let (daemon, registry) = pool(&world, &config);
    let _worker = join(&world, registry, "w", "tgi", &engine, model("m"));
    until_routed(&world, "fast", &["w", "cloud"]);
    let port = daemon.port;
    let first = std::thread::spawn(move || post(port, CHAT, &chat("fast")));
    engine.hit(1);
    assert_eq!(text(&post(port, CHAT, &chat("fast"))), "cloud");
    gate.open();
    assert_eq!(text(&first.join().unwrap()), "pool");
    let sent = |e: &Engine| {
        let got = e.only();
        serde_json::from_slice::<Value>(&got.body).unwrap()["model"].clone()
    };
    assert_eq!((sent(&engine), sent(&cloud)), (json!("m"), json!("big")));
}
