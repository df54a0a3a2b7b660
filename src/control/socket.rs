//! The control socket: bound before anything else starts, served once the daemon can answer.
//!
//! Owns: binding, the accept loop, stopping. Leaves to others: file, lock and caller checks
//! (`transport`), the calls (`server`).
//! Binding and serving are apart so that a second daemon fails before it has opened a facade.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use jsonrpsee::core::middleware::RpcServiceBuilder;
use jsonrpsee::server::{
    BatchRequestConfig, Methods, Server, ServerConfig, ServerHandle, StopHandle, stop_channel,
};
use tokio::task::JoinHandle;
use tower_service::Service;

use super::api::ControlApiServer;
use super::door::Door;
use super::keys::{KeysApiServer, KeysHandlers};
use super::pool::{PoolApiServer, PoolHandlers};
use super::server::Handlers;
use super::transport;
use crate::state::command::Commands;
use crate::state::query::Queries;

/// Calls that are being answered may take so long when the daemon stops.
const STOP_LIMIT: Duration = Duration::from_secs(1);

/// A head takes no longer.
const HEAD: Duration = Duration::from_secs(10);

/// Pause after a failed accept: being out of descriptors must not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why the socket cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// A daemon listens there, or is about to.
    #[error("another daemon runs: it holds the control socket {}", .0.display())]
    InUse(PathBuf),
    /// Something else lies there.
    #[error("{} exists and is not a socket; remove it or choose another path", .0.display())]
    NotASocket(PathBuf),
    /// Longer than the system's addresses.
    #[error(
        "the control socket's path has {length} bytes and may have {limit}: {}; choose a shorter one",
        .path.display()
    )]
    TooLong {
        /// The path.
        path: PathBuf,
        /// Its length in bytes.
        length: usize,
        /// What fits.
        limit: usize,
    },
    /// Other users could replace the files in its folder.
    #[error(
        "other users may write in {}; the control socket needs a folder of its own (mode 0700)",
        .0.display()
    )]
    UnsafeFolder(PathBuf),
    /// The system refused.
    #[error("cannot {what} {}", .path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// This platform has none.
    #[error("there is no control socket on this platform yet")]
    Unsupported,
}

impl SocketError {
    /// The socket of another daemon, if that is why.
    pub fn other_daemon(&self) -> Option<&Path> {
        match self {
            Self::InUse(path) => Some(path),
            _ => None,
        }
    }
}

/// A bound socket that nobody serves yet: callers wait. Dropping it gives the path back.
#[derive(Debug)]
pub struct ControlSocket(transport::Bound);

impl ControlSocket {
    /// Takes the path: makes its folder, takes its lock, replaces a dead socket. Holding the value
    /// is holding the lock, and so the right to write the daemon's other files.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        transport::bind(path).map(Self)
    }

    /// Starts answering. Fails only if this is not inside a runtime with I/O.
    pub fn serve(self, commands: Commands, queries: Arc<dyn Queries>) -> io::Result<ControlServer> {
        let (listener, file) = self.0.into_parts()?;
        let (stop, handle) = stop_channel();
        let mut methods = Methods::from(
            Handlers {
                commands: commands.clone(),
                queries: Arc::clone(&queries),
            }
            .into_rpc(),
        );
        let keys = KeysHandlers {
            commands,
            queries: Arc::clone(&queries),
        };
        methods.merge(keys.into_rpc()).map_err(io::Error::other)?;
        let pool = PoolHandlers {
            queries: Arc::clone(&queries),
        };
        methods.merge(pool.into_rpc()).map_err(io::Error::other)?;
        let accepting = tokio::spawn(accept_loop(listener, methods, queries, stop));
        Ok(ControlServer {
            handle,
            accepting,
            _file: file,
        })
    }
}

/// The served socket. Dropping it stops serving and removes the file.
#[derive(Debug)]
pub struct ControlServer {
    handle: ServerHandle,
    accepting: JoinHandle<()>,
    _file: transport::SocketFile,
}

impl ControlServer {
    /// Stops after the calls in hand have their answers, or after a second.
    pub async fn stop(self) {
        // Already stopped is as good.
        let _ = self.handle.stop();
        if tokio::time::timeout(STOP_LIMIT, self.handle.clone().stopped())
            .await
            .is_err()
        {
            tracing::debug!("control calls were still open at the end");
        }
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        let _ = self.handle.stop();
        self.accepting.abort();
    }
}

async fn accept_loop(
    listener: transport::Listener,
    methods: Methods,
    queries: Arc<dyn Queries>,
    stop: StopHandle,
) {
    let config = ServerConfig::builder()
        // Both ends are the same user's: a fleet's list may be as long as it is.
        .max_response_body_size(u32::MAX)
        .set_batch_request_config(BatchRequestConfig::Disabled)
        .build();
    let door = RpcServiceBuilder::new().layer_fn(move |s| Door::new(s, Arc::clone(&queries)));
    let services = Server::builder()
        .set_config(config)
        .set_rpc_middleware(door)
        .to_service_builder();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.clone().shutdown() => return,
        };
        match accepted {
            Ok(Some(stream)) => {
                let service = services.clone().build(methods.clone(), stop.clone());
                let service = service_fn(move |request| {
                    let answer = service.clone().call(request);
                    async move { answer.await.map_err(io::Error::other) }
                });
                // Not jsonrpsee's own: that one also speaks HTTP/2, which no caller of ours does and
                // which is a quarter of a megabyte.
                let served = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD)
                    .serve_connection(TokioIo::new(stream), service)
                    .with_upgrades();
                let stopped = stop.clone().shutdown();
                tokio::spawn(async move {
                    let mut served = std::pin::pin!(served);
                    let ended = tokio::select! {
                        ended = served.as_mut() => ended,
                        () = stopped => {
                            served.as_mut().graceful_shutdown();
                            served.await
                        },
                    };
                    if let Err(e) = ended {
                        tracing::debug!(error = %e, "a control connection ended early");
                    }
                });
            },
            Ok(None) => tracing::warn!("refused a control connection of another user"),
            Err(e) => {
                tracing::warn!(error = %e, "cannot accept control connections");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            },
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
pub(super) mod tests;
