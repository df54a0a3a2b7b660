//! The two ways in and out: TLS towards the registry, and the door in front of the engine.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use nvpair_proxy::net::server_tls::ServerTls;
use serde_json::json;

use crate::gateway::{Gateway, agent, ollama, ollama_says, url};
use crate::support::client::post;
use crate::support::daemon::World;
use crate::support::engine::{Engine, Gate, Reply};
use crate::support::{free_port, wait_for};

/// A certificate for 127.0.0.1 in this world, as `c.pem`.
pub fn certificate(world: &World) -> ServerTls {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let c = world.file("c.pem", &made.cert.pem());
    let k = world.file("k.pem", &made.signing_key.serialize_pem());
    ServerTls::open(&c, &k).unwrap()
}

#[test]
fn the_pinned_registry_is_trusted_and_no_other() {
    let (world, engine) = (World::new(), ollama());
    let tls = certificate(&world);
    let right = tls.fingerprint();
    let mut gateway = Gateway::with_tls(Some(tls));
    let key = gateway.key("w1");
    let pinned = ["--proxy-fingerprint", &right];
    {
        let _agent = agent(&world, &gateway, &key, "ollama", &url(&engine), &pinned);
        gateway.until("a beat", "w1", |r| r.beat.is_some());
    }
    let wrong = format!("sha256:{}", "ab".repeat(32));
    let pinned = ["--proxy-fingerprint", &wrong];
    let mut refused = agent(&world, &gateway, &key, "ollama", &url(&engine), &pinned);
    assert_eq!(refused.exit_code(), 1);
    refused.log.expect("cannot be trusted");
    refused.log.expect(&right);
}

#[test]
fn a_certificate_of_a_known_authority_is_trusted_and_no_other() {
    let (world, engine) = (World::new(), ollama());
    let mut gateway = Gateway::with_tls(Some(certificate(&world)));
    let key = gateway.key("w1");
    let file = world.path().join("c.pem").display().to_string();
    {
        let ca = ["--proxy-ca", &file];
        let _agent = agent(&world, &gateway, &key, "ollama", &url(&engine), &ca);
        gateway.until("a beat", "w1", |r| r.beat.is_some());
    }
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let file = world
        .file("other.pem", &other.cert.pem())
        .display()
        .to_string();
    let ca = ["--proxy-ca", &file];
    let mut refused = agent(&world, &gateway, &key, "ollama", &url(&engine), &ca);
    assert_eq!(refused.exit_code(), 1);
    refused.log.expect("not trusted");
}

#[test]
fn a_registry_with_tls_that_is_spoken_to_without_is_explained() {
    let (world, engine) = (World::new(), ollama());
    let mut gateway = Gateway::with_tls(Some(certificate(&world)));
    let key = gateway.key("w1");
    let agent = agent(&world, &gateway, &key, "ollama", &url(&engine), &[]);
    agent.log.expect("give --proxy-fingerprint or --proxy-ca");
}

#[test]
fn wrong_usage_is_told_before_anything_happens() {
    let world = World::new();
    let usual = [
        "agent",
        "--node-id",
        "w1",
        "--engine",
        "ollama",
        "--endpoint",
        "http://10.0.0.5:11434",
    ];
    let key = format!("ktms_node_{}", "a".repeat(64));
    let said = |more: &[&str], key: Option<&str>| {
        let mut command = world.command(&[&usual, more].concat());
        if let Some(key) = key {
            command.env("NODE_KEY", key);
        }
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(!text.contains(&"a".repeat(64)), "{text}");
        text
    };
    let plain = said(&["--proxy-addr", "gw.lan:9090"], Some(&key));
    assert!(
        plain.contains("in the clear") && plain.contains("--proxy-fingerprint"),
        "{plain}"
    );
    let none = said(&["--proxy-addr", "127.0.0.1"], None);
    assert!(none.contains("there is no node key"), "{none}");
    let bad = said(&["--proxy-addr", "127.0.0.1"], Some("secret-canary"));
    assert!(!bad.contains("canary"), "{bad}");
    let flag = said(
        &["--proxy-addr", "127.0.0.1", "--node-key", "x"],
        Some(&key),
    );
    assert!(flag.contains("unexpected argument"), "{flag}");
    let file = world.file("open-key", &key).display().to_string();
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    }
    let open = said(
        &["--proxy-addr", "127.0.0.1", "--node-key-file", &file],
        None,
    );
    assert!(open.contains("chmod 600"), "{open}");
    let https = [
        "--proxy-addr",
        "127.0.0.1",
        "--engine-url",
        "https://127.0.0.1:1",
    ];
    assert!(said(&https, Some(&key)).contains("http:// URL"));
    for bad in [
        ["--proxy-addr", "http://gw"],
        ["--max-concurrency", "0"],
        ["--base-weight", "1001"],
        ["--proxy-fingerprint", "sha256:12"],
        ["--endpoint", "ftp://x"],
    ] {
        let local = ["--proxy-addr", "127.0.0.1"];
        let more = match bad[0] {
            "--proxy-addr" => bad.to_vec(),
            _ => [local, bad].concat(),
        };
        said(&more, Some(&key));
    }
}

#[test]
fn requests_through_the_door_are_passed_on_counted_and_waited_for() {
    let (world, mut gateway) = (World::new(), Gateway::start());
    let key = gateway.key("w1");
    let gate = Gate::new();
    let held = gate.clone();
    let engine = Engine::start(move |r| match r.target.as_str() {
        "/api/chat" => Reply::lines()
            .chunk("{\"n\":1}\n")
            .gate(&held)
            .chunk("{\"n\":2}\n")
            .end(),
        _ => ollama_says(r, &["m"]),
    });
    let door = free_port();
    let listen = format!("127.0.0.1:{door}");
    let more = ["--listen", &listen];
    let mut agent = agent(&world, &gateway, &key, "ollama", &url(&engine), &more);
    gateway.until("a beat", "w1", |r| r.beat.is_some());
    // Lists pass and are not counted.
    let list = crate::support::client::get(door, "/api/tags");
    assert_eq!(list.status, 200);
    let client = std::thread::spawn(move || post(door, "/api/chat", &json!({"model": "m"})));
    gate.reached();
    gateway.until("one active request", "w1", |r| {
        r.beat.as_ref().is_some_and(|b| b.active_requests == 1)
    });
    // A drain that no gateway's request holds up waits for this one.
    agent.terminate();
    let told = gateway.until("a draining beat", "w1", |r| {
        r.beat.as_ref().is_some_and(|b| b.draining)
    });
    let later = (0..3).fold(told, |last, _| gateway.next_beat(&last));
    assert_eq!(later.beat.unwrap().active_requests, 1);
    assert!(agent.runs());
    gate.open();
    let answer = client.join().unwrap();
    assert_eq!(
        (answer.status, answer.text().as_str()),
        (200, "{\"n\":1}\n{\"n\":2}\n")
    );
    assert_eq!(agent.exit_code(), 0);
    let request = engine.requests_for("/api/chat").remove(0);
    assert_eq!(
        request.header("host"),
        Some(format!("127.0.0.1:{}", engine.port()).as_str())
    );
    assert_eq!(request.header("x-forwarded-for"), Some("127.0.0.1"));
    agent.log.expect("no request was cut");
}

#[test]
fn whoever_leaves_at_the_door_leaves_the_engine_too() {
    let (world, mut gateway) = (World::new(), Gateway::start());
    let key = gateway.key("w1");
    let engine = Engine::start(move |r| match r.target.as_str() {
        "/api/chat" => Reply::lines()
            .chunk("{}\n")
            .then(crate::support::engine::Step::Hang),
        _ => ollama_says(r, &["m"]),
    });
    let door = free_port();
    let listen = format!("127.0.0.1:{door}");
    let _agent = agent(
        &world,
        &gateway,
        &key,
        "ollama",
        &url(&engine),
        &["--listen", &listen],
    );
    gateway.until("a beat", "w1", |r| r.beat.is_some());
    let mut client = TcpStream::connect(("127.0.0.1", door)).unwrap();
    client
        .write_all(b"POST /api/chat HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}")
        .unwrap();
    client.read_exact(&mut [0; 20]).unwrap();
    let active = |n| {
        gateway.until("the count", "w1", move |r| {
            r.beat.as_ref().is_some_and(|b| b.active_requests == n)
        })
    };
    active(1);
    drop(client);
    engine.was_left(1);
    active(0);
}

#[test]
fn an_engine_that_is_gone_is_a_bad_gateway_at_the_door() {
    let (world, mut gateway, engine) = (World::new(), Gateway::start(), ollama());
    let key = gateway.key("w1");
    let door = free_port();
    let listen = format!("127.0.0.1:{door}");
    let _agent = agent(
        &world,
        &gateway,
        &key,
        "ollama",
        &url(&engine),
        &["--listen", &listen],
    );
    gateway.until("a beat", "w1", |r| r.beat.is_some());
    engine.die();
    let answer = post(door, "/api/chat", &json!({"model": "m"}));
    assert_eq!(answer.status, 502);
    assert_eq!(answer.json()["code"], "engine-unreachable");
    wait_for("nothing is counted", || {
        gateway
            .record("w1")
            .is_some_and(|r| r.beat.is_some_and(|b| b.active_requests == 0))
    });
    // A port that is taken is told at the start.
    let mut second = agent_on(&world, &gateway, &key, &url(&engine), &listen);
    assert_eq!(second.exit_code(), 1);
    second.log.expect("cannot listen on");
}

fn agent_on(
    world: &World,
    gateway: &Gateway,
    key: &str,
    at: &str,
    listen: &str,
) -> crate::support::daemon::Process {
    agent(world, gateway, key, "ollama", at, &["--listen", listen])
}
