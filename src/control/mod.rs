//! Layer 6: the local JSON-RPC socket (product section 5).
//!
//! A call's way: `socket` admits the caller, `door` rewrites the name and checks the parameters,
//! `server` asks the daemon, and `client` is the other end of the same trait.

pub mod api;
pub mod client;
mod door;
pub mod keys;
pub mod pool;
mod server;
pub mod socket;

// Everything a platform does its own way is in this one module.
#[cfg(not(unix))]
#[path = "transport_none.rs"]
mod transport;
#[cfg(unix)]
#[path = "transport_unix.rs"]
mod transport;
