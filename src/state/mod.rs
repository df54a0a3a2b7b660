//! Layer 3: what the daemon knows while it runs. The only locks; narrow handles over the rules'
//! structs.

pub mod command;
pub mod events;
pub mod query;
