//! The listeners of the facades: opened, moved, watched, closed.
//!
//! Owns: accept tasks, and noticing one that died. Leaves to others: when (`commands`), serving
//! (`facade`).
//!
//! A facade with a bound socket and no accept loop must never stay published: enabling it again
//! would report it as healthy for ever.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::facade::{Facade, accept};
use crate::net::listen;
use crate::rules::engine::EngineId;

/// A facade's accept loop ended by itself.
#[derive(Debug)]
pub struct Died {
    /// Whose.
    pub engine: EngineId,
    /// Which opening of it, so that a late notice does not hit its successor.
    pub opening: u64,
    /// Why.
    pub reason: String,
}

/// Accept tasks; dropping them closes their sockets and leaves connections alone.
struct Accepting(Vec<AbortHandle>);

impl Drop for Accepting {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

/// One facade that listens.
pub struct Listening {
    facade: Facade,
    /// Its number among all openings of this process.
    pub opening: u64,
    primary: Accepting,
    _aliases: Accepting,
    /// Listeners beyond loopback, where the primary ones are on loopback alone. Sockets of their own,
    /// so that opening and closing them leaves those of this machine's clients alone.
    outside: BTreeMap<IpAddr, Accepting>,
}

impl Listening {
    /// Serves these sockets.
    pub fn open(
        facade: Facade,
        opening: u64,
        primary: Vec<TcpListener>,
        aliases: Vec<TcpListener>,
        died: &mpsc::UnboundedSender<Died>,
    ) -> Self {
        let serve = |sockets: Vec<TcpListener>| {
            let tasks = sockets
                .into_iter()
                .map(|s| watch(facade.clone(), s, opening, died.clone()));
            Accepting(tasks.collect())
        };
        let (primary, aliases) = (serve(primary), serve(aliases));
        Self {
            facade,
            opening,
            primary,
            _aliases: aliases,
            outside: BTreeMap::new(),
        }
    }

    /// The facade itself.
    pub fn facade(&self) -> &Facade {
        &self.facade
    }

    /// Serves these sockets instead of the present ones; aliases stay. Connections on the old ones
    /// go on.
    pub fn move_to(&mut self, sockets: Vec<TcpListener>, died: &mpsc::UnboundedSender<Died>) {
        let facade = &self.facade;
        let tasks = sockets
            .into_iter()
            .map(|s| watch(facade.clone(), s, self.opening, died.clone()));
        self.primary = Accepting(tasks.collect());
        self.outside.clear();
    }

    /// Listens at these addresses too, and at no others beyond the primary ones; connections stay. The
    /// addresses that were opened now, and those that could not be.
    pub fn reach(&mut self, wanted: &[IpAddr]) -> Reached {
        self.outside.retain(|ip, accepting| {
            wanted.contains(ip) && accepting.0.iter().all(|task| !task.is_finished())
        });
        let port = self.facade.state.port();
        let mut reached = Reached::default();
        for ip in wanted {
            if self.outside.contains_key(ip) {
                continue;
            }
            match listen::bind_one((*ip, port).into()) {
                Ok(socket) => {
                    let task = beyond(self.facade.clone(), socket, *ip);
                    self.outside.insert(*ip, Accepting(vec![task]));
                    reached.opened.push(*ip);
                },
                Err(e) => reached.failed.push((*ip, e)),
            }
        }
        reached
    }

    /// Whether it listens beyond its primary addresses.
    pub fn is_outside(&self) -> bool {
        !self.outside.is_empty()
    }
}

/// What came of another reach.
#[derive(Default)]
pub struct Reached {
    /// Addresses that were not listened at before.
    pub opened: Vec<IpAddr>,
    /// Addresses that could not be bound.
    pub failed: Vec<(IpAddr, io::Error)>,
}

/// Serves a socket whose end costs no more than itself: the next look opens another.
fn beyond(facade: Facade, socket: TcpListener, ip: IpAddr) -> AbortHandle {
    let engine = facade.state.engine();
    let task = tokio::spawn(async move {
        let reason = accept_until_it_ends(facade, socket).await;
        tracing::warn!(%engine, %ip, reason, "a listener beyond loopback ended");
    });
    task.abort_handle()
}

fn watch(
    facade: Facade,
    socket: TcpListener,
    opening: u64,
    died: mpsc::UnboundedSender<Died>,
) -> AbortHandle {
    let engine = facade.state.engine();
    let task = tokio::spawn(async move {
        let reason = accept_until_it_ends(facade, socket).await;
        // Nobody reads it any more only while everything ends.
        drop(died.send(Died {
            engine,
            opening,
            reason,
        }));
    });
    task.abort_handle()
}

/// Serves a socket for as long as that goes; says why it ended.
async fn accept_until_it_ends(facade: Facade, socket: TcpListener) -> String {
    let accepting = AssertUnwindSafe(accept(facade, socket)).catch_unwind();
    match accepting.await {
        Ok(Err(e)) => e.to_string(),
        Ok(Ok(never)) => match never {},
        Err(_) => "its accept loop panicked".to_owned(),
    }
}

/// Binds all of these addresses, or none.
///
/// # Errors
/// The first one that could not be bound, and why.
pub fn bind_all(addresses: &[SocketAddr]) -> Result<Vec<TcpListener>, (SocketAddr, io::Error)> {
    let bind = |a: &SocketAddr| listen::bind_one(*a).map_err(|e| (*a, e));
    addresses.iter().map(bind).collect()
}
