//! The form that every key of ours has: random bytes behind a prefix, kept as a hash.
//!
//! Owns: prefix and secret part, the hash and its comparison, names of keys, patterns of models.
//! Leaves to others: what a key admits (`pool::key` for workers, `client_key` for callers), making
//! the random bytes, keeping the hashes (`store`).
//!
//! A key is 32 random bytes, so one round of SHA-256 is enough: there is nothing to guess that a
//! slow hash would protect.

use std::fmt;

use ring::digest;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use super::pool::sizes::{Invalid, is_plain};
use super::secret::Secret;

/// Bytes of a key's name.
pub const MAX_NAME: usize = 64;
/// Entries of a list of what a key allows.
const MAX_ENTRIES: usize = 64;
/// Random bytes of a key.
pub const RANDOM_BYTES: usize = 32;

/// SHA-256 of a key's secret part, in lower-case hex.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyHash(String);

impl KeyHash {
    /// The hash of a secret part. Every prefix of a kind gives the same one, so that a key works
    /// with each.
    pub fn of_secret(secret: &str) -> Self {
        let hash = digest::digest(&digest::SHA256, secret.as_bytes());
        Self(hex(hash.as_ref()))
    }

    /// Whether two hashes are the same, in a time that does not tell how much of them is.
    pub fn matches(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }

    /// Whether it has a hash's length and digits: one that has not, from a file that was edited by
    /// hand, is nobody's.
    pub fn is_whole(&self) -> bool {
        self.0.len() == 2 * digest::SHA256_OUTPUT_LEN
            && self
                .0
                .bytes()
                .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    }
}

/// Not even the hash is shown: it says which key it is.
impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A new key of these random bytes: prefix and 64 hex digits.
pub fn make(prefix: &str, random: [u8; RANDOM_BYTES]) -> Secret {
    Secret::new(format!("{prefix}{}", hex(&random)))
}

/// The secret part of a presented key behind one of a kind's prefixes; `None` if it is no such key.
pub fn secret_part<'a>(presented: &'a str, prefixes: [&str; 2]) -> Option<&'a str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let mut behind = prefixes.iter().filter_map(|p| presented.strip_prefix(p));
    let secret = behind.next()?;
    ((16..=256).contains(&secret.len()) && secret.bytes().all(plain)).then_some(secret)
}

/// Checks how many entries a list of what a key allows has.
///
/// # Errors
/// The limit.
pub fn entries(field: &str, list: &[String]) -> Result<(), Invalid> {
    if list.len() <= MAX_ENTRIES {
        return Ok(());
    }
    let why = format!("has {} entries; the limit is {MAX_ENTRIES}", list.len());
    Err(Invalid::new(field, why))
}

/// Checks a key's name: letters, digits, `.`, `_` and `-`, beginning with a letter or digit.
///
/// # Errors
/// What a name looks like.
pub fn name(name: &str) -> Result<(), Invalid> {
    if is_plain(name) && name.len() <= MAX_NAME {
        return Ok(());
    }
    let why = format!(
        "is not a name of 1..{MAX_NAME} letters, digits, '.', '_' and '-' that begins with a letter or digit"
    );
    Err(Invalid::new("name", why))
}

/// Whether a model's name matches a pattern, where `*` stands for any text, also none. Case counts.
pub fn pattern_matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    // The earliest place of each part leaves most for the next.
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_are_texts_with_stars() {
        for (pattern, name, want) in [
            ("qwen2.5:14b", "qwen2.5:14b", true),
            ("qwen2.5:14b", "qwen2.5:14b-x", false),
            ("qwen*", "qwen2.5:14b", true),
            ("*", "", true),
            ("*:14b", "qwen2.5:14b", true),
            ("q*:*b", "qwen2.5:14b", true),
            ("q*5*b", "qwen2.5:14b", true),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*b", "ab", false),
            ("**x**", "axb", true),
            ("Qwen*", "qwen", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(pattern_matches(pattern, name), want, "{pattern} {name}");
        }
    }

    #[test]
    fn only_a_whole_hash_is_one() {
        let hash = KeyHash::of_secret("0123456789abcdef");
        assert!(hash.is_whole());
        for bad in [
            "",
            "x",
            &hash.0[1..],
            &hash.0.to_uppercase(),
            &format!("{}0", hash.0),
        ] {
            assert!(!KeyHash(bad.to_owned()).is_whole(), "{bad}");
        }
    }

    proptest! {
        /// Against a plain recursive matcher.
        #[test]
        fn patterns_match_as_their_definition_says(pattern in "[ab*]{0,6}", name in "[ab]{0,6}") {
            fn slow(p: &[u8], n: &[u8]) -> bool {
                match p.split_first() {
                    None => n.is_empty(),
                    Some((b'*', rest)) => (0..=n.len()).any(|i| slow(rest, &n[i..])),
                    Some((c, rest)) => n.first() == Some(c) && slow(rest, &n[1..]),
                }
            }
            prop_assert_eq!(pattern_matches(&pattern, &name), slow(pattern.as_bytes(), name.as_bytes()));
        }
    }
}
