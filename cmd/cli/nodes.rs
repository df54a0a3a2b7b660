//! `nodes` on the command line.
//!
//! Owns: its subcommands and their flags. Leaves to others: running them (`crate::nodes`).

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use nvpair_proxy::config::node_url::NodeUrl;
use nvpair_proxy::rules::engine::EngineId;

use super::engine_parser;
use super::pool::PoolVerb;
use super::serve::EngineNode;

const NODES_EXAMPLES: &str = "\
Examples:
  nvpair-proxy nodes                      the nodes of all facades, as `nodes list`
  nvpair-proxy nodes add ollama=http://tower.lan:11434
  nvpair-proxy nodes remove tower.lan
  nvpair-proxy nodes keys create rig --node-id rig-01      let a worker register itself
  nvpair-proxy nodes drain rig-01 --wait";

/// `nodes`.
#[derive(Debug, Args)]
#[command(after_help = NODES_EXAMPLES)]
pub struct NodesArgs {
    /// What to do with them [default: list]
    #[command(subcommand)]
    pub verb: Option<NodesVerb>,
}

/// What can be done with nodes.
#[derive(Debug, Subcommand)]
pub enum NodesVerb {
    /// Show the nodes of all facades, where they are and how they are
    List(NodesListArgs),
    /// Add a node: it is probed, used while it answers, and there again after a restart
    Add(NodesAddArgs),
    /// Remove a node that was added
    Remove(NodesRemoveArgs),
    /// Those that register themselves
    #[command(flatten)]
    Pool(PoolVerb),
}

const LIST_EXAMPLES: &str = "\
Examples:
  nvpair-proxy nodes list
  nvpair-proxy nodes list --engine ollama
  nvpair-proxy nodes list --watch         again every second, in place; with --json, JSON Lines
  nvpair-proxy nodes list --json | jq -r '.nodes[] | select(.state != \"healthy\") | .id'

With --json: {schema_version, nodes: [{id, name, engine, kind, state, reason?, address?, pending,
  pressure, reserved, load, models: [], warm: []}], pool?: {listen, tls, store, store_error?,
  nodes: [{id, engine, endpoint, address, state, reason, drain, slots, leases, active_requests,
  queue_depth, models: [{id, context_length?, warm, ttft_ms?, tokens_per_second?, breaker?}],
  base_weight, weight, last_beat_age_ms, breaker: {state, failures, retry_in_ms?}, hardware?,
  free_vram_bytes?, gpu_temperature_c?, gpu_utilization_percent?, key, agent_version}],
  usage?: {file_lost?, collector?: {sent, queued, lost}}}}
kind is local, manual, peer, sample or pool; state is healthy, unreachable, resting or unknown. Under
pool, state is healthy, suspect, circuit_broken, draining or offline.";

/// `nodes list`.
#[derive(Debug, Default, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub struct NodesListArgs {
    /// Only this facade
    #[arg(long, value_parser = engine_parser())]
    pub engine: Option<EngineId>,
    /// Show them again every second, until Ctrl-C; redrawn in place on a terminal
    #[arg(long)]
    pub watch: bool,
}

const ADD_EXAMPLES: &str = "\
Examples:
  nvpair-proxy nodes add ollama=http://tower.lan:11434
  nvpair-proxy nodes add llamacpp=http://10.0.0.7:8080 --name den --slots 4
  nvpair-proxy nodes add lmstudio=http://rig:1234/v1 --api-key-file ~/.rig-key

A node that does not answer yet is kept and asked again every few seconds. The same URL again
replaces what was said of it. Under a broker nodes are not probed and not saved: name the models.

With --json: {schema_version, engine, id, url, replaced, saved, state, reason?, models: []}";

/// `nodes add`.
#[derive(Debug, Args)]
#[command(after_help = ADD_EXAMPLES)]
pub struct NodesAddArgs {
    /// Engine and address, such as ollama=http://tower.lan:11434
    #[arg(value_name = "ENGINE=URL", value_parser = EngineNode)]
    pub node: (EngineId, NodeUrl),
    /// Its id instead of the host's name
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub name: Option<String>,
    /// A model it has (repeatable) [default: it is asked]
    #[arg(long = "model", value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub models: Vec<String>,
    /// Requests it runs side by side [default: it is asked, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub slots: Option<u32>,
    /// How much of the traffic it gets beside the others [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub weight: Option<u32>,
    /// File with the key it wants; `-` reads it from stdin. Never written on a command line, where
    /// others can read it
    #[arg(long, value_name = "FILE")]
    pub api_key_file: Option<PathBuf>,
}

const REMOVE_EXAMPLES: &str = "\
Examples:
  nvpair-proxy nodes remove tower.lan
  nvpair-proxy nodes remove tower.lan --engine ollama      where two facades have it

Nodes of the configuration file and of --node are taken out there; engines of this machine go when
they end.

With --json: {schema_version, engine, id, removed}";

/// `nodes remove`.
#[derive(Debug, Args)]
#[command(after_help = REMOVE_EXAMPLES)]
pub struct NodesRemoveArgs {
    /// Node, by id or by a name that only one node has
    pub node: String,
    /// The facade it belongs to; needed where several have it
    #[arg(long, value_parser = engine_parser())]
    pub engine: Option<EngineId>,
}
