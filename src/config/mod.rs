//! Layer 2: configuration, from TOML, flags and environment to valid values.

pub mod expand;
pub mod file;
pub mod node_url;
pub mod paths;
pub mod reader;
pub mod settings;
