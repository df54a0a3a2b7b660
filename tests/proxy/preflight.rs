//! A browser's permission question, answered for all engines together (spec §5.8, data plane 9).

use serde_json::Value;

use crate::support::broker::Broker;
use crate::support::client::{Response, http};
use crate::support::engine::{Engine, Reply};
use crate::support::free_port;

const APP: &str = "http://app.test";

fn ask(port: u16, method: &str, headers: &str) -> Response {
    let all = [
        ("Origin", APP),
        ("Access-Control-Request-Method", method),
        ("Access-Control-Request-Headers", headers),
        ("Authorization", "Bearer secret"),
        ("Cookie", "secret=1"),
        ("X-Api-Key", "secret"),
    ];
    http(port, "OPTIONS", "/api/chat", &all, b"")
}

fn grant(headers: &[(&str, &str)]) -> Engine {
    Engine::always(Reply::with(204, headers, ""))
}

const FULL: [(&str, &str); 5] = [
    ("Access-Control-Allow-Origin", APP),
    ("Access-Control-Allow-Methods", "GET, PUT"),
    ("Access-Control-Allow-Headers", "content-type, x-a"),
    ("Access-Control-Allow-Credentials", "true"),
    ("Vary", "X-Own"),
];

#[test]
fn a_sole_engines_answer_is_relayed_as_it_is_credentials_and_all() {
    let headers = [("X-Own", "1"), ("Access-Control-Allow-Origin", "*")];
    let engine = Engine::always(Reply::with(401, &headers, "engine refused"));
    let (broker, port) = Broker::over(&[&engine]);
    let answer = ask(port, "POST", "content-type");
    assert_eq!(
        (answer.status, answer.text().as_str()),
        (401, "engine refused")
    );
    assert_eq!(
        answer.names()[..2],
        ["X-Own", "Access-Control-Allow-Origin"]
    );
    let got = engine.only();
    assert_eq!(got.method, "OPTIONS");
    assert_eq!(got.header("Authorization"), Some("Bearer secret"));
    let told = broker.expect("ollama:proxy/request", |p| p["status"] == 401);
    assert_eq!(told["target"], "cluster", "as with several engines");
    let started = |f: &Value| f["method"] == "ollama:proxy/request-started";
    assert!(
        !broker.frames(0).iter().any(started),
        "it is no request yet"
    );
    assert!(broker.workloads().is_empty());
}

#[test]
fn several_engines_permissions_are_intersected_without_credentials_in_the_question() {
    let (a, b) = (grant(&FULL), grant(&FULL));
    let (_broker, port) = Broker::over(&[&a, &b]);
    let answer = ask(port, "PUT", "Content-Type, X-A");
    assert_eq!(answer.status, 204);
    for (name, value) in [
        ("Access-Control-Allow-Origin", APP),
        ("Access-Control-Allow-Methods", "PUT"),
        ("Access-Control-Allow-Credentials", "true"),
        ("Access-Control-Max-Age", "60"),
    ] {
        assert_eq!(answer.headers_of(name), [value], "{name}");
    }
    let vary = answer.headers_of("Vary").join(", ");
    for part in ["X-Own", "Origin", "Access-Control-Request-Method"] {
        assert!(vary.contains(part), "{vary}");
    }
    for engine in [&a, &b] {
        let got = engine.only();
        for name in ["Authorization", "Cookie", "X-Api-Key"] {
            assert_eq!(got.header(name), None, "{name}");
        }
        assert_eq!(got.header("Origin"), Some(APP));
    }
}

#[test]
fn what_one_engine_does_not_allow_is_a_403_without_any_permission() {
    let without = |name: &str| {
        let mut all = FULL.to_vec();
        all.retain(|(n, _)| *n != name);
        all
    };
    let mut wrong = FULL.to_vec();
    wrong[0].1 = "http://wrong.test";
    let mut twice = FULL.to_vec();
    twice.push(FULL[0]);
    for other in [
        without("Access-Control-Allow-Origin"),
        without("Access-Control-Allow-Methods"),
        without("Access-Control-Allow-Headers"),
        wrong,
        twice,
    ] {
        let (a, b) = (grant(&FULL), grant(&other));
        let (_broker, port) = Broker::over(&[&a, &b]);
        let answer = ask(port, "PUT", "content-type");
        assert_eq!(answer.status, 403, "{other:?}");
        assert!(answer.error_text().contains("preflight"));
        assert!(
            !answer
                .names()
                .iter()
                .any(|n| n.to_lowercase().starts_with("access-control"))
        );
    }
}

#[test]
fn credentials_need_everybodys_word() {
    let (a, b) = (grant(&FULL), grant(&FULL[..3]));
    let (_broker, port) = Broker::over(&[&a, &b]);
    let answer = ask(port, "PUT", "x-a");
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("Access-Control-Allow-Credentials"), None);
}

#[test]
fn a_wildcard_does_not_cover_the_authorization_header() {
    let wild = [
        ("Access-Control-Allow-Origin", "*"),
        ("Access-Control-Allow-Methods", "*"),
        ("Access-Control-Allow-Headers", "*"),
    ];
    let (a, b) = (grant(&wild), grant(&wild));
    let (_broker, port) = Broker::over(&[&a, &b]);
    assert_eq!(ask(port, "PATCH", "x-anything").status, 204);
    assert_eq!(ask(port, "PATCH", "authorization").status, 403);
}

#[test]
fn an_engine_that_is_down_has_no_say_and_a_denial_has() {
    let good = grant(&FULL);
    let down = Engine::always(Reply::status(503));
    let (broker, port) = Broker::over(&[&good, &down]);
    broker.node("ollama", "dead", free_port(), &[]);
    assert_eq!(ask(port, "PUT", "x-a").status, 204);
    down.now(|_| Reply::status(405));
    let answer = ask(port, "PUT", "x-a");
    assert_eq!(
        (answer.status, answer.error_text().as_str()),
        (403, "engine denied preflight")
    );
}

#[test]
fn nobody_to_ask_is_a_502_in_the_routes_shape() {
    let (broker, port) = Broker::with_facade("ollama");
    let answer = ask(port, "POST", "x-a");
    assert_eq!(answer.status, 502);
    assert_eq!(answer.error_text(), "no available engine for preflight");
    assert_eq!(answer.header("Access-Control-Allow-Origin"), None);
    broker.node("ollama", "a", free_port(), &[]);
    assert_eq!(ask(port, "POST", "x-a").status, 502, "one that is dead");
    broker.node("ollama", "b", free_port(), &[]);
    let answer = ask(port, "POST", "x-a");
    assert_eq!(
        (answer.status, answer.error_text().as_str()),
        (502, "engine unavailable for preflight")
    );
}

#[test]
fn options_without_a_requested_method_is_an_ordinary_request() {
    let (a, b) = (Engine::serving("a"), Engine::serving("b"));
    let (_broker, port) = Broker::over(&[&a, &b]);
    let answer = http(port, "OPTIONS", "/api/chat", &[("Origin", APP)], b"");
    assert_eq!(answer.text(), "a");
    assert_eq!(b.hits(), 0);
}
