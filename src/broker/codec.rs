//! Lines in, frames apart (control-plane facts, transport).
//!
//! Owns: cutting the input into lines under a cap, the envelope of a message, what kind it is.
//! Leaves to others: the parameters (`decode`), everything that goes out (`outbox`).
//!
//! A bad line costs that line only: whatever follows its newline is read as if it had never been.

use std::fmt;
use std::io;
use std::mem;

use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::go;

/// Longest line taken from the broker. The snapshot of a big fleet is the only large message.
pub const MAX_INBOUND: usize = 8 << 20;

/// Room for each read.
const CHUNK: usize = 64 << 10;

/// One line of the input, without its newline.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// Within the cap.
    Whole(&'a [u8]),
    /// Longer than the cap: thrown away up to its newline.
    Oversized,
}

/// Cuts a stream into lines and never holds more than one capped line and one read.
pub struct LineReader<R> {
    input: R,
    limit: usize,
    buf: Vec<u8>,
    /// Start of the unread line.
    start: usize,
    /// Up to here there is no newline.
    scanned: usize,
    /// Inside an oversized line whose beginning is already gone.
    skipping: bool,
    eof: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// A reader of lines of at most `limit` bytes, newline not counted.
    pub fn new(input: R, limit: usize) -> Self {
        Self {
            input,
            limit,
            buf: Vec::new(),
            start: 0,
            scanned: 0,
            skipping: false,
            eof: false,
        }
    }

    /// The next line; `None` at the end. A last line without newline counts. May be dropped and
    /// called again without losing anything.
    pub async fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        let end = loop {
            if let Some(length) = memchr::memchr(b'\n', &self.buf[self.scanned..]) {
                break self.scanned + length;
            }
            self.compact();
            if self.eof {
                if self.buf.is_empty() && !self.skipping {
                    return Ok(None);
                }
                break self.buf.len();
            }
            self.buf.reserve(CHUNK);
            self.eof = self.input.read_buf(&mut self.buf).await? == 0;
        };
        let line = &self.buf[self.start..end];
        self.start = (end + 1).min(self.buf.len());
        self.scanned = self.start;
        if mem::take(&mut self.skipping) || line.len() > self.limit {
            return Ok(Some(Line::Oversized));
        }
        Ok(Some(Line::Whole(line)))
    }

    /// Drops what was handed out, and the beginning of a line that is already too long.
    fn compact(&mut self) {
        self.buf.drain(..self.start);
        self.start = 0;
        if self.skipping || self.buf.len() > self.limit {
            self.skipping = true;
            self.buf.clear();
        }
        if self.buf.is_empty() && self.buf.capacity() > 4 * CHUNK {
            self.buf = Vec::new();
        }
        self.scanned = self.buf.len();
    }
}

/// What the broker sent.
#[derive(Debug)]
pub enum Inbound<'a> {
    /// It wants something.
    Message(Message<'a>),
    /// It answers something that we never asked: ignored.
    Response,
}

/// A request or a notification.
#[derive(Debug)]
pub struct Message<'a> {
    /// Any JSON value but null, echoed byte for byte. With one it is a request, which wants exactly
    /// one answer; without, or with `null`, it is a notification, which is never answered.
    pub id: Option<&'a RawValue>,
    /// Wire method, addressed or not; never empty.
    pub method: String,
    /// Absent and `null` differ: only the first is a decode failure.
    pub params: Option<&'a RawValue>,
}

/// Why a line is no message. Says nothing of its content, so that it may be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Not a JSON object.
    NotAnObject,
    /// `jsonrpc` is not exactly `"2.0"`.
    Version,
    /// `method` is not a string, or neither method nor id is there.
    Method,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAnObject => "not a JSON object",
            Self::Version => "not JSON-RPC 2.0",
            Self::Method => "no method",
        })
    }
}

/// Takes a line apart.
pub fn parse(line: &str) -> Result<Inbound<'_>, Malformed> {
    let [version, id, method, params] =
        go::members(line, ["jsonrpc", "id", "method", "params"]).ok_or(Malformed::NotAnObject)?;
    if go::value::<String>(version).as_deref() != Some("2.0") {
        return Err(Malformed::Version);
    }
    let method: String = go::value(method).ok_or(Malformed::Method)?;
    let id = id.filter(|id| id.get() != "null");
    match (id, method.is_empty()) {
        (Some(_), true) => Ok(Inbound::Response),
        (None, true) => Err(Malformed::Method),
        (id, false) => Ok(Inbound::Message(Message { id, method, params })),
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use futures_util::FutureExt;
    use proptest::prelude::*;
    use tokio::io::ReadBuf;

    use super::*;

    /// Hands out its pieces one a read; always ready.
    struct Pieces(std::vec::IntoIter<Vec<u8>>);

    impl AsyncRead for Pieces {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if let Some(piece) = self.0.find(|p| !p.is_empty()) {
                buf.put_slice(&piece);
            }
            Poll::Ready(Ok(()))
        }
    }

    /// Every line of these pieces; an oversized one is `None`.
    fn lines(pieces: Vec<Vec<u8>>, limit: usize) -> Vec<Option<Vec<u8>>> {
        let mut reader = LineReader::new(Pieces(pieces.into_iter()), limit);
        let mut all = Vec::new();
        loop {
            match reader.next().now_or_never().unwrap().unwrap() {
                Some(Line::Whole(line)) => all.push(Some(line.to_vec())),
                Some(Line::Oversized) => all.push(None),
                None => return all,
            }
        }
    }

    fn text(s: &str) -> Option<Vec<u8>> {
        Some(s.as_bytes().to_vec())
    }

    #[test]
    fn a_last_line_without_newline_is_a_line() {
        assert_eq!(lines(vec![], 10), vec![]);
        assert_eq!(
            lines(vec![b"a\n\nbc".to_vec()], 10),
            [text("a"), text(""), text("bc")]
        );
        assert_eq!(lines(vec![b"a\n".to_vec()], 10), [text("a")]);
    }

    #[test]
    fn an_oversized_line_loses_nothing_after_it() {
        for (input, want) in [
            ("1234\n12345\nx\n", vec![text("1234"), None, text("x")]),
            ("12345", vec![None]),
            ("12345\n", vec![None]),
            ("1234567890\nx", vec![None, text("x")]),
        ] {
            assert_eq!(lines(vec![input.into()], 4), want, "{input:?} at once");
            let bytes = input.bytes().map(|b| vec![b]).collect();
            assert_eq!(lines(bytes, 4), want, "{input:?} by bytes");
        }
    }

    #[test]
    fn memory_stays_bounded_through_an_endless_line() {
        let pieces = std::iter::repeat_n(vec![b'x'; CHUNK], 64).collect::<Vec<_>>();
        let mut reader = LineReader::new(Pieces(pieces.into_iter()), CHUNK);
        assert_eq!(
            reader.next().now_or_never().unwrap().unwrap(),
            Some(Line::Oversized)
        );
        assert!(reader.buf.capacity() <= 4 * CHUNK);
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_where_reads_end(
            input in proptest::collection::vec(prop_oneof![3 => 97u8..100, 1 => Just(b'\n')], 0..200),
            cuts in proptest::collection::vec(0usize..200, 0..20),
            limit in 0usize..12,
        ) {
            let mut cuts: Vec<_> = cuts.into_iter().filter(|c| *c <= input.len()).collect();
            cuts.push(input.len());
            cuts.sort_unstable();
            let mut from = 0;
            let pieces = cuts.iter().map(|&to| input[mem::replace(&mut from, to)..to].to_vec());
            let mut want: Vec<_> = input.split(|b| *b == b'\n').map(|l| {
                (l.len() <= limit).then(|| l.to_vec())
            }).collect();
            if input.is_empty() || input.ends_with(b"\n") {
                want.pop();
            }
            prop_assert_eq!(lines(pieces.collect(), limit), want);
        }

        #[test]
        fn no_line_panics(line in ".{0,80}") {
            drop(parse(&line));
        }
    }

    #[test]
    fn id_and_method_decide_what_a_message_is() {
        for (members, want) in [
            (r#""id":1,"method":"a""#, "request"),
            (r#""id":0,"method":"a""#, "request"),
            (r#""id":false,"method":"a""#, "request"),
            (r#""method":"a""#, "notification"),
            (r#""id":null,"method":"a""#, "notification"),
            (r#""id":1"#, "response"),
            (r#""id":1,"method":"""#, "response"),
            (r#""id":1,"method":null,"result":5"#, "response"),
            (r#""id":null"#, "Method"),
            (r#""params":{}"#, "Method"),
            (r#""id":1,"method":5"#, "Method"),
        ] {
            let line = format!(r#"{{"jsonrpc":"2.0",{members}}}"#);
            let got = match parse(&line) {
                Ok(Inbound::Message(m)) if m.id.is_some() => "request".to_owned(),
                Ok(Inbound::Message(_)) => "notification".to_owned(),
                Ok(Inbound::Response) => "response".to_owned(),
                Err(e) => format!("{e:?}"),
            };
            assert_eq!(got, want, "{line}");
        }
    }

    #[test]
    fn anything_but_version_two_is_malformed() {
        for line in [
            r#"{"jsonrpc":"1.0","id":1,"method":"a"}"#,
            r#"{"jsonrpc":2.0,"id":1,"method":"a"}"#,
            r#"{"jsonrpc":null,"id":1,"method":"a"}"#,
            r#"{"id":1,"method":"a"}"#,
        ] {
            assert_eq!(parse(line).unwrap_err(), Malformed::Version, "{line}");
        }
        for line in [
            "",
            "\r",
            "text",
            "[]",
            "5",
            r#"{"jsonrpc":"2.0","id":5,"meth"#,
            "\u{fffd}",
        ] {
            assert_eq!(parse(line).unwrap_err(), Malformed::NotAnObject, "{line}");
        }
    }

    #[test]
    fn an_id_keeps_its_bytes() {
        for id in [
            "1e400",
            "1.50",
            "\"\\u0041\"",
            r#"{"b": 1,"a":[ ]}"#,
            "[null]",
            "-0",
        ] {
            let line = format!(r#"{{"method":"a", "id": {id} ,"jsonrpc":"2.0"}}"#);
            match parse(&line) {
                Ok(Inbound::Message(m)) => assert_eq!(m.id.unwrap().get(), id),
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    #[test]
    fn absent_and_null_params_differ() {
        let params = |members: &str| {
            let line = format!(r#"{{"jsonrpc":"2.0","method":"a"{members}}}"#);
            match parse(&line) {
                Ok(Inbound::Message(m)) => m.params.map(|p| p.get().to_owned()),
                other => panic!("{line}: {other:?}"),
            }
        };
        assert_eq!(params(""), None);
        assert_eq!(params(r#","params":null"#).as_deref(), Some("null"));
    }
}
