//! The registry on a thread of its own.
//!
//! Owns: the thread, its runtime and priority, their end. Leaves to others: the listener
//! (`registry`).
//!
//! Requests are served by one thread, and whoever comes to the registry need not be a friend: its
//! handshakes and documents must not stand in a request's way. On a machine with one processor the
//! system shares it out, so this thread yields to that one.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::registry::{self, Options, StartError};
use crate::state::fleet::Fleet;

/// How much nicer this thread is than the others. Not more: it holds locks that they wait for.
#[cfg(target_os = "linux")]
const NICER: i32 = 5;

/// A look-up that is under way has no more time at the end.
const LOOK_UPS: Duration = Duration::from_millis(50);

/// A registry that listens. Dropping it ends it.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    stopped: oneshot::Receiver<()>,
}

impl Server {
    /// The address it is bound to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops after the calls in hand have their answers, or after a second.
    pub async fn stop(self) {
        // Whichever end is gone already has stopped.
        let _ = self.stop.send(());
        let _ = self.stopped.await;
    }
}

/// Starts it; it listens when this returns.
///
/// # Errors
/// A sentence that says what to do.
pub fn start(options: Options, fleet: Arc<dyn Fleet>) -> Result<Server, String> {
    let none = |e: io::Error| format!("the registry gets no thread of its own: {e}");
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(none)?;
    let (stop, asked) = oneshot::channel();
    let (tell_end, stopped) = oneshot::channel();
    let (tell, told) = sync_channel(1);
    let work = move || {
        yield_to_others();
        serve(&runtime, options, fleet, asked, |started| {
            // Whoever started this waits for it.
            let _ = tell.send(started);
        });
        let _ = tell_end.send(());
        runtime.shutdown_timeout(LOOK_UPS);
    };
    let named = thread::Builder::new().name("registry".to_owned());
    named.spawn(work).map_err(none)?;
    let started = told.recv();
    let started = started.map_err(|_| "the registry ended as it started".to_owned())?;
    Ok(Server {
        address: started.map_err(|e| e.to_string())?,
        stop,
        stopped,
    })
}

fn serve(
    runtime: &Runtime,
    options: Options,
    fleet: Arc<dyn Fleet>,
    asked: oneshot::Receiver<()>,
    tell: impl FnOnce(Result<SocketAddr, StartError>),
) {
    runtime.block_on(async {
        match registry::start(options, fleet) {
            Ok(server) => {
                tell(Ok(server.address()));
                // Dropped is asked, too.
                let _ = asked.await;
                server.stop().await;
            },
            Err(e) => tell(Err(e)),
        }
    });
}

#[cfg(target_os = "linux")]
fn yield_to_others() {
    use rustix::process::{getpriority_process, setpriority_process};
    // On Linux "this process" is this thread. Refused, it is as important as the others.
    let nicer = getpriority_process(None).and_then(|n| setpriority_process(None, n + NICER));
    if let Err(e) = nicer {
        tracing::debug!(reason = %e, "the registry's thread keeps its priority");
    }
}

#[cfg(not(target_os = "linux"))]
fn yield_to_others() {}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::*;
    use crate::rules::pool::limits::Limits;
    use crate::state::pool::Pool;
    use crate::store::pool::{MemoryStore, system_clock};

    fn open(port: u16) -> Result<Server, String> {
        let store = MemoryStore::new(system_clock(), Limits::default());
        let pool = Pool::new(Arc::new(store), Limits::default(), "memory");
        start(Options::standard((Ipv4Addr::LOCALHOST, port).into()), pool)
    }

    #[tokio::test]
    async fn it_serves_until_it_is_stopped_or_dropped() {
        for dropped in [false, true] {
            let server = open(0).unwrap();
            let mut client = TcpStream::connect(server.address()).unwrap();
            match dropped {
                true => drop(server),
                false => {
                    let at = server.address();
                    server.stop().await;
                    drop(TcpListener::bind(at).unwrap());
                },
            }
            assert_eq!(client.read(&mut [0; 8]).unwrap_or(0), 0);
        }
    }

    #[test]
    fn a_port_that_is_taken_is_told_to_whoever_starts_it() {
        let held = TcpListener::bind("127.0.0.1:0").unwrap();
        let told = open(held.local_addr().unwrap().port()).unwrap_err();
        assert!(told.contains("`listen`"), "{told}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_its_own_thread_is_nicer() {
        use rustix::process::getpriority_process;
        let before = getpriority_process(None).unwrap();
        let during = thread::spawn(|| {
            yield_to_others();
            getpriority_process(None).unwrap()
        });
        assert_eq!(during.join().unwrap(), (before + NICER).min(19));
        assert_eq!(getpriority_process(None).unwrap(), before);
    }
}
