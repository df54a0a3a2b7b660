//! The limit on open descriptors: each client and each engine connection is one.
//!
//! Owns: raising it at start. Leaves to others: what happens at the limit (`facade::server` waits).

/// The soft limit in force, and whether it was raised to the hard one just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// How many may be open; `None` = no limit.
    pub limit: Option<u64>,
    /// What it was before.
    pub before: Option<u64>,
}

/// Raises the soft limit to the hard one: the usual 1,024 is some 500 streams.
#[cfg(unix)]
pub fn raise() -> Descriptors {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let old = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: old.maximum,
        maximum: old.maximum,
    };
    // Refused it stays as it was; serving goes on with fewer.
    let limit = match setrlimit(Resource::Nofile, wanted) {
        Ok(()) => old.maximum,
        Err(_) => old.current,
    };
    Descriptors {
        limit,
        before: old.current,
    }
}

/// There is no such limit to raise.
#[cfg(not(unix))]
pub fn raise() -> Descriptors {
    Descriptors {
        limit: None,
        before: None,
    }
}
