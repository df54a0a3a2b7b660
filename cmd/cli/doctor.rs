//! `doctor` on the command line.
//!
//! Owns: its flags. Leaves to others: running it (`crate::doctor`).

use std::path::PathBuf;

use clap::Args;

const DOCTOR_EXAMPLES: &str = "\
Examples:
  nvpair-proxy doctor
  nvpair-proxy doctor -q                  only what needs doing
  nvpair-proxy doctor --json | jq '.findings[] | select(.level == \"problem\")'

Looks at: daemon and control socket, configuration, ports and who has them, engines and nodes with
their versions, trust folder, descriptors, proxy variables, state folder. Works without a daemon, and
changes nothing.

Exit codes: 0 no problem (warnings do not count); 1 at least one problem.

With --json: {schema_version, version, problems, warnings,
  findings: [{check, level, text, remedy?}]}
level is ok, note, warning or problem.";

/// `doctor`.
#[derive(Debug, Args)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub struct DoctorArgs {
    /// Configuration file, as of serve
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder of the cluster's certificates and pins [default: the running daemon's]
    #[arg(long, value_name = "DIR")]
    pub cluster_dir: Option<PathBuf>,
}
