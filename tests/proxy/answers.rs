//! Answers the proxy makes itself (product section 10).

use serde_json::{Value, json};

use crate::support::broker::Broker;
use crate::support::client::{Response, get, http, post};
use crate::support::engine::{Engine, Reply, Step};

/// An answer of ours: JSON, in the dialect of its path, and no permission for any browser.
#[track_caller]
fn is_ours(answer: &Response, path: &str, status: u16) {
    assert_eq!(answer.status, status, "{path}: {answer:?}");
    assert_eq!(
        answer.header("Content-Type"),
        Some("application/json"),
        "{path}"
    );
    let cors = |n: &&str| n.to_lowercase().starts_with("access-control");
    assert!(!answer.names().iter().any(cors), "{path}: {answer:?}");
    let body = answer.json();
    let keys = |v: &Value| v.as_object().map(|o| o.keys().cloned().collect::<Vec<_>>());
    let of = |names: &[&str]| Some(names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
    if path.starts_with("/v1/messages") {
        assert_eq!(keys(&body), of(&["error", "type"]), "{path}: {body}");
        assert_eq!(body["type"], "error");
        assert_eq!(
            keys(&body["error"]),
            of(&["message", "type"]),
            "{path}: {body}"
        );
    } else if path.starts_with("/v1/") {
        assert_eq!(keys(&body), of(&["error"]), "{path}: {body}");
        assert_eq!(
            keys(&body["error"]),
            of(&["code", "message", "type"]),
            "{path}: {body}"
        );
        assert_eq!(body["error"]["code"], status);
    } else {
        assert_eq!(keys(&body), of(&["error"]), "{path}: {body}");
    }
    assert!(!answer.error_text().is_empty());
}

const INFERENCE: [&str; 4] = [
    "/api/chat",
    "/v1/chat/completions",
    "/v1/messages",
    "/v1/responses",
];

#[test]
fn no_owner_is_a_502_in_each_dialect() {
    let (_broker, port) = Broker::with_facade("ollama");
    for path in INFERENCE {
        for headers in [&[][..], &[("Origin", "http://app.test")][..]] {
            let answer = http(port, "POST", path, headers, br#"{"model":"m"}"#);
            is_ours(&answer, path, 502);
            assert!(answer.error_text().contains("\"m\""), "{answer:?}");
        }
    }
}

#[test]
fn no_node_for_another_route_is_a_502_in_each_dialect() {
    let (_broker, port) = Broker::with_facade("ollama");
    for path in [
        "/api/show",
        "/v1/other",
        "/v1/messages/count_tokens",
        "/",
        "/models",
    ] {
        is_ours(&get(port, path), path, 502);
    }
}

#[test]
fn a_503_of_ours_says_when_to_come_back() {
    let broken = Engine::always(Reply::status(500));
    let (_broker, port) = Broker::over(&[&broken]);
    for path in ["/api/tags", "/v1/models"] {
        let answer = get(port, path);
        is_ours(&answer, path, 503);
        assert_eq!(answer.header("Retry-After"), Some("1"));
    }
}

#[test]
fn a_lost_last_attempt_is_a_502_in_each_dialect() {
    let engines: Vec<_> = (0..5)
        .map(|_| Engine::always(Reply::steps([Step::Close])))
        .collect();
    let all: Vec<_> = engines.iter().collect();
    let (_broker, port) = Broker::over(&all);
    for path in INFERENCE {
        let answer = post(port, path, &json!({"model": "m", "prompt": "canary"}));
        is_ours(&answer, path, 502);
        let text = answer.error_text();
        assert!(
            text.contains("\"m\"") && text.contains("5 attempts"),
            "{text}"
        );
        assert!(!text.contains("canary"));
    }
}

#[test]
fn a_502_names_the_nearest_models_and_their_owners_but_not_to_a_web_page() {
    let engine = Engine::serving("x");
    let (broker, port) = Broker::with_facade("ollama");
    broker.node("ollama", "tower", engine.port(), &["qwen3:8b", "llava:7b"]);
    let body = br#"{"model":"qwen3:8"}"#;
    let text = http(port, "POST", "/api/chat", &[], body).error_text();
    assert!(
        text.contains("\"qwen3:8\"") && text.contains("qwen3:8b (tower)"),
        "{text}"
    );
    assert!(!text.contains("llava"), "{text}");
    let page = [("Origin", "http://app.test")];
    let text = http(port, "POST", "/api/chat", &page, body).error_text();
    assert!(
        !text.contains("qwen3:8b") && !text.contains("tower"),
        "{text}"
    );
}

#[test]
fn an_answer_of_ours_keeps_the_connection() {
    let (_broker, port) = Broker::with_facade("ollama");
    let mut client = crate::support::client::Client::connect(port);
    for _ in 0..3 {
        client.post("/api/chat", &json!({"model": "m"}));
        assert_eq!(client.answer().status, 502);
    }
}

#[test]
fn a_head_request_gets_our_answer_without_its_body() {
    let (_broker, port) = Broker::with_facade("ollama");
    let mut client = crate::support::client::Client::connect(port);
    for _ in 0..2 {
        client.start("HEAD", "/api/tags", &[]);
        let answer = client.answer();
        assert_eq!((answer.status, answer.body.len()), (502, 0));
    }
}

#[test]
fn a_model_name_cannot_break_out_of_our_json() {
    let (_broker, port) = Broker::with_facade("ollama");
    let answer = post(
        port,
        "/v1/chat/completions",
        &json!({"model": "a\"b\\\n\u{1}<"}),
    );
    is_ours(&answer, "/v1/chat/completions", 502);
}
