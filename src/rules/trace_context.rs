//! W3C Trace Context: what a caller says of its trace, and what a target is told of ours.
//!
//! Owns: reading `traceparent` and `tracestate`, writing `traceparent`, which new traces are
//! recorded. Leaves to others: where ids come from (`telemetry`), the header lines (`facade`).

use std::fmt;

/// Most bytes of a `tracestate` that is passed on; the standard asks for at least 512.
const MAX_STATE: usize = 4096;

/// Most members of a `tracestate`, as the standard has it.
const MAX_MEMBERS: usize = 32;

/// Length of a `traceparent` of version 00.
pub const PARENT_LEN: usize = 55;

/// `traceparent`.
pub const TRACEPARENT: &str = "traceparent";

/// `tracestate`.
pub const TRACESTATE: &str = "tracestate";

/// Flag: the caller records this trace.
const SAMPLED: u8 = 1;

/// Flag: the id's last seven bytes are random. Passed on as it came.
const RANDOM: u8 = 2;

/// A trace's id; never all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

/// A span's id; never all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

impl TraceId {
    /// Of random bits; zero, which is no id, counts as one.
    pub fn of(bits: u128) -> Self {
        Self(bits.max(1).to_be_bytes())
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Whether a new trace of this id is recorded where `percent` of a hundred are. The same id gives
    /// the same answer everywhere.
    pub fn is_within(&self, percent: u32) -> bool {
        // The last seven bytes are those that the standard wants to be random.
        let low = u128::from_be_bytes(self.0) & ((1 << 56) - 1);
        low * 100 < u128::from(percent.min(100)) << 56
    }
}

impl SpanId {
    /// Of random bits; zero, which is no id, counts as one.
    pub fn of(bits: u64) -> Self {
        Self(bits.max(1).to_be_bytes())
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; 8] {
        &self.0
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// A place in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace: TraceId,
    /// The span in it.
    pub span: SpanId,
    flags: u8,
}

impl TraceContext {
    /// The first span of a trace of our own.
    pub fn root(trace: TraceId, span: SpanId, sampled: bool) -> Self {
        let flags = RANDOM | if sampled { SAMPLED } else { 0 };
        Self { trace, span, flags }
    }

    /// Another span of the same trace.
    pub fn at(self, span: SpanId) -> Self {
        Self { span, ..self }
    }

    /// Whether the trace is recorded.
    pub fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The flags, for whoever exports the span.
    pub fn flags(self) -> u8 {
        self.flags
    }

    /// Reads a `traceparent`; `None` for one that is malformed, which counts as absent. Of a later
    /// version the part that this one knows is taken.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let value = value.trim_ascii();
        let (head, rest) = value.split_at_checked(PARENT_LEN)?;
        let version = byte(&head[..2])?;
        let fits = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.first().is_none_or(|b| *b == b'-'),
        };
        if !fits || [head[2], head[35], head[52]] != *b"---" {
            return None;
        }
        let (mut trace, mut span) = ([0; 16], [0; 8]);
        fill(&mut trace, &head[3..35])?;
        fill(&mut span, &head[36..52])?;
        let flags = byte(&head[53..])? & (SAMPLED | RANDOM);
        let ids = trace != [0; 16] && span != [0; 8];
        ids.then_some(Self {
            trace: TraceId(trace),
            span: SpanId(span),
            flags,
        })
    }

    /// As a `traceparent`.
    pub fn header(self) -> [u8; PARENT_LEN] {
        let mut out = [b'-'; PARENT_LEN];
        out[..2].copy_from_slice(b"00");
        write(&mut out[3..35], &self.trace.0);
        write(&mut out[36..52], &self.span.0);
        write(&mut out[53..], &[self.flags]);
        out
    }
}

/// Whether a `tracestate` may be passed on, given its lines: short enough, of keys with values. What
/// they mean is its vendors' business.
pub fn is_state<'a>(lines: impl Iterator<Item = &'a [u8]>) -> bool {
    let (mut bytes, mut members) = (0, 0);
    for line in lines {
        bytes += line.len();
        for member in line.split(|b| *b == b',').map(<[u8]>::trim_ascii) {
            if member.is_empty() {
                continue;
            }
            members += 1;
            let at = memchr::memchr(b'=', member);
            let sound = member.iter().all(|b| matches!(b, b' '..=b'~'));
            if !sound || at.is_none_or(|at| at == 0 || at + 1 == member.len()) {
                return false;
            }
        }
    }
    members > 0 && members <= MAX_MEMBERS && bytes <= MAX_STATE
}

/// Two lower-case hex digits.
fn byte(digits: &[u8]) -> Option<u8> {
    let digit = |b: u8| match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'a'..=b'f' => Some(b - b'a' + 10),
        _ => None,
    };
    Some(digit(digits[0])? << 4 | digit(digits[1])?)
}

fn fill(out: &mut [u8], digits: &[u8]) -> Option<()> {
    for (out, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        *out = byte(pair)?;
    }
    Some(())
}

fn write(out: &mut [u8], bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (pair, b) in out.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(b >> 4)];
        pair[1] = DIGITS[usize::from(b & 15)];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_caller_is_read_and_written_as_it_came() {
        let c = TraceContext::parse(GOOD.as_bytes()).unwrap();
        assert_eq!(format!("{:?}", c.trace), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(format!("{:?}", c.span), "00f067aa0ba902b7");
        assert!(c.is_sampled());
        assert_eq!(c.header(), GOOD.as_bytes());
        let quiet = GOOD.replace("-01", "-02");
        let c = TraceContext::parse(quiet.as_bytes()).unwrap();
        assert!(!c.is_sampled());
        assert_eq!(c.header(), quiet.as_bytes());
    }

    #[test]
    fn flags_that_nobody_knows_are_not_passed_on() {
        let c = TraceContext::parse(GOOD.replace("-01", "-fd").as_bytes()).unwrap();
        assert_eq!(c.header(), GOOD.as_bytes());
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        for text in [
            GOOD.replace("00-4", "cc-4"),
            format!("cc{}-what", &GOOD[2..]),
        ] {
            let c = TraceContext::parse(text.as_bytes()).unwrap();
            assert_eq!(c.header(), GOOD.as_bytes(), "{text}");
        }
    }

    #[test]
    fn what_is_malformed_counts_as_absent() {
        let zero_trace = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        let zero_span = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", "0".repeat(16));
        for text in [
            "",
            "00",
            &GOOD[..54],
            &format!("{GOOD}-x"),
            &format!("{GOOD}0"),
            &format!("cc{}x", &GOOD[2..]),
            &GOOD.replace("00-4", "ff-4"),
            &GOOD.to_uppercase(),
            &GOOD.replace("4bf9", "4bg9"),
            &GOOD.replace("-00f0", "_00f0"),
            &zero_trace,
            &zero_span,
        ] {
            assert_eq!(TraceContext::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_state_is_members_with_values() {
        let is = |lines: &[&str]| is_state(lines.iter().map(|l| l.as_bytes()));
        assert!(is(&["a=1"]) && is(&["a=1, b@v=x y,", "c=="]));
        assert!(!is(&[]) && !is(&[""]) && !is(&["a"]) && !is(&["=1"]) && !is(&["a="]));
        assert!(!is(&["a=\t1x\u{7f}"]));
        let many: Vec<String> = (0..33).map(|i| format!("k{i}=1")).collect();
        assert!(is(&[&many[..32].join(",")]) && !is(&[&many.join(",")]));
        assert!(!is(&[&format!("a={}", "x".repeat(MAX_STATE))]));
    }

    #[test]
    fn the_share_of_new_traces_is_as_asked() {
        let of = |low: u128| TraceId::of((7 << 64) | low);
        assert!(!of(0).is_within(0) && of((1 << 56) - 1).is_within(100));
        assert!(of(0).is_within(1) && !of((1 << 56) - 1).is_within(99));
        let half = 1 << 55;
        assert!(of(half - 1).is_within(50) && !of(half).is_within(50));
        assert!(of(half).is_within(1000), "more than all is all");
    }

    proptest! {
        #[test]
        fn ids_come_back(trace in 1u128.., span in 1u64.., sampled: bool) {
            let c = TraceContext::root(TraceId::of(trace), SpanId::of(span), sampled);
            prop_assert_eq!(TraceContext::parse(&c.header()), Some(c));
        }

        #[test]
        fn no_bytes_make_it_panic(raw in prop::collection::vec(any::<u8>(), 0..80)) {
            let _any = TraceContext::parse(&raw);
            let _any = is_state([raw.as_slice()].into_iter());
            let mut like = GOOD.as_bytes().to_vec();
            let n = raw.len().min(like.len());
            like[..n].copy_from_slice(&raw[..n]);
            let _any = TraceContext::parse(&like);
        }
    }
}
