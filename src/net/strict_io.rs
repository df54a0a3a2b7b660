//! A client's connection on which no doubtful request reaches the HTTP library.
//!
//! Owns: applying the check to what is read. Leaves to others: the check (`h1::strict`).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::client_io::Door;
use super::h1::strict::Requests;

/// The connection, checked until it becomes something else than HTTP.
pub struct StrictIo<S> {
    inner: S,
    door: Arc<Door>,
    requests: Requests,
    broken: bool,
}

impl<S> StrictIo<S> {
    /// A connection whose next byte begins a request.
    pub fn new(inner: S, door: Arc<Door>) -> Self {
        Self {
            inner,
            door,
            requests: Requests::default(),
            broken: false,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StrictIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let broken = || Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        if self.broken {
            return broken();
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        if self.door.has_switched() {
            return Poll::Ready(Ok(()));
        }
        let new = &mut buf.filled_mut()[before..];
        let (came, passed) = (new.len(), self.requests.pass(new));
        buf.set_filled(before + passed);
        self.broken = passed < came;
        if self.broken && passed == 0 {
            // No bytes would mean an orderly end.
            return broken();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StrictIo<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    async fn read(door: Arc<Door>, raw: &[u8]) -> (Vec<u8>, bool) {
        let (mut io, mut out) = (StrictIo::new(raw, door), Vec::new());
        let ended = io.read_to_end(&mut out).await;
        (out, ended.is_ok())
    }

    #[tokio::test]
    async fn a_fault_ends_the_connection_and_other_protocols_are_not_looked_at() {
        let head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        let broken = [&head[..], b"1\r\nabc"].concat();
        let sound = broken[..broken.len() - 2].to_vec();
        assert_eq!(read(Arc::default(), &broken).await, (sound, false));
        let door = Arc::<Door>::default();
        door.switch();
        assert_eq!(read(door.clone(), &broken).await, (broken, true));
        let lines = b"any\nthing\n\n";
        assert_eq!(read(door, lines).await, (lines.to_vec(), true));
    }
}
