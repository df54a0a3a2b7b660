//! Layer 0: the decisions. Pure: no clock, random, lock, socket, file or async.

pub mod address;
pub mod engine;
pub mod ids;
pub mod units;
