//! More clients than there are descriptors, and clients that only hold them.

use std::time::Instant;

use crate::support::broker::Broker;
use crate::support::client::{Client, Response, get, post};
use crate::support::engine::{Engine, Gate, Reply};
use crate::support::{LIMIT, ask_until};
use serde_json::json;

/// Open files of the daemon, and the places of clients that follow from them.
const OPEN_FILES: u32 = 64;
const PLACES: usize = 16;

/// A request on a connection of its own: its answer, or nothing if the connection ends before.
fn ask(port: u16) -> (Client, Option<Response>) {
    let mut client = Client::connect(port);
    let request = "GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let answer = match client.try_write(request.as_bytes()) {
        Ok(()) => client.try_head(),
        Err(_) => None,
    };
    let answer = answer.map(|head| client.finish(head));
    (client, answer)
}

#[test]
fn at_its_limit_a_daemon_serves_who_is_there_tells_who_comes_and_recovers() {
    let gate = Gate::new();
    let behind = gate.clone();
    let engine = Engine::start(move |r| match &*r.target {
        "/api/chat" => Reply::lines()
            .chunk("one\n")
            .gate(&behind)
            .chunk("two\n")
            .end(),
        _ => Reply::with(200, &[], "ok"),
    });
    let mut broker = Broker::with_open_files(OPEN_FILES);
    let port = broker.enable("ollama");
    broker.join("ollama", &[&engine]);

    // Streams under way, each with an engine's connection of its own.
    let mut streams: Vec<_> = (0..PLACES / 2)
        .map(|_| {
            let mut client = Client::connect(port);
            client.post("/api/chat", &json!({"model": "m"}));
            let mut answer = client.head();
            assert!(client.read_until(&mut answer, "one\n"));
            (client, answer)
        })
        .collect();
    // And clients that keep their connections.
    let mut held = Vec::new();
    while held.len() < PLACES / 2 {
        let (client, answer) = ask(port);
        assert_eq!(answer.expect("a place is free").text(), "ok");
        held.push(client);
    }

    // From here on everybody is refused, many times over, and told if they come one by one.
    for _ in 0..100 {
        // Unless too many are being told so already.
        let (mut client, answer) = ask_until("it is told", || {
            let (client, answer) = ask(port);
            answer.map(|answer| (client, answer))
        });
        assert_eq!(answer.status, 503);
        assert_eq!(answer.json()["code"], "overloaded");
        assert!(answer.json()["error"].is_string());
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert_eq!(answer.header("connection"), Some("close"));
        assert_eq!(client.rest().unwrap(), b"");
    }
    // A crowd at once: each is told or closed, none waits.
    let crowd: Vec<_> = (0..100).map(|_| Client::connect(port)).collect();
    for mut client in crowd {
        assert_eq!(client.rest().unwrap(), b"", "said nothing, heard nothing");
    }
    let log = broker.process.log.text();
    assert_eq!(log.matches("too many connections").count(), 1, "{log}");
    assert!(!log.contains("Too many open files"), "{log}");

    // Those who were there are served to the end.
    gate.open();
    for (client, answer) in streams.drain(..) {
        let mut client = client;
        assert_eq!(client.finish(answer).text(), "one\ntwo\n");
    }
    for client in &mut held {
        client.start("GET", "/y", &[]);
        assert_eq!(client.answer().text(), "ok");
    }
    drop(held);
    let again = ask_until("there is a place again", || {
        ask(port).1.filter(|answer| answer.status == 200)
    });
    assert_eq!(again.text(), "ok");
    assert!(broker.process.runs());
}

#[test]
fn a_large_body_of_who_is_refused_does_not_cost_the_answer() {
    let engine = Engine::serving("ok");
    let broker = Broker::with_open_files(OPEN_FILES);
    let port = broker.enable("ollama");
    broker.join("ollama", &[&engine]);
    let _held: Vec<_> = (0..PLACES)
        .map(|_| {
            let (client, answer) = ask(port);
            assert_eq!(answer.unwrap().status, 200);
            client
        })
        .collect();
    let body = vec![b'x'; 100_000];
    let mut client = Client::connect(port);
    client.send("POST", "/api/chat", &[], &body);
    assert_eq!(client.answer().status, 503);
    assert_eq!(engine.hits(), PLACES);
}

#[test]
fn without_any_descriptor_left_nothing_ends_and_nothing_spins() {
    // Fewer than the daemon opens by itself with all its clients: accepting fails now and then.
    let engine = Engine::serving("ok");
    let mut broker = Broker::with_open_files(21);
    let port = broker.enable("ollama");
    broker.join("ollama", &[&engine]);
    let crowd: Vec<_> = (0..60)
        .map(|_| {
            let mut client = Client::connect(port);
            // It may be refused by now.
            drop(client.try_write(b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            client
        })
        .collect();
    drop(crowd);
    let answer = ask_until("it serves again", || {
        ask(port).1.filter(|answer| answer.status == 200)
    });
    assert_eq!(answer.text(), "ok");
    assert!(broker.process.runs());
    let log = broker.process.log.text();
    assert!(
        !log.contains("panicked") && log.lines().count() < 200,
        "{log}"
    );
}

/// Sends a byte now and then; whether the other side has ended the connection.
fn trickle(client: &mut Client) -> bool {
    client.try_write(b"x").is_err() || client.has_answer()
}

#[test]
fn slow_clients_are_dropped_in_time_and_cost_nobody_anything() {
    let engine = Engine::serving("ok");
    let (_broker, port) = Broker::over(&[&engine]);
    let begun = Instant::now();
    // Heads that never end: on the way to either lane, on a fresh connection and on a used one.
    let mut slow: Vec<_> = (0..60)
        .map(|n| {
            let mut client = Client::connect(port);
            if n % 2 == 0 {
                client.post("/api/chat", &json!({"model": "m"}));
                assert_eq!(client.answer().text(), "ok");
            }
            client.write(match n % 3 {
                0 => "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nX-A: ",
                1 => "GET /x HTTP/1.1\r\nHost: localhost\r\nX-A: ",
                _ => "G",
            });
            client
        })
        .collect();
    while !slow.is_empty() {
        assert_eq!(post(port, "/api/chat", &json!({"model": "m"})).text(), "ok");
        assert_eq!(get(port, "/y").text(), "ok");
        slow.retain_mut(|client| !trickle(client));
        assert!(begun.elapsed() < LIMIT, "{} are still there", slow.len());
        let mut pause = Some(());
        // Slower than it would take to end a head.
        ask_until("a while went by", || pause.take().is_none().then_some(()));
    }
    let took = begun.elapsed().as_secs();
    assert!(took >= 9, "a head has ten seconds, not {took}");
}
