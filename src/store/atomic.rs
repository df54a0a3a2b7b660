//! Files that are whole or not there (product section 11).
//!
//! Owns: write aside, sync, rename. Leaves to others: what is in them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Replaces a file's content. On failure the old content stands and nothing is left beside it. The
/// folder of a file that only its owner may read is made for its owner alone; one that is there stays
/// as it is.
///
/// # Errors
/// A folder cannot be made, or the file cannot be written or renamed.
pub fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        match mode & 0o077 {
            0 => super::journal::make_folder(dir)?,
            _ => fs::create_dir_all(dir)?,
        }
    }
    let aside = aside(path);
    let written = write_aside(&aside, content, mode).and_then(|()| fs::rename(&aside, path));
    if written.is_err() {
        // What remains of it is nobody's; the first failure is the one to report.
        drop(fs::remove_file(&aside));
    }
    written
}

fn aside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    path.with_file_name(name)
}

fn write_aside(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = create(path, mode)?;
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(unix)]
fn create(path: &Path, mode: u32) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(path)
}

#[cfg(not(unix))]
fn create(path: &Path, _mode: u32) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a").join("f");
        write(&path, b"one", 0o644).unwrap();
        write(&path, b"two", 0o644).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        // A folder in its place cannot be replaced.
        let blocked = dir.path().join("b");
        fs::create_dir_all(blocked.join("occupied")).unwrap();
        assert!(write(&blocked, b"x", 0o644).is_err());
        let left: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }

    #[cfg(unix)]
    #[test]
    fn what_is_for_the_owner_alone_gets_a_folder_that_is() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let path = dir.path().join("state").join("nodes.json");
        write(&path, b"x", 0o600).unwrap();
        let folder = path.parent().unwrap();
        assert_eq!((mode(folder), mode(&path)), (0o700, 0o600));
        // A folder that somebody opened stays open.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        write(&path, b"y", 0o600).unwrap();
        assert_eq!(mode(folder), 0o755);
    }
}
