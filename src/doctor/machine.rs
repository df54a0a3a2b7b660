//! This machine and this user's session: socket, state folder, descriptors, proxy variables.
//!
//! Owns: these checks. Leaves to others: ports and engines (`engines`), certificates (`cluster`).

use std::path::Path;

use super::owners;
use super::{Finding, Level};
use crate::config::paths::Env;

/// Fewer descriptors than this are some 2,000 streams: each is a client's and an engine's.
const DESCRIPTORS: u64 = 4096;

/// Less free space than this is soon none.
const SPACE: u64 = 64 << 20;

/// Variables that send HTTP elsewhere, for `http` URLs, and the exceptions to them.
const PROXIES: [&str; 4] = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];
const OTHER_PROXIES: [&str; 2] = ["https_proxy", "HTTPS_PROXY"];
const EXCEPTIONS: [&str; 2] = ["no_proxy", "NO_PROXY"];

/// Whether others could reach the control socket.
pub fn socket(path: Option<&Path>) -> Option<Finding> {
    let path = path?;
    let mode = mode_of(path)?;
    let folder = path.parent().map(|p| (p, mode_of(p).unwrap_or(0)));
    if mode & 0o077 != 0 {
        let text = format!(
            "{} is open to other users (mode {mode:03o})",
            path.display()
        );
        let remedy = format!("chmod 600 {}", path.display());
        return Some(Finding::new("socket", Level::Warning, text).remedy(remedy));
    }
    if let Some((folder, mode)) = folder.filter(|(_, mode)| mode & 0o022 != 0) {
        let text = format!("others may write in {} (mode {mode:03o})", folder.display());
        let remedy = format!(
            "chmod 700 {}, or a --socket PATH elsewhere",
            folder.display()
        );
        return Some(Finding::new("socket", Level::Warning, text).remedy(remedy));
    }
    let text = format!("{} is its owner's alone", path.display());
    Some(Finding::new("socket", Level::Ok, text))
}

#[cfg(unix)]
fn mode_of(path: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    let meta = std::fs::metadata(path).ok()?;
    Some(meta.permissions().mode() & 0o777)
}

#[cfg(not(unix))]
fn mode_of(_: &Path) -> Option<u32> {
    None
}

/// Whether what should outlive the daemon can. `unusable` = what is wrong with the added nodes.
pub fn state(dir: Option<&Path>, unusable: Option<String>) -> Vec<Finding> {
    let Some(dir) = dir else {
        let text = "no state folder is known: no journal and no added node outlives the daemon";
        return vec![
            Finding::new("state", Level::Warning, text).remedy("set HOME or XDG_STATE_HOME"),
        ];
    };
    let mut found: Vec<_> = unusable
        .map(|why| Finding::new("state", Level::Problem, why).remedy("mend or remove the file"))
        .into_iter()
        .collect();
    let shown = dir.display();
    let finding = match std::fs::metadata(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let text = format!("{shown} is not there yet; serve makes it");
            Finding::new("state", Level::Note, text)
        },
        Err(e) => Finding::new("state", Level::Problem, format!("{shown}: {e}"))
            .remedy("make it readable for the user who runs the daemon"),
        Ok(meta) if !meta.is_dir() => {
            Finding::new("state", Level::Problem, format!("{shown} is not a folder"))
                .remedy("move it away")
        },
        Ok(_) => usable(dir),
    };
    found.push(finding);
    found
}

#[cfg(unix)]
fn usable(dir: &Path) -> Finding {
    use rustix::fs::{Access, access, statvfs};
    let shown = dir.display();
    if let Err(e) = access(dir, Access::WRITE_OK | Access::EXEC_OK) {
        let text = format!("{shown} cannot be written: {e}");
        return Finding::new("state", Level::Problem, text)
            .remedy("chown it to the user who runs the daemon");
    }
    let free = statvfs(dir).map(|s| s.f_bavail.saturating_mul(s.f_frsize));
    if let Ok(free) = free
        && free < SPACE
    {
        let text = format!("{shown} has only {} MiB free", free >> 20);
        return Finding::new("state", Level::Warning, text).remedy("free some space there");
    }
    if let Some(mode) = mode_of(dir).filter(|m| m & 0o077 != 0) {
        let text = format!("{shown} is open to other users (mode {mode:03o})");
        return Finding::new("state", Level::Warning, text).remedy(format!("chmod 700 {shown}"));
    }
    Finding::new("state", Level::Ok, format!("{shown} can be written"))
}

#[cfg(not(unix))]
fn usable(dir: &Path) -> Finding {
    Finding::new("state", Level::Ok, format!("{} is there", dir.display()))
}

/// How many connections there may be: of the daemon, else of one that this shell would start.
pub fn descriptors(daemon: Option<u32>) -> Finding {
    if let Some((open, limit)) = daemon.and_then(owners::descriptors) {
        return judged("the daemon", Some(open), limit);
    }
    match would_have() {
        Some(limit) => judged("a daemon started here", None, limit),
        None => Finding::new("descriptors", Level::Ok, "there is no limit"),
    }
}

/// The daemon raises its soft limit to the hard one.
#[cfg(unix)]
fn would_have() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum
}

#[cfg(not(unix))]
fn would_have() -> Option<u64> {
    None
}

fn judged(who: &str, open: Option<u64>, limit: u64) -> Finding {
    let remedy = "LimitNOFILE=65536 in its unit, or a higher `ulimit -Hn` where it is started";
    let used = open.map_or(String::new(), |n| format!("{n} of "));
    let text = format!(
        "{who} may have {used}{limit} descriptors open: some {} streams",
        limit / 2
    );
    let nearly = open.is_some_and(|n| n.saturating_mul(5) > limit.saturating_mul(4));
    if limit == u64::MAX {
        return Finding::new("descriptors", Level::Ok, "there is no limit");
    }
    match limit < DESCRIPTORS || nearly {
        true => Finding::new("descriptors", Level::Warning, text).remedy(remedy),
        false => Finding::new("descriptors", Level::Ok, text),
    }
}

/// Whether clients on this machine would send what is meant for a facade to a proxy. Engines and
/// nodes are never reached through one, providers are. Values are never shown: they may hold a password.
pub fn proxies(env: Env) -> Vec<Finding> {
    let set = |names: &[&'static str]| -> Vec<&'static str> {
        names.iter().copied().filter(|n| env(n).is_some()).collect()
    };
    let (plain, other) = (set(&PROXIES), set(&OTHER_PROXIES));
    let excepted = EXCEPTIONS.iter().filter_map(|n| env(n)).any(|list| {
        let list = list.to_string_lossy().to_ascii_lowercase();
        let words: Vec<_> = list.split([',', ' ']).map(str::trim).collect();
        words.contains(&"*") || ["localhost", "127.0.0.1"].iter().all(|w| words.contains(w))
    });
    let finding = match (plain.as_slice(), excepted) {
        ([], _) if other.is_empty() => Finding::new("proxy", Level::Ok, "no proxy variable is set"),
        ([], _) => {
            let text = format!(
                "{} is set; engines and nodes are reached without it, providers over https through it",
                other.join(", ")
            );
            Finding::new("proxy", Level::Note, text)
        },
        (names, true) => {
            let text = format!(
                "{} is set, and NO_PROXY excepts this machine",
                names.join(", ")
            );
            Finding::new("proxy", Level::Ok, text)
        },
        (names, false) => {
            let text = format!(
                "{} is set without an exception for this machine: clients here may send requests for \
                 localhost to the proxy",
                names.join(", ")
            );
            Finding::new("proxy", Level::Warning, text)
                .remedy("export NO_PROXY=localhost,127.0.0.1,::1 where the clients are started")
        },
    };
    vec![finding]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn level(vars: &[(&str, &str)]) -> (Level, String) {
        let env = |name: &str| {
            let found = vars.iter().find(|(k, _)| *k == name);
            found.map(|(_, v)| OsString::from(v))
        };
        let found = proxies(&env).remove(0);
        (found.level, format!("{found:?}"))
    }

    #[test]
    fn a_proxy_without_exception_is_warned_of_and_never_shown() {
        let canary = "http://me:canary@proxy:1";
        for (vars, want) in [
            (vec![], Level::Ok),
            (vec![("HTTPS_PROXY", canary)], Level::Note),
            (vec![("http_proxy", canary)], Level::Warning),
            (
                vec![("ALL_PROXY", canary), ("NO_PROXY", "localhost")],
                Level::Warning,
            ),
            (
                vec![
                    ("http_proxy", canary),
                    ("no_proxy", "x, LOCALHOST,127.0.0.1"),
                ],
                Level::Ok,
            ),
            (vec![("http_proxy", canary), ("NO_PROXY", "*")], Level::Ok),
        ] {
            let (level, shown) = level(&vars);
            assert_eq!(level, want, "{vars:?}");
            assert!(!shown.contains("canary"), "{shown}");
        }
    }

    #[test]
    fn few_descriptors_and_nearly_all_of_them_are_warned_of() {
        for (open, limit, want) in [
            (None, 1024, Level::Warning),
            (None, 524_288, Level::Ok),
            (Some(10), 8192, Level::Ok),
            (Some(8000), 8192, Level::Warning),
            (Some(10), u64::MAX, Level::Ok),
        ] {
            let finding = judged("x", open, limit);
            assert_eq!(finding.level, want, "{open:?} {limit}");
            assert_eq!(finding.remedy.is_some(), want == Level::Warning);
        }
    }

    #[cfg(unix)]
    #[test]
    fn folders_and_sockets_that_others_can_use_are_told() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let path = dir.path().join("s");
        assert_eq!(socket(Some(&path)), None, "nothing there is nothing to say");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        mode(&path, 0o600);
        assert_eq!(socket(Some(&path)).unwrap().level, Level::Ok);
        mode(dir.path(), 0o777);
        assert_eq!(socket(Some(&path)).unwrap().level, Level::Warning);
        mode(dir.path(), 0o700);
        mode(&path, 0o666);
        assert!(
            socket(Some(&path))
                .unwrap()
                .remedy
                .unwrap()
                .contains("chmod 600")
        );

        let of = |dir: &Path| state(Some(dir), None).remove(0);
        assert_eq!(of(dir.path()).level, Level::Ok);
        mode(dir.path(), 0o755);
        assert_eq!(of(dir.path()).level, Level::Warning);
        assert_eq!(of(&dir.path().join("none")).level, Level::Note);
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert_eq!(of(&dir.path().join("file")).level, Level::Problem);
        let told = state(Some(dir.path()), Some("nodes.json: bad".into()));
        assert_eq!((told.len(), told[0].level), (2, Level::Problem));
        assert_eq!(state(None, None)[0].level, Level::Warning);
    }
}
