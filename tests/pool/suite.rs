//! What both stores promise of sessions, leases and drains.

use std::collections::HashSet;

use nvpair_proxy::rules::ids::NodeId;
use nvpair_proxy::rules::pool::blame::Blame;
use nvpair_proxy::rules::pool::record::{Beat, LeaseId};
use nvpair_proxy::store::pool::{Admission, Left, PoolStore, Taken};

use crate::world::{TTL, World, granted, model, registration, session};

both! {
    what_is_registered_comes_back_whole
    a_new_session_replaces_the_old_and_replays_are_refused
    a_worker_that_leaves_is_gone_unless_an_operator_drains_it
    leases_never_exceed_the_limit_under_200_contenders
    a_lease_is_counted_once_and_given_back_once
    leases_of_a_crashed_gateway_vanish_by_themselves
    leases_outlive_the_record
    a_node_that_is_not_there_admits_nobody
    an_operators_drain_holds
    purging_spares_who_came_back
}

async fn what_is_registered_comes_back_whole(w: &World) {
    let sent = registration("n", 4);
    let record = w
        .store
        .register(sent.clone(), "key", &session(1))
        .await
        .unwrap();
    assert_eq!(record.registration, sent);
    assert_eq!(
        (record.key_name.as_str(), &record.session),
        ("key", &Some(session(1)))
    );
    assert_eq!((record.registered_at, record.beat_at), (w.now(), w.now()));
    assert_eq!(
        (record.beat.is_none(), record.drain, record.leases),
        (true, false, 0)
    );
    let listed = w.record("n").await.unwrap();
    assert_eq!(listed, record);
    assert_eq!(listed.models().len(), 2);

    w.pass(5_000);
    let beat = Beat {
        seq: 1,
        draining: true,
        active_requests: 3,
        queue_depth: 2,
        free_vram_bytes: Some(1 << 40),
        gpu_temperature_c: Some(71.5),
        gpu_utilization_percent: Some(42.25),
        models: vec![model("other")],
    };
    let taken = w
        .store
        .beat(&"n".into(), &session(1), beat.clone())
        .await
        .unwrap();
    let Taken::Taken(record) = taken else {
        panic!("{taken:?}")
    };
    assert_eq!(
        (record.beat.as_ref(), record.beat_at),
        (Some(&beat), w.now())
    );
    assert_eq!(record.models(), [model("other")]);
    assert_eq!((record.in_flight(), record.free()), (3, 1));
    assert_eq!(w.record("n").await.unwrap(), *record);
}

async fn a_new_session_replaces_the_old_and_replays_are_refused(w: &World) {
    let old = w.register("n", 4).await;
    assert!(matches!(w.beat("n", &old, 7).await, Taken::Taken(_)));
    for seq in [7, 6, 1, 0] {
        assert_eq!(w.beat("n", &old, seq).await, Taken::Stale, "{seq}");
    }
    w.store
        .register(registration("n", 4), "key", &session(2))
        .await
        .unwrap();
    assert_eq!(
        w.record("n").await.unwrap().beat,
        None,
        "the old session's beat is not the new one's"
    );
    assert_eq!(w.beat("n", &old, 8).await, Taken::Replaced);
    assert_eq!(
        w.store.leave(&"n".into(), &old).await.unwrap(),
        Left::Replaced
    );
    assert!(matches!(w.beat("n", &session(2), 1).await, Taken::Taken(_)));
    assert_eq!(w.beat("nobody", &old, 1).await, Taken::Unknown);
    assert_eq!(
        w.store.leave(&"nobody".into(), &old).await.unwrap(),
        Left::Unknown
    );
    // What was refused changed nothing.
    assert_eq!(w.record("n").await.unwrap().beat.unwrap().seq, 1);
}

async fn a_worker_that_leaves_is_gone_unless_an_operator_drains_it(w: &World) {
    let s = w.register("n", 4).await;
    assert_eq!(w.store.leave(&"n".into(), &s).await.unwrap(), Left::Left);
    assert_eq!(w.record("n").await, None);
    assert_eq!(w.beat("n", &s, 1).await, Taken::Unknown);

    let s = w.register("n", 4).await;
    assert!(w.store.set_drain(&"n".into(), true).await.unwrap());
    assert_eq!(w.store.leave(&"n".into(), &s).await.unwrap(), Left::Left);
    let record = w.record("n").await.unwrap();
    assert_eq!((record.session, record.drain), (None, true));
    assert_eq!(w.beat("n", &s, 2).await, Taken::Unknown);
    assert_eq!(w.store.leave(&"n".into(), &s).await.unwrap(), Left::Unknown);
    assert_eq!(w.acquire("n", "l").await, Admission::Offline);
    w.register("n", 4).await;
    assert!(w.record("n").await.unwrap().drain, "it is still drained");
}

async fn leases_never_exceed_the_limit_under_200_contenders(w: &World) {
    w.register("n", 8).await;
    let tasks: Vec<_> = (0..200)
        .map(|i| {
            let store = w.store.clone();
            tokio::spawn(async move {
                let lease = LeaseId::from(format!("l{i}"));
                let got = store
                    .acquire(&"n".into(), Some("m"), &lease, 1000, TTL)
                    .await
                    .unwrap();
                (lease, got)
            })
        })
        .collect();
    let mut held = Vec::new();
    let mut counts = HashSet::new();
    for task in tasks {
        match task.await.unwrap() {
            (
                lease,
                Admission::Granted {
                    trial: false,
                    leases,
                },
            ) => {
                assert!(counts.insert(leases), "two were the {leases}th");
                held.push(lease);
            },
            (_, Admission::Full) => {},
            (lease, other) => panic!("{lease:?}: {other:?}"),
        }
    }
    assert_eq!((held.len(), counts.len()), (8, 8));
    assert_eq!(w.record("n").await.unwrap().leases, 8);
    // The caller's own limit counts where it is less.
    w.settle("n", held[0].as_str(), Blame::Nothing).await;
    let less = w
        .store
        .acquire(&"n".into(), None, &"x".into(), 7, TTL)
        .await
        .unwrap();
    assert_eq!(less, Admission::Full);
    let enough = w
        .store
        .acquire(&"n".into(), None, &"x".into(), 8, TTL)
        .await
        .unwrap();
    assert_eq!(enough, granted(false, 8));
}

async fn a_lease_is_counted_once_and_given_back_once(w: &World) {
    w.register("n", 2).await;
    assert_eq!(w.acquire("n", "a").await, granted(false, 1));
    assert_eq!(
        w.acquire("n", "a").await,
        granted(false, 1),
        "the same request again"
    );
    assert_eq!(w.acquire("n", "b").await, granted(false, 2));
    assert_eq!(
        w.acquire("n", "b").await,
        granted(false, 2),
        "also where it is full"
    );
    for _ in 0..3 {
        w.settle("n", "a", Blame::Nothing).await;
    }
    assert_eq!(w.record("n").await.unwrap().leases, 1);
}

async fn leases_of_a_crashed_gateway_vanish_by_themselves(w: &World) {
    w.register("n", 1).await;
    let node = NodeId::from("n");
    let ttl = 10_000;
    let ask = |lease: &'static str| w.store.acquire(&node, None, lease_ref(lease), 1, ttl);
    assert_eq!(ask("crashed").await.unwrap(), granted(false, 1));
    w.pass(9_999);
    assert_eq!(ask("next").await.unwrap(), Admission::Full);
    assert!(
        w.store
            .renew(&node, lease_ref("crashed"), ttl)
            .await
            .unwrap()
    );
    w.pass(9_999);
    assert_eq!(
        ask("next").await.unwrap(),
        Admission::Offline,
        "the node was silent too long"
    );
    w.register("n", 1).await;
    assert_eq!(ask("next").await.unwrap(), Admission::Full, "renewed");
    w.pass(1);
    assert_eq!(w.record("n").await.unwrap().leases, 0);
    assert!(
        !w.store
            .renew(&node, lease_ref("crashed"), ttl)
            .await
            .unwrap()
    );
    assert_eq!(ask("next").await.unwrap(), granted(false, 1));
    assert!(!w.store.renew(&node, lease_ref("never"), ttl).await.unwrap());
    if let Some(redis) = &w.redis {
        let left: i64 = redis.ask(&["PTTL", "node:inflight:n"]).parse().unwrap();
        assert!(
            (1..=10_000).contains(&left),
            "Redis would drop it by itself: {left}"
        );
    }
}

/// Leases of this module's tests live as long as the process.
fn lease_ref(name: &'static str) -> &'static LeaseId {
    Box::leak(Box::new(LeaseId::from(name)))
}

async fn leases_outlive_the_record(w: &World) {
    let s = w.register("n", 2).await;
    let node = NodeId::from("n");
    assert_eq!(w.acquire("n", "a").await, granted(false, 1));
    assert_eq!(w.store.leave(&node, &s).await.unwrap(), Left::Left);
    assert!(w.store.renew(&node, &"a".into(), TTL).await.unwrap());
    w.register("n", 2).await;
    assert_eq!(w.record("n").await.unwrap().leases, 1);
    assert!(w.store.evict(&node).await.unwrap());
    w.settle("n", "a", Blame::Node).await;
    let after = w
        .store
        .register(registration("n", 2), "key", &session(3))
        .await
        .unwrap();
    assert_eq!((after.leases, after.breaker.failures), (0, 0));
}

async fn a_node_that_is_not_there_admits_nobody(w: &World) {
    assert_eq!(w.acquire("n", "a").await, Admission::Gone);
    w.settle("n", "a", Blame::Node).await;
    assert_eq!(w.record("n").await, None, "settling makes no record");
    let s = w.register("n", 2).await;
    w.pass(15_000);
    assert_eq!(w.acquire("n", "a").await, granted(false, 1));
    w.pass(1);
    assert_eq!(w.acquire("n", "b").await, Admission::Offline);
    assert!(matches!(w.beat("n", &s, 1).await, Taken::Taken(_)));
    assert_eq!(w.acquire("n", "b").await, granted(false, 2));
    assert!(w.store.evict(&"n".into()).await.unwrap());
    assert!(!w.store.evict(&"n".into()).await.unwrap());
    assert_eq!(w.acquire("n", "c").await, Admission::Gone);
}

/// Five failures in a row, and the cool-down over.
async fn an_operators_drain_holds(w: &World) {
    let s = w.register("n", 1000).await;
    let node = NodeId::from("n");
    assert_eq!(w.acquire("n", "a").await, granted(false, 1));
    assert!(w.store.set_drain(&node, true).await.unwrap());
    assert_eq!(w.acquire("n", "b").await, Admission::Draining);
    assert_eq!(
        w.acquire("n", "a").await,
        granted(false, 1),
        "what runs goes on"
    );
    assert!(w.store.renew(&node, &"a".into(), TTL).await.unwrap());
    assert!(w.store.set_drain(&node, false).await.unwrap());
    assert_eq!(w.acquire("n", "b").await, granted(false, 2));
    let beat = Beat {
        seq: 1,
        draining: true,
        ..Beat::default()
    };
    assert!(matches!(
        w.store.beat(&node, &s, beat).await.unwrap(),
        Taken::Taken(_)
    ));
    assert_eq!(w.acquire("n", "c").await, Admission::Draining);
    assert!(!w.store.set_drain(&"nobody".into(), true).await.unwrap());
}

async fn purging_spares_who_came_back(w: &World) {
    let s = w.register("n", 1).await;
    let seen = w.now();
    w.pass(86_400_000);
    let node = NodeId::from("n");
    assert!(
        !w.store.purge(&node, seen).await.unwrap(),
        "not before that time"
    );
    assert!(matches!(w.beat("n", &s, 1).await, Taken::Taken(_)));
    assert!(!w.store.purge(&node, seen + 1).await.unwrap());
    w.pass(1);
    assert!(w.store.purge(&node, w.now()).await.unwrap());
    assert!(!w.store.purge(&node, w.now()).await.unwrap());
    assert_eq!(w.record("n").await, None);
}
