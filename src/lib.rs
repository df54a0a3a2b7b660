//! nvpair-proxy as a library.

pub mod config;
pub mod demo;
pub mod rules;
pub mod state;
pub mod wire;
