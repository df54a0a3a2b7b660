//! `providers`.

use crate::world::World;

#[test]
fn shows_how_each_stands_and_how_it_failed_last() {
    let world = World::with_daemon();
    let said = world.run(&["providers"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(
        said.out,
        "  PROVIDER  TIER  STATE         STANDING  PENALTY  COOL-DOWN  FAILED  REQUESTS  429  MODELS
  groq      1     cooling down  -         2s       12s        3       40        5    llama
  groq: answered 503 (1m ago, 2 in a row)
"
    );
    let json = world.run(&["providers", "--json"]).json();
    assert_eq!(json["schema_version"], 1);
    let groq = &json["providers"][0];
    assert_eq!(groq["state"], "cooling_down");
    assert!(groq["standing"].is_null());
    assert_eq!(groq["last_failure"]["text"], "answered 503");
}
