//! Node keys: what a worker shows to speak for its node.
//!
//! Owns: their prefixes, what a key admits. Leaves to others: the form that all keys share
//! (`key_form`), making the random bytes, keeping the hashes (`store::pool`), finding the addresses
//! that an endpoint's name has.

use serde::{Deserialize, Serialize};

use super::endpoint::Allow;
use super::sizes::{self, Invalid};
use crate::rules::ids::NodeId;
use crate::rules::key_form;
pub use crate::rules::key_form::{KeyHash, RANDOM_BYTES, name, pattern_matches};
use crate::rules::secret::Secret;

/// In front of every key that is made.
pub const PREFIX: &str = "ktms_node_";
/// In front of keys of old, taken as well.
pub const LEGACY_PREFIX: &str = "llm_node_";

/// A key that works no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// What it was.
    pub key: KeyRecord,
    /// Its node had registered with it, and was put out in the same step.
    pub evicted: bool,
}

/// What is kept of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRecord {
    /// Its name, for people.
    pub name: String,
    /// The one node it speaks for.
    pub node: NodeId,
    /// Its hash. The key itself is nowhere.
    pub hash: KeyHash,
    /// Where the node may serve: networks and host names; empty = the address that it registers
    /// from.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Patterns of the models it may advertise; empty = all.
    #[serde(default)]
    pub models: Vec<String>,
    /// Unix ms.
    pub created_at: u64,
}

/// A new key of these random bytes: prefix and 64 hex digits.
pub fn make(random: [u8; RANDOM_BYTES]) -> Secret {
    key_form::make(PREFIX, random)
}

/// The secret part of a presented key; `None` if it is no node key at all.
pub fn secret_part(presented: &str) -> Option<&str> {
    key_form::secret_part(presented, [PREFIX, LEGACY_PREFIX])
}

impl KeyHash {
    /// The hash of a presented node key; `None` if it is no node key at all.
    pub fn of(presented: &str) -> Option<Self> {
        Some(Self::of_secret(secret_part(presented)?))
    }
}

/// The record of a presented key. All hashes are compared, whichever matches.
pub fn find<'a>(
    keys: impl IntoIterator<Item = &'a KeyRecord>,
    presented: &str,
) -> Option<&'a KeyRecord> {
    let hash = KeyHash::of(presented)?;
    let mut found = None;
    for key in keys {
        if key.hash.matches(&hash) {
            found = Some(key);
        }
    }
    found
}

impl KeyRecord {
    /// Whether the node may advertise a model.
    pub fn admits_model(&self, model: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|p| pattern_matches(p, model))
    }

    /// Its allow list. Entries that cannot be read, from a file that was edited by hand, allow
    /// nothing.
    pub fn allow(&self) -> Vec<Allow> {
        self.allow
            .iter()
            .filter_map(|a| Allow::parse(a).ok())
            .collect()
    }

    /// Checks name, node, allow list and patterns.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn check(&self) -> Result<(), Invalid> {
        name(&self.name)?;
        sizes::node_id(self.node.as_str())?;
        key_form::entries("allow", &self.allow)?;
        key_form::entries("models", &self.models)?;
        for (i, entry) in self.allow.iter().enumerate() {
            Allow::parse(entry).map_err(|why| Invalid::new(format!("allow[{i}]"), why))?;
        }
        for (i, pattern) in self.models.iter().enumerate() {
            if !sizes::is_model_name(pattern) {
                let why = format!(
                    "has {} bytes or a control character; a pattern has 1..{} bytes, `*` stands for any text",
                    pattern.len(),
                    sizes::MAX_MODEL_NAME
                );
                return Err(Invalid::new(format!("models[{i}]"), why));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str, byte: u8) -> KeyRecord {
        KeyRecord {
            name: name.into(),
            node: "n".into(),
            hash: KeyHash::of(make([byte; 32]).reveal()).unwrap(),
            allow: vec![],
            models: vec![],
            created_at: 0,
        }
    }

    #[test]
    fn a_key_is_prefix_and_hex_and_its_hash_is_sha_256_of_the_hex() {
        let key = make([0xab; 32]);
        assert_eq!(key.reveal(), format!("ktms_node_{}", "ab".repeat(32)));
        assert_eq!(format!("{key:?}"), "***");
        let known = KeyHash::of("ktms_node_0123456789abcdef").unwrap();
        // sha256sum of 0123456789abcdef.
        let hex = "9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f";
        assert_eq!(serde_json::to_value(&known).unwrap(), hex);
        assert_eq!(format!("{known:?}"), "***");
    }

    #[test]
    fn only_node_keys_are_node_keys_and_the_old_prefix_is_one() {
        let old = "llm_node_0123456789abcdef";
        assert_eq!(KeyHash::of(old), KeyHash::of("ktms_node_0123456789abcdef"));
        for bad in [
            "",
            "ktms_node_",
            "ktms_node_short",
            "ktms_0123456789abcdef",
            "llm_0123456789abcdef",
            "Bearer ktms_node_0123456789abcdef",
            "ktms_node_0123456789abcde ",
            "KTMS_NODE_0123456789abcdef",
            "ktms_node_0123456789abcdé",
        ] {
            assert_eq!(KeyHash::of(bad), None, "{bad:?}");
        }
        assert_eq!(KeyHash::of(&format!("{PREFIX}{}", "a".repeat(257))), None);
    }

    #[test]
    fn a_key_is_found_by_its_hash_alone() {
        let keys = [record("a", 1), record("b", 2), record("c", 3)];
        let found = find(&keys, make([2; 32]).reveal()).unwrap();
        assert_eq!(found.name, "b");
        assert_eq!(find(&keys, make([4; 32]).reveal()), None);
        assert_eq!(find(&keys, "nonsense"), None);
        assert_eq!(find([], make([2; 32]).reveal()), None);
    }

    #[test]
    fn a_record_without_patterns_admits_all_models_and_one_with_some_only_those() {
        let mut r = record("a", 1);
        assert!(r.admits_model("anything"));
        r.models = vec!["qwen*".into(), "phi".into()];
        assert_eq!(
            ["qwen2", "phi", "llama"].map(|m| r.admits_model(m)),
            [true, true, false]
        );
    }

    #[test]
    fn a_record_that_is_wrong_says_where() {
        type Set = fn(&mut KeyRecord);
        for (set, want) in [
            (
                (|r| r.name = "a b".into()) as Set,
                "name: is not a name of 1..64",
            ),
            (|r| r.name = "".into(), "name: "),
            (|r| r.name = "-x".into(), "name: "),
            (|r| r.name = "x".repeat(65), "name: "),
            (|r| r.node = "".into(), "node_id: is empty"),
            (
                |r| r.allow = vec!["10.0.0.0/8".into(), "10.0.0.0/33".into()],
                "allow[1]: ",
            ),
            (
                |r| r.allow = vec!["10.0.0.1".into(); 65],
                "allow: has 65 entries; the limit is 64",
            ),
            (|r| r.models = vec!["".into()], "models[0]: "),
        ] {
            let mut r = record("a", 1);
            set(&mut r);
            let e = r.check().unwrap_err().to_string();
            assert!(e.starts_with(want), "{want}: {e}");
        }
        let mut r = record("a", 1);
        r.allow = vec!["10.0.0.0/8".into(), "gpu.lan".into()];
        r.check().unwrap();
    }
}
