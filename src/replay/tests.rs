use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::rules::discovery::tests::node;
use crate::rules::engine::EngineId;
use crate::rules::ids::{JobId, RunId};
use crate::rules::policy::{Ask, Policy};
use crate::rules::replay::Speed;
use crate::state::command::PrioritySnapshot;
use crate::state::facade::{Alone, FacadeState};
use crate::state::scheduler::{Claim, Scheduler};
use crate::state::settings::RequestSettings;
use crate::wire::broker::WorkloadState;
use crate::wire::control::{DaemonInfo, Mode};

fn engine(id: &str) -> EngineId {
    EngineId::parse(id).unwrap()
}

/// A daemon with an Ollama facade and these nodes, all with the model `m`.
fn shared(policy: Policy, nodes: &[&str]) -> Arc<Shared> {
    let info = DaemonInfo {
        version: "0".into(),
        pid: 1,
        mode: Mode::Standalone,
        run_id: RunId::from_bytes([1; 8]),
        started_at: 1,
        socket: None,
    };
    let settings = RequestSettings::default();
    let shared = Shared::new(info, settings, Arc::default(), Scheduler::new(policy));
    let scheduler = shared.scheduler.clone();
    let facade = FacadeState::new(engine("ollama"), Arc::new(Alone), scheduler);
    for (port, id) in std::iter::zip(1.., nodes) {
        facade.add_manual(node(id, port, &["m"]));
    }
    shared.publish(Arc::new(facade));
    Arc::new(shared)
}

fn desk(shared: &Arc<Shared>) -> Desk {
    let recordings = Recordings {
        workloads: shared.workloads.clone(),
        journal: None,
    };
    Desk::new(shared.clone(), recordings, Arc::default())
}

fn arrival(id: u64, created_at: u64) -> Arrival {
    Arrival {
        run_id: RunId::from_bytes([2; 8]),
        engine: engine("ollama"),
        id: JobId(id),
        model: "m".into(),
        path: "/api/chat".into(),
        body_bytes: 100,
        created_at,
        held_ms: 50,
        state: WorkloadState::Completed,
        status: Some(200),
        streamed: Some(true),
        node: Some("a".into()),
        stats: None,
    }
}

fn given(send: bool) -> Wanted {
    Wanted {
        source: Source::Given,
        engine: None,
        since_ms: None,
        last: None,
        send,
        speed: Speed::RECORDED,
    }
}

async fn last(mut parts: Parts) -> ReplayUpdate {
    let mut last = None;
    while let Some(part) = parts.recv().await {
        last = Some(serde_json::from_str(part.get()).unwrap());
    }
    last.unwrap()
}

#[tokio::test]
async fn a_dry_replay_reads_live_loads_and_changes_none() {
    let shared = shared(Policy::Listed, &["a", "b"]);
    shared.scheduler.apply(PrioritySnapshot {
        generation: 5,
        nodes: vec!["a".into(), "b".into()],
        ranks: vec![],
    });
    // A live request, which the virtual clock knows nothing of.
    let mut claim = Claim::new(shared.scheduler.clone());
    let facade = shared.facade(engine("ollama")).unwrap();
    let mut candidates = facade.routing().view.shortlist(Some("m:latest"));
    let ask = Ask {
        engine: engine("ollama"),
        model: "m:latest",
        pin: None,
    };
    shared
        .scheduler
        .order(ask, &mut candidates, 0, Some(&mut claim));
    claim.dispatch(&"a".into());
    let before = shared.scheduler.load(&"a".into());
    let desk = desk(&shared);
    let replay = desk.start(given(false)).unwrap();
    let three = (0..3).map(|id| arrival(id, 1000)).collect();
    assert_eq!(desk.add(replay, three), Ok(3));
    let report = last(desk.follow(replay).unwrap()).await.report.unwrap();
    let dry = report.dry.unwrap();
    assert_eq!((dry.policy.as_str(), dry.generation), ("listed", 5));
    let shares: Vec<_> = dry
        .nodes
        .iter()
        .map(|n| (n.node.as_str(), n.then, n.now))
        .collect();
    assert_eq!(shares, [("a", 3, 2), ("b", 0, 1)]);
    assert_eq!(dry.moved.len(), 1);
    assert_eq!(shared.scheduler.load(&"a".into()), before);
    assert!(desk.book().open.is_empty(), "it is over");
}

#[tokio::test(start_paused = true)]
async fn a_replay_that_nobody_follows_is_forgotten_and_one_that_is_filled_is_not() {
    let desk = desk(&shared(Policy::Weighted, &["a"]));
    let (left, filled) = (
        desk.start(given(true)).unwrap(),
        desk.start(given(true)).unwrap(),
    );
    tokio::time::sleep(IDLE / 2).await;
    assert_eq!(desk.add(filled, vec![arrival(1, 1)]), Ok(1));
    tokio::time::sleep(IDLE).await;
    assert!(desk.add(left, vec![]).is_err());
    assert_eq!(desk.add(filled, vec![]), Ok(1));
    tokio::time::sleep(IDLE * 2).await;
    assert!(desk.add(filled, vec![]).is_err());
}

#[tokio::test]
async fn there_are_limits_to_how_many_and_how_large() {
    let desk = desk(&shared(Policy::Weighted, &["a"]));
    let all: Vec<_> = (0..OPEN)
        .map(|_| desk.start(given(false)).unwrap())
        .collect();
    assert!(desk.start(given(false)).is_err());
    assert!(desk.cancel(all[0]) && !desk.cancel(all[0]));
    assert!(desk.start(given(false)).is_ok());
    let many = vec![arrival(1, 1); MOST];
    assert_eq!(desk.add(all[1], many), Ok(MOST));
    let e = desk.add(all[1], vec![arrival(2, 2)]).unwrap_err();
    assert!(e.message.contains("250000"), "{e}");
    assert!(desk.follow(77).is_err());
}

#[tokio::test]
async fn the_pace_is_the_recorded_one_times_the_speed() {
    let shared = shared(Policy::Weighted, &["a"]);
    let mut all: Vec<_> = (0..3).map(|id| arrival(id, 1000 + id * 100)).collect();
    all[1].path = "/api/pull".into();
    let quick = Speed::try_from(4.0).unwrap();
    let plan = send::planned(&shared, &all, quick);
    let ms = Duration::from_millis;
    assert_eq!(plan, [(0, ms(0)), (2, ms(50))]);
    let slow = Speed::try_from(0.5).unwrap();
    let plan = send::planned(&shared, &all[2..], slow);
    assert_eq!(
        plan,
        [(0, ms(0))],
        "it begins with the first that can be sent"
    );
}
