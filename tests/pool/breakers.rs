//! What both stores promise of breakers and averages.

use nvpair_proxy::rules::ids::NodeId;
use nvpair_proxy::rules::pool::blame::{Blame, Outcome};
use nvpair_proxy::rules::pool::ema::Sample;
use nvpair_proxy::rules::pool::record::LeaseId;
use nvpair_proxy::store::pool::{Admission, PoolStore, Taken};

use crate::world::{COOLDOWN, TTL, World, granted, registration, session};

both! {
    exactly_one_trial_under_64_concurrent_askers
    a_trials_end_decides
    a_trial_whose_gateway_died_is_given_up
    a_models_failures_break_that_model_alone
    busy_and_foreign_ends_count_for_nothing
    a_full_node_keeps_its_trial
    an_operator_can_close_a_breaker
    averages_follow_the_samples_of_successes
}

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
