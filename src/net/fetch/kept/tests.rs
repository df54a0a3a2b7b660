use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::super::super::client_tls::TlsError;
use super::super::super::server_tls::ServerTls;
use super::*;

/// What the peer does with a request.
#[derive(Clone, Copy)]
enum Does {
    /// Sends these bytes, and waits for another.
    Say(&'static [u8]),
    /// The same, and closes.
    SayAndClose(&'static [u8]),
    /// Sends nothing, and waits for the other side to go.
    Nothing,
}
use Does::{Nothing, Say, SayAndClose};

const YES: Does = Say(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes");

/// Says to each request what is next in its list, whatever connection it comes on.
struct Peer {
    port: u16,
    connections: Arc<AtomicUsize>,
    /// The connection, head and body of each request.
    seen: mpsc::UnboundedReceiver<(usize, String)>,
    /// The connections that the other side ended.
    left: mpsc::UnboundedReceiver<usize>,
}

impl Peer {
    async fn start(list: &[Does]) -> Self {
        Self::serve(list, None).await
    }

    async fn serve(list: &[Does], tls: Option<ServerTls>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (see, seen) = mpsc::unbounded_channel();
        let (leave, left) = mpsc::unbounded_channel();
        let connections = Arc::new(AtomicUsize::new(0));
        let list = Arc::new(Mutex::new(VecDeque::from(list.to_vec())));
        let (counted, tls) = (connections.clone(), tls.map(Arc::new));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let n = counted.fetch_add(1, Ordering::SeqCst);
                let (list, see, leave) = (list.clone(), see.clone(), leave.clone());
                let tls = tls.clone();
                tokio::spawn(async move {
                    let over = match tls {
                        None => talk(stream, n, &list, &see).await,
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => talk(stream, n, &list, &see).await,
                            Err(_) => true,
                        },
                    };
                    if over {
                        // Whoever asks no more has gone.
                        let _ = leave.send(n);
                    }
                });
            }
        });
        Self {
            port,
            connections,
            seen,
            left,
        }
    }

    fn way(&self, tls: Option<ClientTls>, limits: Limits) -> Kept {
        Kept::new("127.0.0.1", self.port, tls, limits)
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The connections on which requests came so far, in their order.
    fn came(&mut self) -> Vec<usize> {
        std::iter::from_fn(|| self.seen.try_recv().ok())
            .map(|(n, _)| n)
            .collect()
    }
}

/// `true` if the other side ended it.
async fn talk<S>(
    mut stream: S,
    n: usize,
    list: &Mutex<VecDeque<Does>>,
    see: &mpsc::UnboundedSender<(usize, String)>,
) -> bool
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let mut request = Vec::new();
        // Every document here is `{}`.
        while !request.ends_with(b"\r\n\r\n{}") {
            let mut byte = [0];
            if stream.read(&mut byte).await.unwrap_or(0) == 0 {
                return true;
            }
            request.push(byte[0]);
        }
        // The test may be over.
        let _ = see.send((n, String::from_utf8(request).unwrap()));
        let does = list.lock().unwrap().pop_front();
        match does.expect("a request more than was planned") {
            Say(bytes) => stream.write_all(bytes).await.unwrap(),
            SayAndClose(bytes) => {
                stream.write_all(bytes).await.unwrap();
                stream.shutdown().await.unwrap();
                return false;
            },
            Nothing => {},
        }
    }
}

/// Long ones: a machine that is slow must not look like a peer that is.
fn patient() -> Limits {
    Limits {
        connect: Duration::from_secs(60),
        whole: Duration::from_secs(60),
        body: 16,
    }
}

fn hasty() -> Limits {
    Limits {
        whole: Duration::from_secs(1),
        ..patient()
    }
}

async fn ask(way: &Kept) -> Result<Vec<u8>, FetchError> {
    let got = way.post_json("/p", &[], Bytes::from_static(b"{}")).await?;
    Ok(got.body.to_vec())
}

async fn asks_well(way: &Kept) {
    assert_eq!(ask(way).await.unwrap(), b"yes");
}

/// Waits until it is noticed that the kept connection ended.
async fn until_closed(way: &Kept) {
    let open = || way.lock().as_ref().is_some_and(|l| !l.sender.is_closed());
    while open() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn calls_go_over_one_connection() {
    let mut peer = Peer::start(&[YES; 4]).await;
    let way = peer.way(None, patient());
    assert_eq!(peer.connections(), 0, "nothing is dialled before a call");
    for _ in 0..3 {
        asks_well(&way).await;
    }
    let (n, request) = peer.seen.recv().await.unwrap();
    assert!(request.starts_with("POST /p HTTP/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("host: 127.0.0.1:{}\r\n", peer.port)));
    assert!(request.contains("content-type: application/json\r\n"));
    assert!(!request.contains("connection:"), "{request}");
    assert_eq!((n, peer.came(), peer.connections()), (0, vec![0, 0], 1));
}

#[tokio::test]
async fn a_connection_that_ended_in_between_is_replaced_before_the_next_call() {
    let close = SayAndClose(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes");
    let mut peer = Peer::start(&[YES, close, YES, YES]).await;
    let way = peer.way(None, patient());
    asks_well(&way).await;
    asks_well(&way).await;
    until_closed(&way).await;
    asks_well(&way).await;
    asks_well(&way).await;
    assert_eq!(peer.came(), [0, 0, 1, 1], "each came once");
}

#[tokio::test]
async fn an_answer_that_ends_its_connection_is_the_last_on_it() {
    for last in [
        // It says so and does not do it.
        Say(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nyes"),
        Say(b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nyes"),
        // Its end is the connection's.
        SayAndClose(b"HTTP/1.1 200 OK\r\n\r\nyes"),
    ] {
        let mut peer = Peer::start(&[YES, last, YES]).await;
        let way = peer.way(None, patient());
        for _ in 0..3 {
            asks_well(&way).await;
        }
        assert_eq!(peer.came(), [0, 0, 1]);
    }
}

#[tokio::test]
async fn a_call_without_answer_on_a_kept_connection_is_sent_again_once() {
    for gone in [
        SayAndClose(b""),
        SayAndClose(b"HTTP/1.1 20"),
        // It was idle for too long, as servers and what stands before them say.
        SayAndClose(b"HTTP/1.1 408 Late\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"),
    ] {
        let mut peer =
            Peer::start(&[YES, gone, YES, SayAndClose(b""), SayAndClose(b""), YES]).await;
        let way = peer.way(None, patient());
        asks_well(&way).await;
        asks_well(&way).await;
        assert_eq!(peer.came(), [0, 0, 1]);
        let twice = ask(&way).await;
        assert!(matches!(twice, Err(FetchError::Cut)), "{twice:?}");
        assert_eq!(peer.came(), [1, 2], "not a third time");
        asks_well(&way).await;
        assert_eq!(peer.came(), [3]);
    }
}

#[tokio::test]
async fn a_call_on_a_new_connection_is_sent_once() {
    let mut peer = Peer::start(&[SayAndClose(b""), YES]).await;
    let way = peer.way(None, patient());
    let cut = ask(&way).await;
    assert!(matches!(cut, Err(FetchError::Cut)), "{cut:?}");
    asks_well(&way).await;
    assert_eq!(peer.came(), [0, 1]);
}

#[tokio::test]
async fn a_connection_on_which_something_went_wrong_is_not_used_again() {
    let (limits, more) = (patient(), hasty());
    for (does, limits, want) in [
        (
            SayAndClose(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nye"),
            limits,
            "it closed the connection before its answer was complete",
        ),
        (
            Say(b"HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n12345678901234567"),
            limits,
            "its answer is longer than 16 bytes",
        ),
        (Say(b"+PONG\r\n"), limits, "it does not answer in HTTP"),
        (Nothing, more, "connected, but no complete answer in time"),
        (
            Say(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nye"),
            more,
            "connected, but no complete answer in time",
        ),
    ] {
        let mut peer = Peer::start(&[YES, does, YES]).await;
        let mut way = peer.way(None, patient());
        asks_well(&way).await;
        way.limits = limits;
        assert_eq!(ask(&way).await.unwrap_err().to_string(), want);
        way.limits = patient();
        asks_well(&way).await;
        assert_eq!(peer.came(), [0, 0, 1], "{want}: nothing is sent twice");
    }
}

#[tokio::test]
async fn calls_at_the_same_time_have_a_connection_each_and_one_stays() {
    let mut peer = Peer::start(&[YES; 4]).await;
    let way = peer.way(None, patient());
    asks_well(&way).await;
    tokio::join!(asks_well(&way), asks_well(&way));
    assert_eq!(peer.connections(), 2);
    peer.left.recv().await.unwrap();
    asks_well(&way).await;
    assert_eq!((peer.connections(), peer.came().len()), (2, 4));
}

#[tokio::test]
async fn nothing_outlives_a_call_that_is_dropped_or_its_owner() {
    let mut peer = Peer::start(&[YES, Nothing, YES]).await;
    let way = peer.way(None, patient());
    asks_well(&way).await;
    peer.seen.recv().await.unwrap();
    tokio::select! {
        _ = ask(&way) => panic!("there is no answer"),
        seen = peer.seen.recv() => assert_eq!(seen.unwrap().0, 0),
    }
    assert_eq!(peer.left.recv().await, Some(0), "dropped with its call");
    asks_well(&way).await;
    drop(way);
    assert_eq!(peer.left.recv().await, Some(1), "dropped with its owner");
}

#[tokio::test]
async fn a_peer_that_is_gone_for_good_is_told_as_what_it_is() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let way = Kept::new("127.0.0.1", port, None, patient());
    let served = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        drop(listener);
        let mut request = vec![0; 4096];
        assert_ne!(stream.read(&mut request).await.unwrap(), 0);
        let Say(yes) = YES else { return };
        stream.write_all(yes).await.unwrap();
    };
    tokio::join!(served, asks_well(&way));
    let refused = ask(&way).await;
    assert!(matches!(refused, Err(FetchError::Refused)), "{refused:?}");
}

/// A certificate that no other call makes, and whoever trusts it.
fn certificate() -> (ServerTls, ClientTls) {
    let dir = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["gw.lan".to_owned()]).unwrap();
    let (c, k) = (dir.path().join("c.pem"), dir.path().join("k.pem"));
    std::fs::write(&c, made.cert.pem()).unwrap();
    std::fs::write(&k, made.signing_key.serialize_pem()).unwrap();
    let server = ServerTls::open(&c, &k).unwrap();
    let pin = server.fingerprint().parse().unwrap();
    (server, ClientTls::pinned(&pin).unwrap())
}

#[tokio::test]
async fn a_tls_session_is_kept_and_a_new_connection_is_as_wary_as_the_first() {
    let (server, client) = certificate();
    let mut peer = Peer::serve(&[YES, YES, SayAndClose(b""), YES], Some(server)).await;
    let way = peer.way(Some(client.clone()), patient());
    for _ in 0..3 {
        asks_well(&way).await;
    }
    assert_eq!(peer.came(), [0, 0, 0, 1]);
    // Somebody else is there when it is dialled again.
    let (other, _) = certificate();
    let elsewhere = Peer::serve(&[YES], Some(other)).await;
    let mut turned = elsewhere.way(Some(client), patient());
    std::mem::swap(&mut *turned.lock(), &mut *way.lock());
    let Some(line) = turned.idle.get_mut().unwrap() else {
        panic!("a connection is kept")
    };
    line.driver.abort();
    until_closed(&turned).await;
    let told = ask(&turned).await;
    assert!(
        matches!(
            told,
            Err(FetchError::Tls(TlsError::OtherCertificate { .. }))
        ),
        "{told:?}"
    );
}
