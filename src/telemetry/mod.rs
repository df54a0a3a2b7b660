//! Layer 2: what we say about ourselves.

mod journal;
pub mod logging;
pub mod manager;
