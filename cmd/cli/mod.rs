//! The command line: subcommands, flags, help texts.
//!
//! Owns: what may be written and its parsed form; `serve` and the subcommands that only look have a
//! file each. Leaves to others: the drop-in form (`argv`), what a subcommand does (its file).

mod agent;
mod config;
mod doctor;
mod generate;
mod keys;
mod nodes;
mod pool;
mod query;
mod replay;
mod serve;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, ColorChoice, Parser, Subcommand};
use clap_complete::Shell;
use nvpair_proxy::rules::engine::EngineId;
use nvpair_proxy::rules::log_level::LogLevel;
use nvpair_proxy::rules::units;

pub use agent::AgentArgs;
pub use config::{ConfigArgs, ConfigVerb, FileArgs};
pub use doctor::DoctorArgs;
pub use generate::{GenerateArgs, GenerateVerb, LaunchdArgs, SystemdArgs};
pub use keys::{ClientKeyCreateArgs, ClientKeyRevokeArgs, ClientKeysArgs, ClientKeysVerb};
pub use nodes::{NodesAddArgs, NodesArgs, NodesListArgs, NodesRemoveArgs, NodesVerb};
pub use pool::{
    DrainArgs, KeyCreateArgs, KeyRevokeArgs, KeysArgs, KeysVerb, PoolNodeArgs, PoolVerb,
};
pub use query::{
    HealthcheckArgs, ModelsArgs, ProvidersArgs, RouteArgs, StatusArgs, WorkloadRef, WorkloadsArgs,
};
pub use replay::ReplayArgs;
pub use serve::{Driver, ServeArgs};

const ROOT_EXAMPLES: &str = "\
Examples:
  nvpair-proxy serve                          front the engines on this machine
  nvpair-proxy serve --node ollama=http://tower.lan:11434
  nvpair-proxy status                         what it does, in another terminal
  nvpair-proxy workloads --engine ollama      recent and live requests
  nvpair-proxy select ollama tower.lan        send everything to one node
  nvpair-proxy doctor                         if something does not work
  nvpair-proxy replay --since 1h              the last hour's requests with the nodes of now

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
    /// Say more; for `serve` and `agent`, log at debug
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// Say less: no confirmations; for `serve` and `agent`, log warnings and errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// When to use colour; `auto` also obeys NO_COLOR
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: ColorChoice,
}

impl Globals {
    /// The log's threshold that `-v` or `-q` is short for.
    pub fn threshold(&self) -> Option<LogLevel> {
        match (self.quiet, self.verbose) {
            (true, _) => Some(LogLevel::Warn),
            (false, 1..) => Some(LogLevel::Debug),
            (false, 0) => None,
        }
    }
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
    /// Show the providers that the gateway falls back to
    Providers(ProvidersArgs),
    /// Show where a request for a model would go now, and why
    Route(RouteArgs),
    /// Show nodes, add some, remove some
    Nodes(NodesArgs),
    /// Make, list and revoke the keys that callers from other machines show
    Keys(ClientKeysArgs),
    /// Join the engine on this machine to a gateway's node pool
    Agent(Box<AgentArgs>),
    /// Look for what may be wrong on this machine, each finding with its remedy
    Doctor(DoctorArgs),
    /// Ask what would happen with recorded requests now, or send such requests again
    Replay(ReplayArgs),
    /// Check, show, find or reload the configuration
    Config(ConfigArgs),
    /// Exit 0 if the daemon serves, for container and supervisor probes
    Healthcheck(HealthcheckArgs),
    /// Print the completion script of a shell
    Completions(CompletionsArgs),
    /// Print the names that may stand at the end of a line, for the completion scripts
    #[command(hide = true)]
    Complete(CompleteArgs),
    /// Write completions/ and man/, or print a unit for systemd or launchd
    Generate(GenerateArgs),
    /// Run one sample engine
    #[command(hide = true)]
    DemoEngine(DemoEngineArgs),
}

const SELECT_EXAMPLES: &str = "\
Examples:
  nvpair-proxy select ollama tower.lan    every Ollama request goes to tower.lan while it can
  nvpair-proxy select ollama --auto       choose by load again

With --json: {schema_version, engine, pin} where pin is the node's id, or null for automatic.";

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
  nvpair-proxy set-port ollama 0          back to the standalone default, 11435

With --json: {schema_version, engine, port}";

/// `set-port`.
#[derive(Debug, Args)]
#[command(after_help = SET_PORT_EXAMPLES)]
pub struct SetPortArgs {
    /// Engine of the facade
    #[arg(value_parser = facade_parser())]
    pub engine: EngineId,
    /// New port; 0 = the engine's standalone default
    #[arg(allow_negative_numbers = true)]
    pub port: u16,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  nvpair-proxy completions bash > ~/.local/share/bash-completion/completions/nvpair-proxy
  nvpair-proxy completions fish > ~/.config/fish/completions/nvpair-proxy.fish

With --json: {schema_version, shell, script}";

/// `completions`.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

/// `complete`.
#[derive(Debug, Args)]
pub struct CompleteArgs {
    /// Longest wait for a daemon that is there; where none is, nothing is waited for
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = units::parse_duration)]
    pub within: Duration,
    /// Words of the line behind the program's name, the one under the cursor last
    #[arg(last = true)]
    pub words: Vec<OsString>,
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
    one_of(EngineId::all())
}

/// Those, and the gateway.
fn facade_parser() -> impl TypedValueParser<Value = EngineId> {
    one_of(EngineId::facades())
}

fn one_of(ids: impl Iterator<Item = EngineId>) -> impl TypedValueParser<Value = EngineId> {
    PossibleValuesParser::new(ids.map(EngineId::as_str)).try_map(|s| s.parse::<EngineId>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_tree_is_sound() {
        Cli::command().debug_assert();
    }
}
