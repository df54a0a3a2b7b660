//! JSON files that tell the version of their shape.
//!
//! Owns: telling a file of another version from a damaged one, and both without a word of what is in
//! it. Leaves to others: the files, what happens to one that cannot be read.

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Why the content of a file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// Another version of the program wrote it: it is whole, and not ours to replace.
    #[error("its version is {found}, this daemon knows {known}")]
    Version {
        /// The file's.
        found: u64,
        /// The only one that is read.
        known: u32,
    },
    /// It is not what any version wrote.
    #[error("damaged at line {line}, column {column}")]
    Damaged {
        /// From 1; 0 where there is no line.
        line: usize,
        /// From 1; 0 at the start of a line.
        column: usize,
    },
}

/// Only the version: what else is there changes with it. Older files call it `v`.
#[derive(Deserialize)]
struct Version {
    #[serde(alias = "v")]
    schema_version: u64,
}

/// Reads a file's content, which has to be of this version.
///
/// # Errors
/// It is of another version, or damaged.
pub(super) fn parse<T: DeserializeOwned>(content: &[u8], known: u32) -> Result<T, Unread> {
    if let Ok(Version { schema_version }) = serde_json::from_slice(content)
        && schema_version != u64::from(known)
    {
        return Err(Unread::Version {
            found: schema_version,
            known,
        });
    }
    serde_json::from_slice(content).map_err(|e| Unread::Damaged {
        line: e.line(),
        column: e.column(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct List {
        things: Vec<u8>,
    }

    #[test]
    fn another_version_is_told_from_damage_whatever_its_shape() {
        let read = |content: &str| parse::<List>(content.as_bytes(), 1);
        let list = List { things: vec![7] };
        assert_eq!(read(r#"{"schema_version":1,"things":[7]}"#), Ok(list));
        for (content, found) in [
            (r#"{"schema_version":2,"canary":[7]}"#, 2),
            (r#"{"things":[7],"v":0}"#, 0),
        ] {
            let known = 1;
            assert_eq!(read(content), Err(Unread::Version { found, known }));
        }
        for content in [
            "",
            "canary",
            "[]",
            "{}",
            r#"{"schema_version":1,"things":["canary"]}"#,
            r#"{"schema_version":"canary","things":7}"#,
        ] {
            let told = read(content).unwrap_err();
            assert!(matches!(told, Unread::Damaged { .. }), "{content}");
            assert!(!told.to_string().contains("canary"), "{told}");
        }
    }
}
