//! A registry on a free loopback port, and a worker that says to it whatever a test wants.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use nvpair_proxy::registry::resolve::Resolve;
use nvpair_proxy::registry::{self, Options, Server};
use nvpair_proxy::rules::pool::key::{self, KeyHash, KeyRecord};
use nvpair_proxy::state::fleet::Fleet;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::fleet::TestFleet;

/// An answer to a POST.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Value,
}

impl Answer {
    /// The code and text of the JSON-RPC error that this must be.
    #[track_caller]
    pub fn error(&self) -> (i64, &str) {
        let error = &self.body["error"];
        match (error["code"].as_i64(), error["message"].as_str()) {
            (Some(code), Some(text)) => (code, text),
            _ => panic!("no error: {self:?}"),
        }
    }

    /// The result that this must be.
    #[track_caller]
    pub fn result(&self) -> &Value {
        let result = &self.body["result"];
        assert!(self.status == 200 && !result.is_null(), "{self:?}");
        result
    }
}

/// A name server under a test's control. A name it does not know has no address.
#[derive(Default)]
pub struct Names(Mutex<HashMap<String, Vec<IpAddr>>>);

impl Names {
    pub fn set(&self, name: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|a| a.parse().unwrap()).collect();
        self.0.lock().unwrap().insert(name.to_owned(), addresses);
    }
}

impl Resolve for Names {
    fn lookup<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let found = self.0.lock().unwrap().get(host).cloned();
        let unknown = || io::Error::new(io::ErrorKind::NotFound, "no such name");
        Box::pin(async move { found.ok_or_else(unknown) })
    }
}

/// A registry and what stands behind it.
pub struct Rig {
    pub fleet: Arc<TestFleet>,
    pub names: Arc<Names>,
    pub server: Server,
    /// Milliseconds of the clock that rates are counted by.
    pub clock: Arc<AtomicU64>,
}

impl Rig {
    pub fn start() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut Options)) -> Self {
        let fleet = Arc::new(TestFleet::default());
        let names = Arc::new(Names::default());
        let clock = Arc::new(AtomicU64::new(0));
        let read = clock.clone();
        let mut options = Options {
            resolver: names.clone(),
            clock: Arc::new(move || read.load(Ordering::Relaxed)),
            ..Options::standard(SocketAddr::from(([127, 0, 0, 1], 0)))
        };
        change(&mut options);
        let server = registry::start(options, fleet.clone()).unwrap();
        Self {
            fleet,
            names,
            server,
            clock,
        }
    }

    /// Makes a key and gives it as a worker has it.
    pub async fn key(&self, node: &str, allow: &[&str]) -> String {
        self.key_for(node, allow, &[]).await
    }

    pub async fn key_for(&self, node: &str, allow: &[&str], models: &[&str]) -> String {
        let texts = |list: &[&str]| list.iter().map(|t| (*t).to_owned()).collect();
        let mut random = [0; key::RANDOM_BYTES];
        for (place, byte) in random.iter_mut().zip(node.bytes().cycle()) {
            *place = byte;
        }
        let secret = key::make(random);
        let record = KeyRecord {
            name: format!("key-{node}"),
            node: node.into(),
            hash: KeyHash::of(secret.reveal()).unwrap(),
            allow: texts(allow),
            models: texts(models),
            created_at: 0,
        };
        record.check().unwrap();
        assert!(self.fleet.put_key(record).await.unwrap());
        secret.reveal().to_owned()
    }

    /// One call on a connection of its own.
    pub async fn call(&self, key: &str, method: &str, params: Value) -> Answer {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let auth = format!("authorization: Bearer {key}\r\n");
        self.post(&auth, body.to_string().as_bytes()).await
    }

    pub async fn register(&self, key: &str, params: Value) -> Answer {
        self.call(key, "node/register", params).await
    }

    /// A POST with these header lines besides the usual ones.
    pub async fn post(&self, headers: &str, body: &[u8]) -> Answer {
        let stream = TcpStream::connect(self.server.address()).await.unwrap();
        post(stream, headers, body).await
    }
}

/// A registration as documented, with an endpoint of its own.
pub fn registration(node: &str, endpoint: &str) -> Value {
    json!({"node_id": node, "endpoint": endpoint, "engine": "ollama",
        "models": [{"id": "qwen3:8b", "context_length": 8192, "is_warm": true}],
        "max_concurrency": 2, "agent_version": "0.1.0"})
}

/// A heartbeat as documented.
pub fn beat(node: &str, session: &str, seq: u64) -> Value {
    json!({"node_id": node, "session": session, "seq": seq, "draining": false,
        "active_requests": 0, "queue_depth": 0, "models": []})
}

pub async fn post<S>(mut stream: S, headers: &str, body: &[u8]) -> Answer
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let head = format!(
        "POST / HTTP/1.1\r\nhost: registry\r\nconnection: close\r\n{headers}\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    read(stream).await
}

/// Reads an answer up to the end of the connection.
pub async fn read<S: AsyncRead + Unpin>(mut stream: S) -> Answer {
    let mut bytes = Vec::new();
    // A connection that is cut after its answer gave the answer all the same.
    let _ = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    Answer {
        status: head.get(9..12).map_or(0, |code| code.parse().unwrap()),
        head: head.to_ascii_lowercase(),
        body: serde_json::from_str(body).unwrap_or(Value::Null),
    }
}
