//! Shapes of the control socket's `keys/…` calls.
//!
//! Owns: what they answer. Leaves to others: methods (`control::keys`), what a key may use
//! (`rules::client_key`).

use serde::{Deserialize, Serialize};

use super::control::documents;

documents!(ClientKeyCreated, ClientKeyList, ClientKeyRevoked);

/// A client key as it is shown: without what is secret of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientKeyInfo {
    /// Its name.
    pub name: String,
    /// What it may use: `all`, `TARGET`, `TARGET/MODEL`, `*/MODEL`, `virtual/NAME`.
    pub allow: Vec<String>,
    /// Requests it may make in a minute; null = no limit.
    pub requests_per_minute: Option<u32>,
    /// Tokens it may use in a day of UTC; null = no limit.
    pub tokens_per_day: Option<u64>,
    /// Unix ms.
    pub created_at: u64,
    /// Its last request, Unix ms; null = none yet.
    pub last_used_at: Option<u64>,
    /// Tokens it has used today, where they are counted: the key has a limit of them.
    pub tokens_today: Option<u64>,
}

/// Answer of `keys/create`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientKeyCreated {
    /// Version of this document.
    pub schema_version: u32,
    /// The key without its secret.
    pub info: ClientKeyInfo,
    /// The key itself. Not shown again.
    pub key: String,
    /// Networks whose callers may use it; empty = this machine alone.
    pub allowed_cidrs: Vec<String>,
}

/// Without the key: a debug line must not be the second time that it is shown.
impl std::fmt::Debug for ClientKeyCreated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientKeyCreated")
            .field("info", &self.info)
            .field("key", &"***")
            .field("allowed_cidrs", &self.allowed_cidrs)
            .finish_non_exhaustive()
    }
}

/// Answer of `keys/list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientKeyList {
    /// Version of this document.
    pub schema_version: u32,
    /// By name.
    pub keys: Vec<ClientKeyInfo>,
    /// Networks whose callers may use them; empty = this machine alone.
    pub allowed_cidrs: Vec<String>,
}

/// Answer of `keys/revoke`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientKeyRevoked {
    /// Version of this document.
    pub schema_version: u32,
    /// What it was.
    pub info: ClientKeyInfo,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_created_key_is_not_in_its_debug_output() {
        let created = ClientKeyCreated {
            schema_version: 1,
            info: ClientKeyInfo {
                name: "a".into(),
                allow: vec!["all".into()],
                requests_per_minute: None,
                tokens_per_day: None,
                created_at: 0,
                last_used_at: None,
                tokens_today: None,
            },
            key: "ktms_canary".into(),
            allowed_cidrs: vec![],
        };
        assert!(!format!("{created:?}").contains("canary"));
    }
}
