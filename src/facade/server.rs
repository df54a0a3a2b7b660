//! A facade's door: connections in, requests classified and sent on their way.
//!
//! Owns: the accept loop, the split by first byte, the checks at the plaintext door, the panic fence
//! around each request. Leaves to others: serving a class of request, the peers' door (`ingress`).

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::net::answers;
use crate::net::body::discard;
use crate::net::client_io::{ClientIo, Door};
use crate::net::listen::tune;
use crate::net::places::{Admission, Place};
use crate::net::rewound::Rewound;
use crate::net::stream::Stream;
use crate::net::strict_io::StrictIo;
use crate::rules::ingress::{Caller, Door as Rules, Refusal};
use crate::rules::route::{Class, Dialect, classify, dialect};
use crate::state::lifetime::{Lifetime, Phase};
use crate::state::settings::RequestSettings;

use super::Facade;
use super::answer::{Answer, Content};
use super::exchange;
use super::express::{Express, Handover};
use super::report::Report;
use super::upgrade::Wish;
use super::{gateway, ingress, inventory, keyed, preflight, secured};

/// A connection has this long to send its first byte.
const FIRST_BYTE: Duration = Duration::from_secs(5);

/// A client without a place is told so, and heard, within this time.
const FAREWELL: Duration = Duration::from_secs(1);

/// What is read of the request of such a client.
const HEARD: u64 = 256 * 1024;

/// An engine that said yes to `CONNECT` would have the connection.
pub const NO_TUNNELS: &str = "CONNECT is not served: this is no forward proxy";

/// What a target is.
pub const BAD_TARGET: &str = "the request's target has to begin with a slash";

/// First byte of a TLS handshake.
const TLS: u8 = 0x16;

/// Accepts connections until the socket fails for good. Each one is served by a task of its own.
///
/// # Errors
/// The socket failed in a way that waiting does not mend.
pub async fn accept(facade: Facade, listener: TcpListener) -> io::Result<Infallible> {
    let mut pause = Duration::from_millis(5);
    loop {
        match listener.accept().await {
            Ok((stream, client)) => {
                pause = Duration::from_millis(5);
                take(&facade, stream, client);
            },
            Err(e) if is_passing(&e) => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(1));
            },
            Err(e) => return Err(e),
        }
    }
}

/// A connection with a place is served; one without is told so while not too many are, else closed.
fn take(facade: &Facade, stream: TcpStream, client: SocketAddr) {
    let is_first = match facade.context.places.enter(client.ip()) {
        Admission::Granted(place) => {
            tokio::spawn(connection(facade.clone(), stream, client, place));
            return;
        },
        Admission::Refused { farewell, first } => {
            tokio::spawn(async move {
                // Whoever does not listen is not told.
                drop(timeout(FAREWELL, turn_away(stream)).await);
                drop(farewell);
            });
            first
        },
        Admission::Dropped { first } => first,
    };
    if is_first {
        let limit = facade.context.places.limits().connections;
        tracing::warn!(
            engine = %facade.state.engine(),
            limit,
            "too many connections: further ones are refused; a higher limit on open files allows more"
        );
    }
}

/// Tells a client that there is no place for it. It is told behind the first byte of its request, so
/// that it takes the answer for one, and heard out, so that it is not reset before it has read.
async fn turn_away(mut stream: TcpStream) -> io::Result<()> {
    let mut first = [0];
    if stream.peek(&mut first).await? == 0 || first[0] == TLS {
        return Ok(());
    }
    let answer = answers::bytes(&answers::overloaded());
    stream.write_all(&answer).await?;
    stream.shutdown().await?;
    let mut rest = stream.take(HEARD);
    tokio::io::copy(&mut rest, &mut tokio::io::sink()).await?;
    Ok(())
}

/// The client's fault, a shortage that may pass (descriptors, memory), or a fault of the network that
/// the system tells here of the connection it was about to hand over.
fn is_passing(e: &io::Error) -> bool {
    use rustix::io::Errno;
    let passing = [
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOBUFS,
        Errno::NOMEM,
        Errno::PROTO,
        Errno::PERM,
        Errno::NOPROTOOPT,
        Errno::OPNOTSUPP,
        Errno::NETDOWN,
        Errno::NETUNREACH,
        Errno::HOSTDOWN,
        Errno::HOSTUNREACH,
    ];
    matches!(
        e.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
            | io::ErrorKind::WouldBlock
            | io::ErrorKind::TimedOut
    ) || e
        .raw_os_error()
        .is_some_and(|n| passing.iter().any(|p| p.raw_os_error() == n))
}

async fn connection(facade: Facade, stream: TcpStream, client: SocketAddr, place: Place) {
    let mut first = [0];
    match timeout(FIRST_BYTE, stream.peek(&mut first)).await {
        // Silent, or closed at once.
        Err(_) | Ok(Err(_) | Ok(0)) => return,
        Ok(Ok(_)) => {},
    }
    if tune(&stream).is_err() {
        return;
    }
    if first[0] == TLS {
        // On the heap, so that it does not make every connection's state larger.
        return match facade.context.cluster.is_some() {
            true => Box::pin(ingress::connection(facade, stream, client, place)).await,
            false => Box::pin(secured::connection(facade, stream, client, place)).await,
        };
    }
    plaintext(facade, stream.into(), client, Some(place)).await;
}

/// Serves a connection that speaks plain HTTP to its end. One that was not accepted here, such as a
/// pipe, has no place.
pub async fn plaintext(facade: Facade, stream: Stream, client: SocketAddr, place: Option<Place>) {
    let context = facade.context.clone();
    let door = Arc::<Door>::default();
    let mut caller = Caller::at(client.ip());
    if !caller.is_here() {
        // On loopback its name for us is known without asking the system.
        caller.to = stream.local_ip();
    }
    let io = ClientIo::new(stream, door.clone(), place);
    let (address, phase) = (client.ip().to_canonical(), context.lifetime.follow());
    let mut cut = context.lifetime.follow();
    let express = Express::new(facade.clone(), door.clone(), address, io, phase);
    let handover = tokio::select! {
        biased;
        handover = express.run() => handover,
        // Cut, it is dropped: whatever is under way ends now, without a clean end.
        _ = cut.wait_for(|p| *p == Phase::Cut) => return,
    };
    let Some(Handover { io, read }) = handover else {
        return;
    };
    let io = Rewound::new(read.freeze(), io);
    // On the heap, so that it does not make a plain connection's state larger.
    Box::pin(serve_on(
        &context.lifetime,
        door,
        io,
        move |door, request| answer(facade.clone(), door, caller, request),
    ))
    .await;
}

/// Answers one request of a client.
pub async fn answer(
    facade: Facade,
    door: Arc<Door>,
    caller: Caller,
    request: Request<Incoming>,
) -> Result<Response<Answer>, Infallible> {
    let route = dialect(request.uri().path());
    let state = facade.state.clone();
    let handled = fence(&door, route, || handle(facade, &door, caller, request)).await;
    handled.map(|mut response| {
        // The facade was turned off: the connection's last answer.
        if state.is_retired() {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        response
    })
}

/// Serves a connection's requests, one after the other, for as long as the process lets it.
pub async fn serve<S, H, F>(lifetime: &Lifetime, stream: S, place: Place, handle: H)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    H: Fn(Arc<Door>, Request<Incoming>) -> F,
    F: Future<Output = Result<Response<Answer>, Infallible>>,
{
    let door = Arc::<Door>::default();
    let io = ClientIo::new(stream, door.clone(), Some(place));
    serve_on(lifetime, door, io, handle).await;
}

/// The same on a connection whose door is known.
async fn serve_on<S, H, F>(lifetime: &Lifetime, door: Arc<Door>, io: S, handle: H)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    H: Fn(Arc<Door>, Request<Incoming>) -> F,
    F: Future<Output = Result<Response<Answer>, Infallible>>,
{
    let io = TokioIo::new(StrictIo::new(io, door.clone()));
    let service = service_fn(move |request| handle(door.clone(), request));
    let mut builder = http1::Builder::new();
    builder
        .preserve_header_case(true)
        .auto_date_header(false)
        .header_read_timeout(None);
    let mut served = pin!(builder.serve_connection(io, service).with_upgrades());
    let mut phase = lifetime.follow();
    // How it failed is the report's business, which has been given by then.
    tokio::select! {
        biased;
        _ = served.as_mut() => return,
        _ = phase.wait_for(|p| *p != Phase::Running) => served.as_mut().graceful_shutdown(),
    }
    // Cut, it is dropped: whatever is under way ends now, without a clean end.
    tokio::select! {
        biased;
        _ = served.as_mut() => {},
        _ = phase.wait_for(|p| *p == Phase::Cut) => {},
    }
}

/// A panic ends its own request: before any byte went out it is answered, after that the connection
/// is cut. The future is made in here, so that it is not copied from state to state.
pub async fn fence<F: Future<Output = Response<Content>>>(
    door: &Arc<Door>,
    route: Dialect,
    handle: impl FnOnce() -> F,
) -> Result<Response<Answer>, Infallible> {
    let serving = door.serve();
    let handled = AssertUnwindSafe(handle()).catch_unwind();
    let response = handled.await.unwrap_or_else(|_| {
        let text = "internal error while handling the request; the log has the details";
        exchange::own(answers::error(
            route,
            StatusCode::INTERNAL_SERVER_ERROR,
            text,
        ))
    });
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        door.switch();
    }
    Ok(Answer::on(serving, response))
}

async fn handle(
    facade: Facade,
    door: &Arc<Door>,
    caller: Caller,
    mut request: Request<Incoming>,
) -> Response<Content> {
    let mut report = Report::new(
        &facade,
        door,
        request.method().clone(),
        request.uri().clone().into(),
    );
    report.see_headers(request.headers());
    let needs_host = request.version() >= Version::HTTP_11;
    let target = request.uri().authority().map(|a| a.as_str());
    let settings = report.settings().clone();
    let rules = self::door(&facade, &settings, caller.is_here());
    let refused = rules.refuses(&caller, needs_host, target, request.headers());
    if let Some(refusal) = refused.or_else(|| ill_aimed(&request)) {
        discard(request.into_body());
        return refuse(report, refusal);
    }
    let engine = facade.state.engine();
    let class = classify(
        engine,
        request.method(),
        request.uri().path(),
        request.headers(),
    );
    let clients = &facade.context.shared.clients;
    match keyed::admit(clients, caller.is_here(), engine, class, &mut request) {
        Ok(None) => {},
        Ok(Some(client)) => report.identify(client),
        Err(refused) => {
            discard(request.into_body());
            return exchange::own(refused.answer(&mut report));
        },
    }
    if request.headers().contains_key(header::EXPECT) {
        request.extensions_mut().insert(exchange::Expects);
    }
    if let Some(wish) = exchange::prepare(&mut request, caller.from.to_canonical()) {
        request.extensions_mut().insert(Wish(wish));
    }
    match class {
        Class::Inference { path } => exchange::inference(report, request, path).await,
        Class::List { .. } if engine.is_gateway() => {
            Box::pin(gateway::models(report, request)).await
        },
        Class::Other if engine.is_gateway() => {
            Box::pin(gateway::other(report, request, caller.from)).await
        },
        // Rare next to inference: on the heap, so that they do not make every request's state larger.
        Class::Other => Box::pin(exchange::forward(report, request)).await,
        Class::List { shape, upstream } => {
            Box::pin(inventory::list(report, request, shape, upstream)).await
        },
        Class::Preflight => Box::pin(preflight::answer(report, request)).await,
    }
}

/// Whether a request aims at something that is no resource of an engine.
pub fn ill_aimed(request: &Request<Incoming>) -> Option<Refusal> {
    let uri = request.uri();
    if request.method() == Method::CONNECT {
        Some(Refusal::NoTunnels)
    } else {
        // A name alone is taken for a host, as `CONNECT` has it.
        (uri.authority().is_some() && uri.scheme().is_none()).then_some(Refusal::BadTarget)
    }
}

/// What the plaintext door of a facade knows. `here`: the caller is on this machine, where nobody
/// needs TLS and it is not asked for.
pub fn door<'a>(facade: &'a Facade, settings: &'a RequestSettings, here: bool) -> Rules<'a> {
    Rules {
        machine: &facade.context.machine,
        hosts: &settings.allowed_hosts,
        origins: settings.allowed_origins.as_deref(),
        networks: &settings.allowed_cidrs,
        // With a cluster the handshake is the peers'.
        needs_tls: !here
            && facade.context.cluster.is_none()
            && facade
                .context
                .certificates
                .of(facade.state.engine())
                .is_some(),
    }
}

fn refuse(mut report: Report, refusal: Refusal) -> Response<Content> {
    let display = report.facade().state.engine().spec().display;
    let (status, text) = match refusal {
        Refusal::LoopbackOnly => (
            StatusCode::FORBIDDEN,
            "plaintext requests are accepted only from loopback; cluster peers must use the mTLS \
             ingress"
                .to_owned(),
        ),
        Refusal::AddressNotAllowed => (
            StatusCode::FORBIDDEN,
            "callers from this address are not let in; the owner of this machine can add its \
             network to allowed_cidrs"
                .to_owned(),
        ),
        Refusal::TlsRequired => (
            StatusCode::FORBIDDEN,
            "this port speaks TLS with other machines: use https://, and make a new key if this \
             request showed one"
                .to_owned(),
        ),
        Refusal::NoHost => (
            StatusCode::BAD_REQUEST,
            "an HTTP/1.1 request needs exactly one Host header".to_owned(),
        ),
        Refusal::HostNotAllowed => (
            StatusCode::FORBIDDEN,
            "the Host header names no address of this machine; add the name to allowed_hosts or \
             NVPAIR_PROXY_ALLOWED_HOSTS"
                .to_owned(),
        ),
        Refusal::NotTheEngine => (
            StatusCode::CONFLICT,
            format!("the compatibility facade is not the {display} engine"),
        ),
        Refusal::BadTarget => (StatusCode::BAD_REQUEST, BAD_TARGET.to_owned()),
        Refusal::NoTunnels => (StatusCode::METHOD_NOT_ALLOWED, NO_TUNNELS.to_owned()),
        Refusal::OriginNotAllowed => (
            StatusCode::FORBIDDEN,
            "this origin is not listed in NVPAIR_PROXY_ALLOWED_ORIGINS".to_owned(),
        ),
    };
    let code = refusal.code();
    report.answered(status.as_u16(), Some(code.to_owned()));
    exchange::own(answers::refusal(status, code, &text))
}
