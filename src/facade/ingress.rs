//! The cluster's door: a peer's request goes to this machine's engine, and nowhere else (data plane
//! 12.3 and 12.4).
//!
//! Owns: the pin check of each request, the way to the engine and back. Leaves to others: the
//! handshake (`net::tls`), everything a request is to the cluster: routing, retries, events and
//! counts are the origin's.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, Version, header};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use rustls::pki_types::CertificateDer;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::net::answers;
use crate::net::body::{RequestBody, discard};
use crate::net::headers;
use crate::net::listen::HANDSHAKE;
use crate::net::places::Place;
use crate::net::upstream::{Address, Connection, Via};
use crate::rules::addresses::authority;
use crate::rules::ingress::Refusal as Door;
use crate::rules::route::dialect;
use crate::state::facade::InFlight;

use super::answer::Content;
use super::exchange::{origin_form, own, prepare};
use super::relay::Broken;
use super::upgrade::{self, Wish};
use super::visit::Visit;
use super::{Facade, server};

/// Why a peer's request is not served.
#[derive(Clone, Copy)]
enum Refusal {
    /// This node is no member, or the peer's certificate is not pinned.
    NotPinned,
    /// What it aims at is no resource of an engine.
    IllAimed(Door),
    /// No healthy engine is known here.
    NoBackend,
    /// The engine gave no answer.
    BackendError,
}

impl Refusal {
    fn answer(self) -> Response<Content> {
        let (status, code, text) = match self {
            Self::NotPinned => (
                StatusCode::FORBIDDEN,
                "cluster-auth",
                "client certificate is not a pinned member of this node's cluster",
            ),
            Self::IllAimed(Door::NoTunnels) => (
                StatusCode::METHOD_NOT_ALLOWED,
                Door::NoTunnels.code(),
                server::NO_TUNNELS,
            ),
            Self::IllAimed(_) => (
                StatusCode::BAD_REQUEST,
                Door::BadTarget.code(),
                server::BAD_TARGET,
            ),
            Self::NoBackend => (
                StatusCode::SERVICE_UNAVAILABLE,
                "no-local-backend",
                "no local inference backend is available on this node",
            ),
            Self::BackendError => (
                StatusCode::BAD_GATEWAY,
                "backend-error",
                "local inference backend error",
            ),
        };
        own(answers::refusal(status, code, text))
    }
}

/// Serves a peer's connection. Without a cluster, or while this node is no member of it, there is
/// nobody to speak to.
pub async fn connection(facade: Facade, stream: TcpStream, client: SocketAddr, place: Place) {
    let Some(cluster) = facade.context.cluster.clone() else {
        return;
    };
    let engine = facade.state.engine();
    // A flood of handshakes must not take all memory and every core.
    let Some(shaking) = place.shake() else {
        return tracing::debug!(%engine, "too many handshakes at once");
    };
    let stream = match timeout(HANDSHAKE, cluster.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(e)) => return tracing::debug!(%engine, reason = %e, "no handshake with a peer"),
        Err(_) => return tracing::debug!(%engine, "a peer was too slow for a handshake"),
    };
    drop(shaking);
    let shown = stream.get_ref().1.peer_certificates();
    let Some(leaf) = shown.and_then(|chain| Some(chain.first()?.clone().into_owned())) else {
        return;
    };
    let leaf = Arc::new(leaf);
    let context = facade.context.clone();
    server::serve(&context.lifetime, stream, place, move |door, request| {
        let (facade, leaf) = (facade.clone(), leaf.clone());
        async move {
            let route = dialect(request.uri().path());
            let client = client.ip().to_canonical();
            server::fence(&door, route, || handle(&facade, &leaf, client, request)).await
        }
    })
    .await;
}

async fn handle(
    facade: &Facade,
    leaf: &CertificateDer<'_>,
    client: IpAddr,
    request: Request<Incoming>,
) -> Response<Content> {
    let counted = facade.state.enter();
    // As it is on disk now: the connection may be older than the peer's removal.
    let cluster = facade.context.cluster.as_ref();
    if !cluster.is_some_and(|c| c.members().refresh().accepts(leaf)) {
        tracing::debug!(engine = %facade.state.engine(), "refused a peer that is not pinned");
        discard(request.into_body());
        let mut response = Refusal::NotPinned.answer();
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
        return response;
    }
    let mut visit = Visit::begin(facade, &request);
    match pass(facade, client, request, counted, &mut visit).await {
        Ok(response) => response,
        Err(refusal) => {
            let answer = refusal.answer();
            visit.refused(answer.status());
            answer
        },
    }
}

/// To the engine and back, once, whatever it is.
async fn pass(
    facade: &Facade,
    client: IpAddr,
    mut request: Request<Incoming>,
    counted: InFlight,
    visit: &mut Visit,
) -> Result<Response<Content>, Refusal> {
    if let Some(why) = server::ill_aimed(&request) {
        return Err(Refusal::IllAimed(why));
    }
    let Some(backend) = Backend::of(facade) else {
        discard(request.into_body());
        return Err(Refusal::NoBackend);
    };
    if let Some(wish) = prepare(&mut request, client) {
        request.extensions_mut().insert(Wish(wish));
    }
    let upgrade = upgrade::Client::take(&mut request);
    let mut request = request.map(RequestBody::stream);
    origin_form(request.uri_mut());
    *request.version_mut() = Version::HTTP_11;
    request
        .headers_mut()
        .insert(header::HOST, backend.header.clone());
    if let Some(upgrade) = &upgrade {
        upgrade.ask(request.headers_mut());
    }
    visit.pass_trace(request.headers_mut());
    let context = &facade.context;
    let cap = context.shared.settings.now().response_cap;
    let (to, mut request) = (backend.address(), Some(request));
    let sent = context.upstreams.send(&to, &mut request, cap).await;
    let (response, connection) = sent.map_err(|e| {
        let engine = facade.state.engine();
        tracing::debug!(%engine, reason = e.text(), "the local engine did not serve a peer");
        // Nobody took it.
        if let Some(request) = request.take() {
            discard(request.into_body());
        }
        Refusal::BackendError
    })?;
    let (mut head, body) = response.into_parts();
    headers::answer(&mut head, upgrade.is_some()).map_err(|e| {
        let engine = facade.state.engine();
        tracing::debug!(%engine, reason = %e, "the local engine's answer cannot be passed on");
        Refusal::BackendError
    })?;
    visit.answered(head.status);
    if head.status == StatusCode::SWITCHING_PROTOCOLS {
        visit.relayed();
        let response = Response::from_parts(head, body);
        return Ok(switch(facade, upgrade, response, connection, counted));
    }
    let passed = Passed::new(
        body,
        connection,
        backend,
        facade.clone(),
        counted,
        visit.take(),
    );
    Ok(Response::from_parts(
        head,
        Content::Passed(Box::new(passed)),
    ))
}

fn switch(
    facade: &Facade,
    client: Option<upgrade::Client>,
    mut response: Response<Incoming>,
    connection: Connection,
    counted: InFlight,
) -> Response<Content> {
    let theirs = hyper::upgrade::on(&mut response);
    if let Some(client) = client {
        let context = facade.context.clone();
        tokio::spawn(async move {
            drop(upgrade::join(client, theirs, connection, &context.lifetime).await);
            drop(counted);
        });
    }
    response.map(|_| Content::Own(Bytes::new()))
}

/// This machine's engine.
struct Backend {
    name: Arc<str>,
    header: HeaderValue,
    host: String,
    port: u16,
}

impl Backend {
    /// The engine of this facade, if it can be asked.
    fn of(facade: &Facade) -> Option<Self> {
        let (host, port) = facade.state.usable_backend()?;
        let name: Arc<str> = authority(&host, port).into();
        let header = HeaderValue::from_str(&name).ok()?;
        Some(Self {
            name,
            header,
            host,
            port,
        })
    }

    fn address(&self) -> Address<'_> {
        Address {
            authority: &self.name,
            host: &self.host,
            port: self.port,
            via: Via::Plain,
        }
    }
}

/// The engine's answer on its way to a peer.
pub struct Passed {
    body: Incoming,
    connection: Option<Connection>,
    backend: Backend,
    facade: Facade,
    visit: Visit,
    _counted: InFlight,
}

impl Passed {
    fn new(
        body: Incoming,
        connection: Connection,
        backend: Backend,
        facade: Facade,
        counted: InFlight,
        visit: Visit,
    ) -> Self {
        let mut new = Self {
            body,
            connection: Some(connection),
            backend,
            facade,
            visit,
            _counted: counted,
        };
        if new.body.is_end_stream() {
            new.ended();
        }
        new
    }

    /// The engine's part is over: its connection can serve others.
    fn ended(&mut self) {
        if let Some(connection) = self.connection.take() {
            let upstreams = &self.facade.context.upstreams;
            upstreams.give_back(&self.backend.address(), connection);
        }
        self.visit.relayed();
    }
}

impl Body for Passed {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(Err(_)) => self.visit.truncated(),
            None => self.ended(),
            // Behind trailers nobody asks for more.
            Some(Ok(f)) if f.is_trailers() || self.body.is_end_stream() => self.ended(),
            Some(Ok(_)) => {},
        }
        Poll::Ready(frame.map(|f| f.map_err(Broken::Upstream)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
