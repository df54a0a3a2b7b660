//! The subcommands against a real daemon.

use serde_json::{Value, json};

use crate::support::client::post;
use crate::support::daemon::{Lines, Process, World};
use crate::support::engine::Reply;
use crate::support::free_port;
use crate::{chat, ollama, says, serve};

#[test]
fn status_shows_facades_nodes_and_counts() {
    let (a, b) = (
        ollama(&["m"], says("a")),
        ollama(&["m", "x"], Reply::status(400)),
    );
    let world = World::new();
    let daemon = serve(&world, "", &[("a", &a), ("b", &b)]);
    post(daemon.port, "/api/chat", &chat("x"));
    let status = world.json(&["status"]);
    assert_eq!(status["schema_version"], 1);
    assert_eq!(status["daemon"]["mode"], "standalone");
    assert_eq!(status["daemon"]["socket"], json!(world.socket()));
    assert_eq!(status["facades"][0]["engine"], "ollama");
    assert_eq!(status["facades"][0]["port"], daemon.port);
    let node = |id: &str| {
        let nodes = status["nodes"].as_array().unwrap();
        nodes.iter().find(|n| n["id"] == id).unwrap().clone()
    };
    assert_eq!(node("a")["models"], json!(["m"]));
    assert_eq!(
        (&node("b")["state"], &node("b")["load"]),
        (&json!("healthy"), &json!(0))
    );
    assert_eq!(status["workloads"]["failed"], 1);
    let text = world.run(&["status"]);
    assert_eq!((text.code, text.err.as_str()), (0, ""));
    let row = |first: &str| -> Vec<&str> {
        let lines = text
            .out
            .lines()
            .map(|l| l.split_whitespace().collect::<Vec<_>>());
        let mut found = lines.filter(|l| l.first() == Some(&first));
        found
            .next()
            .unwrap_or_else(|| panic!("{first} in {}", text.out))
    };
    assert_eq!(row("Ollama")[1], daemon.port.to_string());
    assert_eq!(row("a")[..4], ["a", "Ollama", "manual", "healthy"]);
    assert!(!text.out.contains('\u{1b}'), "no colour off a terminal");
}

#[test]
fn select_pins_and_auto_unpins() {
    let (a, b) = (ollama(&["m"], says("a")), ollama(&["m"], says("b")));
    let world = World::new();
    let daemon = serve(&world, "", &[("a", &a), ("b", &b)]);
    for node in ["b", "a"] {
        assert_eq!(world.run(&["select", "ollama", node]).code, 0);
        assert_eq!(world.json(&["status"])["facades"][0]["pin"], node);
        for _ in 0..4 {
            assert_eq!(post(daemon.port, "/api/chat", &chat("m")).text(), node);
        }
    }
    assert_eq!(world.run(&["select", "ollama", "--auto"]).code, 0);
    assert_eq!(world.json(&["status"])["facades"][0]["pin"], json!(null));
}

#[test]
fn an_unknown_node_or_facade_is_refused_with_4_and_names_what_there_is() {
    let a = ollama(&["m"], says("a"));
    let world = World::new();
    let _daemon = serve(&world, "", &[("tower", &a)]);
    let said = world.run(&["select", "ollama", "towr"]);
    assert_eq!((said.code, said.out.as_str()), (4, ""));
    assert!(said.err.contains("\"towr\""), "{}", said.err);
    assert!(said.err.contains("known nodes: "), "{}", said.err);
    for args in [
        &["select", "lmstudio", "tower"][..],
        &["set-port", "lmstudio", "15000"],
    ] {
        let said = world.run(args);
        assert_eq!(said.code, 4, "{args:?}: {said:?}");
    }
}

#[test]
fn a_named_node_is_shown_and_suggested_by_its_name() {
    let (a, b) = (ollama(&["m"], says("a")), ollama(&["m"], says("b")));
    let world = World::new();
    let _daemon = serve(&world, "", &[("tower", &a), ("attic", &b)]);
    let shown = world.run(&["status"]).out;
    let said = world.run(&["select", "ollama", "towr"]).err;
    for name in ["tower", "attic"] {
        assert!(shown.contains(name), "{shown}");
        assert!(said.contains(name), "{said}");
    }
}

#[test]
fn a_taken_port_is_refused_with_4_and_nothing_moves() {
    let a = ollama(&["m"], says("a"));
    let world = World::new();
    let daemon = serve(&world, "", &[("a", &a)]);
    let said = world.run(&["set-port", "ollama", &a.port().to_string()]);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.err.contains(&a.port().to_string()), "{}", said.err);
    assert_eq!(post(daemon.port, "/api/chat", &chat("m")).text(), "a");
    assert!(!world.path().join("data/proxy-port.json").exists());
}

#[test]
fn workloads_lists_requests_and_tells_the_timeline_of_one() {
    let (a, b) = (
        ollama(&["m"], Reply::status(503)),
        ollama(&["m"], says("b")),
    );
    let world = World::new();
    let daemon = serve(&world, "policy = \"ordered\"", &[("a", &a), ("b", &b)]);
    post(daemon.port, "/api/chat", &chat("m"));
    let list = world.json(&["workloads"]);
    let w = &list["workloads"][0];
    assert_eq!(list["workloads"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&w["id"], &w["engine"], &w["model"]),
        (&json!(1), &json!("ollama"), &json!("m"))
    );
    assert_eq!(
        (&w["state"], &w["node"], &w["status"]),
        (&json!("completed"), &json!("b"), &json!(200))
    );
    let one = world.json(&["workloads", "ollama/1"]).to_string();
    for part in ["admitted", "dispatched", "refused", "HTTP 503", "completed"] {
        assert!(one.contains(part), "{part} in {one}");
    }
    let text = world.run(&["workloads"]).out;
    let row = text.lines().nth(1).unwrap().split_whitespace();
    let row: Vec<_> = row.take(5).collect();
    assert_eq!(row, ["1", "Ollama", "m", "completed", "b"], "{text}");
    let none = world.json(&["workloads", "--state", "failed"]);
    assert_eq!(none["workloads"], json!([]));
    assert_eq!(world.run(&["workloads", "ollama/99"]).code, 4);
}

#[test]
fn models_lists_every_model_with_its_owners() {
    let (a, b) = (
        ollama(&["ma", "both"], says("a")),
        ollama(&["both"], says("b")),
    );
    let world = World::new();
    let _daemon = serve(&world, "", &[("a", &a), ("b", &b)]);
    let list = world.json(&["models", "--engine", "ollama"]);
    let owners = |model: &str| {
        let all = list["models"].as_array().unwrap();
        let found = all.iter().find(|m| m["model"] == model);
        found.unwrap_or_else(|| panic!("{model} in {list}"))["owners"].clone()
    };
    assert_eq!(owners("ma:latest"), json!(["a"]));
    assert_eq!(owners("both:latest"), json!(["a", "b"]));
    let text = world.run(&["models"]).out;
    for model in ["  both:latest ", "  ma:latest "] {
        assert!(
            text.lines().any(|l| l.starts_with(model)),
            "{model}: {text}"
        );
    }
}

#[test]
fn route_tells_the_order_that_requests_take_and_takes_nothing() {
    let (a, b) = (ollama(&["m"], says("a")), ollama(&["m"], says("b")));
    let c = ollama(&["m:8b"], says("c"));
    let world = World::new();
    let daemon = serve(
        &world,
        "policy = \"ordered\"",
        &[("b", &b), ("a", &a), ("c", &c)],
    );
    let route = |model: &str| world.json(&["route", "--engine", "ollama", "--model", model]);
    let order = |told: &Value| -> Vec<String> {
        let all = told["candidates"].as_array().unwrap().iter();
        all.map(|c| c["node"].as_str().unwrap().to_owned())
            .collect()
    };
    let told = route("m");
    assert_eq!(order(&told), ["a", "b"]);
    assert_eq!(told["excluded"][0]["node"], "c");
    assert_eq!(told["excluded"][0]["near"], json!(["m:8b"]));
    assert_eq!(world.run(&["select", "ollama", "b"]).code, 0);
    let told = route("m");
    assert_eq!(
        (order(&told), &told["pin"]),
        (vec!["b".to_owned(), "a".to_owned()], &json!("b"))
    );
    assert_eq!(post(daemon.port, "/api/chat", &chat("m")).text(), "b");
    assert_eq!(order(&route("none")), [""; 0]);
    let status = world.json(&["status"]);
    assert_eq!(status["nodes"][0]["reserved"], 0);
}

#[test]
fn followers_see_a_request_from_admission_to_its_end() {
    let a = ollama(&["m"], says("a"));
    let world = World::new();
    let mut daemon = serve(&world, "", &[("a", &a)]);
    let mut follow = Process::spawn(&mut world.command(&["workloads", "--follow"]));
    let lines = Lines::of(follow.child().stdout.take().unwrap());
    // The header comes when it follows.
    lines.expect("ENGINE");
    post(daemon.port, "/api/chat", &chat("m"));
    lines.expect(" completed ");
    let text = lines.text();
    let states: Vec<_> = text
        .lines()
        .skip(1)
        .map(|l| l.split_whitespace().nth(3).unwrap().to_owned())
        .collect();
    assert_eq!(
        states,
        ["queued", "queued", "running", "completed"],
        "{text}"
    );
    daemon.process.terminate();
    assert_eq!(daemon.process.exit_code(), 0);
    assert_eq!(follow.exit_code(), 1, "it is told that the daemon ended");
}

#[test]
fn without_a_daemon_every_command_ends_with_3_and_names_the_socket() {
    let world = World::new();
    let port = free_port().to_string();
    for args in [
        &["status"][..],
        &["models"],
        &["route", "--engine", "ollama", "--model", "m"],
        &["workloads"],
        &["workloads", "--follow"],
        &["status", "--watch"],
        &["select", "ollama", "a"],
        &["set-port", "ollama", &port],
    ] {
        let said = world.run(args);
        assert_eq!(said.code, 3, "{args:?}: {said:?}");
        let socket = world.socket();
        assert!(said.err.contains(socket.to_str().unwrap()), "{}", said.err);
        assert!(said.err.contains("nvpair-proxy serve"), "{}", said.err);
    }
}
