use super::*;
use proptest::prelude::*;

const SWEEP: u64 = 5_000;
const LIMIT: u64 = 600_000;
const PACE: Pace = Pace {
    beat_ms: 5_000,
    ttl_ms: 15_000,
    sweep_ms: None,
};

fn registered() -> Heard {
    Heard::Registered {
        session: "s".into(),
        pace: PACE,
    }
}

fn taken(leased: u64) -> Heard {
    Heard::Taken { pace: PACE, leased }
}

/// An agent that registered at 0 and whose first beat was taken then.
fn running() -> Course {
    let mut course = Course::new(Some(SWEEP), LIMIT);
    assert_eq!(course.step(0, 0), Step::Register);
    course.hear(0, 0, false, registered(), 1.0);
    assert_eq!(beat(&mut course, 0, 0), (1, false));
    course.hear(0, 0, false, taken(0), 1.0);
    course
}

#[track_caller]
fn beat(course: &mut Course, now: u64, own: u64) -> (u64, bool) {
    match course.step(now, own) {
        Step::Beat { seq, draining, .. } => (seq, draining),
        other => panic!("{other:?}"),
    }
}

/// Sends a beat now, which is taken.
#[track_caller]
fn beaten(course: &mut Course, now: u64, leased: u64) -> bool {
    let (_, draining) = beat(course, now, 0);
    course.hear(now, now, draining, taken(leased), 1.0);
    draining
}

#[test]
fn it_registers_beats_at_once_and_then_in_the_rhythm_it_is_told() {
    let mut course = running();
    assert_eq!(course.step(1, 0), Step::Wait(5_000));
    assert_eq!(beat(&mut course, 5_000, 0), (2, false));
    // The answer took two seconds and tells another rhythm.
    let faster = Heard::Taken {
        pace: Pace {
            beat_ms: 3_000,
            ttl_ms: 9_000,
            sweep_ms: None,
        },
        leased: 1,
    };
    course.hear(5_000, 7_000, false, faster, 1.0);
    assert_eq!(course.step(7_001, 0), Step::Wait(8_000));
    assert_eq!(beat(&mut course, 8_000, 0), (3, false));
}

#[test]
fn a_silent_gateway_is_asked_again_ever_more_rarely_and_then_in_rhythm() {
    let mut course = running();
    let mut now = 5_000;
    let mut waits = Vec::new();
    for _ in 0..8 {
        beat(&mut course, now, 0);
        course.hear(now, now, false, Heard::Failed, 1.0);
        let Step::Wait(until) = course.step(now, 0) else {
            panic!("no wait")
        };
        waits.push(until - now);
        now = until;
    }
    assert_eq!(
        waits,
        [500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000, 15_000]
    );
    // The session is kept: the gateway may know it still.
    let (seq, _) = beat(&mut course, now, 0);
    assert_eq!(seq, 10, "every try has a number of its own");
    course.hear(now, now, false, taken(0), 1.0);
    assert_eq!(course.step(now, 0), Step::Wait(now + 5_000));
}

#[test]
fn a_void_session_is_replaced_at_once_and_rivals_are_not_raced() {
    let mut course = running();
    beat(&mut course, 5_000, 0);
    course.hear(5_000, 5_000, false, Heard::Reregister, 1.0);
    assert_eq!(course.step(5_000, 0), Step::Register);
    let mut now = 5_000;
    let mut waits = Vec::new();
    for _ in 0..4 {
        course.hear(now, now, false, registered(), 1.0);
        beat(&mut course, now, 0);
        course.hear(now, now, false, Heard::Reregister, 1.0);
        if let Step::Wait(until) = course.step(now, 0) {
            waits.push(until - now);
            now = until;
        }
        assert_eq!(course.step(now, 0), Step::Register);
    }
    assert_eq!(waits, [1_000, 2_000, 4_000, 8_000]);
    assert!(course.short_sessions() > 2);
    // One that lasts ends the suspicion.
    course.hear(now, now, false, registered(), 1.0);
    for n in 0..3 {
        beaten(&mut course, now + n * 5_000, 0);
    }
    assert_eq!(course.short_sessions(), 0);
}

#[test]
fn a_change_is_told_at_once_but_not_through_a_failures_wait() {
    let mut course = running();
    course.hurry(100);
    assert_eq!(beat(&mut course, 100, 0), (2, false));
    course.hear(100, 100, false, Heard::Failed, 1.0);
    course.hurry(200);
    assert_eq!(course.step(200, 0), Step::Wait(600));
}

#[test]
fn a_limit_is_waited_for_within_reason() {
    for (told, waits) in [(0, 1_000), (7_000, 7_000), (u64::MAX, 60_000)] {
        let mut course = Course::new(Some(SWEEP), LIMIT);
        course.step(0, 0);
        course.hear(0, 0, false, Heard::NotBefore(told), 1.0);
        assert_eq!(course.step(0, 0), Step::Wait(waits));
    }
}

#[test]
fn a_drain_is_told_at_once_waits_a_sweep_and_for_every_request() {
    let mut course = running();
    course.drain(1_000);
    assert!(beaten(&mut course, 1_000, 0), "told at once");
    // Nothing is here now, but a gateway may not have heard yet.
    assert_eq!(course.step(1_001, 0), Step::Wait(6_000));
    assert!(beaten(&mut course, 6_000, 2));
    assert_eq!(course.step(6_001, 0), Step::Wait(7_000));
    assert!(beaten(&mut course, 7_000, 0));
    // The gateways are done; this process is not.
    assert!(matches!(course.step(7_001, 1), Step::Wait(_)));
    let left = course.step(7_002, 0);
    let Step::Leave { session, cut } = left else {
        panic!("{left:?}")
    };
    assert_eq!(session, "s");
    assert!(cut.is_nothing());
}

#[test]
fn a_drain_that_takes_too_long_says_what_it_cuts() {
    let mut course = running();
    course.drain(1_000);
    let mut now = 1_000;
    while now < 1_000 + LIMIT {
        match course.step(now, 3) {
            Step::Beat { .. } => course.hear(now, now, true, taken(4), 1.0),
            Step::Wait(until) => now = until,
            other => panic!("{other:?}"),
        }
    }
    let Step::Leave { cut, .. } = course.step(now, 3) else {
        panic!("it stays")
    };
    assert_eq!((cut.leased, cut.own), (Some(4), 3));
    assert!(!cut.is_nothing());
}

#[test]
fn a_drain_without_a_gateway_ends_when_it_would_be_taken_for_gone() {
    let mut course = running();
    course.drain(1_000);
    let mut now = 1_000;
    loop {
        match course.step(now, 0) {
            Step::Beat { .. } => course.hear(now, now, true, Heard::Failed, 1.0),
            Step::Wait(until) => now = until,
            Step::End(cut) => {
                assert_eq!(cut.leased, None);
                break;
            },
            other => panic!("{other:?}"),
        }
    }
    assert!((16_000..40_000).contains(&now), "{now}");
}

#[test]
fn without_a_session_a_drain_waits_for_its_own_requests_alone() {
    let mut course = Course::new(Some(SWEEP), LIMIT);
    course.drain(0);
    assert_eq!(course.step(0, 1), Step::Wait(LIMIT));
    let Step::End(cut) = course.step(1, 0) else {
        panic!("it stays")
    };
    assert!(cut.is_nothing());
    // The same when a gateway forgot it meanwhile: it does not come back for a moment.
    let mut course = running();
    course.drain(10);
    beat(&mut course, 10, 0);
    course.hear(10, 10, true, Heard::Reregister, 1.0);
    assert!(matches!(course.step(10, 0), Step::End(_)));
}

#[derive(Clone, Debug)]
enum Event {
    Answer(u8),
    Pass(u64),
    Own(u64),
    Hurry,
    Drain,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0u8..5).prop_map(Event::Answer),
        3 => (0u64..20_000).prop_map(Event::Pass),
        1 => (0u64..3).prop_map(Event::Own),
        1 => Just(Event::Hurry),
        1 => Just(Event::Drain),
    ]
}

proptest! {
    /// Whatever happens: numbers grow within a session, calls are not repeated without a wait, a
    /// drain never turns back, never registers, never cuts before its limit, and comes to its end.
    #[test]
    fn whatever_happens_it_stays_on_course(events in proptest::collection::vec(event(), 0..200), start in 0u64..1 << 40) {
        let mut course = Course::new(Some(SWEEP), LIMIT);
        let (mut now, mut own, mut seq) = (start, 0, 0);
        let mut drain: Option<u64> = None;
        let finish = (0..2_000).map(|n| if n % 2 == 0 { Event::Answer(1) } else { Event::Pass(1_000) });
        for event in events.into_iter().chain([Event::Own(0), Event::Drain]).chain(finish) {
            match event {
                Event::Pass(ms) => now += ms,
                Event::Own(n) => own = n,
                Event::Hurry => course.hurry(now),
                Event::Drain => {
                    course.drain(now);
                    drain.get_or_insert(now);
                },
                Event::Answer(kind) => {
                    let heard = |registers: bool| match (kind, registers) {
                        (0, _) => Heard::Failed,
                        (1, true) => registered(),
                        (1, false) => taken(own),
                        (2, true) => Heard::NotBefore(10),
                        (2, false) => taken(0),
                        (3, false) => Heard::Reregister,
                        (_, true) => registered(),
                        (_, false) => taken(1),
                    };
                    match course.step(now, own) {
                        Step::Wait(until) => prop_assert!(until > now),
                        Step::Register => {
                            prop_assert_eq!(drain, None);
                            seq = 0;
                            course.hear(now, now, false, heard(true), 0.5);
                        },
                        Step::Beat { seq: next, draining, .. } => {
                            prop_assert!(next > seq || next == 1);
                            seq = next;
                            prop_assert_eq!(draining, drain.is_some());
                            course.hear(now, now, draining, heard(false), 0.5);
                        },
                        Step::Leave { cut, .. } | Step::End(cut) => {
                            let since = drain.expect("it leaves only when told to");
                            prop_assert!(cut.own == 0 || now >= since + LIMIT);
                            prop_assert!(cut.leased.unwrap_or(0) == 0 || now >= since + LIMIT);
                            return Ok(());
                        },
                    }
                },
            }
        }
        prop_assert!(false, "it never left");
    }
}

/// When an agent that drains and was told this in its beats sends the next one.
fn first_look(own: Option<u64>, told: Option<u64>) -> u64 {
    let mut course = Course::new(own, LIMIT);
    let pace = Pace {
        sweep_ms: told,
        ..PACE
    };
    let session = "s".into();
    course.hear(0, 0, false, Heard::Registered { session, pace }, 1.0);
    let taken = Heard::Taken { pace, leased: 0 };
    course.drain(0);
    assert_eq!(beat(&mut course, 0, 0), (1, true));
    course.hear(0, 0, true, taken, 1.0);
    match course.step(0, 0) {
        Step::Wait(until) => until,
        other => panic!("{other:?}"),
    }
}

#[test]
fn it_waits_for_the_gateways_own_sweep_unless_it_was_set_otherwise() {
    assert_eq!(first_look(None, Some(2_000)), 2_000);
    assert_eq!(first_look(None, None), 5_000, "an older gateway tells none");
    assert_eq!(first_look(Some(1_000), Some(2_000)), 1_000);
    assert_eq!(first_look(None, Some(0)), 1_000, "no beat is closer");
    // Longer than a beat: it beats meanwhile, so that it is not taken for gone.
    assert_eq!(first_look(None, Some(u64::MAX)), 5_000);
}
