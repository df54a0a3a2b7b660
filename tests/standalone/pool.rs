//! Workers that register themselves, through the whole daemon: places, states, keys, ends.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use crate::support::client::{Client, Response, get, post};
use crate::support::daemon::{Standalone, World};
use crate::support::engine::{Engine, Gate, Reply};
pub use crate::support::worker::Worker;
use crate::support::worker::call;
use crate::support::{ask_until, free_port};
use crate::{chat, says};

/// A daemon with a pool and no other node.
fn pool(world: &World, more: &str) -> (Standalone, u16) {
    pool_with(world, more, &|_| {})
}

fn pool_with(world: &World, more: &str, change: &dyn Fn(&mut Command)) -> (Standalone, u16) {
    let registry = free_port();
    // No worker here beats by itself: on a slow machine a test may take longer than a TTL of people.
    let ttl = match more.contains("heartbeat_ttl") {
        true => "",
        false => "heartbeat_ttl = \"1h\"",
    };
    let text = format!("[pool]\nlisten = \"127.0.0.1:{registry}\"\n{ttl}\n{more}\n");
    let file = world.file("pool.toml", &text);
    let args = ["--config", file.to_str().unwrap()];
    let daemon = Standalone::start_with(world, &args, change);
    (daemon, registry)
}

pub fn state(world: &World, id: &str) -> Value {
    let told = world.json(&["nodes", "list"]);
    let nodes = told["pool"]["nodes"].as_array().unwrap().clone();
    nodes
        .into_iter()
        .find(|n| n["id"] == id)
        .unwrap_or_default()
}

/// Asks the daemon until it is so.
#[track_caller]
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    ask_until(what, || so().then_some(()));
}

/// Whether requests would go there.
pub fn routed(world: &World, id: &str) -> bool {
    let told = world.json(&["route", "--engine", "ollama", "--model", "m"]);
    let candidates = told["candidates"].as_array().unwrap();
    candidates.iter().any(|c| c["node"] == id)
}

/// The reason that `route` gives for leaving a node out.
fn reason(world: &World, id: &str) -> String {
    let told = world.json(&["route", "--engine", "ollama", "--model", "m"]);
    let out = told["excluded"].as_array().unwrap().iter();
    let found = out.clone().find(|e| e["node"] == id);
    found.map_or_else(
        || told.to_string(),
        |e| e["reason"].as_str().unwrap().to_owned(),
    )
}

pub fn ask(port: u16) -> thread::JoinHandle<Response> {
    thread::spawn(move || post(port, "/api/chat", &chat("m")))
}

/// An engine that counts how many requests it has at once.
pub fn counting(text: &'static str, gate: &Gate) -> (Engine, Arc<AtomicUsize>) {
    let (now, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let (seen, gate) = (most.clone(), gate.clone());
    let engine = Engine::start(move |_| {
        seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        now.fetch_sub(1, Ordering::SeqCst);
        Reply::stream("text/plain").gate(&gate).chunk(text).end()
    });
    (engine, most)
}

#[test]
fn a_worker_serves_within_its_places_and_others_wait_for_one() {
    let world = World::new();
    let (daemon, registry) = pool(&world, "");
    let gate = Gate::new();
    let (a, _) = counting("a", &gate);
    let _worker = Worker::join(&world, registry, "w", &a, json!({"max_concurrency": 2}));
    until("the node", || routed(&world, "w"));
    let asked: Vec<_> = (0..3).map(|_| ask(daemon.port)).collect();
    a.hit(2);
    until("both places", || state(&world, "w")["leases"] == 2);
    // Several may be at one host: a person reads its id.
    assert_eq!(world.json(&["nodes", "list"])["nodes"][0]["name"], "w");
    // The third one waits, and costs no attempt: full is not absent.
    until("the third", || {
        reason(&world, "w") == "all its places are taken"
    });
    assert_eq!(a.hits(), 2);
    gate.open();
    for asked in asked {
        assert_eq!(asked.join().unwrap().text(), "a");
    }
    assert_eq!(a.hits(), 3);
    until("every place", || state(&world, "w")["leases"] == 0);
}

#[test]
fn a_drain_drops_nothing_and_sends_nothing_new() {
    let world = World::new();
    let (daemon, registry) = pool(&world, "");
    let gate = Gate::new();
    let (a, _) = counting("a", &gate);
    let b = Engine::always(says("b"));
    let _a = Worker::join(&world, registry, "wa", &a, json!({"base_weight": 1000}));
    let _b = Worker::join(&world, registry, "wb", &b, json!({"base_weight": 1}));
    until("both", || routed(&world, "wb"));
    let first = ask(daemon.port);
    a.hit(1);
    let said = world.run(&["nodes", "drain", "wa"]);
    assert_eq!(said.code, 0, "{said:?}");
    until("the drain", || reason(&world, "wa").contains("drain"));
    for _ in 0..3 {
        assert_eq!(post(daemon.port, "/api/chat", &chat("m")).text(), "b");
    }
    gate.open();
    assert_eq!(first.join().unwrap().text(), "a");
    let said = world.run(&["nodes", "resume", "wa"]);
    assert_eq!(said.code, 0, "{said:?}");
    until("the node again", || routed(&world, "wa"));
    assert_eq!(post(daemon.port, "/api/chat", &chat("m")).text(), "a");
}

#[test]
fn a_worker_that_drains_says_so_in_its_beat_and_hears_what_is_left() {
    let world = World::new();
    let (daemon, registry) = pool(&world, "");
    let gate = Gate::new();
    let (a, _) = counting("a", &gate);
    let worker = Worker::join(&world, registry, "w", &a, json!({}));
    until("the node", || routed(&world, "w"));
    let first = ask(daemon.port);
    a.hit(1);
    let told = worker.beat(json!({"draining": true}));
    assert_eq!(
        (&told["state"], &told["active_proxy_requests"]),
        (&json!("draining"), &json!(1))
    );
    gate.open();
    assert_eq!(first.join().unwrap().text(), "a");
    until("nothing left", || {
        worker.beat(json!({"draining": true}))["active_proxy_requests"] == 0
    });
}

#[test]
fn five_failures_break_a_node_and_a_reset_mends_it() {
    let world = World::new();
    let (daemon, registry) = pool(&world, "breaker_cooldown = \"1h\"");
    let (a, b) = (
        Engine::always(Reply::status(500)),
        Engine::always(says("b")),
    );
    let _a = Worker::join(&world, registry, "wa", &a, json!({"base_weight": 1000}));
    let _b = Worker::join(&world, registry, "wb", &b, json!({"base_weight": 1}));
    until("both", || routed(&world, "wb"));
    for _ in 0..5 {
        assert_eq!(post(daemon.port, "/api/chat", &chat("m")).text(), "b");
        until("the account", || state(&world, "wb")["leases"] == 0);
    }
    until("the breaker", || {
        state(&world, "wa")["state"] == "circuit_broken"
    });
    until("its part in routing", || {
        !reason(&world, "wa").contains("excluded")
    });
    let before = a.hits();
    assert_eq!(post(daemon.port, "/api/chat", &chat("m")).text(), "b");
    assert_eq!(a.hits(), before, "a broken node is not asked");
    a.now(|_| says("a"));
    assert_eq!(world.run(&["nodes", "reset", "wa"]).code, 0);
    until("the node again", || routed(&world, "wa"));
    assert_eq!(post(daemon.port, "/api/chat", &chat("m")).text(), "a");
}

#[test]
fn a_busy_or_loading_node_is_passed_over_and_not_blamed() {
    let world = World::new();
    let (daemon, registry) = pool(&world, "");
    let (a, b) = (
        Engine::always(Reply::status(503)),
        Engine::always(says("b")),
    );
    let _a = Worker::join(&world, registry, "wa", &a, json!({"base_weight": 1000}));
    let _b = Worker::join(&world, registry, "wb", &b, json!({"base_weight": 1}));
    until("both", || routed(&world, "wb"));
    for _ in 0..7 {
        assert_eq!(post(daemon.port, "/api/chat", &chat("m")).text(), "b");
        until("the account", || state(&world, "wb")["leases"] == 0);
    }
    assert_eq!(state(&world, "wa")["breaker"]["failures"], 0);
    assert_eq!(a.hits(), 7);
}

#[test]
fn a_silent_worker_is_gone_and_back_at_its_next_beat() {
    let world = World::new();
    let (daemon, registry) = pool(
        &world,
        "heartbeat_ttl = \"2s\"\nheartbeat_interval = \"1s\"",
    );
    let a = Engine::always(says("a"));
    let worker = Worker::join(&world, registry, "w", &a, json!({}));
    until("the node", || {
        post(daemon.port, "/api/chat", &chat("m")).text() == "a"
    });
    until("its end", || state(&world, "w")["state"] == "offline");
    until("the facade to know", || {
        post(daemon.port, "/api/chat", &chat("m")).status == 502
    });
    assert_eq!(worker.beat(json!({}))["reregister"], false);
    until("the node again", || {
        post(daemon.port, "/api/chat", &chat("m")).text() == "a"
    });
}

#[test]
fn a_revoked_key_puts_its_node_out_at_once_and_what_waits_there_goes_elsewhere() {
    let world = World::new();
    let (daemon, registry) = pool(&world, "");
    let (a, b) = (Engine::always(Reply::silence()), Engine::always(says("b")));
    let worker = Worker::join(&world, registry, "wa", &a, json!({"base_weight": 1000}));
    let _b = Worker::join(&world, registry, "wb", &b, json!({"base_weight": 1}));
    until("both", || routed(&world, "wb"));
    let waits = ask(daemon.port);
    a.hit(1);
    let revoked = world.json(&["nodes", "keys", "revoke", "wa"]);
    assert_eq!(revoked["evicted"], true, "{revoked}");
    assert_eq!(waits.join().unwrap().text(), "b");
    a.was_left(1);
    let refused = call(registry, &worker.key, "node/heartbeat", &json!({}));
    assert_eq!(refused["error"]["code"], -32020, "{refused}");
}

#[test]
fn a_node_that_is_shown_as_healthy_is_used() {
    let world = World::new();
    let (daemon, registry) = pool(&world, "");
    let engine = Engine::always(says("a"));
    for name in ["w1", "w2", "w3", "w4", "w5", "w6"] {
        let model = format!("of-{name}");
        let more = json!({"models": [{"id": model, "is_warm": true}]});
        let _worker = Worker::join(&world, registry, name, &engine, more);
        until("it is shown", || {
            let status = world.json(&["status"]);
            let nodes = status["pool"]["nodes"].as_array().unwrap();
            nodes
                .iter()
                .any(|n| n["id"] == *name && n["state"] == "healthy")
        });
        assert_eq!(post(daemon.port, "/api/chat", &chat(&model)).text(), "a");
    }
}

#[test]
fn a_request_that_fits_no_context_is_told_the_largest() {
    let world = World::new();
    let (daemon, registry) = pool(&world, "");
    let a = Engine::always(says("a"));
    let more = json!({"models": [{"id": "m", "is_warm": true, "context_length": 100}]});
    let _worker = Worker::join(&world, registry, "w", &a, more);
    until("the node", || routed(&world, "w"));
    assert_eq!(post(daemon.port, "/api/chat", &chat("m")).text(), "a");
    let long = json!({"model": "m", "messages": [{"role": "user", "content": "x".repeat(1000)}]});
    let told = post(daemon.port, "/api/chat", &long);
    assert_eq!(told.status, 400);
    assert!(told.error_text().contains("100"), "{}", told.error_text());
    assert_eq!(a.hits(), 1);
}

#[test]
fn lists_are_asked_of_pool_nodes_and_nothing_else_is() {
    let world = World::new();
    let (daemon, registry) = pool(&world, "");
    let list = json!({"models": [{"name": "m:latest", "model": "m:latest"}]});
    let a = Engine::always(Reply::json(200, &list));
    let _worker = Worker::join(&world, registry, "w", &a, json!({}));
    until("the node", || routed(&world, "w"));
    assert_eq!(
        get(daemon.port, "/api/tags").json()["models"][0]["name"],
        "m:latest"
    );
    let asked = a.hits();
    assert_eq!(get(daemon.port, "/api/version").status, 502);
    let pulled = post(daemon.port, "/api/pull", &json!({"model": "m"}));
    assert_eq!(pulled.status, 502);
    assert_eq!(a.hits(), asked);
}

#[test]
fn a_streaming_client_that_leaves_gives_its_place_back() {
    let world = World::new();
    let (daemon, registry) = pool(&world, "");
    let gate = Gate::new();
    let a = Engine::always(Reply::stream("text/plain").chunk("first").gate(&gate).end());
    let _worker = Worker::join(&world, registry, "w", &a, json!({}));
    until("the node", || routed(&world, "w"));
    let mut client = Client::connect(daemon.port);
    client.post("/api/chat", &chat("m"));
    let mut head = client.head();
    assert!(client.read_until(&mut head, "first"));
    until("its place", || state(&world, "w")["leases"] == 1);
    drop(client);
    until("the place back", || state(&world, "w")["leases"] == 0);
    gate.open();
}

#[test]
fn a_worker_that_lies_about_its_load_cheats_itself_alone() {
    let world = World::new();
    let (daemon, registry) = pool(&world, "");
    let gate = Gate::new();
    let (a, b) = (counting("a", &gate).0, Engine::always(says("b")));
    let liar = Worker::join(&world, registry, "wa", &a, json!({"base_weight": 1000}));
    let _b = Worker::join(&world, registry, "wb", &b, json!({"base_weight": 1}));
    until("both", || routed(&world, "wb"));
    // Too much: it is left alone.
    liar.beat(json!({"active_requests": 4_000_000_000_u32, "queue_depth": 4_000_000_000_u32}));
    until("its claim", || reason(&world, "wa").contains("places"));
    assert_eq!(post(daemon.port, "/api/chat", &chat("m")).text(), "b");
    // Too little: it gets no more than the places that it registered.
    liar.beat(json!({"active_requests": 0}));
    until("its claim", || routed(&world, "wa"));
    let first = ask(daemon.port);
    a.hit(1);
    liar.beat(json!({"active_requests": 0}));
    for _ in 0..3 {
        assert_eq!(post(daemon.port, "/api/chat", &chat("m")).text(), "b");
    }
    assert_eq!(a.hits(), 1);
    gate.open();
    assert_eq!(first.join().unwrap().text(), "a");
}

/// An engine over TLS under this certificate, that answers each request with the host it was asked as.
fn over_tls(certificate: &rcgen::Certificate, key: &rcgen::KeyPair) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
    let config = Arc::new(config);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(config.clone()).unwrap();
            let mut tls = StreamOwned::new(connection, stream.unwrap());
            let mut read = Vec::new();
            let mut byte = [0];
            // A body of a known end: `chat` is read to its last brace.
            while !read.ends_with(b"}") && tls.read(&mut byte).is_ok_and(|n| n == 1) {
                read.push(byte[0]);
            }
            let text = String::from_utf8_lossy(&read).into_owned();
            let host = text
                .lines()
                .find_map(|l| l.to_lowercase().strip_prefix("host: ").map(str::to_owned));
            let body = host.unwrap_or_default();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            // A client that does not trust us is gone by now.
            drop(tls.write_all(answer.as_bytes()));
            tls.conn.send_close_notify();
            drop(tls.flush());
        }
    });
    port
}

#[test]
fn a_node_over_tls_is_used_if_the_system_vouches_for_it() {
    let key = rcgen::KeyPair::generate().unwrap();
    let named = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = named.self_signed(&key).unwrap();
    let engine = over_tls(&certificate, &key);
    let world = World::new();
    let roots = world.file("roots.pem", &certificate.pem());
    for trusted in [true, false] {
        let (daemon, registry) = pool_with(&world, "", &|command| {
            if trusted {
                command.env("SSL_CERT_FILE", &roots);
            }
        });
        let more = json!({"endpoint": format!("https://127.0.0.1:{engine}")});
        let _worker = Worker::register(&world, registry, if trusted { "t" } else { "u" }, more);
        until("the node", || {
            routed(&world, if trusted { "t" } else { "u" })
        });
        if trusted {
            let told = post(daemon.port, "/api/chat", &chat("m"));
            assert_eq!(
                (told.status, told.text()),
                (200, format!("127.0.0.1:{engine}"))
            );
        } else {
            // Nothing is sent to a server that cannot prove its name; the node is to blame.
            let asked = ask(daemon.port);
            until("the blame", || {
                state(&world, "u")["breaker"]["failures"] != 0
            });
            drop(asked);
        }
    }
}

#[test]
fn an_impossible_pool_is_refused_at_start() {
    let world = World::new();
    let text = "[pool]\nlisten = \"192.0.2.1:9090\"\n";
    let file = world.file("pool.toml", text);
    let said = world.run(&["serve", "--config", file.to_str().unwrap()]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("192.0.2.1:9090"), "{said:?}");
}
