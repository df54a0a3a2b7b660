//! What a standalone daemon does with requests.

use serde_json::{Value, json};

use crate::support::ask_until;
use crate::support::client::{Client, get, post};
use crate::support::daemon::{Standalone, World};
use crate::support::engine::{Engine, Gate, Reply};
use crate::{chat, ollama, says, serve};

#[test]
fn nodes_named_on_the_command_line_are_merged_and_served() {
    let (a, b) = (
        ollama(&["ma", "both"], says("a")),
        ollama(&["mb", "both"], says("b")),
    );
    let world = World::new();
    let url = |e: &Engine| format!("ollama=http://127.0.0.1:{}/v1", e.port());
    let (first, second) = (url(&a), url(&b));
    let daemon = Standalone::start(&world, &["--node", &first, "--node", &second]);
    let list = get(daemon.port, "/api/tags").json();
    let names: Vec<_> = list["models"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["name"].clone())
        .collect();
    for model in ["ma", "mb", "both"] {
        assert_eq!(names.iter().filter(|n| **n == model).count(), 1, "{list}");
    }
    assert_eq!(post(daemon.port, "/api/chat", &chat("ma")).text(), "a");
    assert_eq!(
        post(daemon.port, "/v1/chat/completions", &chat("mb")).text(),
        "b"
    );
    assert_eq!(b.requests_for("/v1/chat/completions").len(), 1);
    assert_eq!(post(daemon.port, "/api/chat", &chat("neither")).status, 502);
}

#[test]
fn a_chat_streams_through_as_it_is_made() {
    let gate = Gate::new();
    let a = ollama(
        &["m"],
        Reply::lines().chunk("1").gate(&gate).chunk("2").end(),
    );
    let world = World::new();
    let daemon = serve(&world, "", &[("a", &a)]);
    let mut client = Client::connect(daemon.port);
    client.post("/api/chat", &chat("m"));
    let mut head = client.head();
    assert!(client.read_until(&mut head, "1"));
    let status = world.json(&["status"]);
    assert_eq!(status["workloads"]["running"], 1);
    assert_eq!(status["facades"][0]["in_flight"], 1);
    gate.open();
    assert_eq!(client.finish(head).text(), "12");
}

#[test]
fn both_loopback_families_are_served() {
    let a = ollama(&["m"], says("a"));
    let world = World::new();
    let daemon = serve(&world, "", &[("a", &a)]);
    let Ok(stream) = std::net::TcpStream::connect(("::1", daemon.port)) else {
        // A machine without IPv6.
        assert!(std::net::TcpListener::bind("[::1]:0").is_err());
        return;
    };
    let mut client = Client::of(stream, daemon.port);
    client.post("/api/chat", &chat("m"));
    assert_eq!(client.answer().text(), "a");
}

#[test]
fn a_node_that_dies_is_done_without_and_shown_as_gone() {
    let (a, b) = (ollama(&["m"], says("a")), ollama(&["m"], says("b")));
    let world = World::new();
    let daemon = serve(&world, "", &[("a", &a), ("b", &b)]);
    a.die();
    ask_until("the loss is noticed", || {
        assert_eq!(post(daemon.port, "/api/chat", &chat("m")).text(), "b");
        daemon
            .process
            .log
            .text()
            .contains("node is unreachable engine=ollama node=a")
            .then_some(())
    });
    let state = |status: &Value, id: &str| {
        let nodes = status["nodes"].as_array().unwrap().clone();
        let node = nodes.into_iter().find(|n| n["id"] == id).unwrap();
        (node["state"].clone(), node["reason"].clone())
    };
    let status = world.json(&["status"]);
    let (gone, why) = state(&status, "a");
    assert_eq!(gone, "unreachable");
    assert!(why.as_str().unwrap().contains("refused"), "{why}");
    assert_eq!(state(&status, "b").0, "healthy");
}

#[test]
fn a_node_that_comes_back_is_used_again() {
    let a = ollama(&["m"], says("a"));
    let port = a.port();
    let world = World::new();
    let daemon = serve(&world, "", &[("a", &a)]);
    a.die();
    let mut client = Client::connect(daemon.port);
    client.post("/api/chat", &chat("m"));
    // The request waits for its owner; the engine is started again meanwhile.
    ask_until("the request waits", || {
        let events = world.json(&["workloads", "1"]).to_string();
        events.contains("refused").then_some(())
    });
    let again = Engine::on(port, |r| match r.target.as_str() {
        "/api/tags" => Reply::json(200, &json!({"models": [{"name": "m"}]})),
        _ => says("again"),
    });
    assert_eq!(client.answer().text(), "again");
    drop(again);
}

#[test]
fn requests_at_the_same_time_are_spread() {
    let gate = Gate::new();
    let reply = |text: &str| Reply::lines().chunk(text).gate(&gate).end();
    let (a, b) = (ollama(&["m"], reply("a")), ollama(&["m"], reply("b")));
    let world = World::new();
    let daemon = serve(&world, "", &[("a", &a), ("b", &b)]);
    let mut clients: Vec<_> = (0..4).map(|_| Client::connect(daemon.port)).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        client.post("/api/chat", &chat("m"));
        gate.reached_by(n + 1);
    }
    let hits = |e: &Engine| e.requests_for("/api/chat").len();
    assert_eq!((hits(&a), hits(&b)), (2, 2));
    gate.open();
    for client in &mut clients {
        assert!(client.answer().complete);
    }
}

#[test]
fn the_ordered_policy_takes_idle_nodes_by_their_id() {
    let (a, b) = (ollama(&["m"], says("a")), ollama(&["m"], says("b")));
    let world = World::new();
    let daemon = serve(&world, "policy = \"ordered\"", &[("z", &a), ("y", &b)]);
    for _ in 0..4 {
        assert_eq!(post(daemon.port, "/api/chat", &chat("m")).text(), "b");
    }
    assert_eq!(world.json(&["status"])["scheduler"]["policy"], "ordered");
}

#[test]
fn response_headers_tell_node_and_attempts_only_if_asked_for() {
    let a = ollama(&["m"], says("a"));
    for (setting, asked) in [("", false), ("response_headers = true", true)] {
        let world = World::new();
        let daemon = serve(&world, setting, &[("a", &a)]);
        let answer = post(daemon.port, "/api/chat", &chat("m"));
        let ours = answer
            .names()
            .iter()
            .filter(|n| n.to_lowercase().starts_with("x-nvpair"))
            .count();
        assert_eq!(ours, if asked { 3 } else { 0 }, "{answer:?}");
        if asked {
            assert_eq!(answer.header("X-Nvpair-Node"), Some("a"));
            assert_eq!(answer.header("X-Nvpair-Attempts"), Some("1"));
            assert!(
                answer
                    .header("X-Nvpair-Request-Id")
                    .unwrap()
                    .ends_with("/ollama/1")
            );
        }
    }
}

#[test]
fn a_nodes_key_goes_to_that_node_and_into_no_log() {
    let a = ollama(&["m"], says("a"));
    let b = ollama(&["mb"], says("b"));
    let world = World::new();
    let config = format!(
        "[[nodes]]\nengine = \"ollama\"\nname = \"a\"\nurl = \"http://127.0.0.1:{}\"\n\
         api_key = \"cAnArY\"\n[[nodes]]\nengine = \"ollama\"\nname = \"b\"\n\
         url = \"http://127.0.0.1:{}\"\n",
        a.port(),
        b.port()
    );
    let path = world.file("keys.toml", &config);
    let args = ["--log-level", "debug", "--config", path.to_str().unwrap()];
    let daemon = Standalone::start(&world, &args);
    post(daemon.port, "/api/chat", &chat("m"));
    post(daemon.port, "/api/chat", &chat("mb"));
    get(daemon.port, "/api/tags");
    assert!(
        a.requests()
            .iter()
            .all(|r| r.header("Authorization") == Some("Bearer cAnArY"))
    );
    assert!(
        b.requests()
            .iter()
            .all(|r| r.header("Authorization").is_none())
    );
    let status = world.json(&["status"]).to_string() + &world.json(&["workloads"]).to_string();
    for text in [status, daemon.process.log.text(), daemon.out.text()] {
        assert!(!text.contains("cAnArY"), "{text}");
    }
    std::fs::remove_file(path).unwrap();
    for (path, content) in world.files() {
        assert!(
            !String::from_utf8_lossy(&content).contains("cAnArY"),
            "{}",
            path.display()
        );
    }
}

#[test]
fn a_model_that_is_pulled_later_is_found_by_a_later_probe() {
    let a = ollama(&["m"], says("a"));
    let world = World::new();
    let daemon = serve(&world, "", &[("a", &a)]);
    assert_eq!(post(daemon.port, "/api/chat", &chat("new")).status, 502);
    a.now(|r| match r.target.as_str() {
        "/api/tags" => Reply::json(200, &json!({"models": [{"name": "m"}, {"name": "new"}]})),
        _ => says("a"),
    });
    let probes = a.requests_for("/api/tags").len();
    crate::support::wait_for("the next probe", || {
        a.requests_for("/api/tags").len() > probes
    });
    ask_until("the new model is served", || {
        (post(daemon.port, "/api/chat", &chat("new")).status == 200).then_some(())
    });
}
