//! Layer 2: configuration, from TOML, flags and environment to valid values.

pub mod paths;
