//! `healthcheck`.

use crate::world::World;

#[test]
fn a_daemon_that_serves_is_0_and_nothing_is_printed() {
    let world = World::with_daemon();
    for args in [&["healthcheck"][..], &["healthcheck", "ollama", "lmstudio"]] {
        let said = world.run(args);
        assert_eq!(
            (said.code, said.out, said.err),
            (0, String::new(), String::new())
        );
    }
}

#[test]
fn a_named_facade_that_does_not_listen_is_1() {
    let world = World::with_daemon();
    let said = world.run(&["healthcheck", "ollama", "llamacpp"]);
    assert_eq!((said.code, said.out.as_str()), (1, ""));
    assert!(
        said.err
            .starts_with("error: the llama.cpp facade does not listen"),
        "{}",
        said.err
    );
    let said = world.run(&["healthcheck", "llamacpp", "-q"]);
    assert_eq!((said.code, said.err.as_str()), (1, ""));
}

#[test]
fn without_a_daemon_quiet_leaves_the_code_only() {
    let said = World::new().run(&["healthcheck", "--quiet"]);
    assert_eq!(
        (said.code, said.out.as_str(), said.err.as_str()),
        (3, "", "")
    );
}

#[test]
fn json_tells_the_same_as_the_code() {
    let world = World::with_daemon();
    let well = world.run(&["healthcheck", "--json"]).json();
    assert_eq!(
        well,
        serde_json::json!({"schema_version": 1, "healthy": true})
    );
    let said = world.run(&["healthcheck", "llamacpp", "--json"]);
    assert_eq!(said.code, 1);
    let ill: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(ill["healthy"], false);
    assert_eq!(ill["reason"], "the llama.cpp facade does not listen");
}
