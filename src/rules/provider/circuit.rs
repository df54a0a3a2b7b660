//! When a provider is sent nothing at all.
//!
//! Owns: the circuit of failures and the cool-down of rate limits, and who may go first afterwards.
//! Leaves to others: what counts (`verdict`), how long a limit lasts (`limits`), letting exactly one
//! probe through at a time (`state::providers`). Times are milliseconds of any one clock.
//!
//! Closed: failures in a row are counted, a success clears them. Too many open it; the first time for
//! 30 s, each further time in a row for twice as long. A rate limit sets a cool-down and counts as
//! nothing. After either, one request at a time may try, the probe: its success closes, its failure
//! opens again. While the circuit is open, ends of requests sent before say how the provider was, and
//! decide nothing.

use super::verdict::Verdict;

/// Failures in a row that open it.
pub const FAILURES: u32 = 5;

/// The first opening lasts so long.
pub const FIRST_OPENING_MS: u64 = 30_000;

/// No opening lasts longer.
pub const LONGEST_OPENING_MS: u64 = 5 * 60_000;

/// Why a provider rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It answered 429.
    Limited,
    /// Its circuit is open.
    Open,
}

/// What a request may do.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Go on.
    Pass,
    /// Go on as the probe, if nobody else is it.
    Try,
    /// Not now.
    Rest {
        /// Ask again then.
        until: u64,
        /// What for.
        why: Why,
    },
}

/// How a request was let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// As one of many.
    Plain,
    /// As the probe.
    Probe,
}

/// One provider's circuit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Circuit {
    /// Failures in a row.
    failures: u32,
    /// Openings without a success between them.
    openings: u32,
    /// End of the opening; there until a probe succeeds.
    open_until: Option<u64>,
    /// End of a rate limit's cool-down; there until a probe succeeds.
    limited_until: Option<u64>,
}

impl Circuit {
    /// Failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// What a request may do now.
    pub fn gate(&self, now: u64) -> Gate {
        let (until, why) = match (self.open_until, self.limited_until) {
            (None, None) => return Gate::Pass,
            (open, limited) if open >= limited => (open, Why::Open),
            (_, limited) => (limited, Why::Limited),
        };
        match until {
            Some(until) if now < until => Gate::Rest { until, why },
            _ => Gate::Try,
        }
    }

    /// Takes the end of a request in.
    pub fn settle(&mut self, pass: Pass, verdict: &Verdict, now: u64) {
        if self.open_until.is_some() && pass == Pass::Plain {
            return;
        }
        match verdict {
            Verdict::Success => {
                (self.failures, self.openings, self.open_until) = (0, 0, None);
                // One that others were told while the probe was under way still stands.
                self.limited_until = match pass {
                    Pass::Probe => self.limited_until.filter(|until| now < *until),
                    Pass::Plain => self.limited_until,
                };
            },
            Verdict::Failure(_) => {
                self.failures = self.failures.saturating_add(1);
                if self.open_until.is_some() || self.failures >= FAILURES {
                    self.openings = self.openings.saturating_add(1);
                    self.open_until = Some(now.saturating_add(opening(self.openings)));
                }
            },
            Verdict::Limited | Verdict::Neutral => {},
        }
    }

    /// The provider answered 429 and wants to be left alone until then. Whoever was told so: it is
    /// news of the provider as it is now.
    pub fn limit(&mut self, until: u64) {
        self.limited_until = self.limited_until.max(Some(until));
    }
}

/// How long the n-th opening in a row lasts.
fn opening(n: u32) -> u64 {
    let doubled = 2u64.checked_pow(n.saturating_sub(1));
    let span = doubled.and_then(|times| FIRST_OPENING_MS.checked_mul(times));
    span.map_or(LONGEST_OPENING_MS, |span| span.min(LONGEST_OPENING_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: fn(u64) -> Gate = |until| Gate::Rest {
        until,
        why: Why::Open,
    };
    const LIMITED: fn(u64) -> Gate = |until| Gate::Rest {
        until,
        why: Why::Limited,
    };

    fn fails(c: &mut Circuit, pass: Pass, now: u64) {
        c.settle(pass, &Verdict::failure("broken"), now);
    }

    fn open() -> Circuit {
        let mut c = Circuit::default();
        (0..FAILURES).for_each(|_| fails(&mut c, Pass::Plain, 0));
        c
    }

    #[test]
    fn five_failures_in_a_row_open_it() {
        let mut c = Circuit::default();
        for _ in 0..3 {
            (1..FAILURES).for_each(|_| fails(&mut c, Pass::Plain, 0));
            assert_eq!((c.gate(0), c.failures()), (Gate::Pass, 4));
            c.settle(Pass::Plain, &Verdict::Neutral, 0);
            c.settle(Pass::Plain, &Verdict::Limited, 0);
            assert_eq!(c.failures(), 4, "neither counts nor clears");
            c.settle(Pass::Plain, &Verdict::Success, 0);
        }
        (0..FAILURES).for_each(|_| fails(&mut c, Pass::Plain, 100));
        assert_eq!(c.gate(100), OPEN(30_100));
        assert_eq!((c.gate(30_099), c.gate(30_100)), (OPEN(30_100), Gate::Try));
    }

    #[test]
    fn openings_double_to_five_minutes_and_a_success_begins_anew() {
        let mut c = open();
        let mut now = 0;
        for seconds in [30, 60, 120, 240, 300, 300] {
            let end = now + seconds * 1000;
            assert_eq!(c.gate(now), OPEN(end), "{seconds}");
            assert_eq!(c.gate(end), Gate::Try, "{seconds}");
            now = end;
            fails(&mut c, Pass::Probe, now);
        }
        c.settle(Pass::Probe, &Verdict::Success, now);
        assert_eq!(c, Circuit::default());
        (0..FAILURES).for_each(|_| fails(&mut c, Pass::Plain, now));
        assert_eq!(c.gate(now), OPEN(now + 30_000));
        c.openings = u32::MAX;
        fails(&mut c, Pass::Probe, now);
        assert_eq!(c.gate(now), OPEN(now + LONGEST_OPENING_MS), "no overflow");
    }

    #[test]
    fn the_probes_end_decides_and_nobody_elses() {
        for (verdict, gate) in [
            (Verdict::Success, Gate::Pass),
            (Verdict::Neutral, Gate::Try),
            (Verdict::failure("broken"), OPEN(91_000)),
        ] {
            let mut c = open();
            for old in [Verdict::Success, Verdict::failure("x"), Verdict::Neutral] {
                c.settle(Pass::Plain, &old, 31_000);
            }
            assert_eq!(c.gate(31_000), Gate::Try);
            c.settle(Pass::Probe, &verdict, 31_000);
            assert_eq!(c.gate(31_000), gate, "{verdict:?}");
        }
    }

    #[test]
    fn a_limit_sets_the_cool_down_and_not_the_count() {
        let mut c = Circuit::default();
        fails(&mut c, Pass::Plain, 0);
        c.limit(20_000);
        c.limit(10_000);
        c.settle(Pass::Plain, &Verdict::Limited, 0);
        assert_eq!((c.gate(0), c.failures()), (LIMITED(20_000), 1));
        // One that was sent before and ends well shortens nothing.
        c.settle(Pass::Plain, &Verdict::Success, 1);
        assert_eq!((c.gate(1), c.failures()), (LIMITED(20_000), 0));
        assert_eq!(c.gate(20_000), Gate::Try, "one first");
        c.limit(50_000);
        c.settle(Pass::Probe, &Verdict::Limited, 20_000);
        assert_eq!(c.gate(20_000), LIMITED(50_000));
        c.settle(Pass::Probe, &Verdict::Success, 50_000);
        assert_eq!(c, Circuit::default());
    }

    #[test]
    fn the_longer_of_two_rests_counts_and_a_limit_outlives_a_probe_of_before() {
        let mut c = open();
        c.limit(10_000);
        assert_eq!(c.gate(0), OPEN(30_000));
        c.limit(40_000);
        assert_eq!(c.gate(0), LIMITED(40_000));
        // Somebody was told of a limit while the probe was under way.
        c.limit(70_000);
        c.settle(Pass::Probe, &Verdict::Success, 41_000);
        assert_eq!(c.gate(41_000), LIMITED(70_000));
        assert_eq!(c.gate(70_000), Gate::Try);
    }

    #[test]
    fn probes_after_a_limit_that_fail_open_it_at_the_fifth() {
        let mut c = Circuit::default();
        c.limit(10);
        for _ in 1..FAILURES {
            assert_eq!(c.gate(10), Gate::Try);
            fails(&mut c, Pass::Probe, 10);
        }
        assert_eq!(c.gate(10), Gate::Try, "still one at a time");
        fails(&mut c, Pass::Probe, 10);
        assert_eq!(c.gate(10), OPEN(30_010));
    }
}
