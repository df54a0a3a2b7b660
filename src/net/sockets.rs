//! Plain connections to engines for requests that are carried as bytes: dialled, reused, given up.
//!
//! Owns: the pool and the stages of one exchange up to the answer's head. Leaves to others: caps and
//! retries (`facade::express`), what is sent and read (`h1`).
//!
//! The same rules as in `upstream`: an idle connection is kept for less than the 5 s after which
//! llama-server closes it, and a request counts as delivered once a byte of it was written.

use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes, BytesMut};
use rustc_hash::FxHashMap;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::interval;

use crate::rules::candidates::Target;

use super::buffers::{self, READ};
use super::h1::response::{self, Head};
use super::stream::{Network, Stream};
use super::upstream::{IDLE_PER_ADDRESS, IDLE_TICKS, TICK, dial_plain};

/// By address, each with the tick at which it was given back.
type Idle = FxHashMap<Arc<str>, Vec<(Stream, u64)>>;

/// Idle connections to engines.
#[derive(Default)]
pub struct Sockets {
    idle: Mutex<Idle>,
    network: Arc<Network>,
    tick: AtomicU64,
}

impl Sockets {
    /// An empty pool, swept once a second for as long as it lives.
    pub fn new(network: Arc<Network>) -> Arc<Self> {
        let pool = Arc::new(Self {
            network,
            ..Self::default()
        });
        tokio::spawn(sweep(Arc::downgrade(&pool)));
        pool
    }

    /// A connection of the pool that its engine has not closed.
    pub fn take(&self, authority: &Arc<str>) -> Option<Stream> {
        let mut pool = self.lock();
        let list = pool.get_mut(authority)?;
        let now = self.tick.load(Ordering::Relaxed);
        while let Some((mut stream, since)) = list.pop() {
            if stream.is_quiet() && now - since < IDLE_TICKS {
                return Some(stream);
            }
        }
        None
    }

    /// Puts a connection back whose answer was read to its end.
    pub fn give_back(&self, authority: &Arc<str>, stream: Stream) {
        let now = self.tick.load(Ordering::Relaxed);
        let mut pool = self.lock();
        match pool.get_mut(authority) {
            Some(list) if list.len() < IDLE_PER_ADDRESS => list.push((stream, now)),
            Some(_) => {},
            None => {
                pool.insert(authority.clone(), vec![(stream, now)]);
            },
        }
    }

    /// Dials a target.
    ///
    /// # Errors
    /// No connection within the dial's limit.
    pub async fn dial(&self, target: &Target) -> io::Result<Stream> {
        dial_plain(&self.network, &target.into()).await
    }

    /// Closes every idle connection.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn sweep(pool: Weak<Sockets>) {
    let mut tick = interval(TICK);
    loop {
        tick.tick().await;
        let Some(pool) = pool.upgrade() else { return };
        let now = pool.tick.fetch_add(1, Ordering::Relaxed) + 1;
        pool.lock().retain(|_, list| {
            list.retain(|(_, since)| now - since < IDLE_TICKS);
            !list.is_empty()
        });
    }
}

/// One exchange on a connection: head and body out, the answer's head in.
pub struct Exchange {
    stream: Stream,
    head: Bytes,
    body: Bytes,
    written: usize,
    input: BytesMut,
    /// Its head, while the request is not wholly sent.
    answer: Option<Head>,
}

/// Why an exchange got no head.
#[derive(Debug)]
pub struct Failed {
    /// Not a byte of the request went out.
    pub undelivered: bool,
}

/// An answer's head, and what was read behind it.
pub struct Answered {
    /// The connection.
    pub stream: Stream,
    /// The head.
    pub head: Head,
    /// Body bytes that came with it, raw.
    pub input: BytesMut,
    /// Whether the whole request went out: else the connection carries no other.
    pub sent: bool,
}

impl Exchange {
    /// A request to be sent on this connection.
    pub fn new(stream: Stream, head: Bytes, body: Bytes) -> Self {
        Self {
            stream,
            head,
            body,
            written: 0,
            input: BytesMut::new(),
            answer: None,
        }
    }

    /// Sends and waits for the head. An engine that answers before it read the whole request is
    /// heard at once. Interim answers are skipped. Not to be polled again once it gave one.
    ///
    /// # Errors
    /// The connection failed, ended, or what came is no HTTP answer.
    pub fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Head, Failed>> {
        self.poll(cx).map_err(|_| Failed {
            undelivered: self.written == 0,
        })
    }

    /// What there is behind its head.
    pub fn answered(self, head: Head) -> Answered {
        let sent = self.written == self.head.len() + self.body.len();
        Answered {
            stream: self.stream,
            head,
            input: self.input,
            sent,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Head>> {
        loop {
            let written = match self.poll_write(cx) {
                Poll::Ready(Err(e)) if self.written == 0 => return Poll::Ready(Err(e)),
                other => other.is_ready(),
            };
            if let Some(head) = self.answer.take() {
                // An engine that begins its answer early still gets the rest of the request; one
                // that refuses, or takes no more, has said all.
                if written || head.status >= 400 {
                    return Poll::Ready(Ok(head));
                }
                self.answer = Some(head);
                return Poll::Pending;
            }
            // After a failed write: what it said before it closed may still be here.
            if ready!(poll_read_into(&mut self.stream, &mut self.input, READ, cx))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            self.answer = self.read_head()?;
        }
    }

    /// The head among what was read, behind interim answers.
    fn read_head(&mut self) -> io::Result<Option<Head>> {
        while let Some(head) = response::read(&self.input).map_err(io::Error::other)? {
            drop(self.input.split_to(head.len));
            match head.status {
                // Nobody asked for a switch of protocols.
                101 => return Err(io::ErrorKind::InvalidData.into()),
                100..200 => {},
                _ => return Ok(Some(head)),
            }
        }
        Ok(None)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let (head, body) = (self.head.len(), self.body.len());
            if self.written == head + body {
                return Poll::Ready(Ok(()));
            }
            let n = if self.written < head {
                let parts = [
                    IoSlice::new(&self.head[self.written..]),
                    IoSlice::new(&self.body),
                ];
                ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, &parts))?
            } else {
                let rest = &self.body[self.written - head..];
                ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?
            };
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += n;
        }
    }
}

/// Reads what is there into the buffer, which gets about `room` when it is full; 0 = the end. One that
/// has none at all is lent it until there is something to read.
pub fn poll_read_into<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &mut BytesMut,
    room: usize,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    let mut lent = false;
    if buffer.capacity() - buffer.len() < room.div_ceil(4) {
        lent = buffer.is_empty();
        match lent {
            true => *buffer = buffers::take(),
            false => buffer.reserve(room),
        }
    }
    // Dropped while pending it has read nothing.
    let read = pin!(stream.read_buf(buffer)).poll(cx);
    if lent && read.is_pending() {
        buffers::give_back(std::mem::take(buffer));
    }
    read
}

/// A chunk of its own around bytes that had no framing.
pub fn put_chunk(out: &mut BytesMut, data: &[u8]) {
    if !data.is_empty() {
        out.put_slice(format!("{:x}\r\n", data.len()).as_bytes());
        out.put_slice(data);
        out.put_slice(b"\r\n");
    }
}
