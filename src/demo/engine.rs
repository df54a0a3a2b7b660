//! The server of one sample engine: listener, routes, and what it remembers.
//!
//! Owns: accepting and stopping, which answer a path gets, loaded models, the count of requests
//! in flight, refusing every n-th inference. Leaves to others: shapes (`dialect`, `answer`), the
//! text (`sample`), a server behind (`behind`).
//!
//! Everything ends with the [`DialectEngine`]: its task owns all connections, so that a stopped
//! engine is gone for its clients at once, as a node that dies is.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    CONTENT_TYPE, HeaderValue, ORIGIN, RETRY_AFTER, VARY,
};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::answer::{Body, Shape, Source, Writer, full, gathered, streamed};
use super::behind::Behind;
use super::dialect::{Card, Dialect, Facts, Kind, Refusal, embeddings};
use super::request::{Ask, Load, Vectors, Work, inputs, model, parse, words, work};
use super::sample::{Pace, SampleRun, embedding, text};
use super::{DemoError, DialectConfig};
use crate::rules::engine::{EngineId, Naming};

/// Most bytes of a request's body.
const BODY_LIMIT: usize = 64 << 20;
/// What llama.cpp starts with when nothing is asked.
const SLOTS: usize = 4;

/// A running sample engine. Dropping it closes its listener and every connection.
#[derive(Debug)]
pub struct DialectEngine {
    addr: SocketAddr,
    engine: EngineId,
    name: String,
    in_flight: watch::Receiver<usize>,
    task: AbortHandle,
}

impl DialectEngine {
    /// Binds and starts to serve; when this returns, connections are accepted.
    pub async fn start(config: DialectConfig) -> Result<Self, DemoError> {
        let addr = config.listen;
        if !addr.ip().is_loopback() {
            return Err(DemoError::NotLoopback(addr));
        }
        if config.models.is_empty() {
            return Err(DemoError::NoModels);
        }
        let behind = config.behind.as_deref().map(Behind::new).transpose()?;
        let bind = |source| DemoError::Bind { addr, source };
        let listener = TcpListener::bind(addr).await.map_err(bind)?;
        let addr = listener.local_addr().map_err(bind)?;
        let (engine, name) = (config.engine, config.name.clone());
        let (busy, in_flight) = watch::channel(0);
        let task = tokio::spawn(accept(listener, Arc::new(Node::new(config, behind, busy))));
        Ok(Self {
            addr,
            engine,
            name,
            in_flight,
            task: task.abort_handle(),
        })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Whose dialect it speaks.
    pub fn engine(&self) -> EngineId {
        self.engine
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Answers of text being given now; those passed through untouched are not counted.
    pub fn in_flight(&self) -> usize {
        *self.in_flight.borrow()
    }

    /// Waits until `wanted` answers of text are being given.
    pub async fn wait_in_flight(&self, wanted: usize) {
        // It fails only when the server is gone, and with it every answer.
        let _ = self.in_flight.clone().wait_for(|n| *n == wanted).await;
    }
}

impl Drop for DialectEngine {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, node: Arc<Node>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    // Tokens are small: without this they would wait for each other.
                    let _ = stream.set_nodelay(true);
                    connections.spawn(serve(TokioIo::new(stream), node.clone()));
                },
                // Out of descriptors, most likely: let running answers end and free some.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next() => {},
        }
    }
}

async fn serve(io: TokioIo<tokio::net::TcpStream>, node: Arc<Node>) {
    let service = service_fn(|request| {
        let node = node.clone();
        async move { Ok::<_, Infallible>(node.answer(request).await) }
    });
    // A connection's error is the client's business: it left or did not speak HTTP.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(io, service)
        .await;
}

/// One text answer being given.
pub(super) struct Busy(Arc<watch::Sender<usize>>);

impl Busy {
    fn begin(count: &Arc<watch::Sender<usize>>) -> Self {
        count.send_modify(|n| *n += 1);
        Self(count.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n = n.saturating_sub(1));
    }
}

struct Node {
    config: DialectConfig,
    dialect: Dialect,
    naming: Naming,
    behind: Option<Behind>,
    since: SystemTime,
    loaded: Mutex<BTreeSet<usize>>,
    numbers: AtomicU64,
    busy: Arc<watch::Sender<usize>>,
}

type Answer = Result<Response<Body>, Refusal>;

impl Node {
    fn new(config: DialectConfig, behind: Option<Behind>, busy: watch::Sender<usize>) -> Self {
        Self {
            dialect: Dialect::of(config.engine),
            naming: config.engine.spec().naming,
            behind,
            since: SystemTime::now(),
            loaded: Mutex::new(BTreeSet::from([0])),
            numbers: AtomicU64::new(0),
            busy: Arc::new(busy),
            config,
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let origin = request
            .headers()
            .get(ORIGIN)
            .filter(|o| is_local(o))
            .cloned();
        let mut response = if request.method() == Method::OPTIONS {
            preflight()
        } else {
            self.route(request, &path)
                .await
                .unwrap_or_else(|refusal| self.refuse(&refusal, &path))
        };
        if let Some(origin) = origin {
            response
                .headers_mut()
                .insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            response
                .headers_mut()
                .insert(VARY, HeaderValue::from_static("Origin"));
        }
        response
    }

    async fn route(&self, request: Request<Incoming>, path: &str) -> Answer {
        match *request.method() {
            Method::GET | Method::HEAD => match self.told(path).await? {
                Some(response) => Ok(response),
                None => self.pass(request, path).await,
            },
            Method::POST => match work(self.dialect, path) {
                Some(work) => self.infer(request, work).await,
                None if path == "/v1/messages/count_tokens" => self.count(request).await,
                None if self.dialect == Dialect::Ollama && path == "/api/show" => {
                    self.show(request).await
                },
                None => self.pass(request, path).await,
            },
            _ => self.pass(request, path).await,
        }
    }

    /// What a path without work gets: the server behind where it speaks the dialect itself.
    async fn pass(&self, request: Request<Incoming>, path: &str) -> Answer {
        if let Some(what) = managed(path).filter(|_| self.dialect == Dialect::Ollama) {
            return Err(Refusal::sample_only(what));
        }
        match &self.behind {
            Some(behind) if self.dialect == Dialect::LlamaCpp || path.starts_with("/v1/") => {
                let (parts, body) = request.into_parts();
                behind.pass(&parts, read(body).await?).await
            },
            _ => Err(Refusal::no_route(
                self.dialect,
                request.method().as_str(),
                path,
            )),
        }
    }

    /// What is told without work; `None` where the dialect knows no such path.
    async fn told(&self, path: &str) -> Result<Option<Response<Body>>, Refusal> {
        let value = match (self.dialect, path) {
            (Dialect::Ollama, "/") => return Ok(Some(plain("Ollama is running"))),
            (Dialect::Ollama, "/api/version") => json!({"version": VERSION}),
            (Dialect::Ollama, "/api/tags") => {
                let cards = self.cards().await?;
                json!({"models": cards.iter().map(|c| c.tag(self.since)).collect::<Vec<_>>()})
            },
            (Dialect::Ollama, "/api/ps") => {
                let cards = self.cards().await?;
                let running = cards.iter().filter(|c| c.loaded).map(Card::running);
                json!({"models": running.collect::<Vec<_>>()})
            },
            (Dialect::LmStudio, "/api/v0/models") => {
                let cards = self.cards().await?;
                let data: Vec<_> = cards.iter().map(Card::lmstudio).collect();
                json!({"object": "list", "data": data})
            },
            (Dialect::LmStudio, _) if path.starts_with("/api/v0/models/") => self
                .card(path.trim_start_matches("/api/v0/models/"))
                .await?
                .lmstudio(),
            (Dialect::LlamaCpp, "/models" | "/v1/models") => self.llamacpp_list().await?,
            (Dialect::LlamaCpp, "/health" | "/v1/health") if self.behind.is_none() => {
                json!({"status": "ok"})
            },
            (Dialect::LlamaCpp, "/props") if self.behind.is_none() => json!({
                "total_slots": SLOTS, "model_path": self.config.models[0], "is_sleeping": false,
                "chat_template": "", "build_info": format!("{VERSION} (sample engine)"),
                "default_generation_settings": {"n_ctx": Facts::SAMPLE.context},
            }),
            (Dialect::LlamaCpp, "/slots") if self.behind.is_none() => self.slots(),
            (_, "/v1/models") => {
                let cards = self.cards().await?;
                json!({"object": "list", "data": self.openai(&cards)})
            },
            (Dialect::Ollama | Dialect::LmStudio, _) if path.starts_with("/v1/models/") => {
                let card = self.card(path.trim_start_matches("/v1/models/")).await?;
                card.openai(self.dialect, self.created())
            },
            _ => return Ok(None),
        };
        Ok(Some(json_response(StatusCode::OK, &value)))
    }

    fn openai(&self, cards: &[Card]) -> Vec<Value> {
        cards
            .iter()
            .map(|c| c.openai(self.dialect, self.created()))
            .collect()
    }

    async fn llamacpp_list(&self) -> Result<Value, Refusal> {
        let cards = self.cards().await?;
        let models: Vec<_> = cards.iter().map(Card::llamacpp_native).collect();
        Ok(json!({"models": models, "object": "list", "data": self.openai(&cards)}))
    }

    fn slots(&self) -> Value {
        let busy = *self.busy.borrow();
        (0..SLOTS.max(busy))
            .map(|id| {
                json!({"id": id, "n_ctx": Facts::SAMPLE.context, "is_processing": id < busy,
                       "speculative": false})
            })
            .collect()
    }

    async fn show(&self, request: Request<Incoming>) -> Answer {
        let body = parse(&read(request.into_body()).await?)?;
        let card = self.card(model(&body)?).await?;
        Ok(json_response(StatusCode::OK, &card.show(self.since)))
    }

    async fn infer(&self, request: Request<Incoming>, work: Work) -> Answer {
        let (parts, body) = request.into_parts();
        let bytes = read(body).await?;
        let body = parse(&bytes)?;
        let asked = model(&body)?.to_owned();
        let index = self.find(&asked)?;
        let number = self.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        if self
            .config
            .refuse_every
            .is_some_and(|n| n > 0 && number.is_multiple_of(u64::from(n)))
        {
            return Err(Refusal::busy(&self.config.name));
        }
        if let Some(behind) = &self.behind {
            if parts.uri.path().starts_with("/api/") {
                return self
                    .translate(behind, work, index, number, &asked, &body)
                    .await;
            }
            self.load(index);
            return behind.pass(&parts, bytes).await;
        }
        match work {
            Work::Text(shape) => self.text(shape, index, number, &asked, &body).await,
            Work::Vectors(shape) => self.vectors(shape, index, &asked, &body),
        }
    }

    /// Any node counts for any model: a router need not send this to an owner.
    async fn count(&self, request: Request<Incoming>) -> Answer {
        let (parts, body) = request.into_parts();
        let bytes = read(body).await?;
        if let Some(behind) = &self.behind {
            return behind.pass(&parts, bytes).await;
        }
        let body = parse(&bytes)?;
        let tokens = words(&body["messages"]) + words(&body["system"]);
        Ok(json_response(
            StatusCode::OK,
            &json!({"input_tokens": tokens}),
        ))
    }

    async fn text(
        &self,
        shape: Shape,
        index: usize,
        number: u64,
        asked: &str,
        body: &Value,
    ) -> Answer {
        let ask = Ask::read(shape, body)?;
        let writer = Writer::new(shape, asked, number, ask.include_usage, ask.prompt_tokens);
        if let Some(load) = ask.only_load {
            return Ok(self.only_load(load, index, &writer));
        }
        let pace = Pace {
            delay: self.config.token_delay,
            cold: self.load(index),
            limit: ask.limit,
            endless: ask.endless,
            prompt_tokens: ask.prompt_tokens,
        };
        let words = text(&self.config.name, &self.config.models[index]);
        let source = Source::Sample(SampleRun::new(&words, &pace, Busy::begin(&self.busy)));
        self.deliver(shape, ask.stream, source, writer).await
    }

    fn vectors(&self, shape: Vectors, index: usize, asked: &str, body: &Value) -> Answer {
        let started = Instant::now();
        let texts = inputs(shape, body)?;
        self.load(index);
        let vectors: Vec<_> = texts.iter().map(|t| embedding(t)).collect();
        let tokens = texts
            .iter()
            .map(|t| t.split_whitespace().count() as u64)
            .sum();
        let base64 = body["encoding_format"] == "base64";
        let v = embeddings(shape, asked, &vectors, base64, tokens, started.elapsed());
        Ok(json_response(StatusCode::OK, &v))
    }

    /// A native request whose work the server behind does.
    async fn translate(
        &self,
        behind: &Behind,
        work: Work,
        index: usize,
        number: u64,
        asked: &str,
        body: &Value,
    ) -> Answer {
        let own = &self.config.models[index];
        match work {
            Work::Text(shape) => {
                let ask = Ask::read(shape, body)?;
                let writer = Writer::new(shape, asked, number, ask.include_usage, 0);
                if let Some(load) = ask.only_load {
                    return Ok(self.only_load(load, index, &writer));
                }
                let run = behind
                    .text(shape, own, body, Busy::begin(&self.busy))
                    .await?;
                self.load(index);
                self.deliver(shape, ask.stream, Source::Behind(Box::new(run)), writer)
                    .await
            },
            Work::Vectors(shape) => {
                let texts = inputs(shape, body)?;
                let started = Instant::now();
                let (vectors, tokens) = behind.vectors(own, &texts).await?;
                self.load(index);
                let base64 = body["encoding_format"] == "base64";
                let v = embeddings(shape, asked, &vectors, base64, tokens, started.elapsed());
                Ok(json_response(StatusCode::OK, &v))
            },
        }
    }

    async fn deliver(&self, shape: Shape, stream: bool, source: Source, writer: Writer) -> Answer {
        if !stream {
            let v = gathered(source, writer).await.map_err(Refusal::behind)?;
            return Ok(json_response(StatusCode::OK, &v));
        }
        let mut response = Response::new(streamed(source, writer));
        let kind = HeaderValue::from_static(shape.stream_type());
        response.headers_mut().insert(CONTENT_TYPE, kind);
        Ok(response)
    }

    fn only_load(&self, load: Load, index: usize, writer: &Writer) -> Response<Body> {
        let reason = match load {
            Load::Load => {
                self.load(index);
                "load"
            },
            Load::Unload => {
                self.loaded
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .remove(&index);
                "unload"
            },
        };
        json_response(StatusCode::OK, &writer.loaded(reason))
    }

    /// Whether the model was not loaded before.
    fn load(&self, index: usize) -> bool {
        self.loaded
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(index)
    }

    fn find(&self, asked: &str) -> Result<usize, Refusal> {
        let wanted = self.naming.normalize(asked);
        self.config
            .models
            .iter()
            .position(|m| self.naming.normalize(m) == wanted)
            .ok_or_else(|| Refusal::unknown_model(asked))
    }

    async fn card(&self, asked: &str) -> Result<Card, Refusal> {
        let index = self.find(asked)?;
        Ok(self.cards().await?.swap_remove(index))
    }

    /// The models with what is known of them. A dead server behind means a dead engine.
    async fn cards(&self) -> Result<Vec<Card>, Refusal> {
        let facts = match &self.behind {
            Some(behind) => behind.facts().await?,
            None => Facts::SAMPLE,
        };
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let card = |(index, name): (usize, &String)| Card {
            name: self.naming.normalize(name).into_owned(),
            loaded: loaded.contains(&index),
            facts,
        };
        Ok(self.config.models.iter().enumerate().map(card).collect())
    }

    fn created(&self) -> u64 {
        self.since
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |d| d.as_secs())
    }

    fn refuse(&self, refusal: &Refusal, path: &str) -> Response<Body> {
        let (kind, body) = refusal.body(self.dialect, path);
        let mut response = Response::new(full(body));
        *response.status_mut() = refusal.status;
        response
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        if refusal.kind == Kind::Busy && self.behind.is_none() {
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// Told where an engine tells its version; no engine has this one.
const VERSION: &str = "0.0.0-sample";

/// What an Ollama management path would do to models, as a verb.
fn managed(path: &str) -> Option<&'static str> {
    match path {
        "/api/pull" => Some("pull"),
        "/api/push" => Some("push"),
        "/api/create" => Some("create"),
        "/api/copy" => Some("copy"),
        "/api/delete" => Some("delete"),
        _ if path.starts_with("/api/blobs/") => Some("store"),
        _ => None,
    }
}

async fn read(body: Incoming) -> Result<Bytes, Refusal> {
    match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(all) => Ok(all.to_bytes()),
        Err(e) if e.is::<http_body_util::LengthLimitError>() => Err(Refusal::too_large(BODY_LIMIT)),
        Err(_) => Err(Refusal::invalid("the body could not be read")),
    }
}

fn json_response(status: StatusCode, v: &Value) -> Response<Body> {
    let mut response = Response::new(full(v.to_string()));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn plain(text: &'static str) -> Response<Body> {
    let mut response = Response::new(full(text));
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// The engines' own default: pages of this machine may ask, others may not.
fn is_local(origin: &HeaderValue) -> bool {
    let uri = origin.to_str().ok().and_then(|o| o.parse::<Uri>().ok());
    uri.is_some_and(|u| matches!(u.host(), Some("localhost" | "127.0.0.1" | "[::1]")))
}

fn preflight() -> Response<Body> {
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    for (name, value) in [
        (ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, HEAD, OPTIONS"),
        (
            ACCESS_CONTROL_ALLOW_HEADERS,
            "Authorization, Content-Type, Accept, User-Agent",
        ),
    ] {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}
