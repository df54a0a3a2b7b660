//! Opens the control client for one subcommand.
//!
//! Owns: which socket, the time limit, the small runtime. Leaves to others: the calls themselves,
//! the wording of failures (`errors`).

use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use nvpair_proxy::config::paths;
use nvpair_proxy::control::client::{ClientError, ControlApiClient, ControlClient};

use crate::cli::Globals;
use crate::errors::{CliError, Kind};
use crate::output;
use crate::runtime;

/// A daemon answers in milliseconds; moving a facade writes a file first.
const LIMIT: Duration = Duration::from_secs(10);

/// The version of this command.
pub const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The control socket in force.
pub fn socket(globals: &Globals) -> Result<PathBuf, CliError> {
    globals
        .socket
        .clone()
        .or_else(|| paths::control_socket(&paths::process_env))
        .ok_or_else(|| {
            CliError::new(Kind::NoDaemon, "no control socket is known here")
                .why("neither XDG_RUNTIME_DIR nor a home folder is set")
                .try_this("--socket PATH, or set NVPAIR_PROXY_SOCKET")
        })
}

/// Connects and runs `calls`.
pub fn with_daemon<T>(
    globals: &Globals,
    calls: impl AsyncFnOnce(&ControlClient) -> Result<T, ClientError>,
) -> Result<T, CliError> {
    attached(globals, async |client| Ok(calls(client).await?))
}

/// Connects and runs `session`, which may fail otherwise than in a call.
pub fn attached<T>(
    globals: &Globals,
    session: impl AsyncFnOnce(&ControlClient) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let mut done = None;
    let run = async {
        let socket = socket(globals)?;
        let client = open(globals, socket).await?;
        done = Some(match session(&client).await {
            Err(error) if error.other_version => Err(versions(error, &client).await),
            done => done,
        });
        Ok(())
    };
    block_on(Box::pin(run))?;
    done.unwrap_or_else(|| Err(anyhow::anyhow!("the session did not end").into()))
}

/// A future behind a pointer. Every subcommand has sessions of its own types; what they have in common
/// is compiled once this way, and not into each.
type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

fn block_on(run: Boxed<'_, Result<(), CliError>>) -> Result<(), CliError> {
    runtime::single()?.block_on(run)
}

fn open(globals: &Globals, socket: PathBuf) -> Boxed<'_, Result<ControlClient, CliError>> {
    Box::pin(async move {
        let client = ControlClient::connect(&socket, LIMIT).await?;
        if globals.verbose > 0 {
            let info = client.call(async |c| c.daemon_info().await).await?;
            output::note(&format!(
                "daemon {} ({}, process {}) on {}",
                info.version,
                info.mode.as_str(),
                info.pid,
                socket.display()
            ));
        }
        Ok(client)
    })
}

/// Adds which versions they are, if the daemon still tells its own.
fn versions(error: CliError, client: &ControlClient) -> Boxed<'_, CliError> {
    Box::pin(async move {
        match client.call(async |c| c.daemon_info().await).await {
            Ok(info) if info.version != OWN_VERSION => error.why(format!(
                "the daemon is version {}, this command is {OWN_VERSION}",
                output::clean(&info.version)
            )),
            _ => error,
        }
    })
}
