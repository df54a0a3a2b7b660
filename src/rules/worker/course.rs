//! The course of an agent: when it registers, beats, and may leave.
//!
//! Owns: sessions and their numbers, cadence, retries, the order of a drain. Leaves to others: the
//! clock (any that never goes back, in ms), the calls (`agent`), what the engine tells.
//!
//! A drain waits for three things: that the gateways heard of it (a sweep after the first beat that
//! was taken), that they have no request here any more, and that none is under way through this
//! process. Whoever cannot be told is waited for no longer than the gateway itself would wait.

use super::backoff;

/// Tries are no further apart, in ms.
const LONGEST_WAIT: u64 = 15_000;

/// While draining, beats are no further apart, in ms: each may be the one that ends it.
const DRAIN_BEAT: u64 = 1_000;

/// Beats after which a session counts as one that lasts.
const LASTING: u64 = 3;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing before this time, or before something happens.
    Wait(u64),
    /// Register.
    Register,
    /// Send a heartbeat.
    Beat {
        /// Of this session.
        session: String,
        /// With this number.
        seq: u64,
        /// Whether it says that the node drains.
        draining: bool,
    },
    /// Unregister, then end: it is known what is cut.
    Leave {
        /// This session.
        session: String,
        /// What ends with it.
        cut: Cut,
    },
    /// End without a call: there is no session, or nobody to tell.
    End(Cut),
}

/// Requests that end with the agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Those that gateways have here, as last heard; `None` = they could not be asked.
    pub leased: Option<u64>,
    /// Those through this process.
    pub own: u64,
}

impl Cut {
    /// Whether nothing is cut, as far as is known.
    pub fn is_nothing(&self) -> bool {
        self.leased == Some(0) && self.own == 0
    }
}

/// The rhythm of a gateway, as it tells it in its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Beat this often, in ms.
    pub beat_ms: u64,
    /// Silent for longer, in ms, is offline.
    pub ttl_ms: u64,
    /// In this time, in ms, every gateway has heard of a drain; `None` = not told.
    pub sweep_ms: Option<u64>,
}

/// What a call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A registration was taken.
    Registered {
        /// Its session.
        session: String,
        /// The gateway's rhythm.
        pace: Pace,
    },
    /// A beat was taken.
    Taken {
        /// The gateway's rhythm.
        pace: Pace,
        /// Requests that gateways have here.
        leased: u64,
    },
    /// The session is void.
    Reregister,
    /// It cannot be done before so many ms.
    NotBefore(u64),
    /// There was no answer, or none that helps.
    Failed,
}

#[derive(Clone, Copy, Debug)]
struct Drain {
    since: u64,
    /// When a draining beat was taken first.
    told: Option<u64>,
    /// The last look at the gateways' requests that counts: not before the sweep was over.
    leased: Option<u64>,
}

/// The state of an agent.
#[derive(Clone, Debug)]
pub struct Course {
    /// Set by whoever runs it: goes before what gateways tell.
    own_sweep_ms: Option<u64>,
    told_sweep_ms: u64,
    drain_ms: u64,
    session: Option<String>,
    seq: u64,
    /// Beats of this session that were taken.
    taken: u64,
    beat_ms: u64,
    ttl_ms: u64,
    next: u64,
    failures: u32,
    /// Sessions in a row that did not last.
    short: u32,
    heard: Option<u64>,
    leased: Option<u64>,
    drain: Option<Drain>,
}

impl Course {
    /// An agent that has done nothing. It waits `sweep_ms` after a drain was told (`None`: as long as
    /// the gateway says that it takes, 5 s if it says nothing), and for requests no longer than
    /// `drain_ms`.
    pub fn new(sweep_ms: Option<u64>, drain_ms: u64) -> Self {
        Self {
            own_sweep_ms: sweep_ms,
            told_sweep_ms: 5_000,
            drain_ms,
            session: None,
            seq: 0,
            taken: 0,
            beat_ms: 5_000,
            ttl_ms: 15_000,
            next: 0,
            failures: 0,
            short: 0,
            heard: None,
            leased: None,
            drain: None,
        }
    }

    /// Whether it is registered.
    pub fn is_registered(&self) -> bool {
        self.session.is_some()
    }

    /// Time between two beats, in ms.
    pub fn beat_ms(&self) -> u64 {
        self.beat_ms
    }

    /// Failed calls in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Sessions in a row that others ended soon: more than one means that somebody else registers
    /// the same node.
    pub fn short_sessions(&self) -> u32 {
        self.short
    }

    /// From now on it drains. A second time changes nothing.
    pub fn drain(&mut self, now: u64) {
        if self.drain.is_none() {
            self.drain = Some(Drain {
                since: now,
                told: None,
                leased: None,
            });
            self.next = now;
        }
    }

    /// Something changed that the gateways should hear soon.
    pub fn hurry(&mut self, now: u64) {
        // Not through a wait that a failure imposed.
        if self.failures == 0 {
            self.next = self.next.min(now);
        }
    }

    /// What it registered is no longer true: it registers anew.
    pub fn forget_session(&mut self, now: u64) {
        if self.drain.is_none() {
            self.session = None;
            self.hurry(now);
        }
    }

    /// What is to be done now. `own` requests are under way through this process.
    pub fn step(&mut self, now: u64, own: u64) -> Step {
        let Some(drain) = self.drain else {
            return match (now >= self.next, self.session.is_some()) {
                (false, _) => Step::Wait(self.next),
                (true, false) => Step::Register,
                (true, true) => self.beat(false),
            };
        };
        let limit = drain.since.saturating_add(self.drain_ms);
        let over = now >= limit;
        let Some(session) = self.session.clone() else {
            // No gateway knows it: only what goes through here can be cut.
            return match over || own == 0 {
                true => Step::End(Cut {
                    leased: Some(0),
                    own,
                }),
                false => Step::Wait(limit),
            };
        };
        let cut = Cut {
            leased: drain.leased.or(self.leased),
            own,
        };
        if over || (drain.leased == Some(0) && own == 0) {
            return Step::Leave { session, cut };
        }
        // Nobody answers for longer than the gateways would wait for us: they take the node for
        // gone, and send nothing more.
        let silent = now.saturating_sub(self.heard.unwrap_or(0).max(drain.since)) > self.ttl_ms;
        if silent && self.failures > 0 && own == 0 {
            return Step::End(Cut { leased: None, own });
        }
        match now >= self.next {
            true => self.beat(true),
            false => Step::Wait(self.next.min(limit)),
        }
    }

    fn beat(&mut self, draining: bool) -> Step {
        self.seq += 1;
        Step::Beat {
            session: self.session.clone().unwrap_or_default(),
            seq: self.seq,
            draining,
        }
    }

    /// Takes in what a call came to that was begun at `sent` and is answered `now`; `draining` says
    /// whether it told of the drain. `jitter` is 0 to 1.
    pub fn hear(&mut self, sent: u64, now: u64, draining: bool, heard: Heard, jitter: f64) {
        match heard {
            Heard::Registered { session, pace } => {
                self.session = Some(session);
                (self.seq, self.taken, self.failures) = (0, 0, 0);
                self.learn(pace);
                self.heard = Some(now);
                self.leased = None;
                // Its load is not known before the first beat.
                self.next = now;
            },
            Heard::Taken { pace, leased } => {
                self.failures = 0;
                self.taken += 1;
                if self.taken >= LASTING {
                    self.short = 0;
                }
                self.learn(pace);
                self.heard = Some(now);
                self.leased = Some(leased);
                // From the moment it was sent, so that slow answers do not stretch the rhythm.
                self.next = sent.saturating_add(self.beat_ms);
                if draining {
                    self.heard_of_drain(sent, now, leased);
                }
            },
            Heard::Reregister => {
                self.session = None;
                self.failures = 0;
                // The first time at once; who has to again and again has a rival.
                let wait = match self.short {
                    0 => 0,
                    n => backoff::wait_ms(n + 1, LONGEST_WAIT, jitter),
                };
                if self.taken < LASTING {
                    self.short = self.short.saturating_add(1);
                }
                self.next = now.saturating_add(wait);
            },
            Heard::NotBefore(ms) => {
                self.failures = self.failures.saturating_add(1);
                self.next = now.saturating_add(ms.clamp(LONGEST_WAIT / 15, LONGEST_WAIT * 4));
            },
            Heard::Failed => {
                self.failures = self.failures.saturating_add(1);
                let wait = backoff::wait_ms(self.failures, LONGEST_WAIT, jitter);
                self.next = now.saturating_add(wait);
            },
        }
    }

    fn heard_of_drain(&mut self, sent: u64, now: u64, leased: u64) {
        let sweep_ms = self.sweep_ms();
        let Some(drain) = &mut self.drain else { return };
        match drain.told {
            None => drain.told = Some(now),
            // A request that was chosen before the gateway heard of it has its lease by now.
            Some(told) if sent >= told.saturating_add(sweep_ms) => {
                drain.leased = Some(leased);
            },
            Some(_) => {},
        }
        let swept = drain.told.unwrap_or(now).saturating_add(sweep_ms);
        let soon = sent.saturating_add(DRAIN_BEAT).max(now);
        self.next = self.next.min(match now < swept {
            true => swept,
            false => soon,
        });
    }

    fn learn(&mut self, pace: Pace) {
        self.beat_ms = pace.beat_ms.clamp(100, 3_600_000);
        self.ttl_ms = pace.ttl_ms.max(self.beat_ms);
        // A drain has a limit of its own, so a gateway that tells too much costs no more than that.
        self.told_sweep_ms = pace.sweep_ms.unwrap_or(self.told_sweep_ms);
    }

    fn sweep_ms(&self) -> u64 {
        self.own_sweep_ms.unwrap_or(self.told_sweep_ms)
    }
}

#[cfg(test)]
mod tests;
