//! nvpair-proxy as a library.

pub mod config;
pub mod control;
pub mod rules;
pub mod state;
pub mod wire;
