//! No word of a conversation, no key and no query leaves with a span or a metric.

use serde_json::json;

use crate::collector::Collector;
use crate::support::client::{Client, get, http};
use crate::support::daemon::{Standalone, World};
use crate::support::engine::{Reply, Step};
use crate::support::{ask_until, free_port};
use crate::{config, ollama, telemetry};

const CANARY: &str = "cAnArY7f3";

fn secrets() -> [(&'static str, String); 6] {
    [
        ("Authorization", format!("Bearer {CANARY}")),
        ("X-Api-Key", CANARY.into()),
        ("Cookie", format!("s={CANARY}")),
        ("User-Agent", CANARY.into()),
        ("traceparent", CANARY.into()),
        ("tracestate", format!("a={CANARY}")),
    ]
}

/// A request full of secrets, on either lane.
fn tell(port: u16, path: &str, model: &str, plain: bool) {
    let headers = secrets();
    let mut headers: Vec<_> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
    let body = json!({
        "model": model, "prompt": CANARY, "input": CANARY,
        "messages": [{"role": "user", "content": CANARY}],
    });
    let (body, target) = (body.to_string(), format!("{path}?key={CANARY}"));
    if plain {
        http(port, "POST", &target, &headers, body.as_bytes());
        return;
    }
    headers.push(("Transfer-Encoding", "chunked"));
    let mut client = Client::connect(port);
    client.start("POST", &target, &headers);
    client.write(format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()));
    client.answer();
}

#[test]
fn secrets_are_in_no_span_and_no_metric() {
    let answer = json!({
        "message": {"content": CANARY}, "prompt_eval_count": 1, "eval_count": 1, "model": CANARY,
    });
    let refusal = json!({"error": {"message": CANARY}});
    let engines = [
        ollama(&["good"], Reply::json(200, &answer)),
        // Tried before the good one.
        ollama(&["good"], Reply::json(503, &refusal)),
        ollama(&["wrong"], Reply::json(400, &refusal)),
        ollama(
            &["good"],
            Reply::raw(format!("HTTP/1.1 2{CANARY}\r\n\r\n")).then(Step::Close),
        ),
        ollama(&["cut"], Reply::lines().chunk(CANARY).then(Step::Close)),
    ];
    let names = ["z", "a", "wrong", "b", "cut"];
    let nodes: Vec<_> = names
        .iter()
        .zip(&engines)
        .map(|(n, e)| (*n, e.port()))
        .collect();
    for form in ["http/json", "http/protobuf"] {
        let (collector, world, admin) = (Collector::start(), World::new(), free_port());
        let more = telemetry(&collector, &format!("protocol = \"{form}\""));
        let more = format!("{more}[admin]\nlisten = \"127.0.0.1:{admin}\"\n");
        let path = world.file(
            "n.toml",
            &format!("policy = \"ordered\"\n{}", config(&more, &nodes)),
        );
        let daemon = Standalone::start(&world, &["--config", path.to_str().unwrap()]);
        let mut requests = 0;
        for model in ["good", "wrong", "cut", "unknown"] {
            for path in ["/api/chat", "/v1/embeddings", "/v1/messages"] {
                tell(daemon.port, path, model, true);
                tell(daemon.port, path, model, false);
                requests += 2;
            }
        }
        tell(daemon.port, &format!("/{CANARY}"), "good", true);
        http(daemon.port, CANARY, "/api/chat", &[], b"");
        http(daemon.port, "GET", "/api/tags", &[("Host", CANARY)], b"");
        requests += 3;
        ask_until("every request as a span", || {
            let spans = collector.spans();
            (spans.iter().filter(|s| s.is_request()).count() >= requests).then_some(())
        });
        let readings = || collector.engine.requests_for("/otlp/v1/metrics").len();
        let before = readings();
        ask_until("a reading of all of it", || {
            (readings() > before).then_some(())
        });
        let canary = CANARY.to_lowercase();
        for request in collector.engine.requests() {
            let whole = [&request.head[..], &request.body[..]].concat();
            let text = String::from_utf8_lossy(&whole).to_lowercase();
            assert!(!text.contains(&canary), "{form}: {text}");
        }
        let metrics = get(admin, "/metrics").text().to_lowercase();
        assert!(metrics.contains("nvpair_proxy_requests_total"), "{metrics}");
        assert!(!metrics.contains(&canary), "{metrics}");
        let log = daemon.process.log.text().to_lowercase();
        assert!(!log.contains(&canary), "{log}");
    }
}
