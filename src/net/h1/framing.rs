//! Where a message body ends (RFC 9112, 6 and 7), followed without changing it.
//!
//! Owns: the tracker. Leaves to others: which framing a message has (`response`).

/// The framing broke: what follows cannot be told apart from anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body's framing is broken")]
pub struct Malformed;

/// Follows a body through its raw bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracker(State);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// So many bytes are left.
    Length(u64),
    /// All that comes.
    UntilClose,
    /// In a chunk's size; whether it has a digit yet.
    Size {
        size: u64,
        digits: u8,
    },
    /// Behind the size, up to its line feed.
    Extension {
        size: u64,
    },
    /// The line feed that ends a size line.
    SizeEnd {
        size: u64,
    },
    /// In a chunk.
    Data(u64),
    /// Behind a chunk.
    DataCr,
    DataLf,
    /// At the start of a trailer line, in one, at its end.
    Trailer,
    TrailerLine,
    TrailerLf,
    /// The line feed of the empty line.
    LastLf,
    Done,
}

/// Longest chunk size, in hex digits.
const SIZE_DIGITS: u8 = 15;

impl Tracker {
    /// A body of this length.
    pub fn length(n: u64) -> Self {
        Self(if n == 0 {
            State::Done
        } else {
            State::Length(n)
        })
    }

    /// A chunked body.
    pub fn chunked() -> Self {
        Self(State::Size { size: 0, digits: 0 })
    }

    /// A body that ends with its connection.
    pub fn until_close() -> Self {
        Self(State::UntilClose)
    }

    /// Whether the whole body went by.
    pub fn is_done(&self) -> bool {
        self.0 == State::Done
    }

    /// Whether the end of the connection ends it well.
    pub fn ends_with_close(&self) -> bool {
        matches!(self.0, State::UntilClose | State::Done)
    }

    /// Goes through raw bytes, hands each run of body bytes to `data`, and tells how many bytes
    /// belong to this message.
    ///
    /// # Errors
    /// The framing is broken.
    pub fn feed(&mut self, raw: &[u8], mut data: impl FnMut(&[u8])) -> Result<usize, Malformed> {
        let mut at = 0;
        while at < raw.len() {
            let rest = &raw[at..];
            match self.0 {
                State::Done => break,
                State::UntilClose => {
                    data(rest);
                    at = raw.len();
                },
                State::Length(left) => {
                    let n = left.min(rest.len() as u64);
                    data(&rest[..n as usize]);
                    at += n as usize;
                    self.0 = if n == left {
                        State::Done
                    } else {
                        State::Length(left - n)
                    };
                },
                State::Data(left) => {
                    let n = left.min(rest.len() as u64);
                    data(&rest[..n as usize]);
                    at += n as usize;
                    self.0 = if n == left {
                        State::DataCr
                    } else {
                        State::Data(left - n)
                    };
                },
                State::Extension { .. } | State::TrailerLine => {
                    // Nothing in these lines matters but their end.
                    match memchr::memchr2(b'\r', b'\n', rest) {
                        None => at = raw.len(),
                        Some(n) => {
                            at += n;
                            self.0 = self.step(raw[at])?;
                            at += 1;
                        },
                    }
                },
                _ => {
                    self.0 = self.step(rest[0])?;
                    at += 1;
                },
            }
        }
        Ok(at)
    }

    /// One byte of the framing itself.
    fn step(&self, byte: u8) -> Result<State, Malformed> {
        Ok(match (self.0, byte) {
            (State::Size { size, digits }, b) if b.is_ascii_hexdigit() && digits < SIZE_DIGITS => {
                let digit = (b as char).to_digit(16).map_or(0, u64::from);
                State::Size {
                    size: size * 16 + digit,
                    digits: digits + 1,
                }
            },
            (State::Size { digits: 0, .. }, _) => return Err(Malformed),
            (State::Size { size, .. }, b';' | b' ' | b'\t') => State::Extension { size },
            (State::Size { size, .. } | State::Extension { size }, b'\r') => {
                State::SizeEnd { size }
            },
            (State::SizeEnd { size: 0 }, b'\n') => State::Trailer,
            (State::SizeEnd { size }, b'\n') => State::Data(size),
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => State::Size { size: 0, digits: 0 },
            (State::Trailer, b'\r') => State::LastLf,
            (State::Trailer, b) if b != b'\n' => State::TrailerLine,
            (State::TrailerLine, b'\r') => State::TrailerLf,
            (State::TrailerLf, b'\n') => State::Trailer,
            (State::LastLf, b'\n') => State::Done,
            _ => return Err(Malformed),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Body, bytes that belong to it, whether it is done.
    fn run(mut t: Tracker, pieces: &[&[u8]]) -> Result<(Vec<u8>, usize, bool), Malformed> {
        let (mut body, mut used) = (Vec::new(), 0);
        for piece in pieces {
            used += t.feed(piece, |d| body.extend_from_slice(d))?;
        }
        Ok((body, used, t.is_done()))
    }

    #[test]
    fn a_length_ends_where_it_says() {
        assert_eq!(
            run(Tracker::length(3), &[b"ab", b"cde"]),
            Ok((b"abc".to_vec(), 3, true))
        );
        assert_eq!(
            run(Tracker::length(3), &[b"ab"]),
            Ok((b"ab".to_vec(), 2, false))
        );
        assert!(Tracker::length(0).is_done());
    }

    #[test]
    fn chunks_are_followed_to_the_last_line() {
        let raw = b"5\r\nhello\r\nA;x=\"y\"\r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\nnext";
        let (body, used, done) = run(Tracker::chunked(), &[raw]).unwrap();
        assert_eq!(
            (&body[..], used, done),
            (&b"hello0123456789"[..], raw.len() - 4, true)
        );
        assert_eq!(
            run(Tracker::chunked(), &[b"0\r\n\r\n"]),
            Ok((vec![], 5, true))
        );
        assert!(!run(Tracker::chunked(), &[b"0\r\n"]).unwrap().2);
    }

    #[test]
    fn broken_framing_is_an_error() {
        for raw in [
            &b"\r\n"[..],
            b"x\r\n",
            b"5\nhello\r\n",
            b"5\r\nhelloX\r\n",
            b"5\r\nhello\n",
            b"5\r\nhello\rX",
            b"0\r\n\n",
            b"0\r\n\rX",
            b"0\r\nA: b\n\r\n",
            b"5;ext\nhello",
            b"1234567890abcdef0\r\n",
            b"-1\r\n",
        ] {
            assert_eq!(run(Tracker::chunked(), &[raw]), Err(Malformed), "{raw:?}");
        }
    }

    #[test]
    fn only_an_unframed_body_ends_with_its_connection() {
        assert!(Tracker::until_close().ends_with_close());
        assert!(!Tracker::length(1).ends_with_close());
        assert!(!Tracker::chunked().ends_with_close());
    }

    proptest! {
        #[test]
        fn where_the_bytes_are_cut_makes_no_difference(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
            cuts in prop::collection::vec(0usize..300, 0..12),
        ) {
            let mut raw = Vec::new();
            for c in &chunks {
                raw.extend_from_slice(format!("{:x}\r\n", c.len()).as_bytes());
                raw.extend_from_slice(c);
                raw.extend_from_slice(b"\r\n");
            }
            raw.extend_from_slice(b"0\r\nA: b\r\n\r\n");
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c % raw.len()).collect();
            cuts.extend([0, raw.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &raw[w[0]..w[1]]).collect();
            let want = (chunks.concat(), raw.len(), true);
            prop_assert_eq!(run(Tracker::chunked(), &pieces), Ok(want));
        }

        #[test]
        fn no_bytes_make_it_panic(raw in prop::collection::vec(any::<u8>(), 0..200)) {
            let _any = run(Tracker::chunked(), &[&raw]);
        }
    }
}
