//! The pool's subcommands, as a person runs them, over a control socket of the test's own.
#![cfg(unix)]

use std::process::{Command, Output};

use serde_json::Value;

use crate::admin::Desk;
use crate::rig::{Rig, registration};

const HERE: &str = "http://10.0.0.7:11434";

/// Runs the binary while the runtime serves the socket.
async fn run(desk: &Desk, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nvpair-proxy"));
    command.arg("--socket").arg(&desk.path).args(args);
    let ran = tokio::task::spawn_blocking(move || command.output().unwrap());
    ran.await.unwrap()
}

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[tokio::test]
async fn a_key_is_printed_once_with_the_whole_join_command() {
    let rig = Rig::start();
    let desk = Desk::over(Some(&rig));
    let create = ["nodes", "keys", "create", "rig", "--node-id", "w1"];
    let more = [
        "--allow",
        "10.0.0.7,lab.lan",
        "--model",
        "qwen*",
        "--engine",
        "vllm",
    ];
    let text = out(&run(&desk, &[&create[..], &more[..]].concat()).await);
    let line = text
        .lines()
        .find(|l| l.trim().starts_with("NODE_KEY="))
        .unwrap();
    assert!(
        line.contains("--proxy-addr gw.lan:9090 --proxy-fingerprint sha256:ab"),
        "{line}"
    );
    assert!(line.ends_with("--endpoint http://10.0.0.7:8000"), "{line}");
    let key = text
        .lines()
        .map(str::trim)
        .find(|l| l.starts_with("ktms_node_"))
        .unwrap();
    let registered = rig.register(key, registration("w1", HERE)).await;
    assert!(registered.result()["session"].is_string());

    let told = refused(&run(&desk, &create).await);
    assert!(told.contains("there is a key \"rig\" already"), "{told}");
    let bad = [
        "nodes",
        "keys",
        "create",
        "x",
        "--node-id",
        "w1",
        "--allow",
        "10.0.0.0/99",
    ];
    assert!(refused(&run(&desk, &bad).await).contains("allow[0]"));
    let usage = run(&desk, &["nodes", "keys", "create", "x"]).await;
    assert_eq!(usage.status.code(), Some(2));

    let listed = out(&run(&desk, &["nodes", "keys"]).await);
    assert!(
        listed.contains("10.0.0.7, lab.lan") && listed.contains("qwen*"),
        "{listed}"
    );
    assert!(!listed.contains(&key[20..]), "{listed}");
    let revoked = out(&run(&desk, &["nodes", "keys", "revoke", "rig"]).await);
    assert_eq!(revoked, "revoked rig; node w1 was put out\n");
    assert!(rig.fleet.record("w1").is_none());
    assert!(
        refused(&run(&desk, &["nodes", "keys", "revoke", "rig"]).await).contains("no node key")
    );

    let json = out(&run(
        &desk,
        &["--json", "nodes", "keys", "create", "b", "--node-id", "w2"],
    )
    .await);
    let json: Value = serde_json::from_str(&json).unwrap();
    let join = json["join"].as_str().unwrap();
    assert!(
        join.starts_with(&format!("NODE_KEY={} ", json["key"].as_str().unwrap())),
        "{join}"
    );
    let quiet = out(&run(
        &desk,
        &["-q", "nodes", "keys", "create", "c", "--node-id", "w3"],
    )
    .await);
    assert_eq!(quiet.trim().len(), "ktms_node_".len() + 64, "{quiet}");
}

#[tokio::test]
async fn a_drain_waits_for_what_runs_and_nodes_show_it() {
    let rig = Rig::start();
    let desk = Desk::over(Some(&rig));
    let key = rig.key("w1", &["10.0.0.0/8"]).await;
    rig.register(&key, registration("w1", HERE)).await.result();
    rig.fleet.lease("w1", 2);
    let shown = out(&run(&desk, &["nodes", "drain", "w1"]).await);
    assert!(
        shown.starts_with("w1: draining") && shown.ends_with("2 requests run on it\n"),
        "{shown}"
    );
    let listed = out(&run(&desk, &["nodes"]).await);
    for part in ["w1", "draining", "2/2", "qwen3:8b*", "10.0.0.7:11434"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    let status = out(&run(&desk, &["status"]).await);
    assert!(
        status.contains("Pool: registry on") && status.contains("draining"),
        "{status}"
    );
    let only = out(&run(&desk, &["nodes", "list", "--engine", "lmstudio", "--json"]).await);
    let only: Value = serde_json::from_str(&only).unwrap();
    assert_eq!(only["pool"]["nodes"], serde_json::json!([]));

    let waiting = run(&desk, &["nodes", "drain", "w1", "--wait"]);
    let mut waiting = std::pin::pin!(waiting);
    // It has looked again at least once, and is still there: then what runs may end.
    let looks = rig.fleet.looks();
    let looked = async {
        while rig.fleet.looks() < looks + 3 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        output = &mut waiting => panic!("it did not wait: {output:?}"),
        () = looked => {},
    }
    rig.fleet.lease("w1", 0);
    assert_eq!(out(&waiting.await), "w1: nothing runs on it any more\n");
    let resumed = out(&run(&desk, &["nodes", "resume", "w1"]).await);
    assert_eq!(resumed, "w1: healthy; nothing runs on it\n");
    rig.fleet.break_node("w1");
    let reset = out(&run(&desk, &["--json", "nodes", "reset", "w1"]).await);
    let reset: Value = serde_json::from_str(&reset).unwrap();
    assert_eq!(reset["node"]["state"], "healthy");
    assert!(refused(&run(&desk, &["nodes", "drain", "w9"]).await).contains("no pool node \"w9\""));
}

#[tokio::test]
async fn without_a_pool_each_subcommand_says_how_to_get_one() {
    let desk = Desk::over(None);
    for args in [
        &["nodes", "drain", "a", "--wait"][..],
        &["nodes", "resume", "a"],
        &["nodes", "reset", "a"],
        &["nodes", "keys"],
        &["nodes", "keys", "revoke", "a"],
        &["nodes", "keys", "create", "a", "--node-id", "b"],
    ] {
        let told = refused(&run(&desk, args).await);
        assert!(told.contains("add a [pool] section"), "{args:?}: {told}");
    }
}
