//! The journal of finished workloads (product section 6): JSON lines in files of the state folder.
//!
//! Owns: the queue in front of the disk, the files, their number and size, and what a crash left.
//! Leaves to others: what is in a record (`wire::journal`), whether this process may write
//! (`daemon`).
//!
//! Whoever appends never waits: a full queue or a full disk costs records, which are counted and told
//! of once for as long as it lasts. Several records go to the disk in one write.

mod files;

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::wire::journal::Record;

use files::Files;
pub(super) use files::make_folder;
pub use files::{Contents, list, read};

/// Records waiting for the disk.
const QUEUE: usize = 4096;

/// After the first record of a batch the others have this long to come.
const GATHER: Duration = Duration::from_millis(50);

/// A longer line is not written: only a model's name can be that long, and such a one is none.
const LONGEST: usize = 64 * 1024;

/// Room for a line of one attempt, with its stats.
const USUAL: usize = 512;

/// The file whose lock is the right to write.
const LOCK: &str = "journal.lock";

enum Message {
    Record(Box<Record>),
    Flush(oneshot::Sender<()>),
}

/// Why the journal cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another process does.
    #[error("another daemon writes the journal there")]
    InUse,
    /// The folder cannot be used.
    #[error("the state folder cannot be used: {0}")]
    Io(#[from] io::Error),
}

/// The appending end. Clones append to the same journal.
#[derive(Clone, Debug)]
pub struct Journal {
    queue: mpsc::Sender<Message>,
    lost: Arc<AtomicU64>,
}

impl Journal {
    /// Opens the journal of a folder, which is made if need be, and starts its writer. Inside a
    /// runtime.
    ///
    /// # Errors
    /// Another process writes there, or the folder cannot be used.
    pub fn open(dir: &Path) -> Result<Self, JournalError> {
        files::make_folder(dir)?;
        let lock = files::open_own(&dir.join(LOCK))?;
        lock.try_lock().map_err(|e| match e {
            TryLockError::WouldBlock => JournalError::InUse,
            TryLockError::Error(e) => JournalError::Io(e),
        })?;
        let (queue, received) = mpsc::channel(QUEUE);
        let lost = Arc::<AtomicU64>::default();
        let writer = Writer {
            files: Files::new(dir),
            lost: lost.clone(),
            told: 0,
            failing: false,
            behind: false,
            _lock: lock,
        };
        tokio::spawn(write_all(received, writer));
        Ok(Self { queue, lost })
    }

    /// Appends a record, or loses it where the disk cannot follow.
    pub fn append(&self, record: Box<Record>) {
        if self.queue.try_send(Message::Record(record)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records lost since the start.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Waits until everything appended so far is on its way to the disk; `false` if it took longer.
    pub async fn flush(&self, limit: Duration) -> bool {
        let (done, written) = oneshot::channel();
        let flushed =
            async { self.queue.send(Message::Flush(done)).await.is_ok() && written.await.is_ok() };
        tokio::time::timeout(limit, flushed).await.unwrap_or(false)
    }
}

/// Takes what is queued to the disk, in batches, until nobody can append any more.
async fn write_all(mut queue: mpsc::Receiver<Message>, mut writer: Writer) {
    while let Some(first) = queue.recv().await {
        if matches!(first, Message::Record(_)) {
            tokio::time::sleep(GATHER).await;
        }
        let (mut batch, mut flushed) = (Vec::new(), Vec::new());
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Record(record) => batch.push(record),
                Message::Flush(done) => flushed.push(done),
            }
            next = (batch.len() < QUEUE)
                .then(|| queue.try_recv().ok())
                .flatten();
        }
        let work = tokio::task::spawn_blocking(move || {
            writer.write(&batch);
            writer
        });
        match work.await {
            Ok(back) => writer = back,
            // A panic, or the runtime ends: either way nothing can be written any more.
            Err(_) => return,
        }
        for done in flushed {
            // Whoever asked may have gone.
            let _ = done.send(());
        }
    }
}

/// The files, and what was told about them.
struct Writer {
    files: Files,
    lost: Arc<AtomicU64>,
    /// Losses that were seen before.
    told: u64,
    /// Whether the last write failed.
    failing: bool,
    /// Whether the queue was full of late.
    behind: bool,
    _lock: File,
}

impl Writer {
    fn write(&mut self, batch: &[Box<Record>]) {
        self.tell_overflow();
        let lines: Vec<_> = batch.iter().filter_map(|r| line(r)).collect();
        let mut lost = batch.len() - lines.len();
        let (written, result) = self.files.append(&lines);
        lost += lines.len() - written;
        match result {
            Err(e) if !self.failing => {
                self.failing = true;
                tracing::warn!(reason = %e, "the journal cannot be written; requests go on without");
            },
            Ok(()) if self.failing && !lines.is_empty() => {
                self.failing = false;
                let lost = self.lost.load(Ordering::Relaxed);
                tracing::info!(lost, "the journal is written again");
            },
            _ => {},
        }
        // Counted here, so that they are not taken for an overflow.
        self.told += lost as u64;
        self.lost.fetch_add(lost as u64, Ordering::Relaxed);
    }

    /// Losses that the writer did not count itself: the queue was full.
    fn tell_overflow(&mut self) {
        let lost = self.lost.load(Ordering::Relaxed);
        let more = lost > self.told;
        self.told = lost;
        match (more, self.behind) {
            (true, false) => {
                tracing::warn!(lost, "the journal's disk is too slow; records are lost")
            },
            (false, true) => tracing::info!(lost, "the journal's disk keeps up again"),
            _ => {},
        }
        self.behind = more;
    }
}

fn line(record: &Record) -> Option<Vec<u8>> {
    // Most lines fit: without room from the start each would be moved three times as it grows.
    let mut line = Vec::with_capacity(USUAL);
    serde_json::to_writer(&mut line, record).ok()?;
    line.push(b'\n');
    (line.len() <= LONGEST).then_some(line)
}

#[cfg(test)]
mod tests;
