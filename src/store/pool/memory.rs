//! The pool in this process's memory: for one gateway, gone when it ends.
//!
//! Owns: one lock, never held across an await. Leaves to others: the transitions (`rules::pool`).

use std::sync::Arc;

use crate::rules::pool::limits::Limits;

/// Gives Unix ms and never goes back.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The pool in memory.
pub struct MemoryStore {
    _clock: Clock,
    _limits: Limits,
}
