//! Names to addresses, once a registration.
//!
//! Owns: asking, within a time limit. Leaves to others: which addresses may be dialled
//! (`endpoint`). A trait, so that a test can play a name server that changes its mind.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::BoxFuture;

/// How long a look-up may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// Finds the addresses of a host.
pub trait Resolve: Send + Sync {
    /// All of them, in the order of preference.
    fn lookup<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The system's own way.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn lookup<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            // The port is not part of the question; the function wants one.
            let asked = tokio::time::timeout(PATIENCE, tokio::net::lookup_host((host, 0)));
            let found = asked.await.map_err(|_| {
                io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("no answer within {} s", PATIENCE.as_secs()),
                )
            })??;
            Ok(found.map(|a| a.ip()).collect())
        })
    }
}
