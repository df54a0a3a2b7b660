//! Lines on their way to a file: requests fill a buffer, one writer empties it.
//!
//! Owns: the buffer and its bound, when it is emptied, what was lost and that it is told. Leaves to
//! others: what is in a line, the files (an [`Output`]).
//!
//! Whoever appends never waits for a disk: a full buffer or a full disk costs lines, which are counted
//! and told of once for as long as it lasts. A line is made beside the buffer, so that the lock is held
//! for a copy of a few hundred bytes only. Two buffers take turns: one is filled while the other is
//! written, as it is, in one go.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// Bytes that wait for the disk at most; as many again may be on their way to it.
pub(super) const ROOM: usize = 2 * 1024 * 1024;

/// After the first line of a batch the others have this long to come, unless there are many.
const GATHER: Duration = Duration::from_millis(50);

/// A longer line is not written: only a model's name can be that long, and such a one is none.
pub(super) const LONGEST: usize = 64 * 1024;

/// What a buffer may keep of its size once it is hardly used.
const USUAL: usize = 64 * 1024;

/// Where lines go. Called where blocking is allowed, by one at a time.
pub(super) trait Output: Send + 'static {
    /// Appends whole lines, the first of them and as many more as go into the same file, in one write;
    /// how many bytes they are. After an error nothing of them is in, and files are looked at anew.
    ///
    /// # Errors
    /// They cannot be written.
    fn append(&mut self, lines: &[u8]) -> io::Result<usize>;

    /// Tells the log, with the number of all lines lost so far.
    fn tell(&self, news: News<'_>, lost: u64);
}

/// What is told of an output, once for as long as it lasts.
pub(super) enum News<'a> {
    /// Nothing can be written.
    Fails(&'a io::Error),
    /// That is over.
    Works,
    /// Lines come faster than they can be written.
    Behind,
    /// That is over.
    KeepsUp,
}

/// The appending end. Clones append to the same output, which is let go with the last of them.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    shared: Arc<Shared>,
    /// There is something to do. Holds one: who comes to it sees all that there is.
    wake: mpsc::Sender<()>,
}

#[derive(Debug)]
struct Shared {
    waiting: Mutex<Waiting>,
    room: usize,
    lost: AtomicU64,
    /// Of those lost, the ones that there was no room for.
    overflowed: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: Vec<u8>,
    flushes: Vec<oneshot::Sender<()>>,
}

thread_local! {
    /// A line being made. Kept for the next one.
    static LINE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Lines {
    /// Starts to write to an output, of which it was told already if it is `failing`. Inside a runtime.
    pub(super) fn start(output: impl Output, failing: bool, room: usize) -> Self {
        let shared = Arc::new(Shared {
            waiting: Mutex::default(),
            room,
            lost: AtomicU64::new(0),
            overflowed: AtomicU64::new(0),
        });
        let writer = Writer {
            output,
            shared: shared.clone(),
            told: 0,
            failing,
            behind: false,
        };
        let (wake, woken) = mpsc::channel(1);
        tokio::spawn(write_all(woken, writer));
        Self { shared, wake }
    }

    /// Appends the line that `write` makes, without its end; or loses it where the disk cannot follow,
    /// or where it is none.
    pub(super) fn append(&self, write: impl FnOnce(&mut Vec<u8>) -> serde_json::Result<()>) {
        let mut line = LINE.take();
        line.clear();
        let made = write(&mut line).is_ok();
        line.push(b'\n');
        if made && line.len() <= LONGEST {
            self.push(&line);
        } else {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
        if line.capacity() <= LONGEST {
            LINE.set(line);
        }
    }

    fn push(&self, line: &[u8]) {
        let room = self.shared.room;
        let mut waiting = self.shared.lock();
        let before = waiting.lines.len();
        let after = before + line.len();
        if after > room {
            drop(waiting);
            self.shared.overflowed.fetch_add(1, Ordering::Relaxed);
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.lines.extend_from_slice(line);
        drop(waiting);
        if before == 0 || (before < many(room) && after >= many(room)) {
            self.wake();
        }
    }

    /// Whether the writer is there to be woken.
    fn wake(&self) -> bool {
        // One that was told so already will look after this.
        !matches!(
            self.wake.try_send(()),
            Err(mpsc::error::TrySendError::Closed(()))
        )
    }

    /// Lines lost since the start.
    pub(super) fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }

    /// Waits until everything appended so far is on its way to the disk; `false` if it took longer.
    pub(super) async fn flush(&self, limit: Duration) -> bool {
        let (done, written) = oneshot::channel();
        self.shared.lock().flushes.push(done);
        self.wake() && matches!(timeout(limit, written).await, Ok(Ok(())))
    }
}

/// From here on they are written without waiting for more: often enough that what is filled and
/// written in turns stays in a processor's cache.
fn many(room: usize) -> usize {
    room / 16
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_urgent(&self) -> bool {
        let waiting = self.lock();
        !waiting.flushes.is_empty() || waiting.lines.len() >= many(self.room)
    }
}

/// Takes what waits to the output until nobody can append any more.
async fn write_all<O: Output>(mut woken: mpsc::Receiver<()>, mut writer: Writer<O>) {
    let shared = writer.shared.clone();
    let (mut spare, mut open) = (Vec::new(), true);
    while open {
        open = woken.recv().await.is_some();
        if open && !shared.is_urgent() {
            open = !matches!(timeout(GATHER, woken.recv()).await, Ok(None));
        }
        let (mut lines, flushes) = {
            let mut waiting = shared.lock();
            let flushes = std::mem::take(&mut waiting.flushes);
            (std::mem::replace(&mut waiting.lines, spare), flushes)
        };
        let work = tokio::task::spawn_blocking(move || {
            writer.write(&lines);
            if lines.len() < lines.capacity() / 4 {
                lines.clear();
                lines.shrink_to(USUAL);
            }
            lines.clear();
            (writer, lines)
        });
        match work.await {
            Ok(back) => (writer, spare) = back,
            // A panic, or the runtime ends: either way nothing can be written any more.
            Err(_) => return,
        }
        for done in flushes {
            // Whoever asked may have gone.
            let _ = done.send(());
        }
    }
}

/// The output, and what was told about it.
struct Writer<O> {
    output: O,
    shared: Arc<Shared>,
    /// Overflows that were seen before.
    told: u64,
    /// Whether the last write failed.
    failing: bool,
    /// Whether there was no room of late.
    behind: bool,
}

impl<O: Output> Writer<O> {
    fn write(&mut self, mut lines: &[u8]) {
        self.tell_overflow();
        let any = !lines.is_empty();
        let mut failed = None;
        while !lines.is_empty() && failed.is_none() {
            match self.output.append(lines) {
                Ok(n) => lines = &lines[n..],
                Err(e) => failed = Some(e),
            }
        }
        let lost = memchr::memchr_iter(b'\n', lines).count() as u64;
        let lost = lost + self.shared.lost.fetch_add(lost, Ordering::Relaxed);
        let before = self.failing;
        self.failing = failed.is_some() || (before && !any);
        match failed {
            Some(e) if !before => self.output.tell(News::Fails(&e), lost),
            None if before && any => self.output.tell(News::Works, lost),
            _ => {},
        }
    }

    fn tell_overflow(&mut self) {
        let overflowed = self.shared.overflowed.load(Ordering::Relaxed);
        let more = overflowed > self.told;
        self.told = overflowed;
        let lost = self.shared.lost.load(Ordering::Relaxed);
        match (more, self.behind) {
            (true, false) => self.output.tell(News::Behind, lost),
            (false, true) => self.output.tell(News::KeepsUp, lost),
            _ => {},
        }
        self.behind = more;
    }
}

/// The bytes of as many whole lines as have room.
pub(super) fn fitting(lines: &[u8], room: u64) -> usize {
    let room = usize::try_from(room).map_or(lines.len(), |room| room.min(lines.len()));
    memchr::memrchr(b'\n', &lines[..room]).map_or(0, |i| i + 1)
}

/// The bytes of the first line.
pub(super) fn first(lines: &[u8]) -> usize {
    memchr::memchr(b'\n', lines).map_or(lines.len(), |i| i + 1)
}

/// Writes to the end of a file of this length, all of it or nothing.
pub(super) fn append_to(file: &mut File, len: u64, lines: &[u8]) -> io::Result<()> {
    // Where the part that is in cannot be cut off either, the torn line is found when the file is
    // opened again.
    file.write_all(lines)
        .inspect_err(|_| drop(file.set_len(len)))
}

#[cfg(test)]
mod tests;
