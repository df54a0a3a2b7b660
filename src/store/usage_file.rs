//! The file of usage events (product section 7): JSON lines, appended.
//!
//! Owns: the file, its size and its predecessors (`FILE.1` is the youngest). Leaves to others: what an
//! event is (`wire::usage_event`), when one is made (`daemon`), its way to the disk (`super::batched`).
//!
//! The file may be moved away or removed at any time; the next batch goes to a new one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::batched::{Lines, News, Output, ROOM, append_to, first, fitting};
use crate::wire::usage_event::UsageEvent;

/// A file is moved aside before it grows over this.
const FILE_BYTES: u64 = 64 * 1024 * 1024;

/// So many files are kept beside the one being written.
const KEPT: u32 = 8;

/// The appending end. Clones append to the same file.
#[derive(Clone, Debug)]
pub struct UsageFile(Lines);

impl UsageFile {
    /// Opens the file, which is made if need be for its owner alone, and starts its writer. A file that
    /// cannot be written now is told of, and tried again with every batch. Inside a runtime.
    pub fn open(path: &Path) -> Self {
        Self::with_limits(path, ROOM, FILE_BYTES)
    }

    fn with_limits(path: &Path, room: usize, file_bytes: u64) -> Self {
        let mut files = Files {
            path: path.to_owned(),
            current: None,
            file_bytes,
        };
        let opened = Current::open(path).map(|current| files.current = Some(current));
        if let Err(e) = &opened {
            files.tell(News::Fails(e), 0);
        }
        Self(Lines::start(files, opened.is_err(), room))
    }

    /// Appends an event, or loses it where the disk cannot follow.
    pub fn append(&self, event: &UsageEvent) {
        self.0.append(|line| serde_json::to_writer(line, event));
    }

    /// Events lost since the start.
    pub fn lost(&self) -> u64 {
        self.0.lost()
    }

    /// Waits until everything appended so far is on its way to the disk; `false` if it took longer.
    pub async fn flush(&self, limit: Duration) -> bool {
        self.0.flush(limit).await
    }
}

/// The file being written.
struct Current {
    file: File,
    len: u64,
    identity: Option<Identity>,
}

/// By which it is seen that the path leads to another file now.
type Identity = (u64, u64);

impl Current {
    fn open(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
            super::journal::make_folder(folder)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        let mut len = file.metadata()?.len();
        // A crash may have left a part of a line: it must not swallow the next one.
        if len > 0 {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
                len += 1;
            }
        }
        let identity = identity(path);
        Ok(Self {
            file,
            len,
            identity,
        })
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    let about = fs::metadata(path).ok()?;
    Some((about.dev(), about.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> Option<Identity> {
    fs::metadata(path).ok().map(|_| (0, 0))
}

/// The file, and where it is.
struct Files {
    path: PathBuf,
    current: Option<Current>,
    file_bytes: u64,
}

impl Output for Files {
    fn append(&mut self, lines: &[u8]) -> io::Result<usize> {
        let mut current = match self.current.take() {
            Some(current) if current.identity == identity(&self.path) => current,
            _ => Current::open(&self.path)?,
        };
        let room = |len: u64| fitting(lines, self.file_bytes.saturating_sub(len));
        let mut n = room(current.len);
        if n == 0 {
            if current.len > 0 {
                drop(current);
                turn_over(&self.path)?;
                current = Current::open(&self.path)?;
            }
            n = room(current.len).max(first(lines));
        }
        append_to(&mut current.file, current.len, &lines[..n])?;
        current.len += n as u64;
        self.current = Some(current);
        Ok(n)
    }

    fn tell(&self, news: News<'_>, lost: u64) {
        match news {
            News::Fails(e) => tracing::warn!(
                file = %self.path.display(),
                reason = %e,
                "usage events cannot be written; they are lost until they can"
            ),
            News::Works => tracing::info!(lost, "usage events are written again"),
            News::Behind => {
                tracing::warn!(lost, "the disk is too slow for usage events; some are lost")
            },
            News::KeepsUp => tracing::info!(lost, "usage events are all written again"),
        }
    }
}

/// Moves the file aside: `FILE` to `FILE.1`, that to `FILE.2`, the last one goes.
fn turn_over(path: &Path) -> io::Result<()> {
    let numbered = |n: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{n}"));
        PathBuf::from(name)
    };
    for n in (1..KEPT).rev() {
        match fs::rename(numbered(n), numbered(n + 1)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {},
        }
    }
    fs::rename(path, numbered(1))
}

#[cfg(test)]
mod tests;
