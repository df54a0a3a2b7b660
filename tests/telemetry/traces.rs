//! Spans of requests and attempts.

use serde_json::{Value, json};

use crate::collector::{Collector, Span, only};
use crate::support::broker::Broker;
use crate::support::certs::{ClusterFolder, Identity};
use crate::support::client::{Client, get, http, post};
use crate::support::daemon::{Standalone, World};
use crate::support::engine::{Engine, Gate, Reply, Step};
use crate::support::wait_for;
use crate::{SPAN, TRACE, caller, chat, config, counted, ollama, serve, telemetry};

#[test]
fn one_request_is_one_trace_from_the_client_over_two_daemons_to_the_engine() {
    let collector = Collector::start();
    let engine = ollama(&["m"], counted());
    let back = World::new();
    let more = telemetry(
        &collector,
        "service_name = \"back\"\nprotocol = \"http/protobuf\"",
    );
    let (inner, _) = serve(&back, &more, &[("engine", engine.port())]);
    let more = telemetry(&collector, "service_name = \"front\"");
    let path = back.file("front.toml", &more);
    // A broker tells of the other daemon as of a node; a probe would not take it for one.
    let outer = Broker::with(&["--config", path.to_str().unwrap()]);
    let port = outer.enable("ollama");
    outer.node("ollama", "back", inner.port, &["m"]);
    let from = caller(true);
    let headers = [("traceparent", from.as_str()), ("tracestate", "a=1,b=2")];
    let body = chat("m").to_string();
    let answer = http(port, "POST", "/api/chat", &headers, body.as_bytes());
    assert_eq!(answer.status, 200);

    let asked = |s: &Span| s.says("gen_ai.request.model").as_deref() == Some("m");
    let spans: Vec<_> = wait_spans(&collector, 4, asked);
    let of = |service: &str, request: bool| {
        only(&spans, |s| {
            s.service == service && s.is_request() == request
        })
    };
    let chain = [
        of("front", true),
        of("front", false),
        of("back", true),
        of("back", false),
    ];
    let mut above = SPAN.to_owned();
    for span in &chain {
        assert_eq!(
            (span.trace().as_str(), span.parent()),
            (TRACE, above),
            "{span:#?}"
        );
        assert_eq!(span.raw.trace_state, "a=1,b=2");
        assert_eq!(span.raw.name, "chat m");
        assert!(!span.failed());
        span.is(&[
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.provider.name", "ollama"),
        ]);
        above = span.id();
    }
    // From outside in: each begins within the one above it. Its end may be told later.
    for pair in chain.windows(2) {
        let (outer, inner) = (&pair[0].raw, &pair[1].raw);
        let span = outer.start_time_unix_nano..=outer.end_time_unix_nano;
        assert!(span.contains(&inner.start_time_unix_nano), "{pair:#?}");
        assert!(
            inner.start_time_unix_nano <= inner.end_time_unix_nano,
            "{pair:#?}"
        );
    }
    chain[0].is(&[
        ("http.request.method", "POST"),
        ("http.route", "/api/chat"),
        ("http.response.status_code", "200"),
        ("gen_ai.usage.input_tokens", "11"),
        ("gen_ai.usage.output_tokens", "7"),
        ("nvpair.engine", "ollama"),
        ("nvpair.state", "completed"),
        ("nvpair.attempts", "1"),
    ]);
    chain[1].is(&[
        ("nvpair.node.id", "back"),
        ("nvpair.outcome", "answered"),
        ("server.address", "127.0.0.1"),
        ("server.port", &inner.port.to_string()),
    ]);
    let last = engine.requests_for("/api/chat").remove(0);
    let told = format!("00-{TRACE}-{above}-01");
    assert_eq!(last.headers_of("traceparent"), [told.as_str()]);
    assert_eq!(last.headers_of("tracestate"), ["a=1,b=2"]);
}

#[test]
fn a_request_that_goes_to_a_peer_is_one_trace_too() {
    let collector = Collector::start();
    let engine = Engine::always(counted());
    let ids = [Identity::new("node-a"), Identity::new("node-b")];
    let folders = [
        ClusterFolder::of(&ids[0], &[&ids[1]]),
        ClusterFolder::of(&ids[1], &[&ids[0]]),
    ];
    let world = World::new();
    let start = |service: &str, folder: &ClusterFolder| {
        let more = telemetry(&collector, &format!("service_name = \"{service}\""));
        let config = world.file(&format!("{service}.toml"), &more);
        let (config, folder) = (config.to_str().unwrap(), folder.path().to_str().unwrap());
        let broker = Broker::with(&["--cluster-dir", folder, "--config", config]);
        let port = broker.enable("ollama");
        (broker, port)
    };
    let (a, a_port) = start("a", &folders[0]);
    let (b, b_port) = start("b", &folders[1]);
    let backend = json!({"engine": "ollama", "port": engine.port(), "healthy": true});
    b.request("ollama:node/set-local-backend", &backend);
    let node = json!({
        "hostUuid": ids[1].uuid, "name": "den", "ip": "127.0.0.1", "clusterUuid": ids[1].uuid,
        "services": {"ol": {"port": b_port}}, "models": ["m"],
    });
    a.notify("ollama:discovery:nodes", &json!({"nodes": [node]}));
    // What is asked later is answered later.
    drop(a.call("test/barrier", &json!({})));
    let from = caller(true);
    let headers = [("traceparent", from.as_str()), ("tracestate", "a=1")];
    let body = chat("m").to_string();
    assert_eq!(
        http(a_port, "POST", "/api/chat", &headers, body.as_bytes()).status,
        200
    );

    let spans = collector.expect(3);
    let of = |service: &str, request: bool| {
        only(&spans, |s| {
            s.service == service && s.is_request() == request
        })
    };
    let (request, attempt, visit) = (of("a", true), of("a", false), of("b", true));
    assert_eq!(
        (request.trace().as_str(), request.parent().as_str()),
        (TRACE, SPAN)
    );
    assert_eq!(attempt.parent(), request.id());
    assert_eq!(
        (visit.trace().as_str(), visit.parent()),
        (TRACE, attempt.id())
    );
    assert_eq!(visit.raw.name, "chat");
    visit.is(&[
        ("http.response.status_code", "200"),
        ("nvpair.state", "completed"),
    ]);
    let told = format!("00-{TRACE}-{}-01", visit.id());
    assert_eq!(engine.only().headers_of("traceparent"), [told.as_str()]);
    assert_eq!(engine.only().headers_of("tracestate"), ["a=1"]);
}

/// Waits for so many spans that are like this.
#[track_caller]
fn wait_spans(collector: &Collector, n: usize, like: impl Fn(&Span) -> bool) -> Vec<Span> {
    let mut found = Vec::new();
    wait_for("spans", || {
        found = collector.spans().into_iter().filter(|s| like(s)).collect();
        found.len() >= n
    });
    assert_eq!(found.len(), n, "{found:#?}");
    found
}

#[test]
fn on_the_gateway_whoever_ran_the_model_is_named_and_not_the_gateway() {
    let collector = Collector::start();
    let node = ollama(&["m"], counted());
    let service = Engine::always(Reply::json(200, &json!({"text": "x"})));
    let world = World::new();
    let more = format!(
        "[[providers]]\nname = \"far\"\nbase_url = \"http://localhost:{}/v1\"\n\
         models = [\"big\"]\n{}",
        service.port(),
        telemetry(&collector, "")
    );
    let path = world.file("nvpair.toml", &config(&more, &[("near", node.port())]));
    let daemon = Standalone::gateway(&world, &["--config", path.to_str().unwrap()]);
    for (model, provider) in [("m", "ollama"), ("big", "far")] {
        let answer = post(daemon.port, "/v1/chat/completions", &chat(model));
        assert_eq!(answer.status, 200, "{answer:?}");
        let asked = |s: &Span| s.says("gen_ai.request.model").as_deref() == Some(model);
        for span in wait_spans(&collector, 2, asked) {
            let says = [
                ("gen_ai.provider.name", provider),
                ("nvpair.engine", "gateway"),
            ];
            span.is(&says);
        }
        let labels = [
            ("gen_ai.provider.name", provider),
            ("gen_ai.request.model", model),
        ];
        collector.expect_point("gen_ai.client.operation.duration", &labels, 1);
    }
}

#[test]
fn every_attempt_is_a_span_below_its_request_on_both_lanes() {
    let collector = Collector::start();
    let (bad, good) = (
        ollama(&["m"], Reply::status(503)),
        ollama(&["m"], counted()),
    );
    let world = World::new();
    let more = format!("policy = \"ordered\"\n{}", nodes_first(&bad, &good));
    let path = world.file("n.toml", &format!("{more}{}", telemetry(&collector, "")));
    let daemon =
        crate::support::daemon::Standalone::start(&world, &["--config", path.to_str().unwrap()]);
    assert_eq!(post(daemon.port, "/api/chat", &chat("m")).status, 200);
    // A body in chunks goes through the HTTP library.
    let mut client = Client::connect(daemon.port);
    client.start("POST", "/api/chat", &[("Transfer-Encoding", "chunked")]);
    let body = chat("m").to_string();
    client.write(format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()));
    assert_eq!(client.answer().status, 200);

    let spans = collector.expect(6);
    let requests: Vec<_> = spans.iter().filter(|s| s.is_request()).collect();
    assert_eq!(requests.len(), 2);
    for request in requests {
        let below: Vec<_> = spans
            .iter()
            .filter(|s| s.parent() == request.id())
            .collect();
        assert_eq!(below.len(), 2, "{spans:#?}");
        assert!(below.iter().all(|s| s.trace() == request.trace()));
        let number = |n: &str| {
            let found = below
                .iter()
                .find(|s| s.says("nvpair.attempt").as_deref() == Some(n));
            (*found.unwrap()).clone()
        };
        let (first, second) = (number("1"), number("2"));
        first.is(&[
            ("nvpair.node.id", "a"),
            ("nvpair.outcome", "refused"),
            ("error.type", "503"),
            ("http.response.status_code", "503"),
        ]);
        assert!(first.failed() && !second.failed() && !request.failed());
        second.is(&[
            ("nvpair.node.id", "b"),
            ("nvpair.outcome", "answered"),
            ("http.request.resend_count", "1"),
            ("http.response.status_code", "200"),
        ]);
        request.is(&[("nvpair.attempts", "2"), ("nvpair.state", "completed")]);
        assert_eq!(request.parent(), "", "a trace of its own");
        // Each engine was told the span of its own attempt.
        let told = |engine: &Engine, span: &Span| {
            let header = format!("00-{}-{}-03", span.trace(), span.id());
            let asked = engine.requests_for("/api/chat");
            asked
                .iter()
                .any(|r| r.headers_of("traceparent") == [header.as_str()])
        };
        assert!(told(&bad, &first) && told(&good, &second));
    }
    assert_ne!(spans[0].trace(), "");
    let id = daemon_id(&world);
    let ids: Vec<_> = spans
        .iter()
        .filter_map(|s| s.says("nvpair.request.id"))
        .collect();
    assert!(
        ids.iter().all(|i| i.starts_with(&format!("{id}/ollama/"))),
        "{ids:?}"
    );
}

fn nodes_first(bad: &Engine, good: &Engine) -> String {
    crate::config("", &[("a", bad.port()), ("b", good.port())])
}

fn daemon_id(world: &World) -> String {
    let status: Value = world.json(&["status"]);
    status["daemon"]["run_id"].as_str().unwrap().to_owned()
}

#[test]
fn what_goes_wrong_is_said_in_a_word() {
    let collector = Collector::start();
    let world = World::new();
    let gate = Gate::new();
    let held = Reply::lines().chunk("1").gate(&gate).end();
    let broken = Reply::lines().chunk("1").then(Step::Close);
    let (cut, hang, wrong) = (
        ollama(&["cut"], broken),
        ollama(&["hang"], held),
        ollama(&["wrong"], Reply::status(400)),
    );
    let nodes = [
        ("cut", cut.port()),
        ("hang", hang.port()),
        ("wrong", wrong.port()),
    ];
    let (daemon, _) = serve(&world, &telemetry(&collector, ""), &nodes);
    post_cut(daemon.port);
    assert_eq!(post(daemon.port, "/api/chat", &chat("wrong")).status, 400);
    assert_eq!(post(daemon.port, "/api/chat", &chat("none")).status, 502);
    let mut leaving = Client::connect(daemon.port);
    leaving.post("/api/chat", &chat("hang"));
    let mut answer = leaving.head();
    assert!(leaving.read_until(&mut answer, "1"));
    leaving.reset();
    hang.was_left(1);

    let spans = collector.expect(7);
    let of = |model: &str, request: bool| {
        only(&spans, |s| {
            s.says("gen_ai.request.model").as_deref() == Some(model) && s.is_request() == request
        })
    };
    let cut = of("cut", true);
    cut.is(&[
        ("error.type", "stream_aborted"),
        ("http.response.status_code", "200"),
    ]);
    assert!(cut.failed());
    of("cut", false).is(&[("nvpair.outcome", "stream_aborted")]);
    let wrong = of("wrong", true);
    wrong.is(&[("error.type", "400"), ("nvpair.state", "failed")]);
    assert!(!wrong.failed(), "a 4xx is the caller's doing");
    assert!(
        of("wrong", false).failed(),
        "which is an error to whoever called"
    );
    let none = of("none", true);
    none.is(&[("error.type", "502"), ("nvpair.attempts", "0")]);
    assert!(none.failed());
    of("hang", true).is(&[
        ("error.type", "client_disconnected"),
        ("nvpair.state", "cancelled"),
    ]);
    of("hang", false).is(&[("nvpair.outcome", "cancelled")]);
    gate.open();
}

/// A chat whose answer breaks off.
fn post_cut(port: u16) {
    let mut client = Client::connect(port);
    client.post("/api/chat", &chat("cut"));
    let answer = client.answer();
    assert!(answer.status == 200 && !answer.complete);
}

#[test]
fn a_list_is_a_span_and_the_nodes_hear_of_it() {
    let collector = Collector::start();
    let engine = ollama(&["m"], counted());
    let world = World::new();
    let (daemon, _) = serve(&world, &telemetry(&collector, ""), &[("n", engine.port())]);
    let from = caller(true);
    let answer = http(
        daemon.port,
        "GET",
        "/api/tags?x=secret",
        &[("traceparent", &from)],
        b"",
    );
    assert_eq!(answer.status, 200);
    let span = collector.expect(1).remove(0);
    assert_eq!(
        (span.raw.name.as_str(), span.parent().as_str()),
        ("GET /api/tags", SPAN)
    );
    assert_eq!(span.says("gen_ai.operation.name"), None);
    let told = format!("00-{TRACE}-{}-01", span.id());
    let asked = engine.requests();
    let with: Vec<_> = asked
        .iter()
        .filter_map(|r| r.header("traceparent"))
        .collect();
    assert_eq!(with, [told.as_str()], "probes are no part of it");
}

#[test]
fn a_path_that_anybody_may_have_made_up_is_not_repeated() {
    let collector = Collector::start();
    let engine = ollama(&["m"], counted());
    let world = World::new();
    let (daemon, _) = serve(&world, &telemetry(&collector, ""), &[("n", engine.port())]);
    assert_eq!(get(daemon.port, "/api/show/whatever").status, 200);
    let spans = collector.expect(2);
    let request = only(&spans, Span::is_request);
    assert_eq!(request.raw.name, "GET");
    assert_eq!(request.says("http.route"), None);
    assert_eq!(only(&spans, |s| !s.is_request()).raw.name, "forward");
}

#[test]
fn headers_of_the_settings_go_with_every_document() {
    let collector = Collector::start();
    let engine = ollama(&["m"], counted());
    let world = World::new();
    let more = telemetry(
        &collector,
        "headers = { \"X-Key\" = \"k1\", \"content-type\" = \"no\" }",
    );
    let (daemon, _) = serve(&world, &more, &[("n", engine.port())]);
    post(daemon.port, "/api/chat", &chat("m"));
    collector.expect(2);
    collector.expect_point("nvpair_proxy.requests", &[("state", "completed")], 1);
    let all = collector.engine.requests();
    assert!(all.iter().all(|r| r.headers_of("x-key") == ["k1"]));
    assert!(
        all.iter()
            .all(|r| r.headers_of("content-type") == ["application/json"])
    );
    // As the standard has JSON: ids in hex, moments as text.
    let traces = collector.engine.requests_for("/otlp/v1/traces");
    let raw: Value = serde_json::from_slice(&traces[0].body).unwrap();
    let span = &raw["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    let id = span["traceId"].as_str().unwrap();
    assert!(
        id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()),
        "{id}"
    );
    assert!(
        span["startTimeUnixNano"]
            .as_str()
            .unwrap()
            .parse::<u64>()
            .is_ok()
    );
    daemon.process.log.expect("content-type");
    assert!(!daemon.process.log.text().contains("k1"));
    let shown = world.json(&["status"]);
    let endpoint = format!("http://127.0.0.1:{}/otlp", collector.port());
    assert_eq!(shown["telemetry"]["collector"], json!(endpoint));
}

#[test]
fn metrics_reach_the_collector_in_both_forms() {
    for form in ["http/json", "http/protobuf"] {
        let collector = Collector::start();
        let engine = ollama(&["m"], counted());
        let world = World::new();
        let more = telemetry(
            &collector,
            &format!("traces = false\nprotocol = \"{form}\""),
        );
        let (daemon, _) = serve(&world, &more, &[("n", engine.port())]);
        for _ in 0..3 {
            assert_eq!(post(daemon.port, "/api/chat", &chat("m")).status, 200);
        }
        let of = [
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.provider.name", "ollama"),
            ("gen_ai.request.model", "m"),
        ];
        collector.expect_point("gen_ai.client.operation.duration", &of, 3);
        collector.expect_point("gen_ai.server.time_to_first_token", &of, 3);
        let input = [of[2], ("gen_ai.token.type", "input")];
        collector.expect_point("gen_ai.client.token.usage", &input, 3);
        let ollama = ("engine", "ollama");
        collector.expect_point(
            "nvpair_proxy.requests",
            &[ollama, ("state", "completed")],
            3,
        );
        collector.expect_point(
            "nvpair_proxy.attempts",
            &[ollama, ("outcome", "answered")],
            3,
        );
        collector.expect_point("nvpair_proxy.nodes", &[ollama, ("state", "healthy")], 1);
        collector.expect_point("nvpair_proxy.requests.in_flight", &[ollama], 0);
        collector.expect_point("nvpair_proxy.telemetry.dropped", &[], 0);
        assert!(collector.spans().is_empty());
        // Without traces the caller's headers are nobody's business here.
        let headers = [("traceparent", "anything")];
        let body = chat("m").to_string();
        http(daemon.port, "POST", "/api/chat", &headers, body.as_bytes());
        let last = engine.requests_for("/api/chat").pop().unwrap();
        assert_eq!(last.headers_of("traceparent"), ["anything"]);
    }
}
