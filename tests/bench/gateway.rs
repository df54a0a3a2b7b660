//! What routing on the gateway costs: `cargo bench --bench gateway`.
//!
//! A request's chain is found among 200 candidates (nodes of three engines, and providers), put in
//! order and counted, as the request path does it; then as many are passed by, one after the other,
//! as if each had failed. Shown are the median and the slowest hundredth of many such requests.

use std::hint::black_box;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nvpair_proxy::config::gateway::{ProviderModel, ProviderSetting};
use nvpair_proxy::config::http_url::HttpUrl;
use nvpair_proxy::rules::discovery::{Extra, Node};
use nvpair_proxy::rules::engine::EngineId;
use nvpair_proxy::rules::gateway::VirtualModels;
use nvpair_proxy::rules::ids::RunId;
use nvpair_proxy::rules::policy::{Ask, Policy};
use nvpair_proxy::state::chain::{self, Wanted};
use nvpair_proxy::state::events::Events;
use nvpair_proxy::state::facade::{Alone, FacadeState};
use nvpair_proxy::state::scheduler::{Claim, Scheduler};
use nvpair_proxy::state::settings::RequestSettings;
use nvpair_proxy::state::shared::Shared;
use nvpair_proxy::wire::control::{DaemonInfo, Mode};

const NODES: usize = 180;
const PROVIDERS: usize = 20;
const REQUESTS: usize = 5_000;
/// Issue 8: routing adds less than this to 99 of 100 requests.
const LIMIT: Duration = Duration::from_millis(2);

fn node(i: usize) -> Node {
    Node {
        id: format!("node-{i:03}").into(),
        host: format!("node-{i:03}.lan"),
        port: 11434,
        addresses: vec![format!("10.0.0.{}", i + 1)],
        txt: Vec::new(),
        models: vec!["m".into()],
        principal: None,
        extra: Extra {
            slots: 4,
            ..Extra::default()
        },
    }
}

fn provider(i: usize) -> Option<ProviderSetting> {
    Some(ProviderSetting {
        name: format!("provider-{i:02}"),
        base_url: HttpUrl::parse(&format!("https://p{i}.example/v1")).ok()?,
        api_key: None,
        tier: (i % 3) as u32,
        models: vec![ProviderModel {
            name: "m".to_owned(),
            upstream: "theirs".to_owned(),
        }],
        upstream_timeout: Duration::from_secs(5),
    })
}

fn daemon() -> Arc<Shared> {
    let info = DaemonInfo {
        version: String::new(),
        pid: 0,
        mode: Mode::Standalone,
        run_id: RunId::from_bytes([0; 8]),
        started_at: 0,
        socket: None,
    };
    let (events, scheduler) = (Arc::<Events>::default(), Scheduler::new(Policy::Weighted));
    let shared = Shared::new(info, RequestSettings::default(), events, scheduler);
    for engine in EngineId::facades() {
        let state = FacadeState::new(engine, Arc::new(Alone), shared.scheduler.clone());
        let state = Arc::new(state);
        if !engine.is_gateway() {
            let own = (0..NODES).filter(|i| i % 3 == engine.index());
            own.for_each(|i| {
                state.add_manual(node(i));
            });
        }
        shared.publish(state);
    }
    let providers: Vec<_> = (0..PROVIDERS).filter_map(provider).collect();
    shared.providers.set(&providers);
    Arc::new(shared)
}

fn main() -> ExitCode {
    let shared = daemon();
    let gateway = shared.facade(EngineId::GATEWAY).expect("it was published");
    let virtuals = VirtualModels::default();
    let (mut choices, mut rounds, mut found_most) = (Vec::new(), Vec::new(), 0);
    for _ in 0..REQUESTS {
        let begun = Instant::now();
        let mut claim = Claim::new(shared.scheduler.clone());
        let mut found = chain::find(
            &shared,
            &gateway,
            Wanted {
                model: Some("m"),
                path: "/v1/chat/completions",
                clock: Instant::now,
                virtuals: &virtuals,
                asker: None,
                demand: &mut || 0,
                routing: &|state| state.routing(),
                order: &mut |ask, candidates, from| {
                    let claim = (from == 0).then_some(&mut claim);
                    shared.scheduler.order(ask, candidates, from, claim)
                },
            },
        );
        claim.dispatch(&black_box(&found.candidates).target(0).node);
        choices.push(begun.elapsed());
        found_most = found_most.max(found.candidates.len());
        let nodes = found.ends[0];
        for at in 1..nodes {
            let ask = Ask {
                engine: EngineId::GATEWAY,
                model: "m",
                pin: None,
            };
            let scheduler = &shared.scheduler;
            scheduler.next(ask, &mut found.candidates, at..nodes);
            claim.dispatch(&black_box(&found.candidates).target(at).node);
        }
        rounds.push(begun.elapsed());
    }
    let mut out = std::io::stdout().lock();
    drop(writeln!(
        out,
        "{found_most} candidates\n| | median, µs | p99, µs |\n|---|---|---|"
    ));
    let mut slowest = Duration::ZERO;
    for (what, mut all) in [("a choice", choices), ("all of them, one by one", rounds)] {
        all.sort_unstable();
        let at = |share: usize| all[all.len() * share / 100].as_nanos() as f64 / 1000.0;
        drop(writeln!(out, "| {what} | {:.1} | {:.1} |", at(50), at(99)));
        if slowest.is_zero() {
            slowest = all[all.len() * 99 / 100];
        }
    }
    let kept = slowest < LIMIT;
    let word = if kept { "kept" } else { "BROKEN" };
    drop(writeln!(out, "limit of {LIMIT:?} for a choice: {word}"));
    // Without optimisation it says nothing about the limit.
    match kept || cfg!(debug_assertions) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
