//! Somebody leaves, stops reading or falls silent.

use std::sync::atomic::Ordering;
use std::time::Duration;

use nvpair_proxy::rules::budget::Cap;
use nvpair_proxy::rules::workload::State;
use nvpair_proxy::state::activity::EVERY;
use nvpair_proxy::state::settings::RequestSettings;
use tokio::time::sleep;

use crate::world::{
    Answer, Lane, Step, World, chunk, last_chunk, on_both_lanes, status, stream_head,
};

const S: Duration = Duration::from_secs(1);
const MIN: Duration = Duration::from_secs(60);

fn defaults() -> RequestSettings {
    RequestSettings::default()
}

/// The client left at this moment: everything was over within a second of it, and stays so.
async fn is_cancelled(world: &World, left: Duration, dispatches: usize) {
    let (state, error, at) = world.end().await;
    let why = "client disconnected before completion";
    assert_eq!((state, error.as_deref()), (State::Cancelled, Some(why)));
    assert!(at <= left + S, "{at:?} behind {left:?}");
    sleep(MIN * 30).await;
    assert_eq!(world.dials().len(), dispatches, "no further attempt");
    world.is_over(State::Cancelled).await;
}

#[test]
fn a_client_that_leaves_while_headers_are_awaited() {
    on_both_lanes(async |lane| {
        let world = World::new(lane, defaults(), vec![(1, vec![vec![Step::Hold]])]);
        let client = world.ask().await;
        sleep(MIN * 20).await;
        drop(client);
        is_cancelled(&world, MIN * 20, 1).await;
        assert!(world.closed()[0] <= MIN * 20 + S);
    });
}

#[test]
fn a_client_that_leaves_while_content_is_awaited() {
    on_both_lanes(async |lane| {
        let script = vec![stream_head(), chunk(":\n\n"), Step::Hold];
        let world = World::new(lane, defaults(), vec![(1, vec![script])]);
        let client = world.ask().await;
        sleep(MIN * 20).await;
        drop(client);
        is_cancelled(&world, MIN * 20, 1).await;
        assert!(world.closed()[0] <= MIN * 20 + S);
    });
}

#[test]
fn a_client_that_leaves_between_two_attempts() {
    on_both_lanes(async |lane| {
        let world = World::new(lane, defaults(), vec![(1, vec![status(503, "busy")])]);
        let client = world.ask().await;
        // The first pause is 0.75 s at least.
        sleep(S / 2).await;
        drop(client);
        is_cancelled(&world, S / 2, 1).await;
    });
}

#[test]
fn a_client_that_leaves_while_an_owner_is_waited_for() {
    on_both_lanes(async |lane| {
        let mut script = vec![Step::Leave];
        script.extend(status(503, "bye"));
        let world = World::new(lane, defaults(), vec![(1, vec![script])]);
        let client = world.ask().await;
        sleep(MIN * 5).await;
        drop(client);
        is_cancelled(&world, MIN * 5, 1).await;
    });
}

#[test]
fn a_client_that_leaves_in_a_silent_stream() {
    on_both_lanes(async |lane| {
        let script = vec![stream_head(), chunk("data: 1\n\n"), Step::Hold];
        let world = World::new(lane, defaults(), vec![(1, vec![script])]);
        let client = world.ask().await;
        sleep(MIN * 90).await;
        drop(client);
        is_cancelled(&world, MIN * 90, 1).await;
        assert!(world.closed()[0] <= MIN * 90 + S);
    });
}

#[test]
fn a_client_that_stops_reading_has_thirty_seconds_a_write() {
    on_both_lanes(async |lane| {
        let long = "x".repeat(1000);
        let mut script = vec![stream_head()];
        script.extend((0..200).map(|_| chunk(&format!("data: {long}\n\n"))));
        script.push(Step::Hold);
        let world = World::new(lane, defaults(), vec![(1, vec![script])]);
        let client = world.ask().await;
        let (state, error, at) = world.end().await;
        assert_eq!(state, State::Cancelled);
        let error = error.unwrap_or_default();
        assert!(error.contains("longer than 30 s"), "{error}");
        assert!(at >= S * 30 && at <= S * 31, "{at:?}");
        sleep(S).await;
        assert!(world.closed()[0] <= S * 31);
        world.is_over(State::Cancelled).await;
        drop(client);
    });
}

#[test]
fn a_silent_stream_is_cut_only_where_that_was_asked_for() {
    on_both_lanes(async |lane| {
        let first = [stream_head(), chunk("data: 1\n\n"), Step::Wait(S * 50)];
        let more = [chunk("data: 2\n\n"), Step::Hold];
        let script: Vec<_> = first.into_iter().chain(more).collect();
        let settings = RequestSettings {
            stream_idle_cap: Cap::After(MIN),
            ..defaults()
        };
        let world = World::new(lane, settings, vec![(1, vec![script])]);
        let answer = world.chat().await;
        // Each piece begins the silence anew.
        let at = S * 50 + MIN;
        assert!(answer.at >= at && answer.at <= at + S, "{answer:?}");
        assert!(!answer.whole && answer.body.contains("data: 2"));
        world.is_over(State::Completed).await;
        let script = vec![
            stream_head(),
            chunk("data: 1\n\n"),
            Step::Wait(MIN * 60 * 10),
            chunk("data: 2\n\n"),
            last_chunk(),
        ];
        let world = World::new(lane, defaults(), vec![(1, vec![script])]);
        let answer = world.chat().await;
        assert!(answer.whole && answer.at >= MIN * 60 * 10);
        world.is_over(State::Completed).await;
    });
}

#[test]
fn a_node_that_leaves_discovery_loses_its_attempt_at_once() {
    loses_its_attempt(|world| world.leaves(1));
}

#[test]
fn a_node_that_misses_its_probes_loses_its_attempt_at_once() {
    loses_its_attempt(|world| world.is_down(1));
}

fn loses_its_attempt(away: impl Fn(&World)) {
    on_both_lanes(async |lane| {
        let scripts = vec![
            (1, vec![vec![stream_head(), Step::Hold]]),
            (2, vec![status(200, "{}")]),
        ];
        let world = World::new(lane, defaults(), scripts);
        let mut client = world.ask().await;
        sleep(MIN * 9).await;
        away(&world);
        let answer = world.answer(&mut client).await;
        assert_eq!((answer.status, world.dialled()), (200, vec![1, 2]));
        assert!(answer.at <= MIN * 9 + S);
        world.is_over(State::Completed).await;
    });
}

/// Nobody looks at a waiting request as long as nothing happens: no timer, no polling.
#[test]
fn a_watcher_sleeps_while_discovery_is_quiet() {
    on_both_lanes(async |lane| {
        let settings = RequestSettings {
            response_cap: Cap::Off,
            ..defaults()
        };
        let world = World::new(
            lane,
            settings,
            vec![(1, vec![vec![Step::Hold]]), (2, vec![])],
        );
        let (client, looks) = world.send("/v1/chat/completions").await;
        sleep(S).await;
        let before = looks.load(Ordering::Relaxed);
        sleep(MIN * 60).await;
        assert_eq!(looks.load(Ordering::Relaxed), before, "an hour of silence");
        // It does wake for a change, and finds that it is not its own.
        world.leaves(2);
        sleep(S).await;
        let after = looks.load(Ordering::Relaxed);
        assert!(after > before && after <= before + 3, "{before} {after}");
        assert!(world.closed().is_empty());
        drop(client);
        assert_eq!(world.end().await.0, State::Cancelled);
    });
}

/// The answer is there, and then there is a bug. Returns the client's answer.
async fn after_a_panic(lane: Lane, nth: usize) -> Answer {
    let pause = Step::Wait(EVERY * 2);
    let first = [stream_head(), chunk("data: 1\n\n"), pause.clone()];
    let more = [chunk("data: 2\n\n"), pause, last_chunk()];
    let script = first.into_iter().chain(more).collect();
    let scripts = vec![(1, vec![script, status(200, "{}")])];
    let world = World::new(lane, defaults(), scripts);
    world.panics_at(nth);
    let answer = world.chat().await;
    let (state, error, _) = world.end().await;
    let why = "request handler exited before completion";
    assert_eq!((state, error.as_deref()), (State::Failed, Some(why)));
    world.is_over(State::Failed).await;
    assert_eq!(world.chat().await.status, 200, "it serves on");
    answer
}

#[test]
fn a_panic_in_a_stream_cuts_it_and_nothing_else() {
    on_both_lanes(async |lane| {
        let answer = after_a_panic(lane, 2).await;
        assert!(answer.status == 200 && !answer.whole, "{answer:?}");
        assert!(answer.body.contains("data: 1"));
    });
}

#[test]
fn a_panic_before_the_first_byte_is_answered() {
    on_both_lanes(async |lane| {
        let answer = after_a_panic(lane, 1).await;
        assert_eq!(answer.status, 500);
        assert!(answer.body.contains("internal error"), "{answer:?}");
    });
}
