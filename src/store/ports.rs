//! The port a user chose for each facade (spec §8), in the original's place and shape.
//!
//! Owns: the files. Leaves to others: which port wins (`rules::port`).

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::rules::engine::EngineId;

use super::atomic;

/// Exactly `{"port":n}`: the broker reads these files too.
#[derive(Serialize, Deserialize)]
struct Saved {
    port: u16,
}

/// The folder of the port files.
#[derive(Clone, Debug)]
pub struct Ports {
    dir: Option<PathBuf>,
}

impl Ports {
    /// Files in this folder; without one nothing is restored and saving fails.
    pub fn new(dir: Option<PathBuf>) -> Self {
        Self { dir }
    }

    /// The saved port. Anything but a valid file counts as none, silently: a broken file must not
    /// keep a facade from starting.
    pub fn load(&self, engine: EngineId) -> Option<u16> {
        let text = fs::read_to_string(self.path(engine)?).ok()?;
        let saved: Saved = serde_json::from_str(&text).ok()?;
        (saved.port > 0).then_some(saved.port)
    }

    /// Saves a port.
    ///
    /// # Errors
    /// There is no folder, or it cannot be written.
    pub fn save(&self, engine: EngineId, port: u16) -> io::Result<()> {
        let path = self.path(engine).ok_or_else(|| {
            io::Error::other("no configuration folder is known here (HOME is not set)")
        })?;
        let content = serde_json::to_vec(&Saved { port })?;
        atomic::write(&path, &content, 0o644)
    }

    fn path(&self, engine: EngineId) -> Option<PathBuf> {
        Some(self.dir.as_ref()?.join(engine.spec().port_file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_have_files_of_their_own_and_bad_files_count_as_none() {
        let dir = tempfile::tempdir().unwrap();
        let ports = Ports::new(Some(dir.path().join("deep").join("er")));
        let ollama = EngineId::parse("ollama").unwrap();
        let lmstudio = EngineId::parse("lmstudio").unwrap();
        ports.save(ollama, 11500).unwrap();
        assert_eq!(
            (ports.load(ollama), ports.load(lmstudio)),
            (Some(11500), None)
        );
        let path = ports.path(ollama).unwrap();
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
        let ports = Ports::new(None);
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
}
