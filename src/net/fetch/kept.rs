//! A connection that is kept for the next call to the same place.
//!
//! Owns: when it is used again, when it is replaced, which call is sent a second time. Leaves to
//! others: dialling and the words for failures (`super`), what is called.
//!
//! A kept connection may have died unseen: the other side closed it, restarted, or is behind a
//! router that forgot it. That shows when the next call is on its way, and nobody can tell whether
//! it arrived. So this is for calls that may arrive twice; those are sent again, once, on a new
//! connection. An answer that has begun, or a limit that has passed, is the end of a call.
//!
//! The TLS session goes with the connection, so whoever was trusted when it was made is who answers.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
#[cfg(target_os = "linux")]
use socket2::SockRef;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::super::client_tls::ClientTls;
use super::super::listen;
use super::{FetchError, Fetched, Limits, dial, failure, request, whole};

/// A way to one place, with a connection that stays. Calls at the same time each have one, and the
/// last of them stays. Dropping this closes it.
#[derive(Debug)]
pub struct Kept {
    host: String,
    port: u16,
    tls: Option<ClientTls>,
    limits: Limits,
    /// While no call has it.
    idle: Mutex<Option<Line>>,
}

impl Kept {
    /// A way to `host:port`, over TLS where `tls` is given; nothing is dialled yet. `host` is a name
    /// or an address, IPv6 without brackets.
    pub fn new(host: &str, port: u16, tls: Option<ClientTls>, limits: Limits) -> Self {
        Self {
            host: host.to_owned(),
            port,
            tls,
            limits,
            idle: Mutex::new(None),
        }
    }

    /// Sends a JSON document that may arrive twice. Inside a runtime. Dropped before its end, it
    /// takes its connection with it.
    ///
    /// # Errors
    /// There is no complete answer. The document may have arrived all the same.
    pub async fn post_json(
        &self,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        document: Bytes,
    ) -> Result<Fetched, FetchError> {
        let mut all = Vec::with_capacity(headers.len() + 1);
        all.push((CONTENT_TYPE, HeaderValue::from_static("application/json")));
        all.extend_from_slice(headers);
        self.post(path, &all, document).await
    }

    /// Sends a document that may arrive twice; what it is stands in the headers. As
    /// [`Kept::post_json`].
    ///
    /// # Errors
    /// There is no complete answer. The document may have arrived all the same.
    pub async fn post(
        &self,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        document: Bytes,
    ) -> Result<Fetched, FetchError> {
        let (host, port) = (&self.host, self.port);
        let mut request = request(Method::POST, host, port, path, headers, document)?;
        request.headers_mut().remove(CONNECTION);
        let end = Instant::now() + self.limits.whole;
        timeout_at(end, self.call(request, end))
            .await
            .unwrap_or(Err(FetchError::AnswerTimedOut))
    }

    async fn call(
        &self,
        request: Request<Full<Bytes>>,
        end: Instant,
    ) -> Result<Fetched, FetchError> {
        let (line, begun) = match self.over_kept(&request).await? {
            Some(begun) => begun,
            None => {
                let mut line = self.open(end).await?;
                let begun = line.begin(request).await.map_err(|e| failure(&e))?;
                (line, begun)
            },
        };
        let fetched = whole(begun, self.limits.body).await?;
        // Only a connection on which nothing went wrong gets here.
        *self.lock() = Some(line);
        Ok(fetched)
    }

    /// The answer's beginning over the connection that was kept; `None` = there is none, or none
    /// any more.
    async fn over_kept(
        &self,
        request: &Request<Full<Bytes>>,
    ) -> Result<Option<(Line, Response<Incoming>)>, FetchError> {
        let Some(mut line) = self.lock().take() else {
            return Ok(None);
        };
        match line.begin(request.clone()).await {
            // It was idle for too long, which crossed with the request.
            Ok(begun) if begun.status() == StatusCode::REQUEST_TIMEOUT => Ok(None),
            Ok(begun) => Ok(Some((line, begun))),
            // It is there, and says something else.
            Err(e) if e.is_parse() => Err(failure(&e)),
            Err(_) => Ok(None),
        }
    }

    async fn open(&self, end: Instant) -> Result<Line, FetchError> {
        let stream = dial(&self.host, self.port, self.limits.connect, end).await?;
        // One that cannot be tuned is gone, which shows at once.
        let _ = listen::tune(&stream);
        // The other system says within this time that bytes came, or the way there is dead: that
        // leaves time for another. An answer may take as long as its limit says.
        #[cfg(target_os = "linux")]
        let _ = SockRef::from(&stream).set_tcp_user_timeout(Some(self.limits.whole * 2 / 5));
        match &self.tls {
            None => Line::over(stream).await,
            Some(tls) => Line::over(tls.connect(&self.host, stream).await?).await,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Line>> {
        // It is put in or taken out in one step.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection, and the task that notices what happens to it between calls.
#[derive(Debug)]
struct Line {
    sender: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
}

impl Line {
    async fn over<S>(stream: S) -> Result<Self, FetchError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let made = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = made.map_err(|e| failure(&e))?;
        let driver = tokio::spawn(async move {
            // How it ended is told to whoever asks next.
            let _ = connection.await;
        });
        Ok(Self { sender, driver })
    }

    /// Sends a request and gives its answer's beginning.
    async fn begin(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        self.sender.ready().await?;
        self.sender.send_request(request).await
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

#[cfg(test)]
mod tests;
