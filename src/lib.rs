//! nvpair-proxy as a library.

pub mod rules;
pub mod state;
pub mod wire;
