//! Layer 2: configuration, from TOML, flags and environment to valid values.

pub mod change;
pub mod expand;
pub mod file;
pub mod gateway;
pub mod http_url;
pub mod keys;
pub mod kinds;
pub mod node_url;
pub mod paths;
pub mod pool;
pub mod reader;
pub mod schema;
pub mod settings;
pub mod show;
pub mod telemetry;
