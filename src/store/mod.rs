//! Layer 2: what outlives the process.

pub mod atomic;
mod batched;
pub mod certificate;
pub mod client_usage;
pub mod journal;
pub mod key_file;
pub mod nodes;
pub mod pool;
pub mod ports;
pub mod usage_file;
mod versioned;
