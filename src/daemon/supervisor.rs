//! The listeners of the facades: opened, moved, watched, closed.
//!
//! Owns: accept tasks, and noticing one that died. Leaves to others: when (`commands`), serving
//! (`facade`).
//!
//! A facade with a bound socket and no accept loop must never stay published: enabling it again
//! would report it as healthy for ever.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::facade::{Facade, accept};
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
    }
}

fn watch(
    facade: Facade,
    socket: TcpListener,
    opening: u64,
    died: mpsc::UnboundedSender<Died>,
) -> AbortHandle {
    let engine = facade.state.engine();
    let task = tokio::spawn(async move {
        let ended = AssertUnwindSafe(accept(facade, socket))
            .catch_unwind()
            .await;
        let reason = match ended {
            Ok(Err(e)) => e.to_string(),
            Ok(Ok(never)) => match never {},
            Err(_) => "its accept loop panicked".to_owned(),
        };
        // Nobody reads it any more only while everything ends.
        drop(died.send(Died {
            engine,
            opening,
            reason,
        }));
    });
    task.abort_handle()
}

/// Binds all of these addresses, or none.
///
/// # Errors
/// The first one that could not be bound, and why.
pub fn bind_all(
    addresses: &[SocketAddr],
) -> Result<Vec<TcpListener>, (SocketAddr, std::io::Error)> {
    let bind = |a: &SocketAddr| crate::net::listen::bind_one(*a).map_err(|e| (*a, e));
    addresses.iter().map(bind).collect()
}
