//! The request path from end to end: the real binary driven by a parent, scripted engines behind it,
//! a client that sees every byte.

#![expect(
    clippy::unwrap_used,
    reason = "a helper of tests fails the test that calls it"
)]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "each suite uses a part of the support")]
mod support;

mod answers;
mod bodies;
mod cancel;
mod commit;
mod containment;
mod door;
mod failover;
mod framing;
mod headers;
mod inventory;
mod mtls;
mod overload;
mod preflight;
mod privacy;
mod reload;
mod routing;
mod torture;
mod workloads;
