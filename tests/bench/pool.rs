//! What the pool's store costs: `cargo bench --bench pool [-- memory|redis]`.
//!
//! The chief figure is processor time, ours and that of `redis-server`, read from `/proc`: it says
//! the same on a busy machine as on an idle one. "per core" is what one core of that process could
//! do. Redis is the distribution's `redis-server`, started here on a free port.

#[path = "../support/redis.rs"]
mod redis;

use std::future::Future;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use nvpair_proxy::rules::ids::NodeId;
use nvpair_proxy::rules::pool::blame::{Blame, Outcome};
use nvpair_proxy::rules::pool::ema::Sample;
use nvpair_proxy::rules::pool::limits::Limits;
use nvpair_proxy::rules::pool::record::{
    Beat, LeaseId, ModelEntry, PoolEngine, Registration, Session,
};
use nvpair_proxy::rules::pool::redis_address::RedisAddress;
use nvpair_proxy::store::pool::{
    Admission, MemoryStore, PoolStore, RedisStore, Store, Taken, system_clock,
};

use redis::Redis;

/// Calls under way at a time.
const IN_FLIGHT: usize = 64;
const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];
const TTL: u64 = 600_000;

fn main() {
    let only: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let wanted = |name: &str| only.is_empty() || only.iter().any(|o| o == name);
    let mut report = String::from(
        "| store | nodes | what | calls | µs ours | µs Redis | a second on one core of Redis (or ours) |\n|---|---|---|---|---|---|---|\n",
    );
    // One thread: what a gateway's core does.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    for nodes in SIZES {
        if wanted("memory") {
            let store = Store::Memory(MemoryStore::new(system_clock(), Limits::default()));
            runtime.block_on(run(&mut report, "memory", Arc::new(store), None, nodes));
        }
        if wanted("redis") {
            let Some(redis) = Redis::start(None) else {
                continue;
            };
            let address = RedisAddress::parse(&redis.address()).expect("an address");
            let limits = Limits {
                ttl_ms: TTL,
                ..Limits::default()
            };
            let store = runtime.block_on(async {
                RedisStore::for_tests(address, limits, system_clock()).expect("a store")
            });
            runtime.block_on(run(
                &mut report,
                "redis",
                Arc::new(Store::Redis(store)),
                Some(redis.pid()),
                nodes,
            ));
        }
    }
    // Nobody reads it any more if this fails.
    drop(std::io::stdout().write_all(report.as_bytes()));
}

async fn run(report: &mut String, name: &str, store: Arc<Store>, redis: Option<u32>, nodes: usize) {
    let session = Session::from_bytes([1; 16]);
    let mut row = |what: &str, calls: usize, (ours, theirs): (f64, f64)| {
        let each = |seconds: f64| seconds * 1e6 / calls as f64;
        let busy = if redis.is_some() { theirs } else { ours };
        let rate = if busy > 0.0 {
            calls as f64 / busy
        } else {
            f64::NAN
        };
        let line = format!(
            "| {name} | {nodes} | {what} | {calls} | {:.1} | {:.1} | {rate:.0} |",
            each(ours),
            each(theirs)
        );
        drop(writeln!(std::io::stderr(), "{line}"));
        *report += &line;
        report.push('\n');
    };
    let calls = nodes.max(20_000);
    let node = |i: usize| NodeId::from(format!("node-{:05}", i % nodes));

    let cost = measured(redis, nodes, |i| {
        let (store, session, node) = (store.clone(), session.clone(), node(i));
        async move {
            let registered = store.register(registration(node), "key", &session).await;
            assert!(registered.is_ok(), "{registered:?}");
        }
    });
    row("register", nodes, cost.await);

    let seq = AtomicU64::new(0);
    let cost = measured(redis, calls, |i| {
        let (store, session, node) = (store.clone(), session.clone(), node(i));
        let beat = beat(seq.fetch_add(1, Ordering::Relaxed) + 1);
        async move {
            let taken = store.beat(&node, &session, beat).await;
            // Two beats of one node may overtake each other where there are few.
            assert!(
                matches!(taken, Ok(Taken::Taken(_) | Taken::Stale)),
                "{taken:?}"
            );
        }
    });
    row("heartbeat", calls, cost.await);

    let model = Some("qwen2.5:14b");
    let cost = measured(redis, calls, |i| {
        let (store, node, lease) = (store.clone(), node(i), LeaseId::from(format!("run-{i}")));
        async move {
            let got = store.acquire(&node, model, &lease, 1_000, TTL).await;
            assert!(matches!(got, Ok(Admission::Granted { .. })), "{got:?}");
            let sample = Sample {
                ttft_ms: Some(120.0),
                tokens_per_second: Some(40.0),
            };
            let settled = store.settle(
                &node,
                &lease,
                model,
                Outcome {
                    blame: Blame::Success,
                    sample,
                },
            );
            settled.await.expect("it settles");
        }
    });
    row("admission and its end", calls, cost.await);

    let since = store.fleet().await.expect("a fleet").version;
    let listings = (20_000 / nodes).clamp(3, 200);
    let cost = measured(redis, listings, |_| {
        let store = store.clone();
        async move { assert_eq!(store.fleet().await.expect("a fleet").records.len(), nodes) }
    });
    row("whole listing", listings, cost.await);
    // What a gateway reads four times a second: a twentieth of the fleet has beaten since.
    for i in 0..nodes.div_ceil(20) {
        let drained = store.set_drain(&node(i), false).await;
        assert_eq!(drained, Ok(true));
    }
    let cost = measured(redis, listings, |_| {
        let store = store.clone();
        async move {
            let changed = store.changes(since).await.expect("changes");
            assert_eq!(
                (changed.whole, changed.records.len()),
                (false, nodes.div_ceil(20))
            );
        }
    });
    row("listing of a twentieth", listings, cost.await);
}

/// Seconds of processor time, ours and Redis', for so many calls.
async fn measured<F: Future<Output = ()>>(
    redis: Option<u32>,
    calls: usize,
    call: impl Fn(usize) -> F,
) -> (f64, f64) {
    let begun = Instant::now();
    let us = std::process::id();
    let before = (processor(us), redis.map_or(0.0, processor));
    let mut under_way = FuturesUnordered::new();
    for i in 0..calls {
        if under_way.len() >= IN_FLIGHT {
            under_way.next().await;
        }
        under_way.push(call(i));
    }
    while under_way.next().await.is_some() {}
    let cost = (
        processor(us) - before.0,
        redis.map_or(0.0, processor) - before.1,
    );
    drop(writeln!(
        std::io::stderr(),
        "{calls} calls took {:.2} s",
        begun.elapsed().as_secs_f64()
    ));
    cost
}

/// Seconds of processor time that a process has had.
fn processor(pid: u32) -> f64 {
    // Nanoseconds on the processor come first.
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat"));
    let text = text.expect("Linux, and a process that lives");
    let nanos = text.split(' ').next().and_then(|n| n.parse::<f64>().ok());
    nanos.expect("a number") / 1e9
}

fn models() -> Vec<ModelEntry> {
    let model = |id: &str| ModelEntry {
        id: id.into(),
        context_length: Some(32_768),
        is_warm: true,
    };
    ["qwen2.5:14b", "llama3.3:70b", "nomic-embed-text"]
        .map(model)
        .into()
}

fn registration(node: NodeId) -> Registration {
    Registration {
        node,
        endpoint: "http://10.10.0.15:11434/v1".into(),
        address: ([10, 0, 0, 7], 8000).into(),
        engine: PoolEngine::Ollama,
        models: models(),
        max_concurrency: 1_000,
        base_weight: 8,
        hardware: None,
        agent_version: "0.1.0".into(),
    }
}

fn beat(seq: u64) -> Beat {
    Beat {
        seq,
        active_requests: 2,
        free_vram_bytes: Some(8 << 30),
        gpu_temperature_c: Some(71.0),
        gpu_utilization_percent: Some(64.0),
        models: models(),
        ..Beat::default()
    }
}
