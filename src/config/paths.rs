//! Where files live (product: state and files; control-plane facts on port files).
//!
//! Owns: every default path. Leaves to others: creating, reading and writing (`store`, `control`).
//! The environment is an argument, so that each rule is a plain test.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use directories::{BaseDirs, ProjectDirs};

/// Folder name of our own files.
const NAME: &str = "nvpair-proxy";

/// Vendor and product folder of the port files, shared with the original so that both can take
/// turns on one machine.
const PORTS_FOLDER: [&str; 2] = ["Nvidia Corporation", "Personal AI Router"];

/// Replaces the whole product folder of the port files.
pub const DATA_DIR_VARIABLE: &str = "NVPAIR_PROXY_DATA_DIR";

/// Names another control socket.
pub const SOCKET_VARIABLE: &str = "NVPAIR_PROXY_SOCKET";

/// Looks up one environment variable; empty counts as absent.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The process's own environment.
pub fn process_env(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|v| !v.is_empty())
}

/// The control socket: `$XDG_RUNTIME_DIR/nvpair-proxy/control.sock`, under systemd
/// `$RUNTIME_DIRECTORY/control.sock`, else in the state folder. `None` where no folder is known.
pub fn control_socket(env: Env) -> Option<PathBuf> {
    if let Some(path) = env(SOCKET_VARIABLE) {
        return Some(path.into());
    }
    if let Some(dir) = first_of_list(env, "RUNTIME_DIRECTORY") {
        return Some(dir.join("control.sock"));
    }
    if let Some(dir) = absolute(env, "XDG_RUNTIME_DIR") {
        return Some(dir.join(NAME).join("control.sock"));
    }
    Some(state_dir(env)?.join("control.sock"))
}

/// The state folder: `$STATE_DIRECTORY` (systemd), else the user's state folder, else (macOS,
/// which has none) the data folder.
pub fn state_dir(env: Env) -> Option<PathBuf> {
    if let Some(dir) = first_of_list(env, "STATE_DIRECTORY") {
        return Some(dir);
    }
    if let Some(dir) = absolute(env, "XDG_STATE_HOME") {
        return Some(dir.join(NAME));
    }
    let dirs = ProjectDirs::from("", "", NAME)?;
    Some(
        dirs.state_dir()
            .unwrap_or_else(|| dirs.data_local_dir())
            .to_owned(),
    )
}

/// The configuration file: `$CONFIGURATION_DIRECTORY/config.toml` (systemd), else
/// `…/nvpair-proxy/config.toml`.
pub fn config_file(env: Env) -> Option<PathBuf> {
    if let Some(dir) = first_of_list(env, "CONFIGURATION_DIRECTORY") {
        return Some(dir.join("config.toml"));
    }
    if let Some(dir) = absolute(env, "XDG_CONFIG_HOME") {
        return Some(dir.join(NAME).join("config.toml"));
    }
    Some(
        ProjectDirs::from("", "", NAME)?
            .config_dir()
            .join("config.toml"),
    )
}

/// The folder of the persisted-port files (spec §8). `None` without a home: then nothing is
/// restored and saving is an error.
pub fn ports_dir(env: Env) -> Option<PathBuf> {
    if let Some(dir) = env(DATA_DIR_VARIABLE) {
        return Some(dir.into());
    }
    // The original keeps them in the configuration folder (macOS: Application Support).
    let base = match absolute(env, "XDG_CONFIG_HOME") {
        Some(dir) => dir,
        None => BaseDirs::new()?.config_local_dir().to_owned(),
    };
    Some(base.join(PORTS_FOLDER[0]).join(PORTS_FOLDER[1]))
}

/// systemd passes a colon-separated list; the first folder is ours.
fn first_of_list(env: Env, name: &str) -> Option<PathBuf> {
    let list = env(name)?;
    std::env::split_paths(&list)
        .next()
        .filter(|p| p.is_absolute())
}

/// XDG variables count only when absolute.
fn absolute(env: Env, name: &str) -> Option<PathBuf> {
    env(name)
        .map(PathBuf::from)
        .filter(|p: &PathBuf| Path::is_absolute(p))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env<'a>(vars: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        move |name| {
            vars.iter()
                .find(|(k, _)| *k == name)
                .map(|(_, v)| OsString::from(v))
        }
    }

    #[test]
    fn the_socket_is_in_the_runtime_folder_else_in_the_state_folder() {
        for (vars, want) in [
            (vec![("NVPAIR_PROXY_SOCKET", "/x/s")], "/x/s"),
            (
                vec![
                    ("RUNTIME_DIRECTORY", "/run/nvpair"),
                    ("XDG_RUNTIME_DIR", "/run/user/1"),
                ],
                "/run/nvpair/control.sock",
            ),
            (
                vec![("XDG_RUNTIME_DIR", "/run/user/1")],
                "/run/user/1/nvpair-proxy/control.sock",
            ),
            (
                vec![("STATE_DIRECTORY", "/var/lib/a:/var/lib/b")],
                "/var/lib/a/control.sock",
            ),
            (
                vec![("XDG_STATE_HOME", "/s")],
                "/s/nvpair-proxy/control.sock",
            ),
            (
                vec![("XDG_RUNTIME_DIR", "relative"), ("XDG_STATE_HOME", "/s")],
                "/s/nvpair-proxy/control.sock",
            ),
        ] {
            assert_eq!(
                control_socket(&env(&vars)),
                Some(PathBuf::from(want)),
                "{vars:?}"
            );
        }
    }

    #[test]
    fn port_files_keep_the_place_of_the_original() {
        assert_eq!(
            ports_dir(&env(&[("XDG_CONFIG_HOME", "/c")])),
            Some(PathBuf::from("/c/Nvidia Corporation/Personal AI Router"))
        );
        assert_eq!(
            ports_dir(&env(&[
                ("NVPAIR_PROXY_DATA_DIR", "/d"),
                ("XDG_CONFIG_HOME", "/c")
            ])),
            Some(PathBuf::from("/d")),
            "the variable replaces the whole product folder"
        );
    }

    #[test]
    fn the_configuration_file_follows_systemd_then_xdg() {
        let vars = [
            ("CONFIGURATION_DIRECTORY", "/etc/nvpair-proxy"),
            ("XDG_CONFIG_HOME", "/c"),
        ];
        assert_eq!(
            config_file(&env(&vars)),
            Some(PathBuf::from("/etc/nvpair-proxy/config.toml"))
        );
        assert_eq!(
            config_file(&env(&[("XDG_CONFIG_HOME", "/c")])),
            Some(PathBuf::from("/c/nvpair-proxy/config.toml"))
        );
    }
}
