//! One thing that goes wrong takes nothing else with it (spec §3.2).

use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::{Value, json};

use crate::support::broker::Broker;
use crate::support::client::{Client, post};
use crate::support::engine::{Engine, Gate, Reply, Step};
use crate::support::{ask_until, free_port};

fn chat() -> Value {
    json!({"model": "m"})
}

#[test]
fn one_engines_bind_failure_leaves_the_others_and_can_be_mended() {
    let engine = Engine::serving("ok");
    let (broker, port) = Broker::over(&[&engine]);
    let holder = TcpListener::bind("0.0.0.0:0").unwrap();
    let taken = holder.local_addr().unwrap().port();
    let params = json!({"engine": "lmstudio", "port": taken, "ignorePersistedPort": true});
    let refused = broker.call("facade/enable", &params).unwrap_err();
    assert_eq!(refused["code"], -32010);
    let told = broker.expect("lmstudio:error", |p| p["code"] == "bind-failed");
    assert_eq!(told["port"], taken);
    assert_eq!(post(port, "/api/chat", &chat()).text(), "ok");
    let unknown = broker.call("lmstudio:nodes/list", &json!({})).unwrap_err();
    assert_eq!(unknown["code"], -32002);
    let other = broker.enable("lmstudio");
    broker.join("lmstudio", &[&engine]);
    assert_eq!(post(other, "/v1/completions", &chat()).text(), "ok");
}

#[test]
fn a_facade_that_cannot_move_stays_where_it_is() {
    let engine = Engine::serving("ok");
    let (broker, port) = Broker::over(&[&engine]);
    let holder = TcpListener::bind("0.0.0.0:0").unwrap();
    let taken = holder.local_addr().unwrap().port();
    broker
        .call("ollama:set-port", &json!({"port": taken}))
        .unwrap_err();
    assert_eq!(post(port, "/api/chat", &chat()).text(), "ok");
}

#[test]
fn a_facade_that_moves_finishes_what_it_began_on_the_old_port() {
    let gate = Gate::new();
    let engine = Engine::always(Reply::lines().chunk("1").gate(&gate).chunk("2").end());
    let (broker, port) = Broker::over(&[&engine]);
    let mut client = Client::connect(port);
    client.post("/api/chat", &chat());
    let mut head = client.head();
    assert!(client.read_until(&mut head, "1"));
    let other = free_port();
    broker.request("ollama:set-port", &json!({"port": other}));
    ask_until("the old port is closed", || {
        TcpStream::connect(("127.0.0.1", port))
            .is_err()
            .then_some(())
    });
    gate.open();
    assert_eq!(client.finish(head).text(), "12");
    assert_eq!(post(other, "/api/chat", &chat()).text(), "12");
}

/// An engine ends its answer in this way behind the first bytes: the client must not take them for
/// a whole answer, and the workload is over.
fn is_cut(reply: Reply, gate: &Gate) {
    let engine = Engine::always(reply);
    let (broker, port) = Broker::over(&[&engine]);
    let mut client = Client::connect(port);
    client.post("/api/chat", &chat());
    let mut head = client.head();
    assert!(client.read_until(&mut head, "part"));
    gate.open();
    let answer = client.finish(head);
    assert!(!answer.complete, "{answer:?}");
    assert_eq!(answer.text(), "part");
    assert_eq!(broker.story("1").last().unwrap(), "completed completed n0");
    let request = broker.expect("ollama:proxy/request", |p| p["id"] == "1");
    assert_eq!(request["error"], "upstream stream aborted mid-response");
}

#[test]
fn a_stream_that_its_engine_breaks_off_is_broken_off_for_the_client() {
    for end in [Step::Close, Step::Reset, Step::Die, Step::HalfClose] {
        let gate = Gate::new();
        is_cut(Reply::lines().chunk("part").gate(&gate).then(end), &gate);
    }
}

#[test]
fn a_body_shorter_than_it_said_is_broken_off_for_the_client() {
    let gate = Gate::new();
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\npart";
    is_cut(Reply::raw(head).gate(&gate).then(Step::Close), &gate);
}

#[test]
fn a_chunk_that_is_no_chunk_breaks_the_answer_off() {
    let gate = Gate::new();
    let nonsense = Step::Send(b"zz\r\nnonsense\r\n".to_vec());
    is_cut(
        Reply::lines()
            .chunk("part")
            .gate(&gate)
            .then(nonsense)
            .then(Step::Hang),
        &gate,
    );
}

#[test]
fn an_engine_that_dies_takes_only_its_own_streams() {
    let (gate, dying) = (Gate::new(), Gate::new());
    let a = Engine::always(Reply::lines().chunk("part").gate(&dying).then(Step::Die));
    let b = Engine::always(Reply::lines().chunk("1").gate(&gate).chunk("2").end());
    let (broker, port) = Broker::with_facade("ollama");
    broker.node("ollama", "a", a.port(), &["ma"]);
    broker.node("ollama", "b", b.port(), &["mb"]);
    let begin = |model: &str, text: &str| {
        let mut client = Client::connect(port);
        client.post("/api/chat", &json!({ "model": model }));
        let mut head = client.head();
        assert!(client.read_until(&mut head, text));
        (client, head)
    };
    let cut: Vec<_> = (0..4).map(|_| begin("ma", "part")).collect();
    let kept: Vec<_> = (0..4).map(|_| begin("mb", "1")).collect();
    dying.open();
    for (mut client, head) in cut {
        assert!(!client.finish(head).complete);
    }
    gate.open();
    for (mut client, head) in kept {
        assert_eq!(client.finish(head).text(), "12");
    }
    for id in 1..=8 {
        let story = broker.story(&id.to_string());
        assert!(story.last().unwrap().starts_with("completed"), "{story:?}");
    }
}

#[test]
fn many_streams_at_once_are_never_mixed() {
    let engine = Engine::start(|request| {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let mark = body["mark"].as_str().unwrap().to_owned();
        let piece = mark.repeat(200);
        (0..50)
            .fold(Reply::lines(), |reply, _| reply.chunk(&piece))
            .end()
    });
    let other = Engine::always(Reply::status(503));
    let (broker, port) = Broker::over(&[&other, &engine]);
    let clients: Vec<_> = (0..16)
        .map(|n| {
            thread::spawn(move || {
                let mark = format!("[{n:02}]");
                let mut client = Client::connect(port);
                for _ in 0..3 {
                    client.post("/api/chat", &json!({"model": "m", "mark": mark}));
                    let answer = client.answer();
                    assert!(answer.complete);
                    assert!(answer.text() == mark.repeat(200 * 50), "another's bytes");
                }
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    for id in 1..=48 {
        assert_eq!(
            broker.story(&id.to_string()).last().unwrap(),
            "completed completed n1"
        );
    }
}

#[test]
fn a_client_that_stops_reading_keeps_nobody_else_waiting() {
    let big = Reply::with(200, &[], &"x".repeat(30_000_000));
    let engine = Engine::start(move |r| match r.target.as_str() {
        "/api/chat" => big.clone(),
        _ => Reply::with(200, &[], "ok"),
    });
    let (_broker, port) = Broker::over(&[&engine]);
    let mut stuck = Client::connect(port);
    stuck.post("/api/chat", &chat());
    let head = stuck.head();
    for _ in 0..20 {
        assert_eq!(crate::support::client::get(port, "/x").text(), "ok");
    }
    let answer = stuck.finish(head);
    assert_eq!((answer.complete, answer.body.len()), (true, 30_000_000));
}

#[test]
fn an_engine_that_hangs_keeps_nobody_else_waiting() {
    let engine = Engine::start(|r| match r.target.as_str() {
        "/hang" => Reply::silence(),
        _ => Reply::with(200, &[], "ok"),
    });
    let (_broker, port) = Broker::over(&[&engine]);
    let hanging: Vec<_> = (0..30)
        .map(|_| {
            let mut client = Client::connect(port);
            client.start("GET", "/hang", &[]);
            client
        })
        .collect();
    engine.hit(30);
    assert_eq!(crate::support::client::get(port, "/x").text(), "ok");
    drop(hanging);
    engine.was_left(30);
}
