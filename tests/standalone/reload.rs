//! The configuration changes while requests are served.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use serde_json::json;

use crate::support::client::{Client, get, http, post};
use crate::support::daemon::{Standalone, World};
use crate::support::engine::{Engine, Gate, Reply};
use crate::support::{ask_until, free_port};
use crate::{chat, ollama, says};

/// One `[[nodes]]`.
fn node(name: &str, engine: &Engine) -> String {
    format!(
        "[[nodes]]\nengine = \"ollama\"\nname = \"{name}\"\nurl = \"http://127.0.0.1:{}\"\n",
        engine.port()
    )
}

/// A daemon whose file says this, with an Ollama facade that a flag asked for.
fn start(world: &World, text: &str) -> (Standalone, PathBuf) {
    let path = world.file("nvpair.toml", text);
    let daemon = Standalone::start(world, &["--config", path.to_str().unwrap()]);
    (daemon, path)
}

/// A daemon whose Ollama facade is asked for by its file alone, on this port.
fn start_by_file(world: &World, more: &str) -> (Standalone, PathBuf, u16) {
    for _ in 0..5 {
        let port = free_port();
        let path = world.file("nvpair.toml", &by_file(port, true, more));
        match Standalone::try_start(world, port, &["--config", path.to_str().unwrap()]) {
            Ok(daemon) if get(port, "/api/tags").status == 200 => return (daemon, path, port),
            // It went elsewhere: somebody took the port meanwhile.
            Ok(_) => {},
            Err(text) => assert!(text.contains("taken"), "{text}"),
        }
    }
    panic!("no port could be had");
}

fn by_file(port: u16, enabled: bool, more: &str) -> String {
    format!(
        "[engines.ollama]\nport = {port}\nenabled = {enabled}\n[engines.lmstudio]\nenabled = false\n\
         [engines.llamacpp]\nenabled = false\n{more}"
    )
}

/// Sockets of this process: two a request, since both ends are in it.
fn allow_descriptors(wanted: u64) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|c| c < wanted) {
        let current = Some(maximum.map_or(wanted, |m| m.min(wanted)));
        setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
    }
}

#[test]
fn a_thousand_streams_and_a_loop_of_requests_survive_fifty_changes_half_of_them_bad() {
    const STREAMS: usize = 1000;
    allow_descriptors(4096);
    let gate = Gate::new();
    let held = ollama(
        &["held"],
        Reply::lines().chunk("1").gate(&gate).chunk("2").end(),
    );
    let (a, b) = (ollama(&["m"], says("a")), ollama(&["m"], says("b")));
    let world = World::new();
    let always = format!("{}{}", node("held", &held), node("a", &a));
    let (daemon, path) = start(&world, &always);
    let port = daemon.port;

    let streams: Vec<_> = (0..STREAMS)
        .map(|_| {
            let mut client = Client::connect(port);
            client.post("/api/chat", &chat("held"));
            client
        })
        .map(|mut client| {
            let mut head = client.head();
            assert!(client.read_until(&mut head, "1"));
            (client, head)
        })
        .collect();
    assert_eq!(world.json(&["status"])["workloads"]["running"], STREAMS);

    let (stop, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let answer = post(port, "/api/chat", &chat("m"));
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    assert!(["a", "b"].contains(&answer.text().as_str()));
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for i in 0..50 {
            let before = asked.load(Ordering::Relaxed);
            let policy = ["weighted", "ordered"][i / 2 % 2];
            let more = if i % 4 == 0 {
                node("b", &b)
            } else {
                String::new()
            };
            let bad = if i % 2 == 1 {
                format!("mistake_{i} = 1\n")
            } else {
                String::new()
            };
            let text =
                format!("{bad}policy = \"{policy}\"\ndrain_timeout = \"{i}s\"\n{always}{more}");
            std::fs::write(&path, text).unwrap();
            let said = world.run(&["config", "reload", "--json"]);
            let told: serde_json::Value = serde_json::from_str(&said.out).unwrap();
            assert_eq!(told["applied"], i % 2 == 0, "{told}");
            assert_eq!(said.code, if i % 2 == 0 { 0 } else { 2 }, "{told}");
            if i % 2 == 0 {
                assert_eq!(world.json(&["status"])["scheduler"]["policy"], policy);
            }
            ask_until("requests are served under it", || {
                (asked.load(Ordering::Relaxed) > before).then_some(())
            });
        }
        stop.store(true, Ordering::Relaxed);
    });
    gate.open();
    for (mut client, head) in streams {
        assert_eq!(client.finish(head).text(), "12");
    }
    let status = world.json(&["status"]);
    let failed = (
        &status["workloads"]["failed"],
        &status["workloads"]["cancelled"],
    );
    assert_eq!(failed, (&json!(0), &json!(0)));
    for i in (1..50).step_by(2) {
        let line = format!("nvpair.toml:1:1  unknown key `mistake_{i}` at the top level");
        assert!(daemon.process.log.text().contains(&line), "{line}");
    }
}

#[test]
fn sighup_brings_nodes_in_and_out() {
    let (a, b) = (ollama(&["m"], says("a")), ollama(&["m"], says("b")));
    let world = World::new();
    let (daemon, path) = start(&world, &node("a", &a));
    assert_eq!(post(daemon.port, "/api/chat", &chat("m")).text(), "a");
    std::fs::write(&path, node("b", &b)).unwrap();
    daemon.process.signal(Signal::HUP);
    ask_until("b is the only node", || {
        let status = world.json(&["status"]);
        let ids: Vec<_> = status["nodes"].as_array().unwrap().iter().collect();
        (ids.len() == 1 && ids[0]["id"] == "b" && ids[0]["state"] == "healthy").then_some(())
    });
    assert_eq!(post(daemon.port, "/api/chat", &chat("m")).text(), "b");
    let hits = a.hits();
    ask_until("b is probed on", || (b.hits() > 4).then_some(()));
    assert_eq!(
        a.hits(),
        hits,
        "a node that was taken out is probed no more"
    );
}

#[test]
fn a_changed_file_is_taken_without_being_told() {
    let (a, b) = (ollama(&["m"], says("a")), ollama(&["x"], says("b")));
    let world = World::new();
    let (daemon, path) = start(&world, &node("a", &a));
    std::fs::write(&path, format!("{}{}", node("a", &a), node("b", &b))).unwrap();
    ask_until("b is there", || {
        let answer = post(daemon.port, "/api/chat", &chat("x"));
        (answer.status == 200 && answer.text() == "b").then_some(())
    });
}

#[test]
fn a_node_that_is_described_otherwise_keeps_its_place() {
    let a = ollama(&["m"], says("a"));
    let world = World::new();
    let (daemon, path) = start(&world, &node("a", &a));
    assert_eq!(world.run(&["select", "ollama", "a"]).code, 0);
    let more = "models = [\"other\"]\napi_key = \"k\"\n";
    std::fs::write(&path, format!("{}{more}", node("a", &a))).unwrap();
    let told = world.json(&["config", "reload"]);
    assert_eq!(told["changed"], json!(["nodes"]));
    assert_eq!(post(daemon.port, "/api/chat", &chat("other")).text(), "a");
    let request = a.requests_for("/api/chat").pop().unwrap();
    assert_eq!(request.header("authorization"), Some("Bearer k"));
    assert_eq!(
        world.json(&["status"])["facades"][0]["pin"],
        "a",
        "a pin stays"
    );
}

#[test]
fn door_limits_and_log_follow() {
    let a = ollama(&["m"], says("a"));
    let world = World::new();
    let (daemon, path) = start(&world, &node("a", &a));
    let body = chat("m").to_string();
    let asked_as = |host: &str| {
        let mut client = Client::connect(daemon.port);
        client.write(format!(
            "POST /api/chat HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        client.answer().status
    };
    assert_eq!(asked_as("box.lan"), 403);
    let text = format!(
        "allowed_hosts = [\"box.lan\"]\nmax_request_bytes = {}\n{}[log]\nlevel = \"debug\"\n",
        body.len(),
        node("a", &a)
    );
    std::fs::write(&path, text).unwrap();
    let told = world.json(&["config", "reload"]);
    let changed = json!(["max_request_bytes", "allowed_hosts", "log.level"]);
    assert_eq!(told["changed"], changed);
    assert_eq!(asked_as("box.lan"), 200);
    let long = json!({"model": "m", "messages": ["this is too long now"]});
    assert_eq!(post(daemon.port, "/api/chat", &long).status, 413);
    daemon.process.log.expect("DEBUG");
}

#[test]
fn a_facade_moves_goes_and_comes_back_with_what_is_under_way() {
    let gate = Gate::new();
    let a = ollama(
        &["m"],
        Reply::lines().chunk("1").gate(&gate).chunk("2").end(),
    );
    let world = World::new();
    let (_daemon, path, old) = start_by_file(&world, &node("a", &a));
    let open = |port: u16| {
        let mut client = Client::connect(port);
        client.post("/api/chat", &chat("m"));
        let mut head = client.head();
        assert!(client.read_until(&mut head, "1"));
        (client, head)
    };
    let mut streams = vec![open(old)];
    let new = free_port();
    let more = node("a", &a);
    std::fs::write(&path, by_file(new, true, &more)).unwrap();
    let told = world.json(&["config", "reload"]);
    assert_eq!(
        (&told["changed"], &told["warnings"]),
        (&json!(["engines"]), &json!([]))
    );
    assert!(std::net::TcpStream::connect(("127.0.0.1", old)).is_err());
    streams.push(open(new));
    assert!(
        !world.path().join("data/proxy-port.json").exists(),
        "only set-port saves"
    );

    std::fs::write(&path, by_file(new, false, &more)).unwrap();
    world.json(&["config", "reload"]);
    assert!(std::net::TcpStream::connect(("127.0.0.1", new)).is_err());
    assert_eq!(world.json(&["status"])["facades"], json!([]));

    std::fs::write(&path, by_file(new, true, &more)).unwrap();
    let told = world.json(&["config", "reload"]);
    assert_eq!(told["warnings"], json!([]));
    ask_until("its node is there again", || {
        (get(new, "/api/tags").text().contains("\"m\"")).then_some(())
    });
    streams.push(open(new));
    gate.open();
    for (mut client, head) in streams {
        assert_eq!(client.finish(head).text(), "12");
    }
    let status = world.json(&["status"]);
    assert_eq!(status["workloads"]["completed"], 3);
    let list = world.json(&["workloads"]);
    let mut ids: Vec<_> = list["workloads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| w["id"].as_u64())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 3, "numbers do not come again");
}

#[test]
fn an_added_node_comes_back_with_its_facade_and_gives_way_to_the_file() {
    let (a, b) = (ollama(&["m"], says("a")), ollama(&["x"], says("b")));
    let world = World::new();
    let more = node("b", &b);
    let (_daemon, path, port) = start_by_file(&world, &more);
    let url = format!("ollama=http://127.0.0.1:{}", a.port());
    let added = world.json(&["nodes", "add", &url, "--name", "rig"]);
    assert_eq!(added["state"], "healthy");
    for enabled in [false, true] {
        std::fs::write(&path, by_file(port, enabled, &more)).unwrap();
        let told = world.json(&["config", "reload"]);
        assert_eq!(told["warnings"], json!([]));
    }
    assert_eq!(post(port, "/api/chat", &chat("m")).text(), "a");
    let hits = a.hits();
    ask_until("it is probed on", || (a.hits() > hits).then_some(()));

    std::fs::write(&path, by_file(port, true, &node("rig", &a))).unwrap();
    world.json(&["config", "reload"]);
    assert_eq!(post(port, "/api/chat", &chat("m")).text(), "a");
    assert_eq!(world.run(&["nodes", "remove", "rig"]).code, 4);
    std::fs::write(&path, by_file(port, true, "")).unwrap();
    world.json(&["config", "reload"]);
    ask_until("the added one is there again", || {
        (post(port, "/api/chat", &chat("m")).text() == "a").then_some(())
    });
    assert_eq!(world.run(&["nodes", "remove", "rig"]).code, 0);
}

#[test]
fn a_port_that_cannot_be_had_is_told_and_nothing_moves() {
    let a = ollama(&["m"], says("a"));
    let world = World::new();
    let (_daemon, path, port) = start_by_file(&world, &node("a", &a));
    std::fs::write(&path, by_file(a.port(), true, &node("a", &a))).unwrap();
    let told = world.json(&["config", "reload"]);
    let warning = told["warnings"][0].as_str().unwrap();
    assert!(
        warning.contains("Ollama facade: stays where it is"),
        "{warning}"
    );
    assert_eq!(post(port, "/api/chat", &chat("m")).text(), "a");
    assert_eq!(http(port, "GET", "/api/tags", &[], b"").status, 200);
}

#[test]
fn a_bad_file_changes_nothing_and_every_error_is_told() {
    let a = ollama(&["m"], says("a"));
    let world = World::new();
    let (daemon, path) = start(&world, &node("a", &a));
    std::fs::write(&path, "policy = \"fair\"\npolcy = 1\n").unwrap();
    let said = world.run(&["config", "reload"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""));
    for part in [
        "error: the configuration was not taken",
        "nvpair.toml:1:10  `policy`: \"fair\"",
        "nvpair.toml:2:1   unknown key `polcy`",
    ] {
        assert!(said.err.contains(part), "{}", said.err);
    }
    for part in [
        "the configuration was not reloaded",
        "nvpair.toml:1:10  `policy`: \"fair\"",
        "nvpair.toml:2:1   unknown key `polcy`",
    ] {
        daemon.process.log.expect(part);
    }
    assert_eq!(post(daemon.port, "/api/chat", &chat("m")).text(), "a");
    std::fs::remove_file(&path).unwrap();
    let said = world.run(&["config", "reload"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("cannot read"), "{}", said.err);
    assert_eq!(post(daemon.port, "/api/chat", &chat("m")).text(), "a");
}

#[test]
fn keys_that_take_another_start_are_named() {
    let a = ollama(&["m"], says("a"));
    let world = World::new();
    let (_daemon, path) = start(&world, &node("a", &a));
    let text = format!("{}[log]\nformat = \"json\"\n", node("a", &a));
    std::fs::write(&path, text).unwrap();
    let said = world.run(&["config", "reload"]);
    let want = "reloaded\nchanged, and taken at the next start: log.format\n";
    assert_eq!((said.code, said.out.as_str()), (0, want));
}
