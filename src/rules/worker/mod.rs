//! What a pool node's agent decides (product section 7): pure, like all rules.
//!
//! Owns: when it calls the registry and when it may leave, what it advertises, how the figures of
//! engines and GPUs are read. Leaves to others: asking and calling (`agent`), what the gateway makes
//! of it (`rules::pool`).

pub mod advertise;
pub mod backoff;
pub mod course;
pub mod figures;
pub mod gpu;
