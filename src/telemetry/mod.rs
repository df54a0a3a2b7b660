//! Layer 2: what we say about ourselves: the log, the service manager, spans and measurements.
//!
//! Nothing here sends: `export` does, from what is collected here.

pub mod families;
pub mod hub;
mod journal;
pub mod logging;
pub mod manager;
pub mod metrics;
pub mod request;
pub mod spans;
