//! A value that must never be shown.
//!
//! Owns: keeping credentials out of debug output. Leaves to others: where one is sent
//! (`candidates`, `net`).

use std::fmt;

/// A key or password. Its `Debug` is masked and it has no `Display`, so that a log line or an
/// error text cannot contain it by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a value into custody.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself, for the one request it belongs to.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_never_shows_a_secret() {
        let shown = format!("{:?}", Some(Secret::new("canary")));
        assert_eq!(shown, "Some(***)");
    }
}
