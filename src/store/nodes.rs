//! The nodes that somebody added while the daemon ran, so that they survive a restart.
//!
//! Owns: the file and its form. Leaves to others: what the values mean (`state::named`).
//!
//! A file that cannot be read is never written over: it may be a newer version's, or hold what
//! somebody mistyped in it by hand.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::rules::engine::EngineId;

use super::{atomic, versioned};

/// Version of the file. Raised when a field changes its meaning or goes.
const VERSION: u32 = 1;

/// Its name in the state folder.
const NAME: &str = "nodes.json";

/// One node as it is written down.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedNode {
    /// What runs there.
    pub engine: EngineId,
    /// Where.
    pub url: String,
    /// Id instead of the host's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its models; `None` = ask it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<String>>,
    /// Sent to this node only. The file is its owner's alone (0600).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
    /// Parallel requests; `None` = ask it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
    /// Relative weight; `None` = 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
}

impl fmt::Debug for SavedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the key, which must not get into a log by way of a debug line.
        write!(f, "{}={}", self.engine, self.url)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    v: u32,
    nodes: Vec<SavedNode>,
}

/// The file of one state folder.
#[derive(Clone, Debug)]
pub struct NodeFile(PathBuf);

impl NodeFile {
    /// The file in this folder.
    pub fn in_folder(dir: &Path) -> Self {
        Self(dir.join(NAME))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The nodes in it; none where there is no file.
    ///
    /// # Errors
    /// A sentence: it is there and cannot be read, or is not ours to read. It quotes nothing of the
    /// file, which may hold keys.
    pub fn load(&self) -> Result<Vec<SavedNode>, String> {
        let bad = |why: String| format!("{}: {why}", self.0.display());
        let content = match fs::read(&self.0) {
            Ok(content) => content,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(bad(e.to_string())),
        };
        let file: File = versioned::parse(&content, VERSION).map_err(|why| bad(why.to_string()))?;
        Ok(file.nodes)
    }

    /// Replaces what is in it.
    ///
    /// # Errors
    /// It cannot be written; then the old one stands.
    pub fn save(&self, nodes: &[SavedNode]) -> io::Result<()> {
        let file = File {
            v: VERSION,
            nodes: nodes.to_vec(),
        };
        let mut content = serde_json::to_vec_pretty(&file)?;
        content.push(b'\n');
        atomic::write(&self.0, &content, 0o600)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> SavedNode {
        SavedNode {
            engine: EngineId::parse("ollama").unwrap(),
            url: "http://tower.lan:11434".into(),
            name: Some("tower".into()),
            models: None,
            api_key: Some("canary".into()),
            slots: Some(2),
            weight: None,
        }
    }

    #[test]
    fn what_is_saved_is_loaded_and_is_the_owner_s_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = NodeFile::in_folder(&dir.path().join("state"));
        assert_eq!(file.load(), Ok(vec![]), "no file is no node");
        file.save(&[node()]).unwrap();
        assert_eq!(file.load(), Ok(vec![node()]));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(file.path()).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        assert!(!format!("{:?}", node()).contains("canary"));
    }

    #[test]
    fn a_file_that_is_not_ours_says_where_and_quotes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = NodeFile::in_folder(dir.path());
        for (text, want) in [
            (r#"{"v":2,"nodes":[],"more":"canary"}"#, "version is 2"),
            (r#"{"v":0,"nodes":[]}"#, "version is 0"),
            (r#"{"v":1,"nodes":[{"api_key":"canary"}]}"#, "line 1"),
            (r#"{"v":1,"nodes":[],"canary":1}"#, "line 1"),
            ("canary", "line 1"),
            ("", "line 1"),
        ] {
            fs::write(file.path(), text).unwrap();
            let told = file.load().unwrap_err();
            assert!(told.contains(want) && told.contains("nodes.json"), "{told}");
            assert!(!told.contains("canary"), "{told}");
        }
    }
}
