//! nvpair-proxy as a library.

pub mod broker;
pub mod config;
pub mod control;
pub mod daemon;
pub mod demo;
pub mod director;
pub mod facade;
pub mod net;
pub mod rules;
pub mod state;
pub mod store;
pub mod telemetry;
pub mod wire;
