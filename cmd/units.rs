//! `generate systemd` and `generate launchd`: what runs the daemon as a service.
//!
//! Owns: the binary's path and the user's folders in the files of `package/`. Leaves to others: the
//! files themselves; the Debian package installs the same ones.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use nvpair_proxy::wire::control::SCHEMA_VERSION;
use serde_json::json;

use crate::cli::{Globals, LaunchdArgs, SystemdArgs};
use crate::errors::{CliError, Kind};
use crate::output;

const SYSTEM: &str = include_str!("package/nvpair-proxy.service");
const USER: &str = include_str!("package/user/nvpair-proxy.service");
const AGENT: &str = include_str!("package/nvpair-proxy-agent.service");
const USER_AGENT: &str = include_str!("package/user/nvpair-proxy-agent.service");
const LAUNCHD: &str = include_str!("package/launchd.plist");

/// The path in the files.
const BINARY: &str = "/usr/bin/nvpair-proxy";

/// Where launchd is to write the log.
const LOG: &str = "@LOG@";

/// Runs `generate systemd`.
pub fn systemd(args: &SystemdArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let unit = match (args.agent, args.system) {
        (false, false) => USER,
        (false, true) => SYSTEM,
        (true, false) => USER_AGENT,
        (true, true) => AGENT,
    };
    let name = match args.agent {
        true => "nvpair-proxy-agent.service",
        false => "nvpair-proxy.service",
    };
    let binary = binary(args.binary.as_deref())?;
    show(name, &unit.replace(BINARY, &systemd_word(&binary)), globals)
}

/// Runs `generate launchd`.
pub fn launchd(args: &LaunchdArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let binary = binary(args.binary.as_deref())?;
    let log = match &args.log {
        Some(path) => absolute(path)?,
        None => default_log()?,
    };
    let plist = LAUNCHD
        .replace(BINARY, &xml(&binary))
        .replace(LOG, &xml(&log));
    show("nvpair-proxy.plist", &plist, globals)
}

/// Prints a file that usually has this name.
fn show(name: &str, text: &str, globals: &Globals) -> Result<ExitCode, CliError> {
    match globals.json {
        true => output::print_json(&json!({
            "schema_version": SCHEMA_VERSION,
            "name": name,
            "text": text,
        }))?,
        false => output::print(text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The named binary, else this one.
fn binary(named: Option<&Path>) -> Result<String, CliError> {
    match named {
        Some(path) => absolute(path),
        None => absolute(&std::env::current_exe().context("cannot tell where this binary is")?),
    }
}

fn default_log() -> Result<String, CliError> {
    let home = std::env::home_dir().ok_or_else(|| {
        CliError::new(Kind::Usage, "no home folder is known, so none for the log")
            .try_this("--log FILE")
    })?;
    absolute(&home.join("Library/Logs/nvpair-proxy.log"))
}

/// Service managers have no current folder, and their files are text.
fn absolute(path: &Path) -> Result<String, CliError> {
    let usage = |why: &str| {
        CliError::new(
            Kind::Usage,
            format!("{} cannot be named in the file", path.display()),
        )
        .why(why.to_owned())
        .try_this("an absolute path without control characters")
    };
    let text = path.to_str().ok_or_else(|| usage("it is not UTF-8"))?;
    if !path.is_absolute() {
        return Err(usage("it is relative"));
    }
    if text.contains(char::is_control) {
        return Err(usage("it has control characters"));
    }
    Ok(text.to_owned())
}

/// One word of `ExecStart=` (systemd.service(5), command lines).
fn systemd_word(path: &str) -> String {
    let escaped = path
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('%', "%%")
        .replace('$', "$$");
    match escaped == path && !path.contains([' ', '\'', ';']) {
        true => escaped,
        false => format!("\"{escaped}\""),
    }
}

fn xml(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_have_the_places_that_are_filled_in() {
        for unit in [SYSTEM, USER] {
            let line = format!("ExecStart={BINARY} serve\n");
            assert_eq!(unit.matches(BINARY).count(), 1);
            assert!(unit.contains(&line));
        }
        for unit in [AGENT, USER_AGENT] {
            assert_eq!(unit.matches(BINARY).count(), 1);
            assert!(unit.contains(&format!("ExecStart={BINARY} agent --node-key-file ")));
            // The key is in a file, and in no line of the unit.
            assert!(!unit.contains("NODE_KEY"));
        }
        assert_eq!(LAUNCHD.matches(BINARY).count(), 1);
        assert_eq!(LAUNCHD.matches(LOG).count(), 2);
    }

    #[test]
    fn odd_paths_are_one_word() {
        for (path, want) in [
            ("/usr/bin/x", "/usr/bin/x"),
            ("/a b/x", "\"/a b/x\""),
            ("/50%/$x", "\"/50%%/$$x\""),
            ("/a\"\\b", "\"/a\\\"\\\\b\""),
        ] {
            assert_eq!(systemd_word(path), want);
        }
        assert_eq!(xml("/a&<b>"), "/a&amp;&lt;b&gt;");
    }

    #[test]
    fn paths_that_no_manager_could_use_are_refused() {
        for bad in ["x", "./x", "", "/a\nb"] {
            assert!(absolute(Path::new(bad)).is_err(), "{bad:?}");
        }
    }
}
