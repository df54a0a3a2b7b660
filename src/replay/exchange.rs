//! One synthetic request to a facade of this daemon, and what is seen of its answer.
//!
//! Owns: the connection, the measuring. Leaves to others: what is sent (`rules::synthetic`), when
//! (`send`). A connection a request, driven in the request's own future: dropping that future is
//! hanging up, and the facade then cancels what it started.

use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HOST};
use http::{HeaderValue, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::rules::synthetic::Synthetic;
use crate::rules::usage::{Stats, Tap, TapKind};

/// What came of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// Why it failed, in words; never content.
    pub failure: Option<String>,
    /// What was measured of its answer.
    pub stats: Option<Stats>,
}

impl Ended {
    fn failed(why: impl Into<String>) -> Self {
        Self {
            failure: Some(why.into()),
            stats: None,
        }
    }
}

/// Sends a request to the facade on this port and reads its answer to the end.
pub async fn exchange(port: u16, synthetic: Synthetic) -> Ended {
    match try_exchange(port, synthetic).await {
        Ok(ended) => ended,
        Err(why) => Ended::failed(why),
    }
}

async fn try_exchange(port: u16, synthetic: Synthetic) -> Result<Ended, &'static str> {
    let begun = Instant::now();
    let facade = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let stream = TcpStream::connect(facade)
        .await
        .map_err(|_| "the facade does not listen")?;
    // Without it a request may wait for an acknowledgement; it works either way.
    drop(stream.set_nodelay(true));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|_| "no answer")?;
    let request = Request::post(synthetic.path)
        .header(HOST, facade.to_string())
        .header(CONTENT_TYPE, "application/json")
        .header(CONNECTION, "close")
        // Anthropic's clients always send it; the others ignore it.
        .header("anthropic-version", "2023-06-01")
        .body(Full::new(Bytes::from(synthetic.body)))
        .map_err(|_| "the request cannot be made")?;
    let answer = async {
        let response = sender
            .send_request(request)
            .await
            .map_err(|_| "no answer")?;
        let (head, mut body) = response.into_parts();
        let text = |name| head.headers.get(name).map(HeaderValue::as_bytes);
        let mut tap = Tap::new(TapKind::for_response(
            text(CONTENT_TYPE),
            text(CONTENT_ENCODING),
        ));
        let mut failure =
            (!head.status.is_success()).then(|| format!("HTTP {}", head.status.as_u16()));
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                failure.get_or_insert_with(|| "its answer broke off".to_owned());
                break;
            };
            if let Ok(data) = frame.into_data() {
                tap.push(&data, begun.elapsed().as_micros() as u64);
            }
        }
        let measured = head.status.as_u16() < 400;
        Ok(Ended {
            failure,
            stats: measured.then(|| tap.finish(0)).flatten(),
        })
    };
    tokio::pin!(answer);
    tokio::select! {
        biased;
        done = &mut answer => done,
        // Closed; what came before is still to be read.
        _ = connection => answer.await,
    }
}
