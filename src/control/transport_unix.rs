//! The control socket on Unix: a Unix domain socket (product section 5).
//!
//! Owns: the socket's folder, lock, file and mode, who may connect, and dialling.
//! Leaves to others: what is said over it (`socket`, `client`). Its twin for other platforms is
//! `transport_none`.
//!
//! Order: the lock first, then a dial, then the replacement. Without the lock two starting daemons
//! could both find the old socket dead and each remove the other's new one.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::{UnixListener, UnixStream};

use super::socket::SocketError;

/// A connection of the socket.
pub(super) type Stream = UnixStream;

/// Bytes of a path that fit into an address, without the final NUL.
const MAX_PATH: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// The bound socket. Dropping it removes the file, if it is still ours, and then the lock.
#[derive(Debug)]
pub(super) struct Bound {
    listener: StdListener,
    pub(super) file: SocketFile,
}

/// The socket's file and its lock.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
    // Released after `drop` has removed the socket: fields are dropped after their owner.
    _lock: File,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody may have put another socket in its place; that one is not ours to remove.
        if identity(&self.path).is_ok_and(|now| now == self.identity) {
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Binds the socket, replacing a dead one.
pub(super) fn bind(path: &Path) -> Result<Bound, SocketError> {
    let failed = |what: &'static str| {
        let path = path.to_owned();
        move |source: io::Error| SocketError::Io { what, path, source }
    };
    check_length(path)?;
    prepare_folder(path)?;
    let lock = take_lock(path)?;
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {},
        Err(e) => return Err(failed("look at")(e)),
        // A dial to a plain file is refused just like one to a dead socket.
        Ok(meta) if !meta.file_type().is_socket() => {
            return Err(SocketError::NotASocket(path.to_owned()));
        },
        Ok(_) if is_alive(path).map_err(failed("dial"))? => {
            return Err(SocketError::InUse(path.to_owned()));
        },
        Ok(_) => fs::remove_file(path).map_err(failed("replace"))?,
    }
    let listener = StdListener::bind(path).map_err(failed("bind"))?;
    let identity = identity(path).map_err(failed("look at"))?;
    // From here on an early return removes the file.
    let file = SocketFile {
        path: path.to_owned(),
        identity,
        _lock: lock,
    };
    // Until this line the folder and the credentials check keep others out.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed("protect"))?;
    listener.set_nonblocking(true).map_err(failed("bind"))?;
    Ok(Bound { listener, file })
}

impl Bound {
    /// Its listener, for the runtime of the caller, and the guard of its file.
    pub(super) fn into_parts(self) -> io::Result<(Listener, SocketFile)> {
        let Self { listener, file } = self;
        Ok((Listener(UnixListener::from_std(listener)?), file))
    }
}

/// Accepts connections of permitted callers.
pub(super) struct Listener(UnixListener);

impl Listener {
    /// The next connection; `None` if its caller is not permitted, which drops it.
    pub(super) async fn accept(&self) -> io::Result<Option<Stream>> {
        let (stream, _) = self.0.accept().await?;
        Ok(peer_is(&stream, may_call).then_some(stream))
    }
}

/// Connects to a daemon.
pub(super) async fn dial(path: &Path) -> io::Result<Stream> {
    // The system's own message for a path that is too long does not say so.
    check_length(path).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e.to_string()))?;
    let stream = UnixStream::connect(path).await?;
    if !peer_is(&stream, may_be_called) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "another user's process listens there",
        ));
    }
    Ok(stream)
}

/// Whether the other end's user passes; the rule is given the peer's and our own effective one.
fn peer_is(stream: &UnixStream, rule: fn(u32, u32) -> bool) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| rule(peer.uid(), own))
}

/// Who may steer the daemon: its own user, and root.
fn may_call(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

/// Whom a client tells anything: the same, so that a stranger's socket learns nothing. Root calls
/// any user's daemon, such as a system service's; it named that socket itself.
fn may_be_called(peer: u32, own: u32) -> bool {
    may_call(peer, own) || own == 0
}

fn check_length(path: &Path) -> Result<(), SocketError> {
    let length = path.as_os_str().len();
    if length > MAX_PATH {
        return Err(SocketError::TooLong {
            path: path.to_owned(),
            length,
            limit: MAX_PATH,
        });
    }
    Ok(())
}

/// Makes the folder with mode 0700. One that exists is kept as it is, since a path given by hand
/// may lie anywhere, but it must be such that nobody else can swap our files.
fn prepare_folder(path: &Path) -> Result<(), SocketError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let failed = |source| SocketError::Io {
        what: "use the folder of",
        path: path.to_owned(),
        source,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(failed)?;
    let meta = fs::metadata(folder).map_err(failed)?;
    let own = rustix::process::geteuid().as_raw();
    let strangers = meta.mode() & 0o022 != 0 && meta.mode() & 0o1000 == 0;
    if strangers || (meta.uid() != own && meta.uid() != 0) {
        return Err(SocketError::UnsafeFolder(folder.to_owned()));
    }
    Ok(())
}

/// `control.lock` beside `control.sock`. It is never removed: a removed lock file can be locked
/// twice.
fn take_lock(path: &Path) -> Result<File, SocketError> {
    let lock_path = path.with_extension("lock");
    let failed = |source| SocketError::Io {
        what: "lock",
        path: lock_path.clone(),
        source,
    };
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&lock_path)
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(SocketError::InUse(path.to_owned())),
        Err(TryLockError::Error(e)) => Err(failed(e)),
    }
}

/// Whether somebody listens on this socket. Only a refusal proves that nobody does. The dial does
/// not block: a listener too busy to accept is alive.
fn is_alive(path: &Path) -> io::Result<bool> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::unix(path)?) {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => Ok(false),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        _ => Ok(true),
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let meta = fs::symlink_metadata(path)?;
    Ok((meta.dev(), meta.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn the_folder_and_the_socket_are_for_the_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/control.sock");
        let bound = bind(&path).unwrap();
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(&path.with_extension("lock")), 0o600);
        drop(bound);
        assert!(!path.exists());
    }

    #[test]
    fn users_are_apart_and_root_is_everywhere() {
        for (peer, own, call, be_called) in [
            (7, 7, true, true),
            (8, 7, false, false),
            (0, 7, true, true),
            (7, 0, false, true),
            (0, 0, true, true),
        ] {
            assert_eq!(may_call(peer, own), call, "{peer} calls {own}");
            assert_eq!(may_be_called(peer, own), be_called, "{own} calls {peer}");
        }
    }

    #[test]
    fn a_dead_socket_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        drop(StdListener::bind(&path).unwrap());
        assert!(path.exists());
        bind(&path).unwrap();
    }

    #[test]
    fn a_live_socket_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        let _first = bind(&path).unwrap();
        assert!(matches!(bind(&path), Err(SocketError::InUse(p)) if p == path));
        assert!(path.exists());
    }

    #[test]
    fn a_live_socket_without_our_lock_is_left_alone_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        let _other = StdListener::bind(&path).unwrap();
        assert!(matches!(bind(&path), Err(SocketError::InUse(_))));
        assert!(path.exists());
    }

    #[test]
    fn a_plain_file_in_its_place_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        fs::write(&path, "precious").unwrap();
        assert!(matches!(bind(&path), Err(SocketError::NotASocket(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn a_successor_s_socket_survives_our_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        let bound = bind(&path).unwrap();
        // Kept under another name so that its inode number cannot be given out again.
        fs::rename(&path, dir.path().join("old.sock")).unwrap();
        let _other = StdListener::bind(&path).unwrap();
        drop(bound);
        assert!(path.exists());
    }

    #[test]
    fn a_path_that_does_not_fit_is_named_with_its_limit() {
        let path = PathBuf::from(format!("/tmp/{}/control.sock", "x".repeat(120)));
        let error = bind(&path).unwrap_err();
        assert!(matches!(
            error,
            SocketError::TooLong {
                limit: MAX_PATH,
                ..
            }
        ));
        assert!(!path.parent().unwrap().exists());
    }

    #[test]
    fn a_folder_where_others_may_write_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("open");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let path = folder.join("control.sock");
        assert!(matches!(bind(&path), Err(SocketError::UnsafeFolder(_))));
        // With the sticky bit nobody can remove another's file.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o1777)).unwrap();
        bind(&path).unwrap();
    }
}
