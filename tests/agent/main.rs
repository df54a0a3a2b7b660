//! The agent, the real binary, against the real registry: joining, beating, draining, leaving
//! (product section 7).

#![expect(
    clippy::unwrap_used,
    reason = "a helper of tests fails the test that calls it"
)]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "each suite uses a part of the support")]
mod support;

mod connection;
mod course;
mod doors;
mod engines;
mod gateway;
mod relay;
