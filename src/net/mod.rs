//! Layer 2: bytes in and out.

pub mod fetch;
