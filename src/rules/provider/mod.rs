//! Fallback providers: which is tried first, which rests and for how long, what an answer says about
//! it (product section 8).

pub mod circuit;
pub mod limits;
pub mod order;
pub mod penalty;
pub mod target;
pub mod verdict;
