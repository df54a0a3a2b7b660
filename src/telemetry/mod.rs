//! Layer 2: what we say about ourselves.

pub mod logging;
