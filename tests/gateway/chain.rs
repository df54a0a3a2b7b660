//! One round runs down the whole chain of a virtual model.

use serde_json::json;

use super::*;
use crate::support::client::post;

#[test]
fn the_chain_is_tried_in_its_order_and_each_target_gets_its_own_name() {
    let seen = |request: &Request| {
        Reply::json(
            200,
            &json!({"text": String::from_utf8_lossy(&request.body)}),
        )
    };
    let failing = engine("llamacpp", &["qwen"], |_| Reply::status(503));
    let last = engine("ollama", &["llama3:latest"], seen);
    let world = World::new();
    let config = "[virtual_models]\nfast = [\"lmstudio/none\", \"llamacpp/qwen\", \"o/llama3\"]\n";
    let nodes = [("llamacpp", "c", &failing), ("ollama", "o", &last)];
    let daemon = serve(&world, config, &nodes);
    let answer = post(daemon.port, CHAT, &chat("fast"));
    assert_eq!(answer.status, 200);
    let sent: Value = serde_json::from_str(text(&answer).as_str().unwrap()).unwrap();
    assert_eq!(sent["model"], "llama3");
    let first: Value = serde_json::from_slice(&failing.requests_for(CHAT)[0].body).unwrap();
    assert_eq!(first["model"], "qwen");
    let list = world.json(&["workloads"]);
    assert_eq!(list["workloads"][0]["model"], "fast");
    let id = format!("gateway/{}", list["workloads"][0]["id"]);
    let told = world.json(&["workloads", &id]);
    assert!(
        told.to_string().contains("\"c\"") && told.to_string().contains("\"o\""),
        "{told}"
    );
}

#[test]
fn a_chain_longer_than_the_usual_bound_is_tried_to_its_end_in_one_round() {
    let failing: Vec<_> = (0..6)
        .map(|_| engine("lmstudio", &["m"], |_| Reply::status(500)))
        .collect();
    let good = saying("lmstudio", &["m"], "good");
    let names: Vec<_> = (0..6).map(|i| format!("n{i}")).collect();
    let targets: Vec<_> = names.iter().map(|n| format!("\"{n}/m\"")).collect();
    let config = format!(
        "[virtual_models]\nlong = [{}, \"good/m\"]\n",
        targets.join(", ")
    );
    let mut nodes: Vec<_> = (names.iter().zip(&failing))
        .map(|(name, engine)| ("lmstudio", name.as_str(), engine))
        .collect();
    nodes.push(("lmstudio", "good", &good));
    let world = World::new();
    let daemon = serve(&world, &config, &nodes);
    let answer = post(daemon.port, CHAT, &chat("long"));
    assert_eq!((answer.status, text(&answer)), (200, json!("good")));
    for engine in &failing {
        assert_eq!(engine.requests_for(CHAT).len(), 1);
    }
}

#[test]
fn all_nodes_of_a_model_share_its_requests_whatever_engine_they_run() {
    let (a, b) = (
        saying("lmstudio", &["m"], "a"),
        saying("ollama", &["m"], "b"),
    );
    let world = World::new();
    let nodes = [("lmstudio", "a", &a), ("ollama", "b", &b)];
    let daemon = serve(&world, "", &nodes);
    for _ in 0..8 {
        assert_eq!(post(daemon.port, CHAT, &chat("m")).status, 200);
    }
    let counts = [&a, &b].map(|e| e.requests_for(CHAT).len());
    assert_eq!(counts[0] + counts[1], 8);
    assert!(counts[0] > 1 && counts[1] > 1, "{counts:?}");
}

#[test]
fn routes_go_to_nodes_that_have_them_only() {
    let a = saying("lmstudio", &["m"], "a");
    let world = World::new();
    let daemon = serve(&world, "", &[("lmstudio", "a", &a)]);
    // No engine with a facade transcribes.
    assert_eq!(
        post(daemon.port, "/v1/audio/transcriptions", &chat("m")).status,
        502
    );
    assert_eq!(a.requests_for("/v1/audio/transcriptions").len(), 0);
}
