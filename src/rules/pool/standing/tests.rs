use proptest::prelude::*;

use super::super::breaker::Trial;
use super::super::record::{Beat, PoolEngine, Registration, Session};
use super::*;

fn record() -> Record {
    Record {
        registration: Registration {
            node: "n".into(),
            endpoint: "http://10.0.0.7:8080".into(),
            address: ([10, 0, 0, 7], 8000).into(),
            engine: PoolEngine::LlamaCpp,
            models: vec![],
            max_concurrency: 4,
            base_weight: 4,
            hardware: None,
            agent_version: "1".into(),
        },
        key_name: "k".into(),
        session: Some(Session::from_bytes([7; 16])),
        registered_at: 0,
        beat: Some(Beat::default()),
        beat_at: 100_000,
        drain: false,
        breaker: Breaker::default(),
        perf: Default::default(),
        leases: 0,
    }
}

fn at(record: &Record, now: u64) -> Standing {
    standing(record, now, &Limits::default())
}

#[test]
fn a_beat_lasts_for_the_ttl_to_the_millisecond() {
    let r = record();
    assert_eq!(at(&r, 115_000).state, PoolState::Healthy);
    let gone = at(&r, 115_001);
    assert_eq!(
        (gone.state, gone.reason.as_str()),
        (PoolState::Offline, "no heartbeat for 16s (limit 15s)")
    );
    // A store's clock that was set back makes nobody offline.
    assert_eq!(at(&r, 0).state, PoolState::Healthy);
}

#[test]
fn each_state_has_its_reason() {
    let mut r = record();
    r.session = None;
    assert_eq!(at(&r, 100_000).reason, "unregistered");

    let mut r = record();
    r.drain = true;
    assert_eq!(at(&r, 100_000).reason, "drained by an operator");
    r.beat.as_mut().unwrap().draining = true;
    assert_eq!(
        at(&r, 100_000).reason,
        "drained by an operator and by its worker"
    );
    r.drain = false;
    assert_eq!(at(&r, 100_000).reason, "drained by its worker");

    let mut r = record();
    r.breaker = Breaker {
        failures: 5,
        open_until: Some(112_000),
        trial: None,
    };
    let s = at(&r, 100_000);
    assert_eq!(
        (s.reason.as_str(), s.trial_open),
        ("5 failures in a row; a trial in 12s", false)
    );
    let s = at(&r, 112_000);
    assert_eq!(s.state, PoolState::CircuitBroken);
    assert_eq!(
        (s.reason.as_str(), s.trial_open),
        ("5 failures in a row; the next request is a trial", true)
    );
    r.breaker.trial = Some(Trial {
        lease: "l".into(),
        until: 200_000,
    });
    let s = at(&r, 112_000);
    assert_eq!(
        (s.reason.as_str(), s.trial_open),
        ("5 failures in a row; a trial is under way", false)
    );

    for (temperature, utilization, state, reason) in [
        (Some(87.9), Some(97.9), PoolState::Healthy, ""),
        (
            Some(88.0),
            None,
            PoolState::Suspect,
            "GPU at 88 \u{b0}C (limit 88)",
        ),
        (
            None,
            Some(98.0),
            PoolState::Suspect,
            "GPU 98 % busy (limit 98)",
        ),
        (
            Some(91.5),
            Some(99.0),
            PoolState::Suspect,
            "GPU at 91.5 \u{b0}C (limit 88), GPU 99 % busy (limit 98)",
        ),
        (None, None, PoolState::Healthy, ""),
    ] {
        let mut r = record();
        let beat = r.beat.as_mut().unwrap();
        (beat.gpu_temperature_c, beat.gpu_utilization_percent) = (temperature, utilization);
        assert_eq!(
            (at(&r, 100_000).state, at(&r, 100_000).reason.as_str()),
            (state, reason)
        );
    }
}

#[test]
fn a_node_that_registered_and_has_not_beaten_yet_is_healthy() {
    let mut r = record();
    r.beat = None;
    assert_eq!(at(&r, 100_000).state, PoolState::Healthy);
}

proptest! {
    /// Of all the states whose condition holds, the first in the order of priority is the one.
    #[test]
    fn the_first_state_that_holds_counts(
        unregistered: bool, silent: bool, drain: bool, draining: bool, broken: bool, hot: bool, busy: bool,
    ) {
        let mut r = record();
        let now = if silent { 200_000 } else { 100_000 };
        if unregistered { r.session = None; }
        r.drain = drain;
        if broken { r.breaker.open_until = Some(150_000); }
        let beat = r.beat.as_mut().unwrap();
        beat.draining = draining;
        beat.gpu_temperature_c = hot.then_some(95.0);
        beat.gpu_utilization_percent = busy.then_some(100.0);
        let holds = [
            (PoolState::Offline, unregistered || silent),
            (PoolState::Draining, drain || draining),
            (PoolState::CircuitBroken, broken),
            (PoolState::Suspect, hot || busy),
            (PoolState::Healthy, true),
        ];
        let want = holds.iter().filter(|(_, holds)| *holds).map(|(s, _)| *s).min().unwrap();
        let got = at(&r, now);
        prop_assert_eq!(got.state, want);
        prop_assert_eq!(got.reason.is_empty(), want == PoolState::Healthy);
        prop_assert!(!got.trial_open || want == PoolState::CircuitBroken);
    }
}
