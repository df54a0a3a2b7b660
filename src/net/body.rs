//! A request's body: buffered for replay, or streamed once (product section 4).
//!
//! Owns: collecting within the limit, and handing the same bytes to each attempt.
//! Leaves to others: finding the model in it (`rules::model_scan`, fed by the caller's observer).
//!
//! Buffered pieces are the slices hyper read, shared by all attempts: no byte is copied. Only small ones
//! behind others are gathered: a body in chunks of a byte would cost forty times its length.

use std::collections::VecDeque;
use std::error::Error as _;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

/// At most this much of a refused body is read and thrown away.
const DISCARDED: u64 = 64 * 1024 * 1024;

/// A smaller piece behind others is gathered with its neighbours.
const SMALL: usize = 4 * 1024;

/// So much is gathered into one piece.
const GATHERED: usize = 64 * 1024;

/// A refused body is read for no longer than this.
const DISCARD_TIME: Duration = Duration::from_secs(30);

/// A body that can be sent again.
#[derive(Debug, Default)]
pub struct Buffered {
    pieces: Vec<Bytes>,
    len: u64,
    /// The client declared no length: neither do we.
    chunked: bool,
    trailers: Option<HeaderMap>,
}

impl Buffered {
    /// Its bytes in one piece: copied where they came in several.
    pub fn whole(&self) -> Bytes {
        match &self.pieces[..] {
            [one] => one.clone(),
            pieces => pieces.concat().into(),
        }
    }

    /// The same body with other bytes at one place; the rest is shared.
    pub fn with(&self, place: &Range<u64>, bytes: Bytes) -> Self {
        let mut pieces = Vec::with_capacity(self.pieces.len() + 2);
        let (mut at, mut new) = (0, Some(bytes));
        for piece in &self.pieces {
            let end = at + piece.len() as u64;
            // Within this piece: what stands in front of the place, and what stands behind it.
            let cut = |moment: u64| (moment.clamp(at, end) - at) as usize;
            let (front, back) = (cut(place.start), cut(place.end));
            pieces.push(piece.slice(..front));
            if end > place.start {
                pieces.extend(new.take());
            }
            pieces.push(piece.slice(back..));
            at = end;
        }
        pieces.extend(new);
        pieces.retain(|p| !p.is_empty());
        Self {
            len: pieces.iter().map(|p| p.len() as u64).sum(),
            pieces,
            chunked: self.chunked,
            trailers: self.trailers.clone(),
        }
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// What collecting came to.
pub enum Collected {
    /// All of it, replayable.
    Whole(Arc<Buffered>),
    /// It is over the limit: what was read so far, and the rest still to come.
    TooLarge(Oversized),
    /// The client's framing broke, or the client left.
    Broken(hyper::Error),
}

/// The pieces of a body that comes in.
#[derive(Default)]
struct Gathering {
    pieces: Vec<Bytes>,
    small: BytesMut,
}

impl Gathering {
    fn push(&mut self, data: Bytes) {
        let is_first = self.pieces.is_empty() && self.small.is_empty();
        if is_first || data.len() >= SMALL {
            self.flush();
            self.pieces.push(data);
            return;
        }
        self.small.extend_from_slice(&data);
        if self.small.len() >= GATHERED {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if !self.small.is_empty() {
            self.pieces.push(self.small.split().freeze());
        }
    }

    fn end(mut self) -> Vec<Bytes> {
        self.flush();
        self.pieces
    }
}

/// A body too large to buffer.
pub struct Oversized {
    head: Buffered,
    rest: Incoming,
}

impl Oversized {
    /// The body for one attempt, without replay.
    pub fn into_stream(self) -> RequestBody {
        RequestBody(Source::Stream {
            head: self.head.pieces.into(),
            rest: Box::new(self.rest),
        })
    }

    /// Throws away what the client still sends.
    pub fn discard(self) {
        discard(self.rest);
    }
}

/// Reads a refused body to its end in the background, within bounds: the client writes before it
/// reads, and must not meet a closed connection before it sees the answer.
pub fn discard<B>(mut body: B)
where
    B: Body<Data = Bytes, Error = hyper::Error> + Send + Unpin + 'static,
{
    if body.is_end_stream() {
        return;
    }
    tokio::spawn(timeout(DISCARD_TIME, async move {
        let mut left = DISCARDED;
        while let Some(Ok(frame)) = body.frame().await {
            let n = frame.data_ref().map_or(0, |d| d.len() as u64);
            if n > left {
                return;
            }
            left -= n;
        }
    }));
}

/// Reads a body of at most `limit` bytes; `observe` sees each piece as it comes.
pub async fn collect(mut body: Incoming, limit: u64, mut observe: impl FnMut(&[u8])) -> Collected {
    let declared = body.size_hint().exact();
    if declared == Some(0) {
        return Collected::Whole(Arc::default());
    }
    let mut head = Buffered {
        chunked: declared.is_none(),
        ..Buffered::default()
    };
    if declared.is_some_and(|n| n > limit) {
        return Collected::TooLarge(Oversized { head, rest: body });
    }
    let mut pieces = Gathering::default();
    while let Some(frame) = body.frame().await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(e) => return Collected::Broken(e),
        };
        match frame.into_data() {
            Ok(data) => {
                head.len += data.len() as u64;
                let too_large = head.len > limit;
                if !too_large {
                    observe(&data);
                }
                if !data.is_empty() {
                    pieces.push(data);
                }
                if too_large {
                    head.pieces = pieces.end();
                    return Collected::TooLarge(Oversized { head, rest: body });
                }
            },
            Err(other) => head.trailers = other.into_trailers().ok(),
        }
    }
    head.pieces = pieces.end();
    Collected::Whole(Arc::new(head))
}

/// Whether a body's own bytes are wrong, and not that they ended early or could not be read.
pub fn is_framing(e: &hyper::Error) -> bool {
    let cause = e.source().and_then(|c| c.downcast_ref::<io::Error>());
    let kind = cause.map(io::Error::kind);
    matches!(
        kind,
        Some(io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput)
    )
}

enum Source {
    Replay {
        body: Arc<Buffered>,
        next: usize,
        left: u64,
        trailers_sent: bool,
    },
    Stream {
        head: VecDeque<Bytes>,
        rest: Box<Incoming>,
    },
}

/// The body of one attempt.
pub struct RequestBody(Source);

impl RequestBody {
    /// All of a buffered body, from its start.
    pub fn replay(body: &Arc<Buffered>) -> Self {
        let left = body.len;
        Self(Source::Replay {
            body: body.clone(),
            next: 0,
            left,
            trailers_sent: false,
        })
    }

    /// A body that is passed on as it comes, once.
    pub fn stream(body: Incoming) -> Self {
        Self(Source::Stream {
            head: VecDeque::new(),
            rest: Box::new(body),
        })
    }

    /// No body.
    pub fn empty() -> Self {
        Self::replay(&Arc::default())
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.0 {
            Source::Replay {
                body,
                next,
                left,
                trailers_sent,
            } => {
                if let Some(piece) = body.pieces.get(*next) {
                    *next += 1;
                    *left -= piece.len() as u64;
                    return Poll::Ready(Some(Ok(Frame::data(piece.clone()))));
                }
                match &body.trailers {
                    Some(trailers) if !*trailers_sent => {
                        *trailers_sent = true;
                        Poll::Ready(Some(Ok(Frame::trailers(trailers.clone()))))
                    },
                    _ => Poll::Ready(None),
                }
            },
            Source::Stream { head, rest } => match head.pop_front() {
                Some(piece) => Poll::Ready(Some(Ok(Frame::data(piece)))),
                None => Pin::new(&mut **rest).poll_frame(cx),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Source::Replay {
                body,
                next,
                trailers_sent,
                ..
            } => *next >= body.pieces.len() && (body.trailers.is_none() || *trailers_sent),
            Source::Stream { head, rest } => head.is_empty() && rest.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Source::Replay { body, left, .. } if !body.chunked => SizeHint::with_exact(*left),
            Source::Replay { .. } => SizeHint::default(),
            Source::Stream { head, rest } => {
                let ours: u64 = head.iter().map(|p| p.len() as u64).sum();
                match rest.size_hint().exact() {
                    Some(n) => SizeHint::with_exact(ours + n),
                    None => SizeHint::default(),
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_in_tiny_pieces_takes_little_more_room_than_in_one() {
        let text: Vec<u8> = (0..200_000u32).map(|i| i as u8).collect();
        for size in [1, 3, SMALL - 1, SMALL, text.len()] {
            let mut pieces = Gathering::default();
            for piece in text.chunks(size) {
                pieces.push(Bytes::copy_from_slice(piece));
            }
            let pieces = pieces.end();
            assert!(pieces.len() <= 2 + text.len() / SMALL, "{}", pieces.len());
            assert_eq!(pieces.concat(), text);
        }
        // One that comes at once is not copied.
        let whole = Bytes::from(text);
        let mut pieces = Gathering::default();
        pieces.push(whole.slice(..7));
        assert_eq!(pieces.end()[0].as_ptr(), whole.as_ptr());
    }

    #[test]
    fn a_part_is_replaced_wherever_the_pieces_are_cut() {
        let text = b"{\"model\":\"old\",\"x\":1}";
        let place = 9..14;
        for new in ["\"a longer name\"", "\"n\"", ""] {
            let new = new.as_bytes();
            let want = [&text[..9], new, &text[14..]].concat();
            for size in 1..=text.len() {
                let body = Buffered {
                    pieces: text.chunks(size).map(Bytes::copy_from_slice).collect(),
                    len: text.len() as u64,
                    ..Buffered::default()
                };
                let other = body.with(&place, Bytes::copy_from_slice(new));
                assert_eq!(&other.whole()[..], &want[..], "in pieces of {size}");
                assert_eq!(other.len(), want.len() as u64);
                assert_eq!(&body.whole()[..], text, "the first one stays as it is");
            }
        }
    }
}
