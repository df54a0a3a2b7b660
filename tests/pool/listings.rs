//! What both stores promise of listings, changes and keys.

use nvpair_proxy::rules::ids::NodeId;
use nvpair_proxy::rules::pool::blame::Blame;
use nvpair_proxy::rules::pool::key::{KeyHash, KeyRecord, make};
use nvpair_proxy::store::pool::{Fleet, Left, PoolStore, Taken};

use crate::world::{World, granted, outcome, registration, session};

both! {
    changes_are_those_since
    a_store_that_forgot_tells_everything
    waiting_ends_with_a_change
    keys_are_added_listed_and_revoked_with_their_node
    a_thousand_nodes_are_listed_whole
}

fn names(fleet: &Fleet) -> Vec<&str> {
    fleet.records.iter().map(|r| r.node().as_str()).collect()
}

async fn changes_are_those_since(w: &World) {
    let s = w.register("b", 4).await;
    w.register("a", 4).await;
    let first = w.store.fleet().await.unwrap();
    assert_eq!(
        (names(&first), first.whole, first.now_ms),
        (vec!["a", "b"], true, w.now())
    );
    let none = w.store.changes(first.version).await.unwrap();
    assert_eq!(
        (names(&none), none.whole, none.version),
        (vec![], false, first.version)
    );
    let mut since = first.version;
    let mut changed = async |what: &str| {
        let fleet = w.store.changes(since).await.unwrap();
        assert!(!fleet.whole && fleet.version > since, "{what}");
        since = fleet.version;
        let gone: Vec<_> = fleet.gone.iter().map(|n| n.as_str().to_owned()).collect();
        (names(&fleet).join(" "), gone.join(" "))
    };
    let b = || ("b".to_owned(), String::new());
    assert!(matches!(w.beat("b", &s, 1).await, Taken::Taken(_)));
    assert_eq!(changed("beat").await, b());
    assert_eq!(w.acquire("b", "l").await, granted(false, 1));
    assert_eq!(changed("acquire").await, b());
    w.settle("b", "l", Blame::Node).await;
    assert_eq!(changed("settle").await, b());
    w.store.set_drain(&"b".into(), true).await.unwrap();
    assert_eq!(changed("drain").await, b());
    w.store.reset_breaker(&"b".into()).await.unwrap();
    assert_eq!(changed("reset").await, b());
    assert_eq!(w.store.leave(&"b".into(), &s).await.unwrap(), Left::Left);
    assert_eq!(changed("leave").await, b());
    w.store.evict(&"b".into()).await.unwrap();
    assert_eq!(changed("evict").await, (String::new(), "b".to_owned()));
    w.register("b", 4).await;
    assert_eq!(changed("register").await, b());
}

async fn a_store_that_forgot_tells_everything(w: &World) {
    w.register("stays", 1).await;
    let old = w.store.fleet().await.unwrap().version;
    for i in 0..1_100 {
        let node = format!("n{i}");
        w.register(&node, 1).await;
        assert!(w.store.evict(&node.into()).await.unwrap());
    }
    let told = w.store.changes(old).await.unwrap();
    assert_eq!(
        (told.whole, names(&told), told.gone.len()),
        (true, vec!["stays"], 0)
    );
    let ahead = w.store.changes(told.version + 1).await.unwrap();
    assert!(ahead.whole, "a version of another life of the store");
}

async fn waiting_ends_with_a_change(w: &World) {
    w.register("n", 1).await;
    let since = w.store.fleet().await.unwrap().version;
    w.store.changed(0).await.unwrap();
    let store = w.store.clone();
    let waiting = tokio::spawn(async move { store.changed(since).await });
    w.register("m", 1).await;
    waiting.await.unwrap().unwrap();
}

fn key(name: &str, byte: u8) -> KeyRecord {
    KeyRecord {
        name: name.into(),
        node: "n".into(),
        hash: KeyHash::of(make([byte; 32]).reveal()).unwrap(),
        allow: vec!["10.0.0.0/8".into()],
        models: vec!["qwen*".into()],
        created_at: 5,
    }
}

async fn keys_are_added_listed_and_revoked_with_their_node(w: &World) {
    assert_eq!(w.store.keys().await.unwrap(), Default::default());
    assert!(w.store.put_key(key("b", 1)).await.unwrap());
    assert!(w.store.put_key(key("a", 2)).await.unwrap());
    assert!(
        !w.store.put_key(key("a", 3)).await.unwrap(),
        "the name is taken"
    );
    let before = w.store.keys().await.unwrap();
    assert_eq!(before.keys, [key("a", 2), key("b", 1)]);
    let since = w.store.fleet().await.unwrap();
    assert_eq!(since.keys_version, before.version);

    w.store
        .register(registration("n", 1), "b", &session(1))
        .await
        .unwrap();
    let revoked = async |name: &str| {
        let revoked = w.store.revoke_key(name).await.unwrap();
        revoked.map(|r| (r.key, r.evicted))
    };
    assert_eq!(revoked("a").await, Some((key("a", 2), false)));
    assert!(
        w.record("n").await.is_some(),
        "it registered with another key"
    );
    w.store.changed(since.version).await.unwrap();
    assert!(w.store.fleet().await.unwrap().keys_version > since.keys_version);
    assert_eq!(revoked("b").await, Some((key("b", 1), true)));
    assert_eq!(w.record("n").await, None);
    assert_eq!(revoked("b").await, None);
    let after = w.store.keys().await.unwrap();
    assert!(after.keys.is_empty() && after.version > before.version);
}

async fn a_thousand_nodes_are_listed_whole(w: &World) {
    // Some are not reached by a page's end exactly, some change while others are listed.
    for i in 0..1_001 {
        w.register(&format!("n{i:04}"), 1).await;
    }
    let store = w.store.clone();
    let busy = tokio::spawn(async move {
        for i in 0..1_001u32 {
            let node = NodeId::from(format!("n{i:04}"));
            store
                .settle(&node, &"l".into(), None, outcome(Blame::Nothing))
                .await
                .unwrap();
        }
    });
    let fleet = w.store.fleet().await.unwrap();
    assert_eq!((fleet.records.len(), fleet.whole), (1_001, true));
    assert!(fleet.records.is_sorted_by_key(|r| r.node().clone()));
    busy.await.unwrap();
}
