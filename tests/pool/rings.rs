//! Node keys: made once, found by every gateway, revoked at once, known while Redis is away.

use std::sync::Arc;

use nvpair_proxy::rules::pool::limits::Limits;
use nvpair_proxy::store::pool::{
    CreateError, KeyRing, MemoryStore, NewKey, PoolStore, RedisStore, Store, system_clock,
};

use crate::faults::eventually;
use crate::redis::Redis;
use crate::world::{ParseAddress, registration, session};

fn new(name: &str, node: &str) -> NewKey {
    NewKey {
        name: name.into(),
        node: node.into(),
        ..NewKey::default()
    }
}

fn ring(redis: &Redis) -> KeyRing<Store> {
    let store = RedisStore::new(redis.address().parse_address(), Limits::default()).unwrap();
    KeyRing::new(Arc::new(Store::Redis(store)))
}

#[tokio::test]
async fn a_key_is_shown_once_and_found_by_its_hash_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("node-keys.json");
    let open = || {
        let store = MemoryStore::open(system_clock(), Limits::default(), &file).unwrap();
        KeyRing::new(Arc::new(Store::Memory(store)))
    };
    let first = open();
    first.refresh().await.unwrap();
    let (secret, record) = first.create(new("k", "worker-01")).await.unwrap();
    assert!(secret.reveal().starts_with("ktms_node_") && secret.reveal().len() == 74);
    assert_eq!(first.find(secret.reveal()), Some(record.clone()));
    let again = open();
    again.refresh().await.unwrap();
    assert_eq!(again.find(secret.reveal()), Some(record));
    let legacy = secret.reveal().replace("ktms_node_", "llm_node_");
    assert!(again.find(&legacy).is_some());
    assert_eq!(again.find("ktms_node_0000000000000000"), None);
    assert_eq!(again.revoke("k").await.unwrap().unwrap().key.name, "k");
    assert_eq!((again.find(secret.reveal()), again.list().len()), (None, 0));
    assert_eq!(again.revoke("k").await.unwrap(), None);
    let last = open();
    last.refresh().await.unwrap();
    assert_eq!(last.find(secret.reveal()), None);
}

#[tokio::test]
async fn two_keys_are_never_the_same_and_a_name_is_taken_once() {
    let store = Arc::new(Store::Memory(MemoryStore::new(
        system_clock(),
        Limits::default(),
    )));
    let ring = KeyRing::new(store);
    let (a, _) = ring.create(new("a", "n")).await.unwrap();
    let (b, _) = ring.create(new("b", "n")).await.unwrap();
    assert_ne!(a, b);
    let taken = ring.create(new("a", "n")).await.unwrap_err();
    assert!(matches!(taken, CreateError::Exists(_)), "{taken}");
    let wrong = ring.create(new("c", "not a node")).await.unwrap_err();
    assert!(wrong.to_string().starts_with("node_id: "), "{wrong}");
    assert_eq!(ring.list().len(), 2);
}

#[tokio::test]
async fn known_keys_stay_valid_while_redis_is_down_and_come_back_after_a_flush() {
    let Some(mut redis) = Redis::start(None) else {
        return;
    };
    let ring = ring(&redis);
    let (secret, _) = eventually(|| ring.create(new("k", "n"))).await;
    let other = self::ring(&redis);
    eventually(|| other.refresh()).await;
    assert!(
        other.find(secret.reveal()).is_some(),
        "the other gateway knows it"
    );

    redis.kill();
    assert!(ring.refresh().await.is_err());
    assert!(ring.find(secret.reveal()).is_some());
    assert!(ring.find_fresh(secret.reveal()).await.is_some());
    assert!(ring.create(new("l", "n")).await.is_err());
    assert!(ring.revoke("k").await.is_err());
    assert!(
        ring.find(secret.reveal()).is_some(),
        "it is not revoked, so it is valid"
    );

    redis.restart();
    eventually(|| ring.refresh()).await;
    assert!(
        ring.find(secret.reveal()).is_some(),
        "put back into the empty store"
    );
    let third = self::ring(&redis);
    eventually(|| third.refresh()).await;
    assert!(third.find(secret.reveal()).is_some());

    eventually(|| ring.revoke("k")).await;
    assert!(ring.find(secret.reveal()).is_none());
    // The others learn it at their next look, and do not put it back.
    eventually(|| other.refresh()).await;
    assert!(other.find(secret.reveal()).is_none());
    eventually(|| ring.refresh()).await;
    assert!(ring.list().is_empty());
}

#[tokio::test]
async fn a_key_that_another_gateway_made_is_found_and_a_thousand_unknown_ones_cost_few_looks() {
    let Some(mut redis) = Redis::start(None) else {
        return;
    };
    let (ring, other) = (ring(&redis), self::ring(&redis));
    let (secret, record) = eventually(|| other.create(new("k", "n"))).await;
    let find = async |presented: &str| ring.find_anywhere(presented).await.unwrap();
    assert_eq!(find(secret.reveal()).await, Some(record));

    let mut monitor = redis.monitor();
    let unknown: Vec<_> = (0..1_000).map(|n| format!("ktms_node_{n:016}")).collect();
    let asked = unknown.iter().map(|key| find(key));
    let found = futures_util::future::join_all(asked).await;
    assert!(found.iter().all(Option::is_none));
    redis.ask(&["ECHO", "the-end"]);
    let looks = monitor.until("the-end");
    // One was under way when the others came, and theirs is the next; more on a slow machine alone.
    assert!((1..50).contains(&looks.len()), "{}", looks.len());
    // What is no key at all costs nothing.
    assert_eq!(find("ktms_node_short").await, None);
    assert_eq!(find("sk-0000000000000000000000").await, None);
    redis.ask(&["ECHO", "the-end"]);
    assert_eq!(monitor.until("the-end").len(), 0);

    redis.kill();
    let asked = unknown.iter().take(3).map(|key| ring.find_anywhere(key));
    let found = futures_util::future::join_all(asked).await;
    assert!(found.iter().all(Result::is_err), "nobody knows: {found:?}");
    assert!(find(secret.reveal()).await.is_some(), "known here");
}

#[tokio::test]
async fn a_revoked_keys_node_is_gone_for_every_gateway() {
    let Some(redis) = Redis::start(None) else {
        return;
    };
    let store = RedisStore::new(redis.address().parse_address(), Limits::default()).unwrap();
    let ring = self::ring(&redis);
    let (secret, _) = eventually(|| ring.create(new("k", "n"))).await;
    let other = self::ring(&redis);
    assert!(
        other.find_fresh(secret.reveal()).await.is_some() || {
            eventually(|| other.refresh()).await;
            other.find(secret.reveal()).is_some()
        }
    );
    let session = session(1);
    eventually(|| store.register(registration("n", 1), "k", &session)).await;
    eventually(|| ring.revoke("k")).await;
    assert!(eventually(|| store.fleet()).await.records.is_empty());
    eventually(|| other.refresh()).await;
    assert!(other.find(secret.reveal()).is_none());
}
