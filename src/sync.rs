//! The locks and counters that requests and everybody else meet at.
//!
//! Owns: nothing but their names. `tests/interleave` compiles the files that use them with
//! instrumented ones in their place, and runs every order in which threads can meet.

pub use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
pub use std::sync::{Mutex, MutexGuard, RwLock};
