//! How long a request is tried, and what ends it.

use std::time::Duration;

use nvpair_proxy::rules::budget::Cap;
use nvpair_proxy::rules::workload::State;
use nvpair_proxy::state::settings::RequestSettings;
use tokio::time::sleep;

use crate::world::{
    Answer, Lane, Step, World, chunk, last_chunk, on_both_lanes, say, status, stream_head,
};

const S: Duration = Duration::from_secs(1);
const MIN: Duration = Duration::from_secs(60);

/// The defaults of the product: 30 minutes for headers, and again for content.
fn defaults() -> RequestSettings {
    RequestSettings::default()
}

fn capped(cap: Duration) -> RequestSettings {
    RequestSettings {
        response_cap: Cap::After(cap),
        ..RequestSettings::default()
    }
}

/// Attempts that take `each` are followed by 1, 2, 4 and 8 seconds, a quarter more or less.
fn are_spaced(dials: &[Duration], each: Duration) {
    for (n, pair) in dials.windows(2).enumerate() {
        let (step, gap) = (S * (1 << n), pair[1] - pair[0] - each);
        let slack = Duration::from_millis(2);
        let right = gap + slack >= step * 3 / 4 && gap <= step * 5 / 4 + slack;
        assert!(right, "{gap:?} where {step:?} was due; {dials:?}");
    }
}

fn near(is: Duration, due: Duration) {
    let slack = Duration::from_millis(20);
    assert!(
        is + slack >= due && is <= due + slack,
        "{is:?}, not {due:?}"
    );
}

/// A 503 of ours that says when to come back, and why.
fn ran_out(answer: &Answer, why: &str) {
    assert_eq!(answer.status, 503, "{answer:?}");
    let head = answer.head.to_ascii_lowercase();
    assert!(head.contains("\r\nretry-after: "), "{answer:?}");
    assert!(answer.body.contains(why), "{answer:?}");
}

#[test]
fn five_refusals_are_spread_over_fifteen_seconds_and_the_last_is_the_answer() {
    on_both_lanes(async |lane| {
        let world = World::new(lane, defaults(), vec![(1, vec![status(503, "busy")])]);
        let answer = world.chat().await;
        assert_eq!((answer.status, answer.body.as_str()), (503, "busy"));
        assert!(!answer.head.to_ascii_lowercase().contains("retry-after"));
        let dials = world.dials();
        assert_eq!(dials.len(), 5);
        are_spaced(&dials, Duration::ZERO);
        world.is_over(State::Failed).await;
    });
}

#[test]
fn a_dial_has_ten_seconds() {
    on_both_lanes(async |lane| {
        let world = World::new(lane, defaults(), vec![(1, vec![vec![Step::NoDial]])]);
        let answer = world.chat().await;
        assert_eq!(answer.status, 502);
        let dials = world.dials();
        assert_eq!(dials.len(), 5);
        are_spaced(&dials, S * 10);
        near(answer.at, dials[4] + S * 10);
        world.is_over(State::Failed).await;
    });
}

#[test]
fn a_slow_dial_a_slow_head_and_slow_content_each_have_their_own_time() {
    on_both_lanes(async |lane| {
        let script = vec![
            Step::DialIn(S * 9),
            Step::Wait(MIN * 29),
            stream_head(),
            Step::Wait(MIN * 29),
            chunk("data: 1\n\n"),
            last_chunk(),
        ];
        let world = World::new(lane, defaults(), vec![(1, vec![script])]);
        let answer = world.chat().await;
        // Long past the ten minutes: an attempt under way is never cut.
        near(answer.at, S * 9 + MIN * 58);
        assert_eq!((answer.status, world.dials().len()), (200, 1));
        world.is_over(State::Completed).await;
    });
}

#[test]
fn headers_have_thirty_minutes_and_behind_the_deadline_nothing_is_tried() {
    on_both_lanes(async |lane| {
        let world = World::new(lane, defaults(), vec![(1, vec![vec![Step::Hold]])]);
        let answer = world.chat().await;
        near(answer.at, MIN * 30);
        ran_out(&answer, "deadline");
        assert_eq!(world.dials().len(), 1);
        near(world.closed()[0], MIN * 30);
        world.is_over(State::Failed).await;
    });
}

#[test]
fn content_has_thirty_minutes_from_the_headers() {
    on_both_lanes(async |lane| {
        let script = vec![Step::Wait(MIN), stream_head(), Step::Hold];
        let world = World::new(lane, defaults(), vec![(1, vec![script])]);
        let answer = world.chat().await;
        near(answer.at, MIN * 31);
        ran_out(&answer, "deadline");
        world.is_over(State::Failed).await;
    });
}

#[test]
fn framing_does_not_lengthen_the_wait_for_content() {
    on_both_lanes(async |lane| {
        let beat = [Step::Wait(S * 25), chunk(":\n\n")];
        let beats = std::iter::repeat_n(beat, 100).flatten();
        let script: Vec<_> = [stream_head()].into_iter().chain(beats).collect();
        let world = World::new(lane, capped(MIN), vec![(1, vec![script])]);
        let answer = world.chat().await;
        let dials = world.dials();
        assert_eq!((answer.status, dials.len()), (504, 5));
        are_spaced(&dials, MIN);
        // The last attempt does not commit either.
        near(answer.at, dials[4] + MIN);
        assert!(!answer.body.contains(":\n\n"));
        world.is_over(State::Failed).await;
    });
}

#[test]
fn no_headers_on_the_last_attempt_are_a_502() {
    on_both_lanes(async |lane| {
        let world = World::new(lane, capped(MIN), vec![(1, vec![vec![Step::Hold]])]);
        let answer = world.chat().await;
        assert_eq!((answer.status, world.dials().len()), (502, 5));
        are_spaced(&world.dials(), MIN);
        world.is_over(State::Failed).await;
    });
}

#[test]
fn a_cap_of_zero_waits_for_ever() {
    on_both_lanes(async |lane| {
        let settings = RequestSettings {
            response_cap: Cap::from_setting(Duration::ZERO),
            ..defaults()
        };
        let (head, body) = ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "{}");
        let day = MIN * 60 * 6;
        let script = vec![Step::Wait(day), say(head), Step::Wait(day), say(body)];
        let world = World::new(lane, settings, vec![(1, vec![script])]);
        let answer = world.chat().await;
        near(answer.at, day * 2);
        assert_eq!((answer.status, world.dials().len()), (200, 1));
    });
}

#[test]
fn the_deadline_is_asked_before_every_dispatch() {
    on_both_lanes(async |lane| {
        // 0, 4 and 8 minutes: the third ends behind the deadline.
        let world = World::new(lane, capped(MIN * 4), vec![(1, vec![vec![Step::Hold]])]);
        let answer = world.chat().await;
        assert_eq!(world.dials().len(), 3);
        are_spaced(&world.dials(), MIN * 4);
        near(answer.at, world.dials()[2] + MIN * 4);
        ran_out(&answer, "deadline");
        // Within a round too: the second node's turn would be at twelve minutes.
        let hold = || vec![vec![Step::Hold]];
        let nodes = vec![(1, hold()), (2, hold()), (3, hold())];
        let world = World::new(lane, capped(MIN * 6), nodes);
        let answer = world.chat().await;
        assert_eq!(world.dialled(), [1, 2]);
        near(answer.at, MIN * 12);
        ran_out(&answer, "deadline");
        world.is_over(State::Failed).await;
    });
}

#[test]
fn nobody_is_waited_for_before_a_dispatch() {
    on_both_lanes(async |lane| {
        let world = World::new(lane, defaults(), vec![]);
        let answer = world.chat().await;
        assert_eq!((answer.status, answer.at), (502, Duration::ZERO));
    });
}

/// Refuses once, and is gone with that.
fn leaves() -> Vec<Step> {
    let mut script = vec![Step::Leave];
    script.extend(status(503, "bye"));
    script
}

#[test]
fn an_owner_that_went_is_waited_for_until_the_deadline() {
    on_both_lanes(async |lane| {
        let world = World::new(lane, defaults(), vec![(1, vec![leaves()])]);
        let answer = world.chat().await;
        near(answer.at, MIN * 10);
        ran_out(
            &answer,
            "no node advertising the requested model became available",
        );
        assert_eq!(world.dials().len(), 1, "waiting is no attempt");
        world.is_over(State::Failed).await;
    });
}

#[test]
fn an_owner_that_comes_back_in_the_ninth_minute_serves() {
    on_both_lanes(async |lane| {
        let scripts = vec![(1, vec![leaves(), status(200, "{}")])];
        let world = World::new(lane, defaults(), scripts);
        let mut client = world.ask().await;
        sleep(MIN * 9).await;
        assert_eq!(world.dials().len(), 1);
        world.joins(1);
        let answer = world.answer(&mut client).await;
        assert_eq!((answer.status, world.dials().len()), (200, 2));
        assert!(answer.at <= MIN * 9 + S * 10, "{answer:?}");
        world.is_over(State::Completed).await;
    });
}

#[test]
fn another_route_asks_each_node_once_and_waits_for_nothing() {
    on_both_lanes(async |lane| {
        // Never carried as bytes: one lane is enough.
        if lane == Lane::Library {
            let refused = || vec![status(503, "no")];
            let nodes = vec![(1, vec![vec![Step::Refused]]), (2, refused())];
            let world = World::new(lane, defaults(), nodes);
            let (mut client, _) = world.send("/v1/other").await;
            let answer = world.answer(&mut client).await;
            assert_eq!((answer.status, answer.at), (503, Duration::ZERO));
            assert_eq!(world.dialled(), [1, 2]);
        }
    });
}

/// What the fifth attempt came to is the answer: each row of the table that is no status.
#[test]
fn a_last_attempt_that_breaks_before_content_is_a_502() {
    on_both_lanes(async |lane| {
        let world = World::new(lane, defaults(), vec![(1, vec![vec![stream_head()]])]);
        let answer = world.chat().await;
        assert_eq!((answer.status, world.dials().len()), (502, 5));
        assert!(
            answer.body.contains("broke before any content"),
            "{answer:?}"
        );
        world.is_over(State::Failed).await;
    });
}

#[test]
fn a_last_attempt_whose_node_leaves_is_a_502() {
    on_both_lanes(async |lane| {
        let mut scripts = vec![status(503, "busy"); 4];
        scripts.push(vec![stream_head(), Step::Hold]);
        let world = World::new(lane, defaults(), vec![(1, scripts)]);
        let mut client = world.ask().await;
        sleep(MIN).await;
        assert_eq!(world.dials().len(), 5);
        world.leaves(1);
        let answer = world.answer(&mut client).await;
        assert_eq!(answer.status, 502);
        assert!(answer.body.contains("left discovery"), "{answer:?}");
        world.is_over(State::Failed).await;
    });
}

/// A plain success: admitted, placed, started, ended.
const SUCCESS: usize = 4;

#[test]
fn a_connection_that_was_closed_while_idle_costs_no_dispatch() {
    on_both_lanes(async |lane| {
        let world = World::new(lane, defaults(), vec![(1, vec![status(200, "{}")])]);
        for n in 1..3 {
            assert_eq!(world.chat().await.status, 200);
            world.end().await;
            assert_eq!((world.dials().len(), world.events()), (n, n * SUCCESS));
        }
        assert!(world.now() < S / 10, "no rest between: {:?}", world.now());
    });
}

#[test]
fn a_request_that_was_delivered_is_never_sent_again_unseen() {
    on_both_lanes(async |lane| {
        // The second request is read whole on the same connection, which then breaks.
        let mut first = status(200, "{}");
        first.push(Step::Again);
        let world = World::new(lane, defaults(), vec![(1, vec![first, status(200, "{}")])]);
        assert_eq!(world.chat().await.status, 200);
        world.end().await;
        assert_eq!(world.chat().await.status, 200);
        world.end().await;
        assert_eq!(world.dials().len(), 2, "the pool was used");
        // Cleared and placed anew, behind a rest: a dispatch like any other.
        assert_eq!(world.events(), 2 * SUCCESS + 2);
        assert!(world.now() > S / 2, "{:?}", world.now());
    });
}
