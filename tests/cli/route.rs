//! `route`.

use crate::world::World;

#[test]
fn shows_the_order_with_its_terms_and_why_the_others_are_out() {
    let world = World::with_daemon();
    let said = world.run(&["route", "--engine", "ollama", "--model", "qwen3:8b"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(
        said.out,
        "Would try, in this order:
  1  tower.lan  load 0, warm, weight 100
  2  this-pc    load 1 (pending 0 + pressure 0 + reserved 1), warm, 1 in flight, weight 100
Not eligible:
  attic      does not advertise the model (has qwen3:4b)
Pin: none.  Scheduler: weighted.
"
    );
}

#[test]
fn json_has_a_version_and_every_term() {
    let world = World::with_daemon();
    let args = [
        "route", "--engine", "ollama", "--model", "qwen3:8b", "--json",
    ];
    let json = world.run(&args).json();
    assert_eq!(json["schema_version"], 1);
    assert_eq!(json["candidates"][1]["node"], "this-pc");
    assert_eq!(json["candidates"][1]["in_flight"], 1);
    assert_eq!(json["excluded"][0]["near"][0], "qwen3:4b");
}

#[test]
fn an_engine_that_is_not_enabled_is_code_4_and_no_model_is_code_2() {
    let world = World::with_daemon();
    let said = world.run(&["route", "--engine", "llamacpp", "--model", "m"]);
    assert_eq!(said.code, 4, "{}", said.err);
    assert!(said.err.contains("nvpair-proxy status"), "{}", said.err);
    assert_eq!(
        world
            .run(&["route", "--engine", "ollama", "--model", ""])
            .code,
        2
    );
    assert_eq!(
        world
            .run(&["route", "--engine", "ollama", "--model", " "])
            .code,
        4
    );
    assert_eq!(world.run(&["route", "--engine", "ollama"]).code, 2);
}
