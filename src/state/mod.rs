//! Layer 3: what the daemon knows while it runs. The only locks; narrow handles over the rules'
//! structs.

pub mod activity;
pub mod chain;
pub mod clients;
pub mod command;
pub mod confirm;
pub mod discovery;
pub mod events;
pub mod explain;
pub mod facade;
pub mod fate;
pub mod fleet;
pub mod follow;
pub mod lifetime;
pub mod named;
pub mod pool;
pub mod providers;
pub mod query;
pub mod replays;
pub mod scheduler;
pub mod settings;
pub mod shared;
pub mod told;
pub mod workloads;
