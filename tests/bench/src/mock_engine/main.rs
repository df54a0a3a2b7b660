//! A fast fake inference engine: Ollama, OpenAI and llama.cpp dialects on one port.
//!
//! Every streamed token event carries `@<monotonic ns, base 36>;` in its text, so the
//! load generator can tell how long that token travelled and whether any went missing.

mod answers;

use answers::*;
use benchkit::{die, mono_ns, raise_nofile, Args};
use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{HeaderValue, CONTENT_TYPE};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Deserialize;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Clone)]
struct Cfg {
    name: String,
    models: Vec<String>,
    strict_models: bool,
    chunks: u32,
    chunk_bytes: usize,
    answer_bytes: usize,
    embed_bytes: usize,
    ttft_ms: u64,
    itl_ms: u64,
    fail_rate: f64,
    status: u16,
    hang_before_headers: bool,
    hang_after_headers: bool,
    die_after_chunks: Option<u32>,
    coalesce: bool,
}

#[derive(Default)]
struct Stats {
    requests: Cell<u64>,
    streams: Cell<u64>,
    live_streams: Cell<u64>,
    peak_streams: Cell<u64>,
    cancelled: Cell<u64>,
    completed: Cell<u64>,
    failed: Cell<u64>,
    conns: Cell<u64>,
    live_conns: Cell<u64>,
    body_bytes: Cell<u64>,
    by_path: RefCell<std::collections::BTreeMap<String, u64>>,
}

fn add(c: &Cell<u64>, n: u64) {
    c.set(c.get() + n)
}

struct Engine {
    cfg: RefCell<Cfg>,
    stats: Stats,
    rng: Cell<u64>,
}

impl Engine {
    fn chance(&self) -> f64 {
        let mut x = self.rng.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.rng.set(x);
        (x >> 11) as f64 / (1u64 << 53) as f64
    }
}

enum Out {
    Full(Option<Bytes>),
    /// Never ends and never yields.
    Hang,
    Stream(Box<Stream>),
}

struct Stream {
    eng: Rc<Engine>,
    dialect: Dialect,
    model: String,
    sent: u32,
    total: u32,
    bytes: usize,
    itl: Duration,
    die_after: Option<u32>,
    coalesce: bool,
    yielded: bool,
    timer: Option<Pin<Box<tokio::time::Sleep>>>,
    finished: bool,
}

impl Drop for Stream {
    fn drop(&mut self) {
        let s = &self.eng.stats;
        s.live_streams.set(s.live_streams.get() - 1);
        if self.finished {
            add(&s.completed, 1);
        } else {
            add(&s.cancelled, 1);
        }
    }
}

impl Body for Out {
    type Data = Bytes;
    type Error = std::io::Error;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        match &mut *self {
            Out::Full(b) => Poll::Ready(b.take().map(|b| Ok(Frame::data(b)))),
            Out::Hang => Poll::Pending,
            Out::Stream(s) => {
                if s.finished {
                    return Poll::Ready(None);
                }
                if s.die_after.is_some_and(|n| s.sent >= n) {
                    return Poll::Ready(Some(Err(std::io::Error::other("told to die"))));
                }
                if let Some(t) = s.timer.as_mut() {
                    if t.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                } else if s.sent > 0 && !s.coalesce && !s.yielded {
                    // Give the connection a chance to flush: one write per token.
                    s.yielded = true;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                s.yielded = false;
                if s.sent < s.total {
                    s.sent += 1;
                    if !s.itl.is_zero() {
                        let now = tokio::time::Instant::now();
                        match s.timer.as_mut() {
                            Some(t) => {
                                let next = (t.deadline() + s.itl).max(now);
                                t.as_mut().reset(next)
                            },
                            None => s.timer = Some(Box::pin(tokio::time::sleep(s.itl))),
                        }
                    }
                    let b = token(s.dialect, &s.model, s.bytes);
                    Poll::Ready(Some(Ok(Frame::data(b))))
                } else {
                    s.finished = true;
                    Poll::Ready(Some(Ok(Frame::data(closing(s.dialect, &s.model, s.total)))))
                }
            },
        }
    }
    fn is_end_stream(&self) -> bool {
        matches!(self, Out::Full(None))
    }
    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Out::Full(b) => {
                http_body::SizeHint::with_exact(b.as_ref().map_or(0, |b| b.len() as u64))
            },
            _ => http_body::SizeHint::default(),
        }
    }
}

/// Only what the engine needs of a request; the rest is skipped unread.
#[derive(Deserialize, Default)]
struct Ask<'a> {
    #[serde(borrow, default)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    input: Inputs,
}

/// How many inputs an embedding request holds.
#[derive(Default)]
struct Inputs(usize);
impl<'de> Deserialize<'de> for Inputs {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> serde::de::Visitor<'de> for V {
            type Value = Inputs;
            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("a string or an array")
            }
            fn visit_str<E>(self, _: &str) -> Result<Inputs, E> {
                Ok(Inputs(1))
            }
            fn visit_unit<E>(self) -> Result<Inputs, E> {
                Ok(Inputs(0))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut a: A) -> Result<Inputs, A::Error> {
                let mut n = 0;
                while a.next_element::<serde::de::IgnoredAny>()?.is_some() {
                    n += 1;
                }
                Ok(Inputs(n))
            }
        }
        d.deserialize_any(V)
    }
}

fn respond(status: StatusCode, ctype: &'static str, body: impl Into<Bytes>) -> Response<Out> {
    let mut r = Response::new(Out::Full(Some(body.into())));
    *r.status_mut() = status;
    r.headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(ctype));
    r
}
fn json(body: impl Into<Bytes>) -> Response<Out> {
    respond(StatusCode::OK, "application/json", body)
}

fn stats_json(e: &Engine) -> String {
    let s = &e.stats;
    let paths: Vec<String> = s
        .by_path
        .borrow()
        .iter()
        .map(|(k, v)| format!("{k:?}:{v}"))
        .collect();
    format!(
        "{{\"name\":{:?},\"requests\":{},\"streams\":{},\"live_streams\":{},\"peak_streams\":{},\"completed_streams\":{},\"cancelled_streams\":{},\"failed\":{},\"connections\":{},\"live_connections\":{},\"body_bytes\":{},\"by_path\":{{{}}}}}\n",
        e.cfg.borrow().name,
        s.requests.get(),
        s.streams.get(),
        s.live_streams.get(),
        s.peak_streams.get(),
        s.completed.get(),
        s.cancelled.get(),
        s.failed.get(),
        s.conns.get(),
        s.live_conns.get(),
        s.body_bytes.get(),
        paths.join(",")
    )
}

/// `/__set?ttft_ms=5&status=503&fail_rate=0.5` changes the behaviour of a running engine.
fn set(e: &Engine, query: &str) -> Result<(), String> {
    let mut c = e.cfg.borrow_mut();
    for kv in query.split('&').filter(|s| !s.is_empty()) {
        let (k, v) = kv.split_once('=').ok_or(kv)?;
        let n = || v.parse::<u64>().map_err(|_| kv.to_string());
        match k {
            "chunks" => c.chunks = n()? as u32,
            "chunk_bytes" => c.chunk_bytes = n()? as usize,
            "answer_bytes" => c.answer_bytes = n()? as usize,
            "ttft_ms" => c.ttft_ms = n()?,
            "itl_ms" => c.itl_ms = n()?,
            "fail_rate" => c.fail_rate = v.parse().map_err(|_| kv.to_string())?,
            "status" => c.status = n()? as u16,
            "hang_before_headers" => c.hang_before_headers = n()? != 0,
            "hang_after_headers" => c.hang_after_headers = n()? != 0,
            "die_after_chunks" => {
                c.die_after_chunks = if v == "off" { None } else { Some(n()? as u32) }
            },
            "models" => {
                c.models = v
                    .split(',')
                    .filter(|s| !s.is_empty())
                    .map(|s| s.to_string())
                    .collect()
            },
            _ => return Err(format!("unknown key {k}")),
        }
    }
    Ok(())
}

async fn handle(e: Rc<Engine>, req: Request<Incoming>) -> Result<Response<Out>, std::io::Error> {
    let path = req.uri().path().to_string();
    match path.as_str() {
        "/__stats" => return Ok(json(stats_json(&e))),
        "/__set" => {
            return Ok(match set(&e, req.uri().query().unwrap_or("")) {
                Ok(()) => json("{}"),
                Err(m) => respond(StatusCode::BAD_REQUEST, "text/plain", m),
            })
        },
        _ => {},
    }
    add(&e.stats.requests, 1);
    {
        let mut m = e.stats.by_path.borrow_mut();
        if let Some(n) = m.get_mut(&path) {
            *n += 1;
        } else if m.len() < 64 {
            m.insert(path.clone(), 1);
        }
    }
    let cfg = e.cfg.borrow().clone();
    let get = req.method() == Method::GET || req.method() == Method::HEAD;
    if get {
        let r = match path.as_str() {
            "/" => respond(StatusCode::OK, "text/plain", "Ollama is running"),
            "/api/tags" => json(tags(&cfg.models)),
            "/api/version" => json("{\"version\":\"0.12.0\"}"),
            "/api/ps" => json(ps(&cfg.models)),
            "/v1/models" | "/models" => json(oai_models(&cfg.models)),
            "/health" | "/health_generate" | "/v1/health" => json("{\"status\":\"ok\"}"),
            "/slots" => {
                let v: Vec<String> = (0..4).map(|i| format!("{{\"id\":{i},\"n_ctx\":4096,\"is_processing\":{}}}", (i as u64) < e.stats.live_streams.get())).collect();
                json(format!("[{}]", v.join(",")))
            }
            "/props" => json("{\"total_slots\":4,\"model_path\":\"mock\",\"default_generation_settings\":{\"n_ctx\":4096}}"),
            // What the SGLang- and vLLM-shaped routers ask their workers.
            "/get_model_info" | "/model_info" => json(format!("{{\"model_path\":\"{0}\",\"served_model_name\":\"{0}\",\"is_generation\":true}}", cfg.models.first().map_or("", |s| s))),
            "/get_server_info" | "/server_info" => json(format!("{{\"model_id\":\"{0}\",\"model_path\":\"{0}\",\"served_model_name\":\"{0}\",\"dp_size\":1,\"tp_size\":1,\"version\":\"0\"}}", cfg.models.first().map_or("", |s| s))),
            "/get_load" => json("{\"load\":0}"),
            "/version" => json("{\"version\":\"0.11.0\"}"),
            "/metrics" => respond(StatusCode::OK, "text/plain", "# no metrics\n"),
            _ => respond(StatusCode::NOT_FOUND, "application/json", "{\"error\":\"not found\"}"),
        };
        return Ok(r);
    }
    // Read the whole request body; most arrive in one piece.
    let mut body = req.into_body();
    let mut first = Bytes::new();
    let mut more: Option<BytesMut> = None;
    while let Some(f) = body.frame().await {
        let f = f.map_err(std::io::Error::other)?;
        if let Ok(d) = f.into_data() {
            if first.is_empty() {
                first = d;
            } else {
                more.get_or_insert_with(|| BytesMut::from(&first[..]))
                    .extend_from_slice(&d);
            }
        }
    }
    let raw = more.map(|m| m.freeze()).unwrap_or(first);
    add(&e.stats.body_bytes, raw.len() as u64);
    if cfg.hang_before_headers {
        std::future::pending::<()>().await;
    }
    if cfg.fail_rate > 0.0 && e.chance() < cfg.fail_rate {
        add(&e.stats.failed, 1);
        let s = StatusCode::from_u16(cfg.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        return Ok(respond(
            s,
            "application/json",
            "{\"error\":{\"message\":\"told to fail\",\"type\":\"server_error\"}}",
        ));
    }
    let ask: Ask = match serde_json::from_slice(&raw) {
        Ok(a) => a,
        Err(_) => {
            return Ok(respond(
                StatusCode::BAD_REQUEST,
                "application/json",
                "{\"error\":\"invalid JSON\"}",
            ))
        },
    };
    let model = ask.model.or(ask.name).unwrap_or_default().into_owned();
    let known = |m: &str| {
        cfg.models.iter().any(|k| {
            k == m
                || k.strip_suffix(":latest") == Some(m)
                || m.strip_suffix(":latest") == Some(k.as_str())
        })
    };
    if cfg.strict_models && !known(&model) {
        return Ok(respond(
            StatusCode::NOT_FOUND,
            "application/json",
            format!("{{\"error\":\"model '{model}' not found\"}}"),
        ));
    }
    let (dialect, default_stream) = match path.as_str() {
        "/v1/chat/completions" => (Dialect::OaiChat, false),
        "/v1/completions" => (Dialect::OaiText, false),
        "/api/chat" => (Dialect::OllamaChat, true),
        "/api/generate" => (Dialect::OllamaGenerate, true),
        "/api/show" => return Ok(json("{\"modelfile\":\"\",\"parameters\":\"\",\"template\":\"\",\"details\":{\"format\":\"gguf\",\"family\":\"llama\",\"families\":[\"llama\"],\"parameter_size\":\"8B\",\"quantization_level\":\"Q4_K_M\"},\"model_info\":{\"general.architecture\":\"llama\",\"llama.context_length\":8192},\"capabilities\":[\"completion\"]}")),
        "/v1/embeddings" => return Ok(json(embeddings(true, &model, ask.input.0, cfg.embed_bytes))),
        "/api/embed" => return Ok(json(embeddings(false, &model, ask.input.0, cfg.embed_bytes))),
        _ => return Ok(respond(StatusCode::NOT_FOUND, "application/json", "{\"error\":\"not found\"}")),
    };
    if !ask.stream.unwrap_or(default_stream) {
        let wait = cfg.ttft_ms + cfg.itl_ms * cfg.chunks as u64 * u64::from(cfg.itl_ms > 0);
        if wait > 0 {
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
        let mut r = json(answer(dialect, &model, cfg.answer_bytes));
        if let Ok(v) = HeaderValue::from_str(&cfg.name) {
            r.headers_mut().insert("x-engine-name", v);
        }
        return Ok(r);
    }
    if cfg.ttft_ms > 0 {
        tokio::time::sleep(Duration::from_millis(cfg.ttft_ms)).await;
    }
    let ctype = match dialect {
        Dialect::OaiChat | Dialect::OaiText => "text/event-stream",
        _ => "application/x-ndjson",
    };
    let body = if cfg.hang_after_headers {
        Out::Hang
    } else {
        let s = &e.stats;
        add(&s.streams, 1);
        add(&s.live_streams, 1);
        s.peak_streams
            .set(s.peak_streams.get().max(s.live_streams.get()));
        Out::Stream(Box::new(Stream {
            eng: e.clone(),
            dialect,
            model,
            sent: 0,
            total: cfg.chunks,
            bytes: cfg.chunk_bytes,
            itl: Duration::from_millis(cfg.itl_ms),
            die_after: cfg.die_after_chunks,
            coalesce: cfg.coalesce,
            yielded: false,
            timer: None,
            finished: false,
        }))
    };
    let mut r = Response::new(body);
    r.headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(ctype));
    r.headers_mut()
        .insert("cache-control", HeaderValue::from_static("no-cache"));
    if let Ok(v) = HeaderValue::from_str(&cfg.name) {
        r.headers_mut().insert("x-engine-name", v);
    }
    Ok(r)
}

struct ConnCount(Rc<Engine>);
impl Drop for ConnCount {
    fn drop(&mut self) {
        let c = &self.0.stats.live_conns;
        c.set(c.get() - 1);
    }
}

fn main() {
    let a = Args::parse(
        &[
            "listen",
            "models",
            "chunks",
            "chunk-bytes",
            "answer-bytes",
            "embed-bytes",
            "ttft-ms",
            "itl-ms",
            "fail-rate",
            "status",
            "die-after-chunks",
            "name",
        ],
        &[
            "hang-before-headers",
            "hang-after-headers",
            "coalesce",
            "any-model",
        ],
    );
    raise_nofile();
    let listen: std::net::SocketAddr = a
        .get("listen")
        .unwrap_or("127.0.0.1:0")
        .parse()
        .unwrap_or_else(|_| die("--listen: bad address"));
    if !listen.ip().is_loopback() {
        die("--listen must be a loopback address");
    }
    let cfg = Cfg {
        name: a.get("name").unwrap_or("mock").to_string(),
        models: a
            .get("models")
            .unwrap_or("m1")
            .split(',')
            .map(|s| s.to_string())
            .collect(),
        strict_models: !a.has("any-model"),
        chunks: a.num("chunks", 64),
        chunk_bytes: a.num("chunk-bytes", 120),
        answer_bytes: a.num("answer-bytes", 600),
        embed_bytes: a.num("embed-bytes", 100_000),
        ttft_ms: a.num("ttft-ms", 0),
        itl_ms: a.num("itl-ms", 0),
        fail_rate: a.num("fail-rate", if a.has("status") { 1.0 } else { 0.0 }),
        status: a.num("status", 500),
        hang_before_headers: a.has("hang-before-headers"),
        hang_after_headers: a.has("hang-after-headers"),
        die_after_chunks: a.get("die-after-chunks").map(|s| {
            s.parse()
                .unwrap_or_else(|_| die("--die-after-chunks: bad number"))
        }),
        coalesce: a.has("coalesce"),
    };
    let e = Rc::new(Engine {
        cfg: RefCell::new(cfg),
        stats: Stats::default(),
        rng: Cell::new(mono_ns() | 1),
    });
    let rt = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap_or_else(|e| die(&e.to_string()));
    let local = tokio::task::LocalSet::new();
    local.block_on(&rt, async move {
        let sock = if listen.is_ipv4() {
            tokio::net::TcpSocket::new_v4()
        } else {
            tokio::net::TcpSocket::new_v6()
        }
        .unwrap_or_else(|e| die(&e.to_string()));
        let _ = sock.set_reuseaddr(true);
        sock.bind(listen)
            .unwrap_or_else(|e| die(&format!("bind {listen}: {e}")));
        let l = sock.listen(4096).unwrap_or_else(|e| die(&e.to_string()));
        if let Ok(a) = l.local_addr() {
            println!("listening {a}");
        }
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(None)
            .pipeline_flush(false);
        loop {
            let s = match l.accept().await {
                Ok((s, _)) => s,
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    continue;
                },
            };
            let _ = s.set_nodelay(true);
            add(&e.stats.conns, 1);
            add(&e.stats.live_conns, 1);
            let guard = ConnCount(e.clone());
            let eng = e.clone();
            let svc = hyper::service::service_fn(move |r| handle(eng.clone(), r));
            let conn = http.serve_connection(TokioIo::new(s), svc);
            tokio::task::spawn_local(async move {
                let _g = guard;
                let _ = conn.await;
            });
        }
    });
}
