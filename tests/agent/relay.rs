//! What stands between an agent and its registry: it counts connections, and cuts them.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::{ask_until, ring};

/// Passes bytes on, whatever they are.
pub struct Relay {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    accepted: AtomicUsize,
    /// The next bytes from the registry are not passed on, and their connection is cut.
    swallow: AtomicBool,
    /// Both ends of every connection.
    ends: Mutex<Vec<TcpStream>>,
}

impl Relay {
    /// In front of this address, where nobody needs to listen yet.
    pub fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::<Shared>::default();
        let relay = Self {
            address,
            shared: shared.clone(),
        };
        thread::spawn(move || {
            for near in listener.incoming() {
                let near = near.unwrap();
                shared.accepted.fetch_add(1, Ordering::SeqCst);
                ring();
                let shared = shared.clone();
                thread::spawn(move || shared.join(near, to));
            }
        });
        relay
    }

    /// Connections so far.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Ends all connections. Those that come later are passed on.
    pub fn cut(&self) {
        for end in self.shared.ends.lock().unwrap().drain(..) {
            // It may have ended by itself.
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    /// The next answer is lost with its connection.
    pub fn lose_an_answer(&self) {
        self.shared.swallow.store(true, Ordering::SeqCst);
    }

    /// Whether an answer is still to be lost.
    pub fn is_to_lose(&self) -> bool {
        self.shared.swallow.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn join(&self, near: TcpStream, to: SocketAddr) {
        // While the registry starts again, whoever comes waits.
        let far = ask_until("the registry listens", || TcpStream::connect(to).ok());
        let both = [near.try_clone().unwrap(), far.try_clone().unwrap()];
        self.ends.lock().unwrap().extend(both);
        let (mut up, mut down) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        let there = thread::spawn(move || {
            copy(&mut up, &mut down, || false);
        });
        let (mut down, mut up) = (far, near);
        copy(&mut down, &mut up, || {
            self.swallow.swap(false, Ordering::SeqCst)
        });
        ring();
        there.join().unwrap();
    }
}

/// Until one side ends, or `stop` says so with bytes in hand; then both end.
fn copy(from: &mut TcpStream, to: &mut TcpStream, stop: impl Fn() -> bool) {
    let mut bytes = [0; 16 * 1024];
    loop {
        match from.read(&mut bytes) {
            Ok(n) if n > 0 && !stop() && to.write_all(&bytes[..n]).is_ok() => {},
            _ => break,
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
