//! How a standalone daemon ends: signals, the drain, what is cut.

use std::net::TcpStream;

use crate::support::client::{Client, Response};
use crate::support::daemon::{Standalone, World};
use crate::support::engine::{Engine, Gate, Reply};
use crate::support::{ask_until, wait_for};
use crate::{chat, ollama, serve};

/// A daemon with a stream under way that goes on when the gate opens.
struct Streaming {
    world: World,
    daemon: Standalone,
    engine: Engine,
    gate: Gate,
    client: Client,
    head: Response,
}

fn streaming(settings: &str) -> Streaming {
    let gate = Gate::new();
    let engine = ollama(
        &["m"],
        Reply::lines().chunk("1").gate(&gate).chunk("2").end(),
    );
    let world = World::new();
    let daemon = serve(&world, settings, &[("a", &engine)]);
    let mut client = Client::connect(daemon.port);
    client.post("/api/chat", &chat("m"));
    let mut head = client.head();
    assert!(client.read_until(&mut head, "1"));
    Streaming {
        world,
        daemon,
        engine,
        gate,
        client,
        head,
    }
}

impl Streaming {
    /// Asks it to end, and waits until nobody new is let in.
    fn is_told(&self) {
        self.daemon.process.terminate();
        self.daemon.process.log.expect("SIGTERM");
        ask_until("the facade is closed", || {
            TcpStream::connect(("127.0.0.1", self.daemon.port))
                .is_err()
                .then_some(())
        });
    }
}

#[test]
fn sigterm_lets_a_stream_finish_and_ends_with_0() {
    let mut s = streaming("");
    s.is_told();
    assert!(s.daemon.process.runs());
    s.gate.open();
    let answer = s.client.finish(s.head);
    assert!(answer.complete);
    assert_eq!(answer.text(), "12");
    assert_eq!(s.daemon.process.exit_code(), 0);
    assert!(!s.world.socket().exists(), "the socket is taken away");
    assert!(s.daemon.process.log.text().contains("SIGTERM"));
}

#[test]
fn a_second_sigterm_cuts_the_stream() {
    let mut s = streaming("");
    s.is_told();
    s.daemon.process.terminate();
    assert!(!s.client.finish(s.head).complete);
    s.engine.was_left(1);
    assert_eq!(s.daemon.process.exit_code(), 0);
}

#[test]
fn the_drain_has_an_end() {
    let mut s = streaming("drain_timeout = \"100ms\"");
    s.daemon.process.terminate();
    assert!(!s.client.finish(s.head).complete);
    assert_eq!(s.daemon.process.exit_code(), 0);
}

#[test]
fn a_kept_connection_without_a_request_does_not_hold_the_end_up() {
    let engine = ollama(&["m"], crate::says("a"));
    let world = World::new();
    let mut daemon = serve(&world, "", &[("a", &engine)]);
    let mut used = Client::connect(daemon.port);
    used.post("/api/chat", &chat("m"));
    assert_eq!(used.answer().text(), "a");
    let _fresh = Client::connect(daemon.port);
    daemon.process.terminate();
    assert_eq!(daemon.process.exit_code(), 0);
    assert_eq!(
        used.rest().unwrap(),
        b"",
        "closed, not cut within an answer"
    );
}

#[test]
fn sigint_ends_it_like_sigterm() {
    let world = World::new();
    let mut daemon = Standalone::start(&world, &[]);
    assert_eq!(world.run(&["status"]).code, 0);
    daemon.process.signal(rustix::process::Signal::INT);
    assert_eq!(daemon.process.exit_code(), 0);
    wait_for("its output ends", || daemon.out.ended());
}

#[test]
fn a_signal_right_behind_ready_ends_it_orderly() {
    let world = World::new();
    for _ in 0..20 {
        let mut daemon = Standalone::start(&world, &[]);
        daemon.process.terminate();
        assert_eq!(daemon.process.exit_code(), 0);
    }
}

#[test]
fn a_control_command_still_works_while_it_drains() {
    let mut s = streaming("");
    s.is_told();
    let status = s.world.run(&["status", "--json"]);
    assert_eq!(status.code, 0, "{status:?}");
    s.gate.open();
    assert!(s.client.finish(s.head).complete);
    assert_eq!(s.daemon.process.exit_code(), 0);
}
