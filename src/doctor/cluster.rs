//! The trust folder: whether this machine is a member, and whose certificates it knows.
//!
//! Owns: this check. Leaves to others: what makes a member and a pin (`net::members`).

use std::path::Path;

use super::{Finding, Level};
use crate::net::members::Members;
use crate::rules::units::count;

/// Judges the folder; without one there is nothing to trust.
pub fn trust(folder: Option<&Path>) -> Finding {
    let finding = |level, text: String| Finding::new("trust", level, text);
    let Some(folder) = folder else {
        let text = "no cluster folder: other machines are reached as plain nodes only";
        return finding(Level::Ok, text.to_owned());
    };
    let shown = folder.display();
    if !folder.is_dir() {
        return finding(
            Level::Problem,
            format!("{shown} is not a folder that can be read"),
        )
        .remedy("join the cluster on this machine, or mend --cluster-dir");
    }
    for file in ["node.crt", "node.key"] {
        if let Err(e) = std::fs::File::open(folder.join(file)) {
            return finding(
                Level::Problem,
                format!("{shown}/{file} cannot be read: {e}"),
            )
            .remedy("join the cluster on this machine; peers cannot be met without it");
        }
    }
    if others_read(&folder.join("node.key")) {
        let text = format!("{shown}/node.key can be read by other users");
        return finding(Level::Warning, text).remedy(format!("chmod 600 {shown}/node.key"));
    }
    let trust = Members::open(folder.to_owned()).trust();
    let Some(me) = trust.me() else {
        let text = format!(
            "{shown} makes this machine no member: its certificate and key do not fit, or nobody \
             admitted it"
        );
        return finding(Level::Problem, text).remedy("join the cluster again on this machine");
    };
    let names = pins(folder);
    let bad = |name: &&String| trust.certificate(name).is_none();
    let bad: Vec<_> = names.iter().filter(bad).cloned().collect();
    if !bad.is_empty() {
        let text = format!(
            "of {shown}/trusted these are no valid pins: {}",
            bad.join(", ")
        );
        return finding(Level::Warning, text)
            .remedy("pair with those machines again: their requests are refused");
    }
    let others = names.iter().filter(|n| **n != me.principal).count();
    finding(
        Level::Ok,
        format!(
            "{shown} makes this machine a member that knows {}",
            count(others, "other")
        ),
    )
}

/// The names of the pin files.
fn pins(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder.join("trusted")) else {
        return Vec::new();
    };
    let name = |n: std::ffi::OsString| Some(n.to_str()?.strip_suffix(".json")?.to_owned());
    let mut names: Vec<_> = entries
        .flatten()
        .filter_map(|e| name(e.file_name()))
        .collect();
    names.sort_unstable();
    names
}

#[cfg(unix)]
fn others_read(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn others_read(_: &Path) -> bool {
    false
}
