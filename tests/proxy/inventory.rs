//! The fleet's model list (data plane 8).

use serde_json::{Value, json};

use crate::support::broker::Broker;
use crate::support::client::{Response, get, http};
use crate::support::engine::{Engine, Reply, Step};
use crate::support::free_port;

const APP: &str = "http://app.test";

fn openai(ids: &[&str]) -> Value {
    let data: Vec<_> = ids
        .iter()
        .map(|id| json!({"id": id, "object": "model"}))
        .collect();
    json!({"object": "list", "data": data})
}

/// A list that this origin may read, or none.
fn granting(origin: Option<&str>, body: &str) -> Engine {
    let mut headers = vec![("Content-Type", "application/json")];
    headers.extend(origin.map(|o| ("Access-Control-Allow-Origin", o)));
    Engine::always(Reply::with(200, &headers, body))
}

fn listing(ids: &[&str]) -> Engine {
    Engine::always(Reply::json(200, &openai(ids)))
}

/// Nodes `n0`, `n1`, … of an LM Studio facade, in this order.
fn over(engines: &[&Engine]) -> (Broker, u16) {
    let (broker, port) = Broker::with_facade("lmstudio");
    broker.join("lmstudio", engines);
    (broker, port)
}

fn ids(answer: &Response) -> Vec<String> {
    assert_eq!(answer.status, 200, "{answer:?}");
    let body = answer.json();
    let data = body["data"].as_array().unwrap();
    data.iter()
        .map(|m| m["id"].as_str().unwrap().to_owned())
        .collect()
}

fn for_app(port: u16) -> Response {
    http(port, "GET", "/v1/models", &[("Origin", APP)], b"")
}

#[test]
fn lists_are_merged_in_candidate_order_and_the_first_record_of_a_model_wins() {
    let a = json!({"object": "list", "own": 1, "data": [
        {"id": "z", "by": "a"}, {"id": "shared", "by": "a", "n": 1e2}
    ]});
    let b = json!({"data": [{"id": "shared", "by": "b"}, {"id": "c", "by": "b"}]});
    let (a, b) = (
        Engine::always(Reply::json(200, &a)),
        Engine::always(Reply::json(200, &b)),
    );
    let (broker, port) = over(&[&a, &b]);
    let answer = get(port, "/v1/models?scope=all");
    assert_eq!(ids(&answer), ["z", "shared", "c"]);
    assert_eq!(answer.json()["data"][1]["by"], "a");
    assert_eq!(answer.json()["own"], Value::Null, "the envelope is ours");
    assert_eq!(answer.header("Content-Type"), Some("application/json"));
    assert_eq!(a.only().target, "/v1/models?scope=all");
    broker.request("lmstudio:node/select", &json!({"id": "n1"}));
    assert_eq!(
        ids(&get(port, "/v1/models")),
        ["shared", "c", "z"],
        "a pin orders"
    );
}

#[test]
fn ollamas_native_list_is_merged_by_normalised_name() {
    let a = json!({"models": [{"name": "phi", "digest": "1"}]});
    let b = json!({"models": [{"name": "phi:latest", "digest": "2"}, {"model": "qwen:1b"}]});
    let (a, b) = (
        Engine::always(Reply::json(200, &a)),
        Engine::always(Reply::json(200, &b)),
    );
    let (_broker, port) = Broker::over(&[&a, &b]);
    let body = get(port, "/api/tags").json();
    assert_eq!(
        body,
        json!({"models": [{"name": "phi", "digest": "1"}, {"model": "qwen:1b"}]})
    );
}

#[test]
fn llamacpp_asks_one_upstream_path_for_both_of_its_lists() {
    let a = listing(&["a"]);
    let (broker, port) = Broker::with_facade("llamacpp");
    broker.join("llamacpp", &[&a]);
    for path in ["/models?x=1", "/v1/models?x=1"] {
        assert_eq!(ids(&get(port, path)), ["a"]);
    }
    assert!(a.requests().iter().all(|r| r.target == "/models?x=1"));
}

#[test]
fn a_node_that_cannot_list_is_skipped() {
    let closed = Engine::always(Reply::steps([Step::Close]));
    for bad in [
        Engine::always(Reply::status(500)),
        Engine::always(Reply::status(404)),
        Engine::always(Reply::with(200, &[], "not json")),
        Engine::always(Reply::with(200, &[], "{}")),
        Engine::always(Reply::with(
            200,
            &[],
            r#"{"data":[{"id":"bad"},{"nameless":1}]}"#,
        )),
        Engine::always(Reply::with(200, &[], r#"{"data":[{"id":"bad"},7]}"#)),
        Engine::always(
            Reply::raw("HTTP/1.1 200 X\r\nContent-Length: 99\r\n\r\n{").then(Step::Close),
        ),
        closed,
    ] {
        let good = listing(&["good"]);
        let (_broker, port) = over(&[&bad, &good]);
        assert_eq!(ids(&get(port, "/v1/models")), ["good"]);
    }
}

#[test]
fn no_list_at_all_is_a_503_that_can_be_tried_again() {
    let bad = Engine::always(Reply::status(500));
    let (broker, port) = over(&[&bad]);
    broker.node("lmstudio", "dead", free_port(), &[]);
    let answer = get(port, "/v1/models");
    assert_eq!(answer.status, 503);
    assert_eq!(answer.header("Retry-After"), Some("1"));
    assert!(!answer.error_text().is_empty());
    let (_broker, port) = Broker::with_facade("lmstudio");
    assert_eq!(get(port, "/v1/models").status, 503, "without any node");
}

#[test]
fn an_empty_list_is_a_list() {
    let empty = listing(&[]);
    let (_broker, port) = over(&[&empty]);
    assert_eq!(
        get(port, "/v1/models").json(),
        json!({"object": "list", "data": []})
    );
}

#[test]
fn a_redirect_is_not_followed() {
    let sink = listing(&["sink"]);
    let to = format!("http://127.0.0.1:{}/v1/models", sink.port());
    let away = Engine::always(Reply::with(307, &[("Location", &to)], ""));
    let (_broker, port) = over(&[&away]);
    assert_eq!(get(port, "/v1/models").status, 503);
    assert_eq!(sink.hits(), 0);
}

#[test]
fn credentials_never_travel_with_a_question_to_everybody() {
    let (a, b) = (listing(&["a"]), listing(&["b"]));
    let (_broker, port) = over(&[&a, &b]);
    let headers = [
        ("Authorization", "Bearer secret"),
        ("Cookie", "secret=1"),
        ("X-Api-Key", "secret"),
        ("Accept-Encoding", "gzip"),
        ("X-Test", "kept"),
        ("Connection", "X-Hop"),
        ("X-Hop", "1"),
    ];
    assert_eq!(http(port, "GET", "/v1/models", &headers, b"").status, 200);
    for engine in [&a, &b] {
        let got = engine.only();
        for name in [
            "Authorization",
            "Cookie",
            "X-Api-Key",
            "Accept-Encoding",
            "X-Hop",
        ] {
            assert_eq!(got.header(name), None, "{name}");
        }
        assert_eq!(got.header("X-Test"), Some("kept"));
        assert_eq!(got.header("Accept"), Some("application/json"));
        assert_eq!(
            got.header("Host"),
            Some(format!("127.0.0.1:{}", engine.port()).as_str())
        );
    }
}

#[test]
fn a_list_reserves_nothing_and_is_no_workload_but_a_request() {
    let a = listing(&["a"]);
    let (broker, port) = over(&[&a]);
    get(port, "/v1/models");
    let started = broker.expect("lmstudio:proxy/request-started", |_| true);
    let ended = broker.expect("lmstudio:proxy/request", |_| true);
    assert_eq!(started["id"], ended["id"]);
    for event in [&started, &ended] {
        assert_eq!(event["target"], "cluster");
        assert!(event.get("node_id").is_none());
    }
    assert_eq!(ended["status"], 200);
    assert!(broker.workloads().is_empty());
}

#[test]
fn an_origin_that_everybody_allows_reads_the_list() {
    let a = granting(Some(APP), &openai(&["a"]).to_string());
    let b = granting(Some("*"), &openai(&["b"]).to_string());
    let (_broker, port) = over(&[&a, &b]);
    let answer = for_app(port);
    assert_eq!(ids(&answer), ["a", "b"]);
    assert_eq!(answer.headers_of("Access-Control-Allow-Origin"), [APP]);
    assert!(answer.headers_of("Vary").join(",").contains("Origin"));
    assert_eq!(a.only().header("Origin"), Some(APP));
}

#[test]
fn one_refusal_keeps_the_list_from_an_origin() {
    let refusals = [
        granting(None, &openai(&["b"]).to_string()),
        granting(Some("http://other.test"), &openai(&["b"]).to_string()),
        Engine::always(Reply::status(401)),
        Engine::always(Reply::status(403)),
    ];
    for refusing in refusals {
        let good = granting(Some(APP), &openai(&["secret-model"]).to_string());
        let (_broker, port) = over(&[&good, &refusing]);
        let answer = for_app(port);
        assert_eq!(answer.status, 403);
        assert_eq!(answer.header("Access-Control-Allow-Origin"), None);
        assert!(!answer.text().contains("secret-model"));
        assert_eq!(
            ids(&get(port, "/v1/models"))[0],
            "secret-model",
            "without an origin"
        );
    }
}

#[test]
fn a_node_that_is_down_does_not_keep_a_list_from_an_origin() {
    let good = granting(Some(APP), &openai(&["a"]).to_string());
    let down = Engine::always(Reply::status(503));
    let (broker, port) = over(&[&good, &down]);
    broker.node("lmstudio", "dead", free_port(), &[]);
    assert_eq!(ids(&for_app(port)), ["a"]);
}

#[test]
fn an_invalid_list_is_a_502_for_an_origin_and_keeps_its_permission_if_all_agree() {
    for (origin, kept) in [(Some(APP), Some(APP)), (Some("*"), Some(APP))] {
        let good = granting(Some(APP), &openai(&["secret-model"]).to_string());
        let broken = granting(origin, "{}");
        let (_broker, port) = over(&[&good, &broken]);
        let answer = for_app(port);
        assert_eq!(answer.status, 502);
        assert_eq!(answer.header("Access-Control-Allow-Origin"), kept);
        assert!(!answer.text().contains("secret-model"));
    }
}

#[test]
fn nobody_left_to_ask_is_a_502_for_an_origin() {
    let down = Engine::always(Reply::status(500));
    let (_broker, port) = over(&[&down]);
    let answer = for_app(port);
    assert_eq!(answer.status, 502);
    assert_eq!(answer.header("Access-Control-Allow-Origin"), None);
}
