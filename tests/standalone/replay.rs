//! Recorded requests again, with engines that show what they get.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Value, json};

use crate::support::client::post;
use crate::support::daemon::{Lines, Process, Standalone, World};
use crate::support::engine::{Engine, Gate, Reply};
use crate::support::{ask_until, wait_for};
use crate::{ollama, says, serve};

/// What nobody may keep or send again.
const CANARY: &str = "cAnArY77d";

const DONE: &str =
    "{\"message\":{\"content\":\"x\"},\"done\":true,\"prompt_eval_count\":4,\"eval_count\":7}\n";

fn chats(engine: &Engine) -> Vec<Value> {
    let asked = engine.requests_for("/api/chat").into_iter();
    asked
        .map(|r| serde_json::from_slice(&r.body).unwrap())
        .collect()
}

/// A chat that says something.
fn secret(model: &str) -> Value {
    let said = format!("{CANARY} {}", "and more ".repeat(40));
    json!({"model": model, "messages": [{"role": "user", "content": said}]})
}

/// Waits until so many requests have ended: an answer is there a moment before its record.
fn settled(world: &World, ended: u64) {
    ask_until("the requests have ended", || {
        let status = world.json(&["status"]);
        (status["workloads"]["completed"] == ended).then_some(())
    });
}

fn end(mut daemon: Standalone) -> String {
    daemon.process.terminate();
    assert_eq!(daemon.process.exit_code(), 0);
    daemon.process.log.text()
}

#[test]
fn a_replay_sends_the_recorded_shape_and_nothing_of_its_content() {
    let a = ollama(&["m"], says(DONE));
    let world = World::new();
    let daemon = serve(&world, "", &[("a", &a)]);
    let body = secret("m");
    post(daemon.port, "/api/chat", &body);
    settled(&world, 1);
    let report = world.json(&["replay", "--send", "--speed", "1000"]);
    settled(&world, 2);
    let sent = &report["sent"];
    assert_eq!(
        (&sent["sent"], &sent["replayed"]["completed"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(sent["recorded"]["completion_tokens"], 7);
    assert_eq!(sent["replayed"]["completion_tokens"], 7);
    let asked = a.requests_for("/api/chat");
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].body.len(), asked[1].body.len());
    let again = String::from_utf8(asked[1].body.clone()).unwrap();
    assert!(!again.contains(CANARY), "{again}");
    let again = &chats(&a)[1];
    assert_eq!(
        (&again["model"], &again["stream"]),
        (&json!("m"), &json!(true))
    );
    assert_eq!(again["options"]["num_predict"], 7);
    let exported = world.path().join("e.jsonl");
    let said = world.run(&["workloads", "--export", exported.to_str().unwrap()]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(
        std::fs::read_to_string(&exported).unwrap().lines().count(),
        2
    );
    let log = end(daemon);
    assert!(!log.contains(CANARY), "{log}");
    for (path, content) in world.files() {
        let text = String::from_utf8_lossy(&content);
        assert!(!text.contains(CANARY), "in {}", path.display());
    }
}

#[test]
fn earlier_runs_count_and_a_torn_line_costs_itself_alone() {
    let (a, b) = (ollama(&["m"], says(DONE)), ollama(&["m"], says(DONE)));
    let world = World::new();
    let daemon = serve(&world, "", &[("a", &a)]);
    for _ in 0..2 {
        post(daemon.port, "/api/chat", &secret("m"));
    }
    end(daemon);
    let journal = world.path().join("state/nvpair-proxy/journal-000001.jsonl");
    let mut text = std::fs::read_to_string(&journal).unwrap();
    text.insert_str(0, "{\"v\":1,\"torn\n");
    std::fs::write(&journal, text).unwrap();
    // The same traffic with another fleet.
    let daemon = serve(&world, "", &[("b", &b)]);
    post(daemon.port, "/api/chat", &secret("m"));
    settled(&world, 1);
    let said = world.run(&["replay", "--json"]);
    assert_eq!(
        said.err,
        "warning: 1 line of the journal skipped: torn, or of another version\n"
    );
    let report: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(
        (&report["workloads"], &report["skipped_lines"]),
        (&json!(3), &json!(1))
    );
    let dry = &report["dry"];
    assert_eq!(
        (dry["nodes"][0]["node"].as_str(), &dry["nodes"][0]["then"]),
        (Some("a"), &json!(2))
    );
    assert_eq!(
        (&dry["nodes"][1]["now"], &dry["nodes"][1]["peak_in_flight"]),
        (&json!(3), &json!(1))
    );
    assert_eq!(dry["moved"].as_array().unwrap().len(), 2);
    assert_eq!(
        (
            a.requests_for("/api/chat").len(),
            b.requests_for("/api/chat").len()
        ),
        (2, 1)
    );
    let (once, again) = (world.run(&["replay"]), world.run(&["replay"]));
    assert_eq!((once.code, once.out), (0, again.out));
    drop(daemon);
}

/// A pseudo-terminal: the end to give to a process, and what it shows.
fn terminal() -> (File, Lines) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let size = Winsize {
        ws_row: 24,
        ws_col: 100,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&master, size).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = File::options()
        .read(true)
        .write(true)
        .open(name.to_str().unwrap())
        .unwrap();
    (slave, Lines::of(Redrawn(File::from(master))))
}

/// What is drawn over itself, as lines.
struct Redrawn(File);

impl Read for Redrawn {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = self.0.read(buf)?;
        for byte in &mut buf[..n] {
            if *byte == b'\r' {
                *byte = b'\n';
            }
        }
        Ok(n)
    }
}

/// Two requests that were answered, recorded one after the other; then an engine that answers no more.
fn stuck(world: &World) -> (Engine, Standalone) {
    let a = ollama(&["m"], says(DONE));
    let daemon = serve(world, "", &[("a", &a)]);
    for _ in 0..2 {
        post(daemon.port, "/api/chat", &secret("m"));
    }
    settled(world, 2);
    let list = Reply::json(200, &json!({"models": [{"name": "m", "model": "m"}]}));
    a.now(move |r| match r.target.as_str() {
        "/api/tags" => list.clone(),
        "/api/ps" => Reply::json(200, &json!({"models": []})),
        _ => Reply::silence(),
    });
    (a, daemon)
}

/// The states of the workloads that were sent, once all of them ended.
fn ended_states(world: &World) -> Vec<Value> {
    ask_until("the requests under way end", || {
        let list = world.json(&["workloads"]);
        let all: Vec<_> = list["workloads"].as_array().unwrap().clone();
        let states: Vec<_> = all.iter().map(|w| w["state"].clone()).collect();
        let over = |s: &Value| s != "queued" && s != "running";
        (states.len() > 2 && states.iter().all(over)).then_some(states)
    })
}

#[test]
fn ctrl_c_under_a_terminal_ends_what_is_under_way_and_tells_the_rest() {
    let world = World::new();
    let (a, daemon) = stuck(&world);
    let (slave, shown) = terminal();
    let mut command = world.command(&["replay", "--send", "--speed", "1000"]);
    command
        .stdin(Stdio::from(slave.try_clone().unwrap()))
        .stdout(Stdio::from(slave.try_clone().unwrap()))
        .stderr(Stdio::from(slave));
    command.env("TERM", "xterm");
    let mut child = command.spawn().unwrap();
    // The command keeps its copies; ours would hold the terminal open.
    drop(command);
    wait_for("both are under way", || {
        a.requests_for("/api/chat").len() == 4
    });
    shown.expect("sending ");
    shown.expect("0/2 ");
    shown.expect("0 failed");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    shown.expect("Stopped: 2 of 2 workloads sent, 0 of them came to an end");
    let code = child.wait().unwrap().code();
    assert_eq!(code, Some(1), "{}", shown.text());
    let states = ended_states(&world);
    assert_eq!(states, ["cancelled", "cancelled", "completed", "completed"]);
    a.was_left(2);
    drop(daemon);
}

#[test]
fn a_command_that_dies_takes_its_requests_with_it() {
    let world = World::new();
    let (a, daemon) = stuck(&world);
    let mut replay = Process::spawn(&mut world.command(&["replay", "--send", "--speed", "1000"]));
    wait_for("both are under way", || {
        a.requests_for("/api/chat").len() == 4
    });
    // Two that measure each other would measure nothing.
    let second = world.run(&["replay", "--send"]);
    assert_eq!(second.code, 4, "{second:?}");
    assert!(
        second.err.contains("another replay is being sent"),
        "{second:?}"
    );
    let dry = world.json(&["replay", "--last", "1"]);
    assert_eq!(dry["workloads"], 1, "a dry one goes on beside it");
    replay.child().kill().unwrap();
    assert_eq!(ended_states(&world)[..2], ["cancelled", "cancelled"]);
    a.was_left(2);
    drop(daemon);
}

#[test]
fn a_daemon_that_ends_ends_the_replay() {
    let world = World::new();
    let (a, mut daemon) = stuck(&world);
    let mut replay = Process::spawn(&mut world.command(&["replay", "--send", "--speed", "1000"]));
    let out = Lines::of(replay.child().stdout.take().unwrap());
    wait_for("both are under way", || {
        a.requests_for("/api/chat").len() == 4
    });
    daemon.process.terminate();
    // Hung up on, they do not hold the drain up.
    assert_eq!(daemon.process.exit_code(), 0);
    assert_eq!(replay.exit_code(), 1);
    wait_for("its output ends", || out.ended());
    let (said, told) = (out.text(), replay.log.text());
    let ended = said.contains("Stopped: 2 of 2") || told.contains("the daemon broke");
    assert!(ended, "{said}\n{told}");
}

#[test]
fn calls_of_other_programs_are_checked() {
    let world = World::new();
    let a = ollama(&["m"], says(DONE));
    let daemon = serve(&world, "", &[("a", &a)]);
    let call = |method: &str, params: Value| -> Value {
        use std::io::Write;
        let body =
            json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let mut stream = std::os::unix::net::UnixStream::connect(world.socket()).unwrap();
        let head = format!(
            "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    let code = |answer: Value| answer["error"]["code"].as_i64();
    for (method, params) in [
        ("replay/start", json!({"speed": 0})),
        ("replay/start", json!({"source": "elsewhere"})),
        ("replay/start", json!({"engine": "vllm"})),
        ("replay/start", json!({"sned": true})),
        (
            "replay/add",
            json!({"replay": 1, "arrivals": [{"model": "m", "prompt": "x"}]}),
        ),
    ] {
        assert_eq!(
            code(call(method, params.clone())),
            Some(-32602),
            "{method} {params}"
        );
    }
    assert_eq!(
        code(call("replay/add", json!({"replay": 99, "arrivals": []}))),
        Some(-32000)
    );
    let of_journal = call("replay/start", json!({}))["result"]["replay"].clone();
    let add = json!({"replay": of_journal, "arrivals": []});
    assert_eq!(code(call("replay/add", add)), Some(-32000));
    let cancelled = call("replay/cancel", json!({"replay": of_journal}));
    assert_eq!(cancelled["result"]["cancelled"], true);
    let cancelled = call("replay/cancel", json!({"replay": of_journal}));
    assert_eq!(cancelled["result"]["cancelled"], false);
    let started = (0..8).map(|_| call("replay/start", json!({"source": "given"})));
    assert!(started.into_iter().all(|s| s["result"]["replay"].is_u64()));
    assert_eq!(
        code(call("replay/start", json!({}))),
        Some(-32000),
        "eight are enough"
    );
    drop(daemon);
}

/// A line of a journal: a finished chat with `m` on another machine.
fn line(id: u64, at: u64) -> String {
    let at = 1_700_000_000_000 + at;
    let record = json!({
        "v": 1, "run_id": "00000000000000ff", "engine": "ollama", "id": id, "model": "m",
        "path": "/api/chat", "body_bytes": 90, "created_at": at, "started_at": null,
        "ended_at": at + 50, "state": "failed", "status": 502, "error": "x", "framing": null,
        "attempts": [], "stats": null,
    });
    format!("{record}\n")
}

#[test]
fn never_more_than_256_are_under_way_and_the_rest_comes_late_but_comes() {
    let gate = Gate::new();
    let a = ollama(&["m"], Reply::lines().gate(&gate).chunk(DONE).end());
    let world = World::new();
    let daemon = serve(&world, "", &[("a", &a)]);
    let text: String = (0..300).map(|id| line(id, 0)).collect();
    let file = world.file("burst.jsonl", &text);
    let args = ["replay", file.to_str().unwrap(), "--send", "--json"];
    let mut replay = Process::spawn(&mut world.command(&args));
    let out = Lines::of(replay.child().stdout.take().unwrap());
    gate.reached_by(256);
    let status = world.json(&["status"]);
    assert_eq!(status["facades"][0]["in_flight"], 256);
    assert_eq!(a.requests_for("/api/chat").len(), 256);
    gate.open();
    assert_eq!(replay.exit_code(), 0, "{}", replay.log.text());
    wait_for("its output ends", || out.ended());
    let report: Value = serde_json::from_str(&out.text()).unwrap();
    let sent = &report["sent"];
    assert_eq!((&sent["sent"], &sent["ended"]), (&json!(300), &json!(300)));
    assert_eq!(sent["recorded"]["failed"], 300);
    assert_eq!(sent["replayed"]["completed"], 300);
    assert_eq!(a.requests_for("/api/chat").len(), 300);
    drop(daemon);
}

#[test]
fn a_long_journal_is_exported_whole_and_in_order() {
    let a = ollama(&["m"], says(DONE));
    let world = World::new();
    let state = world.path().join("state/nvpair-proxy");
    std::fs::create_dir_all(&state).unwrap();
    // Kept by end, exported by arrival.
    let kept: String = (0..1234).rev().map(|id| line(id, id)).collect();
    std::fs::write(state.join("journal-000007.jsonl"), kept).unwrap();
    let daemon = serve(&world, "", &[("a", &a)]);
    let said = world.run(&["workloads", "--export", "-"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    let want: String = (0..1234).map(|id| line(id, id)).collect();
    let parsed = |text: &str| -> Vec<Value> {
        let lines = text.lines();
        lines.map(|l| serde_json::from_str(l).unwrap()).collect()
    };
    assert!(
        parsed(&said.out) == parsed(&want),
        "{} lines",
        said.out.lines().count()
    );
    assert_eq!(world.json(&["replay"])["workloads"], 1234);
    drop(daemon);
}
