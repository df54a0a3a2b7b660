//! Connections to engines, peers and providers: dialled, reused, given up (data plane 7.3, product 13.13).
//!
//! Owns: the pool and the stages of one exchange up to its headers. Leaves to others: caps and
//! retries (`facade::attempt`).
//!
//! A pool of our own, since an attempt has to be counted exactly once: a request that a dead pooled
//! connection hands back was not delivered and is sent on another one; anything else is a dispatch.
//!
//! Peers have connections of their own, by principal: those are reused only while the pin stands that
//! they were made with, and without a pin nobody is dialled. Those to providers are kept for longer.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use http::{HeaderValue, Request, Response, header};
use http_body::Body;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustc_hash::FxHashMap;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use tokio::time::{interval, timeout};

use crate::rules::budget::{Cap, DIAL_TIMEOUT};
use crate::rules::candidates::{Kind, ProviderLink, Target};

use super::body::RequestBody;
use super::outside::{self, Outside};
use super::stream::{Network, Stream, socket};
use super::tls::{Cluster, Pair};

/// llama-server closes an idle connection after 5 s: give it up before. Counted in ticks of a
/// second, which are kept by the sweep: between 3 and 4 s, without reading a clock per request.
pub(super) const IDLE_TICKS: u64 = 4;

/// Towards providers, where a new connection costs round trips over the internet. One that closes
/// earlier is noticed.
const PROVIDER_IDLE_TICKS: u64 = 90;

/// Between two sweeps.
pub(super) const TICK: Duration = Duration::from_secs(1);

/// Idle connections kept for one address.
pub(super) const IDLE_PER_ADDRESS: usize = 256;

/// A connection that carries one exchange at a time. Dropped anywhere but in the pool it is closed:
/// an engine that answers early without reading the request would otherwise keep it for ever.
pub struct Connection {
    sender: SendRequest<RequestBody>,
    task: AbortHandle,
    /// Came from the pool, so the peer may have closed it unnoticed.
    reused: bool,
    /// Both ends, if it is one to a peer.
    pair: Option<Box<Pair>>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Why an exchange got no headers.
#[derive(Debug)]
pub enum SendError {
    /// No connection.
    Dial(io::Error),
    /// The connection failed with the request on it.
    Exchange(hyper::Error),
    /// No headers within the cap.
    NoHeaders,
}

impl SendError {
    /// What went wrong, in words, without addresses or content.
    pub fn text(&self) -> String {
        match self {
            Self::Dial(e) => outside::why(e),
            Self::Exchange(_) => "the connection broke before response headers".to_owned(),
            Self::NoHeaders => "no response headers within the response timeout".to_owned(),
        }
    }
}

/// Where a request goes.
pub struct Address<'a> {
    /// `host:port`: which connections may serve it.
    pub authority: &'a Arc<str>,
    /// Host to dial.
    pub host: &'a str,
    /// Port to dial.
    pub port: u16,
    /// Who has to answer there.
    pub via: Via<'a>,
}

/// How a connection is secured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via<'a> {
    /// Not: an engine, in plain HTTP.
    Plain,
    /// mTLS with the peer of this principal.
    Peer(&'a str),
    /// TLS with the server of this name, which the system's roots vouch for.
    Tls(&'a str),
    /// A provider, maybe through a proxy; over TLS it proves to be the host that is dialled.
    Provider(ProviderLink),
}

impl<'a> From<&'a Target> for Address<'a> {
    fn from(t: &'a Target) -> Self {
        Self {
            authority: &t.authority,
            host: &t.host,
            port: t.port,
            via: match &t.kind {
                Kind::Peer(principal) => Via::Peer(principal),
                Kind::Pool(_) if t.is_tls() => Via::Tls(&t.name),
                Kind::Provider(link) => Via::Provider(*link),
                Kind::Own | Kind::Manual | Kind::Pool(_) => Via::Plain,
            },
        }
    }
}

struct Idle {
    connection: Connection,
    since: u64,
}

/// Idle connections by authority.
type Pool = FxHashMap<Arc<str>, Vec<Idle>>;

/// The pools, shared by all facades.
#[derive(Default)]
pub struct Upstreams {
    idle: Mutex<Pool>,
    /// Those to peers, by principal.
    peers: Mutex<FxHashMap<String, Pool>>,
    /// Those over TLS to others, by the name that the server proved.
    named: Mutex<FxHashMap<String, Pool>>,
    /// Those to providers, in plain HTTP and over TLS.
    providers: Mutex<[Pool; 2]>,
    outside: Outside,
    cluster: Option<Arc<Cluster>>,
    network: Arc<Network>,
    tick: AtomicU64,
}

impl Upstreams {
    /// Empty pools, swept once a second for as long as they live. Peers are reached only with a
    /// cluster.
    pub fn new(cluster: Option<Arc<Cluster>>, network: Arc<Network>) -> Arc<Self> {
        Self::through(Outside::default(), cluster, network)
    }

    /// The same, with a way beyond this network other than the system's.
    pub fn through(
        outside: Outside,
        cluster: Option<Arc<Cluster>>,
        network: Arc<Network>,
    ) -> Arc<Self> {
        let pool = Arc::new(Self {
            outside,
            cluster,
            network,
            ..Self::default()
        });
        tokio::spawn(sweep(Arc::downgrade(&pool)));
        pool
    }

    /// Sends a request and waits for response headers: the dial has its own limit, then `cap` begins.
    ///
    /// The request is taken out of its slot, so that the callers' states need no room for it.
    ///
    /// # Errors
    /// No connection, it failed with the request on it, or no headers came in time.
    pub async fn send(
        &self,
        to: &Address<'_>,
        slot: &mut Option<Request<RequestBody>>,
        cap: Cap,
    ) -> Result<(Response<Incoming>, Connection), SendError> {
        slot.iter_mut().for_each(frame);
        loop {
            let mut connection = match self.take(to) {
                Some(connection) => connection,
                // Rare, and large: on the heap, so that it does not make every exchange's state
                // larger.
                None => Box::pin(self.dial(to)).await.map_err(SendError::Dial)?,
            };
            let request = slot
                .take()
                .unwrap_or_else(|| Request::new(RequestBody::empty()));
            let sent = connection.sender.try_send_request(request);
            let sent = match cap {
                Cap::Off => sent.await,
                Cap::After(cap) => match timeout(cap, sent).await {
                    Ok(sent) => sent,
                    Err(_) => return Err(SendError::NoHeaders),
                },
            };
            match sent {
                Ok(response) => return Ok((response, connection)),
                Err(mut e) => match e.take_message() {
                    // Handed back: not a byte of it was written.
                    Some(undelivered) if connection.reused => *slot = Some(undelivered),
                    _ => return Err(SendError::Exchange(e.into_error())),
                },
            }
        }
    }

    /// Puts a connection back whose response was read to its end. One that is not ready for another
    /// request by then (the engine never read the last one) is closed.
    pub fn give_back(&self, to: &Address<'_>, mut connection: Connection) {
        if !connection.sender.is_ready() {
            return;
        }
        connection.reused = true;
        let idle = Idle {
            connection,
            since: self.tick.load(Ordering::Relaxed),
        };
        let (mut pools, of) = match to.via {
            Via::Plain => return keep(&mut self.lock(), to.authority, idle),
            Via::Peer(peer) => (self.lock_peers(), peer),
            Via::Tls(name) => (self.lock_named(), name),
            Via::Provider(link) => {
                let pools = &mut self.lock_providers();
                return keep(&mut pools[usize::from(link.tls)], to.authority, idle);
            },
        };
        keep(pools.entry(of.to_owned()).or_default(), to.authority, idle);
    }

    /// Closes every idle connection.
    pub fn clear(&self) {
        self.lock().clear();
        self.lock_peers().clear();
        self.lock_named().clear();
        self.lock_providers().iter_mut().for_each(Pool::clear);
    }

    /// Closes idle connections to peers whose pin is gone or another by now.
    pub fn drop_unpinned(&self) {
        let Some(cluster) = &self.cluster else { return };
        let trust = cluster.members().trust();
        self.lock_peers().retain(|peer, pool| {
            retain(pool, |i| {
                let pair = i.connection.pair.as_ref();
                pair.is_some_and(|p| p.stands(&trust, peer))
            });
            !pool.is_empty()
        });
    }

    fn take(&self, to: &Address<'_>) -> Option<Connection> {
        let now = self.tick.load(Ordering::Relaxed);
        let peer = match to.via {
            Via::Plain => return pop(&mut self.lock(), to.authority, now, IDLE_TICKS),
            Via::Tls(name) => {
                let pools = &mut self.lock_named();
                return pop(pools.get_mut(name)?, to.authority, now, IDLE_TICKS);
            },
            Via::Provider(link) => {
                let pool = &mut self.lock_providers()[usize::from(link.tls)];
                return pop(pool, to.authority, now, PROVIDER_IDLE_TICKS);
            },
            Via::Peer(peer) => peer,
        };
        let trust = self.cluster.as_ref()?.members().trust();
        let mut peers = self.lock_peers();
        let pool = peers.get_mut(peer)?;
        loop {
            let found = pop(pool, to.authority, now, IDLE_TICKS)?;
            let pair = found.pair.as_ref();
            if pair.is_some_and(|p| p.stands(&trust, peer)) {
                return Some(found);
            }
        }
    }

    async fn dial(&self, to: &Address<'_>) -> io::Result<Connection> {
        let limit = match to.via {
            Via::Provider(link) => link.connect,
            _ => DIAL_TIMEOUT,
        };
        let dialled = timeout(limit, async {
            let peer = match to.via {
                Via::Plain => {
                    return converse(self.network.connect(to.host, to.port).await?, None).await;
                },
                Via::Tls(name) => {
                    let stream = self.network.connect(to.host, to.port).await?;
                    let tls = self.outside.tls();
                    return converse(tls.connect(name, stream).await?, None).await;
                },
                Via::Provider(link) => {
                    let (out, net) = (&self.outside, &*self.network);
                    return match link.tls {
                        true => converse(out.secured(net, to.host, to.port).await?, None).await,
                        false => converse(out.plain(net, to.host, to.port).await?, None).await,
                    };
                },
                Via::Peer(peer) => peer,
            };
            // As it is at this moment: the pin may have gone since the peer was chosen.
            let pinned = self.cluster.as_ref().and_then(|cluster| {
                let pair = Pair::of(&cluster.members().refresh(), peer)?;
                Some((cluster, pair))
            });
            let Some((cluster, pair)) = pinned else {
                let text = "the peer's certificate is not pinned";
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
            };
            let stream = cluster
                .connect(&pair, socket(to.host, to.port).await?)
                .await?;
            converse(stream, Some(Box::new(pair))).await
        });
        dialled.await.unwrap_or_else(|_| {
            Err(match to.via {
                Via::Provider(_) => outside::late(),
                _ => io::ErrorKind::TimedOut.into(),
            })
        })
    }

    fn lock_peers(&self) -> MutexGuard<'_, FxHashMap<String, Pool>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_named(&self) -> MutexGuard<'_, FxHashMap<String, Pool>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_providers(&self) -> MutexGuard<'_, [Pool; 2]> {
        self.providers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Pool> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn keep(pool: &mut Pool, authority: &Arc<str>, idle: Idle) {
    match pool.get_mut(authority) {
        Some(list) if list.len() < IDLE_PER_ADDRESS => list.push(idle),
        Some(_) => {},
        None => {
            pool.insert(authority.clone(), vec![idle]);
        },
    }
}

/// The connection used last, since it is the least likely to have been closed.
fn pop(pool: &mut Pool, authority: &Arc<str>, now: u64, ticks: u64) -> Option<Connection> {
    let list = pool.get_mut(authority)?;
    while let Some(idle) = list.pop() {
        if idle.connection.sender.is_ready() && now - idle.since < ticks {
            return Some(idle.connection);
        }
    }
    None
}

fn retain(pool: &mut Pool, stays: impl Fn(&Idle) -> bool) {
    pool.retain(|_, list| {
        list.retain(&stays);
        !list.is_empty()
    });
}

async fn sweep(pool: Weak<Upstreams>) {
    let mut tick = interval(TICK);
    loop {
        tick.tick().await;
        let Some(pool) = pool.upgrade() else { return };
        let now = pool.tick.fetch_add(1, Ordering::Relaxed) + 1;
        let within = |i: &Idle, ticks| now - i.since < ticks && !i.connection.sender.is_closed();
        let lives = |i: &Idle| within(i, IDLE_TICKS);
        retain(&mut pool.lock(), lives);
        for pool in &mut *pool.lock_providers() {
            retain(pool, |i| within(i, PROVIDER_IDLE_TICKS));
        }
        for mut pools in [pool.lock_peers(), pool.lock_named()] {
            pools.retain(|_, pool| {
                retain(pool, lives);
                !pool.is_empty()
            });
        }
    }
}

/// A connection in plain HTTP, within the dial's limit.
///
/// # Errors
/// None within the limit.
pub async fn dial_plain(network: &Network, to: &Address<'_>) -> io::Result<Stream> {
    let dialled = timeout(DIAL_TIMEOUT, network.connect(to.host, to.port)).await;
    dialled.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// A connection that is ready for requests.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    pair: Option<Box<Pair>>,
) -> io::Result<Connection> {
    let mut builder = http1::Builder::new();
    builder.preserve_header_case(true);
    let (sender, connection) = builder
        .handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    let task = tokio::spawn(async move {
        // Its failure reaches whoever waits for the response.
        drop(connection.with_upgrades().await);
    });
    Ok(Connection {
        sender,
        task: task.abort_handle(),
        reused: false,
        pair,
    })
}

/// The library sends no body of unknown length with some methods, unless it is told how.
fn frame(request: &mut Request<RequestBody>) {
    let body = request.body();
    if !body.is_end_stream() && body.size_hint().exact().is_none() {
        let chunked = HeaderValue::from_static("chunked");
        request
            .headers_mut()
            .insert(header::TRANSFER_ENCODING, chunked);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::atomic::AtomicUsize;

    use http_body_util::BodyExt;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::net::TcpListener;

    use super::super::identity::tests::{Node, node};
    use super::*;

    /// The cluster of a node that pins one peer.
    fn cluster(folder: &Path, me: &Node, peer: &Node) -> Arc<Cluster> {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("node.key"), &me.key).unwrap();
        fs::write(folder.join("node.crt"), &me.certificate).unwrap();
        pin(folder, peer);
        Arc::new(Cluster::open(folder.to_owned()).unwrap())
    }

    fn pin(folder: &Path, peer: &Node) {
        let json = serde_json::json!({ "nodeUuid": peer.uuid, "certPem": peer.certificate });
        let trusted = folder.join("trusted");
        fs::create_dir_all(&trusted).unwrap();
        fs::write(
            trusted.join(format!("{}.json", peer.uuid)),
            json.to_string(),
        )
        .unwrap();
    }

    /// A peer that answers every request with nothing; its port, and how often it was dialled.
    async fn peer(cluster: Arc<Cluster>) -> (u16, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let dialled = Arc::<AtomicUsize>::default();
        let count = dialled.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                let cluster = cluster.clone();
                tokio::spawn(async move {
                    let mut stream = BufReader::new(cluster.accept(stream).await.unwrap());
                    let mut line = String::new();
                    while stream.read_line(&mut line).await.unwrap_or(0) > 0 {
                        if line == "\r\n" {
                            let answer = b"HTTP/1.1 204 No Content\r\n\r\n";
                            stream.write_all(answer).await.unwrap();
                        }
                        line.clear();
                    }
                });
            }
        });
        (port, dialled)
    }

    async fn ask(pool: &Upstreams, port: u16, peer: &str) -> Result<(), SendError> {
        let to = Address {
            authority: &format!("127.0.0.1:{port}").into(),
            host: "127.0.0.1",
            port,
            via: Via::Peer(peer),
        };
        let mut request = Some(Request::new(RequestBody::empty()));
        let (response, connection) = pool.send(&to, &mut request, Cap::Off).await?;
        response.into_body().collect().await.unwrap();
        // As soon as it is ready again.
        tokio::task::yield_now().await;
        pool.give_back(&to, connection);
        Ok(())
    }

    #[tokio::test]
    async fn connections_to_a_peer_are_kept_while_its_pin_stands() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (node("a"), node("b"));
        let here = dir.path().join("a");
        let cluster_of_a = cluster(&here, &a, &b);
        let (port, dialled) = peer(cluster(&dir.path().join("b"), &b, &a)).await;
        let pool = Upstreams::new(Some(cluster_of_a.clone()), Arc::default());
        for _ in 0..3 {
            ask(&pool, port, "b").await.unwrap();
        }
        assert_eq!(dialled.load(Ordering::Relaxed), 1);
        pool.drop_unpinned();
        assert_eq!(pool.lock_peers().len(), 1);
        fs::remove_file(here.join("trusted/b.json")).unwrap();
        // Not even a connection that is there already may be used.
        cluster_of_a.members().refresh();
        let refused = ask(&pool, port, "b").await;
        assert!(matches!(refused, Err(SendError::Dial(_))), "{refused:?}");
        pool.drop_unpinned();
        assert!(pool.lock_peers().is_empty());
        pin(&here, &b);
        ask(&pool, port, "b").await.unwrap();
        assert_eq!(dialled.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_peer_is_never_dialled_in_plain() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let pool = Upstreams::new(None, Arc::default());
        let refused = ask(&pool, port, "b").await;
        assert!(matches!(refused, Err(SendError::Dial(_))), "{refused:?}");
        let accepted = timeout(Duration::from_millis(50), listener.accept()).await;
        assert!(accepted.is_err(), "nobody dialled");
    }
}
