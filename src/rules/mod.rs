//! Layer 0: the decisions. Pure: no clock, random, lock, socket, file or async.

pub mod address;
pub mod addresses;
pub mod budget;
pub mod candidates;
pub mod cors;
pub mod discovery;
pub mod dispatch;
pub mod engine;
pub mod gate;
pub mod ids;
pub mod ingress;
pub mod log_level;
pub mod model_scan;
pub mod models;
pub mod nearest;
pub mod outcome;
pub mod policy;
pub mod pool;
pub mod port;
pub mod rate;
pub mod reservations;
pub mod route;
pub mod secret;
pub mod units;
pub mod usage;
pub mod workload;
