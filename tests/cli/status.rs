//! `status`.

use crate::world::World;

#[test]
fn shows_facades_nodes_and_counts() {
    let said = World::with_daemon().run(&["status"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let squeezed: Vec<String> = said
        .out
        .lines()
        .map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(squeezed[0], "Facades");
    assert_eq!(squeezed[1], "ENGINE PORT PIN NODES IN FLIGHT SINCE");
    assert!(
        squeezed[2].starts_with("Ollama 11435 - 2 3 "),
        "{}",
        said.out
    );
    // Two nodes are called `rig`, so that only the id says which one is meant.
    assert!(
        squeezed[3].starts_with("LM Studio 1234 uuid-1 2 3 "),
        "{}",
        said.out
    );
    assert_eq!(squeezed[5], "Nodes");
    assert_eq!(
        squeezed[6],
        "NODE ENGINE KIND STATE LOAD = PENDING + PRESSURE + RESERVED MODELS WARM"
    );
    assert_eq!(
        squeezed[7],
        "this-pc Ollama local healthy 2 1 0 1 2 qwen3:8b"
    );
    assert_eq!(squeezed[8], "tower.lan Ollama manual healthy 2 1 0 1 2 -");
    assert!(
        squeezed[9].starts_with("uuid-1 LM Studio peer "),
        "{}",
        said.out
    );
    assert_eq!(
        said.out.lines().last().unwrap(),
        "Scheduler: generation 41, 3 s old.  \
         Workloads: 3 running, 1 queued, 412 done, 2 failed, 5 cancelled."
    );
    assert!(!said.out.contains('\x1b'));
    // What is pasted into a client stands there, with the ports of now.
    for want in [
        "Clients",
        "Claude Code, anthropic SDK",
        "http://localhost:11435 http://localhost:1234",
        "http://localhost:1234/v1",
    ] {
        assert!(said.out.contains(want), "{want} in {}", said.out);
    }
}

#[test]
fn json_is_the_document_of_the_socket_and_nothing_else() {
    let json = World::with_daemon().run(&["--json", "status"]).json();
    assert_eq!(json["schema_version"], 1);
    assert_eq!(json["daemon"]["mode"], "standalone");
    assert_eq!(json["facades"][0]["engine"], "ollama");
    assert_eq!(json["facades"][1]["pin"], "uuid-1");
    assert_eq!(json["nodes"][0]["load"], 2);
    assert_eq!(json["scheduler"]["age_ms"], 3200);
    assert_eq!(json["workloads"]["completed"], 412);
    assert!(json["pool"].is_null());
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    let world = World::with_daemon();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = world.command(&["status"]);
    let output = command.stdout(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
