//! The engine's door at `--listen`: requests go to the engine as they come, and are counted.
//!
//! Owns: the listener, the count. Leaves to others: connections to the engine (`net::upstream`),
//! header rules (`net::headers`). Nothing is retried, nothing is buffered, nothing is decided here:
//! that is the gateway's.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::uri::{PathAndQuery, Uri};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use crate::net::answers::refusal;
use crate::net::body::{RequestBody, discard};
use crate::net::upstream::{Address, Connection, Upstreams, Via};
use crate::net::{headers, listen};
use crate::rules::budget::Cap;
use crate::rules::pool::endpoint::Endpoint;

/// Connections at once; more wait to be accepted.
const CONNECTIONS: usize = 4096;

/// A head takes no longer, and a connection is not idle for longer.
const HEAD: Duration = Duration::from_secs(60);

/// Pause after a failed accept: being out of descriptors must not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

type Content = UnsyncBoxBody<Bytes, hyper::Error>;

/// The number of requests under way: POSTs, since what only looks takes no engine's time.
#[derive(Clone, Debug)]
pub(super) struct Active(Arc<watch::Sender<u64>>);

impl Active {
    /// Nothing is under way.
    pub(super) fn none() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }

    /// How many now.
    pub(super) fn count(&self) -> u64 {
        *self.0.borrow()
    }

    /// Hears of every change.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }

    fn enter(&self) -> Counted {
        self.0.send_modify(|n| *n += 1);
        Counted(self.0.clone())
    }
}

/// One request under way, until this is dropped.
struct Counted(Arc<watch::Sender<u64>>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n = n.saturating_sub(1));
    }
}

/// The door, until this is dropped: then connections are cut.
pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    pub(super) active: Active,
    accepting: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Proxy {
    /// Opens the door.
    pub(super) fn open(address: SocketAddr, engine: &Endpoint) -> io::Result<Self> {
        let listener = listen::bind_one(address)?;
        let address = listener.local_addr()?;
        let active = Active::none();
        let way = Arc::new(Way {
            upstreams: Upstreams::new(None, Arc::default()),
            authority: engine.authority().into(),
            engine: engine.clone(),
            active: active.clone(),
        });
        Ok(Self {
            address,
            active,
            accepting: tokio::spawn(accept(listener, way)),
        })
    }
}

async fn accept(listener: TcpListener, way: Arc<Way>) {
    let seats = Arc::new(Semaphore::new(CONNECTIONS));
    // Connections end with the door.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok(seat) = seats.clone().acquire_owned().await else {
            return;
        };
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, peer)) => {
                let way = way.clone();
                connections.spawn(async move {
                    serve(stream, peer.ip().to_canonical(), way).await;
                    drop(seat);
                });
            },
            Err(e) => {
                tracing::warn!(error = %e, "cannot accept requests");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            },
        }
    }
}

async fn serve(stream: TcpStream, peer: IpAddr, way: Arc<Way>) {
    if listen::tune(&stream).is_err() {
        return;
    }
    let service = service_fn(move |request| {
        let way = way.clone();
        async move { Ok::<_, std::convert::Infallible>(way.pass(request, peer).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .preserve_header_case(true)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(e) = served.await {
        tracing::debug!(%peer, error = %e, "a connection ended early");
    }
}

/// The way to the engine.
struct Way {
    upstreams: Arc<Upstreams>,
    authority: Arc<str>,
    engine: Endpoint,
    active: Active,
}

impl Way {
    fn address(&self) -> Address<'_> {
        Address {
            authority: &self.authority,
            host: &self.engine.host,
            port: self.engine.port,
            via: Via::Plain,
        }
    }

    async fn pass(self: &Arc<Self>, request: Request<Incoming>, peer: IpAddr) -> Response<Content> {
        let counted = (request.method() == Method::POST).then(|| self.active.enter());
        let (mut head, body) = request.into_parts();
        let (Some(uri), Ok(host)) = (
            self.target(&head.uri),
            HeaderValue::try_from(&*self.authority),
        ) else {
            discard(body);
            let text = "the request names no path of the engine";
            return own(StatusCode::BAD_REQUEST, "bad-target", text);
        };
        head.uri = uri;
        // What asks for another protocol gets HTTP: engines speak no other.
        let _upgrade = headers::forward(&mut head.headers, peer);
        head.headers.insert(HOST, host);
        head.version = http::Version::HTTP_11;
        let mut slot = Some(Request::from_parts(head, RequestBody::stream(body)));
        match self
            .upstreams
            .send(&self.address(), &mut slot, Cap::Off)
            .await
        {
            Ok((response, connection)) => {
                let (mut head, body) = response.into_parts();
                let _upgrade = headers::strip(&mut head.headers);
                let relayed = Relayed {
                    body,
                    connection: Some(connection),
                    way: self.clone(),
                    counted,
                };
                Response::from_parts(head, relayed.boxed_unsync())
            },
            Err(e) => {
                tracing::debug!(reason = e.text(), "the engine gave no answer");
                own(StatusCode::BAD_GATEWAY, "engine-unreachable", &e.text())
            },
        }
    }

    fn target(&self, uri: &Uri) -> Option<Uri> {
        let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        if !path.starts_with('/') {
            return None;
        }
        format!("{}{path}", self.engine.prefix).parse().ok()
    }
}

fn own(status: StatusCode, code: &str, text: &str) -> Response<Content> {
    refusal(status, code, text).map(|body| {
        let body = Full::new(body).map_err(|never| match never {});
        body.boxed_unsync()
    })
}

/// An answer on its way. Its request is under way until the answer is at its end, or given up.
struct Relayed {
    body: Incoming,
    connection: Option<Connection>,
    way: Arc<Way>,
    counted: Option<Counted>,
}

impl Body for Relayed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        // With a declared length nobody asks again behind the last byte.
        if frame.is_none() || self.body.is_end_stream() {
            self.counted = None;
            if let Some(connection) = self.connection.take() {
                self.way
                    .upstreams
                    .give_back(&self.way.address(), connection);
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
