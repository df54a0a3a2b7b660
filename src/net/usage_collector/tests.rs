use std::collections::BTreeSet;
use std::sync::Mutex;

use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;

use super::*;
use crate::wire::usage_event::sample;

fn event(n: u64) -> Arc<UsageEvent> {
    Arc::new(sample(n))
}

/// What the peer does with a batch; it keeps the ids of all that it saw.
#[derive(Clone, Copy, PartialEq)]
enum Does {
    Take,
    /// Takes it, and the answer is lost.
    TakeAndHang,
    Say(u16),
}

#[derive(Clone)]
struct Peer {
    port: u16,
    does: watch::Sender<Does>,
    batches: Arc<Mutex<Vec<Vec<String>>>>,
    connections: Arc<AtomicU64>,
}

impl Peer {
    async fn start(does: Does) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = Self {
            port: listener.local_addr().unwrap().port(),
            does: watch::Sender::new(does),
            batches: Arc::default(),
            connections: Arc::default(),
        };
        let served = peer.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let peer = served.clone();
                peer.connections.fetch_add(1, Ordering::Relaxed);
                let answer = move |r: Request<Incoming>| {
                    let peer = peer.clone();
                    async move { Ok::<_, hyper::Error>(peer.answer(r).await) }
                };
                let served = http1::Builder::new();
                let served = served.serve_connection(TokioIo::new(stream), service_fn(answer));
                tokio::spawn(served);
            }
        });
        peer
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        assert_eq!(request.uri().path(), "/v1/usage");
        assert_eq!(request.headers()["content-type"], "application/json");
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let ids = body["events"].as_array().unwrap().iter();
        let ids = ids.map(|e| e["event_id"].as_str().unwrap().to_owned());
        self.batches.lock().unwrap().push(ids.collect());
        let does = *self.does.borrow();
        let status = match does {
            Does::Take => 202,
            Does::TakeAndHang => std::future::pending().await,
            Does::Say(status) => status,
        };
        let mut answer = Response::new(Full::default());
        *answer.status_mut() = status.try_into().unwrap();
        answer
    }

    fn address(&self) -> CollectorAddress {
        CollectorAddress {
            host: "127.0.0.1".into(),
            port: self.port,
            tls: None,
            path: "/v1/usage".into(),
        }
    }

    fn batches(&self) -> Vec<Vec<String>> {
        self.batches.lock().unwrap().clone()
    }
}

/// Waits in steps of the paused clock until it is so.
async fn until(so: impl Fn() -> bool) {
    for _ in 0..100_000 {
        if so() {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("waited in vain");
}

#[tokio::test(start_paused = true)]
async fn batches_go_over_one_connection() {
    let peer = Peer::start(Does::Take).await;
    let (collector, _sending) = Collector::start(peer.address(), || 1.0);
    for n in 1..=3 {
        collector.send(event(n));
        until(|| collector.sent() == n).await;
    }
    assert_eq!(peer.batches().len(), 3);
    assert_eq!(peer.connections.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn events_come_in_batches_of_at_most_500_each_once() {
    let peer = Peer::start(Does::Take).await;
    let (collector, _sending) = Collector::start(peer.address(), || 1.0);
    for n in 0..1_234 {
        collector.send(event(n));
    }
    until(|| collector.sent() == 1_234).await;
    let batches = peer.batches();
    let sizes: Vec<_> = batches.iter().map(Vec::len).collect();
    assert_eq!(sizes, [500, 500, 234]);
    let ids: BTreeSet<_> = batches.concat().into_iter().collect();
    assert_eq!(ids.len(), 1_234);
    assert_eq!((collector.lost(), collector.queued()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_batch_whose_answer_was_lost_comes_again_with_the_same_ids() {
    let peer = Peer::start(Does::TakeAndHang).await;
    let (collector, _sending) = Collector::start(peer.address(), || 1.0);
    for n in 0..3 {
        collector.send(event(n));
    }
    until(|| peer.batches().len() == 2).await;
    assert_eq!(collector.queued(), 3, "nobody said that they were taken");
    peer.does.send_replace(Does::Take);
    until(|| collector.sent() == 3).await;
    let batches = peer.batches();
    assert!(batches.len() >= 3);
    assert!(batches.iter().all(|b| *b == ["id-0", "id-1", "id-2"]));
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_is_down_is_waited_for_and_what_is_too_much_is_counted() {
    let peer = Peer::start(Does::Say(503)).await;
    let (collector, _sending) = Collector::with_queue(peer.address(), || 1.0, 10);
    collector.send(event(0));
    // It is on its way, and does not count against the queue any more.
    until(|| !peer.batches().is_empty()).await;
    for n in 1..=14 {
        collector.send(event(n));
    }
    assert_eq!((collector.lost(), collector.queued()), (4, 11));
    peer.does.send_replace(Does::Take);
    until(|| collector.queued() == 0).await;
    assert_eq!((collector.sent(), collector.lost()), (11, 4));
    let last = peer.batches().pop().unwrap();
    assert_eq!(last.len(), 10, "those that were kept, in one batch");
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_wrong_is_lost_and_holds_up_nothing() {
    for status in [400, 413, 422] {
        let peer = Peer::start(Does::Say(status)).await;
        let (collector, _sending) = Collector::start(peer.address(), || 1.0);
        collector.send(event(0));
        until(|| collector.lost() == 1).await;
        peer.does.send_replace(Does::Take);
        collector.send(event(1));
        until(|| collector.sent() == 1).await;
        assert_eq!(peer.batches(), [["id-0"], ["id-1"]]);
    }
    // These may be over the next time, a redirect and a wrong key among them.
    for status in [302, 401, 404, 429, 500] {
        let peer = Peer::start(Does::Say(status)).await;
        let (collector, _sending) = Collector::start(peer.address(), || 1.0);
        collector.send(event(0));
        until(|| peer.batches().len() == 2).await;
        assert_eq!((collector.lost(), collector.queued()), (0, 1), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn at_the_end_everything_is_tried_once_more() {
    let peer = Peer::start(Does::Take).await;
    let (collector, sending) = Collector::start(peer.address(), || 1.0);
    for n in 0..700 {
        collector.send(event(n));
    }
    assert_eq!(sending.end(Duration::from_secs(5)).await, 0);
    assert_eq!(collector.sent(), 700);

    let peer = Peer::start(Does::Say(503)).await;
    let (collector, sending) = Collector::start(peer.address(), || 1.0);
    collector.send(event(0));
    until(|| peer.batches().len() == 1).await;
    // In the midst of a wait: not for its rest.
    assert_eq!(sending.end(Duration::from_secs(5)).await, 1);
    assert_eq!(peer.batches().len(), 2);

    let silent = Peer::start(Does::TakeAndHang).await;
    let (collector, sending) = Collector::start(silent.address(), || 1.0);
    collector.send(event(0));
    assert_eq!(sending.end(Duration::from_millis(100)).await, 1);
}
