//! `set-port`.

use crate::world::World;

#[test]
fn moves_a_facade_and_resolves_0_itself() {
    let world = World::with_daemon();
    let said = world.run(&["set-port", "ollama", "11500"]);
    assert_eq!(
        said.out,
        "Ollama listens on port 11500 now; clients use http://localhost:11500\n"
    );
    let json = world.run(&["set-port", "lmstudio", "0", "--json"]).json();
    let want = serde_json::json!({"schema_version": 1, "engine": "lmstudio", "port": 1234});
    assert_eq!(json, want);
    assert_eq!(
        world.commands(),
        ["set-port ollama 11500", "set-port lmstudio 1234"]
    );
}

#[test]
fn a_refusal_is_code_4_with_the_daemon_s_reason() {
    let world = World::with_daemon();
    let said = world.run(&["set-port", "ollama", "1"]);
    assert_eq!(said.code, 4);
    assert!(
        said.err
            .starts_with("error: the daemon refused: port 1: permission denied"),
        "{}",
        said.err
    );
    assert!(
        said.err.contains("try: nvpair-proxy doctor"),
        "{}",
        said.err
    );
    let said = world.run(&["set-port", "llamacpp", "1234"]);
    assert_eq!(said.code, 4);
    assert!(said.err.contains("no facade is enabled"), "{}", said.err);
    assert!(
        said.err.contains("try: nvpair-proxy status"),
        "{}",
        said.err
    );
}
