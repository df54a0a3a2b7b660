//! Who is behind a port, and what a process was started with.
//!
//! Owns: reading that from the system. Leaves to others: what it means. Everything here is a bonus:
//! other users' processes, and systems without `/proc`, tell nothing.

use std::path::PathBuf;

/// A process that listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its name.
    pub name: String,
    /// Its number.
    pub pid: u32,
}

impl Owner {
    /// As people read it.
    pub fn shown(&self) -> String {
        format!("{} (process {})", self.name, self.pid)
    }
}

/// Who listens on a TCP port of this machine, if the system tells us.
#[cfg(target_os = "linux")]
pub fn of_port(port: u16) -> Option<Owner> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let inodes: Vec<_> = tables
        .iter()
        .filter_map(|t| std::fs::read_to_string(t).ok())
        .flat_map(|table| listening(&table, port))
        .collect();
    let wanted = |link: &str| {
        let inode = link
            .strip_prefix("socket:[")
            .and_then(|l| l.strip_suffix(']'));
        inode.is_some_and(|i| inodes.iter().any(|known| known == i))
    };
    if inodes.is_empty() {
        return None;
    }
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        let Ok(descriptors) = std::fs::read_dir(entry.path().join("fd")) else {
            continue;
        };
        let mut links = descriptors
            .flatten()
            .filter_map(|d| std::fs::read_link(d.path()).ok());
        if links.any(|l| l.to_str().is_some_and(wanted)) {
            let name = std::fs::read_to_string(entry.path().join("comm")).ok()?;
            let name = name.trim_end().to_owned();
            return Some(Owner { name, pid });
        }
    }
    None
}

/// Who listens on a TCP port of this machine: not told here.
#[cfg(not(target_os = "linux"))]
pub fn of_port(_: u16) -> Option<Owner> {
    None
}

/// The inodes of the sockets that listen on a port, out of the kernel's table.
#[cfg(any(target_os = "linux", test))]
fn listening(table: &str, port: u16) -> Vec<String> {
    let line = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
        let (_, hex) = local.rsplit_once(':')?;
        let at = u16::from_str_radix(hex, 16).ok()?;
        // 0A = listening.
        (at == port && *state == "0A").then(|| (*inode).to_owned())
    };
    table.lines().filter_map(line).collect()
}

/// The cluster folder a daemon was started with, by its flags.
pub fn cluster_dir(pid: u32) -> Option<PathBuf> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<_> = line
        .split(|b| *b == 0)
        .map(|w| String::from_utf8_lossy(w).into_owned())
        .collect();
    let folder = folder_in(&words)?;
    let folder = PathBuf::from(folder);
    let base = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
    Some(base.join(folder))
}

fn folder_in(words: &[String]) -> Option<&str> {
    for (i, word) in words.iter().enumerate() {
        let body = word.strip_prefix("--").or_else(|| word.strip_prefix('-'));
        let Some(rest) = body.and_then(|b| b.strip_prefix("cluster-dir")) else {
            continue;
        };
        let value = match rest.strip_prefix('=') {
            Some(value) => value,
            None if rest.is_empty() => words.get(i + 1)?,
            None => continue,
        };
        return (!value.is_empty()).then_some(value);
    }
    None
}

/// How many descriptors a process has open and may have, soft limit; `None` = not told.
pub fn descriptors(pid: u32) -> Option<(u64, u64)> {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64;
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    Some((open, soft_limit(&limits)?))
}

fn soft_limit(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|l| l.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_tables_are_read() {
        let table = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2CAA 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1
   1: 0100007F:2CAA 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1000        0 4712 1
   2: 00000000000000000000000001000000:2CAB 0:0 0A 0:0 00:0 0 1000 0 4713 1
";
        assert_eq!(listening(table, 11434), ["4711"]);
        assert_eq!(listening(table, 11435), ["4713"]);
        assert!(listening(table, 1).is_empty());
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 524288               files\n";
        assert_eq!(soft_limit(limits), Some(1024));
        assert_eq!(soft_limit(""), None);
    }

    #[test]
    fn the_folder_is_found_in_every_spelling() {
        for (line, want) in [
            ("p serve --cluster-dir /c", Some("/c")),
            ("p -cluster-dir /c --ipc x", Some("/c")),
            ("p --cluster-dir=/c", Some("/c")),
            ("p --cluster-dir=", None),
            ("p --cluster-dir", None),
            ("p serve", None),
        ] {
            let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(folder_in(&words), want, "{line}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_listener_of_ours_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(of_port(port).map(|o| o.pid), Some(std::process::id()));
        let (open, limit) = descriptors(std::process::id()).unwrap();
        assert!(open > 2 && limit > open);
        drop(listener);
        assert_eq!(of_port(port), None);
    }
}
