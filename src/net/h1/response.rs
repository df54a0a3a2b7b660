//! The head of an engine's answer, read as bytes and rewritten for the client (data plane 7.2).
//!
//! Owns: the framing an answer has and the lines that pass. Leaves to others: following the body
//! (`framing`).

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
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `Content-Encoding`.
    pub content_encoding: Option<String>,
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
    let mut lines = [httparse::EMPTY_HEADER; MAX_LINES];
    let mut response = httparse::Response::new(&mut lines);
    let len = match response.parse(buf) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) if buf.len() < MAX_HEAD => return Ok(None),
        _ => return Err(NotHttp),
    };
    let status = response.code.ok_or(NotHttp)?;
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
    let named = named_in_connection(response.headers);
    let mut framing = Framing::default();
    for line in response.headers.iter() {
        framing.note(line)?;
    }
    for line in response.headers.iter() {
        head.pass(line, &named, &framing);
    }
    head.keep_alive &= !named.iter().any(|n| n.eq_ignore_ascii_case("close"));
    head.frame(framing);
    Ok(Some(head))
}

/// What the lines say about the body's end.
#[derive(Default)]
struct Framing {
    chunked: bool,
    length: Option<u64>,
}

impl Framing {
    fn note(&mut self, line: &httparse::Header) -> Result<(), NotHttp> {
        let text = || std::str::from_utf8(line.value).map_err(|_| NotHttp);
        if line.name.eq_ignore_ascii_case("transfer-encoding") {
            let text = text()?.trim();
            // Codings that we would have to take off are nobody's answer to a plain request.
            if !text.eq_ignore_ascii_case("chunked") || self.chunked {
                return Err(NotHttp);
            }
            self.chunked = true;
        } else if line.name.eq_ignore_ascii_case("content-length") {
            let text = text()?.trim();
            let digits = !text.is_empty() && text.len() <= 18;
            let length = text
                .parse()
                .ok()
                .filter(|_| digits && !text.starts_with('+'));
            let length: u64 = length.ok_or(NotHttp)?;
            if self.length.is_some_and(|l| l != length) {
                return Err(NotHttp);
            }
            self.length = Some(length);
        }
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

    /// A line that is about the message and not about its connection passes as it came.
    fn pass(&mut self, line: &httparse::Header, named: &[&str], framing: &Framing) {
        let is = |name: &str| line.name.eq_ignore_ascii_case(name);
        let text = || std::str::from_utf8(line.value).ok().map(str::to_owned);
        if is_hop_by_hop(line.name) || named.iter().any(|n| is(n)) {
            return;
        }
        if is("content-type") {
            self.content_type = text();
        } else if is("content-encoding") {
            self.content_encoding = text();
        } else if is("content-length") && framing.chunked {
            // The coding is what counts (RFC 9112, 6.3).
            return;
        }
        self.push(line.name.as_bytes(), line.value);
    }

    fn push(&mut self, name: &[u8], value: &[u8]) {
        self.lines.extend_from_slice(name);
        self.lines.extend_from_slice(b": ");
        self.lines.extend_from_slice(value);
        self.lines.extend_from_slice(b"\r\n");
    }

    fn frame(&mut self, framing: Framing) {
        let bodiless = matches!(self.status, 100..200 | 204 | 304);
        self.body = match framing {
            _ if bodiless => Tracker::length(0),
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

fn named_in_connection<'a>(headers: &[httparse::Header<'a>]) -> Vec<&'a str> {
    let lines = headers
        .iter()
        .filter(|h| h.name.eq_ignore_ascii_case("connection"));
    let values = lines.filter_map(|h| std::str::from_utf8(h.value).ok());
    values
        .flat_map(|v| v.split(','))
        .map(str::trim)
        .filter(|t| !t.is_empty())
        .collect()
}

fn is_hop_by_hop(name: &str) -> bool {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    match name.len() {
        2 => is("te"),
        7 => is("upgrade"),
        10 => is("connection") || is("keep-alive"),
        16 => is("proxy-connection"),
        18 => is("proxy-authenticate"),
        19 => is("proxy-authorization"),
        _ => false,
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
            String::from_utf8(h.lines).unwrap(),
            "HTTP/1.1 200 Fine\r\nX-A: 1\r\nset-cookie: a\r\nSet-Cookie: b\r\nContent-Type: text/event-stream\r\n\
             Transfer-Encoding: chunked\r\n"
        );
        assert_eq!(h.content_type.as_deref(), Some("text/event-stream"));
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
