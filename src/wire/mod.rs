//! Layer 1: shapes on the wire. serde types only; nothing here decides or does anything.

pub mod broker;
pub mod client_keys;
pub mod control;
pub mod journal;
pub mod jsonrpc;
pub mod pool;
pub mod replay;
pub mod usage_event;
