//! Random runs: memory and Redis give the same answers to the same calls at the same times.
//!
//! The transitions are written twice, as rules and as scripts; this is what keeps them one.

use nvpair_proxy::rules::ids::NodeId;
use nvpair_proxy::rules::pool::blame::{Blame, Outcome};
use nvpair_proxy::rules::pool::ema::Sample;
use nvpair_proxy::rules::pool::record::{Beat, LeaseId};
use nvpair_proxy::store::pool::{Fleet, PoolStore, Store};
use proptest::prelude::*;

use crate::world::{World, model, registration, session};

#[derive(Clone, Debug)]
enum Op {
    Register {
        node: u8,
        session: u8,
        max: u32,
        models: u8,
    },
    Beat {
        node: u8,
        session: u8,
        seq: u64,
        draining: bool,
    },
    Leave {
        node: u8,
        session: u8,
    },
    Evict {
        node: u8,
    },
    Purge {
        node: u8,
        ago: u64,
    },
    Drain {
        node: u8,
        on: bool,
    },
    Reset {
        node: u8,
    },
    Acquire {
        node: u8,
        model: Option<u8>,
        lease: u8,
        max: u32,
    },
    Renew {
        node: u8,
        lease: u8,
    },
    Settle {
        node: u8,
        model: Option<u8>,
        lease: u8,
        blame: u8,
        ttft: Option<u32>,
        tps: Option<u32>,
    },
    Pass {
        ms: u64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let node = || 0u8..3;
    let lease = || 0u8..6;
    let which = || prop::option::weighted(0.8, 0u8..3);
    prop_oneof![
        3 => (node(), 0u8..3, 1u32..5, 0u8..8).prop_map(|(node, session, max, models)| Op::Register { node, session, max, models }),
        4 => (node(), 0u8..3, 0u64..40, prop::bool::weighted(0.1)).prop_map(|(node, session, seq, draining)| Op::Beat { node, session, seq, draining }),
        1 => (node(), 0u8..3).prop_map(|(node, session)| Op::Leave { node, session }),
        1 => node().prop_map(|node| Op::Evict { node }),
        1 => (node(), 0u64..40_000).prop_map(|(node, ago)| Op::Purge { node, ago }),
        1 => (node(), any::<bool>()).prop_map(|(node, on)| Op::Drain { node, on }),
        1 => node().prop_map(|node| Op::Reset { node }),
        16 => (node(), which(), lease(), 0u32..5).prop_map(|(node, model, lease, max)| Op::Acquire { node, model, lease, max }),
        3 => (node(), lease()).prop_map(|(node, lease)| Op::Renew { node, lease }),
        16 => (node(), which(), lease(), 0u8..8, prop::option::of(0u32..5000), prop::option::of(0u32..5000))
            .prop_map(|(node, model, lease, blame, ttft, tps)| Op::Settle { node, model, lease, blame, ttft, tps }),
        6 => (0u64..12_000).prop_map(|ms| Op::Pass { ms }),
    ]
}

/// One call, and its answer as text.
async fn call(store: &Store, now: u64, op: &Op) -> String {
    let id = |n: &u8| NodeId::from(format!("n{n}"));
    let named = |m: &Option<u8>| m.map(|m| format!("model {m}"));
    let lease = |l: &u8| LeaseId::from(format!("l{l}"));
    match op {
        Op::Register {
            node,
            session: s,
            max,
            models,
        } => {
            let mut r = registration(id(node).as_str(), *max);
            r.models = (0..3)
                .filter(|m| models >> m & 1 == 1)
                .map(|m| model(&format!("model {m}")))
                .collect();
            let record = store.register(r, "key", &session(*s)).await.unwrap();
            format!("{record:?}")
        },
        Op::Beat {
            node,
            session: s,
            seq,
            draining,
        } => {
            let beat = Beat {
                seq: *seq,
                draining: *draining,
                models: vec![model("m")],
                ..Beat::default()
            };
            format!(
                "{:?}",
                store.beat(&id(node), &session(*s), beat).await.unwrap()
            )
        },
        Op::Leave { node, session: s } => {
            format!("{:?}", store.leave(&id(node), &session(*s)).await)
        },
        Op::Evict { node } => format!("{:?}", store.evict(&id(node)).await),
        Op::Purge { node, ago } => format!("{:?}", store.purge(&id(node), now - ago).await),
        Op::Drain { node, on } => format!("{:?}", store.set_drain(&id(node), *on).await),
        Op::Reset { node } => format!("{:?}", store.reset_breaker(&id(node)).await),
        Op::Acquire {
            node,
            model,
            lease: l,
            max,
        } => {
            let model = named(model);
            let got = store
                .acquire(&id(node), model.as_deref(), &lease(l), *max, 20_000)
                .await;
            format!("{got:?}")
        },
        Op::Renew { node, lease: l } => {
            format!("{:?}", store.renew(&id(node), &lease(l), 20_000).await)
        },
        Op::Settle {
            node,
            model,
            lease: l,
            blame,
            ttft,
            tps,
        } => {
            let figure = |f: &Option<u32>| f.map(|f| f64::from(f) / 7.0);
            let outcome = Outcome {
                blame: match blame {
                    0 | 1 => Blame::Success,
                    2..=4 => Blame::Node,
                    5 => Blame::Model,
                    6 => Blame::Busy,
                    _ => Blame::Nothing,
                },
                sample: Sample {
                    ttft_ms: figure(ttft),
                    tokens_per_second: figure(tps),
                },
            };
            let model = named(model);
            format!(
                "{:?}",
                store
                    .settle(&id(node), &lease(l), model.as_deref(), outcome)
                    .await
            )
        },
        Op::Pass { .. } => String::new(),
    }
}

/// Versions are each store's own, and an empty Redis has none yet: it then tells everything, so
/// nobody is gone.
fn comparable(fleet: &Fleet, whole: bool) -> String {
    let gone = if whole { &[][..] } else { &fleet.gone };
    format!("{} {:#?} {gone:?}", fleet.now_ms, fleet.records)
}

#[test]
fn both_stores_answer_alike_whatever_is_asked() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let _inside = runtime.enter();
    let Some(redis) = World::redis() else { return };
    let config = ProptestConfig {
        cases: 48,
        ..ProptestConfig::default()
    };
    proptest!(config, |(ops in prop::collection::vec(op(), 1..120))| {
        redis.redis.as_ref().unwrap().ask(&["FLUSHALL"]);
        redis.clock.store(1_800_000_000_000, std::sync::atomic::Ordering::SeqCst);
        let memory = World::memory();
        runtime.block_on(async {
            let mut since = (0, 0);
            for (i, op) in ops.iter().enumerate() {
                if let Op::Pass { ms } = op {
                    memory.pass(*ms);
                    redis.pass(*ms);
                }
                let now = memory.now();
                let want = call(&memory.store, now, op).await;
                let got = call(&redis.store, now, op).await;
                prop_assert_eq!(got, want, "call {}: {:?}", i, op);
                // What changed, and now and then everything.
                if i % 5 == 0 {
                    let want = memory.store.changes(since.0).await.unwrap();
                    let got = redis.store.changes(since.1).await.unwrap();
                    since = (want.version, got.version);
                    let whole = want.whole || got.whole;
                    prop_assert_eq!(comparable(&got, whole), comparable(&want, whole), "changes after call {}", i);
                }
            }
            let want = memory.store.fleet().await.unwrap();
            let got = redis.store.fleet().await.unwrap();
            prop_assert_eq!(comparable(&got, true), comparable(&want, true));
            Ok(())
        })?;
    });
}
