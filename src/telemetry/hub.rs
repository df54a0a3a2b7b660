//! What is said about requests at all, and where it is collected.
//!
//! Owns: the switches, new ids, the queue of spans and the instruments as one thing that every facade
//! holds. Leaves to others: one request's part (`request`), settings and sending (`export`).

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tokio::sync::mpsc;

use super::metrics::Metrics;
use super::request::{Seen, Tracing};
use super::spans::{QUEUE, Span, SpanQueue};
use crate::rules::trace_context::{SpanId, TraceContext, TraceId, is_state};

/// What is wanted. Off, a request costs one look at this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// Whether traces are taken over, passed on and recorded; with the share of new traces that is,
    /// in percent.
    pub traces: Option<u32>,
    /// Whether anything is measured.
    pub metrics: bool,
}

const TRACES: u32 = 1 << 8;
const METRICS: u32 = 1 << 9;
const PERCENT: u32 = 0xff;

/// The telemetry of a process.
#[derive(Debug)]
pub struct Telemetry {
    /// Both switches and the percentage in one word.
    switches: AtomicU32,
    ids: Ids,
    /// Finished spans.
    pub spans: SpanQueue,
    /// The instruments.
    pub metrics: Metrics,
}

impl Telemetry {
    /// Turned off; the end of the queue is for whoever exports.
    pub fn new() -> (Self, mpsc::Receiver<Span>) {
        Self::with_queue(QUEUE)
    }

    /// The same with a queue of another length.
    pub fn with_queue(length: usize) -> (Self, mpsc::Receiver<Span>) {
        let (spans, receiver) = SpanQueue::new(length);
        let new = Self {
            switches: AtomicU32::new(0),
            ids: Ids::seeded(),
            spans,
            metrics: Metrics::default(),
        };
        (new, receiver)
    }

    /// Says what is wanted from now on. Requests under way go on as they began.
    pub fn switch(&self, to: Switches) {
        let traces = to.traces.map_or(0, |percent| TRACES | percent.min(100));
        let metrics = if to.metrics { METRICS } else { 0 };
        self.switches.store(traces | metrics, Ordering::Relaxed);
    }

    /// Whether anything is wanted.
    pub fn is_on(&self) -> bool {
        self.switches.load(Ordering::Relaxed) != 0
    }

    /// A request arrived, at these Unix nanoseconds, with these lines of trace context; `None` where
    /// nothing is wanted of it.
    pub fn see<'a>(
        &self,
        mut parents: impl Iterator<Item = &'a [u8]>,
        states: impl Iterator<Item = &'a [u8]> + Clone,
        at_ns: u64,
    ) -> Option<Seen> {
        let switches = self.switches.load(Ordering::Relaxed);
        if switches == 0 {
            return None;
        }
        let trace = (switches & TRACES != 0).then(|| {
            // Two of them say nothing.
            let caller = match (parents.next(), parents.next()) {
                (Some(one), None) => TraceContext::parse(one),
                _ => None,
            };
            self.trace(caller, states, switches & PERCENT, at_ns)
        });
        Some(Seen::new(trace, switches & METRICS != 0))
    }

    fn trace<'a>(
        &self,
        caller: Option<TraceContext>,
        states: impl Iterator<Item = &'a [u8]> + Clone,
        percent: u32,
        start_ns: u64,
    ) -> Tracing {
        let span = self.ids.span();
        let Some(caller) = caller else {
            let trace = self.ids.trace();
            return Tracing {
                context: TraceContext::root(trace, span, trace.is_within(percent)),
                parent: None,
                state: None,
                keeps_state: false,
                start_ns,
            };
        };
        let keeps_state = is_state(states.clone());
        let state = (keeps_state && caller.is_sampled()).then(|| joined(states));
        Tracing {
            context: caller.at(span),
            parent: Some(caller.span),
            state,
            keeps_state,
            start_ns,
        }
    }

    /// The id of another span.
    pub(super) fn span_id(&self) -> SpanId {
        self.ids.span()
    }
}

/// Several lines of a header are one list.
fn joined<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Box<str> {
    let lines: Vec<_> = lines.map(String::from_utf8_lossy).collect();
    lines.join(",").into()
}

/// Ids that no other process makes: a counter behind a mixer, begun at the system's randomness. It
/// needs no call of the system and no lock.
#[derive(Debug)]
struct Ids {
    seeds: [u64; 3],
    next: AtomicU64,
}

impl Ids {
    fn seeded() -> Self {
        let seed = |n: u64| RandomState::new().hash_one((n, std::process::id()));
        Self {
            seeds: [seed(0), seed(1), seed(2)],
            next: AtomicU64::new(0),
        }
    }

    fn next(&self) -> u64 {
        self.next
            .fetch_add(1, Ordering::Relaxed)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn span(&self) -> SpanId {
        SpanId::of(mixed(self.seeds[0].wrapping_add(self.next())))
    }

    fn trace(&self) -> TraceId {
        let n = self.next();
        let high = mixed(self.seeds[1].wrapping_add(n));
        let low = mixed(self.seeds[2].wrapping_add(n));
        TraceId::of(u128::from(high) << 64 | u128::from(low))
    }
}

/// Every bit of the result hangs on every bit of the argument (splitmix64).
fn mixed(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const CALLER: &[u8] = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn seen(t: &Telemetry, parents: &[&[u8]], states: &[&[u8]]) -> Option<Seen> {
        t.see(parents.iter().copied(), states.iter().copied(), 7)
    }

    fn on(percent: u32) -> Telemetry {
        let (t, _) = Telemetry::new();
        t.switch(Switches {
            traces: Some(percent),
            metrics: false,
        });
        t
    }

    #[test]
    fn turned_off_nothing_is_seen() {
        let (t, _) = Telemetry::new();
        assert!(!t.is_on() && seen(&t, &[CALLER], &[]).is_none());
        t.switch(Switches {
            traces: None,
            metrics: true,
        });
        assert!(t.is_on());
        let s = seen(&t, &[CALLER], &[]).unwrap();
        assert!(
            s.outgoing().is_none(),
            "without traces headers pass as they are"
        );
    }

    #[test]
    fn a_caller_is_taken_over_and_its_state_goes_on() {
        let t = on(0);
        let out = |parents: &[&[u8]], states: &[&[u8]]| {
            seen(&t, parents, states).unwrap().outgoing().unwrap()
        };
        let o = out(&[CALLER], &[b"a=1"]);
        assert_eq!(&o.parent[..36], &CALLER[..36]);
        assert_eq!(&o.parent[52..], &CALLER[52..]);
        assert_ne!(&o.parent[36..52], &CALLER[36..52], "another span");
        assert!(o.keeps_state);
        assert!(!out(&[CALLER], &[b"nonsense"]).keeps_state);
        let bad: [&[&[u8]]; 3] = [&[], &[b"bad"], &[CALLER, CALLER]];
        for bad in bad {
            let o = out(bad, &[b"a=1"]);
            assert_ne!(&o.parent[3..35], &CALLER[3..35], "a trace of our own");
            assert_eq!(o.parent[54], b'2', "no share of new traces is recorded");
            assert!(!o.keeps_state, "a state belongs to its trace");
        }
        let all = on(100);
        assert_eq!(
            seen(&all, &[], &[]).unwrap().outgoing().unwrap().parent[54],
            b'3'
        );
    }

    #[test]
    fn no_two_ids_are_the_same() {
        let ids = Ids::seeded();
        let spans: HashSet<_> = (0..1000).map(|_| ids.span()).collect();
        let traces: HashSet<_> = (0..1000).map(|_| ids.trace()).collect();
        assert_eq!((spans.len(), traces.len()), (1000, 1000));
        assert_ne!(Ids::seeded().trace(), Ids::seeded().trace());
    }
}
