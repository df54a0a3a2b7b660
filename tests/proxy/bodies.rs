//! Request bodies: the limit, framing, the model's place in them (product section 4 and 10).

use serde_json::json;

use crate::support::broker::Broker;
use crate::support::client::{Client, Response, http, post};
use crate::support::engine::{Engine, Reply, chunk};

const LIMIT: usize = 10_000;

fn limited(engine: &Engine) -> (Broker, u16) {
    let broker = Broker::with(&["--max-request-bytes", "10000"]);
    let port = broker.enable("ollama");
    broker.join("ollama", &[engine]);
    (broker, port)
}

/// A request for model `m` of exactly this size.
fn of_size(size: usize) -> Vec<u8> {
    let frame = r#"{"model":"m","pad":""}"#.len();
    let body = format!(r#"{{"model":"m","pad":"{}"}}"#, "x".repeat(size - frame));
    assert_eq!(body.len(), size);
    body.into_bytes()
}

fn chunked(port: u16, target: &str, body: &[u8]) -> Response {
    let mut client = Client::connect(port);
    client.start("POST", target, &[("Transfer-Encoding", "chunked")]);
    for piece in body.chunks(4_000) {
        client.write(chunk(std::str::from_utf8(piece).unwrap()));
    }
    client.write("0\r\n\r\n");
    client.answer()
}

#[test]
fn a_body_exactly_at_the_limit_passes() {
    let engine = Engine::serving("ok");
    let (_broker, port) = limited(&engine);
    let body = of_size(LIMIT);
    assert_eq!(http(port, "POST", "/api/chat", &[], &body).text(), "ok");
    assert_eq!(chunked(port, "/api/chat", &body).text(), "ok");
    assert!(engine.requests().iter().all(|r| r.body == body));
}

#[test]
fn one_byte_over_the_limit_is_a_413_in_each_dialect_that_asks_no_engine() {
    let engine = Engine::serving("ok");
    let (broker, port) = limited(&engine);
    let body = of_size(LIMIT + 1);
    for target in ["/api/chat", "/v1/chat/completions", "/v1/messages"] {
        for answer in [
            http(port, "POST", target, &[], &body),
            chunked(port, target, &body),
        ] {
            assert_eq!(answer.status, 413, "{target}");
            let json = answer.json();
            let shape = match target {
                "/api/chat" => json["error"].is_string(),
                "/v1/messages" => {
                    json["type"] == "error" && json["error"]["type"] == "request_too_large"
                },
                _ => json["error"]["type"].is_string() && json["error"]["code"] == 413,
            };
            assert!(shape, "{target}: {json}");
            let text = answer.error_text();
            for part in ["10000", "--max-request-bytes", "max_request_bytes"] {
                assert!(text.contains(part), "{text}");
            }
        }
    }
    assert_eq!(engine.hits(), 0);
    assert!(broker.workloads().is_empty());
}

#[test]
fn a_413_arrives_while_the_client_still_sends() {
    let engine = Engine::serving("ok");
    let (_broker, port) = limited(&engine);
    let mut client = Client::connect(port);
    client.start("POST", "/api/chat", &[("Content-Length", "50000000")]);
    client.write(vec![b'x'; 1_000_000]);
    let answer = client.answer();
    assert_eq!(answer.status, 413);
    assert!(answer.complete);
    // What still comes is taken, not met with a reset.
    for _ in 0..49 {
        client.write(vec![b'x'; 1_000_000]);
    }
}

#[test]
fn a_client_that_reads_only_after_sending_all_still_sees_the_413() {
    let engine = Engine::serving("ok");
    let (_broker, port) = limited(&engine);
    let body = vec![b'x'; 20_000_000];
    assert_eq!(http(port, "POST", "/api/chat", &[], &body).status, 413);
    assert_eq!(engine.hits(), 0);
}

#[test]
fn another_route_over_the_limit_is_streamed_once_to_the_first_candidate() {
    let (first, second) = (Engine::always(Reply::status(503)), Engine::serving("ok"));
    let broker = Broker::with(&["--max-request-bytes", "10000"]);
    let port = broker.enable("ollama");
    broker.join("ollama", &[&first, &second]);
    let body = of_size(200_000);
    for answer in [
        http(port, "POST", "/api/blobs/sha256:1", &[], &body),
        chunked(port, "/api/blobs/sha256:1", &body),
    ] {
        assert_eq!(answer.status, 503);
        assert_eq!(answer.error_text(), "engine says 503");
    }
    assert_eq!(second.hits(), 0);
    let got = first.requests();
    assert_eq!(got.len(), 2);
    assert!(got.iter().all(|r| r.whole && r.body == body));
    assert_eq!((got[0].chunked, got[1].chunked), (false, true));
}

#[test]
fn another_route_within_the_limit_goes_on_to_the_next_candidate() {
    let (first, second) = (Engine::always(Reply::status(503)), Engine::serving("ok"));
    let broker = Broker::with(&["--max-request-bytes", "10000"]);
    let port = broker.enable("ollama");
    broker.join("ollama", &[&first, &second]);
    let body = of_size(LIMIT);
    let answer = http(port, "POST", "/api/blobs/sha256:1", &[], &body);
    assert_eq!(answer.text(), "ok");
    assert_eq!(second.only().body, body);
}

#[test]
fn framing_is_kept_chunked_stays_chunked_and_a_length_stays_a_length() {
    let engine = Engine::serving("ok");
    let (_broker, port) = Broker::over(&[&engine]);
    let body = br#"{"model":"m"}"#;
    chunked(port, "/api/chat", body);
    http(port, "POST", "/api/chat", &[], body);
    let got = engine.requests();
    assert!(got[0].chunked && got[0].header("Content-Length").is_none());
    assert!(!got[1].chunked);
    assert_eq!(got[1].header("Content-Length"), Some("13"));
    assert!(got.iter().all(|r| r.body == body));
}

#[test]
fn a_post_without_a_body_stays_without_one() {
    let engine = Engine::serving("ok");
    let (_broker, port) = Broker::over(&[&engine]);
    let mut client = Client::connect(port);
    client.start("POST", "/api/thing", &[("Content-Length", "0")]);
    assert_eq!(client.answer().text(), "ok");
    let got = engine.only();
    assert!(!got.chunked && got.body.is_empty());
    assert_eq!(got.header("Content-Length"), Some("0"));
}

#[test]
fn a_client_that_expects_100_continue_gets_it_and_the_engine_never_hears_of_it() {
    let engine = Engine::serving("ok");
    let (_broker, port) = Broker::over(&[&engine]);
    let mut client = Client::connect(port);
    let headers = [("Expect", "100-continue"), ("Content-Length", "13")];
    client.start("POST", "/api/chat", &headers);
    // Without the interim answer this client would wait for ever.
    assert_eq!(client.bytes(25), b"HTTP/1.1 100 Continue\r\n\r\n");
    client.write(r#"{"model":"m"}"#);
    assert_eq!(client.answer().text(), "ok");
    assert_eq!(engine.only().header("Expect"), None);
}

#[test]
fn a_body_over_the_limit_that_awaits_100_continue_is_refused_without_being_sent() {
    let engine = Engine::serving("ok");
    let (_broker, port) = limited(&engine);
    let mut client = Client::connect(port);
    let headers = [("Expect", "100-continue"), ("Content-Length", "10001")];
    client.start("POST", "/api/chat", &headers);
    let answer = client.head();
    assert_eq!(client.finish(answer).status, 413);
    assert_eq!(engine.hits(), 0);
}

#[test]
fn the_model_is_found_anywhere_in_the_body() {
    let engine = Engine::serving("ok");
    let (_broker, port) = Broker::over(&[&engine]);
    let long = "y".repeat(400_000);
    for body in [
        format!(r#"{{"prompt":"{long}","model":"m"}}"#),
        format!(r#"{{"messages":[{{"model":"other","content":"{long}"}}],"model":"m"}}"#),
        r#"{"model":"other","model":"m"}"#.to_owned(),
        r#"{"MODEL":"m"}"#.to_owned(),
        "\r\n { \"model\"\t:\n\"\\u006d\" } ".to_owned(),
        r#"{"options":{"model":"x"},"text":"{\"model\":\"y\"}","model":"m"}"#.to_owned(),
    ] {
        let answer = http(port, "POST", "/api/chat", &[], body.as_bytes());
        assert_eq!(answer.status, 200, "{}", &body[..body.len().min(90)]);
    }
    let nested = r#"{"options":{"model":"m"},"model":"other"}"#;
    assert_eq!(
        http(port, "POST", "/api/chat", &[], nested.as_bytes()).status,
        502
    );
}

#[test]
fn a_compressed_body_passes_untouched_and_unfiltered() {
    let engine = Engine::serving("ok");
    let (broker, port) = Broker::over(&[&engine]);
    // The bytes need no meaning: nobody here may look at them.
    let body = b"\x1f\x8b\x08\x00{\"model\":\"nobody\"}\x00\xff";
    let headers = [("Content-Encoding", "gzip")];
    assert_eq!(http(port, "POST", "/api/chat", &headers, body).text(), "ok");
    let got = engine.only();
    assert_eq!(got.body, body);
    assert_eq!(got.header("Content-Encoding"), Some("gzip"));
    broker.expect("ollama:proxy/request", |p| p["status"] == 200);
    assert!(broker.workloads().is_empty());
}

#[test]
fn broken_json_passes_unfiltered() {
    let engine = Engine::serving("ok");
    let (_broker, port) = Broker::over(&[&engine]);
    for body in [
        r#"{"model":"nobody""#,
        r#"{"model":"nobody"} x"#,
        "model",
        "[]",
        "\u{feff}{}",
    ] {
        let answer = http(port, "POST", "/api/chat", &[], body.as_bytes());
        assert_eq!(answer.text(), "ok", "{body}");
    }
}

#[test]
fn trailers_of_a_request_reach_the_engine() {
    let engine = Engine::serving("ok");
    let (_broker, port) = Broker::over(&[&engine]);
    let mut client = Client::connect(port);
    let headers = [("Transfer-Encoding", "chunked"), ("Trailer", "X-Sum")];
    client.start("POST", "/api/chat", &headers);
    client.write("d\r\n{\"model\":\"m\"}\r\n0\r\nX-Sum: 9\r\n\r\n");
    assert_eq!(client.answer().text(), "ok");
    let got = engine.only();
    assert_eq!(got.trailers.len(), 1, "{got:?}");
    assert!(got.trailers[0].0.eq_ignore_ascii_case("x-sum") && got.trailers[0].1 == "9");
}

#[test]
fn a_body_whose_chunks_are_broken_is_a_400_that_asks_no_engine() {
    let engine = Engine::serving("ok");
    let (_broker, port) = Broker::over(&[&engine]);
    let mut client = Client::connect(port);
    client.start("POST", "/api/chat", &[("Transfer-Encoding", "chunked")]);
    client.write("zz\r\nnot a chunk\r\n");
    assert_eq!(client.answer().status, 400);
    assert_eq!(engine.hits(), 0);
    assert_eq!(post(port, "/api/chat", &json!({"model": "m"})).text(), "ok");
}

#[test]
fn an_engine_that_answers_before_it_read_the_body_is_heard() {
    let body = format!(r#"{{"model":"m","pad":"{}"}}"#, "x".repeat(8_000_000));
    let early = Engine::early(Reply::with(
        400,
        &[("Content-Type", "text/plain")],
        "no thanks",
    ));
    let (_broker, port) = Broker::over(&[&early]);
    let answer = http(port, "POST", "/api/chat", &[], body.as_bytes());
    assert_eq!((answer.status, answer.text().as_str()), (400, "no thanks"));
}

#[test]
fn an_early_refusal_goes_to_the_next_owner_with_the_whole_body() {
    let body = format!(r#"{{"model":"m","pad":"{}"}}"#, "x".repeat(8_000_000));
    let (early, good) = (Engine::early(Reply::status(503)), Engine::serving("ok"));
    let (_broker, port) = Broker::over(&[&early, &good]);
    assert_eq!(
        http(port, "POST", "/api/chat", &[], body.as_bytes()).text(),
        "ok"
    );
    assert!(good.only().body == body.as_bytes());
}
