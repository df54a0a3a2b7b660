//! Layer 6: where workers register themselves with the node pool (product section 7).
//!
//! A call's way: `accept` takes the connection, `gate` asks for the key and reads the body,
//! jsonrpsee finds the method, `methods` checks what it says, `endpoint` where it may be dialled,
//! and [`crate::state::fleet::Fleet`] keeps it.

mod accept;
mod endpoint;
mod gate;
mod methods;
mod quota;
pub mod resolve;
mod seats;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use jsonrpsee::server::{ServerHandle, stop_channel};
use tokio::task::JoinHandle;

use crate::net::listen;
use crate::net::server_tls::ServerTls;
use crate::rules::rate::PerMinute;
use crate::state::fleet::Fleet;
use methods::Registry;
use quota::Quotas;
use resolve::{Resolve, SystemResolver};

/// Calls that are being answered may take so long when the daemon stops.
const STOP_LIMIT: Duration = Duration::from_secs(1);

/// How the registry listens and what it lets in.
pub struct Options {
    /// Address and port; port 0 is any free one.
    pub listen: SocketAddr,
    /// What it shows in a handshake; `None` = in the clear, on loopback alone.
    pub tls: Option<Arc<ServerTls>>,
    /// Networks outside of which no endpoint may lie, whatever a key allows; empty = the key alone
    /// decides.
    pub allowed_endpoints: Vec<IpNet>,
    /// Registrations of one key.
    pub registrations: PerMinute,
    /// Connections of workers that stay between two calls; more of them have one a call.
    pub staying: usize,
    /// Finds the addresses of an endpoint's host.
    pub resolver: Arc<dyn Resolve>,
    /// Gives milliseconds and never goes back: for the rates alone.
    pub clock: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl Options {
    /// On this address, with the system's resolver and clock, 60 registrations a minute, and 1,024
    /// connections that stay.
    pub fn standard(listen: SocketAddr) -> Self {
        let begun = std::time::Instant::now();
        Self {
            listen,
            tls: None,
            allowed_endpoints: Vec::new(),
            registrations: PerMinute::new(60),
            staying: 1024,
            resolver: Arc::new(SystemResolver),
            clock: Arc::new(move || u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

/// Why the registry does not listen.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Other machines would send their keys in the clear.
    #[error(
        "the registry does not listen on {0} without TLS: workers would send their keys in the \
         clear; give `tls_cert` and `tls_key`, or listen on 127.0.0.1"
    )]
    Plain(SocketAddr),
    /// The address cannot be had.
    #[error(
        "the registry cannot listen on {address}: {source}; choose another address with `listen` \
         in [pool]"
    )]
    Bind {
        /// Which.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
}

/// The listening registry. Dropping it stops it.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    handle: ServerHandle,
    accepting: JoinHandle<()>,
}

impl Server {
    /// The address it is bound to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops after the calls in hand have their answers, or after a second.
    pub async fn stop(self) {
        // Already stopped is as good.
        let _ = self.handle.stop();
        let stopped = tokio::time::timeout(STOP_LIMIT, self.handle.clone().stopped());
        if stopped.await.is_err() {
            tracing::debug!("registry calls were still open at the end");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.handle.stop();
        self.accepting.abort();
    }
}

/// Starts answering workers. Must be called inside a runtime with I/O.
///
/// # Errors
/// Nothing listens then.
pub fn start(options: Options, fleet: Arc<dyn Fleet>) -> Result<Server, StartError> {
    let Options {
        listen: address,
        tls,
        allowed_endpoints,
        registrations,
        staying,
        resolver,
        clock,
    } = options;
    if tls.is_none() && !address.ip().to_canonical().is_loopback() {
        return Err(StartError::Plain(address));
    }
    let failed = |source| StartError::Bind { address, source };
    let listener = listen::bind_one(address).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let registry = Arc::new(Registry {
        fleet,
        resolver,
        allowed_endpoints,
        quotas: Quotas::new(registrations, clock),
    });
    let (stop, handle) = stop_channel();
    let accepting = tokio::spawn(accept::run(listener, tls, registry, staying, stop));
    Ok(Server {
        address,
        handle,
        accepting,
    })
}
