//! The node pool's stores: one suite over memory and a real Redis, and what happens when Redis is
//! down, slow, restarted, emptied or demoted.
//!
//! Redis is the distribution's `redis-server`, started by each test on a free port. Where there is
//! none its half says that it did not run; with `NVPAIR_REQUIRE_REDIS` set it fails.

mod faults;
mod random;
#[path = "../support/redis.rs"]
mod redis;
mod rings;
mod suite;
mod world;
