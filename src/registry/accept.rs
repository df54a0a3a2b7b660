//! Connections of workers: taken, bounded, served.
//!
//! Owns: the accept loop, handshakes, time-outs of heads and idleness, which connections stay.
//! Leaves to others: what a request has to show (`gate`), the numbers of connections (`seats`).
//! The loop is our own since jsonrpsee's knows no TLS and no time-outs.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::header::CONNECTION;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use jsonrpsee::server::StopHandle;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::gate::Gate;
use super::methods::Registry;
use super::seats::{Seat, Seats};
use crate::net::listen::{self, HANDSHAKE};
use crate::net::server_tls::ServerTls;

/// A head takes no longer, and a connection is not idle for longer, unless beats are further apart.
const HEAD: Duration = Duration::from_secs(30);

/// Beats that are so far apart may have a connection each.
const LONGEST_IDLE: Duration = Duration::from_secs(120);

/// Bytes of a head.
const HEAD_BYTES: usize = 16 * 1024;

/// Pause after a failed accept: being out of descriptors must not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts until it is told to stop.
pub(super) async fn run(
    listener: TcpListener,
    tls: Option<Arc<ServerTls>>,
    registry: Arc<Registry>,
    staying: usize,
    stop: StopHandle,
) {
    let idle = idle(Duration::from_millis(registry.fleet.limits().beat_ms));
    let gate = match Gate::new(registry, stop.clone()) {
        Ok(gate) => Arc::new(gate),
        Err(e) => {
            tracing::error!(reason = %e, "the registry cannot answer");
            return;
        },
    };
    let seats = Arc::new(Seats::new(staying));
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
        let guest = Guest { peer, seat, idle };
        tokio::spawn(connection(
            stream,
            guest,
            tls.clone(),
            gate.clone(),
            stop.clone(),
        ));
    }
}

/// How long a connection may be idle where beats are so far apart: one that is closed with each beat
/// on its way would be made for nothing.
fn idle(beat: Duration) -> Duration {
    HEAD.max((2 * beat).min(LONGEST_IDLE))
}

/// Who is connected.
struct Guest {
    peer: IpAddr,
    seat: Seat,
    idle: Duration,
}

async fn connection(
    stream: TcpStream,
    guest: Guest,
    tls: Option<Arc<ServerTls>>,
    gate: Arc<Gate>,
    stop: StopHandle,
) {
    if listen::tune(&stream).is_err() {
        return;
    }
    let Some(tls) = tls else {
        return serve(stream, guest, gate, stop).await;
    };
    let peer = guest.peer;
    match timeout(HANDSHAKE, tls.accept(stream)).await {
        Ok(Ok(stream)) => serve(stream, guest, gate, stop).await,
        Ok(Err(e)) => {
            tracing::debug!(%peer, error = %e, "a TLS handshake with the registry failed")
        },
        Err(_) => tracing::debug!(%peer, "a TLS handshake with the registry took too long"),
    }
}

async fn serve<S>(stream: S, guest: Guest, gate: Arc<Gate>, stop: StopHandle)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Guest { peer, seat, idle } = guest;
    // It ends with the service, so with the connection.
    let seat = Arc::new(seat);
    let service = service_fn(move |request| {
        let (gate, seat) = (gate.clone(), seat.clone());
        async move {
            let (mut answer, key) = gate.answer(request, peer).await;
            if key.is_some_and(|key| !seat.stay(&key)) {
                let close = HeaderValue::from_static("close");
                answer.headers_mut().insert(CONNECTION, close);
            }
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(idle)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_outlasts_the_time_between_two_beats_within_reason() {
        for (beat, want) in [(0, 30), (5, 30), (15, 30), (20, 40), (60, 120), (600, 120)] {
            let idle = idle(Duration::from_secs(beat));
            assert_eq!(idle, Duration::from_secs(want), "{beat}");
        }
    }
}
