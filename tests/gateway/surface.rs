//! What the gateway serves: models of every engine, and its own routes.

use serde_json::json;

use super::*;
use crate::support::client::{Client, get, http, post};

#[test]
fn models_of_every_engine_are_served_through_one_endpoint() {
    let ollama = saying("ollama", &["llama3:latest"], "o");
    let lmstudio = saying("lmstudio", &["phi"], "l");
    let llamacpp = saying("llamacpp", &["qwen"], "c");
    let world = World::new();
    let nodes = [
        ("ollama", "o", &ollama),
        ("lmstudio", "l", &lmstudio),
        ("llamacpp", "c", &llamacpp),
    ];
    let daemon = serve(
        &world,
        "[virtual_models]\nfast = [\"llamacpp/qwen\"]\n",
        &nodes,
    );
    let list = get(daemon.port, "/v1/models").json();
    let entries: Vec<_> = list["data"].as_array().unwrap().iter().collect();
    let ids: Vec<_> = entries.iter().map(|e| (&e["id"], &e["owned_by"])).collect();
    let want = [
        (json!("fast"), json!("virtual")),
        (json!("llama3:latest"), json!("ollama")),
        (json!("phi"), json!("lmstudio")),
        (json!("qwen"), json!("llamacpp")),
    ];
    assert_eq!(ids, want.iter().map(|(a, b)| (a, b)).collect::<Vec<_>>());
    // As each engine compares names.
    for (model, said) in [("llama3", "o"), ("phi", "l"), ("qwen", "c"), ("fast", "c")] {
        let answer = post(daemon.port, CHAT, &chat(model));
        assert_eq!(answer.status, 200, "{model}");
        assert_eq!(text(&answer), said, "{model}");
    }
    for path in [
        "/v1/completions",
        "/v1/embeddings",
        "/v1/messages",
        "/v1/responses",
    ] {
        assert_eq!(text(&post(daemon.port, path, &chat("phi"))), "l", "{path}");
        assert_eq!(lmstudio.requests_for(path).len(), 1, "{path}");
    }
    let workloads = world.json(&["workloads", "--engine", "gateway"]);
    let first = workloads["workloads"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&first["engine"], &first["model"]),
        (&json!("gateway"), &json!("llama3"))
    );
    let models = world.json(&["models"]);
    assert_eq!(
        models["models"].as_array().unwrap().len(),
        3,
        "no engine twice: {models}"
    );
}

#[test]
fn a_model_is_found_by_its_name_also_with_a_slash() {
    let a = saying("lmstudio", &["org/model"], "a");
    let world = World::new();
    let daemon = serve(&world, "", &[("lmstudio", "a", &a)]);
    for path in ["/v1/models/org/model", "/v1/models/org%2Fmodel"] {
        let found = get(daemon.port, path);
        assert_eq!(
            (found.status, &found.json()["id"]),
            (200, &json!("org/model"))
        );
    }
    let missing = get(daemon.port, "/v1/models/other");
    assert_eq!(missing.status, 404);
    assert_eq!(missing.json()["error"]["type"], "invalid_request_error");
}

#[test]
fn what_it_does_not_serve_it_says_and_forwards_nothing() {
    let a = saying("ollama", &["m"], "a");
    let world = World::new();
    let daemon = serve(&world, "", &[("ollama", "a", &a)]);
    for (method, path, status) in [
        ("POST", "/api/chat", 404),
        ("POST", "/api/pull", 404),
        ("DELETE", "/v1/models/m", 405),
        ("DELETE", "/v1/models", 405),
        ("GET", "/", 404),
        ("POST", "/health", 405),
        ("POST", "/v1/files", 404),
    ] {
        let answer = http(daemon.port, method, path, &[], b"{}");
        assert_eq!(answer.status, status, "{method} {path}");
        assert!(
            answer.json()["error"].is_string() || answer.json()["error"]["message"].is_string()
        );
    }
    let mut client = Client::connect(daemon.port);
    for path in ["/v1/models", "/v1/models/m:latest", "/health"] {
        client.start("HEAD", path, &[]);
        let answer = client.answer();
        assert_eq!((answer.status, answer.body.len()), (200, 0), "{path}");
        let shown = get(daemon.port, path).body.len().to_string();
        assert_eq!(answer.header("Content-Length"), Some(&*shown), "{path}");
    }
    assert!(a.requests_for("/api/pull").is_empty() && a.requests_for("/v1/files").is_empty());
    assert_eq!(get(daemon.port, "/health").json(), json!({"status": "ok"}));
    assert_eq!(
        get(daemon.port, "/status").json()["facades"][0]["engine"],
        "gateway"
    );
}

#[test]
fn a_request_without_a_model_is_told_so() {
    let a = saying("llamacpp", &["qwen3-8b"], "a");
    let world = World::new();
    let daemon = serve(&world, "", &[("llamacpp", "a", &a)]);
    for body in ["{}", "{\"model\":\" \"}", "{\"model\":7}", "nonsense", ""] {
        let kind = [("Content-Type", "application/json")];
        let answer = http(daemon.port, "POST", CHAT, &kind, body.as_bytes());
        assert_eq!(answer.status, 400, "{body}");
        assert!(answer.error_text().contains("names no model"), "{body}");
    }
    assert!(a.requests_for(CHAT).is_empty());
    let unknown = post(daemon.port, CHAT, &chat("qwen3-7b"));
    assert_eq!(unknown.status, 502);
    assert!(
        unknown.error_text().contains("nearest: qwen3-8b (a)"),
        "{}",
        unknown.error_text()
    );
}

#[test]
fn a_web_page_reads_the_list_only_as_the_engines_let_it() {
    let open = |origin: &'static str| {
        engine("lmstudio", &["m"], move |_| {
            let headers = [
                ("Access-Control-Allow-Origin", origin),
                ("Access-Control-Allow-Methods", "POST"),
                ("Access-Control-Allow-Headers", "content-type"),
            ];
            Reply::with(204, &headers, "")
        })
    };
    let (a, b) = (open("https://page.test"), open("https://page.test"));
    let world = World::new();
    let nodes = [("lmstudio", "a", &a), ("lmstudio", "b", &b)];
    let daemon = serve(&world, "", &nodes);
    let page = ("Origin", "https://page.test");
    let asks = [
        page,
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "content-type"),
    ];
    let answer = http(daemon.port, "OPTIONS", CHAT, &asks, b"");
    assert_eq!(answer.status, 204);
    assert_eq!(
        answer.header("Access-Control-Allow-Origin"),
        Some("https://page.test")
    );
    // Their lists carry no grant, so that ours is not read either.
    assert_eq!(
        http(daemon.port, "GET", "/v1/models", &[page], b"").status,
        403
    );
    let stranger = [("Origin", "https://other.test"), asks[1], asks[2]];
    assert_eq!(
        http(daemon.port, "OPTIONS", CHAT, &stranger, b"").status,
        403
    );
}

#[test]
fn it_moves_and_comes_back_like_any_facade() {
    let a = saying("ollama", &["m"], "a");
    let world = World::new();
    let mut daemon = serve(&world, "", &[("ollama", "a", &a)]);
    let port = crate::support::free_port();
    let moved = world.run(&["set-port", "gateway", &port.to_string()]);
    assert_eq!(moved.code, 0, "{}", moved.err);
    assert_eq!(text(&post(port, CHAT, &chat("m"))), "a");
    let refused = world.run(&["nodes", "add", "http://127.0.0.1:1", "--engine", "gateway"]);
    assert_eq!(
        refused.code, 2,
        "the gateway has no nodes of its own: {}",
        refused.err
    );
    let explained = world.run(&["route", "--engine", "gateway", "--model", "m"]);
    assert_eq!(explained.code, 0, "{}", explained.err);
    assert!(explained.out.contains("a"), "{}", explained.out);
    daemon.process.terminate();
    assert_eq!(daemon.process.exit_code(), 0);
}
