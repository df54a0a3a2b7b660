//! Connections to engines: dialled, reused, given up (data plane 7.3, product 13.13).
//!
//! Owns: the pool and the stages of one exchange up to its headers. Leaves to others: caps and
//! retries (`facade::attempt`).
//!
//! A pool of our own, since an attempt has to be counted exactly once: a request that a dead pooled
//! connection hands back was not delivered and is sent on another one; anything else is a dispatch.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustc_hash::FxHashMap;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::{interval, timeout};

use crate::rules::addresses::parse_ip;
use crate::rules::budget::{Cap, DIAL_TIMEOUT};
use crate::rules::candidates::Target;

use super::body::RequestBody;
use super::listen::tune;

/// llama-server closes an idle connection after 5 s: give it up before. Counted in ticks of a
/// second, which are kept by the sweep: between 3 and 4 s, without reading a clock per request.
const IDLE_TICKS: u64 = 4;
const TICK: Duration = Duration::from_secs(1);

/// Idle connections kept for one address.
const IDLE_PER_ADDRESS: usize = 256;

/// A connection that carries one exchange at a time. Dropped anywhere but in the pool it is closed:
/// an engine that answers early without reading the request would otherwise keep it for ever.
pub struct Connection {
    sender: SendRequest<RequestBody>,
    task: AbortHandle,
    /// Came from the pool, so the peer may have closed it unnoticed.
    reused: bool,
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
            Self::Dial(e) => e.kind().to_string(),
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
}

impl<'a> From<&'a Target> for Address<'a> {
    fn from(t: &'a Target) -> Self {
        Self {
            authority: &t.authority,
            host: &t.host,
            port: t.port,
        }
    }
}

struct Idle {
    connection: Connection,
    since: u64,
}

/// The pool, shared by all facades.
#[derive(Default)]
pub struct Upstreams {
    idle: Mutex<FxHashMap<Arc<str>, Vec<Idle>>>,
    tick: AtomicU64,
}

impl Upstreams {
    /// An empty pool, swept once a second for as long as it lives.
    pub fn new() -> Arc<Self> {
        let pool = Arc::new(Self::default());
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
        loop {
            let mut connection = match self.take(to.authority) {
                Some(connection) => connection,
                // Rare, and large: on the heap, so that it does not make every exchange's state
                // larger.
                None => Box::pin(dial(to.host, to.port))
                    .await
                    .map_err(SendError::Dial)?,
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
    pub fn give_back(&self, authority: &Arc<str>, mut connection: Connection) {
        if !connection.sender.is_ready() {
            return;
        }
        connection.reused = true;
        let idle = Idle {
            connection,
            since: self.tick.load(Ordering::Relaxed),
        };
        let mut pool = self.lock();
        match pool.get_mut(authority) {
            Some(list) if list.len() < IDLE_PER_ADDRESS => list.push(idle),
            Some(_) => {},
            None => {
                pool.insert(authority.clone(), vec![idle]);
            },
        }
    }

    /// Closes every idle connection.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// The connection used last, since it is the least likely to have been closed.
    fn take(&self, authority: &Arc<str>) -> Option<Connection> {
        let mut pool = self.lock();
        let list = pool.get_mut(authority)?;
        let now = self.tick.load(Ordering::Relaxed);
        while let Some(idle) = list.pop() {
            if idle.connection.sender.is_ready() && now - idle.since < IDLE_TICKS {
                return Some(idle.connection);
            }
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, FxHashMap<Arc<str>, Vec<Idle>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn sweep(pool: Weak<Upstreams>) {
    let mut tick = interval(TICK);
    loop {
        tick.tick().await;
        let Some(pool) = pool.upgrade() else { return };
        let now = pool.tick.fetch_add(1, Ordering::Relaxed) + 1;
        pool.lock().retain(|_, list| {
            list.retain(|i| now - i.since < IDLE_TICKS && !i.connection.sender.is_closed());
            !list.is_empty()
        });
    }
}

/// A connection within the dial's limit.
///
/// # Errors
/// None within the limit.
pub async fn connect_within(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = match timeout(DIAL_TIMEOUT, connect(host, port)).await {
        Ok(stream) => stream?,
        Err(_) => return Err(io::ErrorKind::TimedOut.into()),
    };
    tune(&stream)?;
    Ok(stream)
}

async fn dial(host: &str, port: u16) -> io::Result<Connection> {
    let stream = connect_within(host, port).await?;
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
    })
}

async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    match parse_ip(host) {
        Some(ip) => TcpStream::connect((ip, port)).await,
        None => TcpStream::connect((host, port)).await,
    }
}
