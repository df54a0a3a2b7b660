//! Sample engines on loopback: small servers that speak the engines' dialects.
//!
//! Owns: the configuration of one such engine, the fleet of `serve --demo`, and serving a single
//! engine until it is told to end. Leaves to others: what a proxy does with them; they are reached
//! over sockets like any engine, and nothing here knows of a proxy.
//!
//! One engine, two uses. Alone it answers every request with the same built-in text at a set pace
//! and says that it is a sample (`sample`). With a llama-server behind it (`behind`) it gives
//! that server's tokens, timing, queueing and cancelling in the Ollama or LM Studio dialect, so
//! that the real clients of those engines can be tested where the engines themselves cannot run.
//!
//! Loopback only: a sample engine checks no key, so it refuses to listen anywhere else.

mod answer;
mod behind;
mod dialect;
mod engine;
mod request;
mod sample;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::rules::engine::EngineId;

pub use engine::DialectEngine;

use dialect::Dialect;

/// What one sample engine is.
#[derive(Clone, Debug)]
pub struct DialectConfig {
    /// Whose dialect it speaks.
    pub engine: EngineId,
    /// Its name, told in the sample text so that a person sees which node answered.
    pub name: String,
    /// The models it lists; the first one is loaded from the start, the others on first use.
    pub models: Vec<String>,
    /// Time before each token of the sample text. Without effect with a server behind.
    pub token_delay: Duration,
    /// Every n-th inference request is answered 503.
    pub refuse_every: Option<u32>,
    /// Origin of a llama-server that does the work, such as `http://127.0.0.1:8080`.
    pub behind: Option<String>,
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
}

impl DialectConfig {
    /// A sample engine that answers at once on a free loopback port.
    pub fn new(engine: EngineId, name: impl Into<String>, models: &[&str]) -> Self {
        Self {
            engine,
            name: name.into(),
            models: models.iter().map(|m| (*m).to_owned()).collect(),
            token_delay: Duration::ZERO,
            refuse_every: None,
            behind: None,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        }
    }
}

/// Why a sample engine did not start or did not go on.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The address is not a loopback one.
    #[error("a sample engine listens on loopback only, not on {0}")]
    NotLoopback(SocketAddr),
    /// There is nothing to list.
    #[error("a sample engine needs at least one model")]
    NoModels,
    /// The origin of the server behind cannot be used.
    #[error("{0:?} is not an origin such as http://127.0.0.1:8080")]
    Behind(String),
    /// The address cannot be had.
    #[error("cannot listen on {addr}")]
    Bind {
        /// The address asked for.
        addr: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// Termination signals cannot be waited for.
    #[error("cannot wait for signals")]
    Signals(#[source] io::Error),
}

/// The sample engines of `serve --demo`. Dropping it stops them all.
#[derive(Debug)]
pub struct Fleet(Vec<DialectEngine>);

impl Fleet {
    /// Engine, name and address of each node, two an engine, in table order.
    pub fn nodes(&self) -> Vec<(EngineId, String, SocketAddr)> {
        self.0
            .iter()
            .map(|e| (e.engine(), e.name().to_owned(), e.addr()))
            .collect()
    }
}

/// Name of the quick node, which refuses now and then.
pub const QUICK: &str = "demo-quick";
/// Name of the slow node, which never refuses.
pub const SLOW: &str = "demo-slow";

/// Starts two nodes for each engine on free loopback ports: a quick one and a slow one.
///
/// Both list one model in common and one of their own. The quick node is the one that refuses:
/// it gets most requests, so a failover is seen soon.
pub async fn start_fleet() -> Result<Fleet, DemoError> {
    let mut nodes = Vec::new();
    for engine in EngineId::all() {
        let [shared, of_quick, of_slow] = Dialect::of(engine).sample_models();
        nodes.push(DialectConfig {
            token_delay: Duration::from_millis(15),
            refuse_every: Some(5),
            ..DialectConfig::new(engine, QUICK, &[shared, of_quick])
        });
        nodes.push(DialectConfig {
            token_delay: Duration::from_millis(60),
            ..DialectConfig::new(engine, SLOW, &[shared, of_slow])
        });
    }
    let mut fleet = Vec::with_capacity(nodes.len());
    for config in nodes {
        fleet.push(DialectEngine::start(config).await?);
    }
    Ok(Fleet(fleet))
}

/// Serves one engine until the process is interrupted or told to terminate.
pub async fn run_single(config: DialectConfig) -> Result<(), DemoError> {
    let ended = termination().map_err(DemoError::Signals)?;
    let engine = DialectEngine::start(config).await?;
    tracing::info!(engine = %engine.engine(), addr = %engine.addr(), "sample engine is ready");
    ended.await;
    Ok(())
}

/// Resolves at the first signal; the handlers are in place when this returns.
#[cfg(unix)]
fn termination() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

#[cfg(not(unix))]
fn termination() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        // An error means that no signal can come; the process is then ended from outside.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

#[cfg(test)]
mod tests;
