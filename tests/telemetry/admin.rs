//! The admin listener.

use std::net::TcpStream;

use crate::support::client::{Client, Response, get, http, post};
use crate::support::daemon::World;
use crate::support::engine::{Gate, Reply};
use crate::support::{ask_until, free_port};
use crate::{chat, config, counted, ollama, serve};

fn admin(port: u16) -> String {
    format!("[admin]\nlisten = \"127.0.0.1:{port}\"\n")
}

fn is(response: &Response, status: u16, text: &str) {
    assert_eq!((response.status, response.text().as_str()), (status, text));
}

#[test]
fn it_tells_how_the_daemon_is_and_nothing_else() {
    let engine = ollama(&["m"], counted());
    let (world, port) = (World::new(), free_port());
    let (daemon, _) = serve(&world, &admin(port), &[("n", engine.port())]);
    is(&get(port, "/livez"), 200, "ok\n");
    is(&get(port, "/readyz"), 200, "ok\n");
    let other = get(port, "/metrics/x");
    assert_eq!(other.status, 404);
    let posted = http(port, "POST", "/metrics", &[], b"x");
    assert_eq!(
        (posted.status, posted.header("allow")),
        (405, Some("GET, HEAD"))
    );
    let mut head = Client::connect(port);
    head.send("HEAD", "/metrics", &[], b"");
    let head = head.head();
    assert_eq!(head.status, 200);
    assert_eq!(
        head.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    // A web page that made its name point here.
    assert_eq!(
        http(port, "GET", "/metrics", &[("Host", "evil.example")], b"").status,
        403
    );
    let status = world.json(&["status"]);
    assert_eq!(status["telemetry"]["admin"], format!("127.0.0.1:{port}"));
    let shown = world.run(&["status"]).out;
    assert!(
        shown.contains(&format!("Telemetry: http://127.0.0.1:{port}/metrics.")),
        "{shown}"
    );
    drop(daemon);
}

#[test]
fn metrics_are_there_without_a_collector() {
    let engine = ollama(&["m"], counted());
    let (world, port) = (World::new(), free_port());
    let (daemon, _) = serve(&world, &admin(port), &[("n", engine.port())]);
    for _ in 0..3 {
        assert_eq!(post(daemon.port, "/api/chat", &chat("m")).status, 200);
    }
    let of =
        "gen_ai_operation_name=\"chat\",gen_ai_provider_name=\"ollama\",gen_ai_request_model=\"m\"";
    let wanted = [
        "# TYPE nvpair_proxy_requests_total counter".to_owned(),
        "nvpair_proxy_requests_total{engine=\"ollama\",state=\"completed\"} 3".to_owned(),
        "nvpair_proxy_attempts_total{engine=\"ollama\",outcome=\"answered\"} 3".to_owned(),
        "nvpair_proxy_requests_in_flight{engine=\"ollama\"} 0".to_owned(),
        "nvpair_proxy_nodes{engine=\"ollama\",state=\"healthy\"} 1".to_owned(),
        "nvpair_proxy_nodes{engine=\"ollama\",state=\"unreachable\"} 0".to_owned(),
        "nvpair_proxy_workloads{state=\"running\"} 0".to_owned(),
        "nvpair_proxy_telemetry_dropped_total 0".to_owned(),
        "nvpair_proxy_journal_lost_total 0".to_owned(),
        format!("gen_ai_client_operation_duration_seconds_count{{{of}}} 3"),
        format!("gen_ai_client_operation_duration_seconds_bucket{{{of},le=\"+Inf\"}} 3"),
        format!("gen_ai_client_token_usage_sum{{{of},gen_ai_token_type=\"input\"}} 33"),
        format!("gen_ai_client_token_usage_sum{{{of},gen_ai_token_type=\"output\"}} 21"),
        format!("gen_ai_server_time_to_first_token_seconds_count{{{of}}} 3"),
    ];
    // A request is counted when it has ended, which may be after its answer was read.
    ask_until("all of it", || {
        let text = get(port, "/metrics").text();
        let has = |line: &String| text.lines().any(|l| l == line);
        wanted.iter().all(has).then_some(())
    });
    // Without a collector no trace is anybody's business.
    let asked = engine.requests_for("/api/chat");
    assert!(asked.iter().all(|r| r.header("traceparent").is_none()));
}

#[test]
fn it_is_not_ready_while_it_drains_and_still_alive() {
    let gate = Gate::new();
    let engine = ollama(
        &["m"],
        Reply::lines().chunk("1").gate(&gate).chunk("2").end(),
    );
    let (world, port) = (World::new(), free_port());
    let (mut daemon, _) = serve(&world, &admin(port), &[("n", engine.port())]);
    let mut client = Client::connect(daemon.port);
    client.post("/api/chat", &chat("m"));
    let mut answer = client.head();
    assert!(client.read_until(&mut answer, "1"));
    daemon.process.terminate();
    ask_until("not ready", || {
        (get(port, "/readyz").status == 503).then_some(())
    });
    is(&get(port, "/readyz"), 503, "draining\n");
    is(&get(port, "/livez"), 200, "ok\n");
    assert!(
        get(port, "/metrics")
            .text()
            .contains("nvpair_proxy_workloads{state=\"running\"} 1")
    );
    gate.open();
    assert!(client.finish(answer).complete);
    assert_eq!(daemon.process.exit_code(), 0);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn connections_and_heads_are_bounded() {
    let engine = ollama(&["m"], counted());
    let (world, port) = (World::new(), free_port());
    let (daemon, _) = serve(&world, &admin(port), &[("n", engine.port())]);
    let long = "x".repeat(20_000);
    let told = http(port, "GET", "/livez", &[("X-Long", &long)], b"");
    assert_eq!(told.status, 431);
    let held: Vec<_> = (0..32)
        .map(|_| {
            let mut client = Client::connect(port);
            client.send("GET", "/livez", &[], b"");
            assert_eq!(client.answer().status, 200);
            client
        })
        .collect();
    let mut more = Client::connect(port);
    // It may be closed before this is written.
    drop(more.try_write(b"GET /livez HTTP/1.0\r\n\r\n"));
    assert_eq!(more.rest().unwrap(), b"", "closed without a word");
    drop(held);
    ask_until("room again", || {
        let mut client = Client::connect(port);
        client.try_write(b"GET /livez HTTP/1.0\r\n\r\n").ok()?;
        client
            .rest()
            .ok()
            .filter(|r| r.starts_with(b"HTTP/1.0 200"))
            .map(drop)
    });
    drop(daemon);
}

#[test]
fn a_port_that_is_taken_is_an_error_at_the_start() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let world = World::new();
    let path = world.file("nvpair.toml", &config(&admin(port), &[]));
    let own = format!("ollama={}", free_port());
    let args = [
        "serve",
        "--engine",
        &own,
        "--config",
        path.to_str().unwrap(),
    ];
    let said = world.run(&args);
    assert_ne!(said.code, 0);
    assert!(
        said.err.contains("admin listener") && said.err.contains("`listen` in [admin]"),
        "{said:?}"
    );
}
