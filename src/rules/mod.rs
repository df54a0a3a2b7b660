//! Layer 0: the decisions. Pure: no clock, random, lock, socket, file or async.

pub mod address;
pub mod cors;
pub mod engine;
pub mod gate;
pub mod ids;
pub mod model_scan;
pub mod models;
pub mod usage;
