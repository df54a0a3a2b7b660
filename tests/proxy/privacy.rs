//! What people say to their engines stays between them (spec §9, product section 12).

use serde_json::json;

use crate::support::broker::Broker;
use crate::support::client::{Client, http};
use crate::support::engine::{Engine, Gate, Reply, Step};

/// In no log line, no frame and no file, whatever happens.
const CANARY: &str = "cAnArY7f3";

fn watched() -> (Broker, u16) {
    let broker = Broker::with(&["--log-level", "debug"]);
    let port = broker.enable("ollama");
    (broker, port)
}

/// Ends the daemon and looks everywhere.
#[track_caller]
fn is_silent(mut broker: Broker, about: &str) {
    broker.close();
    broker.process.exit_code();
    let log = broker.process.log.text();
    assert!(log.contains(about), "the log is really at debug:\n{log}");
    let lower = |text: &str| text.to_lowercase().contains(&CANARY.to_lowercase());
    for (where_, text) in [("log", log), ("frames", broker.raw_frames())] {
        let told = text.lines().find(|l| lower(l));
        assert_eq!(told, None, "in the {where_}");
    }
    for (path, content) in broker.world.files() {
        assert!(
            !lower(&String::from_utf8_lossy(&content)),
            "in {}",
            path.display()
        );
    }
}

/// A request full of secrets.
fn tell(port: u16, path: &str) -> crate::support::client::Response {
    let key = format!("Bearer {CANARY}");
    let cookie = format!("s={CANARY}");
    let headers = [
        ("Authorization", key.as_str()),
        ("X-Api-Key", CANARY),
        ("Cookie", cookie.as_str()),
        ("X-Anything", CANARY),
        ("User-Agent", CANARY),
    ];
    let body = json!({
        "model": "m", "prompt": CANARY,
        "messages": [{"role": "user", "content": CANARY}],
    });
    let target = format!("{path}?key={CANARY}");
    http(port, "POST", &target, &headers, body.to_string().as_bytes())
}

#[test]
fn a_conversation_that_goes_well_leaves_no_trace() {
    let answer = format!("{{\"message\":{{\"content\":\"{CANARY}\"}}}}\n");
    let gate = Gate::new();
    gate.open();
    let engine = Engine::always(
        Reply::lines()
            .chunk(&answer)
            .gate(&gate)
            .chunk(CANARY)
            .end(),
    );
    let (broker, port) = watched();
    broker.join("ollama", &[&engine]);
    for path in [
        "/api/chat",
        "/v1/chat/completions",
        "/v1/messages",
        "/api/other",
    ] {
        assert!(tell(port, path).text().contains(CANARY));
    }
    assert!(
        engine
            .requests()
            .iter()
            .all(|r| r.header("X-Api-Key") == Some(CANARY))
    );
    broker.story("1");
    is_silent(broker, "dispatched");
}

#[test]
fn an_engine_that_fails_in_any_way_leaves_no_trace() {
    let garbage = format!("HTTP/1.1 2{CANARY}\r\n{CANARY}\r\n\r\n");
    let reason =
        format!("HTTP/1.1 500 {CANARY}\r\nX-{CANARY}: {CANARY}\r\nContent-Length: 0\r\n\r\n");
    let echo = json!({"error": {"message": format!("bad prompt {CANARY}")}});
    let engines = [
        Engine::always(Reply::raw(garbage).then(Step::Close)),
        Engine::always(Reply::raw(reason)),
        Engine::always(Reply::json(429, &echo)),
        Engine::always(Reply::raw(format!("{CANARY}\r\n")).then(Step::Close)),
        Engine::always(Reply::json(503, &echo)),
    ];
    let all: Vec<_> = engines.iter().collect();
    let (broker, port) = watched();
    broker.join("ollama", &all);
    let answer = tell(port, "/api/chat");
    assert!(
        answer.status == 503 && answer.text().contains(CANARY),
        "the engine's own words pass"
    );
    tell(port, "/api/other");
    broker.story("1");
    is_silent(broker, "attempt lost");
}

#[test]
fn our_own_answers_repeat_no_prompt() {
    let (broker, port) = watched();
    for path in [
        "/api/chat",
        "/v1/chat/completions",
        "/v1/messages",
        "/api/other",
    ] {
        let answer = tell(port, path);
        assert_eq!(answer.status, 502);
        assert!(!answer.text().contains(CANARY), "{path}");
    }
    broker.expect("ollama:proxy/request", |p| p["id"] == "4");
    is_silent(broker, "facade listens");
}

#[test]
fn a_cut_stream_and_a_client_that_leaves_leave_no_trace() {
    let engine = Engine::always(Reply::lines().chunk(CANARY).then(Step::Hang));
    let (broker, port) = watched();
    broker.join("ollama", &[&engine]);
    let mut client = Client::connect(port);
    client.post("/api/chat", &json!({"model": "m", "prompt": CANARY}));
    let mut head = client.head();
    assert!(client.read_until(&mut head, CANARY));
    client.reset();
    broker.story("1");
    engine.now(|_| Reply::lines().chunk(CANARY).chunk("x").then(Step::Reset));
    tell(port, "/api/chat");
    broker.story("2");
    is_silent(broker, "dispatched");
}

#[test]
fn half_and_broken_requests_leave_no_trace() {
    let (broker, port) = watched();
    for broken in [
        format!("{CANARY} {CANARY}\r\n\r\n"),
        format!("GET /{CANARY} HTTP/1.1\r\nBad {CANARY}: 1\r\n\r\n"),
        format!(
            "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999\r\n\r\n{CANARY}"
        ),
        format!("GET /x HTTP/1.1\r\nHost: {CANARY}.test\r\nOrigin: http://{CANARY}\r\n\r\n"),
    ] {
        let mut client = Client::connect(port);
        client.write(broken);
        client.half_close();
        client.rest().unwrap();
    }
    is_silent(broker, "facade listens");
}

#[test]
fn frames_that_are_refused_are_not_quoted() {
    let mut broker = Broker::with(&["--log-level", "debug"]);
    broker.enable("ollama");
    broker.notify("ollama:discovery:nodes", &json!({"nodes": CANARY}));
    broker.notify("ollama:discovery:nodes", &json!([CANARY]));
    for (method, params) in [
        ("ollama:node/add-manual", json!({"id": 7, "apiKey": CANARY})),
        ("ollama:set-port", json!({"port": CANARY})),
        ("node/set-priority", json!(CANARY)),
        ("nothing/at-all", json!({"secret": CANARY})),
    ] {
        broker.call(method, &params).unwrap_err();
    }
    broker.raw(&format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{CANARY}}}\n"
    ));
    broker.raw(&format!("{CANARY}\n"));
    drop(broker.call("test/barrier", &json!({})));
    broker.close();
    broker.process.exit_code();
    for (where_, text) in [
        ("log", broker.process.log.text()),
        ("frames", broker.raw_frames()),
    ] {
        let told = text.lines().find(|l| l.contains(CANARY));
        assert_eq!(told, None, "in the {where_}");
    }
}

#[test]
fn requests_are_not_told_of_above_debug() {
    let engine = Engine::serving("ok");
    let broker = Broker::with(&["--log-level", "info"]);
    let port = broker.enable("ollama");
    broker.join("ollama", &[&engine]);
    tell(port, "/api/chat");
    broker.story("1");
    assert!(!broker.process.log.text().contains("dispatched"));
}
