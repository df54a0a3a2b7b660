//! A client's connection with its timers (product 13.28, spec §5.4).
//!
//! Owns: the limits on a request head, on idle time and on each write; remembering how the
//! connection failed. Leaves to others: HTTP (`facade::server`).
//!
//! hyper's own head timer is also its idle timer and costs an allocation a request, so both live
//! here. No timer runs while a request is being served: slow generation is never punished, only a
//! stuck write is.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::rules::budget::CLIENT_WRITE_TIMEOUT;

use super::lazy_timer::LazyTimer;
use super::places::Place;

/// From a head's first byte to its end.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Between two requests.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

const IDLE: u8 = 0;
const HEAD: u8 = 1;
const BUSY: u8 = 2;
const SWITCHED: u8 = 3;

/// What the two sides of a client's connection tell each other.
#[derive(Debug, Default)]
pub struct Door {
    phase: AtomicU8,
    failure: Mutex<Option<String>>,
}

impl Door {
    /// A request is being served until the guard goes.
    pub fn serve(self: &Arc<Self>) -> Serving {
        self.phase.store(BUSY, Ordering::Relaxed);
        Serving(self.clone())
    }

    /// From now on the connection carries another protocol, in which silence means nothing.
    pub fn switch(&self) {
        self.phase.store(SWITCHED, Ordering::Relaxed);
    }

    /// Whether it carries another protocol.
    pub fn has_switched(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == SWITCHED
    }

    /// How a write towards the client failed, if one did.
    pub fn failure(&self) -> Option<String> {
        self.failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn fail(&self, e: &io::Error) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        // The first failure is the cause; later ones follow from it.
        failure.get_or_insert_with(|| match e.kind() {
            io::ErrorKind::TimedOut => "a write took longer than 30 s".to_owned(),
            kind => kind.to_string(),
        });
    }
}

/// A request on this connection, while it lives.
#[derive(Debug)]
pub struct Serving(Arc<Door>);

impl Serving {
    /// The connection it is on.
    pub fn door(&self) -> &Arc<Door> {
        &self.0
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let (phase, now) = (&self.0.phase, Ordering::Relaxed);
        let _switched = phase.compare_exchange(BUSY, IDLE, now, now);
    }
}

/// A client's connection.
pub struct ClientIo<S> {
    stream: S,
    door: Arc<Door>,
    /// Phase when the read timer was last set.
    timed: u8,
    read: LazyTimer,
    write: LazyTimer,
    /// Held until the connection is closed.
    _place: Option<Place>,
}

impl<S> ClientIo<S> {
    /// Watches over a connection.
    pub fn new(stream: S, door: Arc<Door>, place: Option<Place>) -> Self {
        let (read, write) = (LazyTimer::default(), LazyTimer::default());
        Self {
            stream,
            door,
            timed: BUSY,
            read,
            write,
            _place: place,
        }
    }

    fn poll_read_timer(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let phase = self.door.phase.load(Ordering::Relaxed);
        if matches!(phase, BUSY | SWITCHED) {
            self.timed = BUSY;
            return Poll::Pending;
        }
        if phase != self.timed {
            self.timed = phase;
            self.read.stop();
            self.read.start(if phase == HEAD {
                HEAD_TIMEOUT
            } else {
                IDLE_TIMEOUT
            });
        }
        ready!(self.read.poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Bounds one write: the timer starts when the peer stops taking bytes.
    fn guard_write<T>(
        &mut self,
        cx: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match result {
            Poll::Ready(Ok(x)) => {
                self.write.stop();
                Poll::Ready(Ok(x))
            },
            Poll::Ready(Err(e)) => {
                self.door.fail(&e);
                Poll::Ready(Err(e))
            },
            Poll::Pending => {
                self.write.start(CLIENT_WRITE_TIMEOUT);
                ready!(self.write.poll(cx));
                let e = io::Error::from(io::ErrorKind::TimedOut);
                self.door.fail(&e);
                Poll::Ready(Err(e))
            },
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ClientIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buf) {
            Poll::Pending => self.poll_read_timer(cx),
            Poll::Ready(result) => {
                if buf.filled().len() > before {
                    // The first byte behind an idle time begins a head.
                    let (door, now) = (&self.door.phase, Ordering::Relaxed);
                    let _busy = door.compare_exchange(IDLE, HEAD, now, now);
                }
                Poll::Ready(result)
            },
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ClientIo<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.guard_write(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.guard_write(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(cx);
        self.guard_write(cx, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_ends_after_ninety_seconds() {
        let (mine, _theirs) = duplex(64);
        let mut io = ClientIo::new(mine, Arc::default(), None);
        let begun = Instant::now();
        let e = io.read_u8().await.unwrap_err();
        assert_eq!(
            (e.kind(), begun.elapsed().as_secs()),
            (io::ErrorKind::TimedOut, 90)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_has_ten_seconds_from_its_first_byte() {
        let (mine, mut theirs) = duplex(64);
        let mut io = ClientIo::new(mine, Arc::default(), None);
        tokio::time::sleep(S * 60).await;
        theirs.write_all(b"P").await.unwrap();
        assert_eq!(io.read_u8().await.unwrap(), b'P');
        let begun = Instant::now();
        assert_eq!(
            io.read_u8().await.unwrap_err().kind(),
            io::ErrorKind::TimedOut
        );
        assert_eq!(begun.elapsed().as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn no_read_timer_runs_while_a_request_is_served_and_idle_starts_anew_after_it() {
        let (mine, _theirs) = duplex(64);
        let door = Arc::<Door>::default();
        let mut io = ClientIo::new(mine, door.clone(), None);
        let serving = door.serve();
        let waited = tokio::time::timeout(S * 3600, io.read_u8()).await;
        assert!(waited.is_err(), "an hour of generation is no fault");
        drop(serving);
        let begun = Instant::now();
        assert_eq!(
            io.read_u8().await.unwrap_err().kind(),
            io::ErrorKind::TimedOut
        );
        assert_eq!(begun.elapsed().as_secs(), 90);
    }

    #[tokio::test(start_paused = true)]
    async fn no_read_timer_runs_on_a_connection_that_switched_its_protocol() {
        let (mine, mut theirs) = duplex(64);
        let door = Arc::<Door>::default();
        let mut io = ClientIo::new(mine, door.clone(), None);
        let serving = door.serve();
        door.switch();
        drop(serving);
        theirs.write_all(b"a").await.unwrap();
        assert_eq!(io.read_u8().await.unwrap(), b'a');
        let waited = tokio::time::timeout(S * 3600, io.read_u8()).await;
        assert!(waited.is_err(), "an hour without a message is no fault");
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_nobody_takes_fails_after_thirty_seconds_and_is_remembered() {
        let (mine, _theirs) = duplex(4);
        let door = Arc::<Door>::default();
        let _serving = door.serve();
        let mut io = ClientIo::new(mine, door.clone(), None);
        io.write_all(b"1234").await.unwrap();
        tokio::time::sleep(S * 100).await;
        let begun = Instant::now();
        assert_eq!(
            io.write_all(b"5").await.unwrap_err().kind(),
            io::ErrorKind::TimedOut
        );
        assert_eq!(begun.elapsed().as_secs(), 30);
        assert_eq!(
            door.failure().as_deref(),
            Some("a write took longer than 30 s")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_but_moving_reader_is_never_punished() {
        let (mine, mut theirs) = duplex(1);
        let mut io = ClientIo::new(mine, Arc::default(), None);
        let reader = tokio::spawn(async move {
            for _ in 0..4 {
                tokio::time::sleep(S * 20).await;
                theirs.read_u8().await.unwrap();
            }
            theirs
        });
        io.write_all(b"12345").await.unwrap();
        reader.await.unwrap();
    }
}
