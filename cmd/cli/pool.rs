//! The node pool's part of `nodes` on the command line.
//!
//! Owns: its subcommands and their flags. Leaves to others: running them (`crate::nodes`).

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use nvpair_proxy::rules::pool::record::PoolEngine;

/// What can be done with nodes that register themselves.
#[derive(Debug, Subcommand)]
pub enum PoolVerb {
    /// Let a pool node finish what it has, and give it nothing new
    Drain(DrainArgs),
    /// Use a drained pool node again
    Resume(PoolNodeArgs),
    /// Close the circuit breakers of a pool node
    Reset(PoolNodeArgs),
    /// Make, list and revoke the keys that workers register with
    Keys(KeysArgs),
}

const DRAIN_EXAMPLES: &str = "\
Examples:
  nvpair-proxy nodes drain rig-01
  nvpair-proxy nodes drain rig-01 --wait && ssh rig-01 sudo reboot
  nvpair-proxy nodes resume rig-01

The drain holds until `nodes resume`, also when the node registers again. With --wait it returns
once no gateway has a request on it; Ctrl-C ends the waiting (exit code 130), not the drain.

With --json: {schema_version, node}, the node as in `nodes list --json`";

/// `nodes drain`.
#[derive(Debug, Args)]
#[command(after_help = DRAIN_EXAMPLES)]
pub struct DrainArgs {
    /// The node's id
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub pool_node: String,
    /// Return when nothing runs on it any more
    #[arg(long)]
    pub wait: bool,
}

const POOL_NODE_EXAMPLES: &str = "\
Examples:
  nvpair-proxy nodes resume rig-01        after a drain
  nvpair-proxy nodes reset rig-01         after a repair, without the cool-down

With --json: {schema_version, node}, the node as in `nodes list --json`";

/// `nodes resume` and `nodes reset`.
#[derive(Debug, Args)]
#[command(after_help = POOL_NODE_EXAMPLES)]
pub struct PoolNodeArgs {
    /// The node's id
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub pool_node: String,
}

const KEYS_EXAMPLES: &str = "\
Examples:
  nvpair-proxy nodes keys create rig --node-id rig-01 --allow 10.0.0.15
  nvpair-proxy nodes keys list
  nvpair-proxy nodes keys revoke rig";

/// `nodes keys`.
#[derive(Debug, Args)]
#[command(after_help = KEYS_EXAMPLES)]
pub struct KeysArgs {
    /// What to do with them [default: list]
    #[command(subcommand)]
    pub verb: Option<KeysVerb>,
}

const KEYS_LIST_EXAMPLES: &str = "\
Examples:
  nvpair-proxy nodes keys list
  nvpair-proxy nodes keys list --json | jq -r '.keys[].node_id'

With --json: {schema_version, keys: [{name, node_id, allow: [], models: [], created_at}]}";

/// What can be done with keys.
#[derive(Debug, Subcommand)]
pub enum KeysVerb {
    /// Make a key for one node; it is shown this once, with the command that uses it
    Create(KeyCreateArgs),
    /// Show the keys there are, without what is secret of them
    #[command(after_help = KEYS_LIST_EXAMPLES)]
    List,
    /// End a key at once; its node is put out
    Revoke(KeyRevokeArgs),
}

const CREATE_EXAMPLES: &str = "\
Examples:
  nvpair-proxy nodes keys create rig --node-id rig-01 --allow 10.0.0.15
  nvpair-proxy nodes keys create lab --node-id lab-7 --allow lab-7.lan --model 'qwen*' --engine vllm
  nvpair-proxy nodes keys create here --node-id here --allow 127.0.0.1     a worker on this machine

Without --allow the node has to serve at the address it registers from. Loopback, link-local and
metadata addresses are dialled only where --allow names them or a network among them.

With --json: {schema_version, info: {name, node_id, allow: [], models: [], created_at}, key,
  proxy_addr, tls, fingerprint?, join}";

/// `nodes keys create`.
#[derive(Debug, Args)]
#[command(after_help = CREATE_EXAMPLES)]
pub struct KeyCreateArgs {
    /// What the key is called
    pub name: String,
    /// The one node it speaks for
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub node_id: String,
    /// A network, address or host where the node may serve (repeatable, or separated by commas)
    #[arg(long, value_name = "CIDR|HOST", value_delimiter = ',')]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub allow: Vec<String>,
    /// A model it may advertise, `*` for any text (repeatable, or separated by commas)
    /// [default: all]
    #[arg(long = "model", value_name = "PATTERN", value_delimiter = ',')]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub models: Vec<String>,
    /// Its engine, for the command that is printed
    #[arg(long, value_name = "NAME", default_value = "ollama", value_parser = engine_parser())]
    pub engine: PoolEngine,
}

const REVOKE_EXAMPLES: &str = "\
Examples:
  nvpair-proxy nodes keys revoke rig

Requests that its node answers already go on; what waits there is sent elsewhere.

With --json: {schema_version, info: {name, node_id, allow: [], models: [], created_at}, evicted}";

/// `nodes keys revoke`.
#[derive(Debug, Args)]
#[command(after_help = REVOKE_EXAMPLES)]
pub struct KeyRevokeArgs {
    /// What the key is called
    pub name: String,
}

fn engine_parser() -> impl TypedValueParser<Value = PoolEngine> {
    PossibleValuesParser::new(PoolEngine::ALL.map(PoolEngine::as_str))
        .try_map(|s| s.parse::<PoolEngine>())
}
