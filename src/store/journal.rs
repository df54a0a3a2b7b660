//! The journal of finished workloads (product section 6): JSON lines in files of the state folder.
//!
//! Owns: the right to write, the files, their number and size, and what a crash left. Leaves to
//! others: what is in a record (`wire::journal`), the way of a record to the disk (`super::batched`),
//! whether this process may write (`daemon`).

mod files;

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use super::batched::{Lines, News, Output, ROOM};
use crate::wire::journal::Entry;

use files::Files;
pub(super) use files::make_folder;
pub use files::{Contents, list, read};

/// The file whose lock is the right to write.
const LOCK: &str = "journal.lock";

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
pub struct Journal(Lines);

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
        let locked = Locked {
            files: Files::new(dir),
            _lock: lock,
        };
        Ok(Self(Lines::start(locked, false, ROOM)))
    }

    /// Appends what is told of a workload, or loses it where the disk cannot follow.
    pub fn append(&self, entry: &Entry<'_>) {
        self.0.append(|line| entry.write(line));
    }

    /// Records lost since the start.
    pub fn lost(&self) -> u64 {
        self.0.lost()
    }

    /// Waits until everything appended so far is on its way to the disk; `false` if it took longer.
    pub async fn flush(&self, limit: Duration) -> bool {
        self.0.flush(limit).await
    }
}

/// The files, and the right to write them.
struct Locked {
    files: Files,
    _lock: File,
}

impl Output for Locked {
    fn append(&mut self, lines: &[u8]) -> io::Result<usize> {
        self.files.append(lines)
    }

    fn tell(&self, news: News<'_>, lost: u64) {
        match news {
            News::Fails(e) => {
                tracing::warn!(reason = %e, "the journal cannot be written; requests go on without")
            },
            News::Works => tracing::info!(lost, "the journal is written again"),
            News::Behind => {
                tracing::warn!(lost, "the journal's disk is too slow; records are lost")
            },
            News::KeepsUp => tracing::info!(lost, "the journal's disk keeps up again"),
        }
    }
}

#[cfg(test)]
mod tests;
