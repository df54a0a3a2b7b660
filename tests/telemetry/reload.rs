//! `[telemetry]` and `[admin]` change while requests are served.

use std::net::TcpStream;

use crate::collector::Collector;
use crate::support::client::{Client, get, post};
use crate::support::daemon::World;
use crate::support::engine::{Gate, Reply};
use crate::support::{ask_until, free_port};
use crate::{chat, config, counted, ollama, serve, telemetry};

#[test]
fn telemetry_is_turned_on_moved_and_turned_off() {
    let (first, second) = (Collector::start(), Collector::start());
    let engine = ollama(&["m"], counted());
    let nodes = [("n", engine.port())];
    let world = World::new();
    let (daemon, path) = serve(&world, "", &nodes);
    assert!(world.json(&["status"]).get("telemetry").is_none());
    let change = |more: &str| {
        std::fs::write(&path, config(more, &nodes)).unwrap();
        let said = world.run(&["config", "reload"]);
        assert_eq!(said.code, 0, "{said:?}");
        assert!(!said.out.contains("restart"), "{said:?}");
    };
    let traced = || {
        assert_eq!(post(daemon.port, "/api/chat", &chat("m")).status, 200);
        let last = engine.requests_for("/api/chat").pop().unwrap();
        last.header("traceparent").is_some()
    };
    // A request that began before a change goes on as it began.
    assert!(!traced());
    change(&telemetry(&first, "metrics = false"));
    ask_until("on", || traced().then_some(()));
    first.engine.hit(1);
    change(&telemetry(&second, "metrics = false"));
    ask_until("moved", || {
        traced();
        (!second.spans().is_empty()).then_some(())
    });
    change("");
    ask_until("off", || (!traced()).then_some(()));
    assert!(world.json(&["status"]).get("telemetry").is_none());
}

#[test]
fn the_admin_listener_comes_moves_and_goes_and_a_taken_place_keeps_the_old_one() {
    let engine = ollama(&["m"], counted());
    let nodes = [("n", engine.port())];
    let world = World::new();
    let (daemon, path) = serve(&world, "", &nodes);
    let at = |port: u16| format!("[admin]\nlisten = \"127.0.0.1:{port}\"\n");
    let change = |more: &str| {
        std::fs::write(&path, config(more, &nodes)).unwrap();
        let said = world.run(&["config", "reload"]);
        assert_eq!(said.code, 0, "{said:?}");
    };
    let is_open = |port| TcpStream::connect(("127.0.0.1", port)).is_ok();
    let (one, two) = (free_port(), free_port());
    change(&at(one));
    ask_until("open", || is_open(one).then_some(()));
    assert_eq!(get(one, "/readyz").status, 200);
    change(&at(two));
    ask_until("moved", || (is_open(two) && !is_open(one)).then_some(()));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    change(&at(taken.local_addr().unwrap().port()));
    daemon
        .process
        .log
        .expect("the admin listener does not start");
    assert_eq!(get(two, "/livez").status, 200, "the old one stays");
    change("");
    ask_until("gone", || (!is_open(two)).then_some(()));
}

#[test]
fn a_request_under_way_ends_as_it_began() {
    let collector = Collector::start();
    let gate = Gate::new();
    let engine = ollama(
        &["m"],
        Reply::lines().chunk("1").gate(&gate).chunk("2").end(),
    );
    let nodes = [("n", engine.port())];
    let world = World::new();
    let (daemon, path) = serve(&world, &telemetry(&collector, "metrics = false"), &nodes);
    let mut client = Client::connect(daemon.port);
    client.post("/api/chat", &chat("m"));
    let mut answer = client.head();
    assert!(client.read_until(&mut answer, "1"));
    let off = telemetry(&collector, "metrics = false\nservice_name = \"later\"");
    std::fs::write(&path, config(&off, &nodes)).unwrap();
    assert_eq!(world.run(&["config", "reload"]).code, 0);
    gate.open();
    let answer = client.finish(answer);
    assert!(answer.complete && answer.text().ends_with('2'));
    let spans = collector.expect(2);
    assert!(spans.iter().all(|s| s.service == "later"), "{spans:#?}");
}
