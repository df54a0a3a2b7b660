//! Which request heads are plain enough to be carried as bytes, and their lines as forwarded.
//!
//! Owns: the admission and the rewriting of data plane 7.1. Leaves to others: every other head, and
//! with it every doubt: what is not plain goes to the HTTP library, which refuses or understands it.
//!
//! Nothing is copied out of a head: what was found are places in it, and the lines between those that
//! stay behind are forwarded as they came.

use std::mem::MaybeUninit;
use std::ops::Range;

use bytes::BufMut;

use crate::rules::client_key::may_be_key;
use crate::rules::trace_context::{TRACEPARENT, TRACESTATE};

/// A longer head is not plain.
pub const MAX_HEAD: usize = 16 * 1024;

/// Most header lines a plain head has.
const MAX_LINES: usize = 64;

/// A plain head: `POST`, HTTP/1.1, one `Host`, one length, nothing that concerns the connection. All
/// places are in the bytes that it was found in, which its methods are given.
#[derive(Debug, PartialEq, Eq)]
pub struct Plain {
    /// Its length in the buffer, the empty line included.
    pub len: usize,
    /// Path and query.
    target: Range<usize>,
    /// `Host`.
    host: Range<usize>,
    /// `Origin`, if a web page asks.
    origin: Option<Range<usize>>,
    /// Whether it asks "are you the engine?".
    pub probe: bool,
    /// Length of the body.
    pub content_length: u64,
    /// All header lines.
    lines: Range<usize>,
    /// Those of them that do not pass, or not always; in their order.
    special: Vec<(Range<usize>, Special)>,
    /// `X-Forwarded-For` so far, each value with a comma behind it.
    chain: Vec<u8>,
    /// Whether it shows what may be a client key of ours.
    pub keyed: bool,
}

/// Why a line may stay behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    /// It is never forwarded.
    Ours,
    Authorization,
    TraceParent,
    TraceState,
}

/// What stays behind because the target is told something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Without {
    /// `Authorization`.
    pub authorization: bool,
    /// `traceparent`.
    pub parents: bool,
    /// `tracestate`.
    pub states: bool,
}

impl Without {
    fn leaves_out(self, line: Special) -> bool {
        match line {
            Special::Ours => true,
            Special::Authorization => self.authorization,
            Special::TraceParent => self.parents,
            Special::TraceState => self.states,
        }
    }
}

/// What the bytes so far are.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    /// The beginning of something that may be plain.
    Partial,
    /// Not plain.
    Other,
    /// Plain.
    Plain(Box<Plain>),
}

/// Looks at the bytes of a connection from a request's first byte on.
pub fn admit(buf: &[u8]) -> Admission {
    // The first bytes tell most others apart at once.
    let beginning = &buf[..buf.len().min(6)];
    if !b"POST /".starts_with(beginning) {
        return Admission::Other;
    }
    let mut lines = [const { MaybeUninit::uninit() }; MAX_LINES];
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(buf, &mut lines) {
        Ok(httparse::Status::Partial) if buf.len() < MAX_HEAD => Admission::Partial,
        Ok(httparse::Status::Complete(len)) if len <= MAX_HEAD => {
            let whole = &buf[..len];
            match plain(&request, whole) {
                Some(plain) => Admission::Plain(Box::new(plain)),
                None => Admission::Other,
            }
        },
        _ => Admission::Other,
    }
}

fn plain(request: &httparse::Request, head: &[u8]) -> Option<Plain> {
    if request.method != Some("POST") || request.version != Some(1) || !has_strict_lines(head) {
        return None;
    }
    let target = request.path?;
    if !target.starts_with('/') || target.contains('#') {
        return None;
    }
    // The empty line is not theirs.
    let end = head.len() - 2;
    let begin = |line: &httparse::Header| place(head, line.name.as_bytes()).start;
    let mut new = Plain {
        len: head.len(),
        target: place(head, target.as_bytes()),
        host: 0..0,
        origin: None,
        probe: false,
        content_length: 0,
        lines: request.headers.first().map_or(end, begin)..end,
        special: Vec::with_capacity(4),
        chain: Vec::new(),
        keyed: false,
    };
    let (mut hosts, mut lengths) = (0, 0);
    for (i, line) in request.headers.iter().enumerate() {
        let special = match kind(line.name) {
            Kind::Other => continue,
            Kind::Host => {
                hosts += 1;
                new.host = place(head, line.value);
                Special::Ours
            },
            Kind::Length => {
                lengths += 1;
                new.content_length = super::length(line.value)?;
                continue;
            },
            Kind::Origin => {
                // Two of them are nobody's plain request.
                if new.origin.replace(place(head, line.value)).is_some() {
                    return None;
                }
                continue;
            },
            Kind::Authorization => {
                if new.special.iter().any(|s| s.1 == Special::Authorization) {
                    return None;
                }
                new.keyed |= may_be_key(line.value);
                Special::Authorization
            },
            Kind::ApiKey => {
                new.keyed |= may_be_key(line.value);
                continue;
            },
            Kind::Probe => {
                new.probe |= line.value == b"1";
                continue;
            },
            Kind::TraceParent => Special::TraceParent,
            Kind::TraceState => Special::TraceState,
            Kind::ForwardedFor => {
                new.chain.extend_from_slice(line.value);
                new.chain.extend_from_slice(b", ");
                Special::Ours
            },
            Kind::Connection if line.value.eq_ignore_ascii_case(b"keep-alive") => Special::Ours,
            Kind::Connection | Kind::Special => return None,
        };
        let next = request.headers.get(i + 1).map_or(end, begin);
        new.special.push((begin(line)..next, special));
    }
    (hosts == 1 && lengths == 1).then_some(new)
}

/// Where a part of a head stands in it.
fn place(head: &[u8], part: &[u8]) -> Range<usize> {
    let start = part.as_ptr().addr().wrapping_sub(head.as_ptr().addr());
    start..start + part.len()
}

impl Plain {
    /// Path and query. Of other bytes than it was found in: nothing sensible, as everywhere here.
    pub fn target<'h>(&self, head: &'h [u8]) -> &'h [u8] {
        &head[self.target.clone()]
    }

    /// `Host`, as sent; `None` if it is no text.
    pub fn host<'h>(&self, head: &'h [u8]) -> Option<&'h str> {
        std::str::from_utf8(&head[self.host.clone()]).ok()
    }

    /// `Origin`, if a web page asks.
    pub fn origin<'h>(&self, head: &'h [u8]) -> Option<&'h [u8]> {
        self.origin.clone().map(|place| &head[place])
    }

    /// Whether a web page asks.
    pub fn has_origin(&self) -> bool {
        self.origin.is_some()
    }

    /// The caller's `traceparent` values, as they came.
    pub fn trace_parents<'h>(&self, head: &'h [u8]) -> impl Iterator<Item = &'h [u8]> + Clone {
        self.values(Special::TraceParent, head)
    }

    /// The caller's `tracestate` values, as they came.
    pub fn trace_states<'h>(&self, head: &'h [u8]) -> impl Iterator<Item = &'h [u8]> + Clone {
        self.values(Special::TraceState, head)
    }

    fn values<'h>(
        &self,
        of: Special,
        head: &'h [u8],
    ) -> impl Iterator<Item = &'h [u8]> + Clone + use<'_, 'h> {
        let lines = self
            .special
            .iter()
            .filter(move |(_, special)| *special == of);
        lines.filter_map(|(place, _)| {
            let line = &head[place.clone()];
            let colon = memchr::memchr(b':', line)?;
            Some(line[colon + 1..].trim_ascii())
        })
    }

    /// Writes the lines to forward, each with its line end. `client`: the caller's address as text.
    pub fn put_lines(&self, head: &[u8], client: &str, without: Without, out: &mut impl BufMut) {
        let mut at = self.lines.start;
        for (place, special) in &self.special {
            if without.leaves_out(*special) {
                out.put_slice(&head[at..place.start]);
                at = place.end;
            }
        }
        out.put_slice(&head[at..self.lines.end]);
        out.put_slice(b"X-Forwarded-For: ");
        out.put_slice(&self.chain);
        out.put_slice(client.as_bytes());
        out.put_slice(b"\r\n");
    }

    /// How much room its lines need at most.
    pub fn room(&self, client: &str) -> usize {
        self.lines.len() + self.chain.len() + client.len() + "X-Forwarded-For: \r\n".len()
    }
}

/// What a line means here.
enum Kind {
    Other,
    Host,
    Length,
    Origin,
    Authorization,
    ApiKey,
    Probe,
    TraceParent,
    TraceState,
    ForwardedFor,
    Connection,
    /// About the connection, the framing or the body's timing: not plain.
    Special,
}

fn kind(name: &str) -> Kind {
    // By length first, so that a usual line costs a comparison or two.
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    match name.len() {
        2 if is("te") => Kind::Special,
        4 if is("host") => Kind::Host,
        6 if is("origin") => Kind::Origin,
        6 if is("expect") => Kind::Special,
        7 if is("upgrade") || is("trailer") => Kind::Special,
        9 if is("x-api-key") => Kind::ApiKey,
        10 if is("connection") => Kind::Connection,
        10 if is("keep-alive") => Kind::Special,
        10 if is(TRACESTATE) => Kind::TraceState,
        11 if is(TRACEPARENT) => Kind::TraceParent,
        13 if is("authorization") => Kind::Authorization,
        14 if is("content-length") => Kind::Length,
        15 if is("x-forwarded-for") => Kind::ForwardedFor,
        16 if is("proxy-connection") => Kind::Special,
        17 if is("transfer-encoding") => Kind::Special,
        18 if is("proxy-authenticate") => Kind::Special,
        19 if is("proxy-authorization") => Kind::Special,
        _ if is(crate::rules::ingress::IDENTITY_PROBE) => Kind::Probe,
        _ => Kind::Other,
    }
}

/// Every line ends in CR LF: the parser also takes a line feed alone (never a CR alone).
fn has_strict_lines(head: &[u8]) -> bool {
    // Counted without a branch, so that it compiles to vectors.
    let loose = |(before, byte): (&u8, &u8)| u8::from(*byte == b'\n' && *before != b'\r');
    let pairs = head.iter().zip(&head[1..]);
    head[0] != b'\n' && pairs.fold(0, |any, pair| any | loose(pair)) == 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HERE: &str = "127.0.0.1";

    /// A head and what is in it.
    #[derive(Debug, PartialEq)]
    struct Found(Vec<u8>, Plain);

    impl Found {
        fn lines(&self, without: Without) -> String {
            let mut out = Vec::new();
            self.1.put_lines(&self.0, HERE, without, &mut out);
            assert!(out.len() <= self.1.room(HERE));
            String::from_utf8(out).unwrap()
        }
    }

    fn head(lines: &str) -> Vec<u8> {
        format!("POST /api/chat?x=1 HTTP/1.1\r\n{lines}\r\n").into_bytes()
    }

    fn admitted(lines: &str) -> Option<Found> {
        let head = head(lines);
        match admit(&head) {
            Admission::Plain(p) => Some(Found(head, *p)),
            _ => None,
        }
    }

    #[test]
    fn a_plain_head_keeps_its_lines_as_they_came() {
        let found = admitted(
            "Host: localhost:1\r\nX-Twice: 1\r\naCCept:*/* \r\nX-Twice: 2\r\nAuthorization: k\r\n\
             connection: Keep-Alive\r\nContent-Length: 12\r\nX-Forwarded-For: 10.0.0.1\r\n",
        )
        .unwrap();
        assert_eq!(
            found.lines(Without::default()),
            "X-Twice: 1\r\naCCept:*/* \r\nX-Twice: 2\r\nAuthorization: k\r\nContent-Length: 12\r\n\
             X-Forwarded-For: 10.0.0.1, 127.0.0.1\r\n"
        );
        let Found(head, p) = &found;
        assert_eq!(p.host(head), Some("localhost:1"));
        assert_eq!(p.target(head), b"/api/chat?x=1");
        assert_eq!(
            (p.content_length, p.probe, p.origin(head)),
            (12, false, None)
        );
        let empty = admitted("Host: a\r\nOrigin:\r\nContent-Length: 1\r\nX:\r\n").unwrap();
        assert_eq!(empty.1.origin(&empty.0), Some(&b""[..]));
        let bare = "Origin:\r\nContent-Length: 1\r\nX:\r\nX-Forwarded-For: 127.0.0.1\r\n";
        assert_eq!(empty.lines(Without::default()), bare);
    }

    #[test]
    fn lines_of_trace_context_are_found_and_can_be_left_out() {
        let found = admitted(
            "Host: a\r\nTraceParent: 1\r\nX: y\r\ntracestate:a=1 \r\nAuthorization: k\r\n\
             tracestate: b=2\r\nContent-Length: 1\r\n",
        )
        .unwrap();
        let Found(head, p) = &found;
        assert_eq!(p.trace_parents(head).collect::<Vec<_>>(), [b"1"]);
        assert_eq!(p.trace_states(head).collect::<Vec<_>>(), [b"a=1", b"b=2"]);
        let without = |authorization, parents, states| {
            found.lines(Without {
                authorization,
                parents,
                states,
            })
        };
        let end = "Content-Length: 1\r\nX-Forwarded-For: 127.0.0.1\r\n";
        assert_eq!(
            without(false, false, false),
            format!(
                "TraceParent: 1\r\nX: y\r\ntracestate:a=1 \r\nAuthorization: k\r\ntracestate: b=2\r\n{end}"
            )
        );
        assert_eq!(without(true, true, true), format!("X: y\r\n{end}"));
        assert_eq!(
            without(false, true, false),
            format!("X: y\r\ntracestate:a=1 \r\nAuthorization: k\r\ntracestate: b=2\r\n{end}")
        );
        let none = admitted("Host: a\r\nContent-Length: 1\r\n").unwrap();
        assert_eq!(none.1.trace_parents(&none.0).count(), 0);
        let all = Without {
            authorization: true,
            parents: true,
            states: true,
        };
        assert_eq!(none.lines(all), end);
    }

    #[test]
    fn what_may_be_a_key_of_ours_is_seen_where_keys_stand() {
        for (line, want) in [
            ("X-Other: ktms_1", false),
            ("Authorization: Bearer ktms_1", true),
            ("authorization: llm_1", true),
            ("Authorization: Bearer sk-1", false),
            ("X-API-Key: ktms_1", true),
            ("x-api-key: sk-1", false),
        ] {
            let p = admitted(&format!("Host: a\r\nContent-Length: 1\r\n{line}\r\n")).unwrap();
            assert_eq!(p.1.keyed, want, "{line}");
            assert!(p.lines(Without::default()).contains(line), "{line}");
        }
    }

    #[test]
    fn everything_else_is_left_to_the_library() {
        let ok = "Host: a\r\nContent-Length: 1\r\n";
        assert!(admitted(ok).is_some());
        for more in [
            "Host: b\r\n",
            "Content-Length: 1\r\n",
            "Transfer-Encoding: chunked\r\n",
            "Expect: 100-continue\r\n",
            "Upgrade: websocket\r\n",
            "TE: trailers\r\n",
            "Trailer: x\r\n",
            "Connection: close\r\n",
            "Connection: keep-alive, X-Hop\r\n",
            "Keep-Alive: 5\r\n",
            "Proxy-Authorization: x\r\n",
            "Proxy-Connection: x\r\n",
            "Authorization: a\r\nAuthorization: b\r\n",
            "X: a\rb\r\n",
            " folded\r\n",
            "X : space\r\n",
        ] {
            assert_eq!(admitted(&format!("{ok}{more}")), None, "{more:?}");
        }
        for lines in [
            "Host: a\r\n",
            "Content-Length: 1\r\n",
            "Host: a\r\nContent-Length: +1\r\n",
            "Host: a\r\nContent-Length: 1, 1\r\n",
            "Host: a\r\nContent-Length: 0x1\r\n",
            "Host: a\r\nContent-Length:\r\n",
            "Host: a\nContent-Length: 1\r\n",
        ] {
            assert_eq!(admitted(lines), None, "{lines:?}");
        }
        for raw in [
            "GET / HTTP/1.1\r\n",
            "POST / HTTP/1.0\r\n",
            "POST http://a/ HTTP/1.1\r\n",
            "post / HTTP/1.1\r\n",
            "PRI * HTTP/2.0\r\n",
            "\r\nPOST / HTTP/1.1\r\n",
        ] {
            let all = format!("{raw}Host: a\r\nContent-Length: 1\r\n\r\n");
            assert_eq!(admit(all.as_bytes()), Admission::Other, "{raw:?}");
        }
        let long = format!("{ok}X: {}\r\n", "y".repeat(MAX_HEAD));
        assert_eq!(admitted(&long), None);
        let many: String = (0..80).map(|i| format!("X-{i}: 1\r\n")).collect();
        assert_eq!(admitted(&format!("{ok}{many}")), None);
    }

    proptest! {
        #[test]
        fn a_head_is_partial_until_its_last_byte(cut in 0usize..60) {
            let whole = head("Host: a\r\nContent-Length: 1\r\n");
            let cut = cut.min(whole.len() - 1);
            prop_assert_eq!(admit(&whole[..cut]), Admission::Partial);
        }

        #[test]
        fn no_bytes_make_it_panic(raw in prop::collection::vec(any::<u8>(), 0..300)) {
            let _any = admit(&raw);
            let mut head = b"POST /x HTTP/1.1\r\n".to_vec();
            head.extend_from_slice(&raw);
            let _any = admit(&head);
        }
    }
}
