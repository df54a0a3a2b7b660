//! The request machine (spec §5.1): events in, the next action out, time as an argument.
//!
//! Owns: attempts, rounds, the deadline, the 501 rule. Leaves to others: who the candidates are
//! (`candidates`, `policy`), sending and timers (`facade`).
//!
//! Both bounds are checked before every dispatch and never during one. A dispatch is counted when it
//! is sent, never when candidates are looked up.
//!
//! Pool nodes may hold a request off before it is sent (product section 7): full, draining or resting
//! owners are not absence, so that it waits for one without spending an attempt. Along the gateway's
//! chain a round may be longer than the usual bound (product section 8).

use std::time::Duration;

use super::budget;
use super::client_key::Over;
use super::outcome::{Effort, Failure, is_retryable};
use super::provider::verdict::{is_refusal, passes_on};

/// What the driver has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Action {
    /// Look the candidates up and report [`Event::Resolved`].
    Resolve,
    /// Send to the candidate with this index in the list last resolved. `last`: a failure of this
    /// attempt is the answer.
    Send {
        /// Index into the list.
        candidate: usize,
        /// Whether no attempt can follow.
        last: bool,
    },
    /// Nothing is running: clear the placement, release the reservation, wait, then report
    /// [`Event::Woke`].
    Wait(Duration),
    /// Answer the client; the machine is done.
    Answer(Answer),
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// So many candidates were found.
    Resolved {
        /// Their number.
        candidates: usize,
        /// Whether there are further owners that take nothing now.
        held: bool,
    },
    /// The candidate to send to took no further request: nothing was sent.
    Held(Withheld),
    /// The attempt under way was lost before commit.
    Failed(Failure),
    /// The candidate to send to left discovery since the lookup: nothing was sent.
    Gone,
    /// The wait is over.
    Woke,
}

/// Why a pool node took no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withheld {
    /// It is full, drains, or rests after failures.
    Busy,
    /// Where leases are kept cannot be reached: pool nodes are not used without (fail closed).
    StoreDown,
}

/// An answer the driver has to make itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nobody can serve it and nothing was sent: 502.
    NoCandidate,
    /// It fits the context of no owner, and nothing was sent: 400. Found by the driver, which knows
    /// the request's length.
    TooLong {
        /// Tokens that it may need, estimated.
        needs: u64,
        /// The largest context there is.
        fits: u64,
    },
    /// There are owners, and the caller's key may use none of them: 403. Found by the driver.
    NotGranted,
    /// It is over a limit of the caller's key, and nothing was sent: 429. Found by the driver.
    OverLimit(Over),
    /// The last permitted attempt failed below HTTP or without content: 502 or 504.
    Attempt(Failure),
    /// The loop ended between attempts: 503 with Retry-After.
    Exhausted(Exhausted),
}

/// Which bound ended the loop while nothing was in flight (spec §5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// The deadline passed while attempts were still failing.
    Deadline,
    /// The candidate set was empty and the wait for a node timed out.
    NoOwner,
    /// There were owners to the end, and all of them were full, draining or resting.
    Busy,
    /// The pool's leases cannot be had. Waited for only where something was sent before.
    StoreDown,
    /// The count ended it and nothing had answered: a guard, unreachable through the rules above.
    Attempts,
}

impl Exhausted {
    /// The reason, as the client reads it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Deadline => {
                "the retry deadline passed while dispatch attempts were still failing"
            },
            Self::NoOwner => {
                "no node advertising the requested model became available before the retry deadline"
            },
            Self::Busy => {
                "every node that has the requested model was full, draining or resting after failures until the retry deadline"
            },
            Self::StoreDown => {
                "the node pool's store is down, so that its nodes cannot be used; other nodes do not have the requested model"
            },
            Self::Attempts => "every dispatch attempt failed",
        }
    }
}

/// What to do with a status, once its headers are here and before anything is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Give it to the client.
    Answer,
    /// Discard it and report [`Failure::Status`].
    Retry,
}

/// One request's way through its attempts. Times are since the request's arrival.
#[derive(Debug)]
pub struct Dispatch {
    effort: Effort,
    /// Dispatches that may be made; known for one-pass requests once candidates are.
    limit: u32,
    /// Whether a round may go down all of a chain, however long.
    chain: bool,
    /// Since when anybody that rests may take a request again, if that is known.
    rests_until: Option<Duration>,
    dispatched: u32,
    /// Candidates of this round, and the next one to try.
    round: usize,
    next: usize,
    /// Every attempt of this round so far ended in 501; every owner did in the whole round before.
    unsupported_now: bool,
    unsupported_before: bool,
    /// Every attempt of this round so far ended in a refusal of account or model.
    refused_now: bool,
    /// What held the request off in this round, if anything did.
    held: Option<Withheld>,
    /// Rounds in which nothing was sent: they lengthen the wait as dispatches do.
    idle: u32,
    /// Dispatches made before this round.
    before: u32,
}

impl Dispatch {
    /// A request that just arrived. The first action is always [`Action::Resolve`].
    pub fn new(effort: Effort) -> (Self, Action) {
        let new = Self {
            effort,
            limit: budget::MAX_DISPATCHES,
            chain: false,
            rests_until: None,
            dispatched: 0,
            round: 0,
            next: 0,
            unsupported_now: true,
            unsupported_before: false,
            refused_now: true,
            held: None,
            idle: 0,
            before: 0,
        };
        (new, Action::Resolve)
    }

    /// An inference request of the gateway: every target of its chain may be tried, if there are more
    /// than the usual bound.
    pub fn along_chain() -> (Self, Action) {
        let (new, first) = Self::new(Effort::Budget);
        (Self { chain: true, ..new }, first)
    }

    /// Nobody that rests takes a request before this moment. A request that would not live to see it
    /// is told at once.
    pub fn nobody_before(&mut self, moment: Option<Duration>) {
        self.rests_until = moment;
    }

    /// Dispatches made so far.
    pub fn dispatched(&self) -> u32 {
        self.dispatched
    }

    /// Takes an event at this moment. `roll`, uniform in 0..1, spreads a backoff.
    pub fn on(&mut self, event: Event, now: Duration, roll: f64) -> Action {
        match event {
            Event::Resolved { candidates, held } => self.resolved(candidates, held, now, roll),
            Event::Held(why) => self.held_off(why, now, roll),
            Event::Failed(failure) => self.failed(failure, now, roll),
            Event::Gone => self.gone(now, roll),
            Event::Woke => self.between(now).unwrap_or(Action::Resolve),
        }
    }

    /// What to do with this status, on the attempt under way.
    ///
    /// 501 means "not built in or not enabled": when every owner said so in two rounds running the
    /// last one is the answer, instead of after five dispatches (product section 9).
    pub fn judge(&self, status: u16) -> Verdict {
        let settled = status == 501
            && self.unsupported_now
            && self.unsupported_before
            && self.everybody_was_asked();
        if settled || self.is_last() || !is_retryable(self.effort, status) {
            Verdict::Answer
        } else {
            Verdict::Retry
        }
    }

    /// The same where the answer is a provider's. When each target of a round refused account or
    /// model the last refusal is the answer: asking again would change nothing.
    pub fn judge_provider(&self, status: u16) -> Verdict {
        let settled = is_refusal(status) && self.refused_now && self.everybody_was_asked();
        if settled || self.is_last() || !passes_on(status) {
            Verdict::Answer
        } else {
            Verdict::Retry
        }
    }

    fn resolved(&mut self, candidates: usize, held: bool, now: Duration, roll: f64) -> Action {
        self.round = candidates;
        self.next = 0;
        self.held = held.then_some(Withheld::Busy);
        self.before = self.dispatched;
        if self.effort == Effort::OnePass {
            self.limit = candidates as u32;
        } else if self.chain {
            self.limit = self.limit.max(candidates as u32);
        }
        if candidates == 0 {
            let never = |moment| moment >= budget::JOB_DEADLINE;
            if held && self.rests_until.is_some_and(never) {
                return Action::Answer(Answer::Exhausted(Exhausted::Busy));
            }
            if self.dispatched == 0 && !held {
                return Action::Answer(Answer::NoCandidate);
            }
            // An owner existed within this request's life, so one may come back.
            return self.between(now).unwrap_or_else(|| self.wait(now, roll));
        }
        (self.unsupported_now, self.refused_now) = (true, true);
        self.send_next(now, roll)
    }

    fn failed(&mut self, failure: Failure, now: Duration, roll: f64) -> Action {
        if failure != Failure::Status(501) {
            self.unsupported_now = false;
        }
        self.refused_now &= failure.status().is_some_and(is_refusal);
        if self.is_last() {
            return Action::Answer(Answer::Attempt(failure));
        }
        self.send_next(now, roll)
    }

    /// Only a dispatch consumes an attempt. One pass has nothing to save, and needs an answer.
    fn gone(&mut self, now: Duration, roll: f64) -> Action {
        if self.effort == Effort::OnePass {
            return self.failed(Failure::TargetGone, now, roll);
        }
        self.dispatched -= 1;
        self.send_next(now, roll)
    }

    /// Nothing was sent, so that no attempt is spent.
    fn held_off(&mut self, why: Withheld, now: Duration, roll: f64) -> Action {
        self.dispatched -= 1;
        // One that is merely busy is worth waiting for.
        if self.held != Some(Withheld::Busy) {
            self.held = Some(why);
        }
        self.send_next(now, roll)
    }

    fn send_next(&mut self, now: Duration, roll: f64) -> Action {
        if let Some(end) = self.between(now) {
            return end;
        }
        if self.next >= self.round {
            return self.round_over(now, roll);
        }
        let candidate = self.next;
        self.next += 1;
        self.dispatched += 1;
        Action::Send {
            candidate,
            last: self.is_last(),
        }
    }

    fn round_over(&mut self, now: Duration, roll: f64) -> Action {
        if self.dispatched == 0 && self.held == Some(Withheld::StoreDown) {
            return Action::Answer(Answer::Exhausted(Exhausted::StoreDown));
        }
        if self.dispatched > self.before {
            self.unsupported_before = self.unsupported_now && self.everybody_was_asked();
        }
        self.wait(now, roll)
    }

    fn wait(&mut self, now: Duration, roll: f64) -> Action {
        if self.held.is_some() && self.dispatched == self.before {
            self.idle += 1;
        }
        let left = budget::JOB_DEADLINE.saturating_sub(now);
        let step = self.dispatched.saturating_add(self.idle);
        Action::Wait(budget::backoff(step, roll, left))
    }

    /// The bounds, checked while nothing is in flight.
    fn between(&self, now: Duration) -> Option<Action> {
        let reason = if self.dispatched >= self.limit {
            Exhausted::Attempts
        } else if self.effort == Effort::Budget && now >= budget::JOB_DEADLINE {
            match self.held.filter(|_| self.dispatched == self.before) {
                Some(Withheld::Busy) => Exhausted::Busy,
                Some(Withheld::StoreDown) => Exhausted::StoreDown,
                None if self.round == 0 => Exhausted::NoOwner,
                None => Exhausted::Deadline,
            }
        } else {
            return None;
        };
        Some(Action::Answer(Answer::Exhausted(reason)))
    }

    /// No owner is left in this round, and none was held off.
    fn everybody_was_asked(&self) -> bool {
        self.next >= self.round && self.held.is_none()
    }

    fn is_last(&self) -> bool {
        self.dispatched >= self.limit
    }
}

#[cfg(test)]
mod tests;
