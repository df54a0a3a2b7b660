//! Proxies that point at each other, or at themselves, must not send requests in circles.

use crate::support::client::{get, post};
use crate::support::daemon::{Standalone, World};
use crate::support::{ask_until, free_port};
use crate::{chat, ollama, says};

/// A daemon on this port whose only node is said to have model `m` and to be on that one.
fn pointing(world: &World, port: u16, at: u16) -> Standalone {
    let config = format!(
        "[[nodes]]\nengine = \"ollama\"\nname = \"other\"\nmodels = [\"m\"]\n\
         url = \"http://127.0.0.1:{at}\"\n"
    );
    let path = world.file("loop.toml", &config);
    let engine = format!("ollama={port}");
    let args = ["--engine", &engine, "--config", path.to_str().unwrap()];
    Standalone::try_start(world, port, &args).unwrap()
}

const FACADE: &str = "answers as an nvpair-proxy facade";

/// Waits until the node is shown as what it is: the first look may have been too early.
fn is_shown(world: &World) {
    ask_until("the facade is recognised", || {
        let status = world.json(&["status"]);
        let nodes = status["nodes"].as_array().unwrap();
        let node = nodes.iter().find(|n| n["id"] == "other").unwrap();
        assert_eq!(node["state"], "unreachable");
        node["reason"]
            .as_str()
            .unwrap()
            .contains(FACADE)
            .then_some(())
    });
}

/// Requests of each class are refused here and now; how many lines that cost in the log.
fn refuses(world: &World, daemon: &Standalone) -> usize {
    // An engine that runs on this very machine is found by itself, and serves what names no model.
    let nodes = world.json(&["status"])["nodes"].as_array().unwrap().len();
    let before = daemon.process.log.count();
    for _ in 0..10 {
        assert_eq!(post(daemon.port, "/api/chat", &chat("m")).status, 502);
        if nodes == 1 {
            assert_eq!(get(daemon.port, "/api/version").status, 502);
            assert_eq!(get(daemon.port, "/api/tags").status, 503);
        }
    }
    daemon.process.log.count() - before
}

#[test]
fn two_proxies_that_point_at_each_other_refuse_at_once_and_stay_calm() {
    let (here, there) = (World::new(), World::new());
    let (a, b) = (free_port(), free_port());
    let first = pointing(&here, a, b);
    let second = pointing(&there, b, a);
    // The second saw a facade at its start, the first sees one at its next look.
    assert!(
        refuses(&there, &second) < 10,
        "{}",
        second.process.log.text()
    );
    is_shown(&there);
    assert!(refuses(&here, &first) < 10, "{}", first.process.log.text());
    is_shown(&here);
    assert!(refuses(&here, &first) + refuses(&there, &second) < 10);
    let status = here.json(&["status"]);
    assert_eq!(status["facades"][0]["in_flight"], 0, "nothing circles");
}

#[test]
fn a_proxy_that_points_at_itself_refuses_at_once() {
    let world = World::new();
    let port = free_port();
    let daemon = pointing(&world, port, port);
    assert!(
        refuses(&world, &daemon) < 10,
        "{}",
        daemon.process.log.text()
    );
}

#[test]
fn a_facade_among_the_nodes_takes_nothing_from_the_engine_beside_it() {
    let (here, there) = (World::new(), World::new());
    let other = Standalone::start(&there, &[]);
    let engine = ollama(&["m"], says("engine"));
    let nodes = [other.port, engine.port()].map(|p| format!("ollama=http://127.0.0.1:{p}"));
    let daemon = Standalone::start(&here, &["--node", &nodes[0], "--node", &nodes[1]]);
    for _ in 0..4 {
        assert_eq!(post(daemon.port, "/api/chat", &chat("m")).text(), "engine");
    }
    assert_eq!(get(daemon.port, "/api/tags").status, 200);
}
