//! `models`.

use crate::world::World;

#[test]
fn shows_owners_and_where_a_model_is_loaded() {
    let world = World::with_daemon();
    assert_eq!(
        world.run(&["models"]).out,
        "  MODEL     ENGINE  NODES           LOADED ON  CONTEXT
  phi4      Ollama  this-pc, tower  -          16384
  qwen3:8b  Ollama  this-pc, tower  this-pc    -
"
    );
    let json = world.run(&["models", "--loaded", "--json"]).json();
    assert_eq!(json["models"].as_array().unwrap().len(), 1);
    assert_eq!(json["models"][0]["model"], "qwen3:8b");
    assert_eq!(json["models"][0]["loaded"][0], "this-pc");
}
