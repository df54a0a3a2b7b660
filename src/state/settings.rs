//! What a request is held to: limits and door rules, fixed for the life of the process.
//!
//! Owns: the values. Leaves to others: where they come from (`config`), applying them (`facade`).

use crate::rules::budget::{Cap, MAX_REQUEST_BYTES, RESPONSE_TIMEOUT};

/// Limits and door rules.
#[derive(Clone, Debug)]
pub struct RequestSettings {
    /// Bytes of a request body kept for replay.
    pub max_request_bytes: u64,
    /// Wait for response headers, and again for first content.
    pub response_cap: Cap,
    /// Silence allowed after commit.
    pub stream_idle_cap: Cap,
    /// Commit at the first byte, whatever it is, instead of holding event-stream framing.
    pub commit_on_first_byte: bool,
    /// Names that may stand in `Host`, beside the built-in ones; lower case.
    pub allowed_hosts: Vec<String>,
    /// Browser origins let in; `None` = the engines' own policy decides.
    pub allowed_origins: Option<Vec<String>>,
    /// Add `X-Nvpair-*` headers to relayed answers.
    pub response_headers: bool,
}

impl Default for RequestSettings {
    fn default() -> Self {
        Self {
            max_request_bytes: MAX_REQUEST_BYTES,
            response_cap: Cap::After(RESPONSE_TIMEOUT),
            stream_idle_cap: Cap::Off,
            commit_on_first_byte: false,
            allowed_hosts: Vec::new(),
            allowed_origins: None,
            response_headers: false,
        }
    }
}
