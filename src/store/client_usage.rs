//! What client keys have used, so that a restart begins no new day.
//!
//! Owns: the file and its form. Leaves to others: what counts (`rules::client_key`), when it is saved
//! (`daemon::clients`). Apart from the keys themselves, which are not written again every minute.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{atomic, versioned};

/// Version of the file's shape.
const SCHEMA: u32 = 1;

/// Its name in the state folder.
const NAME: &str = "client-usage.json";

/// What one key has used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyUsage {
    /// The key's name.
    pub name: String,
    /// When the key was made, Unix ms: a later key of this name begins anew.
    pub created_at: u64,
    /// Its last request, Unix ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<u64>,
    /// Days since 1970, UTC.
    pub day: u64,
    /// Tokens used on that day.
    pub tokens: u64,
}

#[derive(Serialize, Deserialize)]
struct Saved {
    schema_version: u32,
    keys: Vec<KeyUsage>,
}

/// The file of one state folder.
#[derive(Clone, Debug)]
pub struct UsageBook(PathBuf);

impl UsageBook {
    /// The file in this folder.
    pub fn in_folder(dir: &Path) -> Self {
        Self(dir.join(NAME))
    }

    /// What it says; nothing where it is not there. Blocks.
    ///
    /// # Errors
    /// A sentence: it cannot be read, or is not what was written.
    pub fn load(&self) -> Result<Vec<KeyUsage>, String> {
        let bad = |why: String| format!("{}: {why}", self.0.display());
        let content = match fs::read(&self.0) {
            Ok(content) => content,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(bad(e.to_string())),
        };
        let saved: Saved =
            versioned::parse(&content, SCHEMA).map_err(|why| bad(why.to_string()))?;
        Ok(saved.keys)
    }

    /// Replaces it. Blocks.
    ///
    /// # Errors
    /// A sentence: it cannot be written; what it said stands.
    pub fn save(&self, keys: Vec<KeyUsage>) -> Result<(), String> {
        let saved = Saved {
            schema_version: SCHEMA,
            keys,
        };
        let written = serde_json::to_vec_pretty(&saved)
            .map_err(io::Error::from)
            .and_then(|content| atomic::write(&self.0, &content, 0o600));
        written.map_err(|e| format!("{}: {e}", self.0.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_outlives_the_process_and_damage_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let book = UsageBook::in_folder(dir.path());
        assert_eq!(book.load(), Ok(vec![]));
        let used = vec![KeyUsage {
            name: "phone".into(),
            created_at: 7,
            last_used_at: Some(9),
            day: 20_000,
            tokens: 11,
        }];
        book.save(used.clone()).unwrap();
        assert_eq!(book.load(), Ok(used));
        for (content, want) in [
            ("{", "damaged at line 1"),
            (r#"{"schema_version":2,"keys":[]}"#, "its version is 2"),
        ] {
            fs::write(dir.path().join(NAME), content).unwrap();
            let told = book.load().unwrap_err();
            assert!(told.contains(want), "{told}");
        }
        let nowhere = UsageBook::in_folder(&dir.path().join(NAME));
        assert!(nowhere.save(vec![]).is_err());
    }
}
