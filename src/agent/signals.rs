//! The signals that end an agent.
//!
//! Owns: hearing them. Leaves to others: what the first and the second one mean (`super`).

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT.
pub(super) struct Signals {
    terminate: Option<Signal>,
    interrupt: Option<Signal>,
}

impl Signals {
    pub(super) fn listen() -> Self {
        let listen = |kind| {
            let told: io::Result<Signal> = signal(kind);
            told.inspect_err(|e| tracing::warn!(reason = %e, "cannot listen for a signal"))
                .ok()
        };
        Self {
            terminate: listen(SignalKind::terminate()),
            interrupt: listen(SignalKind::interrupt()),
        }
    }

    /// The name of the next one.
    pub(super) async fn next(&mut self) -> &'static str {
        async fn recv(signal: &mut Option<Signal>) {
            match signal {
                Some(signal) => drop(signal.recv().await),
                None => std::future::pending().await,
            }
        }
        tokio::select! {
            () = recv(&mut self.terminate) => "SIGTERM",
            () = recv(&mut self.interrupt) => "SIGINT",
        }
    }
}
