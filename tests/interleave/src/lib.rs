//! The very files of the library in which threads meet, with loom's locks and counters instead of
//! the standard ones.

#[path = "../../../src/rules/mod.rs"]
pub mod rules;
#[path = "../../../src/wire/mod.rs"]
pub mod wire;

/// Of `src/state` what a request meets others at; the rest needs more of the library.
#[path = "."]
pub mod state {
    #[path = "../../../src/state/confirm.rs"]
    pub mod confirm;
    #[path = "../../../src/state/events.rs"]
    pub mod events;
    #[path = "../../../src/state/facade.rs"]
    pub mod facade;
    #[path = "../../../src/state/fate.rs"]
    pub mod fate;
    #[path = "../../../src/state/follow.rs"]
    pub mod follow;
    #[path = "../../../src/state/scheduler.rs"]
    pub mod scheduler;
    #[path = "../../../src/state/providers/standing.rs"]
    pub mod standing;
    #[path = "../../../src/state/told.rs"]
    pub mod told;
    #[path = "../../../src/state/workloads.rs"]
    pub mod workloads;
}

/// In the place of `src/sync.rs`.
pub mod sync {
    pub use loom::sync::atomic::{AtomicBool, AtomicU8, Ordering};
    pub use loom::sync::{Mutex, MutexGuard, RwLock};
}
