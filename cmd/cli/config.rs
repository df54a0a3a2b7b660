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

const CHECK_EXAMPLES: &str = "\
Examples:
  nvpair-proxy config check
  nvpair-proxy config check ./new.toml && cp new.toml ~/.config/nvpair-proxy/config.toml

With --json: {schema_version, file, valid, errors: [{line, column, message}],
  warnings: [{line?, column?, message}]}";

const SHOW_EXAMPLES: &str = "\
Examples:
  nvpair-proxy config show
  nvpair-proxy config show | grep -v '# default'       what differs from the defaults

With --json: {schema_version, file, settings, sources, warnings: []}; settings are as in the file,
sources name each of them by its path.";

const PATH_EXAMPLES: &str = "\
Examples:
  nvpair-proxy config path
  ${EDITOR:-vi} \"$(nvpair-proxy config path --json | jq -r .config.path)\"

With --json: {schema_version, config: {path, exists}, state: {path, exists}, ports: {path, exists},
  socket: {path, exists}}, each null where it is not known.";

const SCHEMA_EXAMPLES: &str = "\
Examples:
  nvpair-proxy config schema > config.schema.json

It is JSON with or without --json.";

const RELOAD_EXAMPLES: &str = "\
Examples:
  nvpair-proxy config check && nvpair-proxy config reload

With --json: {schema_version, applied, file, changed: [], restart: [], warnings: [], errors: []}
Keys under restart take effect at the next start.";

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
    #[command(after_help = CHECK_EXAMPLES)]
    Check(FileArgs),
    /// Print the settings that would be in force, each with where it comes from
    ///
    /// File, environment and defaults together, as TOML or with --json; secrets are masked. Flags of
    /// `serve` beat all of them. No daemon is asked.
    #[command(after_help = SHOW_EXAMPLES)]
    Show(FileArgs),
    /// Print where files are looked for, and which are there
    #[command(after_help = PATH_EXAMPLES)]
    Path,
    /// Print the JSON Schema of the file, for editors and pipelines
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema,
    /// Let the running daemon read its configuration again; exit 2 if it is invalid
    ///
    /// The file is taken whole or not at all; requests under way end under the one before. SIGHUP
    /// and a change of the file do the same.
    #[command(after_help = RELOAD_EXAMPLES)]
    Reload,
}

/// Which file.
#[derive(Debug, Args)]
pub struct FileArgs {
    /// The file; without it the one that `serve` would read
    pub file: Option<PathBuf>,
}
