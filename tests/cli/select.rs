//! `select`.

use crate::world::World;

#[test]
fn pins_by_id_or_by_unique_name_and_prints_the_pin_in_force() {
    let world = World::with_daemon();
    for word in ["tower", "tower.lan", "TOWER.LAN"] {
        let said = world.run(&["select", "ollama", word]);
        assert_eq!(said.out, "Ollama: pinned to tower.lan\n", "{}", said.err);
    }
    let said = world.run(&["select", "ollama", "--auto"]);
    assert_eq!(said.out, "Ollama: automatic, no pin\n");
    let json = world
        .run(&["select", "lmstudio", "uuid-2", "--json"])
        .json();
    let want = serde_json::json!({"schema_version": 1, "engine": "lmstudio", "pin": "uuid-2"});
    assert_eq!(json, want);
    assert_eq!(world.run(&["-q", "select", "ollama", "tower"]).out, "");
    let tower = "select ollama Some(\"tower\")";
    assert_eq!(
        world.commands(),
        [
            tower,
            tower,
            tower,
            "select ollama None",
            "select lmstudio Some(\"uuid-2\")",
            tower
        ]
    );
}

#[test]
fn an_unknown_node_is_answered_with_the_known_ones() {
    let world = World::with_daemon();
    let said = world.run(&["select", "ollama", "towr"]);
    assert_eq!(said.code, 4);
    assert_eq!(
        said.err,
        "error: no node \"towr\" on the Ollama facade\n       \
         known nodes: this-pc, tower.lan\n   \
         try: nvpair-proxy select ollama tower.lan\n"
    );
    assert_eq!(said.out, "");
    assert!(world.commands().is_empty());
}

#[test]
fn a_name_that_two_nodes_have_is_refused_with_their_ids() {
    let said = World::with_daemon().run(&["select", "lmstudio", "rig"]);
    assert_eq!(said.code, 4);
    assert!(said.err.contains("uuid-1, uuid-2"), "{}", said.err);
}

#[test]
fn a_facade_that_is_not_enabled_has_no_pin() {
    let said = World::with_daemon().run(&["select", "llamacpp", "--auto"]);
    assert_eq!(said.code, 4);
    assert!(
        said.err.contains("llama.cpp facade is not enabled"),
        "{}",
        said.err
    );
}
