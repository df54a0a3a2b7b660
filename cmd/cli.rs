//! The command line: subcommands, flags, help texts.
//!
//! Owns: what may be written and its parsed form. Leaves to others: the drop-in form (`argv`), what
//! a subcommand does (its file).

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Args, ColorChoice, Command, Parser, Subcommand};
use clap_complete::Shell;
use nvpair_proxy::config::file::engine_named as engine;
use nvpair_proxy::config::node_url::NodeUrl;
use nvpair_proxy::config::settings::Flags;
use nvpair_proxy::rules::budget::Cap;
use nvpair_proxy::rules::engine::{EngineId, known_engines};
use nvpair_proxy::rules::ids::JobId;
use nvpair_proxy::rules::log_level::{LogFormat, LogLevel};
use nvpair_proxy::rules::{port, units};
use nvpair_proxy::wire::broker::WorkloadState;

const ROOT_EXAMPLES: &str = "\
Examples:
  nvpair-proxy serve                          front the engines on this machine
  nvpair-proxy serve --node ollama=http://tower.lan:11434
  nvpair-proxy status                         what it does, in another terminal
  nvpair-proxy workloads --engine ollama      recent and live requests
  nvpair-proxy select ollama tower.lan        send everything to one node

Exit codes:
  0  done
  1  failed
  2  wrong usage or invalid configuration
  3  no daemon reachable
  4  the daemon refused (unknown node, port taken, engine not enabled)";

/// Routes local inference requests to whichever machine can serve them.
///
/// Ollama, LM Studio and llama.cpp behind the addresses their clients already use: each request
/// goes to a node that has the model, and is started elsewhere if that node fails before its first
/// byte.
///
/// Without a subcommand and with no terminal on stdin it runs as `serve --broker`.
#[derive(Debug, Parser)]
#[command(name = "nvpair-proxy", version, max_term_width = 100)]
#[command(after_help = ROOT_EXAMPLES, after_long_help = ROOT_EXAMPLES)]
pub struct Cli {
    /// Flags of every subcommand.
    #[command(flatten)]
    pub globals: Globals,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Flags of every subcommand.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Globals {
    /// Control socket of the daemon [env: NVPAIR_PROXY_SOCKET]
    ///
    /// Default: $XDG_RUNTIME_DIR/nvpair-proxy/control.sock, else in the state folder.
    #[arg(long, global = true, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Print one JSON document and nothing else on stdout
    #[arg(long, global = true)]
    pub json: bool,
    /// Say more; for `serve`, log at debug
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// Say less: no confirmations; for `serve`, log warnings and errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// When to use colour; `auto` also obeys NO_COLOR
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: ColorChoice,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run the daemon in the foreground
    Serve(Box<ServeArgs>),
    /// Show facades, nodes and their load, scheduler and counts
    Status(StatusArgs),
    /// Pin a facade to one node, or let it choose again
    Select(SelectArgs),
    /// Move a facade to another port; it is remembered
    SetPort(SetPortArgs),
    /// Show recent and live requests, or the timeline of one
    Workloads(WorkloadsArgs),
    /// Show the models of all nodes
    Models(ModelsArgs),
    /// Print the completion script of a shell
    Completions(CompletionsArgs),
    /// Write completions/ and man/
    #[command(hide = true)]
    Generate(GenerateArgs),
    /// Run one sample engine
    #[command(hide = true)]
    DemoEngine(DemoEngineArgs),
}

const SERVE_EXAMPLES: &str = "\
Examples:
  nvpair-proxy serve                              engines of this machine, all three facades
  nvpair-proxy serve --engine ollama=11500        one facade on a chosen port
  nvpair-proxy serve --node ollama=http://tower.lan:11434 --node llamacpp=http://den:8080
  nvpair-proxy serve --demo                       sample engines, to look around
  nvpair-proxy serve --broker                     driven over stdin and stdout by a parent";

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

    /// What the configuration needs to know. `-v` and `-q` are short for a threshold.
    pub fn flags(&self, globals: &Globals) -> Flags {
        let said = match (globals.quiet, globals.verbose) {
            (true, _) => Some(LogLevel::Warn),
            (false, 1..) => Some(LogLevel::Debug),
            (false, 0) => None,
        };
        Flags {
            config: self.config.clone(),
            engines: self.engines.clone(),
            nodes: self.nodes.clone(),
            aliases: self.aliases.clone(),
            response_header_timeout: self.response_header_timeout,
            max_request_bytes: self.max_request_bytes,
            log_level: self.log_level.or(said),
            log_format: self.log_format,
        }
    }
}

const STATUS_EXAMPLES: &str = "\
Examples:
  nvpair-proxy status
  nvpair-proxy status --json | jq '.nodes[] | {id, load}'";

/// `status`.
#[derive(Debug, Args)]
#[command(after_help = STATUS_EXAMPLES)]
pub struct StatusArgs {}

const SELECT_EXAMPLES: &str = "\
Examples:
  nvpair-proxy select ollama tower.lan    every Ollama request goes to tower.lan while it can
  nvpair-proxy select ollama --auto       choose by load again";

/// `select`.
#[derive(Debug, Args)]
#[command(after_help = SELECT_EXAMPLES)]
pub struct SelectArgs {
    /// Engine of the facade
    #[arg(value_parser = engine_parser())]
    pub engine: EngineId,
    /// Node, by id or by a name that only one node has
    #[arg(required_unless_present = "auto", conflicts_with = "auto")]
    pub node: Option<String>,
    /// Remove the pin
    #[arg(long)]
    pub auto: bool,
}

const SET_PORT_EXAMPLES: &str = "\
Examples:
  nvpair-proxy set-port ollama 11500
  nvpair-proxy set-port ollama 0          back to the standalone default, 11435";

/// `set-port`.
#[derive(Debug, Args)]
#[command(after_help = SET_PORT_EXAMPLES)]
pub struct SetPortArgs {
    /// Engine of the facade
    #[arg(value_parser = engine_parser())]
    pub engine: EngineId,
    /// New port; 0 = the engine's standalone default
    #[arg(allow_negative_numbers = true)]
    pub port: u16,
}

const WORKLOADS_EXAMPLES: &str = "\
Examples:
  nvpair-proxy workloads --limit 10
  nvpair-proxy workloads --state failed --engine ollama
  nvpair-proxy workloads 90               its timeline, if only one facade has a 90
  nvpair-proxy workloads ollama/90";

/// `workloads`.
#[derive(Debug, Args)]
#[command(after_help = WORKLOADS_EXAMPLES)]
pub struct WorkloadsArgs {
    /// Show the timeline of this one: ENGINE/ID, or ID where it is unique
    #[arg(value_name = "ID", value_parser = workload_ref)]
    #[arg(conflicts_with_all = ["state", "model", "node", "limit"])]
    pub id: Option<WorkloadRef>,
    /// Only this facade
    #[arg(long, value_parser = engine_parser())]
    pub engine: Option<EngineId>,
    /// Only those in this state
    #[arg(long, value_parser = state_parser())]
    pub state: Option<WorkloadState>,
    /// Only those for this model
    #[arg(long)]
    pub model: Option<String>,
    /// Only those on this node, by id or by a name that only one node has
    #[arg(long)]
    pub node: Option<String>,
    /// At most so many, newest first [default: 50]
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
}

/// One workload on the command line: `90`, `ollama/90` or `RUN/ollama/90`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadRef {
    /// Run id.
    pub run: Option<String>,
    /// Its facade.
    pub engine: Option<EngineId>,
    /// Its number.
    pub id: JobId,
}

const MODELS_EXAMPLES: &str = "\
Examples:
  nvpair-proxy models
  nvpair-proxy models --engine ollama --loaded";

/// `models`.
#[derive(Debug, Args)]
#[command(after_help = MODELS_EXAMPLES)]
pub struct ModelsArgs {
    /// Only this facade
    #[arg(long, value_parser = engine_parser())]
    pub engine: Option<EngineId>,
    /// Only models that some node has in memory
    #[arg(long)]
    pub loaded: bool,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  nvpair-proxy completions bash > ~/.local/share/bash-completion/completions/nvpair-proxy
  nvpair-proxy completions fish > ~/.config/fish/completions/nvpair-proxy.fish";

/// `completions`.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

/// `generate`.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// Folder that holds completions/ and man/
    #[arg(default_value = ".")]
    pub dir: PathBuf,
    /// Write nothing; fail if anything there is out of date
    #[arg(long)]
    pub check: bool,
}

/// `demo-engine`.
#[derive(Debug, Args)]
pub struct DemoEngineArgs {
    /// Whose dialect it speaks
    #[arg(long, value_name = "NAME", value_parser = engine_parser())]
    pub engine: EngineId,
    /// Loopback address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub listen: std::net::SocketAddr,
    /// Its name, told in its answers
    #[arg(long, default_value = "sample")]
    pub name: String,
    /// A model it lists (repeatable); the first one is loaded
    #[arg(long = "model", value_name = "NAME")]
    pub models: Vec<String>,
    /// Time before each token
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = units::parse_duration)]
    pub token_delay: Duration,
    /// Answer every n-th request 503
    #[arg(long, value_name = "N")]
    pub refuse_every: Option<u32>,
    /// Origin of a llama-server that does the work
    #[arg(long, value_name = "URL")]
    pub behind: Option<String>,
}

/// Engines of the table; clap offers the nearest one.
fn engine_parser() -> impl TypedValueParser<Value = EngineId> {
    PossibleValuesParser::new(EngineId::all().map(EngineId::as_str))
        .try_map(|s| s.parse::<EngineId>())
}

fn level_parser() -> impl TypedValueParser<Value = LogLevel> {
    PossibleValuesParser::new(["debug", "info", "warn", "error"])
        .try_map(|s| LogLevel::parse(&s).ok_or("no such level"))
}

fn format_parser() -> impl TypedValueParser<Value = LogFormat> {
    PossibleValuesParser::new([LogFormat::Text, LogFormat::Json].map(LogFormat::as_str))
        .try_map(|s| LogFormat::parse(&s).ok_or("no such form"))
}

/// Every state, in the order of a life.
const STATES: [WorkloadState; 5] = [
    WorkloadState::Queued,
    WorkloadState::Running,
    WorkloadState::Completed,
    WorkloadState::Failed,
    WorkloadState::Cancelled,
];

fn state_parser() -> impl TypedValueParser<Value = WorkloadState> {
    PossibleValuesParser::new(STATES.map(WorkloadState::as_str)).try_map(|s| {
        let state = STATES.into_iter().find(|state| state.as_str() == s);
        state.ok_or("no such state")
    })
}

fn engine_port(text: &str) -> Result<(EngineId, Option<u16>), String> {
    Ok(match text.split_once('=') {
        Some((name, port)) => (engine(name)?, Some(parse_port(port)?)),
        None => (engine(text)?, None),
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
struct EngineNode;

impl TypedValueParser for EngineNode {
    type Value = (EngineId, NodeUrl);

    fn parse_ref(
        &self,
        command: &Command,
        _: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, clap::Error> {
        let text = value.to_str().unwrap_or_default();
        engine_node(text).map_err(|why| {
            let text = format!("invalid value for '--node <ENGINE=URL>': {why}\n");
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

fn workload_ref(text: &str) -> Result<WorkloadRef, String> {
    let mut parts = text.rsplit('/');
    let id = parts
        .next()
        .and_then(|id| id.parse().ok())
        .ok_or_else(|| format!("{text:?} is no workload; write ID or ENGINE/ID"))?;
    let engine = parts.next().map(engine).transpose()?;
    let run = parts.next().map(str::to_owned);
    if parts.next().is_some() {
        return Err(format!(
            "{text:?} is no workload; write RUN/ENGINE/ID at most"
        ));
    }
    Ok(WorkloadRef {
        run,
        engine,
        id: JobId(id),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

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
    fn the_tree_is_sound() {
        Cli::command().debug_assert();
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

    #[test]
    fn workloads_are_named_with_or_without_engine_and_run() {
        let plain = workload_ref("90").unwrap();
        assert_eq!((plain.run, plain.engine, plain.id), (None, None, JobId(90)));
        assert_eq!(workload_ref("ollama/90").unwrap().engine, Some(ollama()));
        assert_eq!(
            workload_ref("00ff/ollama/90").unwrap().run,
            Some("00ff".to_owned())
        );
        for bad in ["", "x", "ollama/", "vllm/1", "a/b/ollama/1", "-1"] {
            assert!(workload_ref(bad).is_err(), "{bad:?}");
        }
    }
}
