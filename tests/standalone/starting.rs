//! How a start goes, and how it fails.

use std::os::unix::net::UnixListener;

use crate::support::client::post;
use crate::support::daemon::{Lines, Process, Standalone, World};
use crate::support::{free_port, wait_for};
use crate::{chat, ollama, says, serve};

#[test]
fn the_start_up_table_says_what_to_paste_and_which_nodes_there_are() {
    let a = ollama(&["m"], says("a"));
    let world = World::new();
    let daemon = serve(&world, "", &[("tower", &a)]);
    let out = daemon.out.text();
    for part in [
        format!("localhost:{}", daemon.port),
        format!("http://localhost:{}", daemon.port),
        "Ollama".to_owned(),
        "tower".to_owned(),
        world.socket().display().to_string(),
        "Open WebUI, Continue, Cline, openai SDK".to_owned(),
        format!("http://localhost:{}/v1", daemon.port),
        "OLLAMA_HOST".to_owned(),
        "ANTHROPIC_BASE_URL".to_owned(),
    ] {
        assert!(out.contains(&part), "{part} in\n{out}");
    }
    assert!(!out.contains('\u{1b}'), "no colour off a terminal");
}

#[test]
fn a_program_is_told_the_start_as_one_document() {
    let world = World::new();
    let port = free_port();
    let engine = format!("ollama={port}");
    let mut process = Process::spawn(&mut world.command(&["serve", "--json", "--engine", &engine]));
    let out = Lines::of(process.child().stdout.take().unwrap());
    // The last line of a document that is laid out.
    out.expect("\n}");
    let told: serde_json::Value = serde_json::from_str(&out.text()).unwrap();
    assert_eq!(
        (&told["schema_version"], &told["mode"]),
        (&1.into(), &"standalone".into())
    );
    assert_eq!(told["socket"], world.socket().display().to_string());
    let facade = &told["facades"][0];
    assert_eq!(
        (&facade["engine"], &facade["port"]),
        (&"ollama".into(), &port.into())
    );
    assert_eq!(facade["url"], format!("http://localhost:{port}"));
    assert!(
        facade["nodes"].is_array() && told["warnings"].is_array(),
        "{told}"
    );
    process.terminate();
    assert_eq!(process.exit_code(), 0);
    wait_for("its output ends", || out.ended());
    serde_json::from_str::<serde_json::Value>(&out.text()).unwrap();
}

#[test]
fn the_first_request_after_ready_finds_the_nodes() {
    let a = ollama(&["m"], says("a"));
    let world = World::new();
    let daemon = serve(&world, "", &[("a", &a)]);
    assert_eq!(post(daemon.port, "/api/chat", &chat("m")).text(), "a");
}

#[test]
fn a_node_that_does_not_answer_costs_no_start() {
    let world = World::new();
    let node = format!("ollama=http://127.0.0.1:{}", free_port());
    let daemon = Standalone::start(&world, &["--node", &node]);
    daemon.process.log.expect("refused");
    let answer = post(daemon.port, "/api/chat", &chat("m"));
    assert_eq!(answer.status, 502);
}

#[test]
fn a_second_daemon_on_the_socket_ends_with_1_and_names_it() {
    let world = World::new();
    let first = Standalone::start(&world, &[]);
    let said = world.run(&["serve", "--engine", &format!("ollama={}", free_port())]);
    assert_eq!(said.code, 1);
    let socket = world.socket();
    assert!(said.err.contains(socket.to_str().unwrap()), "{}", said.err);
    assert!(said.err.contains("another daemon"), "{}", said.err);
    assert!(said.err.contains("try: stop it first"), "{}", said.err);
    assert_eq!(
        world.json(&["status"])["facades"][0]["port"],
        first.port,
        "the first one serves on"
    );
}

#[test]
fn a_socket_that_nobody_serves_is_replaced() {
    let world = World::new();
    drop(UnixListener::bind(world.socket()).unwrap());
    assert!(world.socket().exists());
    let mut first = Standalone::start(&world, &[]);
    assert_eq!(
        world.json(&["status"])["daemon"]["pid"],
        first.process.child().id()
    );
    // A crash leaves one behind too.
    first.process.signal(rustix::process::Signal::KILL);
    first.process.child().wait().unwrap();
    assert!(world.socket().exists());
    assert_eq!(world.run(&["status"]).code, 3);
    let second = Standalone::start(&world, &[]);
    assert_eq!(world.json(&["status"])["facades"][0]["port"], second.port);
}

#[test]
fn a_file_in_the_sockets_place_is_left_alone() {
    let world = World::new();
    std::fs::write(world.socket(), "precious").unwrap();
    let said = world.run(&["serve", "--engine", &format!("ollama={}", free_port())]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("not a socket"), "{}", said.err);
    assert_eq!(std::fs::read_to_string(world.socket()).unwrap(), "precious");
}

#[test]
fn every_error_of_an_invalid_configuration_is_told_with_its_place() {
    let world = World::new();
    let text = "policy = \"fair\"\nmax_request_bytes = \"much\"\n\n[engines.olama]\nport = 99999\n";
    let path = world.file("bad.toml", text);
    let said = world.run(&["serve", "--config", path.to_str().unwrap()]);
    assert_eq!((said.code, said.out.as_str()), (2, ""));
    for place in ["bad.toml:1:10", "bad.toml:2:21", "bad.toml:4:"] {
        assert!(said.err.contains(place), "{place} in\n{}", said.err);
    }
    assert!(
        said.err.contains("ollama"),
        "the nearest engine: {}",
        said.err
    );
}

#[test]
fn a_configuration_that_cannot_be_read_ends_with_2_and_names_it() {
    let world = World::new();
    std::fs::create_dir(world.path().join("folder.toml")).unwrap();
    std::fs::write(world.path().join("binary.toml"), b"\xff\xfe\x00").unwrap();
    for name in ["folder.toml", "binary.toml", "absent.toml"] {
        let said = world.run(&["serve", "--config", name]);
        assert_eq!(said.code, 2, "{name}: {said:?}");
        assert!(said.err.contains(name), "{}", said.err);
    }
}

#[test]
fn wrong_words_on_the_command_line_end_with_2_and_name_themselves() {
    let world = World::new();
    for (args, part) in [
        (&["serve", "--engine", "olama"][..], "olama"),
        (&["serve", "--engine", "ollama=70000"], "70000"),
        (&["serve", "--engine", "ollama=x"], "x"),
        (&["serve", "--node", "ollama=ftp://h"], "http://"),
        (&["serve", "--response-header-timeout", "-1s"], "-1s"),
        (&["serve", "--max-request-bytes", "much"], "much"),
        (&["select", "olama", "a"], "olama"),
        (&["set-port", "ollama", "70000"], "70000"),
        (&["set-port", "ollama", "-1"], "-1"),
        (&["nothing"], "nothing"),
    ] {
        let said = world.run(args);
        assert_eq!(said.code, 2, "{args:?}: {said:?}");
        assert!(said.err.contains(part), "{args:?}: {}", said.err);
    }
}

#[test]
fn a_node_url_with_a_password_ends_with_2() {
    let said = World::new().run(&["serve", "--node", "ollama=http://user:canary@h"]);
    assert_eq!(said.code, 2);
    assert!(
        said.err.contains("no user name or password"),
        "{}",
        said.err
    );
}

#[test]
fn a_password_in_a_node_url_is_not_repeated() {
    let said = World::new().run(&["serve", "--node", "ollama=http://user:canary@h"]);
    assert!(!said.err.contains("canary"), "{}", said.err);
}

#[test]
fn a_useless_timeout_in_the_environment_is_a_warning_and_the_default() {
    let world = World::new();
    let engine = format!("ollama={}", free_port());
    let mut command = world.command(&["serve", "--engine", &engine]);
    command.env("NVPAIR_PROXY_RESPONSE_HEADER_TIMEOUT", "soon");
    let process = crate::support::daemon::Process::spawn(&mut command);
    process.log.expect("NVPAIR_PROXY_RESPONSE_HEADER_TIMEOUT");
    process.log.expect("facade listens");
}
