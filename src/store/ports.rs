//! The port a user chose for each facade (spec §8), in the original's place and shape.
//!
//! Owns: the files. Leaves to others: which port wins (`rules::port`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::rules::engine::EngineId;

use super::atomic;

/// Exactly `{"port":n}`: the broker reads these files too.
#[derive(Serialize, Deserialize)]
struct Saved {
    port: u16,
}

/// Where ports are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ports {
    /// In files of this folder.
    Folder(PathBuf),
    /// In files, but no folder is known: nothing is restored, and saving fails.
    NoFolder,
    /// Nowhere, on purpose: nothing is restored, and saving is done when it is asked for. A port
    /// that was chosen lasts as long as its facade listens.
    Unsaved,
}

impl Ports {
    /// Files in this folder, if one is known.
    pub fn in_folder(dir: Option<PathBuf>) -> Self {
        dir.map_or(Self::NoFolder, Self::Folder)
    }

    /// The saved port. Anything but a valid file counts as none, silently: a broken file must not
    /// keep a facade from starting.
    pub fn load(&self, engine: EngineId) -> Option<u16> {
        let Self::Folder(dir) = self else {
            return None;
        };
        let text = fs::read_to_string(file(dir, engine)).ok()?;
        let saved: Saved = serde_json::from_str(&text).ok()?;
        (saved.port > 0).then_some(saved.port)
    }

    /// Saves a port.
    ///
    /// # Errors
    /// No folder is known, or it cannot be written.
    pub fn save(&self, engine: EngineId, port: u16) -> io::Result<()> {
        match self {
            Self::Folder(dir) => {
                let content = serde_json::to_vec(&Saved { port })?;
                atomic::write(&file(dir, engine), &content, 0o644)
            },
            Self::NoFolder => Err(io::Error::other(
                "no configuration folder is known here (HOME is not set)",
            )),
            Self::Unsaved => Ok(()),
        }
    }
}

fn file(dir: &Path, engine: EngineId) -> PathBuf {
    dir.join(engine.spec().port_file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_have_files_of_their_own_and_bad_files_count_as_none() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("deep").join("er");
        let ports = Ports::in_folder(Some(folder.clone()));
        let ollama = EngineId::parse("ollama").unwrap();
        let lmstudio = EngineId::parse("lmstudio").unwrap();
        ports.save(ollama, 11500).unwrap();
        assert_eq!(
            (ports.load(ollama), ports.load(lmstudio)),
            (Some(11500), None)
        );
        let path = file(&folder, ollama);
        assert_eq!(fs::read_to_string(&path).unwrap(), r#"{"port":11500}"#);
        for bad in [
            r#"{"port":0}"#,
            r#"{"port":70000}"#,
            r#"{"port":"1"}"#,
            "",
            "garbage",
            "{}",
        ] {
            fs::write(&path, bad).unwrap();
            assert_eq!(ports.load(ollama), None, "{bad:?}");
        }
    }

    #[test]
    fn without_a_folder_saving_says_why() {
        let ports = Ports::in_folder(None);
        let engine = EngineId::parse("ollama").unwrap();
        assert_eq!(ports.load(engine), None);
        assert!(
            ports
                .save(engine, 1)
                .unwrap_err()
                .to_string()
                .contains("HOME")
        );
    }

    #[test]
    fn ports_that_nobody_wants_saved_are_no_error_and_not_restored() {
        let engine = EngineId::parse("ollama").unwrap();
        Ports::Unsaved.save(engine, 11500).unwrap();
        assert_eq!(Ports::Unsaved.load(engine), None);
    }
}
