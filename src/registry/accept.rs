//! Connections of workers: taken, bounded, served.
//!
//! Owns: the accept loop, handshakes, the numbers of connections, time-outs of heads and idleness.
//! Leaves to others: what a request has to show (`gate`).
//! The loop is our own since jsonrpsee's knows no TLS and no time-outs.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use jsonrpsee::server::StopHandle;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::gate::Gate;
use super::methods::Registry;
use crate::net::listen;
use crate::net::server_tls::ServerTls;

/// Connections at once, of all workers.
const CONNECTIONS: usize = 1024;

/// Connections at once from one address: one host cannot keep the others out.
const FROM_ONE: usize = 128;

/// A handshake takes no longer.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A head takes no longer, and a connection is not idle for longer.
const HEAD: Duration = Duration::from_secs(30);

/// Bytes of a head.
const HEAD_BYTES: usize = 16 * 1024;

/// Pause after a failed accept: being out of descriptors must not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts until it is told to stop.
pub(super) async fn run(
    listener: TcpListener,
    tls: Option<Arc<ServerTls>>,
    registry: Arc<Registry>,
    stop: StopHandle,
) {
    let gate = match Gate::new(registry, stop.clone()) {
        Ok(gate) => Arc::new(gate),
        Err(e) => {
            tracing::error!(reason = %e, "the registry cannot answer");
            return;
        },
    };
    let seats = Arc::new(Seats::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.clone().shutdown() => return,
        };
        let (stream, peer) = match accepted {
            Ok((stream, peer)) => (stream, peer.ip().to_canonical()),
            Err(e) => {
                tracing::warn!(error = %e, "cannot accept registry connections");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            },
        };
        let Some(seat) = Seat::take(&seats, peer) else {
            tracing::debug!(%peer, "too many registry connections; one was refused");
            continue;
        };
        let connection = connection(stream, peer, tls.clone(), gate.clone(), stop.clone());
        tokio::spawn(async move {
            connection.await;
            drop(seat);
        });
    }
}

async fn connection(
    stream: TcpStream,
    peer: IpAddr,
    tls: Option<Arc<ServerTls>>,
    gate: Arc<Gate>,
    stop: StopHandle,
) {
    if listen::tune(&stream).is_err() {
        return;
    }
    let Some(tls) = tls else {
        return serve(stream, peer, gate, stop).await;
    };
    match timeout(HANDSHAKE, tls.accept(stream)).await {
        Ok(Ok(stream)) => serve(stream, peer, gate, stop).await,
        Ok(Err(e)) => {
            tracing::debug!(%peer, error = %e, "a TLS handshake with the registry failed")
        },
        Err(_) => tracing::debug!(%peer, "a TLS handshake with the registry took too long"),
    }
}

async fn serve<S>(stream: S, peer: IpAddr, gate: Arc<Gate>, stop: StopHandle)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let gate = gate.clone();
        async move { Ok::<_, std::convert::Infallible>(gate.answer(request, peer).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut served = std::pin::pin!(served);
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = stop.shutdown() => {
            served.as_mut().graceful_shutdown();
            served.await
        },
    };
    if let Err(e) = ended {
        tracing::debug!(%peer, error = %e, "a registry connection ended early");
    }
}

/// Connections now, by address.
#[derive(Default)]
struct Seats(Mutex<HashMap<IpAddr, usize>>);

/// One connection's right to be.
struct Seat {
    seats: Arc<Seats>,
    peer: IpAddr,
}

impl Seat {
    fn take(seats: &Arc<Seats>, peer: IpAddr) -> Option<Self> {
        let mut taken = seats.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = taken.values().sum();
        let own = taken.get(&peer).copied().unwrap_or(0);
        if all >= CONNECTIONS || own >= FROM_ONE {
            return None;
        }
        taken.insert(peer, own + 1);
        drop(taken);
        Some(Self {
            seats: seats.clone(),
            peer,
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.0.lock().unwrap_or_else(PoisonError::into_inner);
        match taken.get_mut(&self.peer) {
            Some(own) if *own > 1 => *own -= 1,
            _ => {
                taken.remove(&self.peer);
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn one_address_cannot_take_every_seat_and_all_come_back() {
        let seats = Arc::new(Seats::default());
        let at = |n: u16| IpAddr::from(Ipv4Addr::from(0x0a00_0000 + u32::from(n)));
        let mut held: Vec<_> = (0..FROM_ONE)
            .filter_map(|_| Seat::take(&seats, at(0)))
            .collect();
        assert_eq!(held.len(), FROM_ONE);
        assert!(Seat::take(&seats, at(0)).is_none());
        held.extend((1..2_000).filter_map(|n| Seat::take(&seats, at(n))));
        assert_eq!(held.len(), CONNECTIONS);
        held.clear();
        assert!(seats.0.lock().unwrap().is_empty());
    }
}
