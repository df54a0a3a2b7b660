//! From the first registration to the last: what the agent does as gateway, engine and signals come
//! and go.

use std::collections::HashSet;
use std::fs;

use crate::gateway::{Gateway, agent, ollama, ollama_says, url};
use crate::support::daemon::World;
use crate::support::engine::Engine;
use crate::support::{LIMIT, wait};

#[test]
fn it_registers_what_its_engine_has_and_beats() {
    let (world, mut gateway, engine) = (World::new(), Gateway::start(), ollama());
    let key = gateway.key_for("w1", &["m*", "other"]);
    let _agent = agent(
        &world,
        &gateway,
        &key,
        "ollama",
        &url(&engine),
        &["--max-concurrency", "3"],
    );
    let record = gateway.until("a first beat", "w1", |r| r.beat.is_some());
    let r = &record.registration;
    assert_eq!(
        (r.engine.as_str(), r.max_concurrency, r.base_weight),
        ("ollama", 3, 3)
    );
    assert_eq!(r.endpoint, url(&engine));
    assert_eq!(r.hardware, None, "there is no GPU that anybody knows of");
    assert_eq!(r.agent_version, env!("CARGO_PKG_VERSION"));
    let models: Vec<_> = record
        .models()
        .iter()
        .map(|m| (&*m.id, m.context_length, m.is_warm))
        .collect();
    assert_eq!(
        models,
        [("m", Some(8192), true)],
        "the key does not allow the other"
    );
    _agent.log.expect("the key does not allow these models");
    let beat = record.beat.as_ref().unwrap();
    assert_eq!(
        (beat.draining, beat.active_requests, beat.queue_depth),
        (false, 0, 0)
    );
    assert_eq!(
        (
            beat.free_vram_bytes,
            beat.gpu_temperature_c,
            beat.gpu_utilization_percent
        ),
        (None, None, None)
    );
    let later = gateway.next_beat(&gateway.next_beat(&record));
    assert!(later.beat.unwrap().seq >= 3);
    assert_eq!(later.session, record.session);
}

#[test]
fn an_engine_that_goes_and_comes_back_is_told_of() {
    let (world, mut gateway, engine) = (World::new(), Gateway::start(), ollama());
    let key = gateway.key("w1");
    let (port, at) = (engine.port(), url(&engine));
    let agent = agent(&world, &gateway, &key, "ollama", &at, &[]);
    let record = gateway.until("both models", "w1", |r| r.models().len() == 2);
    engine.die();
    let down = gateway.until("no models", "w1", |r| r.models().is_empty());
    assert_eq!(down.session, record.session, "it beats on");
    agent
        .log
        .expect("the engine is down: no models are advertised");
    let _engine = Engine::on(port, |r| ollama_says(r, &["new"]));
    gateway.until("the new model", "w1", |r| {
        r.model("new").is_some_and(|m| m.is_warm)
    });
}

#[test]
fn an_engine_that_is_not_there_yet_keeps_no_agent_from_joining() {
    let (world, mut gateway) = (World::new(), Gateway::start());
    let key = gateway.key("w1");
    let port = crate::support::free_port();
    let at = format!("http://127.0.0.1:{port}");
    let _agent = agent(&world, &gateway, &key, "ollama", &at, &[]);
    let record = gateway.until("a beat without models", "w1", |r| r.beat.is_some());
    assert!(record.registration.models.is_empty() && record.models().is_empty());
    let _engine = Engine::on(port, |r| ollama_says(r, &["m"]));
    gateway.until("the model", "w1", |r| r.model("m").is_some());
}

#[test]
fn a_gateway_that_goes_and_comes_back_is_found_again() {
    let (world, mut gateway, engine) = (World::new(), Gateway::start(), ollama());
    let key = gateway.key("w1");
    // Not there yet when the agent starts.
    gateway.stop();
    let mut agent = agent(&world, &gateway, &key, "ollama", &url(&engine), &[]);
    agent.log.expect("asked again until it can");
    gateway.again();
    let first = gateway.until("a beat", "w1", |r| r.beat.is_some());
    // Gone, and back with what it knew.
    gateway.stop();
    engine_is_looked_at(&engine);
    gateway.again();
    let second = gateway.next_beat(&gateway.record("w1").unwrap());
    assert_eq!(second.session, first.session, "the session still stands");
    agent.log.expect("the registry answers again");
    // Gone, and back without it.
    gateway.afresh();
    let third = gateway.until("a beat in a new session", "w1", |r| r.beat.is_some());
    assert_ne!(third.session, first.session);
    assert_eq!(third.models().len(), 2);
    agent.log.expect("does not know this session any more");
    assert!(agent.runs());
}

/// Serving goes on, and so does looking after the engine.
fn engine_is_looked_at(engine: &Engine) {
    let before = engine.hits();
    engine.hit(before + 2);
}

#[test]
fn an_evicted_node_registers_again_and_a_drained_one_says_so() {
    let (world, mut gateway, engine) = (World::new(), Gateway::start(), ollama());
    let key = gateway.key("w1");
    let agent = agent(&world, &gateway, &key, "ollama", &url(&engine), &[]);
    let record = gateway.until("a beat", "w1", |r| r.beat.is_some());
    gateway.drain("w1", true);
    agent.log.expect("an administrator drains this node");
    agent.log.expect("state=\"draining\"");
    gateway.drain("w1", false);
    agent.log.expect("an administrator resumed this node");
    let still = gateway.record("w1").unwrap();
    assert_eq!(still.session, record.session);
    assert!(!still.beat.unwrap().draining, "the drain is the gateway's");
}

#[test]
fn it_leaves_when_nothing_is_under_way_any_more() {
    let (world, mut gateway, engine) = (World::new(), Gateway::start(), ollama());
    let key = gateway.key("w1");
    let mut agent = agent(&world, &gateway, &key, "ollama", &url(&engine), &[]);
    gateway.until("a beat", "w1", |r| r.beat.is_some());
    let request = gateway.lease("w1");
    agent.terminate();
    let told = gateway.until("a draining beat", "w1", |r| {
        r.beat.as_ref().is_some_and(|b| b.draining)
    });
    // A sweep is over long since, and it beats on as long as a request is here.
    let later = (0..4).fold(told, |last, _| gateway.next_beat(&last));
    assert!(later.beat.as_ref().unwrap().draining && agent.runs());
    drop(request);
    assert_eq!(agent.exit_code(), 0);
    assert!(gateway.record("w1").is_none(), "it unregistered");
    agent.log.expect("no request was cut");
}

#[test]
fn a_drain_is_over_at_its_limit_and_says_what_is_cut() {
    let (world, mut gateway, engine) = (World::new(), Gateway::start(), ollama());
    let key = gateway.key("w1");
    let more = ["--drain-timeout", "3s"];
    let mut agent = agent(&world, &gateway, &key, "ollama", &url(&engine), &more);
    gateway.until("a beat", "w1", |r| r.beat.is_some());
    let _request = gateway.lease("w1");
    agent.terminate();
    assert_eq!(agent.exit_code(), 0);
    agent
        .log
        .expect("left while requests were under way gateway_requests=1 own_requests=0");
    assert!(gateway.record("w1").is_none_or(|r| r.session.is_none()));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let (world, mut gateway, engine) = (World::new(), Gateway::start(), ollama());
    let key = gateway.key("w1");
    let mut agent = agent(&world, &gateway, &key, "ollama", &url(&engine), &[]);
    gateway.until("a beat", "w1", |r| r.beat.is_some());
    let _request = gateway.lease("w1");
    agent.terminate();
    agent.log.expect("draining");
    agent.signal(rustix::process::Signal::INT);
    assert_eq!(agent.exit_code(), 0);
    agent.log.expect("second signal");
    assert!(
        gateway.record("w1").unwrap().session.is_some(),
        "nobody unregistered it"
    );
}

#[test]
fn without_a_gateway_a_drain_ends_too() {
    let (world, mut gateway, engine) = (World::new(), Gateway::start(), ollama());
    let key = gateway.key("w1");
    let mut agent = agent(&world, &gateway, &key, "ollama", &url(&engine), &[]);
    gateway.until("a beat", "w1", |r| r.beat.is_some());
    gateway.stop();
    agent.terminate();
    assert_eq!(agent.exit_code(), 0);
    agent.log.expect("left without a registry");
}

#[test]
fn a_registry_that_says_no_is_quoted() {
    let (world, mut gateway, engine) = (World::new(), Gateway::start(), ollama());
    // A key nobody made.
    let stranger = format!("ktms_node_{}", "5".repeat(64));
    let mut refused = agent(&world, &gateway, &stranger, "ollama", &url(&engine), &[]);
    assert_eq!(refused.exit_code(), 4);
    refused.log.expect("unknown or was revoked");
    // Another node's key.
    let other = gateway.key("w2");
    let mut refused = agent(&world, &gateway, &other, "ollama", &url(&engine), &[]);
    assert_eq!(refused.exit_code(), 4);
    refused.log.expect("speaks for node \"w2\"");
    // An endpoint that the key does not allow.
    let key = gateway.key("w1");
    let metadata = ["--endpoint", "http://169.254.169.254"];
    let mut command = world.command(&["agent", "--node-id", "w1", "--engine", "ollama"]);
    command
        .args(["--proxy-addr", &gateway.address()])
        .args(metadata)
        .env("NODE_KEY", &key);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("169.254.169.254"), "{told}");
}

#[test]
fn a_revoked_key_ends_the_agent() {
    let (world, mut gateway, engine) = (World::new(), Gateway::start(), ollama());
    let key = gateway.key("w1");
    let mut agent = agent(&world, &gateway, &key, "ollama", &url(&engine), &[]);
    gateway.until("a beat", "w1", |r| r.beat.is_some());
    gateway.revoke("w1");
    assert_eq!(agent.exit_code(), 4);
    agent.log.expect("unknown or was revoked");
}

#[test]
fn two_agents_of_one_node_are_not_left_to_fight_unnoticed() {
    let (world, mut gateway, engine) = (World::new(), Gateway::start(), ollama());
    let key = gateway.key("w1");
    let agents = [0, 1].map(|_| agent(&world, &gateway, &key, "ollama", &url(&engine), &[]));
    let mut sessions = HashSet::new();
    let told = || {
        agents
            .iter()
            .any(|a| a.log.text().contains("is there another agent"))
    };
    let found = wait(LIMIT, || {
        sessions.extend(
            gateway
                .record("w1")
                .and_then(|r| r.session)
                .map(|s| s.as_str().to_owned()),
        );
        told().then_some(())
    });
    assert!(found.is_some(), "{}", agents[0].log.text());
    assert!(
        sessions.len() < 20,
        "they race: {} sessions",
        sessions.len()
    );
}

#[test]
fn the_key_is_in_no_log_no_file_and_no_command_line() {
    let (world, mut gateway, engine) = (World::new(), Gateway::start(), ollama());
    let key = gateway.key("w1");
    let secret = &key["ktms_node_".len()..];
    let file = world.file("node-key", &format!("{key}\n"));
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let mut command = world.command(&["agent", "-v", "--node-id", "w1", "--engine", "ollama"]);
    command
        .args([
            "--proxy-addr",
            &gateway.address(),
            "--engine-url",
            &url(&engine),
        ])
        .args([
            "--endpoint",
            &url(&engine),
            "--sweep-interval",
            "1s",
            "--node-key-file",
        ])
        .arg(&file);
    let mut agent = crate::support::daemon::Process::spawn(&mut command);
    let session = gateway
        .until("a beat", "w1", |r| r.beat.is_some())
        .session
        .unwrap();
    let line = fs::read(format!("/proc/{}/cmdline", agent.child().id())).unwrap();
    assert!(!String::from_utf8_lossy(&line).contains(secret));
    gateway.stop();
    agent.log.expect("asked again until it can");
    gateway.afresh();
    gateway.until("a beat", "w1", |r| r.beat.is_some());
    gateway.revoke("w1");
    assert_eq!(agent.exit_code(), 4);
    let log = agent.log.text();
    assert!(!log.contains(secret), "{log}");
    assert!(!log.contains(session.as_str()), "{log}");
    let engine_saw = format!("{:?}", engine.requests());
    assert!(!engine_saw.contains(secret), "the engine needs no node key");
    for (path, content) in world.files() {
        let is_it = path == file;
        assert!(
            is_it || !String::from_utf8_lossy(&content).contains(secret),
            "{path:?}"
        );
    }
}

#[test]
fn no_clock_of_the_day_is_read() {
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/agent")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(!text.contains("SystemTime") && !text.contains("UNIX_EPOCH"));
    }
}
