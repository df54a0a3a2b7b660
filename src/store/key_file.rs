//! Keys in a file of the state folder: node keys of a gateway that shares its pool with nobody, and
//! client keys.
//!
//! Owns: the file, its mode, its shape. Leaves to others: what a key is (`rules::pool::key`,
//! `rules::client_key`).
//!
//! Only hashes are in it. Whoever can write it can add a key all the same, so nobody but its owner
//! may even read it, or it is not used.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::atomic;
use super::versioned::{self, Unread};
use crate::rules::client_key::ClientKey;
use crate::rules::pool::key::KeyRecord;
use crate::rules::pool::sizes::Invalid;

/// Version of the file's shape.
const SCHEMA: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Saved<K> {
    schema_version: u32,
    keys: Vec<K>,
}

/// What is kept of a key of one kind.
pub trait Kept: Clone + Serialize + DeserializeOwned {
    /// Its name: no two of a file have the same.
    fn name(&self) -> &str;

    /// Checks what a file says of it.
    ///
    /// # Errors
    /// The first field that is wrong.
    fn check(&self) -> Result<(), Invalid>;
}

impl Kept for KeyRecord {
    fn name(&self) -> &str {
        &self.name
    }

    fn check(&self) -> Result<(), Invalid> {
        Self::check(self)
    }
}

impl Kept for ClientKey {
    fn name(&self) -> &str {
        &self.name
    }

    fn check(&self) -> Result<(), Invalid> {
        Self::check(self)
    }
}

/// Why a file of keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// Others may read or write it.
    #[error(
        "{path} can be opened by others than its owner (mode {mode:03o}); run: chmod 600 {path}"
    )]
    Open {
        /// The file.
        path: String,
        /// Its mode.
        mode: u32,
    },
    /// Another version of the program wrote it.
    #[error("{path} is not for this daemon ({why}); start the version that wrote it")]
    Version {
        /// The file.
        path: String,
        /// Which version it has, and which one is known.
        why: Unread,
    },
    /// It is not what was written.
    #[error("{path} is damaged ({why}); restore it, or move it away and create the keys again")]
    Damaged {
        /// The file.
        path: String,
        /// Where.
        why: String,
    },
    /// It cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// Why not.
        source: io::Error,
    },
}

/// The keys, as they are in the file.
pub struct KeyFile<K> {
    /// `None`: nowhere.
    path: Option<PathBuf>,
    /// By name.
    keys: Vec<K>,
}

impl<K: Kept> KeyFile<K> {
    /// No keys, and none is saved.
    pub fn unsaved() -> Self {
        Self {
            path: None,
            keys: Vec::new(),
        }
    }

    /// The keys of a file; none where it is not there yet.
    ///
    /// # Errors
    /// It is there and cannot be used.
    pub fn open(path: &Path) -> Result<Self, KeyFileError> {
        let shown = path.display().to_string();
        let keys = match fs::read(path) {
            Ok(content) => {
                private(path)?;
                parse(&content, shown)?
            },
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(source) => {
                return Err(KeyFileError::Io {
                    path: shown,
                    source,
                });
            },
        };
        Ok(Self {
            path: Some(path.to_owned()),
            keys,
        })
    }

    /// The keys, by name.
    pub fn keys(&self) -> Vec<K> {
        self.keys.clone()
    }

    /// Adds a key; `false` if one of this name exists. Blocks.
    ///
    /// # Errors
    /// The file cannot be written; the key is then not added.
    pub fn add(&mut self, key: K) -> Result<bool, KeyFileError> {
        if self.keys.iter().any(|k| k.name() == key.name()) {
            return Ok(false);
        }
        let mut keys = self.keys.clone();
        keys.push(key);
        keys.sort_by(|a, b| a.name().cmp(b.name()));
        self.save(keys)?;
        Ok(true)
    }

    /// Removes a key and gives it back. Blocks.
    ///
    /// # Errors
    /// The file cannot be written; the key is then not removed.
    pub fn remove(&mut self, name: &str) -> Result<Option<K>, KeyFileError> {
        let mut keys = self.keys.clone();
        let Some(at) = keys.iter().position(|k| k.name() == name) else {
            return Ok(None);
        };
        let removed = keys.remove(at);
        self.save(keys)?;
        Ok(Some(removed))
    }

    fn save(&mut self, keys: Vec<K>) -> Result<(), KeyFileError> {
        let saved = Saved {
            schema_version: SCHEMA,
            keys,
        };
        if let Some(path) = &self.path {
            let io = |source| KeyFileError::Io {
                path: path.display().to_string(),
                source,
            };
            let content = serde_json::to_vec_pretty(&saved).map_err(|e| io(e.into()))?;
            atomic::write(path, &content, 0o600).map_err(io)?;
        }
        self.keys = saved.keys;
        Ok(())
    }
}

/// The error tells the place and never the content.
fn parse<K: Kept>(content: &[u8], path: String) -> Result<Vec<K>, KeyFileError> {
    let saved: Saved<K> = match versioned::parse(content, SCHEMA) {
        Ok(saved) => saved,
        Err(why @ Unread::Version { .. }) => return Err(KeyFileError::Version { path, why }),
        Err(Unread::Damaged { line, column }) => {
            let why = format!("line {line}, column {column}");
            return Err(KeyFileError::Damaged { path, why });
        },
    };
    let wrong = saved.keys.iter().find_map(|key| {
        let why = key.check().err()?;
        Some(format!("key {:?}: {why}", key.name()))
    });
    match wrong {
        Some(why) => Err(KeyFileError::Damaged { path, why }),
        None => Ok(saved.keys),
    }
}

#[cfg(unix)]
fn private(path: &Path) -> Result<(), KeyFileError> {
    use std::os::unix::fs::PermissionsExt;
    let shown = path.display().to_string();
    let metadata = fs::metadata(path).map_err(|source| KeyFileError::Io {
        path: shown.clone(),
        source,
    })?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    Err(KeyFileError::Open { path: shown, mode })
}

/// Elsewhere the folder's own rights are what protects it.
#[cfg(not(unix))]
fn private(_path: &Path) -> Result<(), KeyFileError> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::pool::key::{KeyHash, make};

    type Keys = KeyFile<KeyRecord>;

    fn key(name: &str) -> KeyRecord {
        KeyRecord {
            name: name.into(),
            node: "n".into(),
            hash: KeyHash::of(make([7; 32]).reveal()).unwrap(),
            allow: vec!["10.0.0.0/8".into()],
            models: vec![],
            created_at: 1,
        }
    }

    #[test]
    fn keys_outlive_the_process_and_the_file_holds_no_key() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state").join("node-keys.json");
        let mut file = Keys::open(&path).unwrap();
        assert!(file.add(key("b")).unwrap() && file.add(key("a")).unwrap());
        assert!(!file.add(key("a")).unwrap(), "a name is taken once");
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains(make([7; 32]).reveal().trim_start_matches("ktms_node_")));
        let mut again = Keys::open(&path).unwrap();
        assert_eq!(again.keys(), [key("a"), key("b")]);
        assert_eq!(again.remove("a").unwrap(), Some(key("a")));
        assert_eq!(again.remove("a").unwrap(), None);
        assert_eq!(Keys::open(&path).unwrap().keys(), [key("b")]);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_may_open_is_refused_and_ours_is_private() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k");
        Keys::open(&path).unwrap().add(key("a")).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for mode in [0o640, 0o604, 0o622] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let e = Keys::open(&path).err().unwrap().to_string();
            assert!(e.contains("chmod 600"), "{e}");
        }
    }

    #[test]
    fn a_damaged_file_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k");
        for content in [
            "",
            "canary",
            "[]",
            r#"{"schema_version":2,"canary":[]}"#,
            r#"{"schema_version":1,"keys":[{"name":"a b","node":"n","hash":"x","created_at":1}]}"#,
        ] {
            atomic::write(&path, content.as_bytes(), 0o600).unwrap();
            let e = Keys::open(&path).err().unwrap().to_string();
            // Keys that a newer version wrote are not to be made again.
            let want = match content.contains("2,") {
                true => "its version is 2, this daemon knows 1); start",
                false => "damaged",
            };
            assert!(e.contains(want) && !e.contains("canary"), "{e}");
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
    }

    #[test]
    fn a_client_key_is_kept_with_its_limits_and_one_without_grants_is_damage() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("client-keys.json");
        let key = ClientKey {
            name: "phone".into(),
            hash: KeyHash::of_secret("0123456789abcdef"),
            allow: vec!["ollama/qwen*".into()],
            requests_per_minute: Some(20),
            tokens_per_day: None,
            created_at: 7,
        };
        let mut file = KeyFile::<ClientKey>::open(&path).unwrap();
        assert!(file.add(key.clone()).unwrap());
        assert_eq!(KeyFile::<ClientKey>::open(&path).unwrap().keys(), [key]);
        let text = fs::read_to_string(&path).unwrap();
        atomic::write(&path, text.replace("ollama/", "/").as_bytes(), 0o600).unwrap();
        let e = KeyFile::<ClientKey>::open(&path).err().unwrap().to_string();
        assert!(e.contains("damaged") && e.contains("allow[0]"), "{e}");
    }

    #[test]
    fn a_key_that_cannot_be_saved_is_not_added() {
        let dir = tempfile::tempdir().unwrap();
        let blocked = dir.path().join("file");
        fs::write(&blocked, "x").unwrap();
        let mut file = Keys {
            path: Some(blocked.join("k")),
            keys: vec![],
        };
        assert!(matches!(file.add(key("a")), Err(KeyFileError::Io { .. })));
        assert_eq!(file.keys(), []);
    }
}
