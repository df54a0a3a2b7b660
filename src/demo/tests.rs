//! Over real loopback sockets, on the test's own runtime. No token delay, so no waiting.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::rules::engine::{ListShape, Warm};

fn id(engine: &str) -> EngineId {
    EngineId::parse(engine).unwrap()
}

async fn start(engine: &str, models: &[&str]) -> DialectEngine {
    DialectEngine::start(DialectConfig::new(id(engine), "n1", models))
        .await
        .unwrap()
}

/// An Ollama dialect over a sample llama.cpp engine: every word of the text is a token of its own.
async fn pair() -> (DialectEngine, DialectEngine) {
    let server = start("llamacpp", &["m"]).await;
    let mut config = DialectConfig::new(id("ollama"), "front", &["m"]);
    config.behind = Some(format!("http://{}", server.addr()));
    (DialectEngine::start(config).await.unwrap(), server)
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
async fn each_engine_lists_its_models_where_a_probe_looks() {
    for engine in EngineId::all() {
        let e = start(engine.as_str(), &["a:1", "b:2"]).await;
        let inventory = engine.spec().inventory;
        let list = get(e.addr(), inventory.path).await.json();
        let (array, key) = match inventory.shape {
            ListShape::Native => ("models", "model"),
            ListShape::OpenAi => ("data", "id"),
        };
        let names: Vec<_> = list[array]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| &m[key])
            .collect();
        assert_eq!(names, ["a:1", "b:2"], "{engine}");

        let list = get(e.addr(), "/v1/models").await.json();
        assert_eq!(list["object"], "list", "{engine}");
        assert_eq!(list["data"][1]["id"], "b:2", "{engine}");

        let path = match inventory.warm {
            Warm::RunningList { path } | Warm::StateList { path } | Warm::Props { path } => path,
            Warm::Untold => continue,
        };
        assert_eq!(get(e.addr(), path).await.status, 200, "{engine}");
    }
}

#[tokio::test]
async fn llamacpp_lists_its_models_twice_in_one_object() {
    let e = start("llamacpp", &["a"]).await;
    for path in ["/models", "/v1/models"] {
        let v = get(e.addr(), path).await.json();
        assert_eq!(
            (&v["models"][0]["model"], &v["data"][0]["id"]),
            (&json!("a"), &json!("a"))
        );
    }
    assert_eq!(
        get(e.addr(), "/health").await.json(),
        json!({"status": "ok"})
    );
    let slots = get(e.addr(), "/props").await.json()["total_slots"]
        .as_u64()
        .unwrap();
    let listed = get(e.addr(), "/slots").await.json();
    assert_eq!(listed.as_array().unwrap().len() as u64, slots);
}

#[tokio::test]
async fn a_model_is_shown_loaded_once_it_was_used() {
    let e = start("ollama", &["a", "b"]).await;
    let running = async || {
        let v = get(e.addr(), "/api/ps").await.json();
        v["models"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| m["name"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(running().await, ["a:latest"]);
    post(
        e.addr(),
        "/api/generate",
        &json!({"model": "b", "prompt": "x", "stream": false}),
    )
    .await;
    assert_eq!(running().await, ["a:latest", "b:latest"]);
    let v = post(
        e.addr(),
        "/api/generate",
        &json!({"model": "a", "keep_alive": 0}),
    )
    .await
    .json();
    assert_eq!(
        (&v["done_reason"], &v["done"]),
        (&json!("unload"), &json!(true))
    );
    assert_eq!(running().await, ["b:latest"]);

    let e = start("lmstudio", &["a", "b"]).await;
    post(
        e.addr(),
        "/v1/embeddings",
        &json!({"model": "b", "input": "x"}),
    )
    .await;
    let v = get(e.addr(), "/api/v0/models").await.json();
    assert_eq!(v["data"][1]["state"], "loaded");
    assert!(v["data"][1]["max_context_length"].is_u64());
}

#[tokio::test]
async fn an_ollama_stream_is_one_object_a_line_and_ends_with_the_measurements() {
    let e = start("ollama", &["m"]).await;
    for (path, body) in [
        ("/api/chat", json!({"model": "m", "messages": hello()})),
        (
            "/api/generate",
            json!({"model": "m:latest", "prompt": "hello there"}),
        ),
    ] {
        let got = post(e.addr(), path, &body).await;
        assert!(
            got.complete && got.head.contains("application/x-ndjson"),
            "{}",
            got.head
        );
        let lines = got.lines();
        let (last, parts) = lines.split_last().unwrap();
        let text: String = parts
            .iter()
            .map(|p| {
                p["message"]["content"]
                    .as_str()
                    .or(p["response"].as_str())
                    .unwrap()
            })
            .collect();
        assert!(text.starts_with("Sample answer from n1 for m."), "{text}");
        assert!(
            parts
                .iter()
                .all(|p| p["done"] == false && p["model"] == body["model"])
        );
        assert_eq!(
            (&last["done"], &last["done_reason"]),
            (&json!(true), &json!("stop"))
        );
        assert_eq!(last["eval_count"], parts.len());
        assert_eq!(last["prompt_eval_count"], 2);
        for key in [
            "total_duration",
            "load_duration",
            "prompt_eval_duration",
            "eval_duration",
        ] {
            assert!(last[key].as_u64().unwrap() > 0, "{key}");
        }
    }
}

#[tokio::test]
async fn limits_are_kept_in_every_dialect() {
    let e = start("ollama", &["m"]).await;
    let native = json!({"model": "m", "messages": hello(), "stream": false,
                        "options": {"num_predict": 3}});
    let v = post(e.addr(), "/api/chat", &native).await.json();
    assert_eq!(
        (&v["done_reason"], &v["eval_count"]),
        (&json!("length"), &json!(3))
    );
    assert_eq!(v["message"]["content"], "Sample answer from ");

    let body = json!({"model": "m", "messages": hello(), "max_tokens": 3});
    let v = post(e.addr(), "/v1/chat/completions", &body).await.json();
    assert_eq!(v["choices"][0]["finish_reason"], "length");
    assert_eq!(v["usage"]["completion_tokens"], 3);
    let v = post(e.addr(), "/v1/messages", &body).await.json();
    assert_eq!(
        (&v["stop_reason"], &v["usage"]["output_tokens"]),
        (&json!("max_tokens"), &json!(3))
    );

    let body = json!({"model": "m", "prompt": "x", "max_tokens": 300, "ignore_eos": true});
    let v = post(e.addr(), "/v1/completions", &body).await.json();
    assert_eq!(v["usage"]["completion_tokens"], 300);
}

#[tokio::test]
async fn an_openai_stream_goes_role_content_reason_usage_done() {
    let e = start("lmstudio", &["m"]).await;
    let mut body = json!({"model": "m", "messages": hello(), "stream": true, "max_tokens": 2,
                          "stream_options": {"include_usage": true}});
    let got = post(e.addr(), "/v1/chat/completions", &body).await;
    assert!(
        got.complete && got.head.contains("text/event-stream"),
        "{}",
        got.head
    );
    let events = got.events();
    assert_eq!(events.len(), 6, "{}", got.text());
    assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(events[1]["choices"][0]["delta"]["content"], "Sample ");
    assert_eq!(events[3]["choices"][0]["finish_reason"], "length");
    assert_eq!(
        (&events[4]["choices"], &events[4]["usage"]["total_tokens"]),
        (&json!([]), &json!(4))
    );
    assert_eq!(events[5], "[DONE]");

    body["stream_options"] = Value::Null;
    let events = post(e.addr(), "/v1/chat/completions", &body).await.events();
    assert!(events.iter().all(|v| v["usage"].is_null()));
}

#[tokio::test]
async fn an_anthropic_stream_has_its_events_in_order_and_named() {
    let e = start("llamacpp", &["m"]).await;
    let body = json!({"model": "m", "messages": hello(), "stream": true, "max_tokens": 2});
    let got = post(e.addr(), "/v1/messages", &body).await;
    let named: Vec<_> = got
        .text()
        .lines()
        .filter_map(|l| l.strip_prefix("event: "))
        .collect();
    let typed: Vec<_> = got.events().iter().map(|v| v["type"].clone()).collect();
    assert_eq!(named, typed);
    assert_eq!(
        named,
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
    let count = post(e.addr(), "/v1/messages/count_tokens", &body)
        .await
        .json();
    assert_eq!(count, json!({"input_tokens": 2}));
}

#[tokio::test]
async fn a_responses_stream_numbers_its_events_and_ends_with_the_whole() {
    let e = start("ollama", &["m"]).await;
    let mut body = json!({"model": "m", "input": "hello", "stream": true});
    let events = post(e.addr(), "/v1/responses", &body).await.events();
    for (n, v) in events.iter().enumerate() {
        assert_eq!(v["sequence_number"], n, "{v}");
    }
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.completed");
    body["stream"] = json!(false);
    let whole = post(e.addr(), "/v1/responses", &body).await.json();
    let text = |v: &Value| v["output"][0]["content"][0]["text"].clone();
    assert_eq!(text(&last["response"]), text(&whole));
}

#[tokio::test]
async fn embeddings_come_as_numbers_or_as_base64() {
    let e = start("ollama", &["m"]).await;
    let ask = |f: &str| json!({"model": "m", "input": ["a", "b"], "encoding_format": f});
    let floats = post(e.addr(), "/v1/embeddings", &ask("float")).await.json();
    let base64 = post(e.addr(), "/v1/embeddings", &ask("base64"))
        .await
        .json();
    assert_eq!(floats["data"].as_array().unwrap().len(), 2);
    let first: Vec<f32> = serde_json::from_value(floats["data"][0]["embedding"].clone()).unwrap();
    assert_eq!(first.len(), sample::DIMENSIONS);
    assert_eq!(base64["data"][0]["embedding"], sample::base64(&first));

    let v = post(e.addr(), "/api/embed", &json!({"model": "m", "input": "a"}))
        .await
        .json();
    let native: Vec<f32> = serde_json::from_value(v["embeddings"][0].clone()).unwrap();
    let v = post(
        e.addr(),
        "/api/embeddings",
        &json!({"model": "m", "prompt": "a"}),
    )
    .await
    .json();
    let older: Vec<f32> = serde_json::from_value(v["embedding"].clone()).unwrap();
    assert_eq!((&native, &older), (&first, &first));
}

#[tokio::test]
async fn an_unknown_model_is_404_in_the_dialect_of_the_path() {
    let body = json!({"model": "nope", "messages": hello()});
    let e = start("ollama", &["m"]).await;
    let got = post(e.addr(), "/api/chat", &body).await;
    assert_eq!(
        (got.status, got.json()),
        (404, json!({"error": "model 'nope' not found"}))
    );
    for engine in EngineId::all() {
        let e = start(engine.as_str(), &["m"]).await;
        let got = post(e.addr(), "/v1/chat/completions", &body).await;
        assert_eq!(got.status, 404, "{engine}");
        assert_eq!(
            got.json()["error"]["message"],
            "model 'nope' not found",
            "{engine}"
        );
        let got = post(e.addr(), "/v1/messages", &body).await;
        assert_eq!(
            (got.status, &got.json()["type"]),
            (404, &json!("error")),
            "{engine}"
        );
    }
}

#[tokio::test]
async fn a_bad_body_is_400_and_an_unknown_route_404() {
    for engine in EngineId::all() {
        let e = start(engine.as_str(), &["m"]).await;
        for body in ["{", "[]", "", r#"{"messages":[]}"#, r#"{"model":"m"}"#] {
            let got = ask(e.addr(), "POST", "/v1/chat/completions", "", body).await;
            assert_eq!(got.status, 400, "{engine} {body:?}");
            assert!(
                got.json()["error"]["message"].is_string(),
                "{engine} {body:?}"
            );
        }
        for (method, path) in [
            ("GET", "/nope"),
            ("POST", "/v1/nope"),
            ("PUT", "/v1/models"),
        ] {
            assert_eq!(
                ask(e.addr(), method, path, "", "").await.status,
                404,
                "{engine} {path}"
            );
        }
    }
    let e = start("ollama", &["m"]).await;
    assert_eq!(get(e.addr(), "/nope").await.text(), "404 page not found");
    assert_eq!(get(e.addr(), "/").await.text(), "Ollama is running");
    let got = ask(e.addr(), "HEAD", "/", "", "").await;
    assert_eq!((got.status, got.body.len()), (200, 0));
}

#[tokio::test]
async fn managing_models_says_that_this_is_a_sample_engine() {
    let e = start("ollama", &["m"]).await;
    for (method, path) in [
        ("POST", "/api/pull"),
        ("DELETE", "/api/delete"),
        ("POST", "/api/copy"),
    ] {
        let got = ask(e.addr(), method, path, "", r#"{"model":"m"}"#).await;
        assert_eq!(got.status, 501, "{path}");
        let text = got.json()["error"].as_str().unwrap().to_owned();
        assert!(text.contains("sample engine"), "{text}");
    }
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
    let (front, server) = pair().await;
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
async fn a_server_behind_gives_the_tokens_and_the_front_the_dialect() {
    let (front, _server) = pair().await;
    let chat = json!({"model": "m", "messages": hello(), "options": {"num_predict": 5}});
    let got = post(front.addr(), "/api/chat", &chat).await;
    let lines = got.lines();
    assert_eq!(lines.len(), 6, "{}", got.text());
    assert_eq!(lines[0]["message"]["content"], "Sample ");
    assert_eq!(
        (&lines[5]["eval_count"], &lines[5]["prompt_eval_count"]),
        (&json!(5), &json!(2))
    );
    assert_eq!(lines[5]["done_reason"], "length");

    let raw = json!({"model": "m", "prompt": "x", "raw": true, "stream": false});
    let v = post(front.addr(), "/api/generate", &raw).await.json();
    assert!(
        v["response"]
            .as_str()
            .unwrap()
            .starts_with("Sample answer from n1")
    );

    let v = post(
        front.addr(),
        "/api/embed",
        &json!({"model": "m", "input": ["a", "b"]}),
    )
    .await;
    assert_eq!(
        v.json()["embeddings"][1].as_array().unwrap().len(),
        sample::DIMENSIONS
    );
    let v = post(front.addr(), "/api/show", &json!({"name": "m"}))
        .await
        .json();
    assert_eq!(v["model_info"]["llama.context_length"], 8192);
    assert_eq!(
        get(front.addr(), "/api/tags").await.json()["models"][0]["name"],
        "m:latest"
    );

    let openai = json!({"model": "m", "messages": hello(), "stream": true, "max_tokens": 1});
    let got = post(front.addr(), "/v1/chat/completions", &openai).await;
    assert!(
        got.complete && got.text().ends_with("data: [DONE]\n\n"),
        "{}",
        got.text()
    );
    let tools = json!({"model": "m", "messages": hello(), "tools": [{"type": "function"}]});
    assert_eq!(post(front.addr(), "/api/chat", &tools).await.status, 400);
}

#[tokio::test]
async fn a_dead_server_behind_is_a_dead_engine() {
    let (front, server) = pair().await;
    drop(server);
    assert_eq!(get(front.addr(), "/api/tags").await.status, 502);
    let got = post(
        front.addr(),
        "/api/chat",
        &json!({"model": "m", "messages": hello()}),
    )
    .await;
    assert_eq!(got.status, 502);
    assert!(got.json()["error"].is_string());
}

/// A server whose one answer to anything is given.
async fn scripted(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut buffer = [0; 4096];
            let _ = socket.read(&mut buffer).await;
            let _ = socket.write_all(answer.as_bytes()).await;
        }
    });
    addr
}

async fn front_of(addr: SocketAddr) -> DialectEngine {
    let mut config = DialectConfig::new(id("ollama"), "front", &["m"]);
    config.behind = Some(format!("http://{addr}"));
    DialectEngine::start(config).await.unwrap()
}

const TOKEN: &str = concat!(
    "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n:\n\n",
    "data: {\"choices\":[{\"delta\":{\"content\":\"one\"}}]}\n\n"
);

#[tokio::test]
async fn a_stream_that_ends_without_its_mark_breaks_the_clients_too() {
    let front = front_of(scripted(TOKEN).await).await;
    let mut chat = json!({"model": "m", "messages": hello()});
    let got = post(front.addr(), "/api/chat", &chat).await;
    assert_eq!(got.lines()[0]["message"]["content"], "one");
    assert!(!got.complete, "a loss must not look like an end");
    chat["stream"] = json!(false);
    assert_eq!(post(front.addr(), "/api/chat", &chat).await.status, 502);
}

#[tokio::test]
async fn an_error_inside_the_stream_and_one_before_it_are_told() {
    const FAILED: &str = concat!(
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
        "data: {\"error\":{\"message\":\"out of luck\"}}\n\n"
    );
    const LOADING: &str = concat!(
        "HTTP/1.1 503 No\r\nConnection: close\r\n\r\n",
        "{\"error\":{\"message\":\"Loading model\"}}"
    );
    let chat = json!({"model": "m", "messages": hello()});
    let front = front_of(scripted(FAILED).await).await;
    let got = post(front.addr(), "/api/chat", &chat).await;
    assert_eq!(got.lines(), [json!({"error": "out of luck"})]);
    let front = front_of(scripted(LOADING).await).await;
    let got = post(front.addr(), "/api/chat", &chat).await;
    assert_eq!(
        (got.status, got.json()),
        (503, json!({"error": "Loading model"}))
    );
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
async fn pages_of_this_machine_may_ask_and_others_may_not() {
    let e = start("ollama", &["m"]).await;
    for (origin, allowed) in [
        ("http://localhost:3000", true),
        ("http://elsewhere.example", false),
    ] {
        for method in ["OPTIONS", "GET"] {
            let extra = format!("Origin: {origin}\r\n");
            let got = ask(e.addr(), method, "/api/tags", &extra, "").await;
            let header = format!("access-control-allow-origin: {origin}");
            assert_eq!(got.head.contains(&header), allowed, "{method} {origin}");
        }
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
