//! What is tried again elsewhere, what is an answer at once, and what is said when all is lost
//! (spec §5.1, §5.4).

use serde_json::json;

use crate::support::broker::Broker;
use crate::support::client::post;
use crate::support::engine::{Engine, Reply, Step};
use crate::support::free_port;

fn chat(port: u16) -> crate::support::client::Response {
    post(port, "/api/chat", &json!({"model": "m", "messages": []}))
}

/// A node refuses in this way; the answer, and how often the second one was asked.
fn behind(first: &Engine) -> (u16, usize) {
    let good = Engine::serving("good");
    let (_broker, port) = Broker::over(&[first, &good]);
    let answer = chat(port);
    (answer.status, good.hits())
}

#[test]
fn a_retryable_status_goes_to_the_next_owner_at_once() {
    for status in [404, 408, 429, 500, 501, 503, 599] {
        let bad = Engine::always(Reply::status(status));
        assert_eq!(behind(&bad), (200, 1), "{status}");
        assert_eq!(bad.hits(), 1, "{status}");
    }
}

#[test]
fn any_other_status_is_the_answer() {
    for status in [301, 307, 400, 401, 403, 405, 409, 413, 422] {
        assert_eq!(behind(&Engine::always(Reply::status(status))), (status, 0));
    }
}

#[test]
fn a_connection_that_fails_in_any_way_before_content_goes_to_the_next_owner() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
    for (how, reply) in [
        ("closed", Reply::steps([Step::Close])),
        ("reset", Reply::steps([Step::Reset])),
        (
            "half a head",
            Reply::raw("HTTP/1.1 200 O").then(Step::Close),
        ),
        (
            "garbage",
            Reply::raw("SSH-2.0-hello\r\n\r\n").then(Step::Close),
        ),
        ("closed behind its head", Reply::raw(head).then(Step::Close)),
        ("reset behind its head", Reply::raw(head).then(Step::Reset)),
        (
            "half-closed behind its head",
            Reply::raw(head).then(Step::HalfClose),
        ),
    ] {
        let bad = Engine::always(reply);
        assert_eq!(behind(&bad), (200, 1), "{how}");
        assert_eq!(bad.hits(), 1, "{how}");
    }
}

#[test]
fn a_refused_connection_goes_to_the_next_owner() {
    let good = Engine::serving("good");
    let (broker, port) = Broker::with_facade("ollama");
    broker.node("ollama", "dead", free_port(), &["m"]);
    broker.node("ollama", "good", good.port(), &["m"]);
    broker.priority(&["dead", "good"]);
    assert_eq!(chat(port).text(), "good");
}

#[test]
fn every_attempt_sends_the_same_bytes() {
    let (bad, good) = (Engine::always(Reply::status(503)), Engine::serving("good"));
    let (_broker, port) = Broker::over(&[&bad, &good]);
    let body = format!(r#"{{ "model" :"m","pad":"{}" }}"#, "x".repeat(300_000));
    let headers = [("X-One", "1"), ("Content-Type", "application/json")];
    let answer =
        crate::support::client::http(port, "POST", "/api/chat?a=%2F&b", &headers, body.as_bytes());
    assert_eq!(answer.status, 200);
    let (first, second) = (bad.only(), good.only());
    assert_eq!(first.body, body.as_bytes());
    assert_eq!(second.body, first.body);
    assert_eq!(second.target, "/api/chat?a=%2F&b");
    let without_host = |r: &crate::support::engine::Request| {
        let mut all = r.headers.clone();
        all.retain(|(n, _)| !n.eq_ignore_ascii_case("host"));
        all
    };
    assert_eq!(without_host(&first), without_host(&second));
}

#[test]
fn the_fifth_refusal_is_the_answer_unchanged() {
    let engines: Vec<_> = (0..6)
        .map(|i| {
            let body = format!("busy {i}");
            Engine::always(Reply::with(
                503,
                &[("X-Which", "own"), ("Retry-After", "7")],
                &body,
            ))
        })
        .collect();
    let all: Vec<_> = engines.iter().collect();
    let (broker, port) = Broker::over(&all);
    let answer = chat(port);
    assert_eq!((answer.status, answer.text().as_str()), (503, "busy 4"));
    assert_eq!(answer.header("Retry-After"), Some("7"), "the engine's own");
    assert_eq!(answer.header("X-Which"), Some("own"));
    assert_eq!(engines[5].hits(), 0, "five dispatches and no more");
    let story = broker.story("1");
    assert_eq!(story.last().unwrap(), "errored failed n4");
}

#[test]
fn a_fifth_attempt_without_connection_is_a_502_that_says_what_was_tried() {
    let (broker, port) = Broker::with_facade("ollama");
    for i in 0..5 {
        broker.node("ollama", &format!("n{i}"), free_port(), &["m"]);
    }
    let answer = chat(port);
    assert_eq!(answer.status, 502);
    let text = answer.error_text();
    assert!(
        text.contains("\"m\"") && text.contains("5 attempts"),
        "{text}"
    );
    assert_eq!(broker.story("1").last().unwrap(), "errored failed n4");
}

#[test]
fn headers_without_content_until_the_last_attempt_are_a_504() {
    let stalled = Reply::lines().then(Step::Hang);
    let engines: Vec<_> = (0..5).map(|_| Engine::always(stalled.clone())).collect();
    let all: Vec<_> = engines.iter().collect();
    let broker = Broker::with(&["--response-header-timeout", "100ms"]);
    let port = broker.enable("ollama");
    broker.join("ollama", &all);
    assert_eq!(chat(port).status, 504);
    for engine in engines {
        engine.was_left(1);
    }
}

#[test]
fn no_headers_within_the_limit_go_to_the_next_owner() {
    let (stalled, good) = (Engine::always(Reply::silence()), Engine::serving("good"));
    let broker = Broker::with(&["--response-header-timeout", "100ms"]);
    let port = broker.enable("ollama");
    broker.join("ollama", &[&stalled, &good]);
    assert_eq!(chat(port).text(), "good");
    stalled.was_left(1);
}

#[test]
fn a_sole_owner_that_recovers_serves_the_second_round() {
    let engine = Engine::always(Reply::status(503));
    let (broker, port) = Broker::over(&[&engine]);
    let client = std::thread::spawn(move || chat(port));
    engine.hit(1);
    engine.now(|_| Reply::lines().chunk("again").end());
    assert_eq!(client.join().unwrap().text(), "again");
    assert_eq!(engine.hits(), 2);
    assert_eq!(
        broker.story("1"),
        [
            "submitted queued -",
            "submitted queued n0",
            "submitted queued -",
            "submitted queued n0",
            "started running n0",
            "completed completed n0",
        ]
    );
}

#[test]
fn an_owner_that_appears_while_waiting_serves_the_next_round() {
    let (bad, good) = (Engine::always(Reply::status(503)), Engine::serving("good"));
    let (broker, port) = Broker::over(&[&bad]);
    let client = std::thread::spawn(move || chat(port));
    bad.hit(1);
    broker.request("ollama:node/remove-manual", &json!({"id": "n0"}));
    broker.node("ollama", "late", good.port(), &["m"]);
    assert_eq!(client.join().unwrap().text(), "good");
    assert_eq!(bad.hits(), 1);
}

#[test]
fn a_501_from_everybody_in_two_rounds_is_the_answer() {
    let engine = Engine::always(Reply::status(501));
    let (_broker, port) = Broker::over(&[&engine]);
    assert_eq!(chat(port).status, 501);
    assert_eq!(engine.hits(), 2);
}

#[test]
fn another_route_is_tried_once_a_node_and_never_again() {
    let refusing = || Engine::always(Reply::status(503));
    let engines = [refusing(), refusing(), refusing()];
    let all: Vec<_> = engines.iter().collect();
    let (_broker, port) = Broker::over(&all);
    let answer = post(port, "/api/pull", &json!({"model": "m"}));
    assert_eq!(answer.status, 503);
    assert_eq!(
        answer.error_text(),
        "engine says 503",
        "the last engine's own words"
    );
    assert!(engines.iter().all(|e| e.hits() == 1));
}

#[test]
fn a_404_on_another_route_is_the_answer() {
    let (a, b) = (Engine::always(Reply::status(404)), Engine::serving("b"));
    let (_broker, port) = Broker::over(&[&a, &b]);
    assert_eq!(post(port, "/api/show", &json!({"model": "m"})).status, 404);
    assert_eq!(b.hits(), 0);
}
