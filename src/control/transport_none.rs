//! The control socket where there is no Unix domain socket: not offered yet. A named pipe belongs
//! here, with `first_pipe_instance` in place of the lock.

use std::io;
use std::path::Path;

use super::socket::SocketError;

/// A connection of the socket.
pub(super) type Stream = tokio::io::DuplexStream;

/// Nothing can be bound here.
#[derive(Debug)]
pub(super) struct Bound {}

/// No file either.
#[derive(Debug)]
pub(super) struct SocketFile {}

/// Accepts nothing.
pub(super) struct Listener {}

/// Always refused.
pub(super) fn bind(_: &Path) -> Result<Bound, SocketError> {
    Err(SocketError::Unsupported)
}

impl Bound {
    /// Never called.
    pub(super) fn into_parts(self) -> io::Result<(Listener, SocketFile)> {
        Ok((Listener {}, SocketFile {}))
    }
}

impl Listener {
    /// Never ready.
    pub(super) async fn accept(&self) -> io::Result<Option<Stream>> {
        std::future::pending().await
    }
}

/// Always refused.
pub(super) async fn dial(_: &Path) -> io::Result<Stream> {
    Err(io::ErrorKind::Unsupported.into())
}
