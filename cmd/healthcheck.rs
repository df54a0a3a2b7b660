//! `healthcheck`: an exit code for probes of containers and supervisors.
//!
//! Owns: what counts as healthy. Leaves to others: the state of nodes. A daemon whose nodes are all
//! down is healthy, since restarting it would not bring them back.

use std::process::ExitCode;

use nvpair_proxy::control::client::ControlApiClient;
use nvpair_proxy::rules::engine::EngineId;
use nvpair_proxy::wire::control::{Mode, SCHEMA_VERSION, Status};
use serde::Serialize;

use crate::cli::{Globals, HealthcheckArgs};
use crate::connect::with_daemon;
use crate::errors::{CliError, Kind};
use crate::output;

/// What `--json` prints.
#[derive(Serialize)]
struct Health<'a> {
    schema_version: u32,
    healthy: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// Runs it. Says nothing on stdout without `--json`; a failure is told on stderr unless `--quiet`.
pub fn run(args: &HealthcheckArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let healthy = with_daemon(globals, async |client| {
        client.ask(async |c| c.status().await).await
    })
    .and_then(|status| judge(&status, &args.engines));
    if globals.json {
        output::print_json(&Health {
            schema_version: SCHEMA_VERSION,
            healthy: healthy.is_ok(),
            reason: healthy.as_ref().err().map(|e| e.what.as_str()),
        })?;
    }
    match healthy {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if globals.quiet => Ok(ExitCode::from(error.kind as u8)),
        Err(error) => Err(error),
    }
}

/// Each named facade must listen; without names, at least one must, except under a broker, which
/// enables them when it sees fit.
fn judge(status: &Status, engines: &[EngineId]) -> Result<(), CliError> {
    let listens = |engine: &EngineId| status.facades.iter().any(|f| f.engine == *engine);
    let what = match engines.iter().find(|engine| !listens(engine)) {
        Some(engine) => format!("the {} facade does not listen", engine.spec().display),
        None if status.facades.is_empty() && status.daemon.mode == Mode::Standalone => {
            "no facade listens".to_owned()
        },
        None => return Ok(()),
    };
    Err(CliError::new(Kind::Failed, what)
        .why("the daemon runs, but clients are refused")
        .try_this("nvpair-proxy status          (it lists the enabled facades)")
        .try_this("the daemon's log, which says why a facade is not enabled"))
}
