//! What the daemon runs with: flag beats environment beats file beats default (product 13.18).
//!
//! Owns: that order, the defaults, what flags may say together, the meaning of variables.
//! Leaves to others: the file (`file`), the command line and each flag's own form (`cmd`).
//!
//! A bad flag or file is an error. A bad variable is a warning and counts as absent, since a
//! supervisor that passes its environment on must not make us fail at every start (product 13.10).

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use super::file::{self, Config, FileError, NodeSetting};
use super::gateway::{GatewaySettings, ProviderSetting, TlsFiles, VirtualModel};
use super::kinds::{self, pick};
use super::node_url::NodeUrl;
use super::paths::{self, Env};
use super::pool::PoolSettings;
use super::telemetry::{AdminSettings, TelemetrySettings};
use crate::rules::addresses::loopback;
use crate::rules::budget::{Cap, MAX_REQUEST_BYTES, RESPONSE_TIMEOUT};
use crate::rules::engine::EngineId;
use crate::rules::log_level::{LogFormat, LogLevel};
use crate::rules::policy::Policy;
use crate::rules::port::MAX_ALIASES;
use crate::rules::units::parse_duration;

/// How long a standalone daemon waits for its requests at SIGTERM when nothing else is said.
const DRAIN: Duration = Duration::from_secs(10 * 60);

const HEADER_TIMEOUT_VARIABLE: &str = "NVPAIR_PROXY_RESPONSE_HEADER_TIMEOUT";
const HOSTS_VARIABLE: &str = "NVPAIR_PROXY_ALLOWED_HOSTS";
const ORIGINS_VARIABLE: &str = "NVPAIR_PROXY_ALLOWED_ORIGINS";
const LOG_LEVEL_VARIABLE: &str = "NVPAIR_LOG_LEVEL";

/// The flags of `serve`.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `--config FILE`.
    pub config: Option<PathBuf>,
    /// `--engine NAME[=PORT]`, each.
    pub engines: Vec<(EngineId, Option<u16>)>,
    /// `--node ENGINE=URL`, each.
    pub nodes: Vec<(EngineId, NodeUrl)>,
    /// `--alias ENGINE=ADDR:PORT`, each.
    pub aliases: Vec<(EngineId, SocketAddr)>,
    /// `--response-header-timeout D`.
    pub response_header_timeout: Option<Cap>,
    /// `--max-request-bytes N`.
    pub max_request_bytes: Option<u64>,
    /// `--log-level L`, or what `-v` and `-q` say.
    pub log_level: Option<LogLevel>,
    /// `--log-format F`.
    pub log_format: Option<LogFormat>,
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
    /// Extra loopback addresses.
    pub aliases: Vec<(EngineId, SocketAddr)>,
    /// The loopback address in an engine's host variable: a proposal for an alias, and a place to
    /// look for the engine itself.
    pub host_variables: Vec<(EngineId, SocketAddr)>,
    /// How a node is chosen standalone.
    pub policy: Policy,
    /// Time to an answer's headers, and again to its first content.
    pub response_header_timeout: Cap,
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
    /// Silence after commit that ends a stream.
    pub stream_idle_timeout: Cap,
    /// How long SIGTERM waits for requests.
    pub drain_timeout: Duration,
    /// Threshold of the log, if anybody said one.
    pub log_level: Option<LogLevel>,
    /// Form of the log.
    pub log_format: LogFormat,
    /// Networks whose callers may use a facade with a client key; empty = loopback only.
    pub allowed_cidrs: Vec<IpNet>,
    /// Certificates of the engines' facades for callers beyond loopback.
    pub engine_tls: Vec<(EngineId, TlsFiles)>,
    /// The gateway, if it runs.
    pub gateway: Option<GatewaySettings>,
    /// What the gateway falls back to, in the order of the file.
    pub providers: Vec<ProviderSetting>,
    /// The gateway's virtual models, by name.
    pub virtual_models: Vec<VirtualModel>,
    /// The pool, if it runs.
    pub pool: Option<PoolSettings>,
    /// Where traces and metrics go, if anywhere.
    pub telemetry: Option<TelemetrySettings>,
    /// The admin listener, if there is one.
    pub admin: Option<AdminSettings>,
    /// Keys of the top level and the log that a variable set, with its name.
    pub from_env: Vec<(&'static str, &'static str)>,
    /// For a person: variables that were ignored and what is odd in the file, and why.
    pub warnings: Vec<String>,
}

impl Settings {
    /// Certificates of the facades, the gateway's included, for callers beyond loopback.
    pub fn certificates(&self) -> Vec<(EngineId, TlsFiles)> {
        let gateway = self.gateway.as_ref().and_then(|g| g.tls.clone());
        let gateway = gateway.map(|tls| (EngineId::GATEWAY, tls));
        self.engine_tls.iter().cloned().chain(gateway).collect()
    }
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

/// The settings of a start under a broker: a bad file is a warning there, since an exit would be a
/// crash to the parent. Bad flags stay errors.
pub fn load_brokered(flags: &Flags, env: Env) -> Result<Settings, SettingsError> {
    match read(flags, env) {
        Ok(config) => resolve(flags, &config, env),
        Err(e) => resolve(flags, &Config::default(), env).map(|mut settings| {
            let ignored = format!("the configuration file is not used: {e}");
            settings.warnings.push(ignored);
            settings
        }),
    }
    .map_err(|flags| SettingsError { flags, file: None })
}

/// The file alone, with the lines of its keys: what [`load`] would read.
///
/// # Errors
/// It is named and not there, unreadable or invalid.
pub fn read(flags: &Flags, env: Env) -> Result<Config, FileError> {
    match (&flags.config, paths::config_file(env)) {
        (Some(named), _) => file::load(named, true, env),
        (None, Some(default)) => file::load(&default, false, env),
        (None, None) => Ok(Config::default()),
    }
}

/// Puts flags over environment over file over defaults.
pub fn resolve(flags: &Flags, config: &Config, env: Env) -> Result<Settings, Vec<String>> {
    let mut errors = Vec::new();
    let mut v = Variables {
        env,
        used: Vec::new(),
        warnings: Vec::new(),
    };
    let timeout = v.one("response_header_timeout", HEADER_TIMEOUT_VARIABLE, |t| {
        parse_duration(t).map_err(|e| e.to_string())
    });
    let timeout = timeout.or(config.response_header_timeout);
    let timeout = flags
        .response_header_timeout
        .or(timeout.map(Cap::from_setting));
    let level = v.one("log.level", LOG_LEVEL_VARIABLE, |t| pick(&file::LEVELS, t));
    let hosts = v.list("allowed_hosts", HOSTS_VARIABLE, kinds::host_name);
    let origins = v.list("allowed_origins", ORIGINS_VARIABLE, kinds::origin_name);
    let engines = engines(&mut errors, flags, config);
    let mut settings = Settings {
        gateway: gateway(&engines, config),
        engines,
        nodes: nodes(flags, config),
        aliases: aliases(&mut errors, flags),
        host_variables: host_variables(env),
        policy: config.policy.unwrap_or(Policy::Weighted),
        response_header_timeout: timeout.unwrap_or(Cap::After(RESPONSE_TIMEOUT)),
        max_request_bytes: flags
            .max_request_bytes
            .or(config.max_request_bytes)
            .unwrap_or(MAX_REQUEST_BYTES),
        allowed_hosts: hosts
            .or_else(|| config.allowed_hosts.clone())
            .unwrap_or_default(),
        allowed_origins: origins.or_else(|| config.allowed_origins.clone()),
        commit_gate_first_byte: config.commit_gate_first_byte.unwrap_or(false),
        response_headers: config.response_headers.unwrap_or(false),
        stream_idle_timeout: config
            .stream_idle_timeout
            .map_or(Cap::Off, Cap::from_setting),
        drain_timeout: config.drain_timeout.unwrap_or(DRAIN),
        log_level: flags.log_level.or(level).or(config.log_level),
        log_format: flags.log_format.or(config.log_format).unwrap_or_default(),
        allowed_cidrs: config.allowed_cidrs.clone().unwrap_or_default(),
        engine_tls: engine_tls(config),
        providers: config.providers.clone(),
        virtual_models: config.virtual_models.clone(),
        pool: config.pool.clone(),
        telemetry: config.telemetry.clone(),
        admin: config.admin,
        from_env: v.used,
        warnings: v.warnings,
    };
    settings.warnings.extend(without_effect(&settings, config));
    settings.warnings.extend(config.variables.iter().cloned());
    settings
        .warnings
        .extend(file::placed(&config.file, &config.warnings));
    if errors.is_empty() {
        Ok(settings)
    } else {
        Err(errors)
    }
}

/// What is said and of which nothing comes in this start: whoever wrote it shall know.
fn without_effect(s: &Settings, config: &Config) -> Vec<String> {
    let mut told = Vec::new();
    // Without `[gateway]` the file's own warning has the line.
    if config.gateway.is_some() && s.gateway.is_none() {
        let parts = [
            ("virtual_models", s.virtual_models.is_empty()),
            ("providers", s.providers.is_empty()),
        ];
        for (name, _) in parts.iter().filter(|(_, empty)| !empty) {
            told.push(format!(
                "{name}: not used, since --engine names other facades than the gateway"
            ));
        }
    }
    if s.telemetry.is_some() && !cfg!(feature = "otlp") {
        told.push("telemetry: this build sends nothing; it was made without `otlp`".into());
    }
    told
}

/// Named engines only, if any is named; else all that the file does not turn off.
fn engines(errors: &mut Vec<String>, flags: &Flags, config: &Config) -> Vec<EngineSetting> {
    let mut named: Vec<EngineSetting> = Vec::new();
    for (engine, port) in &flags.engines {
        let engine = *engine;
        let port = port.map_or_else(|| from_file(config, engine), PortAsk::Exact);
        let taken = |e: &&EngineSetting| e.port == port && matches!(port, PortAsk::Exact(_));
        if named.iter().any(|e| e.engine == engine) {
            errors.push(format!("--engine: {engine} is named twice"));
        } else if let Some(other) = named.iter().find(taken) {
            let other = other.engine;
            errors.push(format!(
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
        let gateway = config.gateway.as_ref().map(|_| EngineId::GATEWAY);
        named = all
            .chain(gateway)
            .map(|engine| EngineSetting {
                engine,
                port: from_file(config, engine),
            })
            .collect();
    }
    named.sort_by_key(|e| e.engine);
    named
}

fn engine_tls(config: &Config) -> Vec<(EngineId, TlsFiles)> {
    let with = |e: &file::EngineConfig| Some((e.engine, e.tls.clone()?));
    config.engines.iter().filter_map(with).collect()
}

/// The gateway's settings where it runs: it does if a flag names it, else if the file has it and no
/// flag names others.
fn gateway(named: &[EngineSetting], config: &Config) -> Option<GatewaySettings> {
    let runs = named.iter().any(|e| e.engine.is_gateway());
    let unsaid = || GatewaySettings {
        port: None,
        tls: None,
    };
    runs.then(|| config.gateway.clone().unwrap_or_else(unsaid))
}

fn from_file(config: &Config, engine: EngineId) -> PortAsk {
    let port = match engine.is_gateway() {
        true => config.gateway.as_ref().and_then(|g| g.port),
        false => {
            let named = config.engines.iter().find(|e| e.engine == engine);
            named.and_then(|e| e.port)
        },
    };
    port.map_or(PortAsk::Default, PortAsk::Requested)
}

/// A flag that repeats a node of the file adds nothing: the file knows more of it.
fn nodes(flags: &Flags, config: &Config) -> Vec<NodeSetting> {
    let mut nodes = config.nodes.clone();
    for (engine, url) in &flags.nodes {
        if !nodes.iter().any(|n| n.engine == *engine && n.url == *url) {
            nodes.push(NodeSetting::bare(*engine, url.clone()));
        }
    }
    nodes
}

fn aliases(errors: &mut Vec<String>, flags: &Flags) -> Vec<(EngineId, SocketAddr)> {
    let mut read: Vec<(EngineId, SocketAddr)> = Vec::new();
    for (engine, address) in &flags.aliases {
        let same: Vec<_> = read.iter().filter(|(e, _)| e == engine).collect();
        if same.iter().any(|(_, a)| a == address) {
            continue;
        }
        if same.len() == MAX_ALIASES || same.iter().any(|(_, a)| a.port() != address.port()) {
            let what = "at most two alias addresses, both on one port";
            errors.push(format!("--alias: {engine} takes {what}"));
            continue;
        }
        read.push((*engine, *address));
    }
    read
}

/// Loopback addresses in the engines' host variables. Such a variable may also name a LAN or
/// wildcard address, or nothing we understand: then it says nothing to us.
fn host_variables(env: Env) -> Vec<(EngineId, SocketAddr)> {
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
            Some((host, port)) if !whole => (host, port.parse().ok().filter(|p| *p > 0)?),
            _ => (rest, default),
        };
        let host = if host.is_empty() { "localhost" } else { host };
        Some((engine, SocketAddr::new(loopback(host)?, port)))
    };
    EngineId::all().filter_map(one).collect()
}

/// Reads variables and keeps a warning for each that is ignored.
struct Variables<'e> {
    env: Env<'e>,
    /// The keys that were set, each with its variable.
    used: Vec<(&'static str, &'static str)>,
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

    fn one<T>(
        &mut self,
        key: &'static str,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = self.text(name)?;
        match parse(text.trim()) {
            Ok(value) => {
                self.used.push((key, name));
                Some(value)
            },
            Err(e) => {
                self.warnings.push(format!("{name} is ignored: {e}"));
                None
            },
        }
    }

    /// A list between commas. A bad entry is left out: both lists only ever admit.
    fn list(
        &mut self,
        key: &'static str,
        name: &'static str,
        parse: impl Fn(&str) -> Result<String, String>,
    ) -> Option<Vec<String>> {
        let text = self.text(name)?;
        self.used.push((key, name));
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
