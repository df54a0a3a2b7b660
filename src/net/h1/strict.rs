//! Requests that two readers could cut apart in two ways, told from all others (RFC 9112, 11.2).
//!
//! Owns: following a connection's requests and finding the first such one. Leaves to others: every
//! other fault of a request, which the HTTP library finds itself, and the answer, which is its too.
//!
//! The library is lenient where the standard lets it be: it takes a line feed for a line's end, two
//! equal lengths for one, a length beside a coding for none. What it forwards then is sound, but a
//! client that sends such things means no good or is broken, and whoever stands in front of us may
//! have read it the other way.

use super::framing::{Malformed, Tracker};

/// A longer head is refused by the library long before.
const MAX_HEAD: usize = 1024 * 1024;

/// Follows the requests of one connection.
#[derive(Debug)]
pub struct Requests(State);

#[derive(Debug)]
enum State {
    /// In a head; what came of it.
    Head(Vec<u8>),
    /// In a body.
    Body(Tracker),
    /// No more is looked at: the library ends this connection.
    Off,
}

impl Default for Requests {
    fn default() -> Self {
        Self(State::Head(Vec::new()))
    }
}

impl Requests {
    /// Goes over bytes on their way to the library and tells how many of them may go on. In a head,
    /// the byte that would complete something refused is made one that no parser takes, so that the
    /// library answers with a 400 and closes. In a body nothing but an end can say so.
    pub fn pass(&mut self, bytes: &mut [u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            match &mut self.0 {
                State::Off => return bytes.len(),
                State::Head(head) => {
                    let Some(n) = memchr::memchr(b'\n', &bytes[at..]) else {
                        head.extend_from_slice(&bytes[at..]);
                        if head.len() > MAX_HEAD {
                            self.0 = State::Off;
                        }
                        return bytes.len();
                    };
                    let end = at + n + 1;
                    head.extend_from_slice(&bytes[at..end]);
                    match line(head) {
                        Line::More => {},
                        // An empty line before a request is nothing (RFC 9112, 2.2).
                        Line::Empty => head.clear(),
                        Line::Request(body) if body.is_done() => head.clear(),
                        Line::Request(body) => self.0 = State::Body(body),
                        Line::Refused => {
                            bytes[end - 1] = 0;
                            self.0 = State::Off;
                        },
                    }
                    at = end;
                },
                State::Body(body) => match step(body, &bytes[at..]) {
                    (n, Ok(())) => {
                        at += n;
                        if body.is_done() {
                            self.0 = State::default();
                        }
                    },
                    (n, Err(Malformed)) => return at + n,
                },
            }
        }
        bytes.len()
    }
}

impl Default for State {
    fn default() -> Self {
        Self::Head(Vec::new())
    }
}

/// How many bytes belong to the body, and whether what follows them breaks its framing.
fn step(body: &mut Tracker, bytes: &[u8]) -> (usize, Result<(), Malformed>) {
    let before = body.clone();
    if let Ok(n) = body.feed(bytes, |_| ()) {
        return (n, Ok(()));
    }
    // Once in a connection's life: where exactly?
    *body = before;
    let sound = bytes.iter().take_while(|b| {
        let one = std::slice::from_ref(*b);
        body.feed(one, |_| ()).is_ok()
    });
    (sound.count(), Err(Malformed))
}

/// What a head is with the line that just ended.
enum Line {
    More,
    Empty,
    /// Complete; the body that follows.
    Request(Tracker),
    Refused,
}

fn line(head: &[u8]) -> Line {
    let Some(lines) = head.strip_suffix(b"\r\n") else {
        return Line::Refused;
    };
    if lines.is_empty() {
        return Line::Empty;
    }
    if !lines.ends_with(b"\r\n") {
        return Line::More;
    }
    match framing(lines) {
        Some(body) => Line::Request(body),
        None => Line::Refused,
    }
}

/// The body of a request with these lines; `None` if they leave any doubt.
fn framing(lines: &[u8]) -> Option<Tracker> {
    let (mut length, mut coding) = (None, None);
    // Each ends in CR LF, and the first is the request's own.
    for line in lines.split(|b| *b == b'\n').skip(1) {
        let Some(colon) = memchr::memchr(b':', line) else {
            continue;
        };
        // With blanks around it the name is the same to a lenient reader.
        let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
        let held = if name.eq_ignore_ascii_case(b"content-length") {
            &mut length
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            &mut coding
        } else {
            continue;
        };
        if held.replace(value).is_some() {
            return None;
        }
    }
    match (length, coding) {
        (None, None) => Some(Tracker::length(0)),
        (Some(n), None) => {
            let digits = (1..=18).contains(&n.len()) && n.iter().all(u8::is_ascii_digit);
            let n = std::str::from_utf8(n).ok().filter(|_| digits)?;
            Some(Tracker::length(n.parse().ok()?))
        },
        // Any other coding would have to be taken off before the body is read.
        (None, Some(c)) if c.eq_ignore_ascii_case(b"chunked") => Some(Tracker::chunked()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What of it goes on, in pieces of this size.
    fn passed(raw: &[u8], size: usize) -> Vec<u8> {
        let (mut requests, mut out) = (Requests::default(), Vec::new());
        for piece in raw.chunks(size) {
            let mut piece = piece.to_vec();
            let n = requests.pass(&mut piece);
            out.extend_from_slice(&piece[..n]);
            if n < piece.len() {
                break;
            }
        }
        out
    }

    fn head(lines: &str) -> Vec<u8> {
        format!("POST /x HTTP/1.1\r\nHost: a\r\n{lines}\r\n").into_bytes()
    }

    #[test]
    fn sound_requests_pass_untouched_one_after_the_other() {
        let mut all = b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
        for (lines, body) in [
            ("", ""),
            ("Content-Length: 5\r\n", "a\nb\r\n"),
            (
                "Transfer-Encoding: Chunked\r\n",
                "2\r\n\n\n\r\n0\r\nT: 1\r\n\r\n",
            ),
            ("content-length:0\r\n", ""),
            ("X-Content-Length: 1\r\nX: Content-Length: 1\r\n", ""),
        ] {
            all.extend(head(lines));
            all.extend(body.as_bytes());
        }
        for size in [1, 2, 7, all.len()] {
            assert_eq!(passed(&all, size), all);
        }
    }

    #[test]
    fn a_doubtful_head_is_spoilt_where_it_would_be_complete() {
        let twice = |line: &str| head(&format!("{line}{line}"));
        for raw in [
            b"GET / HTTP/1.1\n".to_vec(),
            b"\n".to_vec(),
            b"GET / HTTP/1.1\r\nHost: a\r\n\n".to_vec(),
            twice("Content-Length: 1\r\n"),
            twice("Transfer-Encoding: chunked\r\n"),
            head("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"),
            head("Transfer-Encoding: chunked\r\nContent-Length : 1\r\n"),
            head("Content-Length: 1, 1\r\n"),
            head("Content-Length: +1\r\n"),
            head("Content-Length:\r\n"),
            head("Content-Length: 1234567890123456789\r\n"),
            head("Transfer-Encoding: gzip, chunked\r\n"),
            head("Transfer-Encoding: chunked, identity\r\n"),
            head("Transfer-Encoding: xchunked\r\n"),
            head("Transfer-Encoding: identity\r\n"),
            head("Transfer-Encoding:\r\n"),
        ] {
            let mut spoilt = raw.clone();
            *spoilt.last_mut().unwrap() = 0;
            let mut behind = raw;
            behind.extend_from_slice(b"GET /y HTTP/1.1\r\n\r\n");
            spoilt.extend_from_slice(b"GET /y HTTP/1.1\r\n\r\n");
            for size in [1, 5, behind.len()] {
                let shown = String::from_utf8_lossy(&behind);
                assert_eq!(passed(&behind, size), spoilt, "{shown}");
            }
        }
    }

    #[test]
    fn a_broken_body_ends_before_its_fault() {
        let sound = head("Transfer-Encoding: chunked\r\n");
        for (body, good) in [
            ("x\r\n", 0),
            ("2\nab\r\n", 1),
            ("2;e\nab", 3),
            ("2\r\nabc", 5),
            ("0\r\nT: 1\n\r\n", 7),
        ] {
            let raw = [&sound[..], body.as_bytes()].concat();
            for size in [1, 4, raw.len()] {
                assert_eq!(passed(&raw, size), raw[..sound.len() + good], "{body:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn where_the_bytes_are_cut_makes_no_difference(
            raw in "(POST|\r|\n|\r\n| /x HTTP/1.1\r\n|Content-Length: [0-3]\r\n|\
                    Transfer-Encoding: chunked\r\n|a|[0-3]\r\n){0,20}",
            size in 1usize..9,
        ) {
            prop_assert_eq!(passed(raw.as_bytes(), size), passed(raw.as_bytes(), raw.len().max(1)));
        }
    }
}
