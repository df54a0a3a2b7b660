use proptest::prelude::*;

use super::*;

const ROLL: f64 = 0.5;
const S: Duration = Duration::from_secs(1);

fn refused() -> Event {
    Event::Failed(Failure::Status(503))
}

fn start(candidates: usize) -> (Dispatch, Action) {
    let (mut d, first) = Dispatch::new(Effort::Budget);
    assert_eq!(first, Action::Resolve);
    let a = d.on(
        Event::Resolved {
            candidates,
            held: false,
        },
        Duration::ZERO,
        ROLL,
    );
    (d, a)
}

fn found(candidates: usize, held: bool) -> Event {
    Event::Resolved { candidates, held }
}

#[test]
fn a_round_goes_down_all_of_a_chain_that_is_longer_than_the_bound() {
    let (mut d, _) = Dispatch::along_chain();
    let mut a = d.on(found(8, false), Duration::ZERO, ROLL);
    for n in 0..8 {
        let last = n == 7;
        assert_eq!(a, Action::Send { candidate: n, last });
        a = d.on(refused(), S, ROLL);
    }
    let failed = Answer::Attempt(Failure::Status(503));
    assert_eq!(a, Action::Answer(failed));
    // A short one keeps the bound.
    let (mut d, _) = Dispatch::along_chain();
    let _ = d.on(found(2, false), Duration::ZERO, ROLL);
    let _ = d.on(refused(), S, ROLL);
    assert!(matches!(d.on(refused(), S, ROLL), Action::Wait(_)));
    assert_eq!(d.dispatched(), 2);
}

#[test]
fn a_chain_of_which_every_target_refuses_the_account_is_answered_in_one_round() {
    let (mut d, _) = Dispatch::along_chain();
    let _ = d.on(found(2, false), Duration::ZERO, ROLL);
    assert_eq!(
        d.judge_provider(401),
        Verdict::Retry,
        "there is another one"
    );
    let _ = d.on(Event::Failed(Failure::Status(401)), S, ROLL);
    assert_eq!(d.judge_provider(404), Verdict::Answer);
    assert_eq!(
        d.judge_provider(429),
        Verdict::Retry,
        "it may go well later"
    );
    assert_eq!(d.judge_provider(400), Verdict::Answer);
    // One that failed otherwise may be better in the next round.
    let (mut d, _) = Dispatch::along_chain();
    let _ = d.on(found(2, false), Duration::ZERO, ROLL);
    let _ = d.on(refused(), S, ROLL);
    assert_eq!(d.judge_provider(401), Verdict::Retry);
    // And so may one that rests.
    let (mut d, _) = Dispatch::along_chain();
    let _ = d.on(found(1, true), Duration::ZERO, ROLL);
    assert_eq!(d.judge_provider(401), Verdict::Retry);
}

#[test]
fn a_request_that_would_not_live_to_see_the_end_of_a_rest_is_told_at_once() {
    let busy = Action::Answer(Answer::Exhausted(Exhausted::Busy));
    for (rest, want) in [(599, None), (600, Some(busy)), (9_000, Some(busy))] {
        let (mut d, _) = Dispatch::along_chain();
        d.nobody_before(Some(S * rest));
        let a = d.on(found(0, true), Duration::ZERO, ROLL);
        match want {
            Some(want) => assert_eq!(a, want, "{rest}"),
            None => assert!(matches!(a, Action::Wait(_)), "{rest}"),
        }
    }
}

#[test]
fn no_owner_at_admission_is_a_502_at_once() {
    assert_eq!(start(0).1, Action::Answer(Answer::NoCandidate));
}

#[test]
fn a_sole_owner_gets_all_five_dispatches_with_growing_waits() {
    let (mut d, mut a) = start(1);
    let mut now = Duration::ZERO;
    let mut waits = vec![];
    for n in 1..=5 {
        assert_eq!(
            a,
            Action::Send {
                candidate: 0,
                last: n == 5
            }
        );
        if n == 5 {
            break;
        }
        let Action::Wait(w) = d.on(refused(), now, ROLL) else {
            panic!("no wait")
        };
        waits.push(w.as_secs());
        now += w;
        assert_eq!(d.on(Event::Woke, now, ROLL), Action::Resolve);
        a = d.on(found(1, false), now, ROLL);
    }
    assert_eq!(waits, [1, 2, 4, 8]);
    assert_eq!(
        d.judge(503),
        Verdict::Answer,
        "the fifth attempt answers for itself"
    );
    assert_eq!(
        d.on(Event::Failed(Failure::NoContent), now, ROLL),
        Action::Answer(Answer::Attempt(Failure::NoContent))
    );
}

#[test]
fn there_is_no_wait_between_candidates_of_one_round() {
    let (mut d, a) = start(3);
    assert_eq!(
        a,
        Action::Send {
            candidate: 0,
            last: false
        }
    );
    assert_eq!(
        d.on(refused(), S, ROLL),
        Action::Send {
            candidate: 1,
            last: false
        }
    );
    assert_eq!(
        d.on(refused(), S, ROLL),
        Action::Send {
            candidate: 2,
            last: false
        }
    );
    assert_eq!(d.on(refused(), S, ROLL), Action::Wait(S * 4));
}

#[test]
fn slow_failures_end_at_the_deadline_with_budget_unspent() {
    let (mut d, _) = start(1);
    let mut now = Duration::ZERO;
    for _ in 0..2 {
        now += S * 240;
        let Action::Wait(w) = d.on(Event::Failed(Failure::NoContent), now, ROLL) else {
            panic!("no wait")
        };
        now += w;
        assert_eq!(d.on(Event::Woke, now, ROLL), Action::Resolve);
        let a = d.on(found(1, false), now, ROLL);
        assert_eq!(
            a,
            Action::Send {
                candidate: 0,
                last: false
            }
        );
    }
    now += S * 240;
    assert_eq!(
        d.on(Event::Failed(Failure::NoContent), now, ROLL),
        Action::Answer(Answer::Exhausted(Exhausted::Deadline))
    );
    assert_eq!(d.dispatched(), 3);
}

#[test]
fn waiting_for_an_owner_costs_no_attempt_and_ends_at_the_deadline() {
    let (mut d, _) = start(1);
    let mut now = Duration::ZERO;
    let mut a = d.on(refused(), now, ROLL);
    let mut rounds = 0;
    loop {
        match a {
            Action::Wait(w) => {
                assert!(
                    w <= S,
                    "the pace is the step for the dispatches already made"
                );
                now += w;
                a = d.on(Event::Woke, now, ROLL);
            },
            Action::Resolve => {
                rounds += 1;
                a = d.on(found(0, false), now, ROLL);
            },
            other => {
                assert_eq!(other, Action::Answer(Answer::Exhausted(Exhausted::NoOwner)));
                break;
            },
        }
    }
    assert_eq!((d.dispatched(), now), (1, budget::JOB_DEADLINE));
    assert!(rounds > 500);
}

#[test]
fn an_owner_that_comes_back_is_used() {
    let (mut d, _) = start(1);
    let _ = d.on(refused(), S, ROLL);
    assert_eq!(d.on(Event::Woke, S * 2, ROLL), Action::Resolve);
    assert!(matches!(
        d.on(found(0, false), S * 2, ROLL),
        Action::Wait(_)
    ));
    assert_eq!(d.on(Event::Woke, S * 3, ROLL), Action::Resolve);
    assert_eq!(
        d.on(found(2, false), S * 3, ROLL),
        Action::Send {
            candidate: 0,
            last: false
        }
    );
}

#[test]
fn candidates_that_left_meanwhile_cost_no_attempt() {
    let (mut d, _) = start(5);
    let mut a = d.on(Event::Failed(Failure::TargetGone), S, ROLL);
    for candidate in 1..5 {
        assert_eq!(
            a,
            Action::Send {
                candidate,
                last: false
            }
        );
        a = d.on(Event::Gone, S, ROLL);
    }
    assert_eq!((a, d.dispatched()), (Action::Wait(S), 1));
    let (mut d, _) = Dispatch::new(Effort::OnePass);
    let _ = d.on(found(1, false), S, ROLL);
    assert_eq!(
        d.on(Event::Gone, S, ROLL),
        Action::Answer(Answer::Attempt(Failure::TargetGone))
    );
}

#[test]
fn a_one_pass_request_tries_each_candidate_once() {
    let (mut d, _) = Dispatch::new(Effort::OnePass);
    let now = S * 9_999;
    assert_eq!(
        d.on(found(2, false), now, ROLL),
        Action::Send {
            candidate: 0,
            last: false
        }
    );
    assert_eq!(d.judge(503), Verdict::Retry);
    assert_eq!(
        d.judge(404),
        Verdict::Answer,
        "404 is retried on inference only"
    );
    assert_eq!(
        d.on(Event::Failed(Failure::Transport), now, ROLL),
        Action::Send {
            candidate: 1,
            last: true
        }
    );
    assert_eq!(d.judge(503), Verdict::Answer);
    assert_eq!(
        d.on(Event::Failed(Failure::Transport), now, ROLL),
        Action::Answer(Answer::Attempt(Failure::Transport))
    );
    let (mut d, _) = Dispatch::new(Effort::OnePass);
    assert_eq!(
        d.on(found(0, false), now, ROLL),
        Action::Answer(Answer::NoCandidate)
    );
}

#[test]
fn unsupported_everywhere_in_two_rounds_is_the_answer() {
    let unsupported = Event::Failed(Failure::Status(501));
    // A sole owner: two dispatches.
    let (mut d, _) = start(1);
    assert_eq!(d.judge(501), Verdict::Retry);
    let _ = d.on(unsupported, S, ROLL);
    let _ = d.on(Event::Woke, S * 2, ROLL);
    let _ = d.on(found(1, false), S * 2, ROLL);
    assert_eq!(d.judge(501), Verdict::Answer);
    assert_eq!(d.dispatched(), 2);
    // Two owners, one of which failed otherwise: no such shortcut.
    let (mut d, _) = start(2);
    let _ = d.on(unsupported, S, ROLL);
    let _ = d.on(refused(), S, ROLL);
    let _ = d.on(Event::Woke, S * 3, ROLL);
    let _ = d.on(found(2, false), S * 3, ROLL);
    assert_eq!(d.judge(501), Verdict::Retry);
    let _ = d.on(unsupported, S * 3, ROLL);
    assert_eq!(
        d.judge(501),
        Verdict::Retry,
        "the round before was not all 501"
    );
    // Two owners, all 501 twice: the fourth dispatch answers.
    let (mut d, _) = start(2);
    let _ = d.on(unsupported, S, ROLL);
    let _ = d.on(unsupported, S, ROLL);
    let _ = d.on(Event::Woke, S * 3, ROLL);
    let _ = d.on(found(2, false), S * 3, ROLL);
    assert_eq!(
        d.judge(501),
        Verdict::Retry,
        "the other owner was not asked yet"
    );
    let _ = d.on(unsupported, S * 3, ROLL);
    assert_eq!(d.judge(501), Verdict::Answer);
}

#[test]
fn an_owner_that_was_not_asked_keeps_501_from_being_the_answer() {
    let unsupported = Event::Failed(Failure::Status(501));
    let rounds = [(false, false), (false, true), (true, false), (true, true)];
    for (first, second) in rounds {
        let (mut d, _) = Dispatch::new(Effort::Budget);
        let _ = d.on(found(1, first), S, ROLL);
        let _ = d.on(unsupported, S, ROLL);
        let _ = d.on(Event::Woke, S * 2, ROLL);
        let _ = d.on(found(1, second), S * 2, ROLL);
        let want = match first || second {
            true => Verdict::Retry,
            false => Verdict::Answer,
        };
        assert_eq!(d.judge(501), want, "held off: {first}, then {second}");
    }
    // The same where the pool held the request off on the way.
    let (mut d, _) = start(2);
    let _ = d.on(unsupported, S, ROLL);
    let _ = d.on(unsupported, S, ROLL);
    let _ = d.on(Event::Woke, S * 2, ROLL);
    let _ = d.on(found(2, false), S * 2, ROLL);
    let _ = d.on(Event::Held(Withheld::Busy), S * 2, ROLL);
    assert_eq!(d.judge(501), Verdict::Retry);
}

#[test]
fn the_deadline_says_what_held_the_request_off() {
    let end = budget::JOB_DEADLINE;
    let reasons = [
        (Withheld::Busy, Exhausted::Busy),
        (Withheld::StoreDown, Exhausted::StoreDown),
    ];
    for (why, want) in reasons {
        let (mut d, _) = start(1);
        let _ = d.on(refused(), S, ROLL);
        let _ = d.on(Event::Woke, S * 2, ROLL);
        let _ = d.on(found(1, false), S * 2, ROLL);
        let a = d.on(Event::Held(why), S * 2, ROLL);
        assert!(matches!(a, Action::Wait(_)), "something was sent: {why:?}");
        let exhausted = Answer::Exhausted(want);
        assert_eq!(d.on(Event::Woke, end, ROLL), Action::Answer(exhausted));
    }
}

proptest! {
    #[test]
    fn the_bounds_hold_whatever_happens(
        steps in prop::collection::vec(
            (0usize..4, any::<bool>(), 0u64..200, 0u8..9, 0.0f64..1.0),
            1..60,
        )
    ) {
        let (mut d, mut action) = Dispatch::new(Effort::Budget);
        let mut now = Duration::ZERO;
        // What really reached a node: neither a withheld request nor one for a node that left did.
        let mut sent = 0;
        for (candidates, held, secs, event, roll) in steps {
            action = match action {
                Action::Resolve => d.on(found(candidates, held), now, roll),
                Action::Send { candidate, last } => {
                    prop_assert!(sent < 5);
                    prop_assert_eq!(last, sent == 4);
                    prop_assert!(candidate < 4);
                    prop_assert!(now < budget::JOB_DEADLINE, "no attempt starts after the deadline");
                    now += S * secs as u32;
                    let event = match event {
                        0 => Event::Failed(Failure::Status(503)),
                        1 => Event::Failed(Failure::Transport),
                        2 => Event::Failed(Failure::NoContent),
                        3 => Event::Failed(Failure::Status(501)),
                        4 => Event::Failed(Failure::TargetGone),
                        5 => Event::Failed(Failure::Broken),
                        6 => Event::Gone,
                        7 => Event::Held(Withheld::Busy),
                        _ => Event::Held(Withheld::StoreDown),
                    };
                    sent += u32::from(matches!(event, Event::Failed(_)));
                    d.on(event, now, roll)
                },
                Action::Wait(w) => {
                    prop_assert!(w <= S * 10);
                    now += w;
                    d.on(Event::Woke, now, roll)
                },
                Action::Answer(answer) => {
                    match answer {
                        Answer::NoCandidate => prop_assert_eq!(sent, 0),
                        Answer::Attempt(_) => prop_assert_eq!(sent, 5),
                        Answer::Exhausted(Exhausted::StoreDown) => {},
                        Answer::Exhausted(_) => prop_assert!(now >= budget::JOB_DEADLINE),
                        other => prop_assert!(false, "{:?} is the driver's to find", other),
                    }
                    return Ok(());
                },
            };
            let under_way = u32::from(matches!(action, Action::Send { .. }));
            prop_assert_eq!(d.dispatched(), sent + under_way);
        }
    }
}
