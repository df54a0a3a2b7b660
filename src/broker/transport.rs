//! The two ways to the parent: the standard streams, or a socket that it listens on (`--ipc`).
//!
//! Owns: opening them, reading without holding up the process's end, noticing an orphaned process.
//! Leaves to others: lines (`codec`), the writer thread (`outbox`), what an end means (`daemon`).
//!
//! Both ways are read and written by plain threads in blocking calls. The runtime waits for its own
//! blocking reads when it shuts down, and the parent keeps our input open; and a socket has one
//! blocking mode for both directions.

use std::io::{self, ErrorKind, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;

pub use system::Parent;

/// Bytes a read may bring.
const CHUNK: usize = 64 << 10;

/// Chunks read ahead of the link; behind them the parent has to wait.
const AHEAD: usize = 4;

/// Pause before an input that said `WouldBlock` is tried again.
const RETRY: Duration = Duration::from_millis(5);

/// Time between two looks at the parent.
const PARENT_POLL: Duration = Duration::from_secs(1);

/// An open way to the parent.
pub struct Transport {
    /// What the parent says, for the link.
    pub input: Input,
    /// Where it listens, for the outbox.
    pub output: Box<dyn Write + Send>,
}

/// The parent's socket cannot be reached.
#[derive(Debug, thiserror::Error)]
#[error("cannot reach the parent at {endpoint:?}")]
pub struct DialError {
    /// What was dialled.
    pub endpoint: String,
    /// Why not.
    #[source]
    pub source: io::Error,
}

/// Standard input and output. Writes go straight to the descriptor: the outbox has its own buffer,
/// and the standard library's would write line by line.
pub fn stdio() -> io::Result<Transport> {
    let (input, output) = system::standard_streams()?;
    Transport::over(input, output)
}

/// Dials the parent's socket, once.
pub fn connect_ipc(endpoint: &str) -> Result<Transport, DialError> {
    system::dial(endpoint).map_err(|source| DialError {
        endpoint: endpoint.to_owned(),
        source,
    })
}

impl Transport {
    fn over(
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
    ) -> io::Result<Self> {
        Ok(Self {
            input: Input::reading(input)?,
            output: Box::new(output),
        })
    }
}

/// Bytes that a thread of their own reads.
pub struct Input {
    chunks: mpsc::Receiver<io::Result<Vec<u8>>>,
    /// The part of a chunk that did not fit before.
    rest: Vec<u8>,
    taken: usize,
}

impl Input {
    /// Starts reading. The thread ends with the stream, or at the next chunk after this is dropped;
    /// it keeps nobody waiting either way.
    pub fn reading(mut source: impl Read + Send + 'static) -> io::Result<Self> {
        let (tx, chunks) = mpsc::channel(AHEAD);
        thread::Builder::new()
            .name("broker-in".to_owned())
            .spawn(move || {
                let mut buf = vec![0; CHUNK];
                loop {
                    let chunk = match source.read(&mut buf) {
                        Ok(0) => break,
                        Ok(n) => Ok(buf[..n].to_vec()),
                        Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                        Err(e) if e.kind() == ErrorKind::WouldBlock => {
                            thread::park_timeout(RETRY);
                            continue;
                        },
                        Err(e) => Err(e),
                    };
                    let failed = chunk.is_err();
                    if tx.blocking_send(chunk).is_err() || failed {
                        break;
                    }
                }
            })?;
        Ok(Self {
            chunks,
            rest: Vec::new(),
            taken: 0,
        })
    }
}

impl AsyncRead for Input {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.taken == self.rest.len() {
            match ready!(self.chunks.poll_recv(cx)) {
                Some(chunk) => {
                    self.rest = chunk?;
                    self.taken = 0;
                },
                None => return Poll::Ready(Ok(())),
            }
        }
        let n = buf.remaining().min(self.rest.len() - self.taken);
        buf.put_slice(&self.rest[self.taken..self.taken + n]);
        self.taken += n;
        Poll::Ready(Ok(()))
    }
}

impl Parent {
    /// Returns when this process has another parent than the one remembered: it was orphaned. The
    /// end of the input may never come then, if a stranger inherited the pipe.
    pub async fn gone(self) {
        let mut poll = tokio::time::interval(PARENT_POLL);
        while self.is_same() {
            poll.tick().await;
        }
    }
}

#[cfg(unix)]
mod system {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use rustix::process::{Pid, getppid};

    use super::Transport;

    pub(super) fn standard_streams() -> io::Result<(File, File)> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        let output = io::stdout().as_fd().try_clone_to_owned()?;
        Ok((input.into(), output.into()))
    }

    pub(super) fn dial(endpoint: &str) -> io::Result<Transport> {
        let output = UnixStream::connect(endpoint)?;
        Transport::over(output.try_clone()?, output)
    }

    /// The process that started this one.
    #[derive(Clone, Copy, Debug)]
    pub struct Parent(Option<Pid>);

    impl Parent {
        /// Remembers the parent; to be called early, while it is there.
        pub fn now() -> Self {
            Self(getppid())
        }

        pub(super) fn is_same(self) -> bool {
            getppid() == self.0
        }
    }
}

#[cfg(windows)]
mod system {
    use std::fs::File;
    use std::io;
    use std::os::windows::io::AsHandle;

    use super::Transport;

    pub(super) fn standard_streams() -> io::Result<(File, File)> {
        let input = io::stdin().as_handle().try_clone_to_owned()?;
        let output = io::stdout().as_handle().try_clone_to_owned()?;
        Ok((input.into(), output.into()))
    }

    /// Not written: a named pipe opened without overlapped mode serialises reads and writes, so a
    /// waiting read would hold up every frame.
    pub(super) fn dial(_: &str) -> io::Result<Transport> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The process that started this one. It is not watched here: handles are not inherited
    /// unasked, so the input ends with the parent.
    #[derive(Clone, Copy, Debug)]
    pub struct Parent(());

    impl Parent {
        /// Remembers the parent.
        pub fn now() -> Self {
            Self(())
        }

        pub(super) fn is_same(self) -> bool {
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc as std_mpsc;

    use tokio::io::AsyncReadExt;

    use super::*;

    /// Reads what it is sent, then ends; an error is passed on.
    struct Script(std_mpsc::Receiver<io::Result<Vec<u8>>>);

    impl Read for Script {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let Ok(piece) = self.0.recv() else {
                return Ok(0);
            };
            let piece = piece?;
            buf[..piece.len()].copy_from_slice(&piece);
            Ok(piece.len())
        }
    }

    #[tokio::test]
    async fn input_passes_every_byte_and_the_end() {
        let (tx, rx) = std_mpsc::channel();
        let mut input = Input::reading(Script(rx)).unwrap();
        tx.send(Ok(b"abc".to_vec())).unwrap();
        let mut two = [0; 2];
        input.read_exact(&mut two).await.unwrap();
        assert_eq!(&two, b"ab");
        tx.send(Err(ErrorKind::Interrupted.into())).unwrap();
        tx.send(Err(ErrorKind::WouldBlock.into())).unwrap();
        tx.send(Ok(b"de".to_vec())).unwrap();
        drop(tx);
        let mut rest = Vec::new();
        input.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"cde");
    }

    #[tokio::test]
    async fn input_passes_an_error_on() {
        let (tx, rx) = std_mpsc::channel();
        tx.send(Err(ErrorKind::ConnectionReset.into())).unwrap();
        let mut input = Input::reading(Script(rx)).unwrap();
        let error = input.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }

    #[test]
    fn an_open_input_does_not_hold_up_the_runtime() {
        let (tx, rx) = std_mpsc::channel();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let input = runtime
            .block_on(async { Input::reading(Script(rx)) })
            .unwrap();
        // Would hang here if the runtime waited for the read.
        drop(runtime);
        drop(input);
        drop(tx);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn ipc_goes_both_ways_over_the_parents_socket() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let mut transport = connect_ipc(path.to_str().unwrap()).unwrap();
        let (mut parent, _) = listener.accept().unwrap();
        parent.write_all(b"hello").unwrap();
        parent.shutdown(std::net::Shutdown::Write).unwrap();
        let mut heard = String::new();
        transport.input.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "hello");
        // The parent closed its half only: what is said last still arrives.
        transport.output.write_all(b"bye").unwrap();
        drop(transport);
        let mut said = String::new();
        parent.read_to_string(&mut said).unwrap();
        assert_eq!(said, "bye");
    }

    #[test]
    fn a_socket_that_cannot_be_dialled_is_named() {
        let Err(error) = connect_ipc("/nonexistent/parent.sock") else {
            panic!("dialled nothing");
        };
        assert!(error.to_string().contains("/nonexistent/parent.sock"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_living_parent_is_not_gone() {
        let watch = Parent::now().gone();
        let hour = Duration::from_secs(3600);
        assert!(tokio::time::timeout(hour, watch).await.is_err());
    }
}
