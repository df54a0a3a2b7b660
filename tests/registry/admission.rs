//! Workers that are let in, and what a key opens.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::rig::{Rig, beat, registration};

const HERE: &str = "http://10.0.0.7:11434/v1";

#[tokio::test]
async fn a_worker_registers_beats_and_leaves() {
    let rig = Rig::start();
    let key = rig.key("w1", &["10.0.0.0/8"]).await;
    let registered = rig.register(&key, registration("w1", HERE)).await;
    let r = registered.result();
    assert_eq!(
        (&r["heartbeat_interval_seconds"], &r["ttl_seconds"]),
        (&json!(5), &json!(15))
    );
    assert_eq!(r["sweep_interval_seconds"], 5);
    assert_eq!(r["rejected_models"], json!([]));
    let session = r["session"].as_str().unwrap();
    let record = rig.fleet.record("w1").unwrap();
    assert_eq!(record.registration.address.to_string(), "10.0.0.7:11434");
    assert_eq!(record.registration.base_weight, 2);
    assert_eq!(record.key_name, "key-w1");

    let beaten = rig
        .call(&key, "node/heartbeat", beat("w1", session, 1))
        .await;
    assert_eq!(
        *beaten.result(),
        json!({"heartbeat_interval_seconds": 5, "ttl_seconds": 15, "sweep_interval_seconds": 5, "state": "healthy",
            "drain": false, "reregister": false, "active_proxy_requests": 0,
            "rejected_models": []})
    );
    let leave = json!({"node_id": "w1", "session": session});
    let left = rig.call(&key, "node/unregister", leave.clone()).await;
    assert_eq!(*left.result(), json!({"removed": true}));
    let again = rig.call(&key, "node/unregister", leave).await;
    assert_eq!(*again.result(), json!({"removed": false}));
    // Gone is no error for one that beats on: it is told to register.
    let beaten = rig
        .call(&key, "node/heartbeat", beat("w1", session, 2))
        .await;
    assert_eq!(beaten.result()["reregister"], json!(true));
}

#[tokio::test]
async fn without_a_key_that_stands_nothing_is_answered_and_the_error_says_what_to_do() {
    let rig = Rig::start();
    let key = rig.key("w1", &["10.0.0.0/8"]).await;
    let legacy = key.replace("ktms_node_", "llm_node_");
    assert_eq!(
        rig.register(&legacy, registration("w1", HERE)).await.status,
        200
    );
    assert!(rig.fleet.revoke("key-w1").await);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "node/register", "params": {}});
    let body = body.to_string();
    for (headers, text) in [
        (String::new(), "a node key is missing"),
        (
            "authorization: Basic eDp5\r\n".to_owned(),
            "shows no node key",
        ),
        (
            "authorization: Bearer ktms_x\r\n".to_owned(),
            "unknown or was revoked",
        ),
        (
            format!("authorization: Bearer ktms_node_{}\r\n", "0".repeat(64)),
            "unknown or was revoked",
        ),
        (
            format!("authorization: Bearer {key}\r\n"),
            "unknown or was revoked",
        ),
        (
            format!("authorization: Bearer {key}\r\nauthorization: Bearer {key}\r\n"),
            "more than one",
        ),
    ] {
        let answer = rig.post(&headers, body.as_bytes()).await;
        assert_eq!(answer.status, 401, "{answer:?}");
        assert!(
            answer.head.contains("www-authenticate: bearer"),
            "{answer:?}"
        );
        let (code, told) = answer.error();
        assert_eq!(code, -32020);
        assert!(told.contains(text), "{told}");
        assert!(!answer.body.to_string().contains(&key), "{answer:?}");
    }
}

#[tokio::test]
async fn models_outside_of_the_keys_patterns_are_left_out_and_named() {
    let rig = Rig::start();
    let key = rig
        .key_for("w1", &["10.0.0.0/8"], &["qwen*", "llama3"])
        .await;
    let mut params = registration("w1", HERE);
    params["models"] = json!([{"id": "qwen3:8b"}, {"id": "gpt-oss"}, {"id": "llama3:70b"}]);
    let registered = rig.register(&key, params).await;
    let r = registered.result();
    assert_eq!(r["rejected_models"], json!(["gpt-oss", "llama3:70b"]));
    let mut params = beat("w1", r["session"].as_str().unwrap(), 1);
    params["models"] = json!([{"id": "gpt-oss", "is_warm": true}]);
    let beaten = rig.call(&key, "node/heartbeat", params).await;
    assert_eq!(beaten.result()["rejected_models"], json!(["gpt-oss"]));
    assert!(rig.fleet.record("w1").unwrap().models().is_empty());
}

#[tokio::test]
async fn a_key_without_allow_list_means_where_the_call_comes_from_but_never_this_machine_itself() {
    let rig = Rig::start();
    let bare = rig.key("w1", &[]).await;
    let here = "http://127.0.0.1:11434";
    let answer = rig.register(&bare, registration("w1", here)).await;
    let (code, text) = answer.error();
    assert_eq!(code, -32021);
    assert!(text.contains("--allow 127.0.0.1"), "{text}");
    // Said on purpose it is fine.
    let meant = rig.key("w2", &["127.0.0.1"]).await;
    assert_eq!(
        rig.register(&meant, registration("w2", here)).await.status,
        200
    );
    assert!(rig.fleet.record("w2").is_some() && rig.fleet.record("w1").is_none());
}

#[tokio::test]
async fn parameters_are_read_strictly_and_the_field_is_named() {
    let rig = Rig::start();
    let key = rig.key("w1", &["10.0.0.0/8"]).await;
    let change = |field: &str, value: Value| {
        let mut params = registration("w1", HERE);
        params[field] = value;
        params
    };
    for (params, named) in [
        (change("weight", json!(3)), "unknown field `weight`"),
        (change("max_concurrency", json!(0)), "max_concurrency"),
        (change("max_concurrency", json!("two")), "invalid type"),
        (change("base_weight", json!(1001)), "base_weight"),
        (change("engine", json!("sglang")), "vllm"),
        (change("endpoint", json!("10.0.0.7:11434")), "endpoint"),
        (change("models", json!([{"id": ""}])), "models[0]"),
        (json!([registration("w1", HERE)]), "object"),
        (Value::Null, "object"),
    ] {
        let answer = rig.register(&key, params.clone()).await;
        let (code, text) = answer.error();
        assert_eq!(code, -32602, "{params} {text}");
        assert!(text.contains(named), "{params} {text}");
    }
    // What the caller sent is not echoed at any length.
    let answer = rig
        .register(&key, change("engine", json!("x".repeat(100_000))))
        .await;
    assert!(answer.error().1.len() < 1_000);
    assert!(rig.fleet.record("w1").is_none());
}

#[tokio::test]
async fn a_key_revoked_while_its_node_comes_in_leaves_no_node_behind() {
    let rig = Rig::start();
    let key = rig.key("w1", &["10.0.0.0/8"]).await;
    rig.fleet
        .revoke_during_register
        .store(true, Ordering::Relaxed);
    let answer = rig.register(&key, registration("w1", HERE)).await;
    assert_eq!(answer.error().0, -32020);
    assert!(rig.fleet.record("w1").is_none());
}

#[tokio::test]
async fn a_store_that_is_down_is_told_so_and_a_fault_of_ours_ends_one_call_alone() {
    let rig = Rig::start();
    let key = rig.key("w1", &["10.0.0.0/8"]).await;
    rig.fleet.down.store(true, Ordering::Relaxed);
    let answer = rig.register(&key, registration("w1", HERE)).await;
    assert_eq!((answer.status, answer.error().0), (503, -32023));
    assert!(answer.head.contains("retry-after: "), "{answer:?}");
    // A known key is found while the store is down: then the call itself cannot be done.
    rig.fleet.keys_are_cached.store(true, Ordering::Relaxed);
    let answer = rig.register(&key, registration("w1", HERE)).await;
    assert_eq!(answer.error().0, -32023);
    rig.fleet.down.store(false, Ordering::Relaxed);
    rig.fleet.panics.store(true, Ordering::Relaxed);
    let answer = rig.register(&key, registration("w1", HERE)).await;
    assert_eq!((answer.status, answer.error().0), (500, -32603));
    rig.fleet.panics.store(false, Ordering::Relaxed);
    assert_eq!(
        rig.register(&key, registration("w1", HERE)).await.status,
        200
    );
}
