//! Malformed and odd requests, a written expectation each (RFC 9112): what is refused reaches no
//! engine, what passes reaches it as it came, and nothing crashes or hangs.
//!
//! Each refused row is sent on a fresh connection, on one byte by byte, and behind a good request of
//! either lane: a connection's second request must meet the same checks.

use serde_json::json;

use crate::support::broker::Broker;
use crate::support::client::{Client, Response, get};
use crate::support::engine::{Engine, Reply, Request, Step};

const CHAT: &str = r#"{"model":"m"}"#;

/// What a row is refused with. The connection is closed behind it.
#[derive(Clone, Copy, Debug)]
enum Refused {
    /// By the HTTP library.
    Status(u16),
    /// By us, with this code.
    Coded(u16, &'static str),
    /// Its body breaks: nothing, or a 400.
    Broken,
}
use Refused::{Broken, Coded, Status};

/// An engine that says which target it was asked for.
fn echo() -> Engine {
    Engine::start(|r| match &*r.method {
        "HEAD" => Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"),
        _ => Reply::with(200, &[("X-Engine", "1")], &r.target),
    })
}

/// A good request of each lane, sent before the odd one.
fn openings() -> [String; 3] {
    let length = CHAT.len();
    [
        String::new(),
        format!(
            "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{CHAT}"
        ),
        "GET /first HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(),
    ]
}

/// Sends the bytes behind each opening, whole and in single bytes; what was said to them.
fn said(port: u16, raw: &[u8]) -> Vec<String> {
    let mut all = Vec::new();
    for opening in openings() {
        let mut client = Client::connect(port);
        if !opening.is_empty() {
            client.write(&opening);
            assert_eq!(client.answer().status, 200);
        }
        // It may be closed before all of it is written.
        drop(client.try_write(raw));
        let answer = client.rest().unwrap_or_else(|e| {
            let shown = String::from_utf8_lossy(raw);
            panic!("{e}: still open behind {opening:?} and {shown:?}")
        });
        all.push(String::from_utf8(answer).unwrap());
    }
    let mut client = Client::connect(port);
    for byte in raw.chunks(1) {
        if client.try_write(byte).is_err() {
            break;
        }
    }
    // A reset may have taken what was said before the last byte.
    let last = String::from_utf8(client.rest().unwrap_or_default()).unwrap();
    if !last.is_empty() {
        all.push(last);
    }
    all
}

/// Why an answer is not the expected refusal.
fn fault(answer: &str, wanted: Refused) -> Option<String> {
    let one = !answer.contains("\nHTTP/1.") && !answer.contains("}HTTP/1.");
    let starts = |status: u16| {
        let line = ["1.1", "1.0"].map(|version| format!("HTTP/{version} {status} "));
        one && line.iter().any(|line| answer.starts_with(line))
    };
    let good = match wanted {
        Status(status) => starts(status),
        Coded(status, code) => {
            let code = format!("\"code\":\"{code}\"");
            starts(status) && answer.contains(&code)
        },
        Broken => answer.is_empty() || starts(400),
    };
    (!good).then(|| format!("wanted {wanted:?}, got {answer:?}"))
}

#[track_caller]
fn all_refused(rows: &[(&str, Vec<u8>, Refused)]) {
    let engine = echo();
    let (mut broker, port) = Broker::over(&[&engine]);
    let mut wrong = Vec::new();
    for (name, raw, wanted) in rows {
        for answer in said(port, raw) {
            wrong.extend(fault(&answer, *wanted).map(|why| format!("{name}: {why}")));
        }
        let openings = ["/api/chat", "/first"];
        let mut reached = engine.requests();
        reached.retain(|r| !openings.contains(&&*r.target) || r.body == b"smuggled");
        if let Some(r) = reached.first() {
            wrong.push(format!(
                "{name}: {} {} reached the engine",
                r.method, r.target
            ));
        }
        if !reached.is_empty() {
            break;
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    let forwarded = engine.requests_for("/api/chat").len();
    assert_eq!(forwarded, rows.len(), "one opening a row");
    assert_eq!(get(port, "/after").text(), "/after");
    assert!(broker.process.runs());
    let log = broker.process.log.text();
    assert!(!log.contains("panicked"), "{log}");
}

/// A request with these lines behind its `Host`, and this body, for an inference route and for
/// another.
fn posts(
    rows: &[(&'static str, &str, &str)],
    refused: Refused,
) -> Vec<(&'static str, Vec<u8>, Refused)> {
    let mut all = Vec::new();
    for (name, lines, body) in rows {
        for target in ["/api/generate", "/x"] {
            let raw = format!("POST {target} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n{body}");
            all.push((*name, raw.into_bytes(), refused));
        }
    }
    all
}

#[test]
fn a_body_with_a_doubtful_end_is_refused() {
    // Whoever took the other framing would find this request in it.
    let rest = "5\r\nhello\r\n0\r\n\r\nPOST /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
    all_refused(&posts(
        &[
            (
                "length, then coding",
                "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                rest,
            ),
            (
                "coding, then length",
                "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
                rest,
            ),
            (
                "two equal lengths",
                "Content-Length: 5\r\nContent-Length: 5\r\n",
                rest,
            ),
            (
                "two differing lengths",
                "Content-Length: 5\r\nContent-Length: 60\r\n",
                rest,
            ),
            ("a list of equal lengths", "Content-Length: 5, 5\r\n", rest),
            ("a length with a sign", "Content-Length: +5\r\n", rest),
            ("a negative length", "Content-Length: -1\r\n", rest),
            ("a hexadecimal length", "Content-Length: 0x5\r\n", rest),
            ("an empty length", "Content-Length: \r\n", rest),
            (
                "a length over 64 bits",
                "Content-Length: 99999999999999999999\r\n",
                rest,
            ),
            ("two numbers in a length", "Content-Length: 5 5\r\n", rest),
            ("a length with a dot", "Content-Length: 5.0\r\n", rest),
            ("an unknown coding", "Transfer-Encoding: xchunked\r\n", rest),
            ("no coding by name", "Transfer-Encoding: identity\r\n", rest),
            (
                "a coding behind chunked",
                "Transfer-Encoding: chunked, identity\r\n",
                rest,
            ),
            (
                "a coding before chunked",
                "Transfer-Encoding: gzip, chunked\r\n",
                rest,
            ),
            (
                "chunked twice in a list",
                "Transfer-Encoding: chunked, chunked\r\n",
                rest,
            ),
            (
                "two codings",
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                rest,
            ),
            ("an empty coding", "Transfer-Encoding: \r\n", rest),
            (
                "a quoted coding",
                "Transfer-Encoding: \"chunked\"\r\n",
                rest,
            ),
            (
                "a coding behind a vertical tab",
                "Transfer-Encoding: \u{b}chunked\r\n",
                rest,
            ),
            (
                "a blank behind the length's name",
                "Content-Length : 5\r\n",
                rest,
            ),
            (
                "a blank behind the coding's name",
                "Transfer-Encoding : chunked\r\n",
                rest,
            ),
            (
                "a folded coding",
                "Transfer-Encoding:\r\n chunked\r\n",
                rest,
            ),
        ],
        Status(400),
    ));
}

#[test]
fn a_head_with_doubtful_lines_is_refused() {
    let mut rows = posts(
        &[
            ("a line feed alone", "X-A: 1\nX-B: 2\r\n", ""),
            ("a line feed alone at the end", "X-A: 1\r\n\n", ""),
            ("a carriage return in a value", "X-A: 1\rX-B: 2\r\n", ""),
            ("a carriage return in a name", "X-\rA: 1\r\n", ""),
            ("a line folded with a blank", "X-A: 1\r\n 2\r\n", ""),
            ("a line folded with a tab", "X-A: 1\r\n\t2\r\n", ""),
            ("a blank in a name", "X A: 1\r\n", ""),
            ("a blank behind a name", "X-A : 1\r\n", ""),
            ("a NUL in a name", "X-\0A: 1\r\n", ""),
            ("a NUL in a value", "X-A: 1\x002\r\n", ""),
            ("a control character in a value", "X-A: 1\x012\r\n", ""),
            ("a DEL in a value", "X-A: 1\x7f2\r\n", ""),
            ("no name", ": 1\r\n", ""),
            ("no colon", "X-A\r\n", ""),
            ("a name that is no token", "(X-A): 1\r\n", ""),
            ("a name beyond ASCII", "X-Ä: 1\r\n", ""),
        ],
        Status(400),
    );
    let plain = |raw: &str| raw.as_bytes().to_vec();
    for (name, raw) in [
        (
            "a first line with a line feed alone",
            "GET /x HTTP/1.1\nHost: localhost\r\n\r\n",
        ),
        (
            "line feeds alone throughout",
            "GET /x HTTP/1.1\nHost: localhost\n\n",
        ),
        (
            "carriage returns alone",
            "GET /x HTTP/1.1\rHost: localhost\r\r\n\r\n",
        ),
        (
            "a folded first header",
            "GET /x HTTP/1.1\r\n X: 1\r\nHost: localhost\r\n\r\n",
        ),
        (
            "a coding in HTTP/1.0",
            "POST /x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
    ] {
        rows.push((name, plain(raw), Status(400)));
    }
    all_refused(&rows);
}

#[test]
fn a_first_line_that_is_none_is_refused() {
    let host = "Host: localhost\r\n\r\n";
    let mut rows: Vec<(&str, Vec<u8>, Refused)> = [
        ("no target", "GET HTTP/1.1"),
        ("no version", "GET /x"),
        ("a blank in the target", "GET /a b HTTP/1.1"),
        ("a tab between", "GET\t/x HTTP/1.1"),
        ("a tab before the version", "GET /x\tHTTP/1.1"),
        ("a blank before", " GET /x HTTP/1.1"),
        ("a blank behind", "GET /x HTTP/1.1 "),
        ("a version in small letters", "GET /x http/1.1"),
        ("a version with another dot", "GET /x HTTP/1,1"),
        ("version 1.2", "GET /x HTTP/1.2"),
        ("version 2.0", "GET /x HTTP/2.0"),
        ("version 0.9 by name", "GET /x HTTP/0.9"),
        ("a NUL in the target", "GET /\0x HTTP/1.1"),
        ("a NUL in the method", "G\0ET /x HTTP/1.1"),
        ("a method that is no token", "GE(T /x HTTP/1.1"),
        ("no method", " /x HTTP/1.1"),
        ("a backslash for a path", "GET \\x HTTP/1.1"),
    ]
    .into_iter()
    .map(|(name, line)| (name, format!("{line}\r\n{host}").into_bytes(), Status(400)))
    .collect();
    rows.push((
        "HTTP/2",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        Broken,
    ));
    rows.push((
        "a greeting of SSH",
        b"SSH-2.0-OpenSSH_9.9\r\n\r\n".to_vec(),
        Status(400),
    ));
    rows.push(("zeros", vec![0; 64], Status(400)));
    rows.push((
        "noise",
        (1..=255).filter(|b| *b != 0x16).collect(),
        Status(400),
    ));
    let many: String = (0..200).map(|i| format!("X-{i}: 1\r\n")).collect();
    let raw = format!("GET /x HTTP/1.1\r\n{many}{host}");
    rows.push(("too many headers", raw.into_bytes(), Status(431)));
    let raw = format!("GET /{} HTTP/1.1\r\n{host}", "x".repeat(70_000));
    rows.push(("a target that is too long", raw.into_bytes(), Status(414)));
    all_refused(&rows);
}

#[test]
fn a_chunked_body_with_broken_framing_reaches_no_engine() {
    let chunked = "Transfer-Encoding: chunked\r\n";
    let behind = "POST /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let bodies = [
        ("no size", "\r\nhello\r\n0\r\n\r\n"),
        ("a size that is no number", "x\r\nhello\r\n0\r\n\r\n"),
        ("a negative size", "-5\r\nhello\r\n0\r\n\r\n"),
        ("a size with a sign", "+5\r\nhello\r\n0\r\n\r\n"),
        ("a size with a prefix", "0x5\r\nhello\r\n0\r\n\r\n"),
        ("a blank before the size", " 5\r\nhello\r\n0\r\n\r\n"),
        (
            "a size over 64 bits",
            "10000000000000005\r\nhello\r\n0\r\n\r\n",
        ),
        ("a line feed alone behind the size", "5\nhello\r\n0\r\n\r\n"),
        (
            "a line feed alone in an extension",
            "5;a\nhello\r\n0\r\n\r\n",
        ),
        (
            "a carriage return alone in an extension",
            "5;a\rb\r\nhello\r\n0\r\n\r\n",
        ),
        ("more data than announced", "5\r\nhello, all\r\n0\r\n\r\n"),
        ("less data than announced", "8\r\nhello\r\n0\r\n\r\n"),
        ("no line end behind the data", "5\r\nhello0\r\n\r\n"),
        ("a line feed alone behind the data", "5\r\nhello\n0\r\n\r\n"),
        (
            "a carriage return alone behind the data",
            "5\r\nhello\r0\r\n\r\n",
        ),
        ("a line feed alone at the end", "5\r\nhello\r\n0\r\n\n"),
        (
            "a trailer with a line feed alone",
            "5\r\nhello\r\n0\r\nX: 1\n\r\n",
        ),
        (
            "a trailer that is no header",
            "5\r\nhello\r\n0\r\nno colon\r\n\r\n",
        ),
    ];
    let bodies = bodies.map(|(name, body)| (name, format!("{body}{behind}")));
    let rows: Vec<_> = bodies
        .iter()
        .map(|(n, body)| (*n, chunked, &**body))
        .collect();
    all_refused(&posts(&rows, Broken));
}

#[test]
fn a_host_that_is_not_ours_is_refused_in_every_form() {
    let rows = [
        ("no Host", "GET /x HTTP/1.1", "", Coded(400, "bad-host")),
        (
            "two Hosts",
            "GET /x HTTP/1.1",
            "Host: localhost\r\nHost: localhost\r\n",
            Coded(400, "bad-host"),
        ),
        (
            "an empty Host",
            "GET /x HTTP/1.1",
            "Host:\r\n",
            Coded(403, "host-not-allowed"),
        ),
        (
            "a foreign Host",
            "GET /x HTTP/1.1",
            "Host: evil.test\r\n",
            Coded(403, "host-not-allowed"),
        ),
        (
            "a Host with a user",
            "GET /x HTTP/1.1",
            "Host: localhost@evil.test\r\n",
            Coded(403, "host-not-allowed"),
        ),
        (
            "two names in a Host",
            "GET /x HTTP/1.1",
            "Host: localhost, evil.test\r\n",
            Coded(403, "host-not-allowed"),
        ),
        (
            "a Host that is a URL",
            "GET /x HTTP/1.1",
            "Host: http://localhost\r\n",
            Coded(403, "host-not-allowed"),
        ),
        (
            "a Host with a path",
            "GET /x HTTP/1.1",
            "Host: localhost/x\r\n",
            Coded(403, "host-not-allowed"),
        ),
        (
            "a foreign Host in HTTP/1.0",
            "GET /x HTTP/1.0",
            "Host: evil.test\r\n",
            Coded(403, "host-not-allowed"),
        ),
        (
            "a foreign absolute target",
            "GET http://evil.test/x HTTP/1.1",
            "Host: localhost\r\n",
            Coded(403, "host-not-allowed"),
        ),
        (
            "an absolute target without Host",
            "GET http://localhost/x HTTP/1.1",
            "",
            Coded(400, "bad-host"),
        ),
        (
            "an absolute target with a user",
            "GET http://localhost@evil.test/x HTTP/1.1",
            "Host: localhost\r\n",
            Coded(403, "host-not-allowed"),
        ),
        (
            "a target that is no path",
            "GET localhost HTTP/1.1",
            "Host: localhost\r\n",
            Coded(400, "bad-target"),
        ),
        (
            "a target that is a foreign name",
            "GET x HTTP/1.1",
            "Host: localhost\r\n",
            Coded(403, "host-not-allowed"),
        ),
        (
            "a tunnel",
            "CONNECT localhost:443 HTTP/1.1",
            "Host: localhost:443\r\n",
            Coded(405, "no-tunnels"),
        ),
        (
            "a tunnel elsewhere",
            "CONNECT evil.test:443 HTTP/1.1",
            "Host: localhost\r\n",
            Coded(403, "host-not-allowed"),
        ),
    ];
    let close = "Connection: close\r\n\r\n";
    let rows: Vec<_> = rows
        .into_iter()
        .map(|(name, line, lines, wanted)| {
            (
                name,
                format!("{line}\r\n{lines}{close}").into_bytes(),
                wanted,
            )
        })
        .collect();
    all_refused(&rows);
}

/// Sends these bytes behind each opening; the last answer and what the engine got, each time.
#[track_caller]
fn passed(name: &str, raw: &[u8], check: impl Fn(&Response, &Request)) {
    let engine = echo();
    let (_broker, port) = Broker::over(&[&engine]);
    for opening in openings() {
        let before = engine.hits();
        let mut client = Client::connect(port);
        if !opening.is_empty() {
            client.write(&opening);
            assert_eq!(client.answer().status, 200);
        }
        client.write(raw);
        let mut answer = client.head();
        let head = raw.starts_with(b"HEAD ");
        if !head {
            answer = client.finish(answer);
            assert!(answer.complete, "{name}: {answer:?}");
        }
        assert_eq!(answer.status, 200, "{name}: {answer:?}");
        let got = engine.requests();
        let expected = before + 1 + usize::from(!opening.is_empty());
        assert_eq!(got.len(), expected, "{name}: once");
        check(&answer, got.last().unwrap());
        // Whatever it was, the next one is not taken for a part of it.
        if answer.version == "HTTP/1.1" && answer.header("connection") != Some("close") {
            client.write("GET /next HTTP/1.1\r\nHost: localhost\r\n\r\n");
            assert_eq!(client.answer().text(), "/next", "{name}");
        }
    }
}

#[test]
fn targets_pass_as_they_were_written() {
    for target in [
        "/",
        "/x?",
        "/x?a=1&&b=%20&c=a+b",
        "/x?a?b/c",
        "/x?u=http://evil.test/",
        "//x//y",
        "/a/../b/./c",
        "/%2e%2e/%2F%00",
        "/a;v=1/b,c",
        "/~a!$&'()*+=:@",
        "/%zz",
        "/x%",
        "/a|b",
        "/api/chat/",
        "/API/chat",
        "/models",
    ] {
        let raw = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        passed(target, raw.as_bytes(), |answer, got| {
            assert_eq!((&*got.target, &*answer.text()), (target, target));
        });
    }
    let raw = "GET http://localhost:1/x?y HTTP/1.1\r\nHost: localhost\r\n\r\n";
    passed("an absolute target", raw.as_bytes(), |_, got| {
        assert_eq!(got.target, "/x?y");
        assert_ne!(got.header("host"), Some("localhost"));
    });
    let raw = "GET HTTP://LOCALHOST HTTP/1.1\r\nHost: localhost\r\n\r\n";
    passed(
        "an absolute target without path",
        raw.as_bytes(),
        |_, got| {
            assert_eq!(got.target, "/");
        },
    );
    let raw = "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n";
    passed("an asterisk", raw.as_bytes(), |_, got| {
        assert_eq!((&*got.method, &*got.target), ("OPTIONS", "*"));
    });
    let raw = "GET /x#y HTTP/1.1\r\nHost: localhost\r\n\r\n";
    passed("a fragment", raw.as_bytes(), |_, got| {
        assert_eq!(got.target, "/x", "is nothing a server is told");
    });
}

#[test]
fn methods_pass_as_they_were_written() {
    for method in [
        "PUT",
        "PATCH",
        "DELETE",
        "OPTIONS",
        "TRACE",
        "get",
        "Post",
        "BREW",
        "M-SEARCH",
        "!#$%&'*+-.^_`|~",
    ] {
        let raw = format!("{method} /x HTTP/1.1\r\nHost: localhost\r\n\r\n");
        passed(method, raw.as_bytes(), |_, got| {
            assert_eq!((&*got.method, &*got.target), (method, "/x"));
            assert!(got.body.is_empty());
        });
    }
    let raw = "HEAD /api/tags HTTP/1.1\r\nHost: localhost\r\n\r\n";
    passed("HEAD", raw.as_bytes(), |answer, got| {
        assert_eq!(got.method, "HEAD");
        assert_eq!(answer.header("content-length"), Some("9"));
    });
}

#[test]
fn lines_pass_in_their_case_and_order() {
    let lines = "x-lower: 1\r\nX-UPPER: 2\r\nX-Twice: b\r\nX-Other: 3\r\nx-twice: a\r\nX-Empty:\r\n\
                 X-Blank:   c  \r\nX-Tab:\td\t\r\nX-Inner: a \t b\r\nX-Umlaut: ä\r\nX-Colon: a:b: c\r\n\
                 Accept: a, b\r\nAccept: c\r\nX-_.!~: 5\r\nCookie: a=1; b=2\r\nCookie: c=3\r\n";
    for (name, method, framing, body) in [
        ("plain", "POST /api/chat", "Content-Length: 13\r\n", CHAT),
        ("by the library", "GET /x", "", ""),
        (
            "chunked",
            "POST /x",
            "Transfer-Encoding: chunked\r\n",
            "1\r\na\r\n0\r\n\r\n",
        ),
    ] {
        let raw = format!("{method} HTTP/1.1\r\nHost: localhost\r\n{lines}{framing}\r\n{body}");
        passed(name, raw.as_bytes(), |_, got| {
            let ours = [
                "host",
                "x-forwarded-for",
                "content-length",
                "transfer-encoding",
            ];
            let mut seen: Vec<(&str, &str)> = Vec::new();
            for (name, value) in &got.headers {
                if !ours.contains(&&*name.to_lowercase()) {
                    seen.push((name, value));
                }
            }
            // Repeats keep their order among themselves; which names come first is nobody's matter.
            seen.sort_by_key(|(name, _)| name.to_lowercase());
            let mut wanted: Vec<(&str, &str)> = lines
                .split_terminator("\r\n")
                .map(|line| line.split_once(':').unwrap())
                .map(|(name, value)| (name, value.trim()))
                .collect();
            wanted.sort_by_key(|(name, _)| name.to_lowercase());
            assert_eq!(seen, wanted, "{name}");
        });
    }
}

#[test]
fn what_concerns_the_connection_stays_on_it() {
    for lines in [
        "Connection: X-Hop, keep-alive\r\nX-Hop: 1\r\n",
        "Connection: x-hop\r\nConnection: X-Hop2\r\nX-Hop: 1\r\nX-Hop2: 2\r\n",
        "Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\n",
        "Proxy-Authorization: Basic eA==\r\nTE: gzip\r\n",
        "Connection: upgrade\r\nUpgrade:\r\n",
        "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nConnection: HTTP2-Settings\r\n",
        "Trailer: X-Sum\r\n",
        "Connection: close\r\nX-Hop: 1\r\n",
    ] {
        for (method, body) in [("GET /x", ""), ("POST /api/chat", CHAT)] {
            let raw = format!(
                "{method} HTTP/1.1\r\nHost: localhost\r\n{lines}Content-Length: {}\r\n\r\n{body}",
                body.len()
            );
            passed(lines, raw.as_bytes(), |_, got| {
                for name in [
                    "connection",
                    "keep-alive",
                    "proxy-connection",
                    "proxy-authorization",
                    "te",
                    "upgrade",
                    "trailer",
                    "http2-settings",
                    "x-hop2",
                ] {
                    assert_eq!(got.header(name), None, "{lines}");
                }
                let kept = lines.contains("close").then_some("1");
                assert_eq!(got.header("x-hop"), kept, "{lines}");
                assert_eq!(got.body, body.as_bytes());
            });
        }
    }
}

#[test]
fn bodies_pass_whole_in_every_framing() {
    let row = |name, lines: &str, raw: &str, body: &str, chunked| {
        for method in ["POST /x", "POST /api/chat", "GET /x", "DELETE /x"] {
            let raw = format!("{method} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n{raw}");
            passed(name, raw.as_bytes(), |_, got| {
                assert_eq!(
                    (&*got.body, got.chunked),
                    (body.as_bytes(), chunked),
                    "{name}"
                );
            });
        }
    };
    row("no body", "", "", "", false);
    row("a length of zero", "Content-Length: 0\r\n", "", "", false);
    row(
        "a length",
        "Content-Length: 5\r\n",
        "he\nlo",
        "he\nlo",
        false,
    );
    row(
        "a length with zeros",
        "Content-Length: 005\r\n",
        "hello",
        "hello",
        false,
    );
    let chunked = "Transfer-Encoding: chunked\r\n";
    row(
        "chunks",
        chunked,
        "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        "hello",
        true,
    );
    row(
        "a coding in capitals",
        "TRANSFER-ENCODING: CHUNKED\r\n",
        "A\r\n0123456789\r\n0\r\n\r\n",
        "0123456789",
        true,
    );
    row(
        "a small hexadecimal size",
        chunked,
        "a\r\n0123456789\r\n0\r\n\r\n",
        "0123456789",
        true,
    );
    row(
        "a size with zeros",
        chunked,
        "0005\r\nhello\r\n000\r\n\r\n",
        "hello",
        true,
    );
    row(
        "extensions",
        chunked,
        "5;a=1;b=\"c\"\r\nhello\r\n0;d\r\n\r\n",
        "hello",
        true,
    );
    row(
        "line ends in the data",
        chunked,
        "4\r\n\r\n\r\n\r\n0\r\n\r\n",
        "\r\n\r\n",
        true,
    );
    let raw = "POST /x HTTP/1.1\r\nHost: localhost\r\nTrailer: X-Sum\r\n\
               Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 7\r\n\r\n";
    passed("trailers", raw.as_bytes(), |_, got| {
        let trailers: Vec<_> = got
            .trailers
            .iter()
            .map(|(n, v)| (n.to_lowercase(), &**v))
            .collect();
        assert_eq!(trailers, [("x-sum".to_owned(), "7")]);
    });
    let long = "x".repeat(100_000);
    let raw = format!("GET /x HTTP/1.1\r\nHost: localhost\r\nX-Long: {long}\r\n\r\n");
    passed("a long line", raw.as_bytes(), |_, got| {
        assert_eq!(got.header("x-long"), Some(&*long));
    });
    let many: String = (0..90).map(|i| format!("X-{i}: {i}\r\n")).collect();
    let raw = format!("GET /x HTTP/1.1\r\nHost: localhost\r\n{many}\r\n");
    passed("many lines", raw.as_bytes(), |_, got| {
        assert_eq!(got.header("x-89"), Some("89"));
    });
    let raw = "\r\n\r\nGET /x HTTP/1.1\r\nHost: localhost\r\n\r\n";
    passed("empty lines before", raw.as_bytes(), |_, got| {
        assert_eq!(got.target, "/x")
    });
}

#[test]
fn http_1_0_gets_its_answer_and_its_close() {
    let engine = echo();
    let (_broker, port) = Broker::over(&[&engine]);
    for (lines, stays) in [
        ("", false),
        ("Host: localhost\r\n", false),
        ("Connection: keep-alive\r\n", true),
        ("Connection: close\r\n", false),
    ] {
        let mut client = Client::connect(port);
        client.write(format!("GET /x HTTP/1.0\r\n{lines}\r\n"));
        let answer = client.answer();
        assert_eq!((answer.status, &*answer.text()), (200, "/x"), "{lines}");
        if stays {
            client.write("GET /y HTTP/1.0\r\n\r\n");
            assert_eq!(client.answer().text(), "/y");
        }
        assert!(client.rest().unwrap().is_empty(), "{lines}: closed");
    }
    let got = engine.requests();
    assert!(got.iter().all(|r| r.version == "HTTP/1.1"), "{got:?}");
    // A stream without a length cannot be chunked for it: its end is the connection's.
    engine.now(|_| Reply::lines().chunk("one\n").chunk("two\n").end());
    let mut client = Client::connect(port);
    let length = CHAT.len();
    client.write(format!(
        "POST /api/chat HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{CHAT}"
    ));
    let answer = client.answer();
    assert_eq!(answer.header("transfer-encoding"), None);
    assert_eq!((&*answer.text(), answer.complete), ("one\ntwo\n", true));
}

#[test]
fn a_client_that_waits_for_100_is_told_to_go_on() {
    let engine = echo();
    let (_broker, port) = Broker::over(&[&engine]);
    for target in ["/api/chat", "/x"] {
        for (expect, waits) in [
            ("100-continue", true),
            ("100-Continue", true),
            ("something", false),
        ] {
            let mut client = Client::connect(port);
            let length = CHAT.len().to_string();
            client.start(
                "POST",
                target,
                &[("Expect", expect), ("Content-Length", &length)],
            );
            if waits {
                assert_eq!(client.bytes(21), b"HTTP/1.1 100 Continue", "{expect}");
                client.bytes(4);
            }
            client.write(CHAT);
            assert_eq!(client.answer().text(), target);
            let got = engine.requests().pop().unwrap();
            assert_eq!((got.header("expect"), &*got.body), (None, CHAT.as_bytes()));
        }
    }
}

#[test]
fn requests_of_both_lanes_in_one_write_are_answered_in_order() {
    let engine = echo();
    let (_broker, port) = Broker::over(&[&engine]);
    let length = CHAT.len();
    let plain = format!(
        "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{CHAT}"
    );
    let rest = "GET /1 HTTP/1.1\r\nHost: localhost\r\n\r\n\
                POST /2 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n\
                HEAD /3 HTTP/1.1\r\nHost: localhost\r\n\r\n\
                GET /4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n\
                GET /never HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut client = Client::connect(port);
    client.write(format!("{plain}{plain}{rest}"));
    for target in ["/api/chat", "/api/chat", "/1", "/2"] {
        assert_eq!(client.answer().text(), target);
    }
    let rest = String::from_utf8(client.rest().unwrap()).unwrap();
    let (head, last) = rest.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 200 ") && !head.contains("/3"),
        "{rest}"
    );
    assert!(
        last.starts_with("HTTP/1.1 200 ") && last.ends_with("/4"),
        "{rest}"
    );
    assert!(engine.requests_for("/never").is_empty());
}

#[test]
fn a_good_request_before_a_bad_one_is_still_answered() {
    let engine = echo();
    let (_broker, port) = Broker::over(&[&engine]);
    for opening in &openings()[1..] {
        for bad in ["GET /bad HTTP/1.1\nHost: localhost\n\n", "nonsense\r\n\r\n"] {
            let mut client = Client::connect(port);
            client.write(format!("{opening}{bad}"));
            assert_eq!(client.answer().status, 200);
            let rest = String::from_utf8(client.rest().unwrap()).unwrap();
            assert!(rest.starts_with("HTTP/1.1 400 "), "{rest}");
        }
    }
    assert!(engine.requests_for("/bad").is_empty());
}

#[test]
fn a_switched_connection_carries_anything_and_a_refused_switch_stays_http() {
    let switch =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let engine = Engine::always(Reply::raw(switch).then(Step::Echo));
    let (_broker, port) = Broker::over(&[&engine]);
    let asks = [
        ("Connection", "keep-alive, Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Key", "x3JJHMbDL1EzLkh9GBhXDw=="),
    ];
    let mut client = Client::connect(port);
    client.start("GET", "/llm", &asks);
    assert_eq!(client.head().status, 101);
    // Lines that no request could have.
    for bytes in [
        &b"\x81\x05hello"[..],
        b"\n\n",
        b"POST\n\r\n\0",
        b"GET / HTTP/1.1\n\n",
        &[0xff; 5000],
    ] {
        client.write(bytes);
        assert_eq!(client.bytes(bytes.len()), bytes);
    }
    engine.now(|r| Reply::with(200, &[], &r.target));
    let mut client = Client::connect(port);
    for _ in 0..2 {
        client.start("GET", "/llm", &asks);
        assert_eq!(client.answer().text(), "/llm");
    }
    client.write("GET /bad HTTP/1.1\nHost: localhost\n\n");
    assert!(client.rest().unwrap().starts_with(b"HTTP/1.1 400 "));
}

#[test]
fn a_client_that_says_no_more_counts_as_gone() {
    let engine = Engine::always(Reply::silence());
    let (broker, port) = Broker::over(&[&engine]);
    for (n, (method, target)) in [("POST", "/api/chat"), ("GET", "/x")]
        .into_iter()
        .enumerate()
    {
        let mut client = Client::connect(port);
        let body = if method == "POST" { CHAT } else { "" };
        client.send(method, target, &[], body.as_bytes());
        engine.hit(n + 1);
        client.half_close();
        assert_eq!(client.rest().unwrap(), b"", "{target}");
        engine.was_left(n + 1);
    }
    let ended = json!(broker.story("1").last());
    assert!(ended.as_str().unwrap().contains("cancelled"), "{ended}");
}
