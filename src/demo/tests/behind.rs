//! With a server behind that does the work.

use super::*;

/// An Ollama dialect over a sample llama.cpp engine: every word of the text is a token of its own.
pub(super) async fn pair() -> (DialectEngine, DialectEngine) {
    let server = start("llamacpp", &["m"]).await;
    let mut config = DialectConfig::new(id("ollama"), "front", &["m"]);
    config.behind = Some(format!("http://{}", server.addr()));
    (DialectEngine::start(config).await.unwrap(), server)
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
