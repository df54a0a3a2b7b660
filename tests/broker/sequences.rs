//! The sequences between a parent and us, as they are agreed.

use std::net::TcpListener;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::broker::Broker;
use crate::support::client::Client;
use crate::support::engine::{Engine, Reply, Step};
use crate::support::{free_port, wait_for};

use super::{frames_since, record, said_by, said_by_snapshot, settled, short};

#[test]
fn nothing_is_said_before_a_facade_is_asked_for() {
    let mut broker = Broker::start();
    broker.process.log.expect("nvpair-proxy");
    broker.close();
    assert_eq!(broker.process.exit_code(), 0);
    wait_for("the link ends", || broker.link_ended());
    assert_eq!(broker.raw_frames(), "");
}

#[test]
fn two_engines_are_enabled_in_turn() {
    let broker = Broker::start();
    let (port, alias) = (free_port(), free_port());
    let params = json!({
        "engine": "ollama", "port": port, "ignorePersistedPort": true,
        "aliasAddresses": [format!("127.0.0.1:{alias}"), format!("[::1]:{alias}")],
    });
    let reply = broker.request("facade/enable", &params);
    assert_eq!(reply, json!({"engine": "ollama", "port": port}));
    let first = frames_since(&broker, 0);
    let said: Vec<_> = first.iter().map(short).collect();
    assert_eq!(
        said,
        [
            "ollama:errors:clear",
            "ollama:ready",
            "ollama:discovery:subscribe",
            "reply 1",
        ]
    );
    let cleared = json!({"id": "ollama-proxy:ollama-host-alias-blocked"});
    assert_eq!(first[0]["params"], cleared);
    assert_eq!(first[1]["params"]["port"], port);
    assert!(first[1]["params"]["version"].is_string());
    assert_eq!(first[2]["params"], json!({"services": ["ol"]}));

    let said = said_by_snapshot(&broker, &[record("x", 11434, &["m"])]);
    assert_eq!(said, ["ollama:node/discovered", "ollama:errors:clear"]);

    let params = json!({"engine": "lmstudio", "port": free_port(), "ignorePersistedPort": true});
    let said = said_by(&broker, "facade/enable", &params);
    let wanted = ["lmstudio:ready", "lmstudio:discovery:subscribe", "reply"];
    assert_eq!(said, wanted);

    let params = json!({"generation": 1, "nodes": ["x", "y"], "ranks": []});
    let reply = broker.request("node/set-priority", &params);
    assert_eq!(reply, json!({"count": 2}));
    let backend = json!({"engine": "ollama", "host": "", "port": 11436, "healthy": true});
    assert_eq!(
        said_by(&broker, "ollama:node/set-local-backend", &backend),
        ["reply"]
    );
}

#[test]
fn a_lost_bind_is_told_before_it_is_answered_and_another_port_is_taken() {
    let broker = Broker::start();
    let holder = TcpListener::bind("0.0.0.0:0").unwrap();
    let taken = holder.local_addr().unwrap().port();
    let enable = |port| json!({"engine": "ollama", "port": port, "ignorePersistedPort": true});
    let said = said_by(&broker, "facade/enable", &enable(taken));
    assert_eq!(said, ["ollama:error", "error -32010"]);
    let told = broker.expect("ollama:error", |_| true);
    assert_eq!(
        (&told["code"], &told["port"]),
        (&json!("bind-failed"), &json!(taken))
    );
    let said = said_by(&broker, "facade/enable", &enable(free_port()));
    let wanted = ["ollama:ready", "ollama:discovery:subscribe", "reply"];
    assert_eq!(said, wanted);
    // The port that was lost is free for us as soon as it is free.
    drop(holder);
    let said = said_by(&broker, "ollama:set-port", &json!({"port": taken}));
    assert_eq!(said, ["ollama:ready", "reply"]);
}

#[test]
fn a_move_says_ready_and_then_answers_and_subscribes_to_nothing_again() {
    let (broker, _) = Broker::with_facade("ollama");
    let port = free_port();
    let mark = settled(&broker);
    let reply = broker.request("ollama:set-port", &json!({"port": port}));
    assert_eq!(reply["port"], port);
    let frames = frames_since(&broker, mark);
    assert_eq!(frames.len(), 2, "{frames:#?}");
    assert_eq!(short(&frames[0]), "ollama:ready");
    assert_eq!(frames[0]["params"], reply, "version and port, both");
    assert_eq!(frames[1]["result"], reply);
}

#[test]
fn a_saved_port_comes_back_unless_it_is_to_be_ignored() {
    let saved = free_port();
    for (ignore, wanted) in [(false, saved), (true, free_port())] {
        let broker = Broker::start();
        let file = broker.world.path().join("data/lmstudio-proxy-port.json");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let text = json!({"port": saved}).to_string();
        std::fs::write(&file, &text).unwrap();
        let asked = if ignore { wanted } else { free_port() };
        let params = json!({"engine": "lmstudio", "port": asked, "ignorePersistedPort": ignore});
        let reply = broker.request("facade/enable", &params);
        assert_eq!(reply, json!({"engine": "lmstudio", "port": wanted}));
        let ready = broker.expect("lmstudio:ready", |_| true);
        assert_eq!(ready["port"], wanted);
        assert_eq!(
            std::fs::read_to_string(&file).unwrap(),
            text,
            "enabling saves nothing"
        );
    }
}

#[test]
fn a_node_that_leaves_the_directory_is_told_in_order_and_its_job_goes_on() {
    let (silent, good) = (Engine::always(Reply::silence()), Engine::serving("good"));
    let (broker, port) = Broker::with_facade("ollama");
    for (id, engine) in [("x", &silent), ("y", &good)] {
        broker.node("ollama", id, engine.port(), &["m"]);
    }
    let here = |id: &str, engine: &Engine| {
        let mut record = record(id, engine.port(), &["m"]);
        record["ip"] = json!("127.0.0.1");
        record
    };
    let both = [here("x", &silent), here("y", &good)];
    said_by_snapshot(&broker, &both);
    broker.request("ollama:node/select", &json!({"id": "x"}));
    let mut client = Client::connect(port);
    client.post("/api/chat", &json!({"model": "m"}));
    silent.hit(1);
    // Only the directory still lists it, and the selection is renewed there.
    broker.request("ollama:node/remove-manual", &json!({"id": "x"}));
    broker.request("ollama:node/select", &json!({"id": "x"}));
    let mark = settled(&broker);
    broker.notify("ollama:discovery:nodes", &json!({"nodes": both[1..]}));
    assert_eq!(client.answer().text(), "good");
    let frames = frames_since(&broker, mark);
    let facade: Vec<_> = frames
        .iter()
        .map(|f| (short(f), f["params"]["id"].clone()))
        .filter(|(m, _)| m.starts_with("ollama:") && !m.contains("proxy/"))
        .collect();
    let gone = "ollama-proxy:upstream-unreachable:x";
    let wanted: Vec<(String, Value)> = [
        ("ollama:node/removed", "x"),
        ("ollama:errors:report", gone),
        ("ollama:node/selection-changed", ""),
    ]
    .map(|(method, id)| (method.to_owned(), json!(id)))
    .into();
    assert_eq!(facade, wanted);
    let report = broker.expect("ollama:errors:report", |p| p["id"] == gone);
    assert_eq!(report["severity"], "warning");
    assert_eq!(
        broker.story("1"),
        [
            "submitted queued -",
            "submitted queued x",
            "submitted queued y",
            "started running y",
            "completed completed y",
        ]
    );
    let mark = settled(&broker);
    broker.notify("ollama:discovery:nodes", &json!({"nodes": both}));
    let again = frames_since(&broker, mark);
    let again: Vec<_> = again
        .iter()
        .map(|f| (short(f), f["params"]["id"].clone()))
        .collect();
    let wanted: Vec<(String, Value)> = [
        ("ollama:node/discovered", "x"),
        ("ollama:errors:clear", gone),
    ]
    .map(|(method, id)| (method.to_owned(), json!(id)))
    .into();
    assert_eq!(again, wanted);
}

#[test]
fn after_a_crash_a_new_process_takes_the_old_generation_and_names_a_new_run() {
    let engine = Engine::serving("ok");
    let ranking = json!({"generation": 7, "nodes": ["n0"], "ranks": []});
    let mut runs = vec![];
    for _ in 0..2 {
        let (mut broker, port) = Broker::with_facade("ollama");
        broker.node("ollama", "n0", engine.port(), &["m"]);
        // The cached ranking comes with its generation, and may come twice.
        for _ in 0..2 {
            let reply = broker.request("node/set-priority", &ranking);
            assert_eq!(reply, json!({"count": 1}));
        }
        let mut client = Client::connect(port);
        client.post("/api/chat", &json!({"model": "m"}));
        client.answer();
        broker.story("1");
        let (_, job) = broker.workloads().remove(0);
        runs.push(job["runId"].as_str().unwrap().to_owned());
        broker.process.signal(Signal::KILL);
        wait_for("it is gone", || !broker.process.runs());
    }
    assert_ne!(
        runs[0], runs[1],
        "request numbers start again, so runs differ"
    );
}

#[test]
fn the_end_of_the_link_ends_each_job_once_and_then_us() {
    let engine = Engine::always(Reply::lines().chunk("1").then(Step::Hang));
    let (mut broker, port) = Broker::over(&[&engine]);
    let mut clients: Vec<_> = (0..2).map(|_| Client::connect(port)).collect();
    for client in &mut clients {
        client.post("/api/chat", &json!({"model": "m"}));
        let mut head = client.head();
        assert!(client.read_until(&mut head, "1"));
    }
    let mark = settled(&broker);
    broker.close();
    assert_eq!(broker.process.exit_code(), 0);
    wait_for("the link ends", || broker.link_ended());
    let mut rest = broker.frames(mark);
    // A byte may still be told of.
    rest.retain(|f| f["method"] != "node/activity");
    for id in ["1", "2"] {
        let of_job =
            |f: &&Value| f["params"]["workloadInfo"]["id"] == id || f["params"]["id"] == id;
        let of_job: Vec<_> = rest.iter().filter(of_job).map(short).collect();
        assert_eq!(of_job, ["workload:errored", "ollama:proxy/request"]);
    }
    assert_eq!(rest.len(), 4, "{rest:#?}");
}

#[test]
fn owners_that_leave_together_cost_the_one_attempt_that_was_under_way() {
    let engines: Vec<_> = (0..5).map(|_| Engine::always(Reply::silence())).collect();
    let (broker, port) = Broker::with_facade("ollama");
    broker.join("ollama", &engines.iter().collect::<Vec<_>>());
    let here = |(i, engine): (usize, &Engine)| {
        let mut record = record(&format!("n{i}"), engine.port(), &["m"]);
        record["ip"] = json!("127.0.0.1");
        record
    };
    let all: Vec<_> = engines.iter().enumerate().map(here).collect();
    said_by_snapshot(&broker, &all);
    let mut client = Client::connect(port);
    client.post("/api/chat", &json!({"model": "m"}));
    engines[0].hit(1);
    for i in 0..5 {
        broker.request("ollama:node/remove-manual", &json!({"id": format!("n{i}")}));
    }
    broker.notify("ollama:discovery:nodes", &json!({"nodes": []}));
    broker.expect("workload:submitted", |p| p["workloadInfo"]["seq"] == 3);
    // One of them comes back while the request waits.
    engines[4].now(|_| Reply::with(200, &[], "back"));
    broker.node("ollama", "n4", engines[4].port(), &["m"]);
    assert_eq!(client.answer().text(), "back");
    assert_eq!(
        broker.story("1"),
        [
            "submitted queued -",
            "submitted queued n0",
            "submitted queued -",
            "submitted queued n4",
            "started running n4",
            "completed completed n4",
        ]
    );
}
