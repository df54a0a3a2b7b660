//! The node pool's decisions (product section 7): pure, like all rules.
//!
//! Owns: what a pool node is, when it may be used, who is to blame for a lost request, which
//! endpoints may be dialled, what a node key is. Leaves to others: keeping the records (`store`),
//! who is asked next (`policy`), the registry's calls and their wire shapes.

pub mod blame;
pub mod breaker;
pub mod ema;
pub mod endpoint;
pub mod key;
pub mod limits;
pub mod outage;
pub mod publish;
pub mod record;
pub mod redis_address;
pub mod sizes;
pub mod standing;
