//! The agent, the real binary, against the real registry: joining, beating, draining, leaving
//! (product section 7).

mod course;
mod doors;
mod engines;
mod gateway;
#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "each suite uses a part of the support")]
mod support;
