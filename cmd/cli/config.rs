//! The command line of `config`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  nvpair-proxy config path                 where the file is looked for
  nvpair-proxy config check                every problem of it at once
  nvpair-proxy config check ./new.toml && cp new.toml ~/.config/nvpair-proxy/config.toml
  nvpair-proxy config show                 what would be in force, and why
  nvpair-proxy config schema > config.schema.json
  nvpair-proxy config reload               the running daemon takes the file as it is now";

/// `config`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ConfigArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: ConfigVerb,
}

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigVerb {
    /// Name every problem of a configuration file; exit 2 if there is an error
    ///
    /// Errors and warnings come with file, line and column, all at once. No daemon is asked.
    Check(FileArgs),
    /// Print the settings that would be in force, each with where it comes from
    ///
    /// File, environment and defaults together, as TOML or with --json; secrets are masked. Flags of
    /// `serve` beat all of them. No daemon is asked.
    Show(FileArgs),
    /// Print where files are looked for, and which are there
    Path,
    /// Print the JSON Schema of the file, for editors and pipelines
    Schema,
    /// Let the running daemon read its configuration again; exit 2 if it is invalid
    ///
    /// The file is taken whole or not at all; requests under way end under the one before. SIGHUP
    /// and a change of the file do the same.
    Reload,
}

/// Which file.
#[derive(Debug, Args)]
pub struct FileArgs {
    /// The file; without it the one that `serve` would read
    pub file: Option<PathBuf>,
}
