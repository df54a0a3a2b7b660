//! One small call over HTTP: a GET of a probe, a POST to a registry or a collector.
//!
//! Owns: dialling, the limits, and which failure it was. Leaves to others: what the answer means,
//! whom to trust (`client_tls`), POSTs and the connection that is kept for the next (`kept`). A GET
//! has a connection of its own: nothing is kept, nothing is followed, and nothing outlives the call's
//! future, so that dropping it is all the cancelling there is.

mod kept;

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONNECTION, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::client_tls::TlsError;
use crate::rules::addresses::authority;
pub use kept::Kept;

/// Bounds of a call.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For the connection, name look-up included.
    pub connect: Duration,
    /// For everything together.
    pub whole: Duration,
    /// Bytes of body.
    pub body: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(2),
            whole: Duration::from_secs(5),
            body: 16 << 20,
        }
    }
}

/// An answer, complete.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// Nobody listens there.
    #[error("connection refused")]
    Refused,
    /// It cannot be reached: no such name, no route.
    #[error("cannot connect: {0}")]
    Unreachable(#[source] io::Error),
    /// The dial limit passed.
    #[error("no connection in time")]
    ConnectTimedOut,
    /// It accepts, and the whole limit passed.
    #[error("connected, but no complete answer in time")]
    AnswerTimedOut,
    /// The TLS handshake failed.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// It speaks something else.
    #[error("it does not answer in HTTP")]
    NotHttp,
    /// It closed before its answer was complete.
    #[error("it closed the connection before its answer was complete")]
    Cut,
    /// Its body is over the limit.
    #[error("its answer is longer than {0} bytes")]
    TooBig(usize),
    /// The path or host cannot stand in a request.
    #[error("the address cannot be asked for")]
    BadRequest,
}

/// Asks `host:port` for `path`, in the clear. `host` is a name or an address, IPv6 without brackets.
///
/// # Errors
/// There is no complete answer.
pub async fn get(
    host: &str,
    port: u16,
    path: &str,
    headers: &[(HeaderName, HeaderValue)],
    limits: Limits,
) -> Result<Fetched, FetchError> {
    let request = request(Method::GET, host, port, path, headers, Bytes::new())?;
    let end = Instant::now() + limits.whole;
    let stream = dial(host, port, limits.connect, end).await?;
    timeout_at(end, exchange(stream, request, limits.body))
        .await
        .unwrap_or(Err(FetchError::AnswerTimedOut))
}

/// A connection, within this time and before that moment.
async fn dial(
    host: &str,
    port: u16,
    limit: Duration,
    end: Instant,
) -> Result<TcpStream, FetchError> {
    let sooner = end.min(Instant::now() + limit);
    match timeout_at(sooner, TcpStream::connect((host, port))).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(e)) if e.kind() == io::ErrorKind::ConnectionRefused => Err(FetchError::Refused),
        Ok(Err(e)) => Err(FetchError::Unreachable(e)),
        Err(_) => Err(FetchError::ConnectTimedOut),
    }
}

fn request(
    method: Method,
    host: &str,
    port: u16,
    path: &str,
    headers: &[(HeaderName, HeaderValue)],
    body: Bytes,
) -> Result<Request<Full<Bytes>>, FetchError> {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, authority(host, port))
        .header(ACCEPT, "application/json")
        .header(CONNECTION, "close")
        .body(Full::new(body))
        .map_err(|_| FetchError::BadRequest)?;
    for (name, value) in headers {
        request.headers_mut().insert(name, value.clone());
    }
    Ok(request)
}

/// The connection is driven here and not in a task of its own, so that it ends with the call.
async fn exchange(
    stream: TcpStream,
    request: Request<Full<Bytes>>,
    cap: usize,
) -> Result<Fetched, FetchError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| failure(&e))?;
    let answer = async {
        let response = sender
            .send_request(request)
            .await
            .map_err(|e| failure(&e))?;
        whole(response, cap).await
    };
    tokio::pin!(answer, connection);
    tokio::select! {
        biased;
        done = &mut answer => done,
        // The peer closed; what it sent before is still to be read.
        _ = &mut connection => answer.await,
    }
}

/// The answer with all of its body.
async fn whole(response: Response<Incoming>, cap: usize) -> Result<Fetched, FetchError> {
    let (head, mut body) = response.into_parts();
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| failure(&e))?;
        if let Ok(data) = frame.into_data() {
            if read.len() + data.len() > cap {
                return Err(FetchError::TooBig(cap));
            }
            read.extend_from_slice(&data);
        }
    }
    Ok(Fetched {
        status: head.status,
        headers: head.headers,
        body: read.freeze(),
    })
}

fn failure(e: &hyper::Error) -> FetchError {
    if e.is_parse() {
        FetchError::NotHttp
    } else {
        FetchError::Cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// Answers one connection with these bytes, then closes or (`hold`) stays silent. Gives the
    /// head of the request back.
    async fn peer(bytes: &'static [u8], hold: bool) -> (u16, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if stream.read(&mut byte).await.unwrap_or(0) == 0 {
                    break;
                }
                head.push(byte[0]);
            }
            stream.write_all(bytes).await.unwrap();
            if hold {
                // Until the other side gives up.
                drop(stream.read(&mut [0]).await);
            }
            String::from_utf8(head).unwrap()
        });
        (port, task)
    }

    async fn fetch(
        bytes: &'static [u8],
        hold: bool,
        limits: Limits,
    ) -> Result<Fetched, FetchError> {
        let (port, _task) = peer(bytes, hold).await;
        get("127.0.0.1", port, "/x", &[], limits).await
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_comes_with_status_headers_and_body() {
        let (port, task) = peer(
            b"HTTP/1.1 302 Found\r\nLocation: /y\r\nContent-Length: 2\r\n\r\nhi",
            false,
        )
        .await;
        let extra = [(
            HeaderName::from_static("x-a"),
            HeaderValue::from_static("b"),
        )];
        let got = get("127.0.0.1", port, "/p?q=1", &extra, Limits::default())
            .await
            .unwrap();
        assert_eq!(
            (got.status.as_u16(), &got.body[..]),
            (302, &b"hi"[..]),
            "not followed"
        );
        assert_eq!(got.headers["location"], "/y");
        let head = task.await.unwrap();
        assert!(head.starts_with("GET /p?q=1 HTTP/1.1\r\n"), "{head}");
        assert!(
            head.contains(&format!("host: 127.0.0.1:{port}\r\n")),
            "{head}"
        );
        assert!(
            head.contains("x-a: b\r\n") && head.contains("connection: close\r\n"),
            "{head}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_without_length_ends_with_the_connection() {
        let got = fetch(b"HTTP/1.1 200 OK\r\n\r\nall", false, Limits::default())
            .await
            .unwrap();
        assert_eq!(&got.body[..], b"all");
    }

    #[tokio::test(start_paused = true)]
    async fn each_failure_has_its_own_name() {
        let limits = Limits {
            body: 4,
            ..Limits::default()
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let refused = get("127.0.0.1", port, "/", &[], limits).await;
        assert!(matches!(refused, Err(FetchError::Refused)), "{refused:?}");
        let bad = get("127.0.0.1", port, "no path", &[], limits).await;
        assert!(matches!(bad, Err(FetchError::BadRequest)), "{bad:?}");

        let silent = fetch(b"", true, limits).await;
        assert!(
            matches!(silent, Err(FetchError::AnswerTimedOut)),
            "{silent:?}"
        );
        let stalled = fetch(
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab",
            true,
            limits,
        )
        .await;
        assert!(
            matches!(stalled, Err(FetchError::AnswerTimedOut)),
            "{stalled:?}"
        );
        let closed = fetch(b"", false, limits).await;
        assert!(matches!(closed, Err(FetchError::Cut)), "{closed:?}");
        let cut = fetch(
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab",
            false,
            limits,
        )
        .await;
        assert!(matches!(cut, Err(FetchError::Cut)), "{cut:?}");
        let other = fetch(b"SSH-2.0-OpenSSH_9.2\r\n", true, limits).await;
        assert!(matches!(other, Err(FetchError::NotHttp)), "{other:?}");
        let big = fetch(
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde",
            true,
            limits,
        )
        .await;
        assert!(matches!(big, Err(FetchError::TooBig(4))), "{big:?}");
    }
}
