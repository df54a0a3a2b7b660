//! How long a connection to a provider is kept, on a clock that stands still: within the process, since
//! waiting for the kernel would look like having nothing to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use nvpair_proxy::net::outside::{Outside, Proxies};
use nvpair_proxy::net::public_tls::PublicTls;
use nvpair_proxy::net::stream::Network;
use nvpair_proxy::net::upstream::Upstreams;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::time::sleep;

use crate::support::provider::Authority;
use crate::{ask, provider, setting};

/// Answers every request without a body.
async fn serve(stream: DuplexStream) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).await.unwrap_or(0) > 0 {
        if line == "\r\n" {
            let answer = b"HTTP/1.1 204 No Content\r\n\r\n";
            stream.write_all(answer).await.unwrap();
        }
        line.clear();
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_kept_for_ninety_seconds() {
    let dialled = Arc::<AtomicUsize>::default();
    let count = dialled.clone();
    let network = Network::Pipes(Box::new(move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
        let (ours, theirs) = tokio::io::duplex(4096);
        tokio::spawn(serve(theirs));
        async { Ok(ours) }.boxed()
    }));
    let tls = PublicTls::trusting(Authority::new().roots()).unwrap();
    let outside = Outside::new(tls, Proxies::of("", ""));
    let upstreams = Upstreams::through(outside, None, Arc::new(network));
    let (provider, _) = provider(setting("http://api.example/v1"));
    for (idle, times) in [(0, 1), (10, 1), (88, 1), (88, 1), (92, 2), (1, 2)] {
        sleep(Duration::from_secs(idle)).await;
        let answer = ask(&upstreams, &provider.target()).await.unwrap();
        assert_eq!(answer.status, 204);
        assert_eq!(dialled.load(Ordering::SeqCst), times, "after {idle} s");
    }
}
