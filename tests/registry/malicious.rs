//! A registrant with a good key and bad intentions: each try is refused with its own error, and
//! nobody else notices.

use std::sync::atomic::Ordering;

use nvpair_proxy::rules::rate::PerMinute;
use serde_json::json;

use crate::rig::{Rig, beat, registration};

const HERE: &str = "http://10.0.0.7:11434";

#[tokio::test]
async fn endpoints_inside_this_machine_or_a_cloud_are_refused_however_they_are_spelled() {
    let rig = Rig::start();
    // Even one whose key allows everything.
    let key = rig
        .key("w1", &["0.0.0.0/0", "::/0", "inside.example"])
        .await;
    rig.names.set("inside.example", &["127.0.0.1"]);
    rig.names
        .set("mixed.example", &["10.0.0.7", "169.254.169.254"]);
    rig.names.set("mapped.example", &["::ffff:127.0.0.1"]);
    rig.names.set("empty.example", &[]);
    let forbidden = -32021;
    let params = -32602;
    for (endpoint, code, text) in [
        (
            "http://169.254.169.254/latest/meta-data",
            forbidden,
            "link-local",
        ),
        ("http://[::1]:6379", forbidden, "loopback"),
        ("http://127.0.0.1:6379", forbidden, "loopback"),
        ("http://127.1.2.3:80", forbidden, "loopback"),
        ("http://0.0.0.0:80", forbidden, "unspecified"),
        ("http://[::]:80", forbidden, "unspecified"),
        ("http://224.0.0.1:80", forbidden, "multicast"),
        ("http://255.255.255.255:80", forbidden, "broadcast"),
        ("http://[fe80::1]:80", forbidden, "link-local"),
        (
            "http://[::ffff:169.254.169.254]:80",
            forbidden,
            "link-local",
        ),
        ("http://[64:ff9b::a9fe:a9fe]:80", forbidden, "link-local"),
        ("http://[64:ff9b::7f00:1]:80", forbidden, "loopback"),
        ("http://inside.example:80", forbidden, "loopback"),
        ("http://mixed.example:80", forbidden, "link-local"),
        ("http://mapped.example:80", forbidden, "loopback"),
        ("http://empty.example:80", forbidden, "0 addresses"),
        (
            "http://nowhere.example:80",
            -32023,
            "cannot find an address",
        ),
        ("http://2130706433:80", params, "unusual spelling"),
        ("http://0177.0.0.1:80", params, "unusual spelling"),
        ("http://0x7f000001:80", params, "unusual spelling"),
        ("http://127.1:80", params, "unusual spelling"),
        ("http://me:canary@10.0.0.7:80", params, "user name"),
        ("http://10.0.0.7:80?x=1", params, "query"),
        ("http://10.0.0.7:80/../admin", params, "`..`"),
        ("file:///etc/passwd", params, "http"),
        ("gopher://10.0.0.7:70", params, "http"),
        ("http://10.0.0.7:0", params, "port"),
        ("http://10.0.0.7:65536", params, "URL"),
    ] {
        let answer = rig.register(&key, registration("w1", endpoint)).await;
        let (told_code, told) = answer.error();
        assert_eq!(told_code, code, "{endpoint}: {told}");
        assert!(told.contains(text), "{endpoint}: {told}");
        assert!(!told.contains("canary"), "{told}");
    }
    assert!(rig.fleet.record("w1").is_none());
}

#[tokio::test]
async fn an_endpoint_outside_of_the_keys_list_or_the_gateways_is_refused() {
    let only = |options: &mut nvpair_proxy::registry::Options| {
        options.allowed_endpoints = vec!["10.0.0.0/24".parse().unwrap()];
    };
    let rig = Rig::with(only);
    let key = rig.key("w1", &["10.0.0.0/8", "worker.lan"]).await;
    rig.names.set("worker.lan", &["192.168.1.9"]);
    rig.names.set("other.lan", &["192.168.1.9"]);
    for (endpoint, text) in [
        ("http://192.168.1.9:80", "not in the key's allow list"),
        ("http://other.lan:80", "\"other.lan\" leads to 192.168.1.9"),
        ("http://worker.lan:80", "`allowed_endpoints`"),
        ("http://10.0.1.7:80", "`allowed_endpoints`"),
    ] {
        let answer = rig.register(&key, registration("w1", endpoint)).await;
        let (code, told) = answer.error();
        assert_eq!(code, -32021, "{endpoint}: {told}");
        assert!(told.contains(text), "{endpoint}: {told}");
    }
    assert_eq!(
        rig.register(&key, registration("w1", HERE)).await.status,
        200
    );
}

#[tokio::test]
async fn a_name_that_changes_after_the_check_moves_nothing() {
    let rig = Rig::start();
    let key = rig.key("w1", &["worker.lan"]).await;
    rig.names.set("worker.lan", &["10.0.0.7"]);
    let params = registration("w1", "http://worker.lan:11434/v1");
    let registered = rig.register(&key, params.clone()).await;
    let session = registered.result()["session"].as_str().unwrap().to_owned();
    rig.names.set("worker.lan", &["127.0.0.1"]);
    let beaten = rig
        .call(&key, "node/heartbeat", beat("w1", &session, 1))
        .await;
    assert_eq!(beaten.result()["reregister"], json!(false));
    let kept = || {
        rig.fleet
            .record("w1")
            .unwrap()
            .registration
            .address
            .to_string()
    };
    assert_eq!(kept(), "10.0.0.7:11434");
    // To come in by the new address it has to register, and is judged.
    let answer = rig.register(&key, params).await;
    assert_eq!(answer.error().0, -32021);
    assert_eq!(kept(), "10.0.0.7:11434");
}

#[tokio::test]
async fn a_key_speaks_for_no_other_node() {
    let rig = Rig::start();
    let mine = rig.key("mine", &["10.0.0.0/8"]).await;
    let theirs = rig.key("theirs", &["10.0.0.0/8"]).await;
    let registered = rig.register(&theirs, registration("theirs", HERE)).await;
    let session = registered.result()["session"].as_str().unwrap().to_owned();
    let before = rig.fleet.record("theirs");
    for (method, params) in [
        (
            "node/register",
            registration("theirs", "http://10.0.0.66:80"),
        ),
        ("node/heartbeat", beat("theirs", &session, 9)),
        (
            "node/unregister",
            json!({"node_id": "theirs", "session": session}),
        ),
    ] {
        let answer = rig.call(&mine, method, params).await;
        let (code, text) = answer.error();
        assert_eq!(code, -32021, "{method}");
        assert!(text.contains("speaks for node \"mine\""), "{text}");
    }
    assert_eq!(rig.fleet.record("theirs"), before);
}

#[tokio::test]
async fn a_replayed_session_or_beat_changes_nothing() {
    let rig = Rig::start();
    let key = rig.key("w1", &["10.0.0.0/8"]).await;
    let session = async || {
        let registered = rig.register(&key, registration("w1", HERE)).await;
        registered.result()["session"].as_str().unwrap().to_owned()
    };
    let old = session().await;
    let new = session().await;
    assert_ne!(old, new);
    let taken = rig.call(&key, "node/heartbeat", beat("w1", &new, 5)).await;
    assert_eq!(taken.result()["reregister"], json!(false));
    let before = rig.fleet.record("w1");
    let replaced = rig.call(&key, "node/heartbeat", beat("w1", &old, 6)).await;
    assert_eq!(replaced.result()["reregister"], json!(true));
    for seq in [5, 4, 1] {
        let stale = rig
            .call(&key, "node/heartbeat", beat("w1", &new, seq))
            .await;
        assert_eq!(stale.error().0, -32024);
    }
    let leave = json!({"node_id": "w1", "session": old});
    let left = rig.call(&key, "node/unregister", leave).await;
    assert_eq!(*left.result(), json!({"removed": false}));
    for odd in ["", "x", &"f".repeat(33), "../../etc"] {
        let answer = rig.call(&key, "node/heartbeat", beat("w1", odd, 9)).await;
        assert_eq!(answer.error().0, -32602);
    }
    assert_eq!(rig.fleet.record("w1"), before);
}

#[tokio::test]
async fn a_list_of_ten_megabytes_is_refused_by_its_size_and_a_long_one_by_its_length() {
    let rig = Rig::start();
    let key = rig.key("w1", &["10.0.0.0/8"]).await;
    let with = |count: usize, length: usize| {
        let mut params = registration("w1", HERE);
        let model = |n: usize| json!({"id": format!("{n:0length$}")});
        params["models"] = (0..count).map(model).collect();
        params
    };
    let big = rig.register(&key, with(10_000, 1_024)).await;
    assert_eq!(big.status, 413, "{big:?}");
    assert!(big.error().1.contains("1048576 bytes"), "{big:?}");
    for (params, named) in [(with(1_001, 4), "models"), (with(1, 257), "models[0].id")] {
        let answer = rig.register(&key, params).await;
        let (code, text) = answer.error();
        assert_eq!(code, -32602);
        assert!(text.contains(named), "{text}");
    }
    assert!(rig.fleet.record("w1").is_none());
    // The connection that sent it is the only one that ended.
    assert_eq!(rig.register(&key, with(1_000, 256)).await.status, 200);
}

#[tokio::test]
async fn a_flood_of_registrations_is_bounded_and_costs_the_others_nothing() {
    let rig = Rig::with(|options| options.registrations = PerMinute::new(10));
    let flood = rig.key("flood", &["10.0.0.0/8"]).await;
    let quiet = rig.key("quiet", &["10.0.0.0/8"]).await;
    let registered = rig.register(&quiet, registration("quiet", HERE)).await;
    let session = registered.result()["session"].as_str().unwrap().to_owned();
    let (mut taken, mut refused) = (0, 0);
    // The clock stands, so this is any number a minute.
    for n in 0..500 {
        let answer = rig.register(&flood, registration("flood", HERE)).await;
        match answer.body["error"]["code"].as_i64() {
            None => taken += 1,
            Some(-32022) => refused += 1,
            Some(_) => panic!("{answer:?}"),
        }
        if n % 50 == 0 {
            let beaten = rig
                .call(&quiet, "node/heartbeat", beat("quiet", &session, n + 1))
                .await;
            assert_eq!(beaten.result()["reregister"], json!(false));
        }
    }
    assert_eq!((taken, refused), (10, 490));
    let answer = rig.register(&flood, registration("flood", HERE)).await;
    assert_eq!(answer.body["error"]["data"]["retry_after_ms"], json!(6_000));
    rig.clock.store(6_000, Ordering::Relaxed);
    assert_eq!(
        rig.register(&flood, registration("flood", HERE))
            .await
            .status,
        200
    );
    // Malformed ones count too: reading them is what costs.
    let answer = rig.register(&flood, json!({})).await;
    assert_eq!(answer.error().0, -32022);
}
