//! Much at once: a big fleet, long lines, a parent that does not read.

use std::io::{Read, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::broker::Broker;
use crate::support::client::post;
use crate::support::daemon::{Process, World};
use crate::support::engine::Engine;
use crate::support::{ask_until, free_port};

use super::{record, said_by_snapshot, said_since, settled};

/// Processor time of a process so far, in seconds.
#[cfg(target_os = "linux")]
fn cpu_seconds(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let fields: Vec<_> = fields.split(' ').collect();
    let ticks: u64 = fields[11..13]
        .iter()
        .map(|f| f.parse::<u64>().unwrap())
        .sum();
    // Linux shows hundredths, whatever its own clock does.
    ticks / 100
}

#[test]
#[cfg(target_os = "linux")]
fn a_thousand_nodes_are_taken_in_little_processor_time() {
    let (mut broker, _) = Broker::with_facade("ollama");
    let fleet = |port: u16| -> Vec<Value> {
        let node = |n: usize| record(&format!("node-{n:04}"), port, &["m", "n", "o"]);
        (0..1000).map(node).collect()
    };
    assert_eq!(said_by_snapshot(&broker, &fleet(1)).len(), 2000);
    assert!(said_by_snapshot(&broker, &fleet(1)).is_empty());
    assert_eq!(said_by_snapshot(&broker, &fleet(2)).len(), 1000);
    let list = broker.request("ollama:nodes/list", &json!({}));
    assert_eq!(list["nodes"].as_array().unwrap().len(), 1000);
    assert_eq!(said_by_snapshot(&broker, &[]).len(), 2000);
    let spent = cpu_seconds(broker.process.child().id());
    assert!(spent < 10, "{spent} s of processor time");
}

#[test]
fn a_long_line_costs_that_line_only() {
    let (broker, _) = Broker::with_facade("ollama");
    let mark = settled(&broker);
    broker.raw(&format!("{}\n", "x".repeat(2 << 20)));
    // Longer than anything that is taken, and cut off within a message.
    let long = "y".repeat(9 << 20);
    broker.raw(&format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"shutdown\",\"params\":\"{long}\"}}\n"
    ));
    assert!(said_since(&broker, mark).is_empty());
    // A snapshot of two mebibytes is a message like any other.
    let mut one = record("a", 1, &["m"]);
    one["gpus"] = json!("z".repeat(2 << 20));
    let said = said_by_snapshot(&broker, &[one]);
    assert_eq!(said, ["ollama:node/discovered", "ollama:errors:clear"]);
}

#[test]
fn a_parent_that_reads_late_gets_every_frame_in_order_and_keeps_nobody_waiting() {
    const CALLS: usize = 2000;
    let (world, engine) = (World::new(), Engine::serving("ok"));
    let mut command = world.command(&["serve", "--broker"]);
    let mut process = Process::spawn(command.stdin(Stdio::piped()));
    let mut input = process.child().stdin.take().unwrap();
    let mut output = process.child().stdout.take().unwrap();
    let mut call = |id: usize, method: &str, params: Value| {
        let frame = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        input.write_all(format!("{frame}\n").as_bytes()).unwrap();
    };
    let port = free_port();
    call(
        0,
        "facade/enable",
        json!({"engine": "ollama", "port": port}),
    );
    let models: Vec<_> = (0..100).map(|n| format!("model-{n}")).collect();
    let node = json!({
        "id": "n", "host": "h", "port": engine.port(), "addresses": ["127.0.0.1"],
        "models": models,
    });
    call(1, "ollama:node/add-manual", node);
    // Far more than a pipe holds: about three megabytes.
    for id in 2..CALLS {
        call(id, "ollama:nodes/list", json!({}));
    }
    // It still serves, and still takes calls.
    ask_until("the facade listens", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).ok()
    });
    ask_until("the node is there", || {
        let answer = post(port, "/api/chat", &json!({"model": "model-1"}));
        (answer.text() == "ok").then_some(())
    });
    call(CALLS, "shutdown", json!({}));
    let mut said = String::new();
    output.read_to_string(&mut said).unwrap();
    assert_eq!(process.exit_code(), 0);
    let frames = said
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).unwrap());
    let ids: Vec<_> = frames.filter_map(|f| f["id"].as_u64()).collect();
    assert_eq!(ids, (0..=CALLS as u64).collect::<Vec<_>>());
}
