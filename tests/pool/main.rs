//! The node pool: its door with workers that do right and one that does not, and its stores, one suite
//! over memory and a real Redis (product section 7).
//!
//! Redis is the distribution's `redis-server`, started by each test on a free port. Where there is
//! none its half says that it did not run; with `NVPAIR_REQUIRE_REDIS` set it fails.

mod admin;
mod admission;
mod faults;
mod fleet;
mod malicious;
mod random;
#[path = "../support/redis.rs"]
mod redis;
mod rig;
mod rings;
mod suite;
mod transport;
mod world;
