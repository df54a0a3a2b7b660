//! `agent` on the command line.
//!
//! Owns: its flags. Leaves to others: running it (`crate::agent`). The node key is no flag, so that it
//! stands in no list of processes and in no shell's history.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use nvpair_proxy::rules::fingerprint::Fingerprint;
use nvpair_proxy::rules::log_level::LogFormat;
use nvpair_proxy::rules::pool::endpoint::Endpoint;
use nvpair_proxy::rules::pool::record::PoolEngine;
use nvpair_proxy::rules::units;

use super::serve::format_parser;

const AGENT_EXAMPLES: &str = "\
Examples:
  NODE_KEY=ktms_node_… nvpair-proxy agent --proxy-addr gw.lan:9090 \\
    --proxy-fingerprint sha256:… --node-id tower --engine ollama \\
    --endpoint http://10.0.0.5:11434
  nvpair-proxy agent --node-key-file /etc/nvpair-proxy/node-key --proxy-addr gw.lan:9090 \\
    --proxy-ca ca.pem --node-id tower --engine vllm --listen 10.0.0.5:8001 \\
    --endpoint http://10.0.0.5:8001/v1

`nvpair-proxy nodes keys create` on the gateway makes the key and prints this command, filled in.

SIGTERM or Ctrl-C drains: the gateways send nothing more, requests under way end, then the node
leaves. A second signal ends at once.

Exit codes: 0 left as it was told to, 1 failed, 2 wrong usage, 4 the registry refused the node.";

/// `agent`.
#[derive(Debug, Args)]
#[command(after_help = AGENT_EXAMPLES)]
pub struct AgentArgs {
    /// Registry of the gateway; port 9090 where none is given
    #[arg(long, value_name = "HOST:PORT")]
    pub proxy_addr: String,
    /// The node this is, as the key names it
    #[arg(long, value_name = "ID")]
    pub node_id: String,
    /// What serves here
    #[arg(long, value_name = "NAME", value_parser = pool_engine())]
    pub engine: PoolEngine,
    /// Where gateways reach the engine
    #[arg(long, value_name = "URL", value_parser = endpoint)]
    pub endpoint: String,
    /// Where the agent reaches it [default: http://127.0.0.1 and the engine's usual port]
    #[arg(long, value_name = "URL", value_parser = Endpoint::parse)]
    pub engine_url: Option<Endpoint>,
    /// File with the node key, readable for its owner alone; without it NODE_KEY is read
    #[arg(long, value_name = "FILE")]
    pub node_key_file: Option<PathBuf>,
    /// The registry's certificate has this digest
    #[arg(long, value_name = "sha256:HEX", conflicts_with = "proxy_ca")]
    pub proxy_fingerprint: Option<Fingerprint>,
    /// The registry's certificate is vouched for by those in this PEM file
    #[arg(long, value_name = "FILE")]
    pub proxy_ca: Option<PathBuf>,
    /// Requests it runs side by side [default: what llama.cpp tells, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub max_concurrency: Option<u32>,
    /// Its share of the traffic, beside the other nodes' [default: its concurrency]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub base_weight: Option<u32>,
    /// Take requests here, pass them to the engine and count them
    ///
    /// For engines that do not tell how busy they are; --endpoint then names this address as others
    /// see it. Whoever reaches this address reaches the engine. Without it the engine's own figures
    /// are reported, where it has any.
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<SocketAddr>,
    /// How long requests under way may take at the end
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = units::parse_duration)]
    pub drain_timeout: Duration,
    /// How often the gateways look who drains: their `sweep_interval` [env: NODE_SWEEP_INTERVAL] [default: as the gateway tells]
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    pub sweep_interval: Option<Duration>,
    /// Form of the log on stderr
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = format_parser())]
    pub log_format: LogFormat,
}

fn pool_engine() -> impl TypedValueParser<Value = PoolEngine> {
    PossibleValuesParser::new(PoolEngine::ALL.map(PoolEngine::as_str))
        .try_map(|s| s.parse::<PoolEngine>())
}

/// Checked here as the registry checks it, kept as it was written.
fn endpoint(text: &str) -> Result<String, String> {
    Endpoint::parse(text).map(|_| text.to_owned())
}
