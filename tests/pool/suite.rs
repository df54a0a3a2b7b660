//! What both stores promise.

use std::collections::HashSet;

use nvpair_proxy::rules::ids::NodeId;
use nvpair_proxy::rules::pool::blame::{Blame, Outcome};
use nvpair_proxy::rules::pool::ema::Sample;
use nvpair_proxy::rules::pool::key::{KeyHash, KeyRecord, make};
use nvpair_proxy::rules::pool::record::{Beat, LeaseId};
use nvpair_proxy::store::pool::{Admission, Fleet, Left, PoolStore, Taken};

use crate::world::{COOLDOWN, TTL, World, granted, model, outcome, registration, session};

macro_rules! both {
    ($($name:ident)*) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(&super::World::memory()).await;
            })*
        }
        mod redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if let Some(world) = super::World::redis() {
                    super::$name(&world).await;
                }
            })*
        }
    };
}

both! {
    what_is_registered_comes_back_whole
    a_new_session_replaces_the_old_and_replays_are_refused
    a_worker_that_leaves_is_gone_unless_an_operator_drains_it
    leases_never_exceed_the_limit_under_200_contenders
    a_lease_is_counted_once_and_given_back_once
    leases_of_a_crashed_gateway_vanish_by_themselves
    leases_outlive_the_record
    a_node_that_is_not_there_admits_nobody
    exactly_one_trial_under_64_concurrent_askers
    a_trials_end_decides
    a_trial_whose_gateway_died_is_given_up
    a_models_failures_break_that_model_alone
    busy_and_foreign_ends_count_for_nothing
    a_full_node_keeps_its_trial
    an_operator_can_close_a_breaker
    averages_follow_the_samples_of_successes
    an_operators_drain_holds
    purging_spares_who_came_back
    changes_are_those_since
    a_store_that_forgot_tells_everything
    waiting_ends_with_a_change
    keys_are_added_listed_and_revoked_with_their_node
    a_thousand_nodes_are_listed_whole
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
async fn half_open(w: &World, max: u32) {
    let s = w.register("n", max).await;
    for i in 0..5 {
        w.request("n", &format!("f{i}"), Blame::Node).await;
    }
    let until = w.now() + COOLDOWN;
    assert_eq!(w.acquire("n", "early").await, Admission::Broken { until });
    w.pass(COOLDOWN - 1);
    assert!(matches!(w.beat("n", &s, 1).await, Taken::Taken(_)));
    assert_eq!(w.acquire("n", "early").await, Admission::Broken { until });
    w.pass(1);
}

async fn exactly_one_trial_under_64_concurrent_askers(w: &World) {
    half_open(w, 1000).await;
    let tasks: Vec<_> = (0..64)
        .map(|i| {
            let store = w.store.clone();
            let lease = LeaseId::from(format!("t{i}"));
            tokio::spawn(async move {
                store
                    .acquire(&"n".into(), Some("m"), &lease, 1000, TTL)
                    .await
                    .unwrap()
            })
        })
        .collect();
    let mut trials = 0;
    for task in tasks {
        match task.await.unwrap() {
            Admission::Granted {
                trial: true,
                leases: 1,
            } => trials += 1,
            Admission::Broken { until } => assert_eq!(until, w.now() + TTL),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(trials, 1);
}

async fn a_trials_end_decides(w: &World) {
    half_open(w, 1000).await;
    assert_eq!(w.acquire("n", "t1").await, granted(true, 1));
    assert_eq!(
        w.acquire("n", "t1").await,
        granted(true, 1),
        "the trial itself, again"
    );
    // Ends of others, of before it broke.
    for blame in [Blame::Success, Blame::Node] {
        w.settle("n", "old", blame).await;
    }
    assert!(matches!(
        w.acquire("n", "t2").await,
        Admission::Broken { .. }
    ));
    w.settle("n", "t1", Blame::Busy).await;
    assert_eq!(
        w.acquire("n", "t2").await,
        granted(true, 1),
        "a trial without a verdict"
    );
    w.settle("n", "t2", Blame::Node).await;
    let until = w.now() + COOLDOWN;
    assert_eq!(w.acquire("n", "t3").await, Admission::Broken { until });
    assert_eq!(w.record("n").await.unwrap().breaker.failures, 6);
    w.pass(COOLDOWN);
    assert!(matches!(w.beat("n", &session(1), 2).await, Taken::Taken(_)));
    assert_eq!(w.acquire("n", "t3").await, granted(true, 1));
    w.settle("n", "t3", Blame::Success).await;
    assert_eq!(w.record("n").await.unwrap().breaker, Default::default());
    assert_eq!(w.acquire("n", "x").await, granted(false, 1));
}

async fn a_trial_whose_gateway_died_is_given_up(w: &World) {
    half_open(w, 1000).await;
    let node = NodeId::from("n");
    let trial = w
        .store
        .acquire(&node, None, &"t1".into(), 9, 10_000)
        .await
        .unwrap();
    assert_eq!(trial, granted(true, 1));
    w.pass(9_999);
    assert!(w.store.renew(&node, &"t1".into(), 10_000).await.unwrap());
    w.pass(1);
    let until = w.now() + 9_999;
    assert_eq!(w.acquire("n", "t2").await, Admission::Broken { until });
    let trial = w.record("n").await.unwrap().breaker.trial.unwrap();
    assert_eq!((trial.lease.as_str(), trial.until), ("t1", until));
    assert!(matches!(w.beat("n", &session(1), 2).await, Taken::Taken(_)));
    w.pass(9_999);
    assert_eq!(w.acquire("n", "t2").await, granted(true, 1));
    w.settle("n", "t1", Blame::Success).await;
    assert!(w.record("n").await.unwrap().breaker.is_open(), "too late");
}

async fn a_models_failures_break_that_model_alone(w: &World) {
    let s = w.register("n", 1000).await;
    for i in 0..5 {
        w.request("n", &format!("f{i}"), Blame::Model).await;
    }
    let until = w.now() + COOLDOWN;
    assert_eq!(w.acquire("n", "a").await, Admission::Broken { until });
    let node = NodeId::from("n");
    let other = w
        .store
        .acquire(&node, Some("Größe:x y"), &"b".into(), 9, TTL)
        .await
        .unwrap();
    assert_eq!(other, granted(false, 1));
    let record = w.record("n").await.unwrap();
    assert_eq!(
        (record.breaker.failures, record.perf["m"].breaker.failures),
        (0, 5)
    );
    w.pass(COOLDOWN);
    assert!(matches!(w.beat("n", &s, 1).await, Taken::Taken(_)));
    assert_eq!(w.acquire("n", "t1").await, granted(true, 2));
    assert!(matches!(
        w.acquire("n", "t2").await,
        Admission::Broken { .. }
    ));
    let trial = w.record("n").await.unwrap().perf["m"]
        .breaker
        .trial
        .clone()
        .unwrap();
    assert_eq!((trial.lease.as_str(), trial.until), ("t1", w.now() + TTL));
    w.settle("n", "t1", Blame::Success).await;
    assert_eq!(w.acquire("n", "t2").await, granted(false, 2));
    // A model that the node no longer has is forgotten with what it did.
    w.settle("n", "t2", Blame::Model).await;
    let mut again = registration("n", 1000);
    again.models.remove(0);
    let record = w.store.register(again, "key", &session(2)).await.unwrap();
    assert!(record.perf.is_empty());
}

async fn busy_and_foreign_ends_count_for_nothing(w: &World) {
    w.register("n", 1000).await;
    for i in 0..4 {
        w.request("n", &format!("f{i}"), Blame::Node).await;
    }
    for i in 0..20 {
        let blame = if i % 2 == 0 {
            Blame::Busy
        } else {
            Blame::Nothing
        };
        w.request("n", &format!("b{i}"), blame).await;
    }
    let record = w.record("n").await.unwrap();
    assert_eq!(
        (record.breaker.failures, record.breaker.open_until),
        (4, None)
    );
    assert!(record.perf.is_empty());
    w.request("n", "s", Blame::Success).await;
    assert_eq!(w.record("n").await.unwrap().breaker.failures, 0);
}

async fn a_full_node_keeps_its_trial(w: &World) {
    let s = w.register("n", 1).await;
    assert_eq!(w.acquire("n", "long").await, granted(false, 1));
    for _ in 0..5 {
        w.settle("n", "gone", Blame::Node).await;
    }
    w.pass(COOLDOWN);
    assert!(matches!(w.beat("n", &s, 1).await, Taken::Taken(_)));
    assert_eq!(w.acquire("n", "t").await, Admission::Full);
    w.settle("n", "long", Blame::Nothing).await;
    assert_eq!(w.acquire("n", "t").await, granted(true, 1));
}

async fn an_operator_can_close_a_breaker(w: &World) {
    half_open(w, 1000).await;
    let node = NodeId::from("n");
    let sample = Sample {
        ttft_ms: Some(100.0),
        tokens_per_second: None,
    };
    w.store
        .settle(
            &node,
            &"x".into(),
            Some("m"),
            Outcome {
                blame: Blame::Success,
                sample,
            },
        )
        .await
        .unwrap();
    for _ in 0..5 {
        w.settle("n", "x", Blame::Model).await;
    }
    assert!(w.store.reset_breaker(&node).await.unwrap());
    let record = w.record("n").await.unwrap();
    assert_eq!(
        (record.breaker.clone(), record.perf["m"].breaker.clone()),
        Default::default()
    );
    assert_eq!(
        record.perf["m"].ttft_ms.value(),
        Some(100.0),
        "what was measured stays"
    );
    assert_eq!(w.acquire("n", "x").await, granted(false, 1));
    assert!(!w.store.reset_breaker(&"nobody".into()).await.unwrap());
}

async fn averages_follow_the_samples_of_successes(w: &World) {
    w.register("n", 1000).await;
    let node = NodeId::from("n");
    let send = async |blame, ttft_ms, tokens_per_second| {
        let outcome = Outcome {
            blame,
            sample: Sample {
                ttft_ms,
                tokens_per_second,
            },
        };
        w.store
            .settle(&node, &"l".into(), Some("m"), outcome)
            .await
            .unwrap();
    };
    send(Blame::Success, Some(100.0), None).await;
    send(Blame::Success, Some(200.0), Some(33.3)).await;
    send(Blame::Node, Some(1.0), Some(1.0)).await;
    send(Blame::Success, Some(f64::NAN), Some(-1.0)).await;
    let perf = w.record("n").await.unwrap().perf["m"].clone();
    assert_eq!(perf.ttft_ms.value(), Some(120.0));
    assert_eq!(perf.tokens_per_second.value(), Some(33.3));
    let before = perf.ttft_ms;
    w.store
        .register(registration("n", 1000), "key", &session(2))
        .await
        .unwrap();
    assert_eq!(
        w.record("n").await.unwrap().perf["m"].ttft_ms,
        before,
        "a restart keeps them"
    );
}

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
    w.store.leave(&"b".into(), &s).await.unwrap();
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
    assert_eq!(w.store.revoke_key("a").await.unwrap(), Some(key("a", 2)));
    assert!(
        w.record("n").await.is_some(),
        "it registered with another key"
    );
    w.store.changed(since.version).await.unwrap();
    assert!(w.store.fleet().await.unwrap().keys_version > since.keys_version);
    assert_eq!(w.store.revoke_key("b").await.unwrap(), Some(key("b", 1)));
    assert_eq!(w.record("n").await, None);
    assert_eq!(w.store.revoke_key("b").await.unwrap(), None);
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
