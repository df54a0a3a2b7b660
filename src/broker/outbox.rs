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
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use serde_json::{Value, json};

    use super::*;
    use crate::wire::jsonrpc::ErrorCode;

    const SMALL: Limits = Limits {
        frame: 200,
        backlog: 1000,
    };

    /// Passes on what it is given; every write first waits for a permit, if it has a gate.
    struct Tap {
        out: Sender<Vec<u8>>,
        gate: Option<Receiver<()>>,
        at_most: usize,
    }

    impl Write for Tap {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            if let Some(gate) = &self.gate {
                gate.recv().map_err(|_| ErrorKind::BrokenPipe)?;
            }
            let n = buf.len().min(self.at_most);
            self.out
                .send(buf[..n].to_vec())
                .map_err(|_| ErrorKind::BrokenPipe)?;
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Rig {
        outbox: Outbox,
        out: Receiver<Vec<u8>>,
        gate: Sender<()>,
        gone: Receiver<String>,
    }

    impl Rig {
        fn new(limits: Limits, gated: bool, at_most: usize) -> Self {
            let (out_tx, out) = channel();
            let (gate, gate_rx) = channel();
            let (gone_tx, gone) = channel();
            let tap = Tap {
                out: out_tx,
                gate: gated.then_some(gate_rx),
                at_most,
            };
            let outbox = Outbox::with_limits(limits, tap, "1.2.3".into(), move |why| {
                gone_tx.send(why.to_string()).unwrap();
            });
            Self {
                outbox: outbox.unwrap(),
                out,
                gate,
                gone,
            }
        }

        fn open() -> Self {
            Self::new(SMALL, false, usize::MAX)
        }

        /// Closes the queue and returns everything that was written.
        fn written(self) -> Vec<Value> {
            self.outbox.close();
            let bytes: Vec<u8> = self.out.iter().flatten().collect();
            assert!(bytes.is_empty() || bytes.ends_with(b"\n"));
            bytes
                .split(|b| *b == b'\n')
                .filter(|line| !line.is_empty())
                .map(|line| serde_json::from_slice(line).unwrap())
                .collect()
        }
    }

    fn id(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn every_frame_is_one_compact_line() {
        let rig = Rig::open();
        let engine = EngineId::parse("ollama");
        rig.outbox.notify(engine, "ready", &json!({"port":1}));
        rig.outbox
            .notify(None, "workload:started", &json!({"a":"x\ny"}));
        rig.outbox.reply(&id(r#"{"b": 1}"#), &());
        rig.outbox
            .refuse(&id("1e400"), &CommandError::params("bad \"x\""));
        rig.outbox.close();
        let bytes: Vec<u8> = rig.out.iter().flatten().collect();
        let want = concat!(
            r#"{"jsonrpc":"2.0","method":"ollama:ready","params":{"port":1}}"#,
            "\n",
            r#"{"jsonrpc":"2.0","method":"workload:started","params":{"a":"x\ny"}}"#,
            "\n",
            r#"{"jsonrpc":"2.0","id":{"b": 1},"result":null}"#,
            "\n",
            r#"{"jsonrpc":"2.0","id":1e400,"error":{"code":-32602,"message":"bad \"x\""}}"#,
            "\n",
        );
        assert_eq!(String::from_utf8(bytes).unwrap(), want);
    }

    #[test]
    fn an_answer_above_the_cap_becomes_an_error_that_says_so() {
        let limits = Limits {
            frame: 300,
            ..SMALL
        };
        let rig = Rig::new(limits, false, usize::MAX);
        rig.outbox.reply(&id("7"), &"x".repeat(300));
        let frames = rig.written();
        assert_eq!(frames.len(), 1);
        assert_eq!(frames[0]["id"], 7);
        assert_eq!(
            frames[0]["error"]["code"],
            ErrorCode::Refused.number(),
            "{frames:?}"
        );
        assert!(
            frames[0]["error"]["message"]
                .as_str()
                .unwrap()
                .contains("above the limit")
        );
    }

    #[test]
    fn the_cap_counts_the_whole_frame_and_a_notification_above_it_is_dropped() {
        let rig = Rig::open();
        let frame = |n: usize| json!("x".repeat(n));
        let envelope = r#"{"jsonrpc":"2.0","method":"a","params":""}"#.len() + 1;
        rig.outbox.notify(None, "a", &frame(200 - envelope));
        rig.outbox.notify(None, "a", &frame(201 - envelope));
        rig.outbox.notify(None, "b", &json!(1));
        let methods: Vec<_> = rig.written().iter().map(|f| f["method"].clone()).collect();
        assert_eq!(methods, ["a", "b"]);
    }

    #[test]
    fn an_answer_that_cannot_fit_at_all_is_not_sent() {
        let rig = Rig::open();
        rig.outbox.reply(&id(&format!("{:?}", "x".repeat(300))), &1);
        assert_eq!(rig.written(), Vec::<Value>::new());
    }

    #[test]
    fn a_blocked_reader_delays_frames_but_loses_and_reorders_none() {
        let limits = Limits {
            frame: 200,
            backlog: 1 << 20,
        };
        let rig = Rig::new(limits, true, usize::MAX);
        // Nothing can be written during any of this, and still nobody waits.
        thread::scope(|scope| {
            for who in 0..4 {
                let outbox = &rig.outbox;
                scope.spawn(move || {
                    for n in 0..500 {
                        outbox.notify(None, "n", &json!([who, n]));
                    }
                });
            }
        });
        assert!(rig.out.try_recv().is_err());
        for _ in 0..2000 {
            rig.gate.send(()).unwrap();
        }
        let frames = rig.written();
        assert_eq!(frames.len(), 2000);
        for who in 0..4 {
            let own: Vec<_> = frames
                .iter()
                .filter(|f| f["params"][0] == who)
                .map(|f| f["params"][1].as_u64().unwrap())
                .collect();
            assert_eq!(own, (0..500).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_waits_goes_out_in_one_write() {
        let rig = Rig::new(SMALL, true, usize::MAX);
        rig.outbox.notify(None, "a", &1);
        // The first write is given its frame and then blocked; the rest gathers behind it.
        while rig.outbox.0.lock().in_flight == 0 {
            thread::yield_now();
        }
        rig.outbox.notify(None, "b", &2);
        rig.outbox.notify(None, "c", &3);
        rig.gate.send(()).unwrap();
        rig.gate.send(()).unwrap();
        rig.outbox.close();
        let writes: Vec<_> = rig.out.iter().collect();
        let lines = |w: &Vec<u8>| w.iter().filter(|b| **b == b'\n').count();
        assert_eq!(writes.iter().map(lines).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn short_writes_are_continued() {
        let rig = Rig::new(SMALL, false, 3);
        rig.outbox.notify(None, "abc", &json!({"k":"value"}));
        rig.outbox.notify(None, "def", &json!(null));
        let frames = rig.written();
        assert_eq!(frames[0]["params"]["k"], "value");
        assert_eq!(frames[1]["method"], "def");
    }

    #[test]
    fn a_sink_that_hesitates_is_asked_again() {
        struct Moody(Vec<ErrorKind>, Sender<Vec<u8>>);
        impl Write for Moody {
            fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                if let Some(kind) = self.0.pop() {
                    return Err(kind.into());
                }
                self.1.send(buf.to_vec()).unwrap();
                Ok(buf.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (tx, rx) = channel();
        let moods = vec![
            ErrorKind::Interrupted,
            ErrorKind::WouldBlock,
            ErrorKind::Interrupted,
        ];
        let outbox = Outbox::start(Moody(moods, tx), "v", |_| panic!("not gone")).unwrap();
        outbox.notify(None, "a", &1);
        assert!(rx.recv().unwrap().ends_with(b"\n"));
    }

    #[test]
    fn a_backlog_above_the_limit_means_the_parent_is_gone() {
        let rig = Rig::new(SMALL, true, usize::MAX);
        for n in 0..100 {
            rig.outbox.notify(None, "n", &n);
        }
        assert!(rig.gone.recv().unwrap().contains("does not read"));
        assert!(rig.gone.recv().is_err(), "called once");
        assert!(rig.outbox.0.lock().pending.is_empty(), "memory is freed");
    }

    #[test]
    fn a_broken_sink_means_the_parent_is_gone() {
        let rig = Rig::new(SMALL, false, usize::MAX);
        drop(rig.out);
        rig.outbox.notify(None, "a", &1);
        assert!(!rig.gone.recv().unwrap().is_empty());
        rig.outbox.notify(None, "b", &1);
        assert!(rig.gone.recv().is_err(), "called once");
    }

    #[test]
    fn a_callback_may_emit() {
        let slot = Arc::new(Mutex::new(None::<Outbox>));
        let (gate, gate_rx) = channel();
        let (done_tx, done) = channel();
        let tap = Tap {
            out: channel().0,
            gate: Some(gate_rx),
            at_most: usize::MAX,
        };
        let inner = Arc::clone(&slot);
        let outbox = Outbox::with_limits(SMALL, tap, String::new(), move |_| {
            let outbox = inner.lock().unwrap().clone().unwrap();
            outbox.notify(None, "late", &1);
            done_tx.send(()).unwrap();
        })
        .unwrap();
        *slot.lock().unwrap() = Some(outbox.clone());
        for n in 0..100 {
            outbox.notify(None, "n", &n);
        }
        done.recv().unwrap();
        drop(gate);
    }

    #[tokio::test(start_paused = true)]
    async fn flush_waits_for_the_last_byte_or_for_its_deadline() {
        let rig = Rig::new(SMALL, true, usize::MAX);
        let soon = || Instant::now() + Duration::from_secs(1);
        assert!(rig.outbox.flush(soon()).await, "nothing waits");
        rig.outbox.notify(None, "a", &1);
        assert!(!rig.outbox.flush(soon()).await, "the sink is blocked");
        rig.gate.send(()).unwrap();
        // The frame has left when it can be received, so only the writer's last step is awaited.
        rig.out.recv().unwrap();
        let flushed = tokio::task::spawn_blocking({
            let outbox = rig.outbox.clone();
            move || {
                while outbox.0.lock().in_flight > 0 {
                    thread::yield_now();
                }
            }
        });
        flushed.await.unwrap();
        assert!(rig.outbox.flush(soon()).await);
    }

    #[tokio::test]
    async fn flush_ends_at_once_when_the_parent_is_gone() {
        let rig = Rig::new(SMALL, true, usize::MAX);
        for n in 0..100 {
            rig.outbox.notify(None, "n", &n);
        }
        let far = Instant::now() + Duration::from_secs(3600);
        assert!(!rig.outbox.flush(far).await);
    }
}
