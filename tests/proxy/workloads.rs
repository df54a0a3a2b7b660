//! The events of one workload (spec §5.5): which, in which order, numbered without a gap.

use serde_json::{Value, json};

use crate::support::broker::Broker;
use crate::support::client::{Client, post};
use crate::support::engine::{Engine, Gate, Reply, Step};
use crate::support::free_port;

fn chat(port: u16) -> u16 {
    post(port, "/api/chat", &json!({"model": "m"})).status
}

/// The record of the last event of Ollama's workload 1.
fn last(broker: &Broker) -> Value {
    broker.story("1");
    let mut all = broker.workloads();
    all.retain(|(_, w)| w["engine"] == "ollama" && w["id"] == "1");
    all.pop().unwrap().1
}

#[test]
fn a_plain_success() {
    let engine = Engine::serving("ok");
    let (broker, port) = Broker::over(&[&engine]);
    chat(port);
    assert_eq!(
        broker.story("1"),
        [
            "submitted queued -",
            "submitted queued n0",
            "started running n0",
            "completed completed n0",
        ]
    );
}

#[test]
fn failover_within_one_round_is_not_cleared_between() {
    let (a, b) = (Engine::always(Reply::status(503)), Engine::serving("ok"));
    let (broker, port) = Broker::over(&[&a, &b]);
    chat(port);
    assert_eq!(
        broker.story("1"),
        [
            "submitted queued -",
            "submitted queued n0",
            "submitted queued n1",
            "started running n1",
            "completed completed n1",
        ]
    );
}

#[test]
fn a_round_that_was_lost_is_cleared_before_the_next() {
    let (a, b) = (
        Engine::always(Reply::status(503)),
        Engine::always(Reply::status(503)),
    );
    let (broker, port) = Broker::over(&[&a, &b]);
    let client = std::thread::spawn(move || chat(port));
    b.hit(1);
    a.now(|_| Reply::with(200, &[], "ok"));
    assert_eq!(client.join().unwrap(), 200);
    assert_eq!(
        broker.story("1"),
        [
            "submitted queued -",
            "submitted queued n0",
            "submitted queued n1",
            "submitted queued -",
            "submitted queued n0",
            "started running n0",
            "completed completed n0",
        ]
    );
}

#[test]
fn transport_failures_to_the_end_never_start() {
    let (broker, port) = Broker::with_facade("ollama");
    for i in 0..5 {
        broker.node("ollama", &format!("n{i}"), free_port(), &["m"]);
    }
    assert_eq!(chat(port), 502);
    assert_eq!(
        broker.story("1"),
        [
            "submitted queued -",
            "submitted queued n0",
            "submitted queued n1",
            "submitted queued n2",
            "submitted queued n3",
            "submitted queued n4",
            "errored failed n4",
        ]
    );
    let error = last(&broker)["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("upstream error"), "{error}");
}

#[test]
fn a_refusal_that_is_the_answer_starts_and_fails() {
    let engine = Engine::always(Reply::status(400));
    let (broker, port) = Broker::over(&[&engine]);
    assert_eq!(chat(port), 400);
    let story = broker.story("1");
    assert_eq!(story[2..], ["started running n0", "errored failed n0"]);
    let last = last(&broker);
    assert_eq!(last["error"], "upstream returned HTTP 400");
    assert_eq!(last.get("stats"), None, "an engine's error is not measured");
}

#[test]
fn an_engine_that_dies_in_its_stream_completes() {
    for end in [Step::Close, Step::Reset] {
        let gate = Gate::new();
        let engine = Engine::always(Reply::lines().chunk("1").gate(&gate).then(end));
        let (broker, port) = Broker::over(&[&engine]);
        let mut client = Client::connect(port);
        client.post("/api/chat", &json!({"model": "m"}));
        let mut head = client.head();
        assert!(client.read_until(&mut head, "1"));
        gate.open();
        assert!(!client.finish(head).complete);
        let story = broker.story("1");
        assert_eq!(story[2..], ["started running n0", "completed completed n0"]);
    }
}

#[test]
fn status_shows_what_a_request_under_way_reserves_and_where_it_counts() {
    let gate = Gate::new();
    let slow = || Engine::always(Reply::lines().chunk("1").gate(&gate).end());
    let (a, b) = (slow(), slow());
    let (broker, port) = Broker::over(&[&a, &b]);
    let reserved = || {
        let status = broker.world.json(&["status"]);
        let nodes = status["nodes"].as_array().unwrap().clone();
        nodes
            .iter()
            .map(|n| (n["reserved"].as_u64().unwrap(), n["load"].as_u64().unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(reserved(), [(0, 0), (0, 0)]);
    let mut client = Client::connect(port);
    client.post("/api/chat", &json!({"model": "m"}));
    let mut head = client.head();
    assert!(client.read_until(&mut head, "1"));
    assert_eq!(reserved(), [(1, 1), (0, 0)]);
    // The dry run sees it too, and takes nothing: the next request really goes where it says.
    let route = || {
        let told = broker
            .world
            .json(&["route", "--engine", "ollama", "--model", "m"]);
        assert_eq!(told["generation"], 1);
        told["candidates"][0]["node"].clone()
    };
    assert_eq!((route(), route()), (json!("n1"), json!("n1")));
    let text = broker.world.run(&["status"]).out;
    let row = text.lines().find(|l| l.trim().starts_with("n0")).unwrap();
    let cells: Vec<_> = row.split_whitespace().collect();
    assert_eq!(cells[4..8], ["1", "0", "0", "1"], "{text}");
    // A newer snapshot counts it itself.
    broker.priority(&["n0", "n1"]);
    assert_eq!(reserved(), [(0, 0), (0, 0)]);
    gate.open();
    client.finish(head);
}

#[test]
fn no_owner_is_no_workload_but_a_rejected_request() {
    let (broker, port) = Broker::with_facade("ollama");
    assert_eq!(chat(port), 502);
    let ended = broker.expect("ollama:proxy/request", |p| p["status"] == 502);
    assert!(
        ended["error"].is_string() && ended.get("node_id").is_none(),
        "{ended}"
    );
    assert!(broker.workloads().is_empty());
    let started = |f: &Value| f["method"] == "ollama:proxy/request-started";
    assert!(!broker.frames(0).iter().any(started));
}

#[test]
fn a_record_says_what_it_should() {
    let lines = [
        r#"{"message":{"content":"a"},"done":false}"#,
        r#"{"done":true,"prompt_eval_count":12,"eval_count":34,"eval_duration":1000000000}"#,
    ];
    let reply = lines
        .iter()
        .fold(Reply::lines(), |r, l| r.chunk(&format!("{l}\n")));
    let engine = Engine::always(reply.end());
    let (broker, port) = Broker::over(&[&engine]);
    chat(port);
    let w = last(&broker);
    assert_eq!((&w["model"], &w["engine"]), (&json!("m"), &json!("ollama")));
    assert_eq!(
        (&w["originatedFrom"], &w["requesterId"]),
        (&json!(""), &Value::Null)
    );
    assert_eq!(w["error"], Value::Null);
    let at = |name: &str| w[name].as_u64().unwrap();
    assert!(at("createdAt") <= at("startedAt") && at("startedAt") <= at("completedAt"));
    let stats = &w["stats"];
    assert_eq!(
        (&stats["promptTokens"], &stats["completionTokens"]),
        (&json!(12), &json!(34))
    );
    assert!(
        stats["ttftMs"].is_u64() && stats.get("estimated").is_none(),
        "{stats}"
    );
    let first = &broker.workloads()[0].1;
    assert_eq!(first["runId"], w["runId"]);
    assert_eq!(
        (&first["startedAt"], &first["completedAt"]),
        (&Value::Null, &Value::Null)
    );
    assert!(first.get("scheduledOn").is_none() && first.get("stats").is_none());
}

#[test]
fn openai_usage_at_the_end_of_a_stream_is_read() {
    let reply = Reply::stream("text/event-stream")
        .chunk("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n")
        .chunk("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":7}}\n\n")
        .chunk("data: [DONE]\n\n");
    let engine = Engine::always(reply.end());
    let (broker, port) = Broker::over(&[&engine]);
    post(port, "/v1/chat/completions", &json!({"model": "m"}));
    let stats = last(&broker)["stats"].clone();
    assert_eq!(
        (&stats["promptTokens"], &stats["completionTokens"]),
        (&json!(5), &json!(7))
    );
}

#[test]
fn facades_count_their_requests_apart_and_every_request_is_counted() {
    let engine = Engine::serving("ok");
    let (broker, port) = Broker::over(&[&engine]);
    let other = broker.enable("lmstudio");
    broker.join("lmstudio", &[&engine]);
    crate::support::client::get(port, "/api/version");
    chat(port);
    post(other, "/v1/completions", &json!({"model": "m"}));
    broker.story("2");
    broker.story_of("lmstudio", "1");
}

#[test]
fn the_end_of_a_request_is_told_behind_the_end_of_its_workload() {
    let engine = Engine::serving("ok");
    let (broker, port) = Broker::over(&[&engine]);
    chat(port);
    let ended = broker.expect("ollama:proxy/request", |p| p["id"] == "1");
    assert_eq!(
        (&ended["status"], &ended["node_id"]),
        (&json!(200), &json!("n0"))
    );
    assert_eq!(
        (&ended["method"], &ended["path"]),
        (&json!("POST"), &json!("/api/chat"))
    );
    assert_eq!(ended["target"], format!("127.0.0.1:{}", engine.port()));
    let order: Vec<_> = broker
        .frames(0)
        .iter()
        .filter_map(|f| Some(f["method"].as_str()?.to_owned()))
        .collect();
    let at = |name: &str| order.iter().position(|m| m == name).unwrap();
    assert!(at("ollama:proxy/request-started") < at("workload:started"));
    assert!(at("workload:started") < at("workload:completed"));
    assert!(at("workload:completed") < at("ollama:proxy/request"));
}

#[test]
fn parallel_requests_each_tell_their_whole_story() {
    let (a, b) = (Engine::serving("a"), Engine::always(Reply::status(503)));
    let (broker, port) = Broker::over(&[&b, &a]);
    let clients: Vec<_> = (0..24)
        .map(|_| std::thread::spawn(move || chat(port)))
        .collect();
    for client in clients {
        assert_eq!(client.join().unwrap(), 200);
    }
    for id in 1..=24 {
        let story = broker.story(&id.to_string());
        assert_eq!(story[0], "submitted queued -");
        assert_eq!(story.last().unwrap(), "completed completed n1");
        let ends = story.iter().filter(|s| s.starts_with("completed")).count();
        assert_eq!(ends, 1);
    }
}
