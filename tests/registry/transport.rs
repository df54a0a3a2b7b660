//! The listener itself: HTTP, TLS, limits, and what is never logged.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use nvpair_proxy::net::server_tls::{ServerTls, fingerprint};
use nvpair_proxy::registry::{self, Options, StartError};
use nvpair_proxy::store::certificate::OwnCertificate;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::fleet::TestFleet;
use crate::rig::{Rig, beat, post, read, registration};

const HERE: &str = "http://10.0.0.7:11434";

#[tokio::test]
async fn other_machines_are_served_over_tls_alone() {
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let started = registry::start(
        Options::standard(everywhere),
        Arc::new(TestFleet::default()),
    );
    let Err(StartError::Plain(_)) = started else {
        panic!("it listens: {started:?}")
    };
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = held.local_addr().unwrap();
    let started = registry::start(Options::standard(taken), Arc::new(TestFleet::default()));
    let told = started.unwrap_err().to_string();
    assert!(
        told.contains("cannot listen on") && told.contains("`listen`"),
        "{told}"
    );
}

#[tokio::test]
async fn a_kept_certificate_is_served_and_can_be_pinned_or_trusted() {
    let dir = tempfile::tempdir().unwrap();
    let own = OwnCertificate::keep(dir.path(), vec!["gw.lan".to_owned()]).unwrap();
    let tls = Arc::new(ServerTls::open(&own.certificate, &own.key).unwrap());
    let told = tls.fingerprint();
    let rig = Rig::with(|options| options.tls = Some(tls));
    let key = rig.key("w1", &["10.0.0.0/8"]).await;

    let leaf = CertificateDer::from_pem_file(&own.certificate).unwrap();
    assert_eq!(fingerprint(&leaf), told);
    let mut roots = RootCertStore::empty();
    roots.add(leaf).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(rig.server.address()).await.unwrap();
    let name = ServerName::try_from("gw.lan").unwrap();
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "node/register",
        "params": registration("w1", HERE)});
    let auth = format!("authorization: Bearer {key}\r\n");
    let answer = post(stream, &auth, body.to_string().as_bytes()).await;
    assert!(answer.result()["session"].is_string());
    // In the clear there is no answer to a key.
    let answer = rig.register(&key, registration("w1", HERE)).await;
    assert_eq!(answer.status, 0, "{answer:?}");
}

#[tokio::test]
async fn only_single_json_posts_are_calls() {
    let rig = Rig::start();
    let key = rig.key("w1", &["10.0.0.0/8"]).await;
    let auth = format!("authorization: Bearer {key}\r\n");
    let batch = br#"[{"jsonrpc":"2.0","id":1,"method":"node/unregister"}]"#;
    let answer = rig.post(&auth, batch).await;
    assert_eq!(answer.error().0, -32005, "{answer:?}");
    let answer = rig.post(&auth, b"{").await;
    assert_eq!(answer.error().0, -32700);
    let answer = rig.call(&key, "node/list", json!({})).await;
    assert_eq!(answer.error().0, -32601);
    let head = |line: &str, more: &str| {
        format!("{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{auth}{more}\r\n")
    };
    let upgrade = "upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: x\r\n";
    for (request, status) in [
        (head("GET /", ""), 405),
        (head("GET /", upgrade), 405),
        (head("POST /metrics", "content-length: 0\r\n"), 404),
        (head("POST /", "content-length: 0\r\n"), 415),
        (
            head(
                "POST /",
                "content-type: text/plain\r\ncontent-length: 0\r\n",
            ),
            415,
        ),
        (
            format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "a".repeat(64 * 1024)),
            431,
        ),
    ] {
        let mut stream = TcpStream::connect(rig.server.address()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = read(stream).await;
        assert_eq!(answer.status, status, "{request:.60} {answer:?}");
    }
}

/// All ends of it are in this one runtime, so that the paused clock jumps only when all wait.
#[tokio::test(start_paused = true)]
async fn a_silent_or_slow_caller_is_let_go() {
    let rig = Rig::start();
    let key = rig.key("w1", &["10.0.0.0/8"]).await;
    let mut silent = TcpStream::connect(rig.server.address()).await.unwrap();
    assert_eq!(silent.read(&mut [0; 64]).await.unwrap(), 0);
    let mut slow = TcpStream::connect(rig.server.address()).await.unwrap();
    let head = format!(
        "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: 100\r\n\r\n{{"
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    let answer = read(slow).await;
    assert_eq!(answer.status, 408, "{answer:?}");
    assert!(answer.error().1.contains("10 s"), "{answer:?}");
}

/// A call on a connection that the caller would keep; the head of its answer, in lower case.
async fn kept_call(stream: &mut TcpStream, key: &str) -> String {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "node/unregister",
        "params": {"node_id": "x", "session": "x"}})
    .to_string();
    let head = format!(
        "POST / HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(answer).unwrap().to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1).unwrap();
    let length = length.split("\r\n").next().unwrap().parse().unwrap();
    stream.read_exact(&mut vec![0; length]).await.unwrap();
    head
}

#[tokio::test]
async fn a_fleet_behind_one_address_keeps_a_connection_a_worker() {
    let rig = Rig::start();
    let at = rig.server.address();
    let mut held = Vec::new();
    // A stranger may have 128 of one address.
    for n in 0..140 {
        let key = rig.key(&format!("w{n}"), &["10.0.0.0/8"]).await;
        let mut stream = TcpStream::connect(at).await.unwrap();
        let head = kept_call(&mut stream, &key).await;
        assert!(
            head.starts_with("http/1.1 200") && !head.contains("connection:"),
            "{n}: {head}"
        );
        held.push((stream, key));
    }
    for (stream, key) in &mut held {
        kept_call(stream, key).await;
    }
}

#[tokio::test]
async fn strangers_are_bounded_by_their_address_however_long_they_keep_a_connection() {
    let rig = Rig::start();
    let at = rig.server.address();
    let mut held = Vec::new();
    for _ in 0..128 {
        let mut stream = TcpStream::connect(at).await.unwrap();
        let head = kept_call(&mut stream, "ktms_node_nobody").await;
        assert!(head.starts_with("http/1.1 401"), "{head}");
        held.push(stream);
    }
    let mut more = TcpStream::connect(at).await.unwrap();
    // Closed without a word; a reset is as good.
    assert_eq!(more.read(&mut [0; 8]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn without_room_for_connections_that_stay_every_call_is_answered_all_the_same() {
    let rig = Rig::with(|options| options.staying = 0);
    let key = rig.key("w1", &["10.0.0.0/8"]).await;
    for _ in 0..2 {
        let mut stream = TcpStream::connect(rig.server.address()).await.unwrap();
        let head = kept_call(&mut stream, &key).await;
        assert!(head.starts_with("http/1.1 200") && head.contains("connection: close\r\n"));
    }
}

#[tokio::test]
async fn a_stopped_registry_answers_what_it_has_and_frees_its_port() {
    let rig = Rig::start();
    let key = rig.key("w1", &["10.0.0.0/8"]).await;
    assert_eq!(
        rig.register(&key, registration("w1", HERE)).await.status,
        200
    );
    let address = rig.server.address();
    // Those that are connected and idle do not hold it up.
    let _idle = TcpStream::connect(address).await.unwrap();
    let mut kept = TcpStream::connect(address).await.unwrap();
    kept_call(&mut kept, &key).await;
    rig.server.stop().await;
    assert_eq!(kept.read(&mut [0; 8]).await.unwrap(), 0);
    std::net::TcpListener::bind(address).unwrap();
}

/// Keeps every line.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_key_and_no_session_is_in_any_log_line_at_any_level() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    // The test's runtime has one thread, so this covers every task of it.
    let _guard = tracing::subscriber::set_default(subscriber);
    let rig = Rig::start();
    let key = rig.key("w1", &["10.0.0.0/8"]).await;
    let registered = rig.register(&key, registration("w1", HERE)).await;
    let session = registered.result()["session"].as_str().unwrap().to_owned();
    rig.call(&key, "node/heartbeat", beat("w1", &session, 1))
        .await;
    rig.call(&key, "node/heartbeat", beat("w1", &session, 1))
        .await;
    rig.register(&key, registration("other", HERE)).await;
    rig.register(&format!("{key}x"), registration("w1", HERE))
        .await;
    rig.register(&key, json!({"canary-field": 1})).await;
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert!(text.contains("a pool node registered"), "{text}");
    assert!(text.contains("was refused"), "{text}");
    let secret = key.trim_start_matches("ktms_node_");
    for line in text.lines().filter(|l| l.contains("nvpair_proxy")) {
        assert!(!line.contains(secret) && !line.contains(&session), "{line}");
    }
    assert!(!text.contains(secret), "the key is in a line of a library");
}
