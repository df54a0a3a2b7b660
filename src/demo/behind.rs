//! A llama-server that does the work of a dialect engine.
//!
//! Owns: the requests to it, translating Ollama's native requests into OpenAI ones, reading its
//! event stream, passing `/v1/*` through. Leaves to others: what the client is sent (`answer`).
//!
//! Each request has a connection of its own: a llama-server closes after every stream anyway, and
//! closing is how it learns that a client left. Native requests are streamed from it even where
//! the client wants one piece: it notices a closed stream at once, a waiting request seldom.

use std::io;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use futures_util::stream;
use http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, HeaderName, TRANSFER_ENCODING,
};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, request};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

use super::DemoError;
use super::answer::{Body, Finish, Piece, Shape, Stats};
use super::dialect::{Facts, Refusal};
use super::engine::Busy;

/// Longest line of its event stream; a longer one is no token.
const LINE_LIMIT: usize = 4 << 20;

/// Headers that belong to one connection.
const HOP: [HeaderName; 3] = [
    CONNECTION,
    TRANSFER_ENCODING,
    HeaderName::from_static("keep-alive"),
];

/// Where the server is.
#[derive(Debug)]
pub(super) struct Behind {
    authority: String,
}

/// An answer of the server. Dropping the link closes its connection.
struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Incoming,
    link: Link,
}

struct Link(AbortHandle);

impl Drop for Link {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Behind {
    pub(super) fn new(origin: &str) -> Result<Self, DemoError> {
        let bad = || DemoError::Behind(origin.to_owned());
        let uri: Uri = origin.parse().map_err(|_| bad())?;
        let plain = uri.scheme_str() == Some("http") && uri.path() == "/" && uri.query().is_none();
        let authority = uri
            .authority()
            .filter(|a| plain && !a.as_str().contains('@'));
        let authority = authority.ok_or_else(bad)?;
        let port = authority.port_u16().unwrap_or(80);
        Ok(Self {
            authority: format!("{}:{port}", authority.host()),
        })
    }

    async fn send(
        &self,
        method: Method,
        target: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Reply, Refusal> {
        let gone = |e: &dyn std::fmt::Display| {
            Refusal::behind(format!(
                "the server behind this engine does not answer: {e}"
            ))
        };
        let stream = TcpStream::connect(&self.authority)
            .await
            .map_err(|e| gone(&e))?;
        let _ = stream.set_nodelay(true);
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|e| gone(&e))?;
        let link = Link(tokio::spawn(connection).abort_handle());
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = target.parse().map_err(|e| gone(&e))?;
        *request.headers_mut() = headers;
        let host = self.authority.parse().map_err(|e| gone(&e))?;
        request.headers_mut().insert(HOST, host);
        let response = sender.send_request(request).await.map_err(|e| gone(&e))?;
        let (parts, body) = response.into_parts();
        Ok(Reply {
            status: parts.status,
            headers: parts.headers,
            body,
            link,
        })
    }

    async fn post(&self, target: &str, v: &Value) -> Result<Reply, Refusal> {
        let mut headers = HeaderMap::new();
        headers.insert(
            CONTENT_TYPE,
            http::HeaderValue::from_static("application/json"),
        );
        self.send(Method::POST, target, headers, Bytes::from(v.to_string()))
            .await?
            .accepted()
            .await
    }

    /// Sends a request on as it is, and its answer back as it comes.
    pub(super) async fn pass(
        &self,
        parts: &request::Parts,
        body: Bytes,
    ) -> Result<Response<Body>, Refusal> {
        let mut headers = parts.headers.clone();
        // The body was gathered: its length is known anew, and nobody waits to send it.
        headers.remove(CONTENT_LENGTH);
        headers.remove(EXPECT);
        HOP.iter().for_each(|h| drop(headers.remove(h)));
        let target = parts.uri.path_and_query().map_or("/", |t| t.as_str());
        let mut reply = self
            .send(parts.method.clone(), target, headers, body)
            .await?;
        HOP.iter().for_each(|h| drop(reply.headers.remove(h)));
        let frames = stream::try_unfold((reply.body, reply.link), |(mut body, link)| async move {
            match body.frame().await {
                Some(Ok(frame)) => Ok(Some((frame, (body, link)))),
                Some(Err(e)) => Err(io::Error::other(e)),
                None => Ok(None),
            }
        });
        let frames: Body = StreamBody::new(frames).boxed_unsync();
        let mut response = Response::new(frames);
        *response.status_mut() = reply.status;
        *response.headers_mut() = reply.headers;
        Ok(response)
    }

    /// What the server tells of its model.
    pub(super) async fn facts(&self) -> Result<Facts, Refusal> {
        let reply = self
            .send(Method::GET, "/v1/models", HeaderMap::new(), Bytes::new())
            .await?;
        let list = reply.accepted().await?.json().await?;
        let meta = &list["data"][0]["meta"];
        let number = |key: &str| meta[key].as_u64().unwrap_or(0);
        Ok(Facts {
            size: number("size"),
            parameters: number("n_params"),
            context: meta["n_ctx"]
                .as_u64()
                .unwrap_or_else(|| number("n_ctx_train")),
            width: number("n_embd"),
            sample: false,
        })
    }

    /// Embeds each text with the server's `model`.
    pub(super) async fn vectors(
        &self,
        model: &str,
        texts: &[String],
    ) -> Result<(Vec<Vec<f32>>, u64), Refusal> {
        if texts.is_empty() {
            return Ok((Vec::new(), 0));
        }
        let ask = json!({"model": model, "input": texts, "encoding_format": "float"});
        let answer = self.post("/v1/embeddings", &ask).await?.json().await?;
        let entries = answer["data"].as_array().cloned().unwrap_or_default();
        let vectors: Vec<Vec<f32>> = entries
            .into_iter()
            .filter_map(|mut e| serde_json::from_value(e["embedding"].take()).ok())
            .collect();
        if vectors.len() != texts.len() {
            return Err(Refusal::behind(
                "the server behind this engine gave no embeddings",
            ));
        }
        Ok((
            vectors,
            answer["usage"]["prompt_tokens"].as_u64().unwrap_or(0),
        ))
    }

    /// Begins a native text request; returns when the server has begun to answer.
    pub(super) async fn text(
        &self,
        shape: Shape,
        model: &str,
        body: &Value,
        busy: Busy,
    ) -> Result<BehindRun, Refusal> {
        let started = Instant::now();
        let (target, ask) = translated(shape, model, body)?;
        let reply = self.post(target, &ask).await?;
        Ok(BehindRun {
            body: reply.body,
            lines: Lines::default(),
            started,
            first: None,
            tokens: 0,
            finish: Finish::Stop,
            told: Told::default(),
            _link: reply.link,
            _busy: busy,
        })
    }
}

impl Reply {
    /// Only a 2xx answer goes on; another becomes a refusal with its text.
    async fn accepted(self) -> Result<Self, Refusal> {
        if self.status.is_success() {
            return Ok(self);
        }
        let status = self.status;
        let error = self.json().await.unwrap_or_default();
        let text = error["error"]["message"]
            .as_str()
            .or_else(|| error["error"].as_str());
        Err(Refusal::passed(
            status,
            text.unwrap_or("the server behind this engine refused"),
        ))
    }

    async fn json(self) -> Result<Value, Refusal> {
        let broken = || Refusal::behind("the server behind this engine broke its answer off");
        let bytes = self.body.collect().await.map_err(|_| broken())?.to_bytes();
        drop(self.link);
        serde_json::from_slice(&bytes).map_err(|_| broken())
    }
}

/// The OpenAI request that does what a native one asks.
///
/// What a small llama-server cannot do is refused in Ollama's words, not passed over in silence.
fn translated(shape: Shape, model: &str, body: &Value) -> Result<(&'static str, Value), Refusal> {
    if body["tools"].as_array().is_some_and(|t| !t.is_empty()) {
        return Err(Refusal::invalid(format!(
            "{model:?} does not support tools"
        )));
    }
    let has_images = |v: &Value| v["images"].as_array().is_some_and(|i| !i.is_empty());
    let messages = body["messages"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if has_images(body) || messages.iter().any(has_images) {
        return Err(Refusal::invalid(format!(
            "{model:?} does not support images"
        )));
    }
    let mut ask = json!({"model": model, "stream": true,
                         "stream_options": {"include_usage": true}});
    let options = &body["options"];
    for (ours, theirs) in [
        ("temperature", "temperature"),
        ("top_p", "top_p"),
        ("top_k", "top_k"),
        ("min_p", "min_p"),
        ("seed", "seed"),
        ("stop", "stop"),
        ("repeat_penalty", "repeat_penalty"),
        ("presence_penalty", "presence_penalty"),
        ("frequency_penalty", "frequency_penalty"),
        ("num_predict", "max_tokens"),
        // Not Ollama's: lets a test hold a slot for a known number of tokens.
        ("ignore_eos", "ignore_eos"),
    ] {
        if !options[ours].is_null() {
            ask[theirs] = options[ours].clone();
        }
    }
    match &body["format"] {
        Value::String(s) if s == "json" => ask["response_format"] = json!({"type": "json_object"}),
        schema @ Value::Object(_) => {
            ask["response_format"] =
                json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}});
        },
        _ => {},
    }
    if shape == Shape::OllamaGenerate && body["raw"].as_bool() == Some(true) {
        ask["prompt"] = body["prompt"].clone();
        return Ok(("/v1/completions", ask));
    }
    ask["messages"] = match shape {
        Shape::OllamaGenerate => {
            let system = body["system"].as_str().filter(|s| !s.is_empty());
            let system = system.map(|s| json!({"role": "system", "content": s}));
            let prompt = json!({"role": "user", "content": body["prompt"]});
            system.into_iter().chain([prompt]).collect()
        },
        _ => messages
            .iter()
            .map(|m| json!({"role": m["role"], "content": m["content"]}))
            .collect(),
    };
    Ok(("/v1/chat/completions", ask))
}

/// An answer of the server being read.
pub(super) struct BehindRun {
    body: Incoming,
    lines: Lines,
    started: Instant,
    first: Option<Instant>,
    tokens: u64,
    finish: Finish,
    told: Told,
    _link: Link,
    _busy: Busy,
}

/// What the server itself says that the answer took.
#[derive(Default)]
struct Told {
    prompt_tokens: Option<u64>,
    tokens: Option<u64>,
    prompt_ms: Option<f64>,
    eval_ms: Option<f64>,
}

impl BehindRun {
    /// The next token. A stream that ends without `[DONE]` was broken off, however cleanly.
    pub(super) async fn next(&mut self) -> io::Result<Piece> {
        loop {
            while let Some(line) = self.lines.take() {
                if let Some(piece) = self.event(&line)? {
                    return Ok(piece);
                }
            }
            let frame = self
                .body
                .frame()
                .await
                .ok_or_else(broken)?
                .map_err(io::Error::other)?;
            if let Ok(data) = frame.into_data() {
                self.lines.push(&data)?;
            }
        }
    }

    /// Comments (heartbeats) and events without text give nothing.
    fn event(&mut self, line: &[u8]) -> io::Result<Option<Piece>> {
        let Some(data) = line.strip_prefix(b"data: ") else {
            return Ok(None);
        };
        if data == b"[DONE]" {
            let (finish, stats) = self.end();
            return Ok(Some(Piece::End(finish, stats)));
        }
        let v: Value = serde_json::from_slice(data).map_err(io::Error::other)?;
        if !v["error"].is_null() {
            let text = v["error"]["message"]
                .as_str()
                .unwrap_or("the engine failed");
            return Ok(Some(Piece::Failed(text.to_owned())));
        }
        self.told.read(&v);
        let choice = &v["choices"][0];
        if choice["finish_reason"] == "length" {
            self.finish = Finish::Length;
        }
        let text = choice["delta"]["content"]
            .as_str()
            .or_else(|| choice["text"].as_str());
        Ok(text.filter(|t| !t.is_empty()).map(|t| {
            self.first.get_or_insert_with(Instant::now);
            self.tokens += 1;
            Piece::Text(t.to_owned())
        }))
    }

    fn end(&self) -> (Finish, Stats) {
        let now = Instant::now();
        let first = self.first.unwrap_or(now);
        let told = |ms: Option<f64>| ms.and_then(|ms| Duration::try_from_secs_f64(ms / 1e3).ok());
        let stats = Stats {
            prompt_tokens: self.told.prompt_tokens.unwrap_or(0),
            tokens: self.told.tokens.unwrap_or(self.tokens),
            load: Duration::ZERO,
            prompt: told(self.told.prompt_ms).unwrap_or_else(|| first.duration_since(self.started)),
            eval: told(self.told.eval_ms).unwrap_or_else(|| now.duration_since(first)),
            total: now.duration_since(self.started),
        };
        (self.finish, stats)
    }
}

impl Told {
    fn read(&mut self, v: &Value) {
        let (usage, timings) = (&v["usage"], &v["timings"]);
        self.prompt_tokens = usage["prompt_tokens"].as_u64().or(self.prompt_tokens);
        self.tokens = usage["completion_tokens"].as_u64().or(self.tokens);
        self.prompt_ms = timings["prompt_ms"].as_f64().or(self.prompt_ms);
        self.eval_ms = timings["predicted_ms"].as_f64().or(self.eval_ms);
    }
}

fn broken() -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the server behind broke its answer off",
    )
}

/// Lines out of a byte stream that is cut anywhere.
#[derive(Default)]
struct Lines {
    held: BytesMut,
}

impl Lines {
    fn push(&mut self, data: &[u8]) -> io::Result<()> {
        if self.held.len() + data.len() > LINE_LIMIT {
            return Err(io::Error::other("a line of the server behind is too long"));
        }
        self.held.extend_from_slice(data);
        Ok(())
    }

    /// The next whole line, without its end.
    fn take(&mut self) -> Option<BytesMut> {
        let end = memchr::memchr(b'\n', &self.held)?;
        let mut line = self.held.split_to(end);
        self.held.advance(1);
        if line.last() == Some(&b'\r') {
            line.truncate(line.len() - 1);
        }
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_scheme_host_and_port_alone() {
        for (origin, want) in [
            ("http://127.0.0.1:8080", Some("127.0.0.1:8080")),
            ("http://127.0.0.1:8080/", Some("127.0.0.1:8080")),
            ("http://localhost", Some("localhost:80")),
            ("http://[::1]:9", Some("[::1]:9")),
            ("https://127.0.0.1:8080", None),
            ("http://127.0.0.1:8080/v1", None),
            ("http://u:p@127.0.0.1:8080", None),
            ("127.0.0.1:8080", None),
            ("", None),
        ] {
            let got = Behind::new(origin).ok().map(|b| b.authority);
            assert_eq!(got.as_deref(), want, "{origin:?}");
        }
    }

    #[test]
    fn lines_survive_any_cut() {
        let text = b"data: a\r\n\ndata: b\n:\n";
        for cut in 0..text.len() {
            let mut lines = Lines::default();
            let mut got = Vec::new();
            for part in [&text[..cut], &text[cut..]] {
                lines.push(part).unwrap();
                while let Some(l) = lines.take() {
                    got.push(String::from_utf8(l.to_vec()).unwrap());
                }
            }
            assert_eq!(got, ["data: a", "", "data: b", ":"], "cut at {cut}");
        }
    }

    #[test]
    fn a_native_request_becomes_an_openai_one() {
        let (target, ask) = translated(
            Shape::OllamaGenerate,
            "m",
            &json!({"prompt": "p", "system": "s", "format": "json",
                    "options": {"num_predict": 3, "seed": 1, "temperature": null}}),
        )
        .unwrap();
        assert_eq!(target, "/v1/chat/completions");
        assert_eq!(
            ask["messages"][0],
            json!({"role": "system", "content": "s"})
        );
        assert_eq!(ask["messages"][1], json!({"role": "user", "content": "p"}));
        assert_eq!((&ask["max_tokens"], &ask["seed"]), (&json!(3), &json!(1)));
        assert!(ask.get("temperature").is_none());
        assert_eq!(ask["response_format"]["type"], "json_object");

        let raw = json!({"model": "m", "prompt": "p", "raw": true});
        assert_eq!(
            translated(Shape::OllamaGenerate, "m", &raw).unwrap().0,
            "/v1/completions"
        );
    }

    #[test]
    fn tools_and_images_are_refused_rather_than_ignored() {
        for body in [
            json!({"model": "m", "messages": [], "tools": [{"type": "function"}]}),
            json!({"model": "m", "messages": [{"role": "user", "images": ["x"]}]}),
        ] {
            let refusal = translated(Shape::OllamaChat, "m", &body).unwrap_err();
            assert_eq!(refusal.status, StatusCode::BAD_REQUEST);
        }
    }
}
