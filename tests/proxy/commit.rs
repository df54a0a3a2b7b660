//! The moment from which an answer is final (spec §5.2, §5.3, product section 9).

use serde_json::json;

use crate::support::broker::Broker;
use crate::support::client::{Client, post};
use crate::support::engine::{Engine, Gate, Reply, Step};

const SSE: &str = "text/event-stream";

#[test]
fn the_first_byte_reaches_the_client_while_the_rest_is_withheld() {
    let gate = Gate::new();
    let engine = Engine::always(Reply::lines().chunk("1").gate(&gate).chunk("2").end());
    let (broker, port) = Broker::over(&[&engine]);
    let mut client = Client::connect(port);
    client.post("/api/chat", &json!({"model": "m"}));
    let mut head = client.head();
    assert!(client.read_until(&mut head, "1"));
    broker.expect("workload:started", |p| {
        p["workloadInfo"]["state"] == "running"
    });
    gate.open();
    let answer = client.finish(head);
    assert!(answer.complete);
    assert_eq!(answer.text(), "12");
}

#[test]
fn headers_alone_commit_nothing() {
    let gate = Gate::new();
    let slow = Engine::always(Reply::lines().gate(&gate).then(Step::Close));
    let good = Engine::serving("good");
    let (broker, port) = Broker::over(&[&slow, &good]);
    let mut client = Client::connect(port);
    client.post("/api/chat", &json!({"model": "m"}));
    gate.reached();
    gate.open();
    assert_eq!(client.answer().text(), "good");
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
fn framing_of_an_event_stream_commits_nothing_and_arrives_with_the_rest() {
    let gate = Gate::new();
    let framing = ": hi\n\nevent: message_start\ndata: {\"type\":\"message_start\"}\n\n";
    let lost = Reply::stream(SSE)
        .chunk(framing)
        .gate(&gate)
        .then(Step::Close);
    let won = Reply::stream(SSE)
        .chunk(": ping\n\n")
        .chunk("event: ping\ndata: {}\n\n")
        .chunk("data: {\"x\":1}\n\n")
        .end();
    let (lost, won) = (Engine::always(lost), Engine::always(won));
    let (broker, port) = Broker::over(&[&lost, &won]);
    let mut client = Client::connect(port);
    client.post("/v1/messages", &json!({"model": "m"}));
    gate.reached();
    gate.open();
    let answer = client.answer();
    assert_eq!(
        answer.text(),
        ": ping\n\nevent: ping\ndata: {}\n\ndata: {\"x\":1}\n\n"
    );
    assert_eq!(broker.story("1").last().unwrap(), "completed completed n1");
}

#[test]
fn one_blank_line_commits_where_it_is_no_event_stream() {
    let gate = Gate::new();
    let engine = Engine::always(Reply::lines().chunk("\n").gate(&gate).then(Step::Close));
    let other = Engine::serving("other");
    let (broker, port) = Broker::over(&[&engine, &other]);
    let mut client = Client::connect(port);
    client.post("/api/chat", &json!({"model": "m"}));
    let mut head = client.head();
    assert!(client.read_until(&mut head, "\n"));
    gate.open();
    assert!(!client.finish(head).complete);
    assert_eq!(other.hits(), 0);
    assert_eq!(broker.story("1").last().unwrap(), "completed completed n0");
}

#[test]
fn an_answer_without_any_content_commits_at_its_clean_end() {
    for reply in [
        Reply::with(200, &[], ""),
        Reply::lines().end(),
        Reply::raw("HTTP/1.1 204 No Content\r\n\r\n"),
        Reply::stream(SSE).chunk(": only framing\n\n").end(),
    ] {
        let (engine, other) = (Engine::always(reply), Engine::serving("other"));
        let (broker, port) = Broker::over(&[&engine, &other]);
        let answer = post(port, "/v1/chat/completions", &json!({"model": "m"}));
        assert!(answer.complete && answer.status < 300, "{answer:?}");
        assert_eq!(other.hits(), 0);
        assert_eq!(broker.story("1").last().unwrap(), "completed completed n0");
    }
}

#[test]
fn a_node_that_leaves_discovery_before_content_loses_the_request() {
    let (silent, good) = (Engine::always(Reply::silence()), Engine::serving("good"));
    let (broker, port) = Broker::over(&[&silent, &good]);
    let mut client = Client::connect(port);
    client.post("/api/chat", &json!({"model": "m"}));
    silent.hit(1);
    broker.request("ollama:node/remove-manual", &json!({"id": "n0"}));
    assert_eq!(client.answer().text(), "good");
    silent.was_left(1);
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
fn a_node_that_leaves_discovery_behind_its_first_byte_finishes() {
    let gate = Gate::new();
    let engine = Engine::always(Reply::lines().chunk("1").gate(&gate).chunk("2").end());
    let (broker, port) = Broker::over(&[&engine]);
    let mut client = Client::connect(port);
    client.post("/api/chat", &json!({"model": "m"}));
    let mut head = client.head();
    assert!(client.read_until(&mut head, "1"));
    broker.request("ollama:node/remove-manual", &json!({"id": "n0"}));
    gate.open();
    assert_eq!(client.finish(head).text(), "12");
    assert_eq!(broker.story("1").last().unwrap(), "completed completed n0");
}

#[test]
fn another_route_commits_with_its_headers() {
    let gate = Gate::new();
    let engine = Engine::always(Reply::lines().gate(&gate).chunk("late").end());
    let (_broker, port) = Broker::over(&[&engine]);
    let mut client = Client::connect(port);
    client.post("/api/pull", &json!({"model": "x"}));
    let head = client.head();
    gate.open();
    assert_eq!(client.finish(head).text(), "late");
}
