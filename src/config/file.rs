//! The configuration file: which keys there are and what each takes (product 13.18).
//!
//! Owns: keys, ranges and duplicates, and how the problems of a file are shown.
//! Leaves to others: the walk (`reader`), defaults and what beats what (`settings`).

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::HeaderValue;
use toml::de::DeTable;

use super::node_url::{NodeUrl, is_host};
use super::paths::Env;
use super::reader::{self, Plain, Problem, Reader};
use crate::rules::addresses::without_brackets;
use crate::rules::engine::EngineId;
use crate::rules::log_level::{LogFormat, LogLevel};
use crate::rules::nearest::closest;
use crate::rules::policy::Policy;
use crate::rules::secret::Secret;

const TOP: [&str; 12] = [
    "policy",
    "response_header_timeout",
    "max_request_bytes",
    "allowed_hosts",
    "allowed_origins",
    "stream_idle_timeout",
    "drain_timeout",
    "commit_gate",
    "response_headers",
    "engines",
    "nodes",
    "log",
];
const ENGINE: [&str; 2] = ["enabled", "port"];
const NODE: [&str; 8] = [
    "engine", "url", "name", "models", "api_key", "slots", "weight", "enabled",
];
const LOG: [&str; 2] = ["level", "format"];

/// Those that may be written: `listed` needs a broker's list, so that only a broker brings it.
const POLICIES: [(&str, Policy); 2] = [
    (Policy::Weighted.as_str(), Policy::Weighted),
    (Policy::Ordered.as_str(), Policy::Ordered),
];
const GATES: [(&str, bool); 2] = [("framing", false), ("first-byte", true)];
/// The words for the log's threshold.
pub const LEVELS: [(&str, LogLevel); 4] = [
    LogLevel::Debug.word(),
    LogLevel::Info.word(),
    LogLevel::Warn.word(),
    LogLevel::Error.word(),
];
const FORMATS: [(&str, LogFormat); 2] = [LogFormat::Text.word(), LogFormat::Json.word()];

/// One node that somebody named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSetting {
    /// What runs there.
    pub engine: EngineId,
    /// Where.
    pub url: NodeUrl,
    /// Id instead of the host's name.
    pub name: Option<String>,
    /// Its models; `None` = ask it.
    pub models: Option<Vec<String>>,
    /// Sent to this node only.
    pub api_key: Option<Secret>,
    /// Parallel requests; `None` = ask it.
    pub slots: Option<u32>,
    /// Relative weight; `None` = 1.
    pub weight: Option<u32>,
}

impl NodeSetting {
    /// A node of which nothing but its place is known.
    pub fn bare(engine: EngineId, url: NodeUrl) -> Self {
        let (name, models, api_key, slots, weight) = (None, None, None, None, None);
        Self {
            engine,
            url,
            name,
            models,
            api_key,
            slots,
            weight,
        }
    }
}

/// `[engines.NAME]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineConfig {
    /// Which.
    pub engine: EngineId,
    /// Whether it gets a facade.
    pub enabled: bool,
    /// Port to ask for; yields to a saved one.
    pub port: Option<u16>,
}

/// The values of a file; `None` where it says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `policy`.
    pub policy: Option<Policy>,
    /// `response_header_timeout`; zero = off.
    pub response_header_timeout: Option<Duration>,
    /// `max_request_bytes`.
    pub max_request_bytes: Option<u64>,
    /// `allowed_hosts`, lower case.
    pub allowed_hosts: Option<Vec<String>>,
    /// `allowed_origins`.
    pub allowed_origins: Option<Vec<String>>,
    /// `stream_idle_timeout`; zero = off.
    pub stream_idle_timeout: Option<Duration>,
    /// `drain_timeout`.
    pub drain_timeout: Option<Duration>,
    /// `commit_gate = "first-byte"`.
    pub commit_gate_first_byte: Option<bool>,
    /// `response_headers`.
    pub response_headers: Option<bool>,
    /// `[engines.NAME]`.
    pub engines: Vec<EngineConfig>,
    /// `[[nodes]]` that are enabled.
    pub nodes: Vec<NodeSetting>,
    /// `log.level`.
    pub log_level: Option<LogLevel>,
    /// `log.format`.
    pub log_format: Option<LogFormat>,
}

/// Why a file gives no configuration.
#[derive(Debug)]
pub enum FileError {
    /// It cannot be read, though it was named or is there.
    Unreadable(PathBuf, std::io::Error),
    /// It has problems.
    Invalid(Problems),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(path, e) => write!(f, "cannot read {}: {e}", path.display()),
            Self::Invalid(problems) => problems.fmt(f),
        }
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable(_, e) => Some(e),
            Self::Invalid(_) => None,
        }
    }
}

/// Every problem of a file, at least one.
#[derive(Debug, PartialEq, Eq)]
pub struct Problems {
    /// Name of the file, without its folder.
    pub file: String,
    /// In the order of the file.
    pub problems: Vec<Problem>,
}

impl Problems {
    /// `3 problems`.
    pub fn count(&self) -> String {
        match self.problems.len() {
            1 => "1 problem".to_owned(),
            n => format!("{n} problems"),
        }
    }
}

/// A line a problem, the texts below each other, then the count.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |p: &Problem| format!("{}:{}:{}", self.file, p.line, p.column);
        let width = self
            .problems
            .iter()
            .map(|p| place(p).len())
            .max()
            .unwrap_or(0);
        for problem in &self.problems {
            writeln!(f, "{:width$}  {}", place(problem), problem.message)?;
        }
        f.write_str(&self.count())
    }
}

/// Reads a file. One that is absent and was not named (`named`) says nothing; every other failure
/// is an error.
pub fn load(path: &Path, named: bool, env: Env) -> Result<Config, FileError> {
    match std::fs::read_to_string(path) {
        Ok(text) => {
            let file = path
                .file_name()
                .unwrap_or(path.as_os_str())
                .to_string_lossy();
            parse(&file, &text, env).map_err(FileError::Invalid)
        },
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && !named => Ok(Config::default()),
        Err(e) => Err(FileError::Unreadable(path.to_owned(), e)),
    }
}

/// The values of a text, or every problem in it.
pub fn parse(file: &str, text: &str, env: Env) -> Result<Config, Problems> {
    let mut reader = Reader::new(text, env);
    let (table, errors) = DeTable::parse_recoverable(text);
    // What stands behind broken syntax is guesswork: its meaning is not looked at.
    let config = if errors.is_empty() {
        document(&mut reader, table.get_ref())
    } else {
        for e in &errors {
            reader.complain(
                e.span().map_or(0, |s| s.start),
                e.message().replace('\n', ", "),
            );
        }
        Config::default()
    };
    let problems = reader.finish();
    if problems.is_empty() {
        Ok(config)
    } else {
        Err(Problems {
            file: file.into(),
            problems,
        })
    }
}

fn document(r: &mut Reader, t: &DeTable) -> Config {
    r.known(t, "at the top level", &TOP);
    let mut config = Config {
        policy: r.value(t, "policy", &reader::word(&POLICIES)),
        response_header_timeout: r.value(t, "response_header_timeout", &reader::duration),
        max_request_bytes: r.value(t, "max_request_bytes", &reader::size),
        allowed_hosts: r.list(t, "allowed_hosts", &host),
        allowed_origins: r.list(t, "allowed_origins", &origin),
        stream_idle_timeout: r.value(t, "stream_idle_timeout", &reader::duration),
        drain_timeout: r.value(t, "drain_timeout", &reader::duration),
        commit_gate_first_byte: r.value(t, "commit_gate", &reader::word(&GATES)),
        response_headers: r.value(t, "response_headers", &reader::boolean),
        engines: engines(r, t),
        nodes: nodes(r, t),
        ..Config::default()
    };
    if let Some(log) = r.table(t, "log") {
        r.known(log, "in [log]", &LOG);
        config.log_level = r.value(log, "level", &reader::word(&LEVELS));
        config.log_format = r.value(log, "format", &reader::word(&FORMATS));
    }
    config
}

fn engines(r: &mut Reader, t: &DeTable) -> Vec<EngineConfig> {
    let Some(engines) = r.table(t, "engines") else {
        return Vec::new();
    };
    let ids: Vec<_> = EngineId::all().map(EngineId::as_str).collect();
    r.known(engines, "in [engines]", &ids);
    let mut ports: Vec<u16> = Vec::new();
    let mut read = Vec::new();
    for engine in EngineId::all() {
        let Some(table) = r.table(engines, engine.as_str()) else {
            continue;
        };
        r.known(table, &format!("in [engines.{engine}]"), &ENGINE);
        let enabled = r.value(table, "enabled", &reader::boolean).unwrap_or(true);
        let port = r.spanned(table, "port", &reader::port);
        if let Some((at, port)) = port.filter(|_| enabled) {
            if ports.contains(&port) {
                r.complain(
                    at,
                    format!("port {port} is asked for by another engine already"),
                );
            }
            ports.push(port);
        }
        read.push(EngineConfig {
            engine,
            enabled,
            port: port.map(|(_, p)| p),
        });
    }
    read
}

fn nodes(r: &mut Reader, t: &DeTable) -> Vec<NodeSetting> {
    let mut read: Vec<NodeSetting> = Vec::new();
    for (at, table) in r.tables(t, "nodes") {
        if let Some((enabled, node)) = node(r, at, table) {
            let place = |n: &NodeSetting| n.engine == node.engine && n.url == node.url;
            let name = |n: &NodeSetting| {
                n.engine == node.engine && n.name.is_some() && n.name == node.name
            };
            if read.iter().any(place) {
                r.complain(at, format!("{} {} is listed twice", node.engine, node.url));
            } else if read.iter().any(name) {
                let name = node.name.as_deref().unwrap_or_default();
                r.complain(at, format!("two {} nodes are named {name:?}", node.engine));
            } else if enabled {
                read.push(node);
            }
        }
    }
    read
}

fn node(r: &mut Reader, at: usize, t: &DeTable) -> Option<(bool, NodeSetting)> {
    r.known(t, "in [[nodes]]", &NODE);
    for key in ["engine", "url"] {
        // A mistyped key is reported already; that the right one is absent too is no news.
        let meant = |k: &str| !NODE.contains(&k) && closest(k, NODE) == Some(key);
        if !t.contains_key(key) && !t.keys().any(|k| meant(k.get_ref())) {
            r.complain(at, format!("[[nodes]] without `{key}`"));
        }
    }
    let engine = r.value(t, "engine", &engine);
    let url = r.value(t, "url", &node_url);
    let name = r.value(t, "name", &node_name);
    let models = r.list(t, "models", &not_empty);
    let api_key = r.value(t, "api_key", &secret);
    let slots = r.value(t, "slots", &reader::integer(1..=4096));
    let weight = r.value(t, "weight", &reader::integer(1..=1000));
    let enabled = r.value(t, "enabled", &reader::boolean).unwrap_or(true);
    let node = NodeSetting {
        engine: engine?,
        url: url?,
        name,
        models,
        api_key,
        slots,
        weight,
    };
    Some((enabled, node))
}

/// An engine by its id, or a sentence with the nearest one.
pub fn engine_named(given: &str) -> Result<EngineId, String> {
    let words: Vec<_> = EngineId::all().map(|e| (e.as_str(), e)).collect();
    reader::pick(&words, given).map_err(|e| format!("engine {e}"))
}

fn engine(key: &str, value: Plain) -> Result<EngineId, String> {
    engine_named(&reader::text(key, value)?)
}

fn node_url(key: &str, value: Plain) -> Result<NodeUrl, String> {
    NodeUrl::parse(&reader::text(key, value)?).map_err(|e| format!("`{key}`: {e}"))
}

fn not_empty(key: &str, value: Plain) -> Result<String, String> {
    let text = reader::text(key, value)?.trim().to_owned();
    if text.is_empty() {
        Err(format!("`{key}` must not be empty"))
    } else {
        Ok(text)
    }
}

/// Names stand on command lines and in tables: no blanks, no control characters.
fn node_name(key: &str, value: Plain) -> Result<String, String> {
    let name = not_empty(key, value)?;
    let bad = |c: char| c.is_whitespace() || c.is_control();
    if name.len() > 100 || name.contains(bad) {
        return Err(format!("`{key}` must be at most 100 bytes without blanks"));
    }
    Ok(name)
}

fn secret(key: &str, value: Plain) -> Result<Secret, String> {
    let text = not_empty(key, value)?;
    match HeaderValue::from_str(&text) {
        Ok(_) => Ok(Secret::new(text)),
        Err(_) => Err(format!(
            "`{key}` has a character that no HTTP header may have"
        )),
    }
}

fn host(key: &str, value: Plain) -> Result<String, String> {
    host_name(&reader::text(key, value)?).map_err(|e| format!("`{key}`: {e}"))
}

fn origin(key: &str, value: Plain) -> Result<String, String> {
    origin_name(&reader::text(key, value)?).map_err(|e| format!("`{key}`: {e}"))
}

/// A host that the `Host` gate may admit: a name or address without port, in lower case.
pub fn host_name(given: &str) -> Result<String, String> {
    let host = given.trim().to_ascii_lowercase();
    let bare = without_brackets(&host);
    if is_host(bare) {
        Ok(bare.to_owned())
    } else {
        Err(format!(
            "{given:?} is not a host name; no scheme, port, path or wildcard"
        ))
    }
}

/// An origin as a browser sends it: `null`, or scheme and host with an optional port.
pub fn origin_name(given: &str) -> Result<String, String> {
    let origin = given.trim();
    let bad = || format!("{given:?} is not an origin; write it like https://app.example:8443");
    if origin == "null" {
        return Ok(origin.to_owned());
    }
    let (scheme, rest) = origin.split_once("://").ok_or_else(bad)?;
    let odd =
        |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | '*' | '?' | '#' | '@');
    if scheme.is_empty() || rest.is_empty() || rest.contains(odd) {
        return Err(bad());
    }
    // Browsers send scheme and host in lower case, and the comparison is exact.
    Ok(origin.to_ascii_lowercase())
}

#[cfg(test)]
mod tests;
