//! What engines see of the caller's trace context.

use crate::collector::Collector;
use crate::support::client::Client;
use crate::support::daemon::World;
use crate::support::engine::{Engine, Request};
use crate::{TRACE, caller, chat, counted, ollama, serve, telemetry};

/// A request with these lines on either lane, as the engine got it.
fn sent(port: u16, engine: &Engine, plain: bool, lines: &[(&str, &str)]) -> Request {
    let before = engine.requests_for("/api/chat").len();
    let body = chat("m").to_string();
    let mut client = Client::connect(port);
    if plain {
        client.send("POST", "/api/chat", lines, body.as_bytes());
    } else {
        let all = [lines, &[("Transfer-Encoding", "chunked")]].concat();
        client.start("POST", "/api/chat", &all);
        client.write(format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()));
    }
    assert_eq!(client.answer().status, 200);
    engine.requests_for("/api/chat").remove(before)
}

#[test]
fn where_telemetry_is_off_the_lines_pass_untouched() {
    let engine = ollama(&["m"], counted());
    let world = World::new();
    let (daemon, _) = serve(&world, "", &[("n", engine.port())]);
    let lines = [
        ("TraceParent", "what-ever"),
        ("X-Between", "1"),
        ("tracestate", "a"),
        ("TRACESTATE", "b=2"),
        ("traceparent", "again"),
    ];
    for plain in [true, false] {
        let got = sent(daemon.port, &engine, plain, &lines);
        assert_eq!(
            got.headers_of("traceparent"),
            ["what-ever", "again"],
            "{plain}"
        );
        assert_eq!(got.headers_of("tracestate"), ["a", "b=2"], "{plain}");
        if plain {
            let mut names = got.headers.iter().map(|(n, _)| n.as_str());
            assert!(names.any(|n| n == "TraceParent") && names.any(|n| n == "TRACESTATE"));
        }
    }
    let bare = sent(daemon.port, &engine, true, &[]);
    assert_eq!(bare.header("traceparent"), None, "and none is made up");
}

#[test]
fn a_caller_that_does_not_record_is_believed() {
    let collector = Collector::start();
    let engine = ollama(&["m"], counted());
    let world = World::new();
    let (daemon, _) = serve(&world, &telemetry(&collector, ""), &[("n", engine.port())]);
    let quiet = caller(false);
    for plain in [true, false] {
        let lines = [("traceparent", quiet.as_str()), ("tracestate", "a=1")];
        let got = sent(daemon.port, &engine, plain, &lines);
        let told = got.headers_of("traceparent");
        let [told] = told.as_slice() else {
            panic!("{told:?}")
        };
        assert!(
            told.starts_with(&format!("00-{TRACE}-")) && told.ends_with("-00"),
            "{told}"
        );
        assert_ne!(*told, quiet, "a span of its own all the same");
        assert_eq!(got.headers_of("tracestate"), ["a=1"]);
    }
    // One that is recorded shows that the others would have been there.
    let loud = caller(true);
    sent(daemon.port, &engine, true, &[("traceparent", &loud)]);
    collector.expect(2);
}

#[test]
fn a_malformed_caller_is_ignored_with_its_state() {
    let collector = Collector::start();
    let engine = ollama(&["m"], counted());
    let world = World::new();
    let more = telemetry(&collector, "sample_percent = 0");
    let (daemon, _) = serve(&world, &more, &[("n", engine.port())]);
    let good = caller(true);
    let upper = good.to_uppercase();
    let cases: [&[(&str, &str)]; 4] = [
        &[("traceparent", "nonsense"), ("tracestate", "a=1")],
        &[("traceparent", &upper), ("tracestate", "a=1")],
        &[
            ("traceparent", &good),
            ("traceparent", &good),
            ("tracestate", "a=1"),
        ],
        &[("tracestate", "a=1"), ("tracestate", "b=2")],
    ];
    for plain in [true, false] {
        for lines in cases {
            let got = sent(daemon.port, &engine, plain, lines);
            let told = got.headers_of("traceparent");
            let [told] = told.as_slice() else {
                panic!("{lines:?}: {told:?}")
            };
            assert!(
                !told.contains(TRACE) && told.ends_with("-02"),
                "{lines:?}: {told}"
            );
            assert_eq!(got.header("tracestate"), None, "{lines:?}");
        }
        // A bad state alone costs the state alone.
        let lines = [("traceparent", good.as_str()), ("tracestate", "bad")];
        let got = sent(daemon.port, &engine, plain, &lines);
        assert!(got.header("traceparent").unwrap().contains(TRACE));
        assert_eq!(got.header("tracestate"), None);
    }
    let spans = collector.expect(4);
    assert!(
        spans.iter().all(|s| s.trace() == TRACE),
        "no new trace is recorded at 0 percent"
    );
}

#[test]
fn several_lines_of_state_are_one_and_other_headers_stay() {
    let collector = Collector::start();
    let engine = ollama(&["m"], counted());
    let world = World::new();
    let (daemon, _) = serve(&world, &telemetry(&collector, ""), &[("n", engine.port())]);
    let good = caller(true);
    let lines = [
        ("X-Before", "1"),
        ("traceparent", good.as_str()),
        ("tracestate", "a=1"),
        ("Authorization", "Bearer theirs"),
        ("tracestate", "b=2"),
        ("X-After", "2"),
    ];
    for plain in [true, false] {
        let got = sent(daemon.port, &engine, plain, &lines);
        assert_eq!(got.headers_of("tracestate").join(","), "a=1,b=2");
        for (name, value) in [
            ("x-before", "1"),
            ("authorization", "Bearer theirs"),
            ("x-after", "2"),
        ] {
            assert_eq!(got.headers_of(name), [value]);
        }
    }
    let spans = collector.expect(4);
    assert!(
        spans.iter().all(|s| s.raw.trace_state == "a=1,b=2"),
        "{spans:#?}"
    );
}
