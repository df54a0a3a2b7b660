//! `serve` on the command line.
//!
//! Owns: its flags, who drives the daemon, and the values that only it takes.
//! Leaves to others: running it (`crate::serve`).

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Args, Command};
use nvpair_proxy::config::kinds::{engine_named as engine, facade_named};
use nvpair_proxy::config::node_url::NodeUrl;
use nvpair_proxy::config::settings::Flags;
use nvpair_proxy::rules::budget::Cap;
use nvpair_proxy::rules::engine::{EngineId, known_engines};
use nvpair_proxy::rules::log_level::{LogFormat, LogLevel};
use nvpair_proxy::rules::{port, units};

use super::Globals;

const SERVE_EXAMPLES: &str = "\
Examples:
  nvpair-proxy serve                              engines of this machine, all three facades
  nvpair-proxy serve --engine ollama=11500        one facade on a chosen port
  nvpair-proxy serve --node ollama=http://tower.lan:11434 --node llamacpp=http://den:8080
  nvpair-proxy serve --demo                       sample engines, to look around
  nvpair-proxy serve --broker                     driven over stdin and stdout by a parent

With --json: {schema_version, version, mode, socket, facades: [{engine, port, aliases: [], url,
  nodes: []}], warnings: []}
once it serves, in the place of the table; under a parent nothing but the link's frames.";

/// `serve`.
#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub struct ServeArgs {
    /// Be driven by a parent: JSON-RPC lines on stdin and stdout
    #[arg(long)]
    pub broker: bool,
    /// Be driven by a parent that listens on this socket; implies --broker
    #[arg(long, value_name = "ENDPOINT")]
    pub ipc: Option<String>,
    /// Configuration file; a named one must exist
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Enable this engine's facade only (repeatable); a port here beats the remembered one
    #[arg(long = "engine", value_name = "NAME[=PORT]", value_parser = engine_port)]
    pub engines: Vec<(EngineId, Option<u16>)>,
    /// Add a node (repeatable), such as ollama=http://tower.lan:11434
    #[arg(long = "node", value_name = "ENGINE=URL", value_parser = EngineNode)]
    pub nodes: Vec<(EngineId, NodeUrl)>,
    /// Folder of the cluster's certificates and pins
    #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub cluster_dir: Option<PathBuf>,
    /// Longest wait for an answer's header and its first content, such as 5m; 0 = no limit
    /// [env: NVPAIR_PROXY_RESPONSE_HEADER_TIMEOUT] [default: 30m]
    #[arg(long, value_name = "DURATION", value_parser = cap, allow_hyphen_values = true)]
    pub response_header_timeout: Option<Cap>,
    /// Largest inference request that is kept for another try, such as 64MiB [default: 128MiB]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub max_request_bytes: Option<u64>,
    /// Listen on one more loopback address (repeatable), such as ollama=127.0.0.1:11434
    #[arg(long = "alias", value_name = "ENGINE=ADDR:PORT", value_parser = engine_alias)]
    pub aliases: Vec<(EngineId, SocketAddr)>,
    /// Threshold of the log [env: NVPAIR_LOG_LEVEL] [default: info; warn where a person starts it,
    /// without a parent and with a terminal on stderr]
    #[arg(long, value_name = "LEVEL", value_parser = level_parser())]
    pub log_level: Option<LogLevel>,
    /// Form of the log [default: text]
    #[arg(long, value_name = "FORMAT", value_parser = format_parser())]
    pub log_format: Option<LogFormat>,
    /// Start sample engines and route to them; nothing is saved
    #[arg(long, conflicts_with_all = ["broker", "ipc", "nodes", "config", "cluster_dir"])]
    pub demo: bool,
    /// Do without the control socket; status and the others then cannot work
    #[arg(long)]
    pub no_control_socket: bool,
}

/// Who drives the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Driver {
    /// Its own director.
    Standalone,
    /// Its own director, over sample engines.
    Demo,
    /// A parent on stdin and stdout.
    Stdio,
    /// A parent that listens on this endpoint.
    Ipc(String),
}

impl ServeArgs {
    /// Who drives. An empty endpoint is stdio, as in the original.
    pub fn driver(&self) -> Driver {
        match (&self.ipc, self.broker, self.demo) {
            (Some(endpoint), _, _) if !endpoint.is_empty() => Driver::Ipc(endpoint.clone()),
            (Some(_), _, _) | (None, true, _) => Driver::Stdio,
            (None, false, true) => Driver::Demo,
            (None, false, false) => Driver::Standalone,
        }
    }

    /// The cluster folder; an empty one is none, as in the original.
    pub fn cluster_dir(&self) -> Option<&PathBuf> {
        self.cluster_dir
            .as_ref()
            .filter(|d| !d.as_os_str().is_empty())
    }

    /// What the configuration needs to know.
    pub fn flags(&self, globals: &Globals) -> Flags {
        Flags {
            config: self.config.clone(),
            engines: self.engines.clone(),
            nodes: self.nodes.clone(),
            aliases: self.aliases.clone(),
            response_header_timeout: self.response_header_timeout,
            max_request_bytes: self.max_request_bytes,
            log_level: self.log_level.or(globals.threshold()),
            log_format: self.log_format,
        }
    }
}

fn level_parser() -> impl TypedValueParser<Value = LogLevel> {
    PossibleValuesParser::new(["debug", "info", "warn", "error"])
        .try_map(|s| LogLevel::parse(&s).ok_or("no such level"))
}

pub(super) fn format_parser() -> impl TypedValueParser<Value = LogFormat> {
    PossibleValuesParser::new([LogFormat::Text, LogFormat::Json].map(LogFormat::as_str))
        .try_map(|s| LogFormat::parse(&s).ok_or("no such form"))
}

fn engine_port(text: &str) -> Result<(EngineId, Option<u16>), String> {
    Ok(match text.split_once('=') {
        Some((name, port)) => (facade_named(name)?, Some(parse_port(port)?)),
        None => (facade_named(text)?, None),
    })
}

fn parse_port(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(format!("port {text:?} is not in 1..65535")),
    }
}

fn split_engine(text: &str) -> Result<(EngineId, &str), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| {
        let engines = known_engines();
        format!("no engine in {text:?}; write ENGINE=…, where engines are {engines}")
    })?;
    Ok((engine(name)?, value))
}

/// Reads `--node ENGINE=URL`. A parser of its own, since clap's error for a function's repeats the
/// value, and a mistyped URL may hold a password.
#[derive(Clone)]
pub struct EngineNode;

impl TypedValueParser for EngineNode {
    type Value = (EngineId, NodeUrl);

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, clap::Error> {
        let text = value.to_str().unwrap_or_default();
        engine_node(text).map_err(|why| {
            let arg = arg.map_or_else(|| "<ENGINE=URL>".to_owned(), ToString::to_string);
            let text = format!("invalid value for '{arg}': {why}\n");
            clap::Error::raw(ErrorKind::ValueValidation, text).with_cmd(command)
        })
    }
}

fn engine_node(text: &str) -> Result<(EngineId, NodeUrl), String> {
    // Not quoted: what stands in front may be a URL without engine.
    let (name, url) = text
        .split_once('=')
        .filter(|(name, _)| !name.contains(':'))
        .ok_or_else(|| {
            let engines = known_engines();
            format!("no engine; write ENGINE=http://HOST:PORT, where engines are {engines}")
        })?;
    Ok((engine(name)?, NodeUrl::parse(url)?))
}

fn engine_alias(text: &str) -> Result<(EngineId, SocketAddr), String> {
    let (engine, address) = split_engine(text)?;
    if engine.spec().aliases {
        Ok((engine, port::alias(address)?))
    } else {
        let display = engine.spec().display;
        Err(format!("{display} takes no alias addresses"))
    }
}

fn cap(text: &str) -> Result<Cap, units::DurationError> {
    units::parse_duration(text).map(Cap::from_setting)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::super::{Cli, Verb};
    use super::*;

    fn serve(line: &str) -> Result<ServeArgs, clap::Error> {
        let words = ["p", "serve"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words)?.verb {
            Verb::Serve(args) => Ok(*args),
            other => panic!("{other:?}"),
        }
    }

    fn ollama() -> EngineId {
        EngineId::parse("ollama").unwrap()
    }

    #[test]
    fn serve_parses_every_value() {
        let a = serve(
            "--engine ollama=11500 --engine lmstudio --node ollama=http://tower.lan:11434/v1 \
             --alias ollama=127.0.0.1:11434 --response-header-timeout 1h30m \
             --max-request-bytes 64MiB --log-level warn --log-format json --cluster-dir /c",
        )
        .unwrap();
        let lmstudio = EngineId::parse("lmstudio").unwrap();
        assert_eq!(a.engines, [(ollama(), Some(11500)), (lmstudio, None)]);
        assert_eq!(a.nodes[0].1.to_string(), "http://tower.lan:11434");
        assert_eq!(a.aliases[0].1.to_string(), "127.0.0.1:11434");
        assert_eq!(
            a.response_header_timeout,
            Some(Cap::After(Duration::from_secs(5400)))
        );
        assert_eq!(a.max_request_bytes, Some(64 << 20));
        assert_eq!(a.log_level, Some(LogLevel::Warn));
        assert_eq!(a.log_format, Some(LogFormat::Json));
        assert_eq!(a.cluster_dir(), Some(&PathBuf::from("/c")));
        assert_eq!(a.driver(), Driver::Standalone);
        let off = serve("--response-header-timeout 0").unwrap();
        assert_eq!(off.response_header_timeout, Some(Cap::Off));
    }

    #[test]
    fn an_endpoint_implies_the_broker_and_an_empty_one_is_stdio() {
        assert_eq!(serve("--broker").unwrap().driver(), Driver::Stdio);
        assert_eq!(
            serve("--ipc /s").unwrap().driver(),
            Driver::Ipc("/s".into())
        );
        assert_eq!(serve("--ipc=").unwrap().driver(), Driver::Stdio);
        assert_eq!(serve("--cluster-dir=").unwrap().cluster_dir(), None);
        assert_eq!(serve("--demo").unwrap().driver(), Driver::Demo);
    }

    #[test]
    fn bad_values_are_usage_errors_that_say_why() {
        for (line, hint) in [
            ("--engine olama", "did you mean \"ollama\""),
            ("--engine vllm", "ollama, lmstudio, llamacpp"),
            ("--engine ollama=0", "1..65535"),
            ("--engine ollama=70000", "1..65535"),
            ("--node http://secret@tower.lan", "no engine"),
            ("--node http://secret@tower.lan/?a=b", "no engine"),
            ("--node tower.lan:11434", "no engine"),
            ("--node ollama=tower.lan", "write http://HOST:PORT"),
            ("--node ollama=http://", "not a URL"),
            ("--node ollama=http://me:secret@tower.lan", "no user name"),
            ("--node ollama=https://tower.lan", "plain http"),
            ("--alias lmstudio=127.0.0.1:1", "takes no alias"),
            ("--alias ollama=127.0.0.1", "loopback HOST:PORT"),
            ("--alias ollama=10.0.0.1:1", "loopback HOST:PORT"),
            ("--response-header-timeout 90", "has no unit"),
            ("--response-header-timeout -5s", "negative"),
            ("--max-request-bytes 64MB", "MiB"),
            ("--max-request-bytes 0", "at least 1 byte"),
            ("--log-level loud", "possible values"),
            ("--demo --broker", "cannot be used with"),
        ] {
            let error = serve(line).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
            let text = error.to_string();
            assert!(text.contains(hint), "{line}: {text}");
            assert!(!text.contains("secret"), "{line}: {text}");
        }
    }

    #[test]
    fn the_threshold_is_the_flags_or_what_the_verbosity_stands_for() {
        let level = |line: &str| {
            let words = ["p", "serve"].into_iter().chain(line.split_whitespace());
            let cli = Cli::try_parse_from(words).unwrap();
            let Verb::Serve(args) = cli.verb else {
                panic!()
            };
            args.flags(&cli.globals).log_level
        };
        assert_eq!(level(""), None);
        assert_eq!(level("-v"), Some(LogLevel::Debug));
        assert_eq!(level("-q"), Some(LogLevel::Warn));
        assert_eq!(level("-v --log-level error"), Some(LogLevel::Error));
    }
}
