//! The scheduler's snapshots and requests that are under way between them.

use serde_json::json;

use crate::support::broker::Broker;
use crate::support::client::{Client, post};
use crate::support::engine::{Engine, Gate, Reply};

use super::said_by;

fn rank(broker: &Broker, generation: u64, nodes: &[&str]) -> u64 {
    let params = json!({"generation": generation, "nodes": nodes});
    let reply = broker.request("node/set-priority", &params);
    reply["count"].as_u64().unwrap()
}

#[test]
fn only_a_newer_generation_clears_what_is_under_way() {
    let gates = [Gate::new(), Gate::new()];
    let engines = [0, 1].map(|i| Engine::always(Reply::steps([]).gate(&gates[i]).then(done())));
    let (broker, port) = Broker::with_facade("ollama");
    for (id, engine) in ["a", "b"].into_iter().zip(&engines) {
        broker.node("ollama", id, engine.port(), &["m"]);
    }
    let mut held = vec![];
    let mut ask = |a: usize, b: usize| {
        let mut client = Client::connect(port);
        client.post("/api/chat", &json!({"model": "m"}));
        engines[0].hit(a);
        engines[1].hit(b);
        assert_eq!((engines[0].hits(), engines[1].hits()), (a, b));
        held.push(client);
    };
    assert_eq!(rank(&broker, 5, &["a", "b"]), 2);
    ask(1, 0);
    assert_eq!(
        rank(&broker, 5, &["b"]),
        2,
        "the same generation changes nothing"
    );
    ask(1, 1);
    assert_eq!(rank(&broker, 4, &[]), 2, "nor does an older one");
    ask(2, 1);
    assert_eq!(rank(&broker, 6, &["b", "a"]), 2);
    ask(2, 2);
    // Those of before are gone with it: their ends must not count again.
    gates.iter().for_each(Gate::open);
    for mut client in held {
        assert_eq!(client.answer().text(), "ok");
    }
    for id in ["1", "2", "3", "4"] {
        broker.story(id);
    }
    post(port, "/api/chat", &json!({"model": "m"}));
    assert_eq!(
        (engines[0].hits(), engines[1].hits()),
        (2, 3),
        "idle again, b is first"
    );
}

fn done() -> crate::support::engine::Step {
    let text = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    crate::support::engine::Step::Send(text.into())
}

#[test]
fn a_snapshot_needs_a_generation_and_comes_before_any_facade() {
    let broker = Broker::start();
    assert_eq!(rank(&broker, 3, &["x", "y", "x"]), 3, "kept as it came");
    assert_eq!(rank(&broker, 3, &[]), 3);
    assert_eq!(rank(&broker, 4, &[]), 0);
    for bad in [json!(0), json!(-1), json!(1.5), json!("7"), json!(null)] {
        let said = said_by(&broker, "node/set-priority", &json!({"generation": bad}));
        assert_eq!(said, ["error -32602"], "{bad}");
    }
    assert_eq!(
        said_by(&broker, "node/set-priority", &json!({})),
        ["error -32602"]
    );
    // An address on a process method is tolerated.
    let params = json!({"generation": 5, "nodes": ["x"]});
    let reply = broker.request("ollama:node/set-priority", &params);
    assert_eq!(reply, json!({"count": 1}));
}
