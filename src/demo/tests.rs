//! Over real loopback sockets, on the test's own runtime. No token delay, so no waiting.

mod answers;
mod behind;
mod lists;

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

fn id(engine: &str) -> EngineId {
    EngineId::parse(engine).unwrap()
}

async fn start(engine: &str, models: &[&str]) -> DialectEngine {
    DialectEngine::start(DialectConfig::new(id(engine), "n1", models))
        .await
        .unwrap()
}

struct Got {
    status: u16,
    head: String,
    body: Vec<u8>,
    /// A chunked body had its last chunk.
    complete: bool,
}

impl Got {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    fn lines(&self) -> Vec<Value> {
        self.text()
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect()
    }

    /// The data of each event; `[DONE]` as a text.
    fn events(&self) -> Vec<Value> {
        let data = self.text().lines().filter_map(|l| l.strip_prefix("data: "));
        data.map(|d| serde_json::from_str(d).unwrap_or_else(|_| json!(d)))
            .collect()
    }
}

async fn send(addr: SocketAddr, request: &str) -> TcpStream {
    let mut socket = TcpStream::connect(addr).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    socket
}

fn request(method: &str, path: &str, extra: &str, body: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n{extra}Content-Length: {}\r\n\
         \r\n{body}",
        body.len()
    )
}

async fn ask(addr: SocketAddr, method: &str, path: &str, extra: &str, body: &str) -> Got {
    let mut socket = send(addr, &request(method, path, extra, body)).await;
    let mut all = Vec::new();
    socket.read_to_end(&mut all).await.unwrap();
    let at = all.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(all[..at].to_vec())
        .unwrap()
        .to_lowercase();
    let status = head[9..12].parse().unwrap();
    let raw = &all[at + 4..];
    let (body, complete) = if head.contains("transfer-encoding: chunked") {
        dechunk(raw)
    } else {
        (raw.to_vec(), true)
    };
    Got {
        status,
        head,
        body,
        complete,
    }
}

fn dechunk(mut raw: &[u8]) -> (Vec<u8>, bool) {
    let mut out = Vec::new();
    loop {
        let Some(at) = raw.windows(2).position(|w| w == b"\r\n") else {
            return (out, false);
        };
        let size = std::str::from_utf8(&raw[..at]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return (out, true);
        }
        out.extend_from_slice(&raw[at + 2..at + 2 + size]);
        raw = &raw[at + 4 + size..];
    }
}

async fn get(addr: SocketAddr, path: &str) -> Got {
    ask(addr, "GET", path, "", "").await
}

async fn post(addr: SocketAddr, path: &str, body: &Value) -> Got {
    ask(addr, "POST", path, "", &body.to_string()).await
}

fn hello() -> Value {
    json!([{"role": "user", "content": "hello there"}])
}

#[tokio::test]
async fn every_nth_inference_is_refused_and_nothing_else() {
    let mut config = DialectConfig::new(id("ollama"), "n1", &["m"]);
    config.refuse_every = Some(3);
    let e = DialectEngine::start(config).await.unwrap();
    let body = json!({"model": "m", "prompt": "x", "stream": false, "options": {"num_predict": 1}});
    let mut seen = Vec::new();
    for _ in 0..6 {
        seen.push(post(e.addr(), "/api/generate", &body).await.status);
        assert_eq!(get(e.addr(), "/api/tags").await.status, 200);
    }
    assert_eq!(seen, [200, 200, 503, 200, 200, 503]);
}

#[tokio::test]
async fn an_answer_stops_when_its_client_leaves() {
    let (front, server) = behind::pair().await;
    let endless = json!({"model": "m", "messages": hello(), "stream": true, "ignore_eos": true,
                         "max_tokens": u32::MAX,
                         "options": {"ignore_eos": true, "num_predict": u32::MAX}});
    for (e, path) in [(&server, "/v1/chat/completions"), (&front, "/api/chat")] {
        let mut socket = send(e.addr(), &request("POST", path, "", &endless.to_string())).await;
        socket.read_exact(&mut [0; 512]).await.unwrap();
        assert_eq!(e.in_flight(), 1);
        drop(socket);
        e.wait_in_flight(0).await;
        server.wait_in_flight(0).await;
    }
}

#[tokio::test]
async fn a_stopped_engine_cuts_its_streams() {
    let e = start("llamacpp", &["m"]).await;
    let addr = e.addr();
    let body = json!({"model": "m", "messages": hello(), "stream": true, "ignore_eos": true,
                      "max_tokens": u32::MAX});
    let mut socket = send(
        addr,
        &request("POST", "/v1/chat/completions", "", &body.to_string()),
    )
    .await;
    socket.read_exact(&mut [0; 512]).await.unwrap();
    drop(e);
    let mut rest = Vec::new();
    // The end comes as FIN or as reset, in any case without a last chunk.
    let _ = socket.read_to_end(&mut rest).await;
    assert!(!rest.ends_with(b"0\r\n\r\n"));
}

#[tokio::test]
async fn the_fleet_has_two_nodes_an_engine_with_one_model_in_common() {
    let fleet = start_fleet().await.unwrap();
    let nodes = fleet.nodes();
    assert_eq!(nodes.len(), 2 * EngineId::all().count());
    for pair in nodes.chunks(2) {
        let mut names = Vec::new();
        for (engine, _, addr) in pair {
            assert_eq!(*engine, pair[0].0);
            let v = get(*addr, "/v1/models").await.json();
            let ids = v["data"]
                .as_array()
                .unwrap()
                .iter()
                .map(|m| m["id"].to_string());
            names.push(ids.collect::<Vec<_>>());
        }
        assert_eq!(names[0][0], names[1][0]);
        assert!(names[0][1] != names[1][1] && names[0].len() == 2 && names[1].len() == 2);
        assert_ne!(pair[0].1, pair[1].1);
    }
}

#[tokio::test]
async fn a_configuration_that_cannot_be_served_is_refused() {
    let mut config = DialectConfig::new(id("ollama"), "n1", &["m"]);
    config.listen = "0.0.0.0:0".parse().unwrap();
    let e = DialectEngine::start(config.clone()).await.unwrap_err();
    assert!(matches!(e, DemoError::NotLoopback(_)), "{e}");
    config.listen = "127.0.0.1:0".parse().unwrap();
    config.behind = Some("https://127.0.0.1:1".to_owned());
    let e = DialectEngine::start(config).await.unwrap_err();
    assert!(matches!(e, DemoError::Behind(_)), "{e}");
    let e = DialectEngine::start(DialectConfig::new(id("ollama"), "n1", &[]))
        .await
        .unwrap_err();
    assert!(matches!(e, DemoError::NoModels), "{e}");
}
