//! What the service manager is told: systemd's notification protocol, sd_notify(3).
//!
//! Owns: whether there is a manager that is ours to tell, the datagrams. Leaves to others: when and
//! what (`daemon`).
//!
//! The messages' form is the library's. The sending is ours, because the library does not know
//! abstract socket names, and because one full queue must not hold up the thread that serves.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use sd_notify::NotifyState;

/// A manager that reads nothing may hold us up this long.
const PATIENCE: Duration = Duration::from_millis(100);

/// The service manager, if there is one.
#[derive(Clone, Debug, Default)]
pub struct Manager {
    address: Option<SocketAddr>,
    watchdog: Option<Duration>,
}

impl Manager {
    /// Nobody.
    pub fn absent() -> Self {
        Self::default()
    }

    /// The manager of this process, as its environment says.
    ///
    /// A child inherits the variables of its parent. So a process that a parent drives (`driven`)
    /// speaks only if systemd says that it started this very process; otherwise its `READY` would
    /// be taken for the parent's.
    pub fn of_process(driven: bool) -> Self {
        let started = std::env::var("SYSTEMD_EXEC_PID").ok();
        if !is_ours(started.as_deref(), std::process::id(), driven) {
            return Self::absent();
        }
        let name = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty());
        let address = name.and_then(|name| {
            address(&name)
                .inspect_err(|e| tracing::warn!(reason = %e, "NOTIFY_SOCKET cannot be used"))
                .ok()
        });
        Self {
            watchdog: address.as_ref().and(sd_notify::watchdog_enabled()),
            address,
        }
    }

    /// Whether anybody is told.
    pub fn is_there(&self) -> bool {
        self.address.is_some()
    }

    /// The manager ends this process when [`Self::alive`] was not called for so long; `None` = never.
    pub fn watchdog(&self) -> Option<Duration> {
        // 0 is "off" in systemd's own words.
        self.watchdog.filter(|limit| !limit.is_zero())
    }

    /// The configuration is being read again; [`Self::ready`] ends that, whatever came of it.
    ///
    /// With the moment, which is how a unit of `Type=notify-reload` tells this reload from an earlier one.
    pub fn reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => self.tell(&[NotifyState::Reloading, now]),
            // Without the moment such a unit would call the reload failed.
            Err(e) => tracing::debug!(reason = %e, "the service manager was not told of a reload"),
        }
    }

    /// The listeners are open, or a reload is over. `status` is one line.
    pub fn ready(&self, status: &str) {
        self.tell(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// What goes on, in one line.
    pub fn status(&self, status: &str) {
        self.tell(&[NotifyState::Status(status)]);
    }

    /// The process still moves.
    pub fn alive(&self) {
        self.tell(&[NotifyState::Watchdog]);
    }

    /// The end has begun and takes at most so long, whatever limit the unit sets.
    pub fn stopping(&self, status: &str, within: Duration) {
        let within = u32::try_from(within.as_micros()).unwrap_or(u32::MAX);
        self.tell(&[
            NotifyState::Stopping,
            NotifyState::Status(status),
            NotifyState::ExtendTimeoutUsec(within),
        ]);
    }

    fn tell(&self, states: &[NotifyState<'_>]) {
        let Some(address) = &self.address else { return };
        let message: String = states.iter().map(|s| format!("{s}\n")).collect();
        if let Err(e) = send(address, message.as_bytes()) {
            tracing::debug!(reason = %e, "the service manager was not told");
        }
    }
}

fn is_ours(started: Option<&str>, own: u32, driven: bool) -> bool {
    match (started.and_then(|pid| pid.parse::<u32>().ok()), driven) {
        (started, true) => started == Some(own),
        // A wrapper script may stand between, and a container's manager does not say.
        (_, false) => true,
    }
}

/// A path, or an abstract name behind `@`.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    let name: OsString = name.to_owned();
    match name.as_encoded_bytes().first() {
        Some(b'/') => SocketAddr::from_pathname(name),
        Some(b'@') => abstract_address(&name.as_encoded_bytes()[1..]),
        _ => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "neither a path nor an abstract name",
        )),
    }
}

#[cfg(target_os = "linux")]
fn abstract_address(name: &[u8]) -> io::Result<SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    SocketAddr::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
fn abstract_address(_: &[u8]) -> io::Result<SocketAddr> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "abstract names are of Linux",
    ))
}

fn send(address: &SocketAddr, message: &[u8]) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.send_to_addr(message, address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driven_child_speaks_only_if_systemd_started_it_itself() {
        for (started, driven, want) in [
            (None, false, true),
            (Some("7"), false, true),
            (Some("8"), false, true),
            (None, true, false),
            (Some("8"), true, false),
            (Some("x"), true, false),
            (Some("7"), true, true),
        ] {
            assert_eq!(is_ours(started, 7, driven), want, "{started:?} {driven}");
        }
    }

    #[test]
    fn names_are_paths_or_abstract() {
        assert!(address(OsStr::new("/run/systemd/notify")).is_ok());
        assert_eq!(
            address(OsStr::new("@a/b")).is_ok(),
            cfg!(target_os = "linux")
        );
        for bad in ["relative", "vsock:2:1", &format!("/{}", "x".repeat(200))] {
            assert!(address(OsStr::new(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_manager_that_does_not_read_holds_nobody_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let _deaf = UnixDatagram::bind(&path).unwrap();
        let manager = Manager {
            address: Some(SocketAddr::from_pathname(&path).unwrap()),
            watchdog: Some(Duration::ZERO),
        };
        assert_eq!(manager.watchdog(), None);
        // The system queues some datagrams and then waits for the reader.
        let full = (0..10_000).any(|_| send(manager.address.as_ref().unwrap(), b"x").is_err());
        assert!(full, "its queue is bounded");
        manager.alive();
    }

    #[test]
    fn a_manager_that_is_gone_is_no_failure() {
        let folder = tempfile::tempdir().unwrap();
        let manager = Manager {
            address: Some(SocketAddr::from_pathname(folder.path().join("gone")).unwrap()),
            watchdog: None,
        };
        manager.ready("x");
        Manager::absent().stopping("x", Duration::MAX);
    }
}
