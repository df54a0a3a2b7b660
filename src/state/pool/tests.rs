use super::*;
use crate::rules::pool::key::KeyHash;
use crate::store::pool::{Admission, MemoryStore};

use std::sync::atomic::{AtomicU64, Ordering};

/// A pool over a store of its own, and the clock that both go by.
fn pool() -> (Arc<Pool<MemoryStore>>, Arc<AtomicU64>) {
    let clock = Arc::new(AtomicU64::new(1_000_000));
    let told = clock.clone();
    let limits = Limits::default();
    let store = MemoryStore::new(
        Arc::new(move || told.load(Ordering::SeqCst)),
        limits.clone(),
    );
    (Pool::new(Arc::new(store), limits, "memory"), clock)
}

fn key(name: &str, node: &str) -> KeyRecord {
    KeyRecord {
        name: name.to_owned(),
        node: node.into(),
        hash: KeyHash::of(&format!("ktms_node_{name}{}", "0".repeat(16))).unwrap(),
        allow: Vec::new(),
        models: Vec::new(),
        created_at: 0,
    }
}

fn session() -> Session {
    Session::from_bytes([7; 16])
}

async fn register(pool: &Pool<MemoryStore>, node: &str, key: &str) {
    let registration = Registration {
        node: node.into(),
        endpoint: "http://127.0.0.1:1".to_owned(),
        address: "127.0.0.1:1".parse().unwrap(),
        engine: PoolEngine::Vllm,
        models: Vec::new(),
        max_concurrency: 8,
        base_weight: 1,
        hardware: None,
        agent_version: String::new(),
    };
    let store = &pool.store;
    store.register(registration, key, &session()).await.unwrap();
}

async fn nodes(pool: &Pool<MemoryStore>) -> Vec<String> {
    let status = pool.status().await.unwrap();
    status.nodes.into_iter().map(|n| n.id).collect()
}

/// Leases on `a` as `status` shows them: one is another gateway's, `ours` are ours.
async fn shown_leases(lease_ttl_ms: u64, ours: u32) -> u64 {
    let limits = Limits {
        lease_ttl_ms,
        ..Limits::default()
    };
    let store = MemoryStore::new(Arc::new(|| 1_000_000), limits.clone());
    let pool = Pool::new(Arc::new(store), limits, "memory");
    register(&pool, "a", "ka").await;
    let node: NodeId = "a".into();
    let leases = (0..ours).map(|n| format!("ours-{n}"));
    for lease in leases.chain(["theirs".to_owned()]) {
        let lease = lease.into();
        let asked = pool.store.acquire(&node, None, &lease, 8, 30_000);
        assert!(matches!(asked.await, Ok(Admission::Granted { .. })));
    }
    (0..ours).for_each(|_| pool.count(&node, true));
    pool.status().await.unwrap().nodes[0].leases
}

#[tokio::test]
async fn leases_of_others_are_shown_as_long_as_they_may_live() {
    assert_eq!(shown_leases(30_000, 0).await, 1);
    assert_eq!(shown_leases(30_000, 2).await, 3);
    // Told for longer than a lease lives ago, and by nobody since: that they ran out is told by nobody.
    assert_eq!(shown_leases(0, 0).await, 0);
    assert_eq!(shown_leases(0, 2).await, 2);
}

#[tokio::test]
async fn a_place_whose_asker_left_before_the_answer_is_given_back() {
    let (pool, _) = pool();
    register(&pool, "a", "ka").await;
    let place = Place {
        node: "a".into(),
        model: None,
        lease: "left".into(),
        slots: 8,
    };
    let asking = leases::Asking::new(&pool, &place);
    let taken = pool
        .store
        .acquire(&place.node, None, &place.lease, 8, 30_000);
    assert!(matches!(taken.await, Ok(Admission::Granted { .. })));
    assert_eq!(pool.lock_held().len(), 1);
    drop(asking);
    let over = async {
        while !pool.lock_held().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    let over = tokio::time::timeout(Duration::from_secs(60), over).await;
    assert!(over.is_ok(), "nothing is counted as ours any more");
    assert_eq!(pool.status().await.unwrap().nodes[0].leases, 0);
}

#[tokio::test]
async fn a_sweep_puts_out_nodes_whose_key_is_gone_or_is_another_nodes() {
    let (pool, _) = pool();
    for (name, node) in [("ka", "a"), ("kb", "b"), ("kc", "somebody-else")] {
        assert!(pool.put_key(key(name, node)).await.unwrap());
    }
    for (node, key) in [("a", "ka"), ("b", "kb"), ("c", "kc"), ("d", "never-was")] {
        register(&pool, node, key).await;
    }
    pool.refresh().await;
    pool.sweep().await;
    assert_eq!(nodes(&pool).await, ["a", "b"]);
    // Revoked where nobody took its node out.
    assert!(pool.revoke_key("kb").await.unwrap().is_some());
    register(&pool, "b", "kb").await;
    pool.refresh().await;
    pool.sweep().await;
    assert_eq!(nodes(&pool).await, ["a"]);
    let kept = [key("ka", "a"), key("kc", "somebody-else")];
    assert_eq!(pool.keys().await.unwrap(), kept, "keys are no node's");
}

#[tokio::test]
async fn a_sweep_asks_for_the_keys_before_it_takes_one_for_gone() {
    let (pool, _) = pool();
    // As another gateway does it: this one has not heard of the key when it sees the node.
    assert!(pool.store.put_key(key("ka", "a")).await.unwrap());
    register(&pool, "a", "ka").await;
    {
        let told = pool.store.changes(0).await.unwrap();
        let mut seen = pool.lock();
        told.records.into_iter().for_each(|r| seen.take(r, 0));
    }
    assert_eq!(pool.keyless().len(), 1, "as far as it knows");
    pool.sweep().await;
    assert_eq!(nodes(&pool).await, ["a"]);
}

#[tokio::test]
async fn a_node_that_came_back_since_the_look_is_left_alone() {
    let (pool, clock) = pool();
    register(&pool, "a", "gone").await;
    pool.refresh().await;
    clock.fetch_add(1, Ordering::SeqCst);
    // Under a new key of the old name, and unseen yet.
    assert!(pool.store.put_key(key("new", "a")).await.unwrap());
    register(&pool, "a", "new").await;
    pool.sweep().await;
    assert_eq!(nodes(&pool).await, ["a"]);
}

#[tokio::test]
async fn a_sweep_forgets_who_was_silent_for_longer_than_is_remembered() {
    let (pool, clock) = pool();
    for node in ["a", "b"] {
        assert!(pool.put_key(key(node, node)).await.unwrap());
        register(&pool, node, node).await;
    }
    clock.fetch_add(Limits::default().retention_ms, Ordering::SeqCst);
    register(&pool, "b", "b").await;
    clock.fetch_add(1, Ordering::SeqCst);
    pool.refresh().await;
    pool.sweep().await;
    assert_eq!(nodes(&pool).await, ["b"]);
}
