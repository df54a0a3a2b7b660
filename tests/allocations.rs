//! A span that is dropped costs no memory: counted by an allocator that this binary alone has.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use nvpair_proxy::rules::candidates::{Kind, Target};
use nvpair_proxy::rules::engine::EngineId;
use nvpair_proxy::rules::ids::NodeId;
use nvpair_proxy::rules::outcome::Failure;
use nvpair_proxy::rules::pool::record::PoolEngine;
use nvpair_proxy::rules::reservations::Seat;
use nvpair_proxy::rules::semantics::{ErrorType, Operation};
use nvpair_proxy::rules::workload::State;
use nvpair_proxy::telemetry::hub::{Switches, Telemetry};
use nvpair_proxy::telemetry::request::{About, Ending};
use tokio::time::Instant;

const CALLER: &[u8] = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn target() -> Arc<Target> {
    Arc::new(Target {
        facade: EngineId::GATEWAY,
        runs: PoolEngine::OpenAi,
        node: NodeId::from("tower"),
        seat: Arc::new(Seat::default()),
        kind: Kind::Manual,
        host: "tower.lan".into(),
        name: "tower.lan".into(),
        port: 11434,
        authority: "tower.lan:11434".into(),
        host_header: HeaderValue::from_static("tower.lan:11434"),
        prefix: String::new(),
        bearer: None,
        slots: 1,
        weight: 1,
        unconfirmed: false,
    })
}

/// A request with a lost attempt and an answered one, as `facade::report` tells of it.
fn request(telemetry: &Telemetry, target: &Arc<Target>, arrived: Instant) {
    let about = About {
        engine: EngineId::all().next().expect("there are engines"),
        arrived,
        operation: Some(Operation::Chat),
        model: Some("qwen3:8b"),
    };
    let seen = telemetry.see([CALLER].into_iter(), std::iter::empty(), 1);
    let mut seen = seen.expect("telemetry is on");
    seen.dispatched(telemetry, target);
    let told = seen.outgoing().expect("traces are on");
    assert_eq!(told.parent[..36], CALLER[..36]);
    seen.lost(telemetry, about, Failure::Status(503));
    seen.dispatched(telemetry, target);
    seen.answered(500);
    let ending = Ending {
        state: State::Failed,
        error: Some(ErrorType::Status(500)),
        status: Some(500),
        truncated: false,
        owned: true,
        stats: None,
        method: "POST",
        route: Some("/api/chat"),
    };
    seen.ended(telemetry, about, ending, || Some("run/ollama/1".into()));
}

#[test]
fn a_dropped_span_allocates_nothing() {
    let (telemetry, mut spans) = Telemetry::with_queue(3);
    telemetry.switch(Switches {
        traces: Some(100),
        metrics: true,
    });
    let (target, arrived) = (target(), Instant::now());
    // Fills the queue, and every series of the instruments.
    let filling = allocation_counter::measure(|| request(&telemetry, &target, arrived));
    assert!(filling.count_total > 0, "spans with room for them are made");
    assert_eq!(
        (telemetry.spans.waiting(), telemetry.spans.dropped()),
        (3, 0)
    );
    let dropping = allocation_counter::measure(|| {
        for _ in 0..10_000 {
            request(&telemetry, &target, arrived);
        }
    });
    assert_eq!(dropping.count_total, 0, "{dropping:?}");
    assert_eq!(telemetry.spans.dropped(), 30_000);
    // And there is room again once somebody takes one.
    assert!(spans.try_recv().is_ok());
    request(&telemetry, &target, arrived);
    assert_eq!(
        (telemetry.spans.waiting(), telemetry.spans.dropped()),
        (3, 30_002)
    );
}

#[test]
fn a_request_costs_no_memory_where_telemetry_is_off() {
    let (telemetry, _spans) = Telemetry::new();
    let looking = allocation_counter::measure(|| {
        for _ in 0..10_000 {
            let seen = telemetry.see([CALLER].into_iter(), std::iter::empty(), 1);
            assert!(seen.is_none());
        }
    });
    assert_eq!(looking.count_total, 0, "{looking:?}");
}

#[test]
fn a_measured_request_costs_no_memory_once_its_series_is_there() {
    let (telemetry, _spans) = Telemetry::new();
    telemetry.switch(Switches {
        traces: None,
        metrics: true,
    });
    let engine = EngineId::all().next().expect("there are engines");
    let ended = nvpair_proxy::telemetry::metrics::Ended {
        engine,
        state: State::Completed,
        error: None,
        took: Duration::from_millis(5),
        inference: None,
    };
    telemetry.metrics.ended(&ended);
    let counting = allocation_counter::measure(|| telemetry.metrics.ended(&ended));
    assert_eq!(counting.count_total, 0, "{counting:?}");
}
