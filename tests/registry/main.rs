//! The node registry, the pool's door: workers that do right, and one that does not (product section 7).

#![expect(
    clippy::unwrap_used,
    reason = "a helper of tests fails the test that calls it"
)]

mod admin;
mod admission;
mod commands;
mod fleet;
mod malicious;
mod rig;
mod transport;
