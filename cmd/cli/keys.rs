//! `keys` on the command line.
//!
//! Owns: its subcommands and their flags. Leaves to others: running them (`crate::keys`).

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use nvpair_proxy::rules::client_key::MAX_REQUESTS;
use nvpair_proxy::rules::pool::sizes::MAX_EXACT;

const EXAMPLES: &str = "\
Examples:
  nvpair-proxy keys create phone --allow 'ollama/qwen*' --requests-per-minute 20
  nvpair-proxy keys list
  nvpair-proxy keys revoke phone

Callers on this machine need no key. Others are let in by a key and by their address: set
allowed_cidrs in the configuration. Keys of workers are another kind: nvpair-proxy nodes keys.";

/// `keys`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ClientKeysArgs {
    /// What to do with them [default: list]
    #[command(subcommand)]
    pub verb: Option<ClientKeysVerb>,
}

const LIST_EXAMPLES: &str = "\
Examples:
  nvpair-proxy keys list
  nvpair-proxy keys list --json | jq -r '.keys[] | select(.last_used_at == null) | .name'

With --json: {schema_version, keys: [{name, allow: [], requests_per_minute, tokens_per_day,
  created_at, last_used_at, tokens_today}], allowed_cidrs: []}";

/// What can be done with keys.
#[derive(Debug, Subcommand)]
pub enum ClientKeysVerb {
    /// Make a key; it is shown this once
    Create(ClientKeyCreateArgs),
    /// Show the keys there are, without what is secret of them
    #[command(after_help = LIST_EXAMPLES)]
    List,
    /// End a key: its next request is refused
    Revoke(ClientKeyRevokeArgs),
}

const CREATE_EXAMPLES: &str = "\
Examples:
  nvpair-proxy keys create laptop --allow all
  nvpair-proxy keys create phone --allow 'ollama/qwen*' --requests-per-minute 20
  nvpair-proxy keys create kids --allow pool --allow virtual/homework --tokens-per-day 200000

A key may use what --allow says and nothing else:
  all             everything, also what changes an engine, such as pulling a model
  TARGET          every model there; a target is an engine (its nodes, those of the pool aside),
                  pool, a provider's name or a node's id
  TARGET/MODEL    this model there; * in a model's name stands for any text
  */MODEL         this model anywhere
  virtual/NAME    this virtual model, wherever it leads

Tokens of a request are set aside by an estimate and settled by what the answer tells. A day is one
of UTC. Model lists do not count as requests.

With --json: {schema_version, info: {name, allow: [], requests_per_minute, tokens_per_day,
  created_at, last_used_at, tokens_today}, key, allowed_cidrs: []}";

/// `keys create`.
#[derive(Debug, Args)]
#[command(after_help = CREATE_EXAMPLES)]
pub struct ClientKeyCreateArgs {
    /// What the key is called
    pub name: String,
    /// What it may use (repeatable, or separated by commas)
    #[arg(
        long,
        value_name = "all|TARGET[/MODEL]",
        value_delimiter = ',',
        required = true
    )]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub allow: Vec<String>,
    /// Requests it may make in a minute [default: no limit]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_REQUESTS)))]
    pub requests_per_minute: Option<u32>,
    /// Tokens it may use in a day of UTC [default: no limit]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=MAX_EXACT))]
    pub tokens_per_day: Option<u64>,
}

const REVOKE_EXAMPLES: &str = "\
Examples:
  nvpair-proxy keys revoke phone

Requests under way end as they would. After the last key the facades listen on loopback alone.

With --json: {schema_version, info: {name, allow: [], requests_per_minute, tokens_per_day,
  created_at, last_used_at, tokens_today}}";

/// `keys revoke`.
#[derive(Debug, Args)]
#[command(after_help = REVOKE_EXAMPLES)]
pub struct ClientKeyRevokeArgs {
    /// What the key is called
    pub name: String,
}
