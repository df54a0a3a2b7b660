//! TLS of a facade's own, for callers beyond loopback (product section 8).
//!
//! Owns: which facade has a certificate, the handshake. Leaves to others: loading certificates
//! (`net::server_tls`), what may be asked for over it (`server`), the cluster's mutual TLS
//! (`ingress`), which goes first where this node may be in a cluster.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::net::listen::HANDSHAKE;
use crate::net::places::Place;
use crate::net::server_tls::ServerTls;
use crate::rules::engine::EngineId;
use crate::rules::ingress::Caller;

use super::{Facade, server};

/// A facade's certificate.
#[derive(Clone)]
pub enum Certificate {
    /// It is served.
    Served(Arc<ServerTls>),
    /// It is configured and cannot be used: nobody comes in beyond loopback.
    Unusable,
}

/// The certificates of the facades.
#[derive(Default)]
pub struct Certificates(RwLock<HashMap<EngineId, Certificate>>);

impl Certificates {
    /// That of a facade; `None` = it has none and speaks in the clear.
    pub fn of(&self, engine: EngineId) -> Option<Certificate> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.get(&engine).cloned()
    }

    /// From now on these. Connections that stand are left alone.
    pub fn replace(&self, all: HashMap<EngineId, Certificate>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = all;
    }
}

/// Serves a connection that began a handshake. Without a certificate there is nobody to speak to.
pub async fn connection(facade: Facade, stream: TcpStream, client: SocketAddr, place: Place) {
    let engine = facade.state.engine();
    let Some(Certificate::Served(tls)) = facade.context.certificates.of(engine) else {
        return;
    };
    // A flood of handshakes must not take all memory and every core.
    let Some(shaking) = place.shake() else {
        return tracing::debug!(%engine, "too many handshakes at once");
    };
    let to = stream.local_addr().ok();
    let stream = match timeout(HANDSHAKE, tls.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(e)) => return tracing::debug!(%engine, reason = %e, "no handshake with a client"),
        Err(_) => return tracing::debug!(%engine, "a client was too slow for a handshake"),
    };
    drop(shaking);
    let caller = Caller {
        from: client.ip(),
        to: to.map(|a| a.ip()),
        tls: true,
    };
    let context = facade.context.clone();
    server::serve(&context.lifetime, stream, place, move |door, request| {
        server::answer(facade.clone(), door, caller, request)
    })
    .await;
}
