//! nvpair-proxy as a library.

pub mod broker;
pub mod config;
pub mod rules;
pub mod state;
pub mod wire;
