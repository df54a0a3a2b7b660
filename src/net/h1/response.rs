//! The head of an engine's answer, read as bytes and rewritten for the client (data plane 7.2).
//!
//! Owns: the framing an answer has and the lines that pass. Leaves to others: following the body
//! (`framing`).

use std::mem::MaybeUninit;
use std::ops::Range;

use super::framing::Tracker;

/// A longer head is no answer of an engine.
pub const MAX_HEAD: usize = 64 * 1024;

const MAX_LINES: usize = 128;

/// An answer's head.
#[derive(Debug, PartialEq, Eq)]
pub struct Head {
    /// Its length in the buffer, the empty line included.
    pub len: usize,
    /// Its status.
    pub status: u16,
    /// Follows its body.
    pub body: Tracker,
    /// Whether the body has no framing of its own, so that we have to give it one.
    pub unframed: bool,
    /// Whether the connection can be used again.
    pub keep_alive: bool,
    /// Status line and the lines that pass, each with its line end; without the empty line.
    pub lines: Vec<u8>,
    /// Where the value of `Content-Type` stands in the lines.
    content_type: Option<Range<usize>>,
    /// The same of `Content-Encoding`.
    content_encoding: Option<Range<usize>>,
}

/// It is no HTTP/1 answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer is not HTTP/1")]
pub struct NotHttp;

/// Reads a head; `None` = more bytes are needed. Interim answers are the caller's to skip.
///
/// # Errors
/// It is no answer, or says two things about its own end.
pub fn read(buf: &[u8]) -> Result<Option<Head>, NotHttp> {
    let mut lines = [const { MaybeUninit::uninit() }; MAX_LINES];
    let mut response = httparse::Response::new(&mut []);
    let parser = httparse::ParserConfig::default();
    let parsed = parser.parse_response_with_uninit_headers(&mut response, buf, &mut lines);
    let len = match parsed {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) if buf.len() < MAX_HEAD => return Ok(None),
        _ => return Err(NotHttp),
    };
    let status = response.code.filter(|code| *code >= 100).ok_or(NotHttp)?;
    let mut head = Head {
        len,
        status,
        body: Tracker::until_close(),
        unframed: false,
        keep_alive: response.version == Some(1),
        lines: Vec::with_capacity(len + 160),
        content_type: None,
        content_encoding: None,
    };
    head.start(status, response.reason.unwrap_or_default());
    let mut named: Vec<&str> = Vec::new();
    let mut framing = Framing::default();
    let begun = head.lines.len();
    for line in response.headers.iter() {
        let kind = kind(line.name);
        match kind {
            Kind::Coding => framing.coding(line.value)?,
            Kind::Length => framing.length(line.value)?,
            Kind::Connection => named.extend(names(line.value)),
            Kind::Type | Kind::Encoding | Kind::Hop | Kind::Other => {},
        }
        head.pass(kind, line);
    }
    let is_named = |name: &str| named.iter().any(|n| n.eq_ignore_ascii_case(name));
    if framing.is_odd() || head.is_bodiless() || !named.is_empty() {
        // Hardly ever: a line may say of another one that it does not pass.
        head.lines.truncate(begun);
        (head.content_type, head.content_encoding) = (None, None);
        let mut lengths = 0;
        for line in response.headers.iter() {
            let kind = kind(line.name);
            let stays = match kind {
                // Framing is ours to tell, whatever the connection is said to be about.
                Kind::Coding => !head.is_bodiless(),
                Kind::Length => {
                    lengths += 1;
                    // The coding is what counts (RFC 9112, 6.3); of one that has no body only 304
                    // tells how long it would be.
                    let told = !head.is_bodiless() || status == 304;
                    told && !framing.chunked && lengths == 1
                },
                _ => !is_named(line.name),
            };
            if stays {
                head.pass(kind, line);
            }
        }
        // Whoever says two things about an end may mean another one.
        head.keep_alive &= !(framing.chunked && framing.length.is_some());
    }
    head.keep_alive &= !is_named("close");
    head.frame(framing);
    Ok(Some(head))
}

/// What the lines say about the body's end.
#[derive(Default)]
struct Framing {
    chunked: bool,
    length: Option<u64>,
    lines: usize,
}

impl Framing {
    /// More than one line tells of it.
    fn is_odd(&self) -> bool {
        self.lines > 1
    }

    fn coding(&mut self, value: &[u8]) -> Result<(), NotHttp> {
        // Codings that we would have to take off are nobody's answer to a plain request.
        if !value.trim_ascii().eq_ignore_ascii_case(b"chunked") || self.chunked {
            return Err(NotHttp);
        }
        self.chunked = true;
        self.lines += 1;
        Ok(())
    }

    fn length(&mut self, value: &[u8]) -> Result<(), NotHttp> {
        let length = super::length(value.trim_ascii()).ok_or(NotHttp)?;
        if self.length.is_some_and(|l| l != length) {
            return Err(NotHttp);
        }
        self.length = Some(length);
        self.lines += 1;
        Ok(())
    }
}

impl Head {
    fn start(&mut self, status: u16, reason: &str) {
        self.lines.extend_from_slice(b"HTTP/1.1 ");
        self.lines.extend_from_slice(status.to_string().as_bytes());
        self.lines.push(b' ');
        self.lines.extend_from_slice(reason.as_bytes());
        self.lines.extend_from_slice(b"\r\n");
    }

    /// `Content-Type`.
    pub fn content_type(&self) -> Option<&[u8]> {
        self.lines.get(self.content_type.clone()?)
    }

    /// `Content-Encoding`.
    pub fn content_encoding(&self) -> Option<&[u8]> {
        self.lines.get(self.content_encoding.clone()?)
    }

    /// A line that is about the message and not about its connection passes as it came.
    fn pass(&mut self, kind: Kind, line: &httparse::Header) {
        // A name, `: ` and the value.
        let start = self.lines.len() + line.name.len() + 2;
        let value = start..start + line.value.len();
        match kind {
            Kind::Hop | Kind::Connection => return,
            Kind::Type => self.content_type = Some(value),
            Kind::Encoding => self.content_encoding = Some(value),
            Kind::Length | Kind::Coding | Kind::Other => {},
        }
        self.push(line.name.as_bytes(), line.value);
    }

    fn push(&mut self, name: &[u8], value: &[u8]) {
        self.lines.extend_from_slice(name);
        self.lines.extend_from_slice(b": ");
        self.lines.extend_from_slice(value);
        self.lines.extend_from_slice(b"\r\n");
    }

    fn is_bodiless(&self) -> bool {
        matches!(self.status, 100..200 | 204 | 304)
    }

    fn frame(&mut self, framing: Framing) {
        self.body = match framing {
            _ if self.is_bodiless() => Tracker::length(0),
            Framing { chunked: true, .. } => Tracker::chunked(),
            Framing {
                length: Some(n), ..
            } => Tracker::length(n),
            Framing { length: None, .. } => {
                self.keep_alive = false;
                self.unframed = true;
                self.push(b"Transfer-Encoding", b"chunked");
                Tracker::until_close()
            },
        };
    }

    /// Adds a line of ours.
    pub fn add(&mut self, name: &str, value: &str) {
        // Ids come from configuration and discovery: one that would break the head is left out.
        if value.bytes().all(|b| (b' '..=b'~').contains(&b)) {
            self.push(name.as_bytes(), value.as_bytes());
        }
    }
}

/// What `Connection` names.
fn names(value: &[u8]) -> impl Iterator<Item = &str> {
    let text = std::str::from_utf8(value).unwrap_or_default();
    text.split(',').map(str::trim).filter(|t| !t.is_empty())
}

/// What a line means here.
#[derive(Clone, Copy)]
enum Kind {
    Other,
    Type,
    Encoding,
    Length,
    Coding,
    Connection,
    /// About the connection and nothing else.
    Hop,
}

fn kind(name: &str) -> Kind {
    // By length first, so that a usual line costs a comparison or two.
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    match name.len() {
        2 if is("te") => Kind::Hop,
        7 if is("upgrade") => Kind::Hop,
        10 if is("connection") => Kind::Connection,
        10 if is("keep-alive") => Kind::Hop,
        12 if is("content-type") => Kind::Type,
        14 if is("content-length") => Kind::Length,
        16 if is("content-encoding") => Kind::Encoding,
        16 if is("proxy-connection") => Kind::Hop,
        17 if is("transfer-encoding") => Kind::Coding,
        18 if is("proxy-authenticate") => Kind::Hop,
        19 if is("proxy-authorization") => Kind::Hop,
        _ => Kind::Other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ok(text: &str) -> Head {
        read(text.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn the_lines_pass_and_the_connections_own_do_not() {
        let h = ok(
            "HTTP/1.1 200 Fine\r\nX-A: 1\r\nset-cookie: a\r\nSet-Cookie: b\r\nConnection: keep-alive, X-Hop\r\n\
                    X-Hop: 1\r\nKeep-Alive: timeout=5\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
        );
        assert_eq!(
            String::from_utf8(h.lines.clone()).unwrap(),
            "HTTP/1.1 200 Fine\r\nX-A: 1\r\nset-cookie: a\r\nSet-Cookie: b\r\nContent-Type: text/event-stream\r\n\
             Transfer-Encoding: chunked\r\n"
        );
        assert_eq!(h.content_type(), Some(&b"text/event-stream"[..]));
        assert!(h.keep_alive && !h.unframed);
        assert_eq!(h.body, Tracker::chunked());
    }

    #[test]
    fn an_answer_without_framing_gets_ours() {
        let h = ok("HTTP/1.0 200 OK\r\nX: 1\r\n\r\n");
        assert!(h.unframed && !h.keep_alive);
        assert!(h.lines.ends_with(b"Transfer-Encoding: chunked\r\n"));
        assert!(
            h.lines.starts_with(b"HTTP/1.1 200 OK\r\n"),
            "we speak our own version"
        );
    }

    #[test]
    fn a_status_without_a_body_has_none_whatever_it_says() {
        for status in [204, 304] {
            let h = ok(&format!("HTTP/1.1 {status} X\r\nContent-Length: 5\r\n\r\n"));
            assert!(h.body.is_done());
        }
        assert!(!ok("HTTP/1.1 200 X\r\nConnection: Close\r\nContent-Length: 5\r\n\r\n").keep_alive);
    }

    #[test]
    fn two_different_ends_are_no_answer() {
        for lines in [
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: 5, 5\r\n",
        ] {
            let text = format!("HTTP/1.1 200 X\r\n{lines}\r\n");
            assert_eq!(read(text.as_bytes()), Err(NotHttp), "{lines:?}");
        }
        let both = ok("HTTP/1.1 200 X\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!(both.body, Tracker::chunked());
        assert_eq!(read(b"SSH-2.0-x\r\n\r\n"), Err(NotHttp));
        assert_eq!(
            ok("HTTP/1.1 200 X\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n").body,
            Tracker::length(5)
        );
    }

    #[test]
    fn only_what_is_true_of_the_body_is_told() {
        let told = |text: &str| {
            let lines = String::from_utf8(ok(text).lines).unwrap();
            let mut lines = lines.split_terminator("\r\n").skip(1);
            let first = lines.next().unwrap_or_default().to_owned();
            assert_eq!(lines.next(), None, "{text}");
            first
        };
        let (length, coding) = ("Content-Length: 5", "Transfer-Encoding: chunked");
        for (status, lines, want) in [
            (200, vec![length, coding], coding),
            (200, vec![coding, length], coding),
            (200, vec![length, length], length),
            (200, vec!["Connection: content-length", length], length),
            (200, vec!["Connection: Transfer-Encoding", coding], coding),
            (204, vec![coding], ""),
            (204, vec![length], ""),
            (304, vec![length], length),
            (304, vec![coding], ""),
        ] {
            let text = format!("HTTP/1.1 {status} X\r\n{}\r\n\r\n", lines.join("\r\n"));
            assert_eq!(told(&text), want, "{text}");
        }
        let both = format!("HTTP/1.1 200 X\r\n{length}\r\n{coding}\r\n\r\n");
        assert!(!ok(&both).keep_alive);
        assert_eq!(read(b"HTTP/1.1 099 X\r\n\r\n"), Err(NotHttp));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(raw in prop::collection::vec(any::<u8>(), 0..300)) {
            let _any = read(&raw);
            let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
            head.extend_from_slice(&raw);
            let _any = read(&head);
        }
    }
}
