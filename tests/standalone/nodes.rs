//! Nodes that are added to a running daemon: probed, used, there again after a restart.

use serde_json::json;

use crate::support::client::post;
use crate::support::daemon::{Standalone, World};
use crate::support::engine::Reply;
use crate::support::wait_for;
use crate::{chat, ollama, says, serve};

#[test]
fn an_added_node_is_probed_serves_and_survives_a_restart() {
    let a = ollama(&["m"], says("a"));
    let world = World::new();
    let url = format!("ollama=http://127.0.0.1:{}", a.port());
    let mut daemon = serve(&world, "", &[]);
    let added = world.json(&["nodes", "add", &url, "--name", "rig"]);
    assert_eq!(
        (&added["id"], &added["state"]),
        (&json!("rig"), &json!("healthy"))
    );
    assert_eq!(
        (&added["saved"], &added["models"]),
        (&json!(true), &json!(["m"]))
    );
    assert_eq!(post(daemon.port, "/api/chat", &chat("m")).text(), "a");
    daemon.process.terminate();
    assert_eq!(daemon.process.exit_code(), 0);

    let mut daemon = serve(&world, "", &[]);
    assert!(daemon.out.text().contains("rig"), "{}", daemon.out.text());
    assert_eq!(post(daemon.port, "/api/chat", &chat("m")).text(), "a");
    // It is asked by whoever looks, and not only told.
    let asked = a.requests().len();
    wait_for("another probe", || a.requests().len() > asked);
    let said = world.run(&["nodes", "remove", "rig"]);
    assert_eq!(
        (said.code, said.out.as_str()),
        (0, "Ollama: removed rig\n"),
        "{said:?}"
    );
    assert_eq!(world.json(&["nodes"])["nodes"], json!([]));
    daemon.process.terminate();
    assert_eq!(daemon.process.exit_code(), 0);
    let _third = serve(&world, "", &[]);
    assert_eq!(world.json(&["nodes"])["nodes"], json!([]));
}

#[test]
fn a_node_that_is_down_is_kept_and_one_of_the_file_stays() {
    let a = ollama(&["m"], says("a"));
    let world = World::new();
    let daemon = serve(&world, "", &[("tower", &a)]);
    let said = world.run(&["nodes", "add", "ollama=http://127.0.0.1:9", "--name", "den"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("does not answer"), "{said:?}");
    let told = world.json(&["nodes"]).to_string();
    assert!(told.contains("unreachable"), "{told}");
    assert_eq!(post(daemon.port, "/api/chat", &chat("m")).text(), "a");
    for (args, want) in [
        (["nodes", "remove", "tower"], "take it out there"),
        (["nodes", "remove", "towr"], "nodes remove tower"),
    ] {
        let said = world.run(&args);
        assert_eq!(said.code, 4, "{said:?}");
        assert!(said.err.contains(want), "{said:?}");
    }
    let own = format!("ollama=http://localhost:{}", daemon.port);
    let said = world.run(&["nodes", "add", &own]);
    assert_eq!(said.code, 4);
    assert!(said.err.contains("facade of this daemon"), "{said:?}");
}

#[test]
fn a_file_of_nodes_that_cannot_be_read_is_no_reason_not_to_start_and_is_kept() {
    let a = ollama(&["m"], Reply::status(503));
    let world = World::new();
    let path = world.path().join("state/nvpair-proxy/nodes.json");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "{\"v\":2}").unwrap();
    let daemon: Standalone = serve(&world, "", &[]);
    daemon
        .process
        .log
        .expect("its version is 2, this daemon knows 1");
    let url = format!("ollama=http://127.0.0.1:{}", a.port());
    let said = world.run(&["nodes", "add", &url]);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.err.contains("nodes.json"), "{said:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"v\":2}");
}
