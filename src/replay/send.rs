//! `replay --send`: synthetic requests at the recorded pace, through this daemon's own facades.
//!
//! Owns: the pace, how many are under way at most, the comparison. Leaves to others: what is sent
//! (`rules::synthetic`), one request (`exchange`), when to stop (the caller).
//!
//! Requests are under way in the set of this future: dropping it, or stopping, hangs up on all.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::rules::replay::{Arrival, Speed, Unplaced};
use crate::rules::synthetic::{self, Shape, Synthetic};
use crate::state::shared::Shared;
use crate::wire::broker::WorkloadState;
use crate::wire::replay::{FailureCount, ReplayProgress, SentReport, Side, Skipped, Spread};

use super::exchange::{Ended, exchange};

/// Requests under way at once. What the recording wants beyond that is sent late, and told.
const MOST_IN_FLIGHT: usize = 256;

/// Progress is told this often.
const TICK: Duration = Duration::from_millis(200);

/// Sends arrivals, which are in order, until all ended or `stop` resolves.
pub async fn send(
    shared: &Shared,
    mark: u64,
    arrivals: &[Arrival],
    speed: Speed,
    stop: impl Future<Output = ()>,
    progress: impl Fn(ReplayProgress),
) -> SentReport {
    let mut sending = Sending::new(shared, mark, arrivals, speed);
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tokio::pin!(stop);
    loop {
        let due = sending.next_due();
        if due.is_none() && sending.under_way.is_empty() {
            break;
        }
        let room = sending.under_way.len() < MOST_IN_FLIGHT;
        tokio::select! {
            biased;
            () = &mut stop => {
                sending.report.cancelled = true;
                break;
            },
            Some(ended) = sending.under_way.join_next() => match ended {
                Ok((at, ended)) => sending.ended(at, ended),
                // A panic there is a fault of ours; it is in the log, and one request's end.
                Err(_) => sending.failed("an internal error".to_owned()),
            },
            () = sleep_until(due.unwrap_or(sending.begun)), if due.is_some() && room => {
                sending.send_next();
            },
            _ = tick.tick() => progress(sending.progress()),
        }
    }
    progress(sending.progress());
    sending.finish().await
}

struct Sending<'a> {
    shared: &'a Shared,
    mark: u64,
    arrivals: &'a [Arrival],
    /// Arrivals that can be sent, with the time since the first of all.
    plan: Vec<(usize, Duration)>,
    next: usize,
    begun: Instant,
    last_end: Instant,
    /// When the last one is expected to end.
    planned: Duration,
    under_way: JoinSet<(usize, Ended)>,
    report: SentReport,
    recorded: Measured,
    replayed: Measured,
    failures: BTreeMap<String, u64>,
}

impl<'a> Sending<'a> {
    fn new(shared: &'a Shared, mark: u64, arrivals: &'a [Arrival], speed: Speed) -> Self {
        let mut skipped: BTreeMap<&str, u64> = BTreeMap::new();
        let (mut plan, mut planned) = (Vec::new(), Duration::ZERO);
        let mut first = None;
        for (at, arrival) in arrivals.iter().enumerate() {
            match why_not(shared, arrival) {
                Some(reason) => *skipped.entry(reason).or_default() += 1,
                None => {
                    let first = *first.get_or_insert(arrival.created_at);
                    let since = Duration::from_millis(arrival.created_at.saturating_sub(first));
                    let due = speed.scale(since);
                    let held = Duration::from_millis(arrival.held_ms);
                    planned = planned.max(due.saturating_add(held));
                    plan.push((at, due));
                },
            }
        }
        let skipped = skipped.into_iter().map(|(reason, workloads)| Skipped {
            reason: reason.to_owned(),
            workloads,
        });
        let report = SentReport {
            skipped: skipped.collect(),
            ..SentReport::default()
        };
        let begun = Instant::now();
        Self {
            shared,
            mark,
            arrivals,
            plan,
            next: 0,
            begun,
            last_end: begun,
            planned,
            under_way: JoinSet::new(),
            report,
            recorded: Measured::default(),
            replayed: Measured::default(),
            failures: BTreeMap::new(),
        }
    }

    /// When the next one is to be sent. A recording of centuries has no such moment.
    fn next_due(&self) -> Option<Instant> {
        let (_, due) = self.plan.get(self.next)?;
        let never = || self.begun + Duration::from_secs(86_400 * 365);
        Some(self.begun.checked_add(*due).unwrap_or_else(never))
    }

    fn send_next(&mut self) {
        let (at, due) = self.plan[self.next];
        self.next += 1;
        let arrival = &self.arrivals[at];
        let mark = format!("replay {}-{}", self.mark, self.next);
        let Some(made) = made(arrival, &mark) else {
            return;
        };
        let late = self.begun.elapsed().saturating_sub(due).as_millis() as u64;
        self.report.late_ms = self.report.late_ms.max(late);
        self.report.sent += 1;
        self.report.shortened += u64::from(made.shortened);
        // Asked for now: the facade may have moved.
        let port = self.shared.facade(arrival.engine).map_or(0, |f| f.port());
        self.under_way
            .spawn(async move { (at, exchange(port, made).await) });
    }

    fn ended(&mut self, at: usize, ended: Ended) {
        let arrival = &self.arrivals[at];
        self.recorded.count(arrival.state, arrival.stats.as_ref());
        let stats = ended.stats.as_ref();
        match ended.failure {
            None => {
                self.replayed.count(WorkloadState::Completed, stats);
                self.over();
            },
            Some(why) => {
                self.replayed.count(WorkloadState::Failed, stats);
                self.failed(why);
            },
        }
    }

    fn failed(&mut self, why: String) {
        *self.failures.entry(why).or_default() += 1;
        self.over();
    }

    fn over(&mut self) {
        self.report.ended += 1;
        self.last_end = Instant::now();
    }

    fn progress(&self) -> ReplayProgress {
        let elapsed = self.begun.elapsed();
        let total = self.plan.len() as u64;
        let done = self.report.ended;
        let left = match self.planned.checked_sub(elapsed) {
            Some(left) => left,
            // Later than planned: at the rate so far.
            None if done > 0 => elapsed.mul_f64((total - done) as f64 / done as f64),
            None => Duration::ZERO,
        };
        ReplayProgress {
            total,
            done,
            failed: self.failures.values().sum(),
            in_flight: self.under_way.len() as u64,
            left_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Hangs up on what is still under way, and tells the rest.
    async fn finish(mut self) -> SentReport {
        self.under_way.shutdown().await;
        let mut failures: Vec<_> = self
            .failures
            .into_iter()
            .map(|(reason, requests)| FailureCount { reason, requests })
            .collect();
        // Stable, so those of one number stay by name.
        failures.sort_by_key(|f| std::cmp::Reverse(f.requests));
        SentReport {
            took_ms: (self.last_end - self.begun).as_millis() as u64,
            recorded: self.recorded.side(),
            replayed: self.replayed.side(),
            failures,
            ..self.report
        }
    }
}

/// Why a workload cannot be sent.
fn why_not(shared: &Shared, arrival: &Arrival) -> Option<&'static str> {
    if shared.facade(arrival.engine).is_none() {
        return Some(Unplaced::NoFacade.as_str());
    }
    let empty = Arrival {
        body_bytes: 0,
        ..arrival.clone()
    };
    match made(&empty, "") {
        Some(_) => None,
        None => Some("no request of its path can be made up"),
    }
}

fn made(arrival: &Arrival, mark: &str) -> Option<Synthetic> {
    let stats = arrival.stats.as_ref();
    let shape = Shape {
        engine: arrival.engine,
        path: &arrival.path,
        model: &arrival.model,
        body_bytes: arrival.body_bytes,
        tokens: stats.and_then(|s| s.completion_tokens),
        streamed: arrival.streamed,
    };
    synthetic::request(&shape, mark)
}

/// Measurements of one side.
#[derive(Debug, Default)]
struct Measured {
    side: Side,
    ttft_ms: Vec<f64>,
    rates: Vec<f64>,
}

impl Measured {
    fn count(&mut self, state: WorkloadState, stats: Option<&crate::wire::broker::Stats>) {
        self.side.count(state);
        let Some(stats) = stats else { return };
        let tokens = stats.completion_tokens.unwrap_or(0);
        self.side.completion_tokens = self.side.completion_tokens.saturating_add(tokens);
        self.ttft_ms.extend(stats.ttft_ms.map(|ms| ms as f64));
        self.rates.extend(stats.tokens_per_second);
    }

    fn side(self) -> Side {
        Side {
            ttft_ms: Spread::of(self.ttft_ms),
            tokens_per_second: Spread::of(self.rates),
            ..self.side
        }
    }
}

/// Which arrivals would be sent, and when.
#[cfg(test)]
pub(super) fn planned(
    shared: &Shared,
    arrivals: &[Arrival],
    speed: Speed,
) -> Vec<(usize, Duration)> {
    Sending::new(shared, 1, arrivals, speed).plan
}
