//! What goes out: one ordered queue of complete frames and the one thread that writes them.
//!
//! Owns: framing, order, the size cap, the backlog, whether the reader is still there.
//! Leaves to others: which frame a notice becomes (`notices`), when to answer (`link`).
//!
//! Emitters are request tasks too, so a parent that does not read must never block them: they only
//! append to memory, encoded outside the lock. The price is a backlog, and one above the limit
//! means that nobody will ever read it.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::rules::engine::EngineId;
use crate::wire::jsonrpc::CommandError;

/// Largest frame the broker can read, newline included.
pub const MAX_FRAME: usize = 1 << 20;

/// Unwritten bytes above which the parent counts as gone.
pub const MAX_BACKLOG: usize = 64 << 20;

/// A buffer above this is given back to the system once it is empty.
const KEEP: usize = 256 << 10;

/// Pause before a sink that said `WouldBlock` is tried again. Pipes of a parent may be in that
/// mode; it is theirs, so it is not changed.
const RETRY: Duration = Duration::from_millis(5);

/// Why nothing more can be written.
#[derive(Debug)]
pub enum Gone {
    /// The parent has not read for too long: so many bytes wait.
    Backlog(usize),
    /// The sink failed.
    Broken(io::Error),
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backlog(bytes) => write!(f, "it does not read, {bytes} bytes are waiting"),
            Self::Broken(e) => write!(f, "{e}"),
        }
    }
}

/// The queue's sending end; clones share the queue.
#[derive(Clone)]
pub struct Outbox(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Wakes the writer.
    wake: Condvar,
    /// Wakes those who wait until everything is written.
    drained: Notify,
    limits: Limits,
    version: String,
}

/// Bounds of a queue; tests use small ones.
#[derive(Clone, Copy)]
struct Limits {
    frame: usize,
    backlog: usize,
}

struct State {
    /// Complete frames that the writer has not taken yet.
    pending: Vec<u8>,
    /// Bytes that it has taken and not yet written.
    in_flight: usize,
    /// Whether it waits to be woken.
    idle: bool,
    /// Frames are no longer taken.
    closed: bool,
    gone: Option<Box<dyn FnOnce(Gone) + Send>>,
}

thread_local! {
    /// Where a frame is encoded before it is appended, so that the lock covers one copy only.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Outbox {
    /// Starts the writer thread. `version` goes into `ready`. `gone` is called at most once, when
    /// the sink fails or the backlog is over: from then on frames are dropped, and the daemon
    /// should shut down. It is called on whichever thread noticed and must not block.
    pub fn start(
        sink: impl Write + Send + 'static,
        version: impl Into<String>,
        gone: impl FnOnce(Gone) + Send + 'static,
    ) -> io::Result<Self> {
        let limits = Limits {
            frame: MAX_FRAME,
            backlog: MAX_BACKLOG,
        };
        Self::with_limits(limits, sink, version.into(), gone)
    }

    fn with_limits(
        limits: Limits,
        sink: impl Write + Send + 'static,
        version: String,
        gone: impl FnOnce(Gone) + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                pending: Vec::new(),
                in_flight: 0,
                idle: false,
                closed: false,
                gone: Some(Box::new(gone)),
            }),
            wake: Condvar::new(),
            drained: Notify::new(),
            limits,
            version,
        });
        let writer = Arc::clone(&shared);
        // Detached: it may sit in a write for ever, and only the process's end can help that.
        thread::Builder::new()
            .name("broker-out".to_owned())
            .spawn(move || writer.write_all(sink))?;
        Ok(Self(shared))
    }

    /// The version that `ready` carries.
    pub(super) fn version(&self) -> &str {
        &self.0.version
    }

    /// Sends a notification: addressed to a facade's engine, or process-scoped.
    pub fn notify(&self, engine: Option<EngineId>, name: &str, params: &impl Serialize) {
        // The parent knows the engines alone (product 13.26).
        if engine.is_some_and(EngineId::is_gateway) {
            return;
        }
        let sent = encode(|buf| {
            buf.extend_from_slice(br#"{"jsonrpc":"2.0","method":""#);
            if let Some(engine) = engine {
                buf.extend_from_slice(engine.as_str().as_bytes());
                buf.push(b':');
            }
            buf.extend_from_slice(name.as_bytes());
            buf.extend_from_slice(br#"","params":"#);
            serde_json::to_writer(&mut *buf, params)?;
            buf.extend_from_slice(b"}\n");
            Ok(self.append(buf))
        });
        match sent {
            Ok(Ok(())) => {},
            Ok(Err(TooLarge(bytes))) => {
                tracing::error!(
                    name,
                    bytes,
                    "a notification above the frame limit was dropped"
                );
            },
            Err(_) => tracing::error!(name, "a notification that does not encode was dropped"),
        }
    }

    /// Answers a request.
    pub fn reply(&self, id: &RawValue, result: &impl Serialize) {
        let sent = encode(|buf| {
            begin_reply(buf, id);
            buf.extend_from_slice(br#","result":"#);
            serde_json::to_writer(&mut *buf, result)?;
            buf.extend_from_slice(b"}\n");
            Ok(self.append(buf))
        });
        match sent {
            Ok(Ok(())) => {},
            Ok(Err(TooLarge(bytes))) => self.refuse(id, &too_large(bytes)),
            Err(_) => {
                let text = "the answer could not be encoded";
                self.refuse(id, &CommandError::refused(text));
            },
        }
    }

    /// Refuses a request.
    pub fn refuse(&self, id: &RawValue, error: &CommandError) {
        if let Err(TooLarge(bytes)) = self.try_refuse(id, error)
            && self.try_refuse(id, &too_large(bytes)).is_err()
        {
            // Only an id of about 1 MiB leads here.
            tracing::error!("a request stays unanswered: its id does not fit into a frame");
        }
    }

    fn try_refuse(&self, id: &RawValue, error: &CommandError) -> Result<(), TooLarge> {
        let body = ErrorBody {
            code: error.code.number(),
            message: &error.message,
        };
        let sent = encode(|buf| {
            begin_reply(buf, id);
            buf.extend_from_slice(br#","error":"#);
            serde_json::to_writer(&mut *buf, &body)?;
            buf.extend_from_slice(b"}\n");
            Ok(self.append(buf))
        });
        // A number and a text always encode.
        sent.unwrap_or(Ok(()))
    }

    /// Takes no further frames; what is queued is still written, then the writer ends.
    pub fn close(&self) {
        self.0.lock().closed = true;
        self.0.wake.notify_one();
    }

    /// Waits until everything queued so far and meanwhile is written; false if the deadline passed
    /// or the sink is gone first.
    pub async fn flush(&self, deadline: Instant) -> bool {
        loop {
            let drained = self.0.drained.notified();
            tokio::pin!(drained);
            // Before looking, or a wake-up in between would be missed.
            drained.as_mut().enable();
            {
                let state = self.0.lock();
                if state.gone.is_none() {
                    return false;
                }
                if state.pending.is_empty() && state.in_flight == 0 {
                    return true;
                }
            }
            if timeout_at(deadline, drained).await.is_err() {
                return false;
            }
        }
    }

    /// Appends one complete frame.
    fn append(&self, frame: &[u8]) -> Result<(), TooLarge> {
        if frame.len() > self.0.limits.frame {
            return Err(TooLarge(frame.len()));
        }
        let mut state = self.0.lock();
        if state.closed {
            return Ok(());
        }
        let backlog = state.pending.len() + state.in_flight + frame.len();
        if backlog > self.0.limits.backlog {
            self.0.give_up(state, Gone::Backlog(backlog));
            return Ok(());
        }
        state.pending.extend_from_slice(frame);
        let idle = mem::take(&mut state.idle);
        drop(state);
        // Waking costs a system call, so only a sleeping writer is woken.
        if idle {
            self.0.wake.notify_one();
        }
        Ok(())
    }
}

impl Shared {
    /// The state is whole at every unlock, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writer thread: everything that waits goes out in one write, as far as the sink takes it.
    fn write_all(&self, mut sink: impl Write) {
        let mut batch = Vec::new();
        while self.take(&mut batch) {
            if let Err(e) = self.write_batch(&mut sink, &batch) {
                self.give_up(self.lock(), Gone::Broken(e));
                break;
            }
            batch.clear();
            if batch.capacity() > KEEP {
                batch = Vec::new();
            }
        }
    }

    /// Waits for frames and swaps them into the empty `batch`; false at the end.
    fn take(&self, batch: &mut Vec<u8>) -> bool {
        let mut state = self.lock();
        while state.pending.is_empty() {
            self.drained.notify_waiters();
            if state.closed {
                return false;
            }
            state.idle = true;
            state = self
                .wake
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.idle = false;
        mem::swap(&mut state.pending, batch);
        state.in_flight = batch.len();
        true
    }

    fn write_batch(&self, sink: &mut impl Write, mut rest: &[u8]) -> io::Result<()> {
        while !rest.is_empty() {
            match sink.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => {
                    rest = &rest[n.min(rest.len())..];
                    self.lock().in_flight = rest.len();
                },
                Err(e) if e.kind() == ErrorKind::Interrupted => {},
                Err(e) if e.kind() == ErrorKind::WouldBlock => thread::park_timeout(RETRY),
                Err(e) => return Err(e),
            }
        }
        sink.flush()
    }

    /// Closes for good and tells the daemon, once.
    fn give_up(&self, mut state: MutexGuard<'_, State>, why: Gone) {
        state.closed = true;
        state.pending = Vec::new();
        let gone = state.gone.take();
        drop(state);
        self.wake.notify_one();
        self.drained.notify_waiters();
        if let Some(gone) = gone {
            tracing::error!(%why, "the parent is gone; shutting down");
            gone(why);
        }
    }
}

/// The frame is over the cap: its size.
#[derive(Debug)]
struct TooLarge(usize);

#[derive(Serialize)]
struct ErrorBody<'a> {
    code: i32,
    message: &'a str,
}

fn too_large(bytes: usize) -> CommandError {
    CommandError::refused(format!(
        "the answer takes {bytes} bytes, above the limit of {MAX_FRAME} on this link; \
         the local control socket has no such limit"
    ))
}

fn begin_reply(buf: &mut Vec<u8>, id: &RawValue) {
    buf.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    buf.extend_from_slice(id.get().as_bytes());
}

/// Lends this thread's scratch buffer, empty. Taken out for the time, so that a callback that
/// emits again finds another one instead of a borrowed one.
fn encode<T>(f: impl FnOnce(&mut Vec<u8>) -> serde_json::Result<T>) -> serde_json::Result<T> {
    let mut buf = SCRATCH.take();
    buf.clear();
    let result = f(&mut buf);
    if buf.capacity() <= KEEP {
        SCRATCH.set(buf);
    }
    result
}

#[cfg(test)]
mod tests;
