//! Which port a facade gets, and that the start-up table says why.

use std::net::{Ipv4Addr, TcpListener};

use serde_json::json;

use crate::support::client::{get, post};
use crate::support::daemon::{Standalone, World};
use crate::support::free_port;
use crate::{chat, ollama, says};

/// A configuration that wants this port for a facade.
fn wanting(world: &World, engine: &str, port: u16) -> String {
    let text = format!("[engines.{engine}]\nport = {port}\n");
    world.file("port.toml", &text).to_str().unwrap().to_owned()
}

#[test]
fn set_port_moves_the_facade_and_is_restored_at_the_next_start() {
    let a = ollama(&["m"], says("a"));
    let world = World::new();
    let asked = free_port();
    let config = wanting(&world, "ollama", asked);
    let node = format!("ollama=http://127.0.0.1:{}", a.port());
    let args = ["--config", &config, "--engine", "ollama", "--node", &node];
    let moved = free_port();
    {
        let daemon = Standalone::try_start(&world, asked, &args).unwrap();
        daemon
            .out
            .expect(&format!("localhost:{asked} (from the configuration)"));
        let said = world.run(&["set-port", "ollama", &moved.to_string()]);
        assert_eq!(said.code, 0, "{said:?}");
        assert!(said.out.contains(&moved.to_string()), "{}", said.out);
        assert_eq!(post(moved, "/api/chat", &chat("m")).text(), "a");
        assert_eq!(world.json(&["status"])["facades"][0]["port"], moved);
        let mut process = daemon.process;
        process.terminate();
        assert_eq!(process.exit_code(), 0);
    }
    let saved = std::fs::read(world.path().join("data/proxy-port.json")).unwrap();
    let saved: serde_json::Value = serde_json::from_slice(&saved).unwrap();
    assert_eq!(saved, json!({ "port": moved }));
    let daemon = Standalone::try_start(&world, moved, &args).unwrap();
    let note = format!("localhost:{moved} (saved by set-port; the configuration asks for {asked})");
    daemon.out.expect(&note);
    assert_eq!(post(moved, "/api/chat", &chat("m")).text(), "a");
    drop(daemon);
    // A port on the command line is exact: it passes over the saved one.
    let exact = Standalone::start(&world, &["--node", &node]);
    exact
        .out
        .expect(&format!("localhost:{} (as asked)", exact.port));
    assert_eq!(post(exact.port, "/api/chat", &chat("m")).text(), "a");
}

#[test]
fn a_wanted_port_that_is_taken_gives_way_to_the_fallback_and_the_table_says_so() {
    // The fallback ports are fixed, and another program of this machine may have one of them.
    for (engine, path, fallback) in [
        ("llamacpp", "/models", 8081),
        ("lmstudio", "/v1/models", 1235),
        ("ollama", "/api/tags", 11436),
    ] {
        if TcpListener::bind((Ipv4Addr::UNSPECIFIED, fallback)).is_err() {
            continue;
        }
        let holder = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let wanted = holder.local_addr().unwrap().port();
        let world = World::new();
        let config = wanting(&world, engine, wanted);
        let args = ["--config", &config, "--engine", engine];
        let Ok(daemon) = Standalone::try_start(&world, fallback, &args) else {
            continue;
        };
        daemon
            .out
            .expect(&format!("localhost:{fallback} ({wanted} is taken)"));
        assert_eq!(world.json(&["status"])["facades"][0]["port"], fallback);
        // It has no node, unless an engine runs on this very machine.
        let status = get(fallback, path).status;
        assert!([200, 503].contains(&status), "{status}");
        return;
    }
    panic!("all fallback ports of this machine are taken by others");
}

#[test]
fn an_exact_port_that_is_taken_ends_with_1_and_says_so() {
    // Beside somebody on one loopback address alone, a wider bind could succeed.
    for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0"] {
        let Ok(holder) = TcpListener::bind(address) else {
            continue;
        };
        let taken = holder.local_addr().unwrap().port();
        let world = World::new();
        let said = world.run(&["serve", "--engine", &format!("ollama={taken}")]);
        assert_eq!(said.code, 1, "{address}: {said:?}");
        assert!(
            said.err.contains("Ollama") && said.err.contains(&taken.to_string()),
            "{}",
            said.err
        );
        assert!(!world.socket().exists(), "nothing is left behind");
    }
}

#[test]
fn one_facade_that_cannot_be_had_leaves_the_other() {
    let holder = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let taken = format!("lmstudio={}", holder.local_addr().unwrap().port());
    let world = World::new();
    let daemon = Standalone::start(&world, &["--engine", &taken]);
    daemon.process.log.expect("LM Studio");
    let facades = world.json(&["status"])["facades"].clone();
    assert_eq!(facades.as_array().unwrap().len(), 1);
    assert_eq!(facades[0]["port"], daemon.port);
}
