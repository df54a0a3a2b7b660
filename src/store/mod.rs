//! Layer 2: what outlives the process.

pub mod atomic;
pub mod journal;
pub mod nodes;
pub mod ports;
