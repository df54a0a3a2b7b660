//! Answers of engines with odd ends (RFC 9112): what the client gets is what was meant, on each way
//! that a request can take, and the account of it says so.

use serde_json::Value;

use crate::support::broker::Broker;
use crate::support::client::{Client, Response};
use crate::support::engine::{Engine, Reply, Step};

const CHAT: &str = r#"{"model":"m"}"#;

/// A request on the lane of bytes, one on the library's, and one that runs no model.
fn ways() -> [String; 3] {
    let host = "HTTP/1.1\r\nHost: localhost\r\n";
    let length = CHAT.len();
    [
        format!("POST /api/chat {host}Content-Length: {length}\r\n\r\n{CHAT}"),
        format!(
            "POST /api/chat {host}Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{CHAT}\r\n0\r\n\r\n"
        ),
        format!("GET /x {host}TE: trailers\r\n\r\n"),
    ]
}

/// What each way gets of this answer, and how its request is told to have ended.
fn told(raw: &str) -> Vec<(Response, Value)> {
    let ask = |request: &String| {
        let engine = Engine::always(Reply::raw(raw));
        let (broker, port) = Broker::over(&[&engine]);
        let mut client = Client::connect(port);
        client.write(request);
        let answer = client.answer();
        // On the same connection: nothing was left on it.
        let again = engine.hits();
        client.write(request);
        assert_eq!(client.answer().body, answer.body);
        assert_eq!(engine.hits(), again * 2);
        let end = broker.expect("ollama:proxy/request", |p| p["id"] == "1");
        (answer, end)
    };
    ways().iter().map(ask).collect()
}

#[test]
fn a_length_beside_chunks_cuts_no_body() {
    for length in [3, 9] {
        let raw = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n\
             5\r\nhello\r\n0\r\n\r\n"
        );
        for (answer, end) in told(&raw) {
            assert!(answer.complete, "{answer:?}");
            assert_eq!(answer.text(), "hello");
            assert_eq!(answer.header("Content-Length"), None);
            assert!(end["error"].is_null(), "{end}");
        }
    }
}

#[test]
fn an_answer_with_trailers_ends_well() {
    for trailer in ["", "Trailer: X-Sum\r\n"] {
        for body in ["5\r\nhello\r\n", ""] {
            let raw = format!(
                "HTTP/1.1 200 OK\r\n{trailer}Transfer-Encoding: chunked\r\n\r\n\
                 {body}0\r\nX-Sum: 1\r\n\r\n"
            );
            for (answer, end) in told(&raw) {
                assert!(answer.complete, "{answer:?}");
                assert!(end["error"].is_null(), "{trailer}{body}: {end}");
            }
        }
    }
}

#[test]
fn an_answer_that_cannot_be_read_in_one_way_alone_is_lost() {
    for lines in [
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "X-A: 1\r\n 2\r\nContent-Length: 5\r\n",
    ] {
        is_lost(&format!(
            "HTTP/1.1 200 OK\r\n{lines}\r\n5\r\nhello\r\n0\r\n\r\n"
        ));
    }
}

#[test]
fn a_switch_of_protocols_that_nobody_asked_for_is_lost() {
    is_lost("HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\nhello");
}

/// The next node serves the request, and the client sees nothing of this answer.
fn is_lost(raw: &str) {
    for request in ways() {
        let odd = Engine::always(Reply::raw(raw).then(Step::Hang));
        let good = Engine::serving("good");
        let (_broker, port) = Broker::over(&[&odd, &good]);
        let mut client = Client::connect(port);
        client.write(&request);
        let answer = client.answer();
        assert_eq!((answer.status, &*answer.text()), (200, "good"), "{raw}");
        assert_eq!((odd.hits(), good.hits()), (1, 1));
    }
}
