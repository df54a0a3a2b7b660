//! `workloads`.

use nvpair_proxy::wire::broker::WorkloadState;

use crate::world::{World, engine};

fn squeeze(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn lists_newest_first_with_the_reason_of_a_failure() {
    let said = World::with_daemon().run(&["workloads"]);
    let lines: Vec<_> = said.out.lines().map(squeeze).collect();
    assert_eq!(lines[0], "ID ENGINE MODEL STATE NODE AGE TTFT TOKENS TOK/S");
    assert!(
        lines[1].starts_with("90 Ollama qwen3:8b completed this-pc "),
        "{}",
        said.out
    );
    assert!(lines[1].ends_with(" 0.81s 340 42.0"), "{}", said.out);
    assert!(
        lines[2].ends_with(" - - - upstream returned HTTP 400"),
        "{}",
        said.out
    );
}

#[test]
fn filters_go_to_the_daemon_and_a_node_s_name_becomes_its_id() {
    let world = World::with_daemon();
    let json = world
        .run(&[
            "workloads",
            "--json",
            "--engine",
            "ollama",
            "--state",
            "failed",
            "--model",
            "phi4",
            "--node",
            "tower.lan",
            "--limit",
            "4",
        ])
        .json();
    assert_eq!(json["schema_version"], 1);
    assert_eq!(json["workloads"][0]["stats"]["ttftMs"], 810);
    let filter = world.filter();
    assert_eq!(filter.engine, Some(engine("ollama")));
    assert_eq!(filter.state, Some(WorkloadState::Failed));
    assert_eq!(filter.model.as_deref(), Some("phi4"));
    assert_eq!(filter.node.as_deref(), Some("tower"));
    assert_eq!(filter.limit, Some(4));
    assert_eq!(world.run(&["workloads"]).code, 0);
    assert_eq!(world.filter().limit, Some(50));
}

#[test]
fn one_workload_is_shown_event_by_event() {
    let said = World::with_daemon().run(&["workloads", "90"]);
    assert_eq!(
        said.out,
        "Workload 90 · Ollama · qwen3:8b · POST /api/chat · 412 B
  +0.000   admitted           2 owners: tower, this-pc
  +0.001   dispatched  tower  load 2 (pending 1 + pressure 0 + reserved 1)
  +0.214   refused     tower  HTTP 503
  +8.905   completed          340 tokens, 42.0 tok/s
"
    );
}

#[test]
fn a_number_on_two_facades_must_be_made_unique() {
    let world = World::with_daemon();
    let said = world.run(&["workloads", "7"]);
    assert_eq!(said.code, 4);
    assert!(
        said.err
            .contains("ollama/7 (qwen3:8b, completed), lmstudio/7"),
        "{}",
        said.err
    );
    assert!(
        said.err.contains("try: nvpair-proxy workloads ollama/7"),
        "{}",
        said.err
    );
    let json = world.run(&["workloads", "lmstudio/7", "--json"]).json();
    assert_eq!(json["workloads"][0]["engine"], "lmstudio");
    assert_eq!(json["workloads"].as_array().unwrap().len(), 1);
    assert_eq!(world.run(&["workloads", "7", "--engine", "ollama"]).code, 0);
    let of_this_run = world.run(&["workloads", "0101010101010101/ollama/7"]);
    assert_eq!(of_this_run.code, 0, "{}", of_this_run.err);
    assert_eq!(
        world.run(&["workloads", "0000000000000000/ollama/7"]).code,
        4
    );
}

#[test]
fn an_unknown_number_is_code_4() {
    let said = World::with_daemon().run(&["workloads", "ollama/123"]);
    assert_eq!(said.code, 4);
    assert!(
        said.err.contains("no workload 123 on ollama"),
        "{}",
        said.err
    );
}

#[test]
fn a_node_that_nobody_knows_is_refused_and_one_that_left_is_not() {
    let world = World::with_daemon();
    let said = world.run(&["workloads", "--node", "towr"]);
    assert_eq!((said.code, said.out.as_str()), (4, ""));
    assert!(
        said.err
            .ends_with("try: nvpair-proxy workloads --node tower.lan\n"),
        "{}",
        said.err
    );
    assert_eq!(world.run(&["workloads", "--node", "gone"]).code, 0);
    let said = world.run(&["workloads", "--node", "rig"]);
    assert_eq!(said.code, 4);
    assert!(said.err.contains("uuid-1, uuid-2"), "{}", said.err);
    assert_eq!(
        world.run(&["workloads", "--follow", "--node", "towr"]).code,
        4
    );
}

#[test]
fn a_model_that_nobody_has_is_answered_with_the_nearest() {
    let world = World::with_daemon();
    let said = world.run(&["workloads", "--model", "qwen3:7b"]);
    assert_eq!((said.code, said.out.as_str()), (0, "  none\n"));
    assert_eq!(said.err, "no node has \"qwen3:7b\"; nearest: qwen3:8b\n");
    assert_eq!(
        world.run(&["-q", "workloads", "--model", "qwen3:7b"]).err,
        ""
    );
    assert_eq!(world.run(&["workloads", "--model", "phi4"]).err, "");
}
