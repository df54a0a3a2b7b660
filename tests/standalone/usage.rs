//! Usage events of a daemon with a pool: in a file, at a collector, never with content.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::{Value, json};

use crate::support::ask_until;
use crate::support::client::{Client, http, post};
use crate::support::daemon::{Process, Standalone, World};
use crate::support::engine::{Engine, Reply, Step};
use crate::support::{free_port, wait_for};
use crate::{chat, ollama, says, serve};

/// What nobody may keep.
const CANARY: &str = "cAnArY51b";

/// A collector that keeps the events of what it took, and says what it is told to.
struct Collector {
    peer: Engine,
    says: Arc<AtomicU16>,
    took: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    fn start() -> Self {
        let says = Arc::new(AtomicU16::new(200));
        let took: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (status, kept) = (says.clone(), took.clone());
        let peer = Engine::start(move |request| {
            let status = status.load(Ordering::SeqCst);
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            if status == 200 {
                let events = body["events"].as_array().unwrap();
                kept.lock().unwrap().extend(events.iter().cloned());
            }
            Reply::with(status, &[], "")
        });
        Self { peer, says, took }
    }

    fn events(&self) -> Vec<Value> {
        self.took.lock().unwrap().clone()
    }
}

fn pool(world: &World, collector: &Collector) -> String {
    format!(
        "[pool]\nlisten = \"127.0.0.1:{}\"\nheartbeat_interval = \"1s\"\nusage_file = {:?}\n\
         usage_collector = \"http://127.0.0.1:{}/v1/usage\"\n",
        free_port(),
        world.path().join("usage.jsonl"),
        collector.peer.port()
    )
}

fn written(world: &World) -> Vec<Value> {
    let text = fs::read_to_string(world.path().join("usage.jsonl")).unwrap();
    let lines = text.lines();
    lines.map(|l| serde_json::from_str(l).unwrap()).collect()
}

fn end(mut daemon: Standalone) -> String {
    daemon.process.terminate();
    assert_eq!(daemon.process.exit_code(), 0);
    daemon.process.log.text()
}

#[test]
fn each_finished_request_is_one_event_and_none_has_its_content() {
    let answer = format!(
        "{{\"message\":{{\"content\":\"{CANARY}\"}},\"done\":true,\"prompt_eval_count\":3,\"eval_count\":2}}\n"
    );
    let (a, b) = (
        ollama(&["m", "hangs"], Reply::status(503)),
        ollama(&["m"], says(&answer)),
    );
    let (world, collector) = (World::new(), Collector::start());
    let more = format!("policy = \"ordered\"\n{}", pool(&world, &collector));
    let daemon = serve(&world, &more, &[("a", &a), ("b", &b)]);
    let body = json!({"model": "m", "messages": [{"role": "user", "content": CANARY}]});
    let headers = [("Authorization", CANARY), ("X-Any", CANARY)];
    let target = format!("/api/chat?key={CANARY}");
    let said = http(
        daemon.port,
        "POST",
        &target,
        &headers,
        body.to_string().as_bytes(),
    );
    assert!(said.text().contains(CANARY));
    // Tried on two nodes: one event.
    wait_for("the event is there", || collector.events().len() == 1);
    let status = world.json(&["status"]);
    assert_eq!(status["pool"]["usage"]["file_lost"], 0);
    assert_eq!(status["pool"]["usage"]["collector"]["lost"], 0);
    // A client that leaves.
    a.now(|_| Reply::steps([Step::Hang]));
    let before = a.hits();
    let mut client = Client::connect(daemon.port);
    client.post("/api/chat", &json!({"model": "hangs"}));
    a.hit(before + 1);
    drop(client);
    wait_for("its event is there", || collector.events().len() == 2);
    let log = end(daemon);
    let events = collector.events();
    assert_eq!(written(&world), events, "the same in the file");
    let (first, second) = (&events[0], &events[1]);
    assert_eq!(
        (
            &first["vendor"],
            &first["status"],
            &first["http_status"],
            &first["node"],
            &first["attempts"]
        ),
        (
            &json!("local"),
            &json!("success"),
            &json!(200),
            &json!("b"),
            &json!(2)
        )
    );
    assert_eq!(
        (
            &first["prompt_tokens"],
            &first["completion_tokens"],
            &first["estimated"]
        ),
        (&json!(3), &json!(2), &json!(false))
    );
    assert_eq!(
        (&second["status"], &second["http_status"]),
        (&json!("cancelled"), &Value::Null)
    );
    assert!(
        first.get("key").is_none(),
        "a node that somebody named has no key"
    );
    let id = first["event_id"].as_str().unwrap();
    assert_eq!((id.len(), &id[14..15]), (36, "4"), "a UUID of version 4");
    assert_ne!(first["event_id"], second["event_id"]);
    let sent = format!("{:?}", collector.peer.requests());
    for text in [format!("{events:?}"), sent, log] {
        assert!(!text.contains(CANARY), "{text}");
    }
    for (path, content) in world.files() {
        let text = String::from_utf8_lossy(&content).into_owned();
        assert!(!text.contains(CANARY), "{path:?}");
    }
}

#[test]
fn a_collector_that_comes_back_gets_every_event_once() {
    let engine = ollama(&["m"], says("{\"done\":true}\n"));
    let (world, collector) = (World::new(), Collector::start());
    collector.says.store(503, Ordering::SeqCst);
    let daemon = serve(&world, &pool(&world, &collector), &[("a", &engine)]);
    for _ in 0..20 {
        assert_eq!(post(daemon.port, "/api/chat", &chat("m")).status, 200);
    }
    daemon
        .process
        .log
        .expect("the usage collector takes no events");
    let waiting = ask_until("all wait", || {
        let status = world.json(&["status"]);
        let usage = status["pool"]["usage"]["collector"].clone();
        (usage["queued"] == 20).then_some(usage)
    });
    assert_eq!((&waiting["sent"], &waiting["lost"]), (&json!(0), &json!(0)));
    collector.says.store(200, Ordering::SeqCst);
    wait_for("all are there", || collector.events().len() >= 20);
    let log = end(daemon);
    let events = collector.events();
    let ids: BTreeSet<_> = events.iter().map(|e| e["event_id"].to_string()).collect();
    assert_eq!((events.len(), ids.len()), (20, 20), "{log}");
    let in_file: BTreeSet<_> = written(&world)
        .iter()
        .map(|e| e["event_id"].to_string())
        .collect();
    assert_eq!(in_file, ids);
    assert_eq!(
        log.matches("takes no events").count(),
        1,
        "told once\n{log}"
    );
}

#[test]
fn a_pool_node_is_counted_under_the_name_of_its_key() {
    let engine = ollama(&["m"], says("{\"done\":true}\n"));
    let (world, collector) = (World::new(), Collector::start());
    let daemon = serve(&world, &pool(&world, &collector), &[]);
    let made = world.json(&[
        "nodes",
        "keys",
        "create",
        "rig",
        "--node-id",
        "w1",
        "--allow",
        "127.0.0.1",
    ]);
    let address = made["proxy_addr"].as_str().unwrap();
    let at = format!("http://127.0.0.1:{}", engine.port());
    let mut command = world.command(&["agent", "--node-id", "w1", "--engine", "ollama"]);
    command
        .args([
            "--proxy-addr",
            address,
            "--engine-url",
            &at,
            "--endpoint",
            &at,
        ])
        .args(["--sweep-interval", "1s"])
        .env("NODE_KEY", made["key"].as_str().unwrap());
    let mut agent = Process::spawn(&mut command);
    agent.log.expect("healthy");
    ask_until("the node serves", || {
        (post(daemon.port, "/api/chat", &chat("m")).status == 200).then_some(())
    });
    let event = ask_until("its event", || {
        collector
            .events()
            .into_iter()
            .find(|e| e["status"] == "success")
    });
    assert_eq!(
        (&event["node"], &event["key"]),
        (&json!("w1"), &json!("rig"))
    );
    agent.terminate();
    assert_eq!(agent.exit_code(), 0);
    agent.log.expect("no request was cut");
    end(daemon);
}
