//! Text and vectors in every dialect.

use super::*;

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
