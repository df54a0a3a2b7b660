//! A small file that somebody else replaces now and then, read again only when it changed.
//!
//! Owns: noticing a change by what the system says about the file. Leaves to others: its meaning
//! (`members`).

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Nothing in a cluster folder comes near this. What is larger was not written by its owner, and
/// counts as unreadable.
const LARGEST: u64 = 256 * 1024;

/// File times advance in steps of some milliseconds: a file that changed less than this ago may
/// change again without showing it, and is read once more.
const SETTLED_AFTER: Duration = Duration::from_millis(200);

/// What tells one version of a file from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    modified: Option<SystemTime>,
    len: u64,
    /// A rename gives another inode, any change another change time.
    inode: (u64, i64, i64),
}

impl Stamp {
    pub(super) fn of(meta: &Metadata) -> Self {
        Self {
            modified: meta.modified().ok(),
            len: meta.len(),
            inode: inode(meta),
        }
    }
}

#[cfg(unix)]
fn inode(meta: &Metadata) -> (u64, i64, i64) {
    use std::os::unix::fs::MetadataExt;
    (meta.ino(), meta.ctime(), meta.ctime_nsec())
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> (u64, i64, i64) {
    (0, 0, 0)
}

/// What a look at the file found.
#[derive(Debug, PartialEq, Eq)]
pub enum News {
    /// The bytes seen last.
    Same,
    /// Other bytes than before.
    Bytes(Vec<u8>),
    /// It does not exist.
    Gone,
    /// It exists and cannot be read.
    Unreadable,
}

/// What is remembered of one file. Not its content: one of them is a private key.
#[derive(Debug, Default)]
pub struct Watched {
    /// The version that was read, unless it may change unseen.
    settled: Option<Stamp>,
}

impl Watched {
    /// Looks at the file; reads it only if it may have changed since the last look.
    pub fn look(&mut self, path: &Path) -> News {
        match self.try_look(path) {
            Ok(news) => news,
            Err(e) => {
                self.settled = None;
                match e.kind() {
                    io::ErrorKind::NotFound => News::Gone,
                    _ => News::Unreadable,
                }
            },
        }
    }

    fn try_look(&mut self, path: &Path) -> io::Result<News> {
        let meta = fs::metadata(path)?;
        if self.settled.as_ref() == Some(&Stamp::of(&meta)) {
            return Ok(News::Same);
        }
        // Opening anything else, a pipe say, could wait for ever.
        if !meta.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let file = File::open(path)?;
        // Of the very file that is read: a rename may have come between.
        let meta = file.metadata()?;
        let mut bytes = Vec::new();
        file.take(LARGEST + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LARGEST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let age = meta.modified().ok().and_then(|at| at.elapsed().ok());
        self.settled = age
            .is_some_and(|age| age > SETTLED_AFTER)
            .then(|| Stamp::of(&meta));
        Ok(News::Bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn age(path: &Path) {
        let long_ago = SystemTime::now() - Duration::from_secs(60);
        let file = File::options().append(true).open(path).unwrap();
        file.set_modified(long_ago).unwrap();
    }

    #[test]
    fn a_settled_file_is_read_once_and_a_fresh_one_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut watched = Watched::default();
        assert_eq!(watched.look(&path), News::Gone);
        fs::write(&path, "a").unwrap();
        let read = |text: &str| News::Bytes(text.into());
        assert_eq!(watched.look(&path), read("a"));
        // The same length, perhaps within the same tick of the file system's clock.
        fs::write(&path, "b").unwrap();
        assert_eq!(watched.look(&path), read("b"));
        age(&path);
        assert_eq!(watched.look(&path), read("b"));
        assert_eq!(watched.look(&path), News::Same);
        let other = dir.path().join("g");
        fs::write(&other, "c").unwrap();
        age(&other);
        fs::rename(&other, &path).unwrap();
        assert_eq!(watched.look(&path), read("c"));
        assert_eq!(watched.look(&path), News::Same);
        fs::remove_file(&path).unwrap();
        assert_eq!(watched.look(&path), News::Gone);
    }

    #[test]
    fn what_is_no_small_file_is_unreadable() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Watched::default().look(dir.path()), News::Unreadable);
        let path = dir.path().join("f");
        fs::write(&path, vec![0; LARGEST as usize + 1]).unwrap();
        assert_eq!(Watched::default().look(&path), News::Unreadable);
    }
}
