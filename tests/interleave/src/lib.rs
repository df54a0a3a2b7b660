//! The very files of the library in which threads meet, with loom's locks and counters instead of
//! the standard ones.

#[path = "../../../src/rules/mod.rs"]
pub mod rules;
#[path = "../../../src/state/mod.rs"]
pub mod state;
#[path = "../../../src/wire/mod.rs"]
pub mod wire;

/// In the place of `src/sync.rs`.
pub mod sync {
    pub use loom::sync::atomic::{AtomicU8, Ordering};
    pub use loom::sync::{Mutex, MutexGuard};
}
