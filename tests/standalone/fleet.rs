//! Several gateways that share a pool in a real Redis: places, a gateway that dies, a Redis that does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::pool::{Worker, ask, counting, routed, state, until};
use crate::support::client::{Client, post};
use crate::support::daemon::{Standalone, World};
use crate::support::engine::{Engine, Gate, Reply};
use crate::support::free_port;
use crate::{chat, ollama, redis, says};
use redis::Redis;

/// Of the test that has to see one end.
const TTL: Duration = Duration::from_secs(2);

/// A gateway over this Redis, with a manual node that has the model `own`.
fn gateway(world: &World, redis: &Redis, own: &Engine) -> (Standalone, u16) {
    gateway_with(world, redis, own, Duration::from_secs(3_600))
}

fn gateway_with(world: &World, redis: &Redis, own: &Engine, ttl: Duration) -> (Standalone, u16) {
    let registry = free_port();
    let ttl = ttl.as_secs();
    let text = format!(
        "[pool]\nlisten = \"127.0.0.1:{registry}\"\nstore = \"{}\"\nheartbeat_ttl = \"{ttl}s\"\n\
         heartbeat_interval = \"1s\"\n\
         lease_ttl = \"3s\"\nlease_renewal = \"1s\"\n\
         [[nodes]]\nengine = \"ollama\"\nname = \"own\"\nurl = \"http://127.0.0.1:{}\"\n",
        redis.address(),
        own.port()
    );
    let file = world.file("pool.toml", &text);
    let daemon = Standalone::start(world, &["--config", file.to_str().unwrap()]);
    (daemon, registry)
}

fn leases(world: &World, id: &str) -> Value {
    state(world, id)["leases"].clone()
}

#[test]
fn gateways_share_places_and_those_of_a_dead_one_come_back() {
    let Some(redis) = Redis::start(None) else {
        return;
    };
    let own = ollama(&["own"], says("own"));
    let (one, two) = (World::new(), World::new());
    let (first, registry) = gateway(&one, &redis, &own);
    let (second, _) = gateway(&two, &redis, &own);
    let gate = Gate::new();
    let a = Engine::always(Reply::stream("text/plain").chunk("begun").gate(&gate).end());
    let _worker = Worker::join(&one, registry, "w", &a, json!({}));
    until("both gateways", || routed(&one, "w") && routed(&two, "w"));
    let mut streaming = Client::connect(first.port);
    streaming.post("/api/chat", &chat("m"));
    let mut head = streaming.head();
    assert!(streaming.read_until(&mut head, "begun"));
    until("the lease", || leases(&two, "w") == 1);
    // The other gateway has no place on it: its request waits, unsent.
    let waiting = ask(second.port);
    until("the other's request", || {
        let told = two.json(&["workloads", "--state", "queued"]);
        told["workloads"].as_array().is_some_and(|w| w.len() == 1)
    });
    assert_eq!(a.hits(), 1);
    // Killed in the middle of a stream, it gives nothing back; its lease runs out.
    first.process.signal(::rustix::process::Signal::KILL);
    gate.open();
    assert_eq!(waiting.join().unwrap().text(), "begun");
    assert_eq!(a.hits(), 2);
    until("nothing left", || leases(&two, "w") == 0);
}

#[test]
fn a_key_that_one_gateway_revokes_is_void_at_all() {
    let Some(redis) = Redis::start(None) else {
        return;
    };
    let own = ollama(&["own"], says("own"));
    let (one, two) = (World::new(), World::new());
    let (_first, registry) = gateway(&one, &redis, &own);
    let (second, _) = gateway(&two, &redis, &own);
    let a = Engine::always(says("a"));
    let _worker = Worker::join(&one, registry, "w", &a, json!({}));
    until("both gateways", || routed(&one, "w") && routed(&two, "w"));
    assert_eq!(post(second.port, "/api/chat", &chat("m")).text(), "a");
    let revoked = one.run(&["nodes", "keys", "revoke", "w"]);
    assert!(revoked.out.contains("was put out"), "{revoked:?}");
    until("the other gateway", || !routed(&two, "w"));
    assert_eq!(post(second.port, "/api/chat", &chat("m")).status, 502);
}

#[test]
fn without_redis_pool_nodes_are_not_used_and_everything_else_goes_on() {
    let Some(mut redis) = Redis::start(None) else {
        return;
    };
    let own = ollama(&["own"], says("own"));
    let world = World::new();
    let (daemon, registry) = gateway(&world, &redis, &own);
    let gate = Gate::new();
    let (a, _) = counting("a", &gate);
    let worker = Worker::join(&world, registry, "w", &a, json!({"max_concurrency": 4}));
    until("the node", || routed(&world, "w"));
    let begun = ask(daemon.port);
    a.hit(1);
    redis.kill();
    // Fail closed, and say so; what had begun goes on, and so do other nodes.
    until("the refusal", || {
        let told = post(daemon.port, "/api/chat", &chat("m"));
        told.status == 503 && told.error_text().contains("store is down")
    });
    assert_eq!(post(daemon.port, "/api/chat", &chat("own")).text(), "own");
    until("status to say so", || {
        let told = world.json(&["nodes", "list"]);
        told["pool"]["store_error"].is_string()
    });
    gate.open();
    assert_eq!(begun.join().unwrap().text(), "a");
    // A Redis that comes back has lost everything but the keys, which the gateway knows; the worker
    // is told to register again.
    redis.restart();
    until("the worker to be told", || {
        worker.beat(json!({}))["reregister"] == true
    });
    worker.again(&a, json!({}));
    until("the node again", || routed(&world, "w"));
    assert_eq!(post(daemon.port, "/api/chat", &chat("m")).text(), "a");
}

#[test]
fn an_outage_for_longer_than_a_heartbeat_lives_is_not_the_nodes_silence() {
    let Some(mut redis) = Redis::start(None) else {
        return;
    };
    let own = ollama(&["own"], says("own"));
    let world = World::new();
    let (daemon, registry) = gateway_with(&world, &redis, &own, TTL);
    let a = Engine::always(says("a"));
    let worker = Worker::join(&world, registry, "w", &a, json!({}));
    let over = AtomicBool::new(false);
    thread::scope(|threads| {
        threads.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                worker.beat(json!({}));
                thread::park_timeout(TTL / 10);
            }
        });
        until("the node", || {
            post(daemon.port, "/api/chat", &chat("m")).text() == "a"
        });
        redis.kill();
        until("the outage", || {
            world.json(&["nodes", "list"])["pool"]["store_error"].is_string()
        });
        over.store(true, Ordering::Relaxed);
    });
    // Never that there is no such model.
    let end = Instant::now() + 2 * TTL;
    while Instant::now() < end {
        let told = post(daemon.port, "/api/chat", &chat("m"));
        assert_eq!(told.status, 503, "{}", told.text());
        assert!(told.error_text().contains("store is down"));
    }
    assert_eq!(state(&world, "w")["state"], "healthy", "as it was last");
}
