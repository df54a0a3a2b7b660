//! A client that leaves, and an end of the daemon: the engine is told, the workload is cancelled
//! exactly once.

use serde_json::json;

use crate::support::broker::Broker;
use crate::support::client::Client;
use crate::support::engine::{Engine, Gate, Reply, Step};
use crate::support::wait_for;

fn asking(port: u16) -> Client {
    let mut client = Client::connect(port);
    client.post("/api/chat", &json!({"model": "m"}));
    client
}

fn error_of(broker: &Broker) -> String {
    let all = broker.workloads();
    let (_, last) = all.last().unwrap();
    last["error"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_client_that_leaves_while_headers_are_awaited_cancels_the_attempt() {
    let (engine, other) = (Engine::always(Reply::silence()), Engine::serving("other"));
    let (broker, port) = Broker::over(&[&engine, &other]);
    let client = asking(port);
    engine.hit(1);
    drop(client);
    engine.was_left(1);
    assert_eq!(
        broker.story("1"),
        [
            "submitted queued -",
            "submitted queued n0",
            "errored cancelled n0"
        ]
    );
    assert_eq!(error_of(&broker), "client disconnected before completion");
    assert_eq!(other.hits(), 0);
}

#[test]
fn a_client_that_leaves_within_its_request_is_told_of_as_gone() {
    let engine = Engine::serving("ok");
    let (broker, port) = Broker::over(&[&engine]);
    let mut id = 0;
    for target in ["/api/chat", "/x"] {
        for framing in ["Content-Length: 99", "Transfer-Encoding: chunked"] {
            for leave in [Client::half_close as fn(&Client), |_| ()] {
                let mut client = Client::connect(port);
                client.write(format!(
                    "POST {target} HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n5\r\n{{\"mod"
                ));
                leave(&client);
                drop(client);
                id += 1;
                let number = id.to_string();
                let end = broker.expect("ollama:proxy/request", |p| p["id"] == number);
                let told = (&end["status"], &end["error"]);
                let why = json!("client disconnected before completion");
                assert_eq!(told, (&json!(0), &why), "{target} {framing}");
            }
        }
    }
    assert_eq!(engine.hits(), 0);
}

#[test]
fn a_client_that_leaves_while_content_is_awaited_cancels_the_attempt() {
    let engine = Engine::always(Reply::lines().then(Step::Hang));
    let (broker, port) = Broker::over(&[&engine]);
    let client = asking(port);
    engine.hit(1);
    client.reset();
    engine.was_left(1);
    assert_eq!(broker.story("1").last().unwrap(), "errored cancelled n0");
}

#[test]
fn a_client_that_leaves_between_rounds_ends_the_request() {
    let engine = Engine::always(Reply::status(503));
    let (broker, port) = Broker::over(&[&engine]);
    let client = asking(port);
    broker.expect("workload:submitted", |p| {
        let w = &p["workloadInfo"];
        w["seq"] == 3 && w.get("scheduledOn").is_none()
    });
    drop(client);
    assert_eq!(
        broker.story("1"),
        [
            "submitted queued -",
            "submitted queued n0",
            "submitted queued -",
            "errored cancelled -",
        ]
    );
    assert_eq!(engine.hits(), 1, "no further attempt");
}

#[test]
fn a_client_that_leaves_in_the_stream_closes_the_engines_connection() {
    let engine = Engine::always(Reply::lines().chunk("1").then(Step::Hang));
    let (broker, port) = Broker::over(&[&engine]);
    let mut client = asking(port);
    let mut head = client.head();
    assert!(client.read_until(&mut head, "1"));
    drop(client);
    engine.was_left(1);
    let story = broker.story("1");
    assert_eq!(story[2..], ["started running n0", "errored cancelled n0"]);
    let request = broker.expect("ollama:proxy/request", |p| p["id"] == "1");
    assert_eq!(
        (&request["status"], &request["node_id"]),
        (&json!(200), &json!("n0"))
    );
}

#[test]
fn a_half_closed_client_counts_as_gone() {
    let engine = Engine::always(Reply::lines().chunk("1").then(Step::Hang));
    let (broker, port) = Broker::over(&[&engine]);
    let mut client = asking(port);
    let mut head = client.head();
    assert!(client.read_until(&mut head, "1"));
    client.half_close();
    engine.was_left(1);
    assert_eq!(broker.story("1").last().unwrap(), "errored cancelled n0");
}

#[test]
fn a_request_on_another_route_is_cancelled_with_its_client_too() {
    let engine = Engine::always(Reply::lines().chunk("1").then(Step::Hang));
    let (broker, port) = Broker::over(&[&engine]);
    let mut client = Client::connect(port);
    client.post("/api/pull", &json!({"model": "m"}));
    let mut head = client.head();
    assert!(client.read_until(&mut head, "1"));
    drop(client);
    engine.was_left(1);
    broker.expect("ollama:proxy/request", |p| !p["error"].is_null());
    assert!(broker.workloads().is_empty());
}

/// Ends the daemon in the middle of a stream; the client sees a cut, the broker one cancelled end.
fn ends_mid_stream(end: impl Fn(&Broker)) {
    let engine = Engine::always(Reply::lines().chunk("1").then(Step::Hang));
    let (mut broker, port) = Broker::over(&[&engine]);
    let mut client = asking(port);
    let mut head = client.head();
    assert!(client.read_until(&mut head, "1"));
    end(&broker);
    assert!(
        !client.finish(head).complete,
        "a cut answer must not look whole"
    );
    engine.was_left(1);
    assert_eq!(broker.process.exit_code(), 0);
    wait_for("the link ends", || broker.link_ended());
    let ends: Vec<_> = broker
        .workloads()
        .into_iter()
        .filter(|(m, _)| m != "submitted")
        .collect();
    let [(started, _), (errored, last)] = &ends[..] else {
        panic!("{ends:#?}")
    };
    assert_eq!((started.as_str(), errored.as_str()), ("started", "errored"));
    assert_eq!(
        (&last["state"], &last["seq"]),
        (&json!("cancelled"), &json!(4))
    );
    assert_eq!(last["error"], "request cancelled before completion");
}

#[test]
fn the_end_of_the_link_cuts_a_stream_and_cancels_it() {
    ends_mid_stream(Broker::close);
}

#[test]
fn the_shutdown_call_cuts_a_stream_and_cancels_it() {
    ends_mid_stream(|b| drop(b.request("shutdown", &json!({}))));
}

#[test]
fn sigterm_cuts_a_stream_and_cancels_it() {
    ends_mid_stream(|b| b.process.terminate());
}

#[test]
fn a_client_that_comes_back_finds_the_facade_serving() {
    let gate = Gate::new();
    let engine = Engine::always(Reply::lines().chunk("1").gate(&gate).end());
    let (broker, port) = Broker::over(&[&engine]);
    for n in 1..=5 {
        let client = asking(port);
        gate.reached_by(n);
        drop(client);
        engine.was_left(n);
    }
    gate.open();
    assert_eq!(asking(port).answer().text(), "1");
    for id in 1..=5 {
        assert!(
            broker
                .story(&id.to_string())
                .last()
                .unwrap()
                .contains("cancelled")
        );
    }
}
