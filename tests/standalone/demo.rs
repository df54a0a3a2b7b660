//! `serve --demo`: something to look at on a machine without any engine.

use serde_json::json;

use crate::support::client::{Client, get, post};
use crate::support::daemon::{Standalone, World};

fn a_model(world: &World) -> String {
    let list = world.json(&["models", "--engine", "ollama"]);
    list["models"][0]["model"].as_str().unwrap().to_owned()
}

#[test]
fn the_demo_serves_streams_and_shows_its_workloads() {
    let world = World::new();
    let daemon = Standalone::start(&world, &["--demo"]);
    let model = a_model(&world);
    let mut client = Client::connect(daemon.port);
    let body = json!({"model": model, "messages": [{"role": "user", "content": "hi"}]});
    client.post("/api/chat", &body);
    let mut head = client.head();
    assert_eq!(head.status, 200);
    assert!(client.read_until(&mut head, "\n"), "pieces come one by one");
    let answer = client.finish(head);
    assert!(answer.complete);
    let text = answer.text();
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["done"], true);
    assert!(text.lines().count() > 3, "{text}");
    assert!(
        text.to_lowercase().contains("sample"),
        "it says what it is: {text}"
    );
    let list = world.json(&["workloads"]);
    let w = &list["workloads"][0];
    assert_eq!(
        (&w["state"], &w["model"]),
        (&json!("completed"), &json!(model))
    );
    assert!(w["node"].is_string());
}

#[test]
fn the_demo_has_two_nodes_an_engine_and_fails_over_by_itself() {
    let world = World::new();
    let daemon = Standalone::start(&world, &["--demo"]);
    let status = world.json(&["status"]);
    assert_eq!(status["daemon"]["mode"], "demo");
    let nodes = status["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 2, "{status}");
    assert!(nodes.iter().all(|n| n["state"] == "healthy"), "{status}");
    let model = a_model(&world);
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let (model, port) = (model.clone(), daemon.port);
            let body = json!({"model": model, "messages": [], "stream": false});
            std::thread::spawn(move || post(port, "/api/chat", &body).status)
        })
        .collect();
    for client in clients {
        assert_eq!(client.join().unwrap(), 200);
    }
    assert_eq!(get(daemon.port, "/api/tags").status, 200);
}

#[test]
fn the_demo_leaves_nothing_behind() {
    let world = World::new();
    let mut daemon = Standalone::start(&world, &["--demo"]);
    let moved = crate::support::free_port();
    let said = world.run(&["set-port", "ollama", &moved.to_string()]);
    // Moved or refused: it is not remembered either way.
    assert!(said.code == 0 || said.code == 4, "{said:?}");
    daemon.process.terminate();
    assert_eq!(daemon.process.exit_code(), 0);
    // The lock beside the socket stays, so that two starts cannot take each other's away.
    let left = world.files();
    let names: Vec<_> = left
        .iter()
        .map(|(path, _)| path.file_name().unwrap())
        .collect();
    assert_eq!(names, ["control.lock"]);
}
