//! A stream of bytes to a client or an engine, and how an engine is dialled.
//!
//! Owns: the two kinds there are, a socket and a pipe within the process. Leaves to others: limits,
//! pools (`upstream`, `sockets`), what is sent.
//!
//! Pipes serve what sockets cannot: a clock that stands still advances whenever nothing is left to
//! do, and waiting for the kernel looks like that. So ten minutes are tested, and a chunk's cost is
//! measured, without one.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::TcpStream;

use crate::rules::addresses::parse_ip;

use super::listen::tune;

/// A connection.
#[derive(Debug)]
pub enum Stream {
    /// A socket.
    Tcp(TcpStream),
    /// One end of a pipe within the process.
    Pipe(DuplexStream),
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Self {
        Self::Tcp(stream)
    }
}

impl From<DuplexStream> for Stream {
    fn from(stream: DuplexStream) -> Self {
        Self::Pipe(stream)
    }
}

impl Stream {
    /// The address of ours that the other side called, where it is a socket.
    pub fn local_ip(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(stream) => stream.local_addr().ok().map(|a| a.ip()),
            Self::Pipe(_) => None,
        }
    }

    /// Whether an idle connection is still open and nothing came on it. A byte that did is lost:
    /// such a connection is of no use. Costs a socket no system call unless something happened.
    pub fn is_quiet(&mut self) -> bool {
        let mut byte = [0];
        match self {
            Self::Tcp(stream) => matches!(
                stream.try_read(&mut byte),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock
            ),
            Self::Pipe(stream) => {
                let mut cx = Context::from_waker(Waker::noop());
                let mut buf = ReadBuf::new(&mut byte);
                Pin::new(stream).poll_read(&mut cx, &mut buf).is_pending()
            },
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Pipe(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Pipe(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Pipe(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Pipe(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Pipe(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Pipe(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// Gives a pipe to host and port, now or later or never.
pub type Pipes =
    Box<dyn Fn(&str, u16) -> BoxFuture<'static, io::Result<DuplexStream>> + Send + Sync>;

/// Where engines are found.
#[derive(Default)]
pub enum Network {
    /// On the network.
    #[default]
    Sockets,
    /// Within the process.
    Pipes(Pipes),
}

impl Network {
    /// A connection to an engine, without a limit of time.
    ///
    /// # Errors
    /// None can be had.
    pub async fn connect(&self, host: &str, port: u16) -> io::Result<Stream> {
        match self {
            Self::Sockets => Ok(Stream::Tcp(socket(host, port).await?)),
            Self::Pipes(pipes) => Ok(Stream::Pipe(pipes(host, port).await?)),
        }
    }
}

/// A socket to host and port, set up like every other.
///
/// # Errors
/// None can be had.
pub async fn socket(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = match parse_ip(host) {
        Some(ip) => TcpStream::connect((ip, port)).await?,
        None => TcpStream::connect((host, port)).await?,
    };
    tune(&stream)?;
    Ok(stream)
}
