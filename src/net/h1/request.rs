//! Which request heads are plain enough to be carried as bytes, and their lines as forwarded.
//!
//! Owns: the admission and the rewriting of data plane 7.1. Leaves to others: every other head, and
//! with it every doubt: what is not plain goes to the HTTP library, which refuses or understands it.

use std::ops::Range;

use crate::rules::client_key::may_be_key;
use crate::rules::trace_context::{TRACEPARENT, TRACESTATE};

/// A longer head is not plain.
pub const MAX_HEAD: usize = 16 * 1024;

/// Most header lines a plain head has.
const MAX_LINES: usize = 64;

/// A plain head: `POST`, HTTP/1.1, one `Host`, one length, nothing that concerns the connection.
#[derive(Debug, PartialEq, Eq)]
pub struct Plain {
    /// Its length in the buffer, the empty line included.
    pub len: usize,
    /// Path and query.
    pub target: String,
    /// `Host`, as sent.
    pub host: String,
    /// `Origin`, if a web page asks.
    pub origin: Option<Vec<u8>>,
    /// Whether it asks "are you the engine?".
    pub probe: bool,
    /// Length of the body.
    pub content_length: u64,
    /// The lines to forward, without `Host`, each with its line end.
    pub lines: Vec<u8>,
    /// Where `Authorization` stands among them.
    pub authorization: Option<Range<usize>>,
    /// Where lines of trace context stand among them; few requests have any.
    pub trace: Option<Box<TraceLines>>,
    /// Whether it shows what may be a client key of ours.
    pub keyed: bool,
}

/// Lines of trace context, each with its line end.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TraceLines {
    parents: Vec<Range<usize>>,
    states: Vec<Range<usize>>,
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

/// Looks at the bytes of a connection from a request's first byte on. `client` is its address as text:
/// made once a connection, since that costs as much as many a line.
pub fn admit(buf: &[u8], client: &str) -> Admission {
    // The first bytes tell most others apart at once.
    let beginning = &buf[..buf.len().min(6)];
    if !b"POST /".starts_with(beginning) {
        return Admission::Other;
    }
    let mut lines = [httparse::EMPTY_HEADER; MAX_LINES];
    let mut request = httparse::Request::new(&mut lines);
    match request.parse(buf) {
        Ok(httparse::Status::Partial) if buf.len() < MAX_HEAD => Admission::Partial,
        Ok(httparse::Status::Complete(len)) if len <= MAX_HEAD => {
            let whole = &buf[..len];
            match plain(&request, whole, client) {
                Some(plain) => Admission::Plain(Box::new(plain)),
                None => Admission::Other,
            }
        },
        _ => Admission::Other,
    }
}

fn plain(request: &httparse::Request, head: &[u8], client: &str) -> Option<Plain> {
    if request.method != Some("POST") || request.version != Some(1) || !has_strict_lines(head) {
        return None;
    }
    let target = request.path?;
    if !target.starts_with('/') || target.contains('#') {
        return None;
    }
    let mut new = Plain {
        len: head.len(),
        target: target.to_owned(),
        host: String::new(),
        origin: None,
        probe: false,
        content_length: 0,
        lines: Vec::with_capacity(head.len() + 64),
        authorization: None,
        trace: None,
        keyed: false,
    };
    let (mut hosts, mut lengths) = (0, 0);
    let mut chain: Vec<u8> = Vec::new();
    for line in request.headers.iter() {
        match kind(line.name) {
            Kind::Other => new.push(line),
            Kind::Host => {
                hosts += 1;
                new.host = std::str::from_utf8(line.value).ok()?.to_owned();
            },
            Kind::Length => {
                lengths += 1;
                new.content_length = length(line.value)?;
                new.push(line);
            },
            Kind::Origin => {
                // Two of them are nobody's plain request.
                if new.origin.replace(line.value.to_vec()).is_some() {
                    return None;
                }
                new.push(line);
            },
            Kind::Authorization => {
                if new.authorization.is_some() {
                    return None;
                }
                new.keyed |= may_be_key(line.value);
                new.authorization = Some(new.placed(line));
            },
            Kind::ApiKey => {
                new.keyed |= may_be_key(line.value);
                new.push(line);
            },
            Kind::Probe => {
                new.probe |= line.value == b"1";
                new.push(line);
            },
            Kind::TraceParent => {
                let range = new.placed(line);
                new.trace.get_or_insert_default().parents.push(range);
            },
            Kind::TraceState => {
                let range = new.placed(line);
                new.trace.get_or_insert_default().states.push(range);
            },
            Kind::ForwardedFor => {
                chain.extend_from_slice(line.value);
                chain.extend_from_slice(b", ");
            },
            Kind::Connection if line.value.eq_ignore_ascii_case(b"keep-alive") => {},
            Kind::Connection | Kind::Special => return None,
        }
    }
    if hosts != 1 || lengths != 1 {
        return None;
    }
    new.lines.extend_from_slice(b"X-Forwarded-For: ");
    new.lines.extend_from_slice(&chain);
    new.lines.extend_from_slice(client.as_bytes());
    new.lines.extend_from_slice(b"\r\n");
    Some(new)
}

impl Plain {
    /// The caller's `traceparent` values, as they came.
    pub fn trace_parents(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let lines = self.trace.iter().flat_map(|t| &t.parents);
        lines.map(|range| self.value(range, TRACEPARENT))
    }

    /// The caller's `tracestate` values, as they came.
    pub fn trace_states(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let lines = self.trace.iter().flat_map(|t| &t.states);
        lines.map(|range| self.value(range, TRACESTATE))
    }

    fn value(&self, line: &Range<usize>, name: &str) -> &[u8] {
        &self.lines[line.start + name.len() + 2..line.end - 2]
    }

    /// The lines to forward, in pieces: without `Authorization` where the target has a key of its own,
    /// without the caller's trace where it is told ours.
    pub fn lines_without(&self, authorization: bool, parents: bool, states: bool) -> Pieces<'_> {
        let mut cut = Vec::new();
        cut.extend(self.authorization.clone().filter(|_| authorization));
        if let Some(trace) = &self.trace {
            let parents = trace.parents.iter().filter(|_| parents);
            let states = trace.states.iter().filter(|_| states);
            cut.extend(parents.chain(states).cloned());
        }
        cut.sort_unstable_by_key(|range| range.start);
        Pieces {
            lines: &self.lines,
            at: 0,
            cut: cut.into_iter(),
        }
    }

    /// Adds a line, and says where it stands.
    fn placed(&mut self, line: &httparse::Header) -> Range<usize> {
        let start = self.lines.len();
        self.push(line);
        start..self.lines.len()
    }

    fn push(&mut self, line: &httparse::Header) {
        self.lines.extend_from_slice(line.name.as_bytes());
        self.lines.extend_from_slice(b": ");
        self.lines.extend_from_slice(line.value);
        self.lines.extend_from_slice(b"\r\n");
    }
}

/// Lines of a head with some of them left out.
pub struct Pieces<'a> {
    lines: &'a [u8],
    at: usize,
    /// In their order, none overlapping another.
    cut: std::vec::IntoIter<Range<usize>>,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let begin = self.at;
        if let Some(cut) = self.cut.next() {
            self.at = cut.end;
            return Some(&self.lines[begin..cut.start]);
        }
        self.at = self.lines.len();
        (begin < self.at).then(|| &self.lines[begin..])
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

fn length(value: &[u8]) -> Option<u64> {
    let plain = !value.is_empty() && value.len() <= 18 && value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value)
        .ok()
        .filter(|_| plain)?
        .parse()
        .ok()
}

/// Every line ends in CR LF: the parser also takes a line feed alone (never a CR alone).
fn has_strict_lines(head: &[u8]) -> bool {
    memchr::memchr_iter(b'\n', head).all(|at| at > 0 && head[at - 1] == b'\r')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HERE: &str = "127.0.0.1";

    fn head(lines: &str) -> Vec<u8> {
        format!("POST /api/chat?x=1 HTTP/1.1\r\n{lines}\r\n").into_bytes()
    }

    fn admitted(lines: &str) -> Option<Plain> {
        match admit(&head(lines), HERE) {
            Admission::Plain(p) => Some(*p),
            _ => None,
        }
    }

    #[test]
    fn a_plain_head_keeps_its_lines_as_they_came() {
        let p = admitted(
            "Host: localhost:1\r\nX-Twice: 1\r\naCCept: */*\r\nX-Twice: 2\r\nAuthorization: k\r\n\
             connection: Keep-Alive\r\nContent-Length: 12\r\nX-Forwarded-For: 10.0.0.1\r\n",
        )
        .unwrap();
        assert_eq!(
            String::from_utf8(p.lines.clone()).unwrap(),
            "X-Twice: 1\r\naCCept: */*\r\nX-Twice: 2\r\nAuthorization: k\r\nContent-Length: 12\r\n\
             X-Forwarded-For: 10.0.0.1, 127.0.0.1\r\n"
        );
        let auth = &p.lines[p.authorization.unwrap()];
        assert_eq!(auth, b"Authorization: k\r\n");
        assert_eq!(
            (p.host.as_str(), p.target.as_str()),
            ("localhost:1", "/api/chat?x=1")
        );
        assert_eq!((p.content_length, p.probe, p.origin), (12, false, None));
    }

    #[test]
    fn lines_of_trace_context_are_found_and_can_be_left_out() {
        let p = admitted(
            "Host: a\r\nTraceParent: 1\r\nX: y\r\ntracestate: a=1\r\nAuthorization: k\r\n\
             tracestate: b=2\r\nContent-Length: 1\r\n",
        )
        .unwrap();
        assert_eq!(p.trace_parents().collect::<Vec<_>>(), [b"1"]);
        assert_eq!(p.trace_states().collect::<Vec<_>>(), [b"a=1", b"b=2"]);
        let without = |a, p_, s| -> String {
            let pieces = p.lines_without(a, p_, s).collect::<Vec<_>>().concat();
            String::from_utf8(pieces).unwrap()
        };
        let end = "Content-Length: 1\r\nX-Forwarded-For: 127.0.0.1\r\n";
        assert_eq!(without(false, false, false).as_bytes(), p.lines);
        assert_eq!(without(true, true, true), format!("X: y\r\n{end}"));
        assert_eq!(
            without(false, true, false),
            format!("X: y\r\ntracestate: a=1\r\nAuthorization: k\r\ntracestate: b=2\r\n{end}")
        );
        let none = admitted("Host: a\r\nContent-Length: 1\r\n").unwrap();
        assert_eq!(
            (none.trace_parents().count(), none.trace.is_none()),
            (0, true)
        );
        let whole = none
            .lines_without(true, true, true)
            .collect::<Vec<_>>()
            .concat();
        assert_eq!(whole, none.lines);
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
            assert_eq!(p.keyed, want, "{line}");
            assert!(String::from_utf8(p.lines).unwrap().contains(line), "{line}");
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
            assert_eq!(admit(all.as_bytes(), HERE), Admission::Other, "{raw:?}");
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
            prop_assert_eq!(admit(&whole[..cut], HERE), Admission::Partial);
        }

        #[test]
        fn no_bytes_make_it_panic(raw in prop::collection::vec(any::<u8>(), 0..300)) {
            let _any = admit(&raw, HERE);
            let mut head = b"POST /x HTTP/1.1\r\n".to_vec();
            head.extend_from_slice(&raw);
            let _any = admit(&head, HERE);
        }
    }
}
