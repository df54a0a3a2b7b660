//! The journal's files: `journal-NNNNNN.jsonl`, the highest number is the one being written.
//!
//! Owns: names, sizes, turning over, the torn line of a crash, reading back.
//! Leaves to others: when to write (`super`).

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::store::batched::{append_to, first, fitting};
use crate::wire::journal::Record;

/// A file is closed before it grows over this.
const FILE_BYTES: u64 = 4 * 1024 * 1024;

/// So many files are kept.
const FILES: usize = 8;

const PREFIX: &str = "journal-";
const SUFFIX: &str = ".jsonl";

/// What is in one file.
#[derive(Debug, Default)]
pub struct Contents {
    /// Its records, in the order in which they ended.
    pub records: Vec<Record>,
    /// Lines that are no record of this version.
    pub skipped: usize,
}

/// The files of a folder, oldest first.
///
/// # Errors
/// The folder cannot be read.
pub fn list(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let files = numbered(dir)?.into_iter();
    Ok(files.map(|n| dir.join(name(n))).collect())
}

/// Reads one file. Lines that cannot be read, such as a torn last one, are counted and skipped.
///
/// # Errors
/// The file cannot be read.
pub fn read(path: &Path) -> io::Result<Contents> {
    let mut contents = Contents::default();
    for line in fs::read(path)?.split(|b| *b == b'\n') {
        match record(line) {
            Some(record) => contents.records.push(record),
            None if line.is_empty() => {},
            None => contents.skipped += 1,
        }
    }
    Ok(contents)
}

fn record(line: &[u8]) -> Option<Record> {
    Record::parse(line).ok()
}

fn name(number: u32) -> String {
    format!("{PREFIX}{number:06}{SUFFIX}")
}

fn numbered(dir: &Path) -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir)? {
        let found = entry?.file_name();
        let number = found.to_str().and_then(|n| {
            let digits = n.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
            digits
                .parse()
                .ok()
                .filter(|n| name(*n) == found.to_string_lossy())
        });
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// The one being written.
struct Current {
    file: File,
    number: u32,
    len: u64,
}

/// The files of one folder, to append to.
pub(super) struct Files {
    dir: PathBuf,
    file_bytes: u64,
    files: usize,
    current: Option<Current>,
}

impl Files {
    /// Nothing is opened yet.
    pub(super) fn new(dir: &Path) -> Self {
        Self::with_limits(dir, FILE_BYTES, FILES)
    }

    /// The same with limits of a test's own.
    pub(super) fn with_limits(dir: &Path, file_bytes: u64, files: usize) -> Self {
        Self {
            dir: dir.to_owned(),
            file_bytes,
            files,
            current: None,
        }
    }

    /// Appends whole lines, as many as go into a file, in one write; how many bytes are in.
    ///
    /// # Errors
    /// None of them is. The next time the folder is looked at anew: it may have been cleaned or
    /// replaced.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<usize> {
        let mut current = match self.current.take() {
            Some(current) => current,
            None => self.resume()?,
        };
        let room = |len: u64| fitting(lines, self.file_bytes.saturating_sub(len));
        let mut n = room(current.len);
        if n == 0 {
            if current.len > 0 {
                current = self.turn_over(current.number)?;
            }
            n = room(current.len).max(first(lines));
        }
        append_to(&mut current.file, current.len, &lines[..n])?;
        current.len += n as u64;
        self.current = Some(current);
        Ok(n)
    }

    /// The newest file, repaired, or the first one.
    fn resume(&self) -> io::Result<Current> {
        make_folder(&self.dir)?;
        let Some(number) = numbered(&self.dir)?.pop() else {
            return self.create(1);
        };
        let path = self.dir.join(name(number));
        let mut file = open_own(&path)?;
        let len = repair(&mut file, &path)?;
        Ok(Current { file, number, len })
    }

    /// Begins the next file and removes those that are too many.
    fn turn_over(&self, number: u32) -> io::Result<Current> {
        let next = self.create(number + 1)?;
        let numbers = numbered(&self.dir)?;
        for old in &numbers[..numbers.len().saturating_sub(self.files)] {
            fs::remove_file(self.dir.join(name(*old)))?;
        }
        Ok(next)
    }

    fn create(&self, number: u32) -> io::Result<Current> {
        let file = open_own(&self.dir.join(name(number)))?;
        let len = file.metadata()?.len();
        Ok(Current { file, number, len })
    }
}

/// Cuts off what a crash left of a last line, and says so; a whole line that lacks only its end gets
/// it. Gives the length.
fn repair(file: &mut File, path: &Path) -> io::Result<u64> {
    let mut content = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut content)?;
    let whole = content
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |i| i + 1);
    let tail = &content[whole..];
    if tail.is_empty() {
        return Ok(content.len() as u64);
    }
    if record(tail).is_some() {
        file.write_all(b"\n")?;
        return Ok(content.len() as u64 + 1);
    }
    file.set_len(whole as u64)?;
    tracing::warn!(
        file = %path.display(), bytes = tail.len(),
        "the journal's last line was torn by a crash and is skipped"
    );
    Ok(whole as u64)
}

/// Makes a folder that only its owner may enter; one that is there stays as it is.
pub(in crate::store) fn make_folder(dir: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// Opens a file for reading and appending, made if need be, for its owner only.
pub(super) fn open_own(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
