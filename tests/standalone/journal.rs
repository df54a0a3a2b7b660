//! What is kept of finished requests.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::client::{http, post};
use crate::support::daemon::{Standalone, World};
use crate::support::engine::Reply;
use crate::{chat, ollama, says, serve};

/// What nobody may keep.
const CANARY: &str = "cAnArY51b";

fn end(mut daemon: Standalone) -> String {
    daemon.process.terminate();
    assert_eq!(daemon.process.exit_code(), 0);
    daemon.process.log.text()
}

fn file(world: &World) -> PathBuf {
    world.path().join("state/nvpair-proxy/journal-000001.jsonl")
}

fn records(world: &World) -> Vec<Value> {
    let text = fs::read_to_string(file(world)).unwrap();
    let lines = text.lines();
    lines.map(|l| serde_json::from_str(l).unwrap()).collect()
}

#[test]
fn a_finished_request_is_kept_with_its_attempts_and_without_its_content() {
    let answer = format!("{{\"message\":{{\"content\":\"{CANARY}\"}}}}\n");
    let (a, b) = (
        ollama(&["m"], Reply::status(503)),
        ollama(&["m"], says(&answer)),
    );
    let world = World::new();
    let daemon = serve(&world, "policy = \"ordered\"", &[("a", &a), ("b", &b)]);
    let body = json!({"model": "m", "messages": [{"role": "user", "content": CANARY}]});
    let headers = [("Authorization", CANARY), ("X-Any", CANARY)];
    let target = format!("/api/chat?key={CANARY}");
    let body = body.to_string();
    let said = http(daemon.port, "POST", &target, &headers, body.as_bytes());
    assert!(said.text().contains(CANARY));
    // No model, so no workload and no record.
    post(daemon.port, "/api/chat", &json!({"messages": []}));
    let log = end(daemon);
    let kept = records(&world);
    assert_eq!(kept.len(), 1, "{log}");
    let one = &kept[0];
    assert_eq!(
        (&one["v"], &one["engine"], &one["id"], &one["model"]),
        (&json!(1), &json!("ollama"), &json!(1), &json!("m"))
    );
    assert_eq!(
        (&one["path"], &one["body_bytes"], &one["state"]),
        (&json!("/api/chat"), &json!(body.len()), &json!("completed"))
    );
    assert_eq!(
        (&one["status"], &one["framing"]),
        (&json!(200), &json!("ndjson"))
    );
    let tries: Vec<_> = one["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| (&a["node"], &a["outcome"], &a["status"]))
        .collect();
    assert_eq!(
        tries,
        [
            (&json!("a"), &json!("refused"), &json!(503)),
            (&json!("b"), &json!("committed"), &json!(200)),
        ]
    );
    for (path, content) in world.files() {
        let text = String::from_utf8_lossy(&content);
        assert!(!text.contains(CANARY), "in {}", path.display());
    }
}

#[test]
fn what_a_crash_tore_is_skipped_once_and_the_rest_goes_on() {
    let a = ollama(&["m"], says("a"));
    let world = World::new();
    let nodes = [("a", &a)];
    let daemon = serve(&world, "", &nodes);
    post(daemon.port, "/api/chat", &chat("m"));
    end(daemon);
    let mut torn = fs::read(file(&world)).unwrap();
    torn.extend_from_slice(b"{\"v\":1,\"run_id\":\"00");
    fs::write(file(&world), torn).unwrap();
    for (round, told) in [(2, true), (3, false)] {
        let daemon = serve(&world, "", &nodes);
        post(daemon.port, "/api/chat", &chat("m"));
        let log = end(daemon);
        assert_eq!(log.contains("torn by a crash"), told, "{log}");
        assert_eq!(records(&world).len(), round);
    }
}

#[test]
fn a_state_folder_that_cannot_be_used_stops_nothing() {
    let a = ollama(&["m"], says("a"));
    let world = World::new();
    world.file("state", "no folder");
    let daemon = serve(&world, "", &[("a", &a)]);
    assert_eq!(post(daemon.port, "/api/chat", &chat("m")).text(), "a");
    let log = end(daemon);
    assert_eq!(log.matches("no journal is kept").count(), 1, "{log}");
}
