//! The configuration file: which keys there are and what each takes (product 13.18).
//!
//! Owns: joining the sections, duplicates, and how the problems of a file are shown.
//! Leaves to others: the keys themselves (`keys`), the walk (`reader`), defaults and what beats what
//! (`settings`).

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use toml::de::DeTable;

use super::gateway::{
    self, Gateway, GatewaySettings, Known, ProviderSetting, TlsFiles, VirtualModel,
};
use super::keys;
use super::kinds;
use super::node_url::NodeUrl;
use super::paths::Env;
use super::pool::{self, PoolSettings};
use super::reader::{Findings, Problem, Reader, Section};
use super::telemetry::{self, AdminSettings, TelemetrySettings};
use crate::rules::engine::EngineId;
use crate::rules::log_level::{LogFormat, LogLevel};
use crate::rules::policy::Policy;
use crate::rules::secret::Secret;

/// Those that may be written: `listed` needs a broker's list, so that only a broker brings it.
const POLICIES: [(&str, Policy); 2] = [
    (Policy::Weighted.as_str(), Policy::Weighted),
    (Policy::Ordered.as_str(), Policy::Ordered),
];
/// The words for what commits an event stream, and whether it is the first byte of any kind.
pub(super) const GATES: [(&str, bool); 2] = [("framing", false), ("first-byte", true)];
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
    /// The cluster member behind the URL, whose facade is dialled over mutual TLS and whose
    /// certificate must be the pinned one; `None` = a plain engine.
    pub peer: Option<String>,
}

impl NodeSetting {
    /// A node of which nothing but its place is known.
    pub fn bare(engine: EngineId, url: NodeUrl) -> Self {
        let (name, models, api_key, slots, weight, peer) = (None, None, None, None, None, None);
        Self {
            engine,
            url,
            name,
            models,
            api_key,
            slots,
            weight,
            peer,
        }
    }
}

/// `[engines.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineConfig {
    /// Which.
    pub engine: EngineId,
    /// Whether it gets a facade.
    pub enabled: bool,
    /// Port to ask for; yields to a saved one.
    pub port: Option<u16>,
    /// What callers beyond loopback are met with.
    pub tls: Option<TlsFiles>,
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
    /// `allowed_cidrs`.
    pub allowed_cidrs: Option<Vec<IpNet>>,
    /// `[pool]`, if it runs.
    pub pool: Option<PoolSettings>,
    /// `[gateway]`, if it runs; a pool turns it on.
    pub gateway: Option<GatewaySettings>,
    /// `[[providers]]` that are enabled.
    pub providers: Vec<ProviderSetting>,
    /// `[virtual_models]`.
    pub virtual_models: Vec<VirtualModel>,
    /// `[telemetry]`, if anything is sent.
    pub telemetry: Option<TelemetrySettings>,
    /// `[admin]`, if it listens.
    pub admin: Option<AdminSettings>,
    /// Name of the file, without its folder; empty without one.
    pub file: String,
    /// What is odd in the file and still usable.
    pub warnings: Vec<Problem>,
    /// A sentence a variable of a section that is ignored.
    pub variables: Vec<String>,
    /// The line of every key that was written, by its path: `pool.listen`, `nodes[0].url`.
    pub written: BTreeMap<String, usize>,
    /// Keys of sections that a variable set, with its name.
    pub from_env: BTreeMap<String, String>,
}

impl Config {
    /// Puts `folder` in front of every relative path.
    fn rebase(&mut self, folder: &Path) {
        let tls = self.engines.iter_mut().filter_map(|e| e.tls.as_mut());
        let tls = tls
            .chain(self.gateway.iter_mut().filter_map(|g| g.tls.as_mut()))
            .chain(self.pool.iter_mut().filter_map(|p| p.tls.as_mut()));
        for files in tls {
            files.cert = folder.join(&files.cert);
            files.key = folder.join(&files.key);
        }
        if let Some(file) = self.pool.as_mut().and_then(|p| p.usage_file.as_mut()) {
            *file = folder.join(&*file);
        }
    }
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
    /// What would be odd in it if it were usable.
    pub warnings: Vec<Problem>,
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
        for line in placed(&self.file, &self.problems) {
            writeln!(f, "{line}")?;
        }
        f.write_str(&self.count())
    }
}

/// `FILE:LINE:COLUMN  text` for each, the texts below each other.
pub fn placed(file: &str, problems: &[Problem]) -> Vec<String> {
    let place = |p: &Problem| format!("{file}:{}:{}", p.line, p.column);
    let width = problems.iter().map(|p| place(p).len()).max().unwrap_or(0);
    let line = |p: &Problem| format!("{:width$}  {}", place(p), p.message);
    problems.iter().map(line).collect()
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
            let mut config = parse(&file, &text, env).map_err(FileError::Invalid)?;
            config.rebase(path.parent().unwrap_or(Path::new("")));
            Ok(config)
        },
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && !named => Ok(Config::default()),
        Err(e) => Err(FileError::Unreadable(path.to_owned(), e)),
    }
}

/// The values of a text, or every problem in it.
///
/// # Errors
/// All problems, by their places.
pub fn parse(file: &str, text: &str, env: Env) -> Result<Config, Problems> {
    let mut reader = Reader::new(text, env);
    let (table, errors) = DeTable::parse_recoverable(text);
    // What stands behind broken syntax is guesswork: its meaning is not looked at.
    let mut config = if errors.is_empty() {
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
    let Findings {
        problems,
        warnings,
        written,
        from_env,
        variables,
    } = reader.finish();
    if !problems.is_empty() {
        let file = file.to_owned();
        return Err(Problems {
            file,
            problems,
            warnings,
        });
    }
    file.clone_into(&mut config.file);
    config.warnings = warnings;
    config.written = written;
    config.from_env = from_env;
    config.variables = variables;
    Ok(config)
}

fn document(r: &mut Reader, t: &DeTable) -> Config {
    let mut s = r.section(t, &keys::TOP, 0, "", None);
    let mut config = Config {
        policy: s.value("policy", &kinds::word(&POLICIES)),
        response_header_timeout: s.span("response_header_timeout"),
        max_request_bytes: s.value("max_request_bytes", &kinds::size),
        allowed_hosts: s.list("allowed_hosts", &kinds::host),
        allowed_origins: s.list("allowed_origins", &kinds::origin),
        allowed_cidrs: s.list("allowed_cidrs", &kinds::cidr),
        stream_idle_timeout: s.span("stream_idle_timeout"),
        drain_timeout: s.span("drain_timeout"),
        commit_gate_first_byte: s.value("commit_gate", &kinds::word(&GATES)),
        response_headers: s.switch("response_headers"),
        ..Config::default()
    };
    if let Some((at, log)) = r.table(t, "log") {
        let mut s = r.section(log, &keys::LOG, at, "log.", None);
        config.log_level = s.value("level", &kinds::word(&LEVELS));
        config.log_format = s.value("format", &kinds::word(&FORMATS));
    }
    config.engines = engines(r, t);
    config.nodes = nodes(r, t);
    config.pool = pool::pool(r, t);
    let on = |e: &&EngineConfig| e.enabled;
    let ports: Vec<_> = config
        .engines
        .iter()
        .filter(on)
        .filter_map(|e| e.port)
        .collect();
    config.gateway = match gateway::gateway(r, t, &ports) {
        Gateway::On(settings) => Some(settings),
        Gateway::Off => None,
        // Most pool nodes have no facade of their own.
        Gateway::Unsaid => config.pool.is_some().then_some(GatewaySettings {
            port: None,
            tls: None,
        }),
    };
    let (providers, off) = gateway::providers(r, t, &config.nodes);
    config.providers = providers;
    let known = Known {
        providers: &config.providers,
        off: &off,
        nodes: &config.nodes,
        pool: config.pool.is_some(),
    };
    config.virtual_models = gateway::virtual_models(r, t, &known);
    for key in ["providers", "virtual_models"] {
        if let (None, Some(value)) = (&config.gateway, t.get(key)) {
            let text = format!("`{key}` is used by the gateway only, and there is no [gateway]");
            r.warn(value.span().start, text);
        }
    }
    config.telemetry = telemetry::telemetry(r, t);
    config.admin = telemetry::admin(r, t);
    config
}

fn engines(r: &mut Reader, t: &DeTable) -> Vec<EngineConfig> {
    let Some((_, engines)) = r.table(t, "engines") else {
        return Vec::new();
    };
    let ids: Vec<_> = EngineId::all().map(EngineId::as_str).collect();
    r.known(engines, "in [engines]", &ids);
    let mut ports: Vec<u16> = Vec::new();
    let mut read = Vec::new();
    for engine in EngineId::all() {
        let Some((at, table)) = r.table(engines, engine.as_str()) else {
            continue;
        };
        let (path, place) = (
            format!("engines.{engine}."),
            format!("in [engines.{engine}]"),
        );
        let mut s = r.section(table, &keys::ENGINE, at, &path, Some(&place));
        let enabled = s.switch("enabled").unwrap_or(true);
        let port = s.port("port");
        let tls = gateway::tls_files(&mut s);
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
            tls,
        });
    }
    read
}

fn nodes(r: &mut Reader, t: &DeTable) -> Vec<NodeSetting> {
    let mut read: Vec<NodeSetting> = Vec::new();
    for (i, (at, table)) in r.tables(t, "nodes").into_iter().enumerate() {
        let path = format!("nodes[{i}].");
        let mut s = r.section(table, &keys::NODE, at, &path, None);
        if let Some((enabled, node)) = node(&mut s) {
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

fn node(s: &mut Section) -> Option<(bool, NodeSetting)> {
    let engine = s.value("engine", &kinds::engine);
    let url = s.value("url", &kinds::node_url);
    let name = s.value("name", &kinds::node_name);
    let models = s.list("models", &kinds::not_empty);
    let api_key = s.value("api_key", &kinds::secret);
    let slots = s.number("slots");
    let weight = s.number("weight");
    let enabled = s.switch("enabled").unwrap_or(true);
    let peer = s.spanned("peer", &kinds::uuid);
    if let (Some((at, _)), None) = (&peer, &models) {
        let text = "`peer` needs `models` beside it: another proxy is not asked for them";
        s.reader.complain(*at, text);
    }
    let peer = peer.map(|(_, peer)| peer);
    let node = NodeSetting {
        engine: engine?,
        url: url?,
        name,
        models,
        api_key,
        slots,
        weight,
        peer,
    };
    Some((enabled, node))
}

#[cfg(test)]
mod tests;
