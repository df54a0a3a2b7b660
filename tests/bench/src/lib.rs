//! Shared helpers: argument parsing, the monotonic clock, /proc readings.

use std::collections::HashMap;
use std::fs;

/// `--key value` / `--flag` arguments. A key may repeat.
pub struct Args(HashMap<String, Vec<String>>);

impl Args {
    /// `flags` names the arguments that take no value.
    pub fn parse(known: &[&str], flags: &[&str]) -> Args {
        let mut m: HashMap<String, Vec<String>> = HashMap::new();
        let mut it = std::env::args().skip(1);
        while let Some(a) = it.next() {
            let Some(k) = a.strip_prefix("--") else {
                die(&format!("unexpected argument {a:?}"))
            };
            let (k, inline) = match k.split_once('=') {
                Some((k, v)) => (k.to_string(), Some(v.to_string())),
                None => (k.to_string(), None),
            };
            if flags.contains(&k.as_str()) {
                m.entry(k).or_default().push(inline.unwrap_or_default());
            } else if known.contains(&k.as_str()) {
                let v = inline
                    .or_else(|| it.next())
                    .unwrap_or_else(|| die(&format!("--{k} needs a value")));
                m.entry(k).or_default().push(v);
            } else {
                die(&format!(
                    "unknown argument --{k}; known: {known:?} {flags:?}"
                ));
            }
        }
        Args(m)
    }
    pub fn has(&self, k: &str) -> bool {
        self.0.contains_key(k)
    }
    pub fn get(&self, k: &str) -> Option<&str> {
        self.0.get(k).and_then(|v| v.last()).map(|s| s.as_str())
    }
    pub fn all(&self, k: &str) -> Vec<String> {
        self.0.get(k).cloned().unwrap_or_default()
    }
    pub fn num<T: std::str::FromStr>(&self, k: &str, default: T) -> T {
        match self.get(k) {
            None => default,
            Some(s) => s
                .parse()
                .unwrap_or_else(|_| die(&format!("--{k}: bad number {s:?}"))),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a tool that was called wrongly has nothing to undo"
)]
pub fn die(msg: &str) -> ! {
    eprintln!("{msg}");
    std::process::exit(2)
}

/// Ends well, whatever is still open.
#[expect(
    clippy::disallowed_methods,
    reason = "the report is printed, and streams may be without an end"
)]
pub fn leave() -> ! {
    std::process::exit(0)
}

/// CLOCK_MONOTONIC in nanoseconds: the same clock in every process on the machine.
pub fn mono_ns() -> u64 {
    let mut ts = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `ts` is a valid, writable timespec for the duration of the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut ts) };
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}

/// Lifts the soft limit on open files to the hard limit.
pub fn raise_nofile() {
    let mut r = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `r` is a valid rlimit; both calls only read or write it.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut r) == 0 {
            r.rlim_cur = r.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &r);
        }
    }
}

/// What a process (or a process tree) has used so far.
#[derive(Default, Clone, Copy, Debug)]
pub struct ProcUse {
    /// User + system time, nanoseconds.
    pub cpu_ns: u64,
    pub user_ns: u64,
    pub sys_ns: u64,
    pub rss_kb: u64,
    pub hwm_kb: u64,
    /// Voluntary + involuntary context switches of the live threads.
    pub ctxt: u64,
    pub procs: u64,
}

fn stat_fields(pid: u32) -> Option<Vec<String>> {
    let s = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let rest = &s[s.rfind(')')? + 2..];
    Some(rest.split_whitespace().map(|x| x.to_string()).collect())
}

/// `pid` and every live descendant of it.
pub fn tree(pid: u32) -> Vec<u32> {
    let mut parents: Vec<(u32, u32)> = Vec::new();
    if let Ok(rd) = fs::read_dir("/proc") {
        for e in rd.flatten() {
            if let Some(p) = e.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) {
                if let Some(pp) = stat_fields(p).and_then(|f| f.get(1).and_then(|x| x.parse().ok()))
                {
                    parents.push((p, pp));
                }
            }
        }
    }
    let mut out = vec![pid];
    let mut i = 0;
    while i < out.len() {
        let cur = out[i];
        for &(p, pp) in &parents {
            if pp == cur && !out.contains(&p) {
                out.push(p);
            }
        }
        i += 1;
    }
    out
}

pub fn proc_use(pids: &[u32]) -> ProcUse {
    let mut u = ProcUse::default();
    for &pid in pids {
        let Some(f) = stat_fields(pid) else { continue };
        u.procs += 1;
        // Clock ticks (10 ms): includes threads that have ended.
        let tick = 10_000_000u64;
        let ut: u64 = f.get(11).and_then(|x| x.parse().ok()).unwrap_or(0) * tick;
        let st: u64 = f.get(12).and_then(|x| x.parse().ok()).unwrap_or(0) * tick;
        u.user_ns += ut;
        u.sys_ns += st;
        // Nanosecond run time of the live threads, when the kernel keeps it.
        let mut fine = 0u64;
        if let Ok(rd) = fs::read_dir(format!("/proc/{pid}/task")) {
            for t in rd.flatten() {
                if let Ok(s) = fs::read_to_string(t.path().join("schedstat")) {
                    fine += s
                        .split_whitespace()
                        .next()
                        .and_then(|x| x.parse::<u64>().ok())
                        .unwrap_or(0);
                }
                if let Ok(s) = fs::read_to_string(t.path().join("status")) {
                    for l in s.lines() {
                        if l.contains("ctxt_switches") {
                            u.ctxt += l
                                .split_whitespace()
                                .last()
                                .and_then(|x| x.parse::<u64>().ok())
                                .unwrap_or(0);
                        }
                    }
                }
            }
        }
        // Live threads alone undercount when threads end: take the larger.
        u.cpu_ns += fine.max(ut + st);
        if let Ok(s) = fs::read_to_string(format!("/proc/{pid}/status")) {
            for l in s.lines() {
                let v = || {
                    l.split_whitespace()
                        .nth(1)
                        .and_then(|x| x.parse::<u64>().ok())
                        .unwrap_or(0)
                };
                if l.starts_with("VmRSS:") {
                    u.rss_kb += v();
                } else if l.starts_with("VmHWM:") {
                    u.hwm_kb += v();
                }
            }
        }
    }
    u
}

/// Only the resident memory, cheap enough to sample often.
pub fn rss_kb(pids: &[u32]) -> u64 {
    pids.iter()
        .filter_map(|p| fs::read_to_string(format!("/proc/{p}/statm")).ok())
        .filter_map(|s| {
            s.split_whitespace()
                .nth(1)
                .and_then(|x| x.parse::<u64>().ok())
        })
        .map(|pages| pages * 4)
        .sum()
}

/// The value at quantile `q` of sorted samples (nearest rank).
pub fn quantile(sorted: &[u64], q: f64) -> u64 {
    if sorted.is_empty() {
        return 0;
    }
    let i = ((sorted.len() as f64 * q).ceil() as usize).clamp(1, sorted.len());
    sorted[i - 1]
}
