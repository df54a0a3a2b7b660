//! Tests of `usage`.

use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000;

/// The stats of chunks that come a second apart, the first one second after the request.
fn stats(kind: TapKind, chunks: &[&str]) -> Stats {
    let mut tap = Tap::new(kind);
    for (i, chunk) in chunks.iter().enumerate() {
        tap.push(chunk.as_bytes(), (i as u64 + 1) * SECOND);
    }
    tap.finish(0).unwrap()
}

fn estimate(kind: TapKind, chunks: &[&str]) -> Option<u64> {
    let stats = stats(kind, chunks);
    assert_eq!(stats.estimated, stats.completion_tokens.is_some());
    stats.completion_tokens
}

#[test]
fn an_openai_stream_is_measured_by_its_usage() {
    let stats = stats(
        TapKind::Sse,
        &[
            "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\n\n",
            "data: {\"choices\":[],\"usage\":{\"completion_tokens\":30,\"prompt_tokens\":7}}\n\n",
            "data: [DONE]\n\n",
        ],
    );
    let want = Stats {
        prompt_tokens: Some(7),
        completion_tokens: Some(30),
        // Three seconds from the first byte to the last.
        tokens_per_second: Some(10.0),
        ttft_ms: Some(1000),
        estimated: false,
    };
    assert_eq!(stats, want);
}

#[test]
fn a_whole_openai_answer_is_timed_from_the_request() {
    let body = "{\"usage\": {\"prompt_tokens\": 7, \"completion_tokens\": 30}}\n";
    let mut tap = Tap::new(TapKind::Lines);
    tap.push(body.as_bytes(), 5 * SECOND);
    let stats = tap.finish(SECOND).unwrap();
    assert_eq!(
        (stats.prompt_tokens, stats.completion_tokens),
        (Some(7), Some(30))
    );
    assert_eq!(
        (stats.tokens_per_second, stats.ttft_ms),
        (Some(7.5), Some(4000))
    );
}

#[test]
fn ollama_tells_its_own_time() {
    let stats = stats(
        TapKind::Lines,
        &[
            "{\"response\":\"a\",\"done\":false}\n",
            "{\"done\":true,\"prompt_eval_count\":26,\"eval_count\":298,\"eval_duration\":4709213000}\n",
        ],
    );
    assert_eq!(
        (stats.prompt_tokens, stats.completion_tokens),
        (Some(26), Some(298))
    );
    assert_eq!(stats.tokens_per_second, Some(63.3));
    assert!(!stats.estimated);
}

#[test]
fn a_time_of_zero_that_an_engine_tells_is_not_used() {
    let stats = stats(
        TapKind::Lines,
        &["{\"eval_count\":10,\"eval_duration\":0}\n"],
    );
    assert_eq!(stats.tokens_per_second, Some(10.0));
}

fn anthropic(deltas: usize) -> Vec<String> {
    let event =
        |name: &str, data: &str| format!("event: {name}\ndata: {{\"type\":\"{name}\",{data}}}\n\n");
    let mut chunks = vec![
        event(
            "message_start",
            "\"message\":{\"usage\":{\"input_tokens\":11,\"output_tokens\":1}}",
        ),
        event("content_block_start", "\"index\":0"),
        event("ping", "\"x\":0"),
    ];
    let delta = event(
        "content_block_delta",
        "\"delta\":{\"type\":\"text_delta\",\"text\":\"word\"}",
    );
    chunks.extend(std::iter::repeat_n(delta, deltas));
    chunks.push(event("content_block_stop", "\"index\":0"));
    chunks.push(event("message_delta", "\"usage\":{\"output_tokens\":15}"));
    chunks.push(event("message_stop", "\"x\":0"));
    chunks
}

#[test]
fn anthropic_tells_the_prompt_first_and_the_answer_last() {
    for deltas in [3, 300] {
        let chunks = anthropic(deltas);
        let chunks: Vec<_> = chunks.iter().map(String::as_str).collect();
        let stats = stats(TapKind::Sse, &chunks);
        assert_eq!(stats.prompt_tokens, Some(11), "{deltas}");
        assert_eq!(stats.completion_tokens, Some(15), "{deltas}");
        assert!(!stats.estimated);
    }
    let whole = "{\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}";
    let stats = stats(TapKind::Lines, &[whole]);
    assert_eq!(
        (stats.prompt_tokens, stats.completion_tokens),
        (Some(3), Some(4))
    );
}

#[test]
fn an_anthropic_stream_that_is_cut_counts_its_deltas() {
    for deltas in [1, 3, 300] {
        let chunks = anthropic(deltas);
        let chunks: Vec<_> = chunks[..3 + deltas].iter().map(String::as_str).collect();
        let stats = stats(TapKind::Sse, &chunks);
        assert_eq!(stats.prompt_tokens, Some(11), "{deltas}");
        assert_eq!(stats.completion_tokens, Some(deltas as u64));
        assert!(stats.estimated);
    }
}

#[test]
fn an_anthropic_report_counts_once_it_came() {
    let chunks = anthropic(20);
    let chunks: Vec<_> = chunks[..chunks.len() - 1]
        .iter()
        .map(String::as_str)
        .collect();
    let stats = stats(TapKind::Sse, &chunks);
    assert_eq!(
        (stats.completion_tokens, stats.estimated),
        (Some(15), false)
    );
}

#[test]
fn the_responses_dialect_counts_its_deltas_alone() {
    let mut stream = String::new();
    for name in [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
    ] {
        stream.push_str(&format!("event: {name}\r\ndata: {{}}\r\n\r\n"));
    }
    assert_eq!(estimate(TapKind::Sse, &[&stream]), Some(2));
    stream.push_str(
        "event: response.completed\ndata: {\"usage\":{\"input_tokens\":5,\"output_tokens\":9}}\n\n",
    );
    let stats = stats(TapKind::Sse, &[&stream]);
    assert_eq!(
        (stats.prompt_tokens, stats.completion_tokens),
        (Some(5), Some(9))
    );
}

#[test]
fn without_a_report_events_are_counted_and_flagged() {
    let event = "data: {}\n\n";
    assert_eq!(estimate(TapKind::Sse, &[event, event, event]), Some(3));
    assert_eq!(
        estimate(TapKind::Sse, &[event, event, "data: [DONE]\n\n"]),
        Some(2)
    );
    assert_eq!(
        estimate(
            TapKind::Sse,
            &[":\n\n", "id: 1\n", "xdata: 1\n", " data: 1\n"]
        ),
        None
    );
    assert_eq!(estimate(TapKind::Sse, &["data: [DONE]\n\n"]), None);
    assert_eq!(
        estimate(TapKind::Sse, &["event: x\ndata: 1\n\ndata: 2"]),
        Some(2)
    );
    assert_eq!(
        estimate(TapKind::Sse, &["event: ping\ndata: 1\n\ndata: 2\n\n"]),
        Some(1)
    );
    assert_eq!(
        estimate(TapKind::Lines, &["{}\n{}\n", "{}\n", "{}"]),
        Some(3)
    );
    assert_eq!(estimate(TapKind::Lines, &["{}"]), None);
    assert_eq!(estimate(TapKind::Lines, &["data: 1\n\n"]), Some(2));
}

#[test]
fn an_embedding_generated_nothing() {
    let body = "{\n\"data\":[],\n\"usage\":{\"prompt_tokens\":8,\"total_tokens\":8}\n}\n";
    let stats = stats(TapKind::Lines, &[body]);
    assert_eq!(stats.prompt_tokens, Some(8));
    assert_eq!(
        (stats.completion_tokens, stats.tokens_per_second),
        (None, None)
    );
    assert!(!stats.estimated);
}

#[test]
fn only_the_tail_is_read() {
    let usage = "{\"completion_tokens\":5,\"prompt_tokens\":6}\n";
    let line = "data: {}\n\n";
    let near = line.repeat((TAIL - usage.len()) / line.len());
    let far = line.repeat(TAIL / line.len() + 1);
    let stats_near = stats(TapKind::Sse, &[usage, &near]);
    assert_eq!(
        (stats_near.completion_tokens, stats_near.estimated),
        (Some(5), false)
    );
    let stats_far = stats(TapKind::Sse, &[usage, &far]);
    assert_eq!(
        stats_far.completion_tokens,
        Some(far.len() as u64 / line.len() as u64)
    );
    assert_eq!((stats_far.prompt_tokens, stats_far.estimated), (None, true));
}

#[test]
fn the_last_report_wins_and_text_is_no_report() {
    for (tail, want) in [
        ("\"completion_tokens\":1,\"completion_tokens\":2", Some(2)),
        (
            "\"completion_tokens\":1,\"completion_tokens\":null",
            Some(1),
        ),
        ("\"completion_tokens\": \n\t 12}", Some(12)),
        ("\"completion_tokens\":0", Some(0)),
        (
            "\"completion_tokens\":123456789012345678999",
            Some(123_456_789_012_345_678),
        ),
        ("\"completion_tokens\":-1", None),
        ("\"completion_tokens\"", None),
        ("\"completion_tokens\":", None),
        ("\\\"completion_tokens\\\":7", None),
        ("\"x_completion_tokens\":7", None),
        ("\"completion_tokens_details\":7", None),
        ("\"prompt_eval_count\":7", None),
    ] {
        assert_eq!(
            stats(TapKind::Lines, &[tail]).completion_tokens,
            want,
            "{tail}"
        );
    }
}

#[test]
fn an_encoded_body_has_its_timing_only() {
    let stats = stats(
        TapKind::Opaque,
        &["\"completion_tokens\":5\n\n", "data: x\n"],
    );
    assert_eq!(
        stats,
        Stats {
            ttft_ms: Some(1000),
            ..Stats::default()
        }
    );
}

#[test]
fn nothing_heard_is_nothing_measured() {
    for kind in [TapKind::Sse, TapKind::Lines, TapKind::Opaque] {
        let mut tap = Tap::new(kind);
        assert_eq!(tap.finish(0), None);
        tap.push(b"", 5);
        assert_eq!(tap.finish(0), None);
        tap.push(b"x", 7000);
        tap.push(b"", 9000);
        assert_eq!(tap.finish(0).unwrap().ttft_ms, Some(7));
        assert_eq!(
            tap.finish(8000).unwrap().ttft_ms,
            Some(0),
            "a clock that steps back"
        );
    }
}

#[test]
fn a_rate_needs_time() {
    let mut tap = Tap::new(TapKind::Sse);
    tap.push(b"data: 1\n\ndata: 2\n\n", 5);
    let stats = tap.finish(0).unwrap();
    assert_eq!(
        (stats.completion_tokens, stats.tokens_per_second),
        (Some(2), None)
    );
    assert_eq!(rate(Some(1), 3_000_000_000), Some(0.3));
    assert_eq!(rate(Some(0), 1), None);
}

#[test]
fn the_kind_follows_the_headers() {
    for (kind, encoding, want) in [
        (Some("text/event-stream"), None, TapKind::Sse),
        (
            Some("Text/Event-Stream; charset=utf-8"),
            Some("identity"),
            TapKind::Sse,
        ),
        (Some("text/event-stream"), Some(""), TapKind::Sse),
        (Some("text/event-stream"), Some("gzip"), TapKind::Opaque),
        (
            Some("application/x-ndjson"),
            Some(" Identity "),
            TapKind::Lines,
        ),
        (Some("text/event"), None, TapKind::Lines),
        (None, Some("br"), TapKind::Opaque),
        (None, None, TapKind::Lines),
    ] {
        assert_eq!(
            TapKind::for_response(kind.map(str::as_bytes), encoding.map(str::as_bytes)),
            want,
            "{kind:?} {encoding:?}"
        );
    }
}

#[test]
fn what_was_not_measured_is_not_written() {
    let json = |stats: &Stats| serde_json::to_string(stats).unwrap();
    assert_eq!(json(&Stats::default()), "{}");
    let all = Stats {
        prompt_tokens: Some(12),
        completion_tokens: Some(340),
        tokens_per_second: Some(42.3),
        ttft_ms: Some(812),
        estimated: true,
    };
    assert_eq!(
        json(&all),
        r#"{"promptTokens":12,"completionTokens":340,"tokensPerSecond":42.3,"ttftMs":812,"estimated":true}"#
    );
}

#[test]
fn a_stream_of_any_length_needs_little_memory() {
    let mut tap = Tap::new(TapKind::Sse);
    for chunk in [vec![b'x'; 100_000], vec![b'y'; TAIL - 1], vec![b'\n'; 7]] {
        for _ in 0..50 {
            tap.push(&chunk, 1);
        }
    }
    assert!(
        tap.tail.bytes.capacity() <= 4 * TAIL,
        "{}",
        tap.tail.bytes.capacity()
    );
}

fn stream() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        8 => proptest::sample::select(vec![
            "data: {}\n\n", "data:", "event: ping\n", "event: content_block_delta\n", "\n", "\r\n",
            "event: message_start\ndata: {\"input_tokens\":9,\"output_tokens\":1}\n\n",
            "event: message_delta\ndata: {\"output_tokens\":77}\n\n", "data: [DONE]\n\n",
            "\"completion_tokens\":12", "\"prompt_tokens\" ", "\"eval_count\": 3", "x",
        ]).prop_map(str::to_owned),
        1 => (1..3000usize).prop_map(|len| "y".repeat(len)),
    ];
    proptest::collection::vec(part, 1..24).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn where_the_stream_is_cut_makes_no_difference(
        head in proptest::bool::ANY,
        stream in stream(),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..8),
        kind in proptest::sample::select(vec![TapKind::Sse, TapKind::Lines, TapKind::Opaque]),
    ) {
        // Anthropic's first event comes first or not at all.
        let first = "event: message_start\ndata: {\"input_tokens\":5,\"output_tokens\":1}\n\n";
        let stream = if head { format!("{first}{stream}") } else { stream.replace("message_start", "m") };
        let stream = stream.as_bytes();
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.sort_unstable();
        let mut pieces = Tap::new(kind);
        let mut from = 0;
        for cut in cuts.into_iter().chain([stream.len()]) {
            pieces.push(&stream[from..cut], 2000);
            from = cut;
        }
        let mut bytes = Tap::new(kind);
        stream.chunks(1).for_each(|byte| bytes.push(byte, 2000));
        let mut whole = Tap::new(kind);
        whole.push(stream, 2000);
        prop_assert_eq!(pieces.finish(0), whole.finish(0));
        prop_assert_eq!(bytes.finish(0), whole.finish(0));
    }

    #[test]
    fn the_tail_is_the_end(lens in proptest::collection::vec(1..6000usize, 1..12)) {
        let mut tail = Tail::default();
        let mut all = Vec::new();
        for (i, len) in lens.into_iter().enumerate() {
            let chunk: Vec<u8> = (0..len).map(|j| (i * 31 + j) as u8).collect();
            tail.push(&chunk);
            all.extend_from_slice(&chunk);
            prop_assert_eq!(tail.get(), &all[all.len().saturating_sub(TAIL)..]);
            prop_assert_eq!(tail.total, all.len().min(TAIL));
        }
    }

    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 1..200)) {
        for kind in [TapKind::Sse, TapKind::Lines] {
            let mut tap = Tap::new(kind);
            bytes.chunks(7).for_each(|chunk| tap.push(chunk, u64::MAX));
            prop_assert!(tap.finish(0).is_some());
        }
    }
}
