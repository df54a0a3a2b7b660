//! `replay` and `workloads --export` against the real daemon of a demonstration.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::demo::Demo;
use crate::world::{Said, World};

/// A finished workload of another machine, as its journal has it.
fn record(id: u64, at: u64, model: &str, node: Option<&str>) -> Value {
    let attempt = |node| json!({"node": node, "at_ms": 1, "load": [0, 0, 0], "outcome": "committed", "status": 200});
    json!({
        "v": 1, "run_id": "00000000000000ff", "engine": "ollama", "id": id, "model": model,
        "path": "/api/generate", "body_bytes": 80, "created_at": 1_700_000_000_000_u64 + at,
        "started_at": 1_700_000_000_020_u64 + at, "ended_at": 1_700_000_000_100_u64 + at,
        "state": "completed", "status": 200, "error": null, "framing": "ndjson",
        "attempts": node.map(attempt).into_iter().collect::<Vec<_>>(),
        "stats": {"promptTokens": 9, "completionTokens": 3, "tokensPerSecond": 30.0, "ttftMs": 20},
    })
}

fn lines(records: &[Value]) -> String {
    records.iter().map(|r| format!("{r}\n")).collect()
}

/// Writes a file and gives its path.
fn file(world: &World, name: &str, content: &str) -> String {
    let path = world.path().join(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The part of a node in a dry report: then, now, peak, whether it is known.
fn share(report: &Value, node: &str) -> (u64, u64, u64, bool) {
    let nodes = report["dry"]["nodes"].as_array().unwrap();
    let found = nodes.iter().find(|n| n["node"] == node).unwrap();
    let n = |key: &str| found[key].as_u64().unwrap();
    (
        n("then"),
        n("now"),
        n("peak_in_flight"),
        found["known"] == true,
    )
}

/// Waits until so many requests have ended: an answer is there a moment before its record.
fn settled(demo: &Demo, ended: u64) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let status = demo.run(&["status", "--json"]).json();
        if status["workloads"]["completed"] == ended {
            return;
        }
        assert!(Instant::now() < end, "{status}");
    }
}

fn with_stdin(mut command: Command, text: &str) -> Said {
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    Said {
        code: output.status.code().expect("not killed"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn its_own_traffic_is_decided_again_and_nothing_is_sent_or_changed() {
    let demo = Demo::start(&[]);
    let empty = demo.run(&["replay"]);
    assert_eq!(empty.code, 0, "{}", empty.err);
    assert_eq!(
        empty.out,
        "Nothing to replay: no workloads in the journal.\n"
    );
    for _ in 0..3 {
        demo.ask(r#"{"model":"sample:8b","prompt":"hello","options":{"num_predict":2}}"#);
    }
    demo.ask(r#"{"model":"sample:1b","prompt":"hello","options":{"num_predict":2}}"#);
    settled(&demo, 4);
    let before = demo.run(&["status", "--json"]).json();
    let report = demo.run(&["replay", "--json"]).json();
    assert_eq!(report["schema_version"], 1);
    assert_eq!(
        (&report["source"], &report["workloads"]),
        (&json!("journal"), &json!(4))
    );
    assert_eq!(
        (&report["sent"], &report["speed"]),
        (&Value::Null, &json!(1.0))
    );
    assert_eq!(report["dry"]["policy"], "weighted");
    let (quick, slow) = (share(&report, "demo-quick"), share(&report, "demo-slow"));
    assert_eq!((quick.0 + slow.0, quick.1 + slow.1), (4, 4));
    assert!(quick.3 && slow.3);
    assert_eq!(report["dry"]["no_owner_now"], 0);
    let said = demo.run(&["replay"]);
    assert!(said.out.starts_with("4 workloads over "), "{}", said.out);
    assert!(
        said.out
            .contains(", against 2 nodes as they are now (nothing is sent)\n\n"),
        "{}",
        said.out
    );
    assert!(
        said.out
            .contains("  NODE        THEN  NOW  PEAK IN FLIGHT\n"),
        "{}",
        said.out
    );
    let after = demo.run(&["status", "--json"]).json();
    assert_eq!(before["workloads"], after["workloads"]);
    assert_eq!(before["nodes"], after["nodes"]);
    // Filters narrow.
    for (args, want) in [
        (&["--last", "3"][..], 3),
        (&["--since", "1h"], 4),
        (&["--since", "0"], 0),
        (&["--engine", "lmstudio"], 0),
        (&["--engine", "ollama", "--last", "2"], 2),
    ] {
        let all = [&["replay", "--json"], args].concat();
        assert_eq!(demo.run(&all).json()["workloads"], want, "{args:?}");
    }
    let none = demo.run(&["replay", "--engine", "lmstudio"]);
    assert!(
        none.out.contains("no such workloads in the journal"),
        "{}",
        none.out
    );
}

#[test]
fn a_recording_of_another_machine_meets_this_one_s_nodes() {
    let demo = Demo::start(&[]);
    let mut lm = record(5, 30, "m", Some("tower"));
    lm["engine"] = json!("lmstudio");
    let mut records = vec![
        record(1, 0, "sample:8b", Some("tower")),
        record(2, 1, "sample:8b", Some("demo-quick")),
        record(3, 2, "sample:1b", Some("tower")),
        record(4, 3, "qwen3:8b", Some("tower")),
        lm,
        record(6, 3_600_000, "sample:8b", None),
    ];
    // Joined recordings have some workloads twice.
    records.push(record(1, 0, "sample:8b", Some("tower")));
    let path = file(&demo.world, "tower.jsonl", &lines(&records));
    let said = demo.run(&["replay", &path, "--json"]);
    assert_eq!(said.err, "");
    let report = said.json();
    assert_eq!(
        (&report["source"], &report["workloads"]),
        (&json!("given"), &json!(6))
    );
    assert_eq!(share(&report, "tower"), (4, 0, 0, false));
    let (quick, slow) = (share(&report, "demo-quick"), share(&report, "demo-slow"));
    assert_eq!((quick.0, quick.1 + slow.1), (1, 4));
    let dry = &report["dry"];
    assert_eq!(
        (&dry["no_owner_then"], &dry["no_owner_now"]),
        (&json!(1), &json!(2))
    );
    let why: Vec<_> = dry["unowned"]
        .as_array()
        .unwrap()
        .iter()
        .map(|u| (&u["id"], &u["reason"]))
        .collect();
    assert_eq!(
        why,
        [
            (&json!(4), &json!("no reachable node has the model")),
            (&json!(5), &json!("its facade is not enabled")),
        ]
    );
    let ids: Vec<_> = dry["moved"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["id"].as_u64().unwrap())
        .collect();
    assert!(
        ids.contains(&1) && ids.contains(&3) && !ids.contains(&6),
        "{ids:?}"
    );
    let text = demo.run(&["replay", &path]).out;
    for want in [
        "6 workloads over 1h 0m, against 2 nodes",
        "tower (not known here)  4     0    0",
        "no owner                1     2",
        "2 would find no owner.",
        "qwen3:8b  tower  no reachable node has the model",
    ] {
        assert!(text.contains(want), "{want} in {text}");
    }
    // A file's --since counts back from its last arrival.
    let since = ["replay", &path, "--json", "--since", "1m"];
    assert_eq!(demo.run(&since).json()["workloads"], 1);
    let piped = demo
        .world
        .command(&["replay", "-", "--json", "--engine", "lmstudio"]);
    let piped = with_stdin(piped, &lines(&records)).json();
    assert_eq!(
        (&piped["workloads"], &piped["dry"]["no_owner_now"]),
        (&json!(1), &json!(1))
    );
}

#[test]
fn a_burst_of_ten_thousand_gives_the_same_bytes_twice() {
    let demo = Demo::start(&[]);
    let models = ["sample:8b", "sample:1b", "sample-coder:14b", "none"];
    let records: Vec<_> = (0..10_000)
        .map(|i| record(i, i / 100, models[i as usize % 4], Some("demo-quick")))
        .collect();
    let path = file(&demo.world, "burst.jsonl", &lines(&records));
    let args = ["replay", &path, "--json"];
    let (one, two) = (demo.run(&args), demo.run(&args));
    assert_eq!((one.code, two.code), (0, 0), "{}", one.err);
    assert!(one.out == two.out, "two runs differ");
    let report = one.json();
    assert_eq!(report["workloads"], 10_000);
    assert_eq!(report["dry"]["no_owner_now"], 2_500);
    let (quick, slow) = (share(&report, "demo-quick"), share(&report, "demo-slow"));
    assert_eq!((quick.0, quick.1 + slow.1), (10_000, 7_500));
    // Traffic that is gone before the next arrival is alone wherever it goes.
    let sparse: Vec<_> = (0..20)
        .map(|i| record(i, i * 1000, "sample:8b", None))
        .collect();
    let path = file(&demo.world, "sparse.jsonl", &lines(&sparse));
    let peak = |speed: &str| {
        let report = demo
            .run(&["replay", &path, "--json", "--speed", speed])
            .json();
        share(&report, "demo-quick")
            .2
            .max(share(&report, "demo-slow").2)
    };
    assert_eq!((peak("1"), peak("1000")), (1, 10));
}

#[test]
fn bad_lines_cost_themselves_alone_and_each_kind_is_told_once() {
    let demo = Demo::start(&[]);
    let good = lines(&[
        record(1, 0, "sample:8b", None),
        record(2, 1, "sample:8b", None),
    ]);
    let newer = r#"{"v":2,"anything":"else"}"#;
    let text = format!("{newer}\nnot json\n\n{newer}\n{good}{{\"v\":1,\"run_id\":\"00");
    let path = file(&demo.world, "torn.jsonl", &text);
    let said = demo.run(&["replay", &path, "--json"]);
    let report = said.json();
    assert_eq!(
        (&report["workloads"], &report["skipped_lines"]),
        (&json!(2), &json!(4))
    );
    let told: Vec<_> = said.err.lines().collect();
    assert_eq!(told.len(), 3, "{}", said.err);
    assert!(
        told[0].contains("2 lines skipped: format version 2"),
        "{}",
        said.err
    );
    assert!(
        told[1].contains("1 line skipped: no record"),
        "{}",
        said.err
    );
    assert!(told[2].contains("last line is torn"), "{}", said.err);
    // A whole last line that lacks only its end is no torn one.
    let path = file(&demo.world, "whole.jsonl", good.trim_end());
    let said = demo.run(&["replay", &path, "--json"]);
    assert_eq!(
        (said.err.as_str(), &said.json()["workloads"]),
        ("", &json!(2))
    );
    let empty = file(&demo.world, "empty.jsonl", "");
    let said = demo.run(&["replay", &empty]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(
        said.out.starts_with("Nothing to replay: no workloads in "),
        "{}",
        said.out
    );
}

#[test]
fn what_is_no_recording_is_code_2_with_or_without_a_daemon() {
    let world = World::new();
    let text = file(&world, "notes.txt", "hello\nworld\n");
    let newer = file(&world, "newer.jsonl", "{\"v\":9,\"x\":1}\n");
    let binary = world.path().join("binary");
    fs::write(&binary, vec![0xff; 300_000]).unwrap();
    let folder = world.path().to_str().unwrap().to_owned();
    for (path, want) in [
        (text.as_str(), "line 1: it is no record of a journal"),
        (
            newer.as_str(),
            "its format is version 9; this one reads version 1",
        ),
        (binary.to_str().unwrap(), "line 1: it is no record"),
        ("/nowhere/at.all", "No such file"),
        (folder.as_str(), "directory"),
    ] {
        let said = world.run(&["replay", path]);
        assert_eq!(said.code, 2, "{path}: {}", said.err);
        assert_eq!(said.out, "");
        assert!(said.err.contains(want), "{want} in {}", said.err);
        assert!(said.err.contains("   try: "), "{}", said.err);
    }
}

#[test]
fn sent_requests_go_through_the_facade_and_are_compared() {
    let demo = Demo::start(&[]);
    let mut records: Vec<_> = std::iter::zip(
        1..,
        [
            "/api/generate",
            "/api/chat",
            "/v1/chat/completions",
            "/v1/completions",
            "/v1/messages",
            "/v1/responses",
            "/api/embed",
            "/api/embeddings",
            "/v1/embeddings",
            "/api/pull",
        ],
    )
    .map(|(id, path)| {
        let mut r = record(id, id * 20, "sample:1b", Some("tower"));
        r["path"] = json!(path);
        r["body_bytes"] = json!(300);
        r["framing"] = json!(if id % 2 == 0 { "json" } else { "sse" });
        r
    })
    .collect();
    records.push(record(11, 300, "nobody:has", Some("tower")));
    let mut lm = record(12, 301, "m", Some("tower"));
    lm["engine"] = json!("lmstudio");
    records.push(lm);
    let path = file(&demo.world, "tower.jsonl", &lines(&records));
    let said = demo.run(&["replay", &path, "--send", "--speed", "50", "--json"]);
    assert_eq!(said.err, "", "a pipe gets no bar");
    let report = said.json();
    assert_eq!(
        (&report["workloads"], &report["dry"]),
        (&json!(12), &Value::Null)
    );
    let sent = &report["sent"];
    assert_eq!(
        (&sent["cancelled"], &sent["sent"], &sent["ended"]),
        (&json!(false), &json!(10), &json!(10))
    );
    assert_eq!(
        sent["skipped"],
        json!([
            {"reason": "its facade is not enabled", "workloads": 1},
            {"reason": "no request of its path can be made up", "workloads": 1},
        ])
    );
    assert_eq!(
        sent["failures"],
        json!([{"reason": "HTTP 502", "requests": 1}])
    );
    let (then, now) = (&sent["recorded"], &sent["replayed"]);
    assert_eq!(
        (&then["completed"], &then["completion_tokens"]),
        (&json!(10), &json!(30))
    );
    assert_eq!((&now["completed"], &now["failed"]), (&json!(9), &json!(1)));
    // Six texts of three tokens each.
    assert_eq!(now["completion_tokens"], 18, "{report}");
    assert_eq!(then["ttft_ms"]["p50"], 20.0);
    assert_eq!(now["ttft_ms"]["count"], 9);
    settled(&demo, 9);
    // They were workloads like any other, of the same length.
    let list = demo.run(&["workloads", "--json"]).json();
    let list = list["workloads"].as_array().unwrap();
    assert_eq!(list.len(), 9);
    for w in list {
        assert_eq!(
            (&w["state"], &w["model"]),
            (&json!("completed"), &json!("sample:1b"))
        );
        assert_eq!(w["body_bytes"], 300, "{w}");
    }
    let text = demo
        .run(&["replay", &path, "--send", "--last", "2", "--speed", "1000"])
        .out;
    for want in [
        "1 of 2 workloads sent in ",
        "at 1000 times the recorded pace",
        "                     RECORDED  REPLAYED\n",
        "  completed          1         0\n",
        "  failed             0         1\n",
        "Failed: 1 (HTTP 502).",
        "Not sent: 1 (its facade is not enabled).",
    ] {
        assert!(text.contains(want), "{want} in {text}");
    }
}

#[test]
fn an_export_is_whole_private_and_replaces_nothing_but_an_export() {
    let demo = Demo::start(&[]);
    demo.ask(r#"{"model":"sample:8b","prompt":"a CANARY prompt","options":{"num_predict":2}}"#);
    demo.ask(r#"{"model":"sample:1b","prompt":"a CANARY prompt","options":{"num_predict":2}}"#);
    settled(&demo, 2);
    let path = demo.world.path().join("out.jsonl");
    let out = path.to_str().unwrap();
    let said = demo.run(&["workloads", "--export", out]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(said.out, format!("2 workloads written to {out}\n"));
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("CANARY"), "{text}");
    let models = |text: &str| -> Vec<String> {
        let records = text
            .lines()
            .map(|l| serde_json::from_str::<Value>(l).unwrap());
        records
            .map(|r| r["model"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(models(&text), ["sample:8b", "sample:1b"], "oldest first");
    // Again over the earlier one, narrowed; a link stays a link.
    let link = demo.world.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let over = [
        "workloads",
        "--export",
        link.to_str().unwrap(),
        "--model",
        "sample:1b",
    ];
    let json = demo.run(&[&over[..], &["--json"]].concat()).json();
    assert_eq!(
        (&json["records"], &json["schema_version"]),
        (&json!(1), &json!(1))
    );
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(models(&fs::read_to_string(&path).unwrap()), ["sample:1b"]);
    for (args, want) in [
        (&["--limit", "1"][..], vec!["sample:1b"]),
        (&["--state", "failed"], vec![]),
        (&["--engine", "llamacpp"], vec![]),
        (&[], vec!["sample:8b", "sample:1b"]),
    ] {
        let said = demo.run(&[&["workloads", "--export", "-"], args].concat());
        assert_eq!(
            (said.code, models(&said.out)),
            (0, want.iter().map(|m| (*m).to_owned()).collect()),
            "{args:?}"
        );
    }
    // What is not ours stands as it is, and nothing is left beside it.
    let other = file(&demo.world, "config.toml", "policy = \"ordered\"\n");
    let said = demo.run(&["workloads", "--export", &other]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("exists and is no export"), "{}", said.err);
    assert_eq!(
        fs::read_to_string(&other).unwrap(),
        "policy = \"ordered\"\n"
    );
    let folder = demo.world.path().to_str().unwrap();
    assert_eq!(demo.run(&["workloads", "--export", folder]).code, 2);
    assert_eq!(
        demo.run(&["workloads", "--export", "/nowhere/at/all"]).code,
        1
    );
    let left: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    let strays = left
        .iter()
        .filter(|n| n.to_string_lossy().starts_with(".tmp"));
    assert_eq!(strays.count(), 0, "{left:?}");
    // And it replays.
    let said = demo.run(&["workloads", "--export", out, "-q"]);
    assert_eq!((said.code, said.out.as_str()), (0, ""));
    let report = demo.run(&["replay", out, "--json"]).json();
    assert_eq!(report["workloads"], 2);
}

#[test]
fn an_export_into_a_pipe_is_written_as_it_comes() {
    let demo = Demo::start(&[]);
    demo.ask(r#"{"model":"sample:8b","prompt":"hello","options":{"num_predict":2}}"#);
    settled(&demo, 1);
    let pipe = demo
        .world
        .command(&["workloads", "--export", "/dev/stderr", "-q"]);
    let said = with_stdin(pipe, "");
    assert_eq!((said.code, said.out.as_str()), (0, ""));
    assert!(said.err.starts_with("{\"v\":1,"), "{}", said.err);
    assert_eq!(said.err.lines().count(), 1);
}
