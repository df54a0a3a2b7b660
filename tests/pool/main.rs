//! The node pool's stores: one suite over memory and a real Redis, and what happens when Redis is
//! down, slow, restarted, emptied or demoted.
//!
//! Redis is the distribution's `redis-server`, started by each test on a free port. Where there is
//! none its half says that it did not run; with `NVPAIR_REQUIRE_REDIS` set it fails.

// Most of the suite is in functions that tests call, which the lint's exception for tests does not know.
#![allow(clippy::unwrap_used)]

/// Each test twice: over memory and over Redis.
macro_rules! both {
    ($($name:ident)*) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(&super::World::memory()).await;
            })*
        }
        mod redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if let Some(world) = super::World::redis() {
                    super::$name(&world).await;
                }
            })*
        }
    };
}

mod breakers;
mod faults;
mod listings;
mod random;
#[path = "../support/redis.rs"]
mod redis;
mod rings;
mod suite;
mod world;
