//! Redis down, slow, restarted, emptied, demoted: errors are `StoreDown`, nothing hangs, and it
//! recovers by itself.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use nvpair_proxy::rules::ids::NodeId;
use nvpair_proxy::rules::pool::blame::Blame;
use nvpair_proxy::rules::pool::limits::Limits;
use nvpair_proxy::rules::pool::record::Beat;
use nvpair_proxy::store::pool::{Admission, PoolStore, RedisStore, StoreDown, Taken, system_clock};

use crate::redis::Redis;
use crate::world::{ParseAddress, TTL, World, granted, outcome, registration, session};

/// Calls until it works: for as long as a broken test may hang.
pub async fn eventually<T, E: Debug, F: Future<Output = Result<T, E>>>(
    mut call: impl FnMut() -> F,
) -> T {
    let tries = async {
        loop {
            match call().await {
                Ok(value) => return value,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), tries)
        .await
        .expect("it recovers")
}

/// Calls until it fails, and says why.
async fn failing<T, F: Future<Output = Result<T, StoreDown>>>(
    mut call: impl FnMut() -> F,
) -> String {
    let tries = async {
        loop {
            if let Err(e) = call().await {
                return e.to_string();
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), tries)
        .await
        .expect("it fails")
}

fn store(redis: &Redis) -> RedisStore {
    RedisStore::new(redis.address().parse_address(), Limits::default()).unwrap()
}

async fn register(store: &RedisStore, max: u32) {
    let session = session(1);
    eventually(|| store.register(registration("n", max), "key", &session)).await;
}

#[tokio::test]
async fn with_redis_down_every_call_says_so_and_after_a_restart_all_work() {
    let Some(mut redis) = Redis::start(None) else {
        return;
    };
    let store = store(&redis);
    let (node, lease, s) = (NodeId::from("n"), "l".into(), session(1));
    register(&store, 4).await;
    let version = eventually(|| store.fleet()).await.version;
    redis.kill();
    let beat = || Beat {
        seq: 1,
        ..Beat::default()
    };
    let errors = [
        store.fleet().await.err(),
        store.changes(version).await.err(),
        store.changed(version).await.err(),
        store.register(registration("n", 1), "key", &s).await.err(),
        store.beat(&node, &s, beat()).await.err(),
        store.leave(&node, &s).await.err(),
        store.evict(&node).await.err(),
        store.purge(&node, 1).await.err(),
        store.set_drain(&node, true).await.err(),
        store.reset_breaker(&node).await.err(),
        store.acquire(&node, None, &lease, 1, TTL).await.err(),
        store.renew(&node, &lease, TTL).await.err(),
        store
            .settle(&node, &lease, None, outcome(Blame::Node))
            .await
            .err(),
        store.keys().await.err(),
        store.revoke_key("k").await.err(),
    ];
    for (i, error) in errors.iter().enumerate() {
        let text = error
            .as_ref()
            .unwrap_or_else(|| panic!("call {i} worked"))
            .to_string();
        assert!(
            text.starts_with("the pool's store is down: redis://127.0.0.1:"),
            "{text}"
        );
    }
    redis.restart();
    // It is empty: whoever had the old version is told everything, and workers register again.
    let fleet = eventually(|| store.changes(version)).await;
    assert!(fleet.whole && fleet.records.is_empty());
    assert_eq!(
        eventually(|| store.beat(&node, &s, beat())).await,
        Taken::Unknown
    );
    register(&store, 4).await;
    assert!(matches!(
        eventually(|| store.beat(&node, &s, beat())).await,
        Taken::Taken(_)
    ));
    eventually(|| store.changed(version)).await;
}

#[tokio::test]
async fn a_store_that_starts_before_redis_finds_it_later() {
    let Some(mut redis) = Redis::start(None) else {
        return;
    };
    redis.kill();
    let store = store(&redis);
    assert!(store.fleet().await.is_err());
    redis.restart();
    assert!(eventually(|| store.fleet()).await.records.is_empty());
}

#[cfg(unix)]
#[tokio::test]
async fn a_frozen_redis_is_given_up_after_the_time_out_and_recovers() {
    let Some(redis) = Redis::start(None) else {
        return;
    };
    let store = store(&redis);
    register(&store, 4).await;
    redis.freeze(true);
    for _ in 0..5 {
        let why = failing(|| store.fleet()).await;
        assert!(why.contains("no answer within 300 ms"), "{why}");
    }
    redis.freeze(false);
    assert_eq!(
        eventually(|| store.fleet()).await.records.len(),
        1,
        "it lost nothing"
    );
}

/// How often leases were added, by the server's own count.
fn leases_added(redis: &Redis) -> u64 {
    let stats = redis.ask(&["INFO", "commandstats"]);
    let line = stats
        .lines()
        .find_map(|l| l.strip_prefix("cmdstat_zremrangebyscore:calls="));
    line.and_then(|l| l.split(',').next()?.parse().ok())
        .unwrap_or(0)
}

/// Waits until the only place on the node is free again.
async fn place_comes_free(store: &RedisStore) {
    let node = NodeId::from("n");
    let lease = "next".into();
    let tries = async {
        loop {
            let got = eventually(|| store.acquire(&node, None, &lease, 1, TTL)).await;
            match got {
                Admission::Full => tokio::time::sleep(Duration::from_millis(20)).await,
                got => return assert_eq!(got, granted(false, 1)),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), tries)
        .await
        .expect("the place comes free");
}

#[cfg(unix)]
#[tokio::test]
async fn a_lease_that_was_taken_without_an_answer_is_given_back() {
    let Some(redis) = Redis::start(None) else {
        return;
    };
    let store = store(&redis);
    register(&store, 1).await;
    let node = NodeId::from("n");
    // The script is there and the connection too, so that the call itself is what stays unanswered.
    let warm = "warm".into();
    let got = eventually(|| store.acquire(&node, None, &warm, 1, TTL)).await;
    assert!(matches!(got, Admission::Granted { .. }), "{got:?}");
    eventually(|| store.settle(&node, &warm, None, outcome(Blame::Nothing))).await;
    let before = leases_added(&redis);
    redis.freeze(true);
    assert!(
        store
            .acquire(&node, None, &"lost".into(), 1, TTL)
            .await
            .is_err()
    );
    redis.freeze(false);
    while leases_added(&redis) == before {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    place_comes_free(&store).await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_lease_whose_asker_went_away_is_given_back() {
    let Some(redis) = Redis::start(None) else {
        return;
    };
    let store = store(&redis);
    register(&store, 1).await;
    let (node, lease) = (NodeId::from("n"), "lost".into());
    let asked = store.acquire(&node, None, &lease, 1, TTL);
    // One poll sends it; then the client is gone.
    assert!(futures_util::FutureExt::now_or_never(asked).is_none());
    place_comes_free(&store).await;
}

#[tokio::test]
async fn a_flushed_redis_has_lost_its_scripts_too_and_goes_on() {
    let Some(w) = World::redis() else { return };
    let redis = w.redis.as_ref().unwrap();
    let s = w.register("n", 4).await;
    let before = w.store.fleet().await.unwrap();
    assert_eq!(w.acquire("n", "a").await, granted(false, 1));
    redis.ask(&["FLUSHALL"]);
    redis.ask(&["SCRIPT", "FLUSH"]);
    assert_eq!(w.beat("n", &s, 1).await, Taken::Unknown);
    assert_eq!(w.acquire("n", "b").await, Admission::Gone);
    w.settle("n", "a", Blame::Node).await;
    let after = w.store.changes(before.version).await.unwrap();
    assert!(after.whole && after.records.is_empty());
    w.register("n", 4).await;
    // Even after as many changes as before, an old version is not taken for one of the new life.
    let again = w.store.changes(before.version).await.unwrap();
    assert!(again.whole && again.version > before.version);
    assert_eq!(again.records.len(), 1);
}

#[tokio::test]
async fn a_demoted_server_is_down_until_it_is_a_master_again() {
    let Some(redis) = Redis::start(None) else {
        return;
    };
    let store = store(&redis);
    register(&store, 4).await;
    redis.ask(&["REPLICAOF", "127.0.0.1", "1"]);
    let node = NodeId::from("n");
    let why = failing(|| store.set_drain(&node, true)).await;
    assert!(
        why.to_lowercase().contains("readonly") || why.contains("read only"),
        "{why}"
    );
    redis.ask(&["REPLICAOF", "NO", "ONE"]);
    assert!(eventually(|| store.set_drain(&node, true)).await);
}

#[tokio::test]
async fn no_error_tells_the_password() {
    let Some(mut redis) = Redis::start(Some("canary-secret")) else {
        return;
    };
    let good = store(&redis);
    register(&good, 4).await;
    let wrong = redis.address().replace("canary-secret", "canary-wrong");
    let wrong = RedisStore::new(wrong.parse_address(), Limits::default()).unwrap();
    let none = redis.address().replace(":canary-secret@", "");
    let none = RedisStore::new(none.parse_address(), Limits::default()).unwrap();
    let mut texts = vec![
        failing(|| wrong.fleet()).await,
        failing(|| none.fleet()).await,
    ];
    redis.kill();
    texts.push(failing(|| good.fleet()).await);
    for text in &texts {
        assert!(!text.contains("canary"), "{text}");
    }
    assert!(texts[0].contains("password"), "{}", texts[0]);
}

#[tokio::test]
async fn what_is_stored_by_somebody_else_is_an_error_and_no_panic() {
    let Some(w) = World::redis() else { return };
    let redis = w.redis.as_ref().unwrap();
    w.register("n", 4).await;
    redis.ask(&["HSET", "node:meta:n", "reg", "canary"]);
    let text = w.store.fleet().await.unwrap_err().to_string();
    assert!(
        text.contains("registration of node \"n\"") && !text.contains("canary"),
        "{text}"
    );
    redis.ask(&["DEL", "node:meta:n"]);
    redis.ask(&["SET", "node:meta:n", "canary"]);
    assert!(w.store.fleet().await.is_err());
    // A node that cannot be read can be removed.
    redis.ask(&["DEL", "node:meta:n"]);
    w.register("n", 4).await;
    assert!(w.store.evict(&"n".into()).await.unwrap());
}

#[tokio::test]
async fn each_call_of_the_request_path_is_one_command() {
    let Some(w) = World::redis() else { return };
    let redis = w.redis.as_ref().unwrap();
    let s = w.register("n", 1000).await;
    // Once each, so that the scripts are known.
    w.request("n", "l", Blame::Success).await;
    assert!(matches!(w.beat("n", &s, 1).await, Taken::Taken(_)));
    assert!(!w.store.renew(&"n".into(), &"l".into(), TTL).await.unwrap());

    let mut monitor = redis.monitor();
    for i in 0..10 {
        let lease = format!("l{i}");
        assert_eq!(w.acquire("n", &lease).await, granted(false, 1));
        assert!(
            w.store
                .renew(&"n".into(), &lease.as_str().into(), TTL)
                .await
                .unwrap()
        );
        w.settle("n", &lease, Blame::Success).await;
        assert!(matches!(w.beat("n", &s, i + 2).await, Taken::Taken(_)));
    }
    redis.ask(&["ECHO", "the-end"]);
    let seen = monitor.until("the-end");
    let scripts = seen
        .iter()
        .filter(|l| l.to_lowercase().contains("\"evalsha\""));
    assert_eq!((scripts.count(), seen.len()), (40, 40), "{seen:#?}");
}

#[test]
fn whoever_asks_first_its_connection_lives_where_the_store_was_made() {
    let Some(redis) = Redis::start(None) else {
        return;
    };
    let build = || {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime.worker_threads(1).enable_all().build().unwrap()
    };
    let (home, other) = (build(), build());
    let store = {
        let _inside = home.enter();
        let address = redis.address().parse_address();
        RedisStore::for_tests(address, Limits::default(), system_clock()).unwrap()
    };
    other.block_on(store.fleet()).unwrap();
    // The one that asks is a client, too.
    let connections = || {
        let list = redis.ask(&["CLIENT", "LIST"]);
        let others = list
            .lines()
            .filter(|l| l.starts_with("id=") && !l.contains("cmd=client"));
        let ids = others.filter_map(|l| l.split(' ').next());
        ids.map(str::to_owned).collect::<Vec<_>>()
    };
    let before = connections();
    assert_eq!(before.len(), 1);
    drop(other);
    home.block_on(store.fleet()).unwrap();
    assert_eq!(connections(), before, "it is the same one still");
}
