//! What the daemon runs with: flag beats environment beats file beats default (product 13.18).
//!
//! Owns: that order, the defaults, and the meaning of flags and variables.
//! Leaves to others: the file (`file`), the command line's shape (`cmd`).
//!
//! A bad flag or file is an error. A bad variable is a warning and counts as absent, since a
//! supervisor that passes its environment on must not make us fail at every start (product 13.10).

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::duration::{parse_duration, parse_size};
use super::file::{self, Config, FileError, LogFormat, LogLevel, NodeSetting, Policy};
use super::node_url::{NodeUrl, authority};
use super::paths::{self, Env};
use super::reader::pick;
use crate::rules::engine::EngineId;

/// Time to an answer's headers when nothing else is said.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// What is buffered of a request for replay when nothing else is said.
const MAX_REQUEST: u64 = 128 << 20;
/// How long a standalone daemon waits for its requests at SIGTERM when nothing else is said.
const DRAIN: Duration = Duration::from_secs(10 * 60);

const HEADER_TIMEOUT_VARIABLE: &str = "NVPAIR_PROXY_RESPONSE_HEADER_TIMEOUT";
const HOSTS_VARIABLE: &str = "NVPAIR_PROXY_ALLOWED_HOSTS";
const ORIGINS_VARIABLE: &str = "NVPAIR_PROXY_ALLOWED_ORIGINS";
const LOG_LEVEL_VARIABLE: &str = "NVPAIR_LOG_LEVEL";

/// The flags of `serve`, as typed. No `Debug`: a mistyped URL may hold a password.
#[derive(Clone, Default)]
pub struct Flags {
    /// `--config FILE`.
    pub config: Option<PathBuf>,
    /// `--engine NAME[=PORT]`, each.
    pub engines: Vec<String>,
    /// `--node ENGINE=URL`, each.
    pub nodes: Vec<String>,
    /// `--alias ENGINE=ADDR:PORT`, each.
    pub aliases: Vec<String>,
    /// `--response-header-timeout D`.
    pub response_header_timeout: Option<String>,
    /// `--max-request-bytes N`.
    pub max_request_bytes: Option<String>,
    /// `--log-level L`.
    pub log_level: Option<String>,
    /// `--log-format F`.
    pub log_format: Option<String>,
}

/// How firmly a facade's port is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortAsk {
    /// By a flag: this one or none, whatever was saved.
    Exact(u16),
    /// By the file: yields to a saved one.
    Requested(u16),
    /// Not at all: the engine's standalone port, yields to a saved one.
    Default,
}

/// One facade to enable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineSetting {
    /// Which.
    pub engine: EngineId,
    /// Where.
    pub port: PortAsk,
}

/// Everything the daemon was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Facades, in table order.
    pub engines: Vec<EngineSetting>,
    /// Named nodes: those of the file, then those of flags.
    pub nodes: Vec<NodeSetting>,
    /// Extra loopback addresses, `ADDR:PORT`.
    pub aliases: Vec<(EngineId, String)>,
    /// The loopback address in an engine's host variable: a proposal for an alias, and a place to
    /// look for the engine itself.
    pub host_variables: Vec<(EngineId, String)>,
    /// How a node is chosen.
    pub policy: Policy,
    /// Time to an answer's headers and to its first content; `None` = no limit.
    pub response_header_timeout: Option<Duration>,
    /// Bytes of a request that are buffered for replay.
    pub max_request_bytes: u64,
    /// Names that the `Host` gate admits besides this machine's own.
    pub allowed_hosts: Vec<String>,
    /// Browser origins that are admitted; `None` = the engines decide.
    pub allowed_origins: Option<Vec<String>>,
    /// Whether any byte commits an answer, framing too.
    pub commit_gate_first_byte: bool,
    /// Whether answers get our `X-Nvpair-*` headers.
    pub response_headers: bool,
    /// Silence after commit that ends a stream; `None` = no limit.
    pub stream_idle_timeout: Option<Duration>,
    /// How long SIGTERM waits for requests.
    pub drain_timeout: Duration,
    /// Threshold of the log.
    pub log_level: LogLevel,
    /// Form of the log.
    pub log_format: LogFormat,
    /// For a person: variables that were ignored, and why.
    pub warnings: Vec<String>,
}

/// Why there are no settings: every bad flag, and what is wrong with the file.
#[derive(Debug, Default)]
pub struct SettingsError {
    /// One sentence a bad flag.
    pub flags: Vec<String>,
    /// The file.
    pub file: Option<FileError>,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.iter().map(ToString::to_string);
        let parts: Vec<String> = self.flags.iter().cloned().chain(file).collect();
        f.write_str(&parts.join("\n"))
    }
}

impl std::error::Error for SettingsError {}

/// The settings of this start: reads the file that `--config` names, else the default one if it is
/// there. All problems of flags and file together.
pub fn load(flags: &Flags, env: Env) -> Result<Settings, SettingsError> {
    let (config, file) = match read(flags, env) {
        Ok(config) => (config, None),
        Err(e) => (Config::default(), Some(e)),
    };
    match (resolve(flags, &config, env), file) {
        (Ok(settings), None) => Ok(settings),
        (Ok(_), file) => Err(SettingsError {
            flags: Vec::new(),
            file,
        }),
        (Err(flags), file) => Err(SettingsError { flags, file }),
    }
}

fn read(flags: &Flags, env: Env) -> Result<Config, FileError> {
    match (&flags.config, paths::config_file(env)) {
        (Some(named), _) => file::load(named, true, env),
        (None, Some(default)) => file::load(&default, false, env),
        (None, None) => Ok(Config::default()),
    }
}

/// Puts flags over environment over file over defaults. Under a broker, which must not see us
/// exit over a file, call this with an empty `config` where [`load`] failed for the file alone.
pub fn resolve(flags: &Flags, config: &Config, env: Env) -> Result<Settings, Vec<String>> {
    let mut f = FlagReader::default();
    let mut v = Variables {
        env,
        warnings: Vec::new(),
    };
    let timeout = f.one(
        "--response-header-timeout",
        &flags.response_header_timeout,
        parse_duration,
    );
    let size = f.one("--max-request-bytes", &flags.max_request_bytes, parse_size);
    let level = f.one("--log-level", &flags.log_level, |t| pick(&file::LEVELS, t));
    let format = f.one("--log-format", &flags.log_format, |t| {
        pick(&file::FORMATS, t)
    });
    let timeout_var = v.one(HEADER_TIMEOUT_VARIABLE, parse_duration);
    let level_var = v.one(LOG_LEVEL_VARIABLE, |t| pick(&file::LEVELS, t));
    let hosts = v.list(HOSTS_VARIABLE, file::host_name);
    let origins = v.list(ORIGINS_VARIABLE, file::origin_name);
    let timeout = timeout.or(timeout_var).or(config.response_header_timeout);
    let settings = Settings {
        engines: engines(&mut f, flags, config),
        nodes: nodes(&mut f, flags, config),
        aliases: aliases(&mut f, flags),
        host_variables: host_variables(env),
        policy: config.policy.unwrap_or_default(),
        response_header_timeout: on(timeout.unwrap_or(HEADER_TIMEOUT)),
        max_request_bytes: size.or(config.max_request_bytes).unwrap_or(MAX_REQUEST),
        allowed_hosts: hosts
            .or_else(|| config.allowed_hosts.clone())
            .unwrap_or_default(),
        allowed_origins: origins.or_else(|| config.allowed_origins.clone()),
        commit_gate_first_byte: config.commit_gate_first_byte.unwrap_or(false),
        response_headers: config.response_headers.unwrap_or(false),
        stream_idle_timeout: config.stream_idle_timeout.and_then(on),
        drain_timeout: config.drain_timeout.unwrap_or(DRAIN),
        log_level: level.or(level_var).or(config.log_level).unwrap_or_default(),
        log_format: format.or(config.log_format).unwrap_or_default(),
        warnings: v.warnings,
    };
    if f.errors.is_empty() {
        Ok(settings)
    } else {
        Err(f.errors)
    }
}

/// Zero is how people write "off"; past this point off has no number.
fn on(limit: Duration) -> Option<Duration> {
    Some(limit).filter(|d| !d.is_zero())
}

/// Named engines only, if any is named; else all that the file does not turn off.
fn engines(f: &mut FlagReader, flags: &Flags, config: &Config) -> Vec<EngineSetting> {
    let mut named: Vec<EngineSetting> = Vec::new();
    for spec in &flags.engines {
        let Some((engine, port)) = f.parsed("--engine", engine_spec(spec)) else {
            continue;
        };
        let port = port.map_or_else(|| from_file(config, engine), PortAsk::Exact);
        let taken = |e: &&EngineSetting| e.port == port && matches!(port, PortAsk::Exact(_));
        if named.iter().any(|e| e.engine == engine) {
            f.errors.push(format!("--engine: {engine} is named twice"));
        } else if let Some(other) = named.iter().find(taken) {
            let other = other.engine;
            f.errors.push(format!(
                "--engine: {engine} and {other} ask for the same port"
            ));
        } else {
            named.push(EngineSetting { engine, port });
        }
    }
    let off = |engine| {
        config
            .engines
            .iter()
            .any(|e| e.engine == engine && !e.enabled)
    };
    if flags.engines.is_empty() {
        let all = EngineId::all().filter(|e| !off(*e));
        named = all
            .map(|engine| EngineSetting {
                engine,
                port: from_file(config, engine),
            })
            .collect();
    }
    named.sort_by_key(|e| e.engine);
    named
}

fn from_file(config: &Config, engine: EngineId) -> PortAsk {
    let port = config
        .engines
        .iter()
        .find(|e| e.engine == engine)
        .and_then(|e| e.port);
    port.map_or(PortAsk::Default, PortAsk::Requested)
}

fn engine_spec(spec: &str) -> Result<(EngineId, Option<u16>), String> {
    let (name, port) = match spec.split_once('=') {
        Some((name, port)) => (name, Some(port)),
        None => (spec, None),
    };
    let engine = file::engine_named(name)?;
    Ok((engine, port.map(port_number).transpose()?))
}

fn port_number(text: &str) -> Result<u16, String> {
    let port = text.parse::<u16>().ok().filter(|p| *p != 0);
    port.ok_or_else(|| format!("port {text} is not in 1..65535"))
}

/// A flag that repeats a node of the file adds nothing: the file knows more of it.
fn nodes(f: &mut FlagReader, flags: &Flags, config: &Config) -> Vec<NodeSetting> {
    let mut nodes = config.nodes.clone();
    for spec in &flags.nodes {
        let node = f.parsed("--node", node_spec(spec));
        let known = |n: &NodeSetting| nodes.iter().any(|o| o.engine == n.engine && o.url == n.url);
        nodes.extend(node.filter(|n| !known(n)));
    }
    nodes
}

fn node_spec(spec: &str) -> Result<NodeSetting, String> {
    let (engine, url) = spec
        .split_once('=')
        .ok_or("write it as ENGINE=http://HOST:PORT")?;
    Ok(NodeSetting::bare(
        file::engine_named(engine)?,
        NodeUrl::parse(url)?,
    ))
}

fn aliases(f: &mut FlagReader, flags: &Flags) -> Vec<(EngineId, String)> {
    let mut read: Vec<(EngineId, String, u16)> = Vec::new();
    for spec in &flags.aliases {
        let Some((engine, address, port)) = f.parsed("--alias", alias_spec(spec)) else {
            continue;
        };
        let same: Vec<_> = read.iter().filter(|(e, ..)| *e == engine).collect();
        if same.iter().any(|(_, a, _)| *a == address) {
            continue;
        }
        if same.len() == 2 || same.iter().any(|(_, _, p)| *p != port) {
            let what = "at most two alias addresses, both on one port";
            f.errors.push(format!("--alias: {engine} takes {what}"));
            continue;
        }
        read.push((engine, address, port));
    }
    read.into_iter()
        .map(|(engine, address, _)| (engine, address))
        .collect()
}

fn alias_spec(spec: &str) -> Result<(EngineId, String, u16), String> {
    let (engine, address) = spec.split_once('=').ok_or("write it as ENGINE=ADDR:PORT")?;
    let engine = file::engine_named(engine)?;
    if !engine.spec().aliases {
        return Err(format!(
            "{} takes no alias addresses",
            engine.spec().display
        ));
    }
    let (host, port) = address
        .rsplit_once(':')
        .ok_or("write it as ENGINE=ADDR:PORT")?;
    let port = port_number(port)?;
    let host = loopback(host).ok_or_else(|| format!("{host:?} is not a loopback address"))?;
    Ok((engine, authority(&host, port), port))
}

/// The loopback address that `host` is, if it is one; `localhost` is 127.0.0.1.
fn loopback(host: &str) -> Option<String> {
    let bare = host
        .strip_prefix('[')
        .and_then(|h| h.strip_suffix(']'))
        .unwrap_or(host);
    if bare
        .strip_suffix('.')
        .unwrap_or(bare)
        .eq_ignore_ascii_case("localhost")
    {
        return Some("127.0.0.1".to_owned());
    }
    let ip: IpAddr = bare.parse().ok()?;
    ip.is_loopback().then(|| ip.to_string())
}

/// Loopback addresses in the engines' host variables. Such a variable may also name a LAN or
/// wildcard address, or nothing we understand: then it says nothing to us.
fn host_variables(env: Env) -> Vec<(EngineId, String)> {
    let one = |engine: EngineId| {
        let value = env(engine.spec().host_variable?)?.into_string().ok()?;
        let value = value.trim();
        let (rest, default) = match value.split_once("://") {
            Some(("http", rest)) => (rest, 80),
            Some(_) => return None,
            None => (value, engine.spec().facade_port),
        };
        let rest = rest.split('/').next().unwrap_or(rest);
        let whole = rest.starts_with('[') && rest.ends_with(']');
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !whole => (host, port_number(port).ok()?),
            _ => (rest, default),
        };
        let host = if host.is_empty() {
            "127.0.0.1".to_owned()
        } else {
            loopback(host)?
        };
        Some((engine, authority(&host, port)))
    };
    EngineId::all().filter_map(one).collect()
}

/// Reads flags and keeps what is wrong with them.
#[derive(Default)]
struct FlagReader {
    errors: Vec<String>,
}

impl FlagReader {
    fn parsed<T>(&mut self, flag: &str, read: Result<T, String>) -> Option<T> {
        read.map_err(|e| self.errors.push(format!("{flag}: {e}")))
            .ok()
    }

    fn one<T>(
        &mut self,
        flag: &str,
        value: &Option<String>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        self.parsed(flag, parse(value.as_deref()?))
    }
}

/// Reads variables and keeps a warning for each that is ignored.
struct Variables<'e> {
    env: Env<'e>,
    warnings: Vec<String>,
}

impl Variables<'_> {
    fn text(&mut self, name: &str) -> Option<String> {
        let value = (self.env)(name).filter(|v| !v.is_empty())?;
        let text = value.into_string();
        text.map_err(|_| {
            self.warnings
                .push(format!("{name} is not UTF-8 and is ignored"))
        })
        .ok()
    }

    fn one<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let text = self.text(name)?;
        let warn = |e| self.warnings.push(format!("{name} is ignored: {e}"));
        parse(text.trim()).map_err(warn).ok()
    }

    /// A list between commas. A bad entry is left out: both lists only ever admit.
    fn list(
        &mut self,
        name: &str,
        parse: impl Fn(&str) -> Result<String, String>,
    ) -> Option<Vec<String>> {
        let text = self.text(name)?;
        let mut read = Vec::new();
        for entry in text.split(',').map(str::trim).filter(|e| !e.is_empty()) {
            match parse(entry) {
                Ok(value) => read.push(value),
                Err(e) => self
                    .warnings
                    .push(format!("an entry of {name} is ignored: {e}")),
            }
        }
        Some(read)
    }
}

#[cfg(test)]
mod tests;
