//! Collectors that are away, slow or wrong: requests never notice, and what is lost is counted.

use serde_json::json;

use crate::collector::Collector;
use crate::support::client::{Client, post};
use crate::support::daemon::{Standalone, World};
use crate::support::engine::{Engine, Reply};
use crate::support::{ask_until, free_port};
use crate::{chat, counted, ollama, serve, telemetry, telemetry_at};

/// Waits until `status` says so of telemetry.
#[track_caller]
fn told(world: &World, what: &str, is: impl Fn(&serde_json::Value) -> bool) {
    ask_until(what, || {
        let told = world.json(&["status"])["telemetry"].clone();
        is(&told).then_some(())
    });
}

fn ask(daemon: &Standalone) {
    assert_eq!(post(daemon.port, "/api/chat", &chat("m")).status, 200);
}

#[test]
fn a_collector_that_is_away_is_told_of_and_requests_go_on() {
    let engine = ollama(&["m"], counted());
    let (world, nobody) = (World::new(), free_port());
    let more = telemetry_at(nobody, "metrics = false");
    let (mut daemon, _) = serve(&world, &more, &[("n", engine.port())]);
    ask(&daemon);
    told(&world, "a problem", |t| {
        t["problem"] == "connection refused"
    });
    daemon.process.log.expect("takes nothing");
    // It comes back before the batch is given up.
    let collector = Engine::on(nobody, |_| Reply::json(200, &json!({})));
    told(&world, "all sent", |t| {
        t["problem"].is_null() && t["sent"] == 2 && t["dropped"] == 0
    });
    daemon.process.log.expect("takes data again");
    drop(collector);
    ask(&daemon);
    daemon.process.terminate();
    assert_eq!(daemon.process.exit_code(), 0, "an end does not wait for it");
}

#[test]
fn a_batch_that_is_refused_for_good_is_lost_and_counted() {
    for status in [400, 404, 413, 500] {
        let collector = Collector::answering(Reply::status(status));
        let engine = ollama(&["m"], counted());
        let world = World::new();
        let more = telemetry(&collector, "metrics = false");
        let (daemon, _) = serve(&world, &more, &[("n", engine.port())]);
        ask(&daemon);
        told(&world, "lost", |t| t["dropped"] == 2 && t["sent"] == 0);
        assert_eq!(collector.engine.hits(), 1, "{status} is not tried again");
        let shown = world.run(&["status"]).out;
        assert!(
            shown.contains(&format!("does not take it: HTTP {status}, 2 spans lost")),
            "{shown}"
        );
    }
}

#[test]
fn what_may_be_taken_later_is_sent_again() {
    let collector = Collector::start();
    let again = std::sync::atomic::AtomicUsize::new(0);
    collector.engine.now(move |_| {
        let n = again.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        match n {
            0 => Reply::with(503, &[("Retry-After", "1")], "busy"),
            1 => Reply::status(429),
            _ => Reply::json(200, &json!({"partialSuccess": {"rejectedSpans": "1"}})),
        }
    });
    let engine = ollama(&["m"], counted());
    let world = World::new();
    let more = telemetry(&collector, "metrics = false");
    let (daemon, _) = serve(&world, &more, &[("n", engine.port())]);
    ask(&daemon);
    told(&world, "taken but for one", |t| {
        t["dropped"] == 1 && t["sent"] == 1
    });
    assert_eq!(collector.engine.hits(), 3);
    let sent = collector.engine.requests();
    assert!(
        sent.iter().all(|r| r.body == sent[0].body),
        "the same document each time"
    );
    assert!(
        sent.iter().all(|r| r.connection == sent[0].connection),
        "over one connection"
    );
}

#[test]
fn a_queue_that_is_full_drops_and_counts_and_holds_nobody_up() {
    let collector = Collector::answering(Reply::silence());
    let engine = ollama(&["m"], counted());
    let world = World::new();
    let more = telemetry(&collector, "metrics = false");
    let (daemon, _) = serve(&world, &more, &[("n", engine.port())]);
    ask(&daemon);
    // The first batch is on its way, to somebody who never answers.
    collector.engine.hit(1);
    let mut client = Client::connect(daemon.port);
    for _ in 0..600 {
        client.post("/api/chat", &chat("m"));
        assert_eq!(client.answer().status, 200);
    }
    told(&world, "a full queue", |t| {
        let n = |key: &str| t[key].as_u64().unwrap();
        n("sent") == 0 && n("queued") <= 1024 && n("dropped") > 0
    });
}

#[test]
fn the_end_sends_what_is_left() {
    let collector = Collector::start();
    let engine = ollama(&["m"], counted());
    let world = World::new();
    // Nothing would be sent for an hour.
    let more = telemetry(&collector, "").replace("\"1s\"", "\"1h\"");
    let (mut daemon, _) = serve(&world, &more, &[("n", engine.port())]);
    ask(&daemon);
    daemon.process.terminate();
    assert_eq!(daemon.process.exit_code(), 0);
    assert_eq!(collector.spans().len(), 2);
    collector.expect_point("nvpair_proxy.requests", &[("state", "completed")], 1);
}

#[test]
fn the_end_does_not_wait_for_one_who_never_answers() {
    let collector = Collector::answering(Reply::silence());
    let engine = ollama(&["m"], counted());
    let world = World::new();
    let (mut daemon, _) = serve(&world, &telemetry(&collector, ""), &[("n", engine.port())]);
    ask(&daemon);
    collector.engine.hit(1);
    daemon.process.terminate();
    assert_eq!(daemon.process.exit_code(), 0);
    daemon
        .process
        .log
        .expect("did not take the last spans in time");
}
