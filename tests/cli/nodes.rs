//! `nodes`.

use crate::world::World;

#[test]
fn lists_where_each_node_is_and_how_it_is() {
    let world = World::with_daemon();
    let said = world.run(&["nodes"]);
    assert_eq!(
        said.out,
        "  NODE       ENGINE     KIND    STATE    ADDRESS      MODELS
  this-pc    Ollama     local   healthy  127.0.0.1:1  2
  tower.lan  Ollama     manual  healthy  127.0.0.1:1  2
  uuid-1     LM Studio  peer    healthy  127.0.0.1:1  2
  uuid-2     LM Studio  peer    healthy  127.0.0.1:1  2
"
    );
    assert_eq!(world.run(&["nodes", "list"]).out, said.out);
    let json = world
        .run(&["nodes", "list", "--engine", "ollama", "--json"])
        .json();
    assert_eq!(json["nodes"].as_array().unwrap().len(), 2);
    let none = world.run(&["nodes", "list", "--engine", "llamacpp"]);
    assert!(none.out.contains("none"), "{}", none.out);
}

#[test]
fn a_node_is_added_with_everything_that_is_said_of_it() {
    let world = World::with_daemon();
    let key = world.path().join("key");
    std::fs::write(&key, "canary\n").unwrap();
    let said = world.run(&[
        "nodes",
        "add",
        "ollama=http://tower.lan:11434/v1",
        "--name",
        "rig",
        "--model",
        "a",
        "--model",
        "b",
        "--slots",
        "4",
        "--api-key-file",
        key.to_str().unwrap(),
    ]);
    assert_eq!(
        said.out, "Ollama: added rig at http://tower.lan:11434; it answers, with 2 models.\n",
        "{}",
        said.err
    );
    assert!(!(said.out + &said.err).contains("canary"));
    let json = world
        .run(&["nodes", "add", "ollama=http://x:2", "--json"])
        .json();
    assert_eq!(
        (&json["schema_version"], &json["id"]),
        (&1.into(), &"x".into())
    );
    assert_eq!(
        world.run(&["-q", "nodes", "add", "ollama=http://x:2"]).out,
        ""
    );
    let seen = world.commands();
    assert_eq!(
        seen[0],
        "add ollama http://tower.lan:11434 Some(\"rig\") Some([\"a\", \"b\"]) Some(\"canary\") Some(4)"
    );
    assert_eq!(seen[1], "add ollama http://x:2 None None None None");
}

#[test]
fn what_cannot_be_added_says_why_and_what_to_do() {
    let world = World::with_daemon();
    let said = world.run(&["nodes", "add", "ollama=http://127.0.0.1:1"]);
    assert_eq!((said.code, said.out.as_str()), (4, ""));
    assert!(said.err.contains("facade of this daemon"), "{}", said.err);
    assert!(
        said.err.contains("try: nvpair-proxy nodes list"),
        "{}",
        said.err
    );
    // Its facade is not enabled.
    let said = world.run(&["nodes", "add", "llamacpp=http://x:2"]);
    assert_eq!(said.code, 4, "{}", said.err);
    let said = world.run(&[
        "nodes",
        "add",
        "ollama=http://x:2",
        "--api-key-file",
        "/nowhere",
    ]);
    assert_eq!(said.code, 2);
    assert!(
        said.err.contains("cannot read a key from /nowhere"),
        "{}",
        said.err
    );
    let said = world.run(&["nodes", "add", "ollama=http://me:secret@x:2"]);
    assert_eq!(said.code, 2);
    assert!(!said.err.contains("secret"), "{}", said.err);
}

#[test]
fn a_node_is_removed_by_id_or_name_and_an_unknown_one_is_answered_with_the_known() {
    let world = World::with_daemon();
    let said = world.run(&["nodes", "remove", "TOWER.lan"]);
    assert_eq!(said.out, "Ollama: removed tower\n", "{}", said.err);
    let json = world.run(&["nodes", "remove", "tower", "--json"]).json();
    assert_eq!(
        json,
        serde_json::json!({"schema_version": 1, "engine": "ollama", "id": "tower", "removed": true})
    );
    assert_eq!(
        world.commands(),
        ["remove ollama tower", "remove ollama tower"]
    );
    let said = world.run(&["nodes", "remove", "towr"]);
    assert_eq!(said.code, 4);
    assert_eq!(
        said.err,
        "error: no node \"towr\"\n       \
         known nodes: this-pc, tower.lan, uuid-1, uuid-2\n   \
         try: nvpair-proxy nodes remove tower.lan\n"
    );
    let said = world.run(&["nodes", "remove", "tower", "--engine", "lmstudio"]);
    assert!(said.err.contains("on the LM Studio facade"), "{}", said.err);
    // It was there a moment ago, but nobody added it.
    let said = world.run(&["nodes", "remove", "this-pc"]);
    assert_eq!(said.code, 4);
    assert!(said.err.contains("was not added"), "{}", said.err);
}
