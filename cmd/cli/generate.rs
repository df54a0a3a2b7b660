//! `generate` on the command line.
//!
//! Owns: its flags. Leaves to others: running it (`crate::generate`, `crate::units`).

use std::path::PathBuf;

use clap::{Args, Subcommand};

const GENERATE_EXAMPLES: &str = "\
Examples:
  nvpair-proxy generate                   completions/ and man/ in this folder
  nvpair-proxy generate --check           fail if anything there is out of date
  nvpair-proxy generate systemd --user    print a unit

With --json: {schema_version, written: [], removed: []}, paths below the folder; with --check it is
{schema_version, out_of_date: []}, and the exit code says the same.";

/// `generate`.
#[derive(Debug, Args)]
#[command(after_help = GENERATE_EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct GenerateArgs {
    /// Folder that holds completions/ and man/
    #[arg(default_value = ".")]
    pub dir: PathBuf,
    /// Write nothing; fail if anything there is out of date
    #[arg(long)]
    pub check: bool,
    /// What to print instead.
    #[command(subcommand)]
    pub verb: Option<GenerateVerb>,
}

/// What `generate` prints.
#[derive(Debug, Subcommand)]
pub enum GenerateVerb {
    /// Print a hardened unit for systemd
    Systemd(SystemdArgs),
    /// Print a property list for launchd (macOS)
    Launchd(LaunchdArgs),
}

const SYSTEMD_EXAMPLES: &str = "\
Examples:
  nvpair-proxy generate systemd > ~/.config/systemd/user/nvpair-proxy.service
  nvpair-proxy generate systemd --system --binary /usr/local/bin/nvpair-proxy |
    sudo tee /etc/systemd/system/nvpair-proxy.service
  nvpair-proxy generate systemd --agent --system |
    sudo tee /etc/systemd/system/nvpair-proxy-agent.service

With --json: {schema_version, name, text}, the file's usual name and what is in it";

/// `generate systemd`.
#[derive(Debug, Args)]
#[command(after_help = SYSTEMD_EXAMPLES)]
pub struct SystemdArgs {
    /// A unit for your own user; the default
    #[arg(long)]
    pub user: bool,
    /// A unit for the machine, with a user of its own that systemd makes
    #[arg(long, conflicts_with = "user")]
    pub system: bool,
    /// A unit for the agent of a pool node instead of the daemon
    #[arg(long)]
    pub agent: bool,
    /// The binary that it starts [default: this one]
    #[arg(long, value_name = "PATH")]
    pub binary: Option<PathBuf>,
}

const LAUNCHD_EXAMPLES: &str = "\
Examples:
  nvpair-proxy generate launchd > ~/Library/LaunchAgents/nvpair-proxy.plist

With --json: {schema_version, name, text}, the file's usual name and what is in it";

/// `generate launchd`.
#[derive(Debug, Args)]
#[command(after_help = LAUNCHD_EXAMPLES)]
pub struct LaunchdArgs {
    /// The binary that it starts [default: this one]
    #[arg(long, value_name = "PATH")]
    pub binary: Option<PathBuf>,
    /// The file it logs to [default: ~/Library/Logs/nvpair-proxy.log]
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
}
