//! What an engine tells of its models, and how it refuses.

use super::*;
use crate::rules::engine::{ListShape, Warm};

#[tokio::test]
async fn each_engine_lists_its_models_where_a_probe_looks() {
    for engine in EngineId::all() {
        let e = start(engine.as_str(), &["a:1", "b:2"]).await;
        let inventory = engine.spec().inventory;
        let list = get(e.addr(), inventory.path).await.json();
        let (array, key) = match inventory.shape {
            ListShape::Native => ("models", "model"),
            ListShape::OpenAi => ("data", "id"),
        };
        let names: Vec<_> = list[array]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| &m[key])
            .collect();
        assert_eq!(names, ["a:1", "b:2"], "{engine}");

        let list = get(e.addr(), "/v1/models").await.json();
        assert_eq!(list["object"], "list", "{engine}");
        assert_eq!(list["data"][1]["id"], "b:2", "{engine}");

        let path = match inventory.warm {
            Warm::RunningList { path } | Warm::StateList { path } | Warm::Props { path } => path,
            Warm::Untold => continue,
        };
        assert_eq!(get(e.addr(), path).await.status, 200, "{engine}");
    }
}

#[tokio::test]
async fn llamacpp_lists_its_models_twice_in_one_object() {
    let e = start("llamacpp", &["a"]).await;
    for path in ["/models", "/v1/models"] {
        let v = get(e.addr(), path).await.json();
        assert_eq!(
            (&v["models"][0]["model"], &v["data"][0]["id"]),
            (&json!("a"), &json!("a"))
        );
    }
    assert_eq!(
        get(e.addr(), "/health").await.json(),
        json!({"status": "ok"})
    );
    let slots = get(e.addr(), "/props").await.json()["total_slots"]
        .as_u64()
        .unwrap();
    let listed = get(e.addr(), "/slots").await.json();
    assert_eq!(listed.as_array().unwrap().len() as u64, slots);
}

#[tokio::test]
async fn a_model_is_shown_loaded_once_it_was_used() {
    let e = start("ollama", &["a", "b"]).await;
    let running = async || {
        let v = get(e.addr(), "/api/ps").await.json();
        v["models"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| m["name"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(running().await, ["a:latest"]);
    post(
        e.addr(),
        "/api/generate",
        &json!({"model": "b", "prompt": "x", "stream": false}),
    )
    .await;
    assert_eq!(running().await, ["a:latest", "b:latest"]);
    let v = post(
        e.addr(),
        "/api/generate",
        &json!({"model": "a", "keep_alive": 0}),
    )
    .await
    .json();
    assert_eq!(
        (&v["done_reason"], &v["done"]),
        (&json!("unload"), &json!(true))
    );
    assert_eq!(running().await, ["b:latest"]);

    let e = start("lmstudio", &["a", "b"]).await;
    post(
        e.addr(),
        "/v1/embeddings",
        &json!({"model": "b", "input": "x"}),
    )
    .await;
    let v = get(e.addr(), "/api/v0/models").await.json();
    assert_eq!(v["data"][1]["state"], "loaded");
    assert!(v["data"][1]["max_context_length"].is_u64());
}

#[tokio::test]
async fn an_unknown_model_is_404_in_the_dialect_of_the_path() {
    let body = json!({"model": "nope", "messages": hello()});
    let e = start("ollama", &["m"]).await;
    let got = post(e.addr(), "/api/chat", &body).await;
    assert_eq!(
        (got.status, got.json()),
        (404, json!({"error": "model 'nope' not found"}))
    );
    for engine in EngineId::all() {
        let e = start(engine.as_str(), &["m"]).await;
        let got = post(e.addr(), "/v1/chat/completions", &body).await;
        assert_eq!(got.status, 404, "{engine}");
        assert_eq!(
            got.json()["error"]["message"],
            "model 'nope' not found",
            "{engine}"
        );
        let got = post(e.addr(), "/v1/messages", &body).await;
        assert_eq!(
            (got.status, &got.json()["type"]),
            (404, &json!("error")),
            "{engine}"
        );
    }
}

#[tokio::test]
async fn a_bad_body_is_400_and_an_unknown_route_404() {
    for engine in EngineId::all() {
        let e = start(engine.as_str(), &["m"]).await;
        for body in ["{", "[]", "", r#"{"messages":[]}"#, r#"{"model":"m"}"#] {
            let got = ask(e.addr(), "POST", "/v1/chat/completions", "", body).await;
            assert_eq!(got.status, 400, "{engine} {body:?}");
            assert!(
                got.json()["error"]["message"].is_string(),
                "{engine} {body:?}"
            );
        }
        for (method, path) in [
            ("GET", "/nope"),
            ("POST", "/v1/nope"),
            ("PUT", "/v1/models"),
        ] {
            assert_eq!(
                ask(e.addr(), method, path, "", "").await.status,
                404,
                "{engine} {path}"
            );
        }
    }
    let e = start("ollama", &["m"]).await;
    assert_eq!(get(e.addr(), "/nope").await.text(), "404 page not found");
    assert_eq!(get(e.addr(), "/").await.text(), "Ollama is running");
    let got = ask(e.addr(), "HEAD", "/", "", "").await;
    assert_eq!((got.status, got.body.len()), (200, 0));
}

#[tokio::test]
async fn managing_models_says_that_this_is_a_sample_engine() {
    let e = start("ollama", &["m"]).await;
    for (method, path) in [
        ("POST", "/api/pull"),
        ("DELETE", "/api/delete"),
        ("POST", "/api/copy"),
    ] {
        let got = ask(e.addr(), method, path, "", r#"{"model":"m"}"#).await;
        assert_eq!(got.status, 501, "{path}");
        let text = got.json()["error"].as_str().unwrap().to_owned();
        assert!(text.contains("sample engine"), "{text}");
    }
}

#[tokio::test]
async fn pages_of_this_machine_may_ask_and_others_may_not() {
    let e = start("ollama", &["m"]).await;
    for (origin, allowed) in [
        ("http://localhost:3000", true),
        ("http://elsewhere.example", false),
    ] {
        for method in ["OPTIONS", "GET"] {
            let extra = format!("Origin: {origin}\r\n");
            let got = ask(e.addr(), method, "/api/tags", &extra, "").await;
            let header = format!("access-control-allow-origin: {origin}");
            assert_eq!(got.head.contains(&header), allowed, "{method} {origin}");
        }
    }
}
