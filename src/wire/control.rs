//! Shapes of the local control socket: our own spelling (product: snake_case, `schema_version`,
//! times `*_at` in Unix ms, spans `*_ms`).
//!
//! Owns: what the socket answers, for the daemon and its clients, and the documents' version.
//! Leaves to others: methods (`control::api`), tables (`cmd`), the node pool (`wire::pool`).

mod answers;
mod status;
mod workloads;

pub use answers::*;
pub use status::*;
pub use workloads::*;

/// Version of every document here. Raised when a field changes its meaning or goes.
pub const SCHEMA_VERSION: u32 = 1;

/// A document that tells its version.
pub trait Document {
    /// The version it says it has.
    fn schema_version(&self) -> u32;
}

macro_rules! documents {
    ($($document:ty),*) => {
        $(impl $crate::wire::control::Document for $document {
            fn schema_version(&self) -> u32 {
                self.schema_version
            }
        })*
    };
}

pub(super) use documents;
