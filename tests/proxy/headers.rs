//! Header fields both ways, and the forms of a request (data plane 7).

use serde_json::json;

use crate::support::broker::Broker;
use crate::support::client::{Client, get, http};
use crate::support::engine::{Engine, Reply, Request, Step};

fn over(engine: &Engine) -> (Broker, u16) {
    Broker::over(&[engine])
}

/// The header lines of a request as the engine got them.
fn lines(request: &Request) -> Vec<String> {
    let text = String::from_utf8(request.head.clone()).unwrap();
    text.lines()
        .skip(1)
        .filter(|l| !l.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn hop_by_hop_fields_stay_on_their_connection() {
    let engine = Engine::serving("ok");
    let (_broker, port) = over(&engine);
    let headers = [
        ("Connection", "keep-alive, X-Private"),
        ("Connection", "x-also"),
        ("X-Private", "1"),
        ("X-Also", "2"),
        ("Keep-Alive", "timeout=5"),
        ("Proxy-Connection", "keep-alive"),
        ("Proxy-Authorization", "Basic eA=="),
        ("Proxy-Authenticate", "Basic"),
        ("TE", "gzip, deflate"),
        ("X-Kept", "3"),
    ];
    assert_eq!(
        http(port, "GET", "/api/version", &headers, b"").text(),
        "ok"
    );
    let got = engine.only();
    for name in [
        "Connection",
        "X-Private",
        "X-Also",
        "Keep-Alive",
        "Proxy-Connection",
        "Proxy-Authorization",
        "Proxy-Authenticate",
        "TE",
    ] {
        assert_eq!(got.header(name), None, "{name}");
    }
    assert_eq!(got.header("X-Kept"), Some("3"));
}

#[test]
fn te_stays_where_it_asks_for_trailers() {
    let engine = Engine::serving("ok");
    let (_broker, port) = over(&engine);
    http(port, "GET", "/x", &[("TE", "deflate, trailers")], b"");
    assert_eq!(engine.only().header("TE"), Some("trailers"));
}

#[test]
fn the_host_names_the_target_and_the_client_is_appended_to_x_forwarded_for() {
    let engine = Engine::serving("ok");
    let (_broker, port) = over(&engine);
    get(port, "/x");
    let before = [
        ("X-Forwarded-For", "10.0.0.1, 10.0.0.2"),
        ("X-Forwarded-For", "10.0.0.3"),
        ("X-Forwarded-Proto", "https"),
        ("Forwarded", "for=10.0.0.1"),
    ];
    http(port, "GET", "/y", &before, b"");
    let [first, second] = &engine.requests()[..] else {
        panic!("two requests")
    };
    let host = format!("127.0.0.1:{}", engine.port());
    assert_eq!(first.headers_of("Host"), [host.as_str()]);
    assert_eq!(first.headers_of("X-Forwarded-For"), ["127.0.0.1"]);
    let chain = second.headers_of("X-Forwarded-For").join(", ");
    assert_eq!(chain, "10.0.0.1, 10.0.0.2, 10.0.0.3, 127.0.0.1");
    assert_eq!(second.header("X-Forwarded-Proto"), Some("https"));
    assert_eq!(second.header("Forwarded"), Some("for=10.0.0.1"));
}

#[test]
fn case_values_and_the_order_of_repeats_are_kept_towards_the_engine() {
    let engine = Engine::serving("ok");
    let (_broker, port) = over(&engine);
    let headers = [
        ("x-LOWER-Upper", "a"),
        ("X-Repeat", "1"),
        ("X-Empty", ""),
        ("x-repeat", "2"),
        ("X-Repeat", "3, 3"),
        ("Authorization", "Bearer k"),
        ("Cookie", "a=b; c=d"),
        ("Origin", "http://app.test"),
    ];
    http(port, "GET", "/x", &headers, b"");
    let got = engine.only();
    let lines = lines(&got);
    for (name, value) in headers {
        let line = format!("{name}: {value}");
        assert!(
            lines.iter().any(|l| l.trim_end() == line.trim_end()),
            "{line} in {lines:?}"
        );
    }
    assert_eq!(got.headers_of("X-Repeat"), ["1", "2", "3, 3"]);
    for added in ["User-Agent", "Accept", "Accept-Encoding", "Via", "Date"] {
        assert_eq!(got.header(added), None, "{added}");
    }
}

#[test]
fn an_answers_headers_are_the_engines_in_case_value_and_order_and_none_is_added() {
    let headers = [
        ("x-MiXed", "1"),
        ("Set-Cookie", "a=1"),
        ("Server", "sample"),
        ("Set-Cookie", "b=2"),
        ("Connection", "X-Hop"),
        ("X-Hop", "gone"),
        ("Keep-Alive", "timeout=5"),
    ];
    let engine = Engine::always(Reply::with(200, &headers, "ok"));
    let (_broker, port) = over(&engine);
    for (method, target) in [("GET", "/x"), ("POST", "/api/chat")] {
        let answer = http(port, method, target, &[], br#"{"model":"m"}"#);
        // Repeats keep their order; where they stand among others means nothing.
        let (repeats, others): (Vec<_>, Vec<_>) =
            answer.names().into_iter().partition(|n| *n == "Set-Cookie");
        assert_eq!(
            (repeats.len(), &others[..]),
            (2, &["x-MiXed", "Server", "Content-Length"][..])
        );
        assert_eq!(answer.headers_of("Set-Cookie"), ["a=1", "b=2"]);
    }
}

#[test]
fn an_absolute_target_is_sent_on_in_origin_form() {
    let engine = Engine::serving("ok");
    let (_broker, port) = over(&engine);
    let target = format!("http://localhost:{port}/api/version?a=1");
    assert_eq!(get(port, &target).text(), "ok");
    assert_eq!(engine.only().target, "/api/version?a=1");
    let foreign = get(port, "http://example.com/api/version");
    assert_eq!(foreign.status, 403);
    assert_eq!(engine.hits(), 1);
}

#[test]
fn the_path_and_the_query_are_kept_raw() {
    let engine = Engine::serving("ok");
    let (_broker, port) = over(&engine);
    for target in ["/a%2Fb/../c//d?x=%20+&y", "/?", "/%7Euser;p=1?q=a/b?c"] {
        get(port, target);
        assert_eq!(engine.requests().last().unwrap().target, target);
    }
}

#[test]
fn an_http_1_0_client_is_served_without_chunks() {
    let engine = Engine::always(Reply::lines().chunk("one").chunk("two").end());
    let (_broker, port) = over(&engine);
    let mut client = Client::connect(port);
    client.write("GET /api/version HTTP/1.0\r\n\r\n");
    let answer = client.answer();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("Transfer-Encoding"), None);
    assert_eq!(answer.text(), "onetwo");
    assert_eq!(engine.only().version, "HTTP/1.1");
}

#[test]
fn an_http_1_0_engine_is_read_to_its_end() {
    let raw = "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nuntil the end";
    let engine = Engine::always(Reply::raw(raw).then(Step::Close));
    let (_broker, port) = over(&engine);
    let answer = get(port, "/x");
    assert_eq!(answer.version, "HTTP/1.1");
    assert!(answer.complete);
    assert_eq!(answer.text(), "until the end");
}

#[test]
fn head_gets_the_engines_headers_and_no_body() {
    let raw = "HTTP/1.1 200 OK\r\nContent-Length: 42\r\nX-A: b\r\n\r\n";
    let engine = Engine::always(Reply::raw(raw));
    let (_broker, port) = over(&engine);
    let mut client = Client::connect(port);
    for n in 1..=2 {
        // Twice on one connection: a body would spoil the second answer.
        client.start("HEAD", "/api/tags", &[]);
        let answer = client.answer();
        assert_eq!(answer.header("Content-Length"), Some("42"));
        assert_eq!(answer.header("X-A"), Some("b"));
        assert_eq!(engine.hits(), n);
    }
    assert_eq!(engine.requests()[0].method, "HEAD");
}

#[test]
fn trailers_of_an_answer_reach_a_client_that_takes_them() {
    let raw = "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n\
               2\r\nok\r\n0\r\nX-Sum: 9\r\n\r\n";
    let engine = Engine::always(Reply::raw(raw));
    let (_broker, port) = over(&engine);
    let answer = http(port, "GET", "/x", &[("TE", "trailers")], b"");
    assert_eq!(answer.text(), "ok");
    assert_eq!(answer.trailers.len(), 1, "{answer:?}");
    assert!(answer.trailers[0].0.eq_ignore_ascii_case("x-sum"));
}

#[test]
fn an_upgrade_passes_both_ways() {
    let raw = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
    let engine = Engine::always(Reply::raw(raw).then(Step::Echo));
    let (broker, port) = over(&engine);
    let mut client = Client::connect(port);
    client.start(
        "GET",
        "/socket",
        &[("Connection", "Upgrade"), ("Upgrade", "echo")],
    );
    let answer = client.head();
    assert_eq!(answer.status, 101);
    assert_eq!(answer.header("Upgrade"), Some("echo"));
    for text in ["hello", "again"] {
        client.write(text);
        assert_eq!(client.bytes(text.len()), text.as_bytes());
    }
    let got = engine.only();
    assert_eq!(got.header("Upgrade"), Some("echo"));
    drop(client);
    broker.expect("ollama:proxy/request", |p| p["status"] == 101);
}

#[test]
fn an_upgrade_that_the_engine_declines_is_an_ordinary_answer() {
    let engine = Engine::serving("plain");
    let (_broker, port) = over(&engine);
    let headers = [("Connection", "Upgrade"), ("Upgrade", "h2c")];
    let answer = http(port, "GET", "/socket", &headers, b"");
    assert_eq!(answer.text(), "plain");
}

#[test]
fn interim_answers_of_an_engine_do_not_disturb_the_final_one() {
    let raw = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n\
               HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let engine = Engine::always(Reply::raw(raw));
    let (_broker, port) = over(&engine);
    assert_eq!(get(port, "/x").text(), "ok");
}

#[test]
fn requests_share_a_connection_on_both_sides() {
    let engine = Engine::serving("ok");
    let (_broker, port) = over(&engine);
    let mut client = Client::connect(port);
    for _ in 0..5 {
        client.post("/api/chat", &json!({"model": "m"}));
        assert_eq!(client.answer().text(), "ok");
    }
    let used: Vec<_> = engine.requests().iter().map(|r| r.connection).collect();
    assert_eq!(used, [0; 5]);
}

#[test]
fn a_pooled_connection_that_died_costs_no_attempt() {
    let engine = Engine::always(Reply::lines().chunk("ok").end());
    let (broker, port) = over(&engine);
    assert_eq!(get(port, "/x").text(), "ok");
    // It hangs up in silence: the next request finds a dead connection.
    engine.cut();
    let answer = crate::support::client::post(port, "/api/chat", &json!({"model": "m"}));
    assert_eq!(answer.text(), "ok");
    assert_eq!(
        broker.story("2"),
        [
            "submitted queued -",
            "submitted queued n0",
            "started running n0",
            "completed completed n0",
        ]
    );
}
