//! The caller's end of the control socket.
//!
//! Owns: dialling, the time limit, and telling apart why a call has no result.
//! Leaves to others: the calls (`api`), what a person is told (`cmd`).

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jsonrpsee::client_transport::ws::WsTransportClientBuilder;
use jsonrpsee::core::client::{Client, ClientBuilder, Error as RpcError, Subscription};

pub use super::api::ControlApiClient;
pub use super::keys::KeysApiClient;
pub use super::pool::PoolApiClient;
use super::transport;
use crate::wire::control::{Document, SCHEMA_VERSION, WorkloadChange};
use crate::wire::replay::ReplayUpdate;

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens: no socket, or one that a daemon left behind.
    #[error("no daemon is listening on {}", .path.display())]
    NoDaemon {
        /// The socket.
        path: PathBuf,
        /// What the dial said.
        source: io::Error,
    },
    /// The socket is there, but not for us.
    #[error("cannot use the control socket {}", .path.display())]
    Denied {
        /// The socket.
        path: PathBuf,
        /// What the dial said.
        source: io::Error,
    },
    /// The daemon answered with an error.
    #[error("{message}")]
    Refused {
        /// JSON-RPC code, as on the broker link.
        code: i32,
        /// What, why, and what to do.
        message: String,
    },
    /// The answer is of a version that this client does not know.
    #[error("the daemon's answer is of schema {theirs}, and this command reads {SCHEMA_VERSION}")]
    OtherSchema {
        /// The version it has.
        theirs: u32,
    },
    /// The answer cannot be read at all.
    #[error("the daemon's answer cannot be read: {0}")]
    Unreadable(String),
    /// No answer in time.
    #[error("the daemon did not answer within {} s", .0.as_secs_f32())]
    TimedOut(Duration),
    /// The daemon went away.
    #[error("the connection to the daemon broke: {0}")]
    Broken(String),
}

/// Changes of workloads, as `workloads/subscribe` sends them.
pub type Changes = Subscription<WorkloadChange>;

/// Updates of a replay, as `replay/subscribe` sends them.
pub type ReplayUpdates = Subscription<ReplayUpdate>;

/// A connection to a daemon.
pub struct ControlClient {
    rpc: Client,
    limit: Duration,
}

impl ControlClient {
    /// Connects, within `limit`, which then also bounds each call.
    pub async fn connect(path: &Path, limit: Duration) -> Result<Self, ClientError> {
        tokio::time::timeout(limit, Self::handshake(path, limit))
            .await
            .unwrap_or(Err(ClientError::TimedOut(limit)))
    }

    async fn handshake(path: &Path, limit: Duration) -> Result<Self, ClientError> {
        let stream = transport::dial(path)
            .await
            .map_err(|e| undialled(path, e))?;
        // The host is never looked up: the stream is there already.
        let url = "ws://localhost/"
            .parse()
            .map_err(|e| ClientError::Broken(format!("{e}")))?;
        let (tx, rx) = WsTransportClientBuilder::default()
            .max_response_size(u32::MAX)
            .build_with_stream(url, stream)
            .await
            .map_err(|e| ClientError::Broken(e.to_string()))?;
        let rpc = ClientBuilder::default()
            .request_timeout(limit)
            .build_with_tokio(tx, rx);
        Ok(Self { rpc, limit })
    }

    /// Makes one call of [`ControlApiClient`]: `client.call(async |c| c.status().await).await`.
    pub async fn call<T>(
        &self,
        call: impl AsyncFnOnce(&Client) -> Result<T, RpcError>,
    ) -> Result<T, ClientError> {
        call(&self.rpc).await.map_err(|e| self.failed(e))
    }

    /// The same for an answer that tells its version, which must be ours: what another version means
    /// is not known here.
    pub async fn ask<T: Document>(
        &self,
        call: impl AsyncFnOnce(&Client) -> Result<T, RpcError>,
    ) -> Result<T, ClientError> {
        let document = self.call(call).await?;
        known(&document)?;
        Ok(document)
    }

    fn failed(&self, error: RpcError) -> ClientError {
        match error {
            RpcError::Call(refusal) => {
                // A parameter that does not decode is told in `data`, with a stock message.
                let detail = refusal
                    .data()
                    .and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
                let message = match detail {
                    Some(detail) => format!("{}: {detail}", refusal.message()),
                    None => refusal.message().to_owned(),
                };
                ClientError::Refused {
                    code: refusal.code(),
                    message,
                }
            },
            RpcError::RequestTimeout => ClientError::TimedOut(self.limit),
            RpcError::ParseError(e) => ClientError::Unreadable(e.to_string()),
            other => ClientError::Broken(other.to_string()),
        }
    }
}

/// Whether a document is of the version that this client reads.
///
/// # Errors
/// [`ClientError::OtherSchema`].
pub fn known(document: &impl Document) -> Result<(), ClientError> {
    match document.schema_version() {
        SCHEMA_VERSION => Ok(()),
        theirs => Err(ClientError::OtherSchema { theirs }),
    }
}

fn undialled(path: &Path, source: io::Error) -> ClientError {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            ClientError::NoDaemon { path, source }
        },
        _ => ClientError::Denied { path, source },
    }
}
