//! The admin listener: `/metrics`, `/livez` and `/readyz` on loopback.
//!
//! Owns: the socket, its limits, what each path answers. Leaves to others: what is measured
//! (`gauges`), when it listens (`daemon`).
//!
//! It has no credentials: loopback is who may ask, and the `Host` gate of the facades keeps web pages
//! out that resolve a name of theirs to this machine.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};

use super::gauges::Sources;
use super::prometheus;
use crate::net::listen;
use crate::rules::ingress::{Caller, Door};
use crate::state::lifetime::{Lifetime, Phase};
use crate::state::shared::Shared;

/// Connections at once.
const CONNECTIONS: usize = 32;

/// A head takes no longer, and a connection is not idle for longer.
const HEAD: Duration = Duration::from_secs(30);

/// Bytes of a head.
const HEAD_BYTES: usize = 16 * 1024;

/// Header lines of a head.
const HEADERS: usize = 64;

/// Pause after a failed accept: being out of descriptors must not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the answers are made from.
pub struct Desk {
    /// What is measured.
    pub sources: Arc<Sources>,
    /// Facades, and the names that the `Host` gate admits.
    pub shared: Arc<Shared>,
    /// The process's phase.
    pub lifetime: Arc<Lifetime>,
    /// This machine's name, which may stand in `Host`.
    pub machine: String,
}

/// A listener; dropped, it and its connections are closed.
#[derive(Debug)]
pub struct Admin {
    address: SocketAddr,
    task: AbortHandle,
}

impl Admin {
    /// Listens on this loopback address.
    ///
    /// # Errors
    /// The system does not give it.
    pub fn open(listen: SocketAddr, desk: Arc<Desk>) -> io::Result<Self> {
        let listener = listen::bind_one(listen)?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(accept(listener, desk)).abort_handle();
        Ok(Self { address, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, desk: Arc<Desk>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    // Aborted with this task.
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((stream, client)) => {
                let Ok(place) = places.clone().try_acquire_owned() else {
                    tracing::debug!("too many connections to the admin listener; one was refused");
                    continue;
                };
                let desk = desk.clone();
                connections.spawn(async move {
                    serve(stream, client, desk).await;
                    drop(place);
                });
            },
            Err(e) => {
                tracing::debug!(error = %e, "cannot accept admin connections");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            },
        }
    }
}

async fn serve(stream: TcpStream, client: SocketAddr, desk: Arc<Desk>) {
    if listen::tune(&stream).is_err() {
        return;
    }
    let service = service_fn(move |request| {
        let desk = desk.clone();
        async move { Ok::<_, Infallible>(desk.answer(&request, client).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(e) = served.await {
        tracing::debug!(error = %e, "an admin connection ended early");
    }
}

impl Desk {
    async fn answer(
        &self,
        request: &Request<Incoming>,
        client: SocketAddr,
    ) -> Response<Full<Bytes>> {
        let settings = self.shared.settings.now();
        let door = Door {
            machine: &self.machine,
            hosts: &settings.allowed_hosts,
            origins: None,
            // Nobody comes in from elsewhere, with whatever key.
            networks: &[],
            needs_tls: false,
        };
        let caller = Caller::at(client.ip());
        let needs_host = request.version() >= Version::HTTP_11;
        let target = request.uri().authority().map(|a| a.as_str());
        if door
            .refuses(&caller, needs_host, target, request.headers())
            .is_some()
        {
            let text = "the admin listener answers this machine, by its own names only\n";
            return plain(StatusCode::FORBIDDEN, text.into());
        }
        let path = request.uri().path();
        if !matches!(path, "/metrics" | "/livez" | "/readyz") {
            let text = "there is /metrics, /livez and /readyz\n";
            return plain(StatusCode::NOT_FOUND, text.into());
        }
        // The library leaves the body of an answer to HEAD out.
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let text = "only GET and HEAD are answered\n";
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, text.into());
            let allowed = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(ALLOW, allowed);
            return response;
        }
        match path {
            "/livez" => plain(StatusCode::OK, "ok\n".into()),
            "/readyz" => match self.not_ready() {
                None => plain(StatusCode::OK, "ok\n".into()),
                Some(why) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
            },
            _ => {
                let text = prometheus::text(&self.sources.read().await);
                let mut response = plain(StatusCode::OK, text);
                let kind = HeaderValue::from_static(prometheus::CONTENT_TYPE);
                response.headers_mut().insert(CONTENT_TYPE, kind);
                response
            },
        }
    }

    fn not_ready(&self) -> Option<&'static str> {
        match self.lifetime.phase() {
            Phase::Running if self.shared.facades().is_empty() => Some("no facade listens"),
            Phase::Running => None,
            Phase::Draining => Some("draining"),
            Phase::Cut => Some("stopping"),
        }
    }
}

fn plain(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, kind);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
