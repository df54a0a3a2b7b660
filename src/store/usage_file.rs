//! The file of usage events (product section 7): JSON lines, appended.
//!
//! Owns: the queue in front of the disk, the file, its size and its predecessors (`FILE.1` is the
//! youngest). Leaves to others: what an event is (`wire::usage_event`), when one is made (`daemon`).
//!
//! Whoever appends never waits: a full queue or a full disk costs events, which are counted and told of
//! once for as long as it lasts. The file may be moved away or removed at any time; the next batch goes
//! to a new one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::wire::usage_event::UsageEvent;

/// Events waiting for the disk.
const QUEUE: usize = 4096;

/// After the first event of a batch the others have this long to come.
const GATHER: Duration = Duration::from_millis(50);

/// A file is moved aside before it grows over this.
const FILE_BYTES: u64 = 64 * 1024 * 1024;

/// So many files are kept beside the one being written.
const KEPT: u32 = 8;

enum Message {
    Event(Arc<UsageEvent>),
    Flush(oneshot::Sender<()>),
}

/// The appending end. Clones append to the same file.
#[derive(Clone, Debug)]
pub struct UsageFile {
    queue: mpsc::Sender<Message>,
    lost: Arc<AtomicU64>,
}

impl UsageFile {
    /// Opens the file, which is made if need be for its owner alone, and starts its writer. A file that
    /// cannot be written now is told of, and tried again with every batch. Inside a runtime.
    pub fn open(path: &Path) -> Self {
        Self::with_limits(path, QUEUE, FILE_BYTES)
    }

    fn with_limits(path: &Path, queue: usize, file_bytes: u64) -> Self {
        let (sender, received) = mpsc::channel(queue);
        let lost = Arc::<AtomicU64>::default();
        let mut writer = Writer {
            current: None,
            path: path.to_owned(),
            file_bytes,
            lost: lost.clone(),
            told: 0,
            failing: false,
            behind: false,
        };
        match Current::open(path) {
            Ok(current) => writer.current = Some(current),
            Err(e) => writer.tell_failure(&e),
        }
        tokio::spawn(write_all(received, writer));
        Self {
            queue: sender,
            lost,
        }
    }

    /// Appends an event, or loses it where the disk cannot follow.
    pub fn append(&self, event: Arc<UsageEvent>) {
        if self.queue.try_send(Message::Event(event)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Events lost since the start.
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
        if matches!(first, Message::Event(_)) {
            tokio::time::sleep(GATHER).await;
        }
        let (mut batch, mut flushed) = (Vec::new(), Vec::new());
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Event(event) => batch.push(event),
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

/// The file, and what was told about it.
struct Writer {
    path: PathBuf,
    current: Option<Current>,
    file_bytes: u64,
    lost: Arc<AtomicU64>,
    /// Losses that were seen before.
    told: u64,
    /// Whether the last write failed.
    failing: bool,
    /// Whether the queue was full of late.
    behind: bool,
}

impl Writer {
    fn write(&mut self, batch: &[Arc<UsageEvent>]) {
        self.tell_overflow();
        let lines: Vec<Vec<u8>> = batch.iter().filter_map(|e| line(e)).collect();
        let mut written = 0;
        let mut result = Ok(());
        while written < lines.len() && result.is_ok() {
            match self.append_some(&lines[written..]) {
                Ok(n) => written += n,
                Err(e) => {
                    // The next batch looks at the path anew.
                    self.current = None;
                    result = Err(e);
                },
            }
        }
        let lost = (batch.len() - written) as u64;
        // Counted here, so that they are not taken for an overflow.
        self.told += lost;
        self.lost.fetch_add(lost, Ordering::Relaxed);
        match result {
            Err(e) if !self.failing => self.tell_failure(&e),
            Ok(()) if self.failing && !lines.is_empty() => {
                self.failing = false;
                let lost = self.lost.load(Ordering::Relaxed);
                tracing::info!(lost, "usage events are written again");
            },
            _ => {},
        }
    }

    fn tell_failure(&mut self, e: &io::Error) {
        self.failing = true;
        tracing::warn!(
            file = %self.path.display(),
            reason = %e,
            "usage events cannot be written; they are lost until they can"
        );
    }

    /// As many lines as go into the file, in one write; how many.
    fn append_some(&mut self, lines: &[Vec<u8>]) -> io::Result<usize> {
        let current = match self.current.take() {
            Some(current) if current.identity == identity(&self.path) => current,
            _ => Current::open(&self.path)?,
        };
        let room = self.file_bytes.saturating_sub(current.len);
        let current = match (lines[0].len() as u64) > room && current.len > 0 {
            true => {
                drop(current);
                turn_over(&self.path)?;
                Current::open(&self.path)?
            },
            false => current,
        };
        let current = self.current.insert(current);
        let room = self.file_bytes.saturating_sub(current.len);
        let mut bytes = lines[0].clone();
        let mut n = 1;
        for line in &lines[1..] {
            if (bytes.len() + line.len()) as u64 > room {
                break;
            }
            bytes.extend_from_slice(line);
            n += 1;
        }
        if let Err(e) = current.file.write_all(&bytes) {
            // A part may be in; failing that, the next opening ends its line.
            drop(current.file.set_len(current.len));
            return Err(e);
        }
        current.len += bytes.len() as u64;
        Ok(n)
    }

    /// Losses that the writer did not count itself: the queue was full.
    fn tell_overflow(&mut self) {
        let lost = self.lost.load(Ordering::Relaxed);
        let more = lost > self.told;
        self.told = lost;
        match (more, self.behind) {
            (true, false) => {
                tracing::warn!(lost, "the disk is too slow for usage events; some are lost")
            },
            (false, true) => tracing::info!(lost, "usage events are all written again"),
            _ => {},
        }
        self.behind = more;
    }
}

fn line(event: &UsageEvent) -> Option<Vec<u8>> {
    let mut line = serde_json::to_vec(event).ok()?;
    line.push(b'\n');
    Some(line)
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
mod tests {
    use super::*;
    use crate::rules::engine::EngineId;
    use crate::rules::ids::{JobId, RunId};
    use crate::wire::usage_event::UsageStatus;

    fn event(n: u64) -> Arc<UsageEvent> {
        Arc::new(UsageEvent {
            v: 1,
            event_id: format!("id-{n}"),
            occurred_at: "2026-01-01T00:00:00.000Z".into(),
            vendor: "local".into(),
            key: None,
            engine: EngineId::parse("ollama").unwrap(),
            node: None,
            model: "m".into(),
            run_id: RunId::from_bytes([1; 8]),
            request_id: JobId(n),
            status: UsageStatus::Success,
            http_status: Some(200),
            attempts: 1,
            prompt_tokens: None,
            completion_tokens: None,
            estimated: false,
            duration_ms: 1,
            ttft_ms: None,
        })
    }

    fn ids(path: &Path) -> Vec<String> {
        let text = fs::read_to_string(path).unwrap_or_default();
        let read = |line: &str| serde_json::from_str::<UsageEvent>(line).ok();
        text.lines().filter_map(read).map(|e| e.event_id).collect()
    }

    async fn flushed(file: &UsageFile) {
        assert!(file.flush(Duration::from_secs(30)).await);
    }

    #[tokio::test]
    async fn events_are_appended_for_their_owner_alone_and_a_torn_line_is_ended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/usage.jsonl");
        let file = UsageFile::open(&path);
        for n in 0..3 {
            file.append(event(n));
        }
        flushed(&file).await;
        assert_eq!(ids(&path), ["id-0", "id-1", "id-2"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        let mut text = fs::read(&path).unwrap();
        text.extend_from_slice(br#"{"v":1,"event"#);
        fs::write(&path, text).unwrap();
        let again = UsageFile::open(&path);
        again.append(event(3));
        flushed(&again).await;
        assert_eq!(ids(&path), ["id-0", "id-1", "id-2", "id-3"]);
        assert_eq!(again.lost(), 0);
    }

    #[tokio::test]
    async fn a_file_that_is_full_or_moved_away_is_followed_by_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("u");
        let line = line(&event(0)).unwrap().len() as u64;
        let file = UsageFile::with_limits(&path, QUEUE, line * 2);
        for n in 0..9 {
            file.append(event(n));
        }
        flushed(&file).await;
        let aside = |n: u32| dir.path().join(format!("u.{n}"));
        assert_eq!(ids(&path), ["id-8"]);
        assert_eq!(ids(&aside(1)), ["id-6", "id-7"]);
        assert_eq!(ids(&aside(4)), ["id-0", "id-1"]);
        for n in 10..40 {
            file.append(event(n));
        }
        flushed(&file).await;
        assert!(aside(KEPT).exists() && !aside(KEPT + 1).exists());
        fs::rename(&path, dir.path().join("taken")).unwrap();
        file.append(event(50));
        flushed(&file).await;
        assert_eq!(ids(&path), ["id-50"]);
        assert_eq!(file.lost(), 0);
    }

    #[tokio::test]
    async fn what_cannot_be_written_is_counted_and_the_next_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("u");
        let file = UsageFile::open(&path);
        fs::remove_file(&path).unwrap();
        // A folder stands in its place.
        fs::create_dir(&path).unwrap();
        file.append(event(1));
        flushed(&file).await;
        assert_eq!(file.lost(), 1);
        fs::remove_dir(&path).unwrap();
        file.append(event(2));
        flushed(&file).await;
        assert_eq!(ids(&path), ["id-2"]);
        assert_eq!(file.lost(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_costs_events_and_no_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("u");
        let file = UsageFile::with_limits(&path, 4, FILE_BYTES);
        for n in 0..10 {
            file.append(event(n));
        }
        assert_eq!(file.lost(), 6);
        flushed(&file).await;
        assert_eq!(ids(&path).len(), 4);
    }
}
