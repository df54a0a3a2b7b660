//! Who is let in, and what becomes of those who do not speak HTTP (spec §7, product section 10).

use std::net::TcpStream;

use serde_json::json;

use crate::support::broker::Broker;
use crate::support::client::{Client, Response, get, http, post};
use crate::support::engine::{Engine, chunk};
use crate::support::own_address;

fn host(port: u16, name: &str) -> Response {
    http(port, "GET", "/api/version", &[("Host", name)], b"")
}

/// A refusal at the door: flat, with a code, on any path.
#[track_caller]
fn is_refused(answer: &Response, status: u16, code: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    let body = answer.json();
    assert_eq!(body["code"], code);
    assert!(body["error"].is_string(), "{body}");
    let cors = |n: &&str| n.to_lowercase().starts_with("access-control");
    assert!(!answer.names().iter().any(cors));
}

#[test]
fn only_names_of_this_machine_are_taken_as_host() {
    let engine = Engine::serving("ok");
    let (_broker, port) = Broker::over(&[&engine]);
    for name in [
        "localhost",
        "LOCALHOST:1",
        "127.0.0.1",
        "127.1.2.3:99",
        "[::1]:80",
        "app.localhost",
        "host.docker.internal:11434",
    ] {
        assert_eq!(host(port, name).text(), "ok", "{name}");
    }
    let hits = engine.hits();
    for name in [
        "example.com",
        "localhost.example.com",
        "127.0.0.1.example.com",
        "192.168.1.4",
        "localhost@example.com",
        "internal",
        "[::2]",
    ] {
        is_refused(&host(port, name), 403, "host-not-allowed");
    }
    assert_eq!(engine.hits(), hits);
}

#[test]
fn further_hosts_come_from_the_environment() {
    let engine = Engine::serving("ok");
    let env = [("NVPAIR_PROXY_ALLOWED_HOSTS", "proxy.lan, Other.lan")];
    let broker = Broker::with_env(&[], &env);
    let port = broker.enable("ollama");
    broker.join("ollama", &[&engine]);
    assert_eq!(host(port, "proxy.lan:1").text(), "ok");
    assert_eq!(host(port, "OTHER.lan").text(), "ok");
    is_refused(&host(port, "third.lan"), 403, "host-not-allowed");
}

#[test]
fn an_http_1_1_request_needs_exactly_one_host() {
    let engine = Engine::serving("ok");
    let (_broker, port) = Broker::over(&[&engine]);
    for request in [
        "GET /x HTTP/1.1\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
    ] {
        let mut client = Client::connect(port);
        client.write(request);
        is_refused(&client.answer(), 400, "bad-host");
    }
    assert_eq!(engine.hits(), 0);
}

#[test]
fn an_identity_probe_learns_that_we_are_no_engine() {
    let engine = Engine::serving("ok");
    let broker = Broker::start();
    for facade in ["ollama", "lmstudio", "llamacpp"] {
        let port = broker.enable(facade);
        broker.join(facade, &[&engine]);
        let probe = [("X-NVPAIR-Engine-Identity-Probe", "1")];
        for (method, path) in [
            ("GET", "/"),
            ("GET", "/v1/models"),
            ("POST", "/v1/completions"),
        ] {
            let answer = http(port, method, path, &probe, b"");
            is_refused(&answer, 409, "proxy-facade");
        }
        let other = [("X-NVPAIR-Engine-Identity-Probe", "0")];
        assert_eq!(http(port, "GET", "/", &other, b"").text(), "ok");
    }
}

#[test]
fn a_list_of_origins_admits_only_those() {
    let engine = Engine::serving("ok");
    let env = [("NVPAIR_PROXY_ALLOWED_ORIGINS", "http://app.test,null")];
    let broker = Broker::with_env(&[], &env);
    let port = broker.enable("ollama");
    broker.join("ollama", &[&engine]);
    let from = |origin: &str| http(port, "GET", "/x", &[("Origin", origin)], b"");
    assert_eq!(from("http://app.test").text(), "ok");
    assert_eq!(from("null").text(), "ok");
    assert_eq!(get(port, "/x").text(), "ok", "without an origin");
    for origin in [
        "http://app.test:80",
        "https://app.test",
        "http://APP.test",
        "http://evil.test",
    ] {
        is_refused(&from(origin), 403, "origin-not-allowed");
    }
    let preflight = [
        ("Origin", "http://evil.test"),
        ("Access-Control-Request-Method", "POST"),
    ];
    let answer = http(port, "OPTIONS", "/api/chat", &preflight, b"");
    is_refused(&answer, 403, "origin-not-allowed");
}

#[test]
fn the_checks_come_in_their_order() {
    let broker = Broker::with_env(&[], &[("NVPAIR_PROXY_ALLOWED_ORIGINS", "http://app.test")]);
    let port = broker.enable("ollama");
    let probe = ("X-NVPAIR-Engine-Identity-Probe", "1");
    let origin = ("Origin", "http://evil.test");
    let all = [("Host", "evil.test"), probe, origin];
    is_refused(&http(port, "GET", "/", &all, b""), 403, "host-not-allowed");
    is_refused(&http(port, "GET", "/", &all[1..], b""), 409, "proxy-facade");
    is_refused(
        &http(port, "GET", "/", &all[2..], b""),
        403,
        "origin-not-allowed",
    );
}

#[test]
fn a_caller_that_is_not_on_loopback_is_refused() {
    // A machine without a network has no such caller.
    let Some(own) = own_address() else { return };
    let (_broker, port) = Broker::with_facade("ollama");
    let stream = TcpStream::connect((own, port)).unwrap();
    let mut client = Client::of(stream, port);
    client.start("GET", "/api/tags", &[]);
    is_refused(&client.answer(), 403, "loopback-only");
}

#[test]
fn a_tls_greeting_is_closed_without_a_word_and_the_facade_serves_on() {
    let engine = Engine::serving("ok");
    let (_broker, port) = Broker::over(&[&engine]);
    let mut client = Client::connect(port);
    client.write(b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03");
    assert_eq!(client.rest().unwrap(), b"");
    assert_eq!(get(port, "/x").text(), "ok");
}

#[test]
fn a_silent_connection_is_closed_and_keeps_nobody_waiting() {
    let engine = Engine::serving("ok");
    let (_broker, port) = Broker::over(&[&engine]);
    let mut silent: Vec<_> = (0..50).map(|_| Client::connect(port)).collect();
    assert_eq!(get(port, "/x").text(), "ok");
    for client in &mut silent {
        assert_eq!(client.rest().unwrap(), b"");
    }
}

#[test]
fn what_is_not_http_gets_a_400_or_a_closed_connection() {
    let engine = Engine::serving("ok");
    let (_broker, port) = Broker::over(&[&engine]);
    for garbage in [
        &b"\x00\x01\x02\x03\r\n\r\n"[..],
        b"hello\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /x HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /x HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n",
        b"GET /x HTTP/1.1\r\nHost: localhost\r\nBad Name: 1\r\n\r\n",
        b"GET /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.9\r\n\r\n",
    ] {
        let mut client = Client::connect(port);
        client.write(garbage);
        let answer = String::from_utf8(client.rest().unwrap()).unwrap();
        let shown = String::from_utf8_lossy(garbage);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 400 "),
            "{shown:?}: {answer}"
        );
        assert_eq!(get(port, "/y").text(), "ok");
    }
    assert!(engine.requests_for("/x").is_empty());
}

#[test]
fn a_head_that_is_too_large_is_a_431() {
    let (_broker, port) = Broker::with_facade("ollama");
    let mut client = Client::connect(port);
    client.write("GET /x HTTP/1.1\r\nHost: localhost\r\nX-Big: ");
    // The answer may come before all of it is taken.
    while client.try_write(&[b'x'; 100_000]).is_ok() {
        if client.has_answer() {
            break;
        }
    }
    assert_eq!(client.head().status, 431);
}

#[test]
fn half_a_request_reaches_no_engine_and_its_connection_ends_with_the_client() {
    let engine = Engine::serving("ok");
    let (broker, port) = Broker::over(&[&engine]);
    for half in [
        "GET /x HT",
        "GET /x HTTP/1.1\r\nHost: localhost\r\n",
        "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{\"model\":",
        "POST /api/pull HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    ] {
        let mut client = Client::connect(port);
        client.write(half);
        client.half_close();
        // Whatever is said, it is said at once, and then the connection is closed.
        let said = String::from_utf8(client.rest().unwrap()).unwrap();
        assert!(
            said.is_empty() || said.starts_with("HTTP/1.1 400 "),
            "{half:?}: {said}"
        );
    }
    assert_eq!(engine.hits(), 0);
    assert_eq!(get(port, "/y").text(), "ok");
    assert!(broker.workloads().is_empty());
}

#[test]
fn two_framings_of_one_body_never_reach_an_engine_both() {
    let engine = Engine::serving("ok");
    let (_broker, port) = Broker::over(&[&engine]);
    let mut client = Client::connect(port);
    let both = [("Transfer-Encoding", "chunked"), ("Content-Length", "4")];
    client.start("POST", "/x", &both);
    client.write(chunk("0123456789"));
    client.write("0\r\n\r\n");
    if client.try_head().is_some_and(|answer| answer.status == 200) {
        let got = engine.only();
        assert!(
            got.chunked && got.header("Content-Length").is_none(),
            "{got:?}"
        );
        assert_eq!(got.body, b"0123456789");
    } else {
        assert_eq!(engine.hits(), 0);
    }
}

#[test]
fn odd_methods_and_targets_get_a_clear_answer() {
    let engine = Engine::serving("ok");
    let (_broker, port) = Broker::over(&[&engine]);
    for (method, target) in [
        ("BREW", "/pot"),
        ("OPTIONS", "*"),
        ("CONNECT", "localhost:1"),
        ("TRACE", "/x"),
        ("DELETE", "/api/delete"),
    ] {
        let mut client = Client::connect(port);
        client.start(method, target, &[("Host", "localhost")]);
        let answer = client.try_head();
        assert!(answer.is_some_and(|a| a.status >= 200), "{method} {target}");
        assert_eq!(post(port, "/api/chat", &json!({"model": "m"})).text(), "ok");
    }
    let brewed = engine.requests_for("/pot");
    assert_eq!(brewed[0].method, "BREW");
}

#[test]
fn requests_written_in_one_go_are_answered_in_their_order() {
    let engine = Engine::start(|r| crate::support::engine::Reply::with(200, &[], &r.target));
    let (_broker, port) = Broker::over(&[&engine]);
    let mut client = Client::connect(port);
    client.write(
        "GET /1 HTTP/1.1\r\nHost: localhost\r\n\r\nGET /2 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    );
    assert_eq!(client.answer().text(), "/1");
    assert_eq!(client.answer().text(), "/2");
}
