//! Probes of named nodes.
//!
//! Owns: how a node's settings become a target. Leaves to others: asking (`net::probe`).

use crate::config::file::NodeSetting;

pub use crate::net::probe::{Target, ask};

impl Target {
    /// A node that somebody named.
    pub fn of(node: &NodeSetting) -> Self {
        Self {
            engine: node.engine,
            host: node.url.host.clone(),
            port: node.url.port,
            prefix: node.url.prefix.clone(),
            api_key: node.api_key.clone(),
            models_known: node.models.is_some(),
        }
    }
}
