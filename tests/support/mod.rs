//! What the end-to-end tests share: engines that do as they are told, a parent on the broker link,
//! a client that shows every byte, and daemons in folders of their own.
//!
//! Nothing here sleeps. Whatever happens in a helper thread rings one bell, and a wait looks again
//! at each ring; its limit is generous, because it only keeps a broken test from hanging.

pub mod broker;
pub mod certs;
pub mod client;
pub mod daemon;
pub mod engine;
pub mod provider;
pub mod worker;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long anything may take before a test is called hung.
pub const LIMIT: Duration = Duration::from_secs(30);

static BELL: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());

/// Something happened: everybody who waits looks again.
pub fn ring() {
    drop(BELL.0.lock().unwrap_or_else(PoisonError::into_inner));
    BELL.1.notify_all();
}

/// Waits until `look` finds something; `None` if it does not within `limit`.
pub fn wait<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    let mut bell = BELL.0.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        let left = end.checked_duration_since(Instant::now())?;
        bell = BELL
            .1
            .wait_timeout(bell, left)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
    }
}

/// Waits until something is so.
#[track_caller]
pub fn wait_for(what: &str, mut so: impl FnMut() -> bool) {
    assert!(
        wait(LIMIT, || so().then_some(())).is_some(),
        "waited in vain: {what}"
    );
}

/// Asks until the answer is good, again at each ring and ten times a second. For what cannot ring the
/// bell: the state of another process.
#[track_caller]
pub fn ask_until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(good) = ask() {
            return good;
        }
        assert!(Instant::now() < end, "asked in vain: {what}");
        let bell = BELL.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(BELL.1.wait_timeout(bell, Duration::from_millis(100)));
    }
}

/// An address of this machine beyond loopback: the one it would send from. Nothing is sent.
pub fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let own = socket.local_addr().ok()?.ip();
    (!own.is_loopback()).then_some(own)
}

/// A port that nobody has, on both loopbacks. Below the range from which the system takes ports by
/// itself, and never the same one twice in this process.
pub fn free_port() -> u16 {
    const FIRST: u16 = 13_000;
    const COUNT: u16 = 19_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let start = std::process::id().wrapping_mul(97) as u16;
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + start.wrapping_add(n) % COUNT;
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
            && TcpListener::bind((Ipv6Addr::LOCALHOST, port)).is_ok();
        if free {
            return port;
        }
    }
}
