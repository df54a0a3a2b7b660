//! What goes on until it is ended: `workloads --follow`, `status --watch`, `nodes list --watch`.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use nvpair_proxy::wire::broker::WorkloadState;

use crate::world::{World, engine};

/// A command that goes on; killed when dropped.
struct Live {
    child: Child,
    out: Option<BufReader<ChildStdout>>,
}

impl Drop for Live {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Live {
    fn start(world: &World, args: &[&str]) -> Self {
        let mut command = world.command(args);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let out = child.stdout.take().map(BufReader::new);
        Self { child, out }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let out = self.out.as_mut().expect("not closed");
        assert!(out.read_line(&mut line).unwrap() > 0, "it ended");
        line
    }

    fn json(&mut self) -> serde_json::Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    /// Ctrl-C.
    fn interrupt(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        self.child.wait().unwrap().code()
    }
}

#[test]
fn follow_writes_a_line_for_each_change_and_ctrl_c_ends_it_well() {
    let world = World::with_daemon();
    let mut live = Live::start(&world, &["workloads", "--follow"]);
    let head = live.line();
    assert!(head.starts_with("  ID      ENGINE     MODEL "), "{head}");
    let row = live.line();
    assert!(row.starts_with("  91      Ollama     qwen3:8b "), "{row}");
    assert!(row.contains(" queued "), "{row}");
    assert!(live.line().contains(" completed "));
    assert!(live.line().contains(" running "));
    assert_eq!(live.interrupt(), Some(0));
}

#[test]
fn follow_json_is_a_document_a_line_and_filters_go_to_the_daemon() {
    let world = World::with_daemon();
    let args = [
        "workloads",
        "--follow",
        "--json",
        "--engine",
        "ollama",
        "--state",
        "running",
        "--node",
        "this-pc",
    ];
    let mut live = Live::start(&world, &args);
    let one = live.json();
    assert_eq!(one["schema_version"], 1);
    assert_eq!((&one["seq"], &one["missed"]), (&2.into(), &0.into()));
    assert_eq!(one["workload"]["id"], 91);
    assert_eq!(one["workload"]["state"], "running");
    let filter = world.filter();
    assert_eq!(filter.engine, Some(engine("ollama")));
    assert_eq!(filter.state, Some(WorkloadState::Running));
    assert_eq!(filter.node.as_deref(), Some("this-pc"));
    assert_eq!(live.interrupt(), Some(0));
}

#[test]
fn a_reader_that_goes_ends_it_well() {
    let world = World::with_daemon();
    let mut live = Live::start(&world, &["workloads", "--follow", "--json"]);
    live.json();
    drop(live.out.take());
    let code = loop {
        world.publish(92);
        if let Some(status) = live.child.try_wait().unwrap() {
            break status.code();
        }
        std::thread::yield_now();
    };
    assert_eq!(code, Some(0));
    for args in [&["status", "--watch"][..], &["nodes", "list", "--watch"]] {
        let mut live = Live::start(&world, args);
        live.line();
        drop(live.out.take());
        assert_eq!(live.child.wait().unwrap().code(), Some(0), "{args:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_reader_that_goes_is_noticed_without_another_change() {
    let world = World::with_daemon();
    let mut live = Live::start(&world, &["workloads", "--follow"]);
    for _ in 0..4 {
        live.line();
    }
    drop(live.out.take());
    assert_eq!(live.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_daemon_that_ends_is_told() {
    let mut world = World::with_daemon();
    let mut live = Live::start(&world, &["workloads", "--follow", "--json"]);
    live.json();
    world.end_daemon();
    assert_eq!(live.child.wait().unwrap().code(), Some(1));
}

#[test]
fn watch_repeats_the_tables_or_writes_json_lines() {
    let world = World::with_daemon();
    for (args, head) in [
        (&["status", "--watch"][..], "Facades"),
        (&["nodes", "list", "--watch"], "  NODE "),
    ] {
        let mut json = Live::start(&world, &[args, &["--json"]].concat());
        let mut text = Live::start(&world, args);
        for _ in 0..2 {
            let document = json.json();
            assert_eq!(document["schema_version"], 1);
            assert_eq!(document["nodes"].as_array().unwrap().len(), 4);
        }
        assert_eq!(json.interrupt(), Some(0));
        let mut lines = vec![text.line()];
        while lines.iter().filter(|l| l.starts_with(head)).count() < 2 {
            let line = text.line();
            assert!(!line.contains('\x1b'), "a pipe is no terminal: {line:?}");
            lines.push(line);
        }
        // One text after the other, an empty line between.
        assert!(lines[0].starts_with(head), "{lines:?}");
        assert_eq!(lines[lines.len() - 2], "\n", "{lines:?}");
        assert_eq!(text.interrupt(), Some(0));
    }
}

#[test]
fn watch_of_one_facade_s_nodes_shows_no_others() {
    let world = World::with_daemon();
    let args = ["nodes", "list", "--watch", "--engine", "lmstudio", "--json"];
    let mut live = Live::start(&world, &args);
    let document = live.json();
    let nodes = document["nodes"].as_array().unwrap();
    let ids: Vec<_> = nodes.iter().map(|n| n["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["uuid-1", "uuid-2"]);
    assert_eq!(live.interrupt(), Some(0));
}

#[test]
fn follow_is_for_all_and_an_id_for_one() {
    assert_eq!(World::new().run(&["workloads", "90", "--follow"]).code, 2);
}
