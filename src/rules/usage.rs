//! What an answer says, or shows, about its cost (spec §5.5).
//!
//! Owns: token counts from the tail of a body or from its events, rate and time to first token.
//! Leaves to others: when to listen (committed, below 400) and where the numbers go (`workload`).
//!
//! The body is never kept: the last few kilobytes are, since engines report usage at the end, and
//! one count is noted on the way, since Anthropic's dialect tells the prompt's tokens at the start.
//! Text that the model wrote cannot pose as a report, because JSON escapes its quotes.

use memchr::memmem;
use serde::{Deserialize, Serialize};

/// This much of the end is searched.
const TAIL: usize = 4096;
/// The head of a line that is kept across chunks: the longest event name that matters, and more.
const HEAD: usize = 64;

/// How a body is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapKind {
    /// An event stream: an event is a token where nothing better is known.
    Sse,
    /// Anything else: a line is one.
    Lines,
    /// An encoded body: only its timing can be seen.
    Opaque,
}

impl TapKind {
    /// The kind for a response's `Content-Type` and `Content-Encoding`.
    pub fn for_response(content_type: Option<&str>, content_encoding: Option<&str>) -> Self {
        let encoded = content_encoding
            .map(str::trim)
            .is_some_and(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"));
        let start = content_type.and_then(|kind| kind.trim_start().get(..SSE.len()));
        if encoded {
            Self::Opaque
        } else if start.is_some_and(|start| start.eq_ignore_ascii_case(SSE)) {
            Self::Sse
        } else {
            Self::Lines
        }
    }
}

const SSE: &str = "text/event-stream";

/// The measurements of one answer, as they ride on the terminal event. What was not measured is
/// absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Stats {
    /// Tokens of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u64>,
    /// Tokens of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_tokens: Option<u64>,
    /// Tokens of the answer a second, to one decimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_second: Option<f64>,
    /// From the request's arrival to the body's first byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<u64>,
    /// The answer's tokens were counted from events, not reported.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

/// Listens to one answer's body. Times are microseconds since any fixed moment.
#[derive(Clone, Debug)]
pub struct Tap {
    kind: TapKind,
    /// Times of the first and the last byte.
    seen: Option<(u64, u64)>,
    tail: Tail,
    /// `input_tokens` of the beginning, once that has left the tail.
    early_prompt: Option<u64>,
    lines: Lines,
}

impl Tap {
    /// A tap that has heard nothing.
    pub fn new(kind: TapKind) -> Self {
        Self {
            kind,
            seen: None,
            tail: Tail::default(),
            early_prompt: None,
            lines: Lines::default(),
        }
    }

    /// Hears a chunk that arrived at this time. An empty one shows nothing.
    pub fn push(&mut self, chunk: &[u8], at_us: u64) {
        if chunk.is_empty() {
            return;
        }
        let first = self.seen.map_or(at_us, |(first, _)| first);
        self.seen = Some((first, at_us));
        match self.kind {
            TapKind::Opaque => return,
            TapKind::Sse => self.lines.push(chunk),
            TapKind::Lines => self.lines.ends += memchr::memchr_iter(b'\n', chunk).count() as u64,
        }
        self.keep(chunk);
    }

    /// The measurements so far; `None` if no byte was heard.
    pub fn finish(&self, arrived_us: u64) -> Option<Stats> {
        let (first, last) = self.seen?;
        let mut stats = Stats {
            ttft_ms: Some(first.saturating_sub(arrived_us) / 1000),
            ..Stats::default()
        };
        if self.kind == TapKind::Opaque {
            return Some(stats);
        }
        let (events, tokens) = self.counts();
        let since = if events > 1 { first } else { arrived_us };
        let mut generation_ns = last.saturating_sub(since).saturating_mul(1000);
        let report = self.report();
        stats.prompt_tokens = report.prompt.or(self.early_prompt);
        stats.completion_tokens = report.completion;
        // A prompt's count alone is the whole report of an embedding: nothing was generated.
        let silent = report.completion.is_none() && (report.prompt.is_none() || self.lines.opened);
        if silent && tokens > 0 {
            stats.completion_tokens = Some(tokens);
            stats.estimated = true;
        }
        if let Some(told) = report.duration_ns.filter(|&ns| ns > 0) {
            generation_ns = told;
        }
        stats.tokens_per_second = rate(stats.completion_tokens, generation_ns);
        Some(stats)
    }

    /// The report in the tail: of the first dialect that tells the answer's tokens, else of the
    /// first that tells the prompt's alone, as for embeddings.
    fn report(&self) -> Report {
        let mut reports = reports(self.tail.get());
        if self.lines.unreported {
            reports[ANTHROPIC].completion = None;
        }
        let told = reports
            .iter()
            .position(|report| report.completion.is_some());
        let prompt = || reports.iter().position(|report| report.prompt.is_some());
        told.or_else(prompt)
            .map(|at| reports[at])
            .unwrap_or_default()
    }

    /// How many events there were, and how many of them were tokens as far as can be seen.
    fn counts(&self) -> (u64, u64) {
        if self.kind == TapKind::Lines {
            return (self.lines.ends, self.lines.ends);
        }
        let lines = self.lines.finished();
        let done = memmem::find(self.tail.get(), b"[DONE]").is_some();
        let tokens = lines.data - lines.control;
        (lines.data, tokens.saturating_sub(u64::from(done)))
    }

    /// Keeps the tail. Its beginning is looked at once, before it is lost.
    #[inline]
    fn keep(&mut self, chunk: &[u8]) {
        let room = TAIL - self.tail.total;
        let (beginning, rest) = chunk.split_at(room.min(chunk.len()));
        self.tail.push(beginning);
        if room > 0 && beginning.len() == room && self.lines.opened {
            self.early_prompt = reports(self.tail.get())[ANTHROPIC].prompt;
        }
        self.tail.push(rest);
    }
}

/// Tokens a second, to one decimal; nothing without a time or a token.
fn rate(tokens: Option<u64>, nanoseconds: u64) -> Option<f64> {
    let tokens = tokens.filter(|&tokens| tokens > 0 && nanoseconds > 0)?;
    let rate = tokens as f64 * 1e9 / nanoseconds as f64;
    Some((rate * 10.0).round() / 10.0)
}

/// The end of what was pushed, and up to as much again so that it moves rarely.
#[derive(Clone, Debug, Default)]
struct Tail {
    bytes: Vec<u8>,
    /// How much was pushed, as far as it matters: up to [`TAIL`].
    total: usize,
}

impl Tail {
    #[inline]
    fn push(&mut self, chunk: &[u8]) {
        self.total = (self.total + chunk.len()).min(TAIL);
        let chunk = &chunk[chunk.len().saturating_sub(TAIL)..];
        if self.bytes.len() + chunk.len() > 2 * TAIL {
            let lost = self.bytes.len() - TAIL;
            self.bytes.copy_within(lost.., 0);
            self.bytes.truncate(TAIL);
        }
        self.bytes.extend_from_slice(chunk);
    }

    fn get(&self) -> &[u8] {
        &self.bytes[self.bytes.len().saturating_sub(TAIL)..]
    }
}

/// Counts the lines of an event stream, wherever it is cut.
#[derive(Clone, Copy, Debug)]
struct Lines {
    /// Ends of lines.
    ends: u64,
    /// Lines of data.
    data: u64,
    /// Those that belong to an event which carries no token.
    control: u64,
    in_control: bool,
    /// Anthropic's first event was seen, which tells the prompt's tokens.
    opened: bool,
    /// It was, and the event that tells the answer's was not: a count seen so far is a start value.
    unreported: bool,
    /// The head of the line that has not ended.
    head: [u8; HEAD],
    head_len: usize,
}

impl Default for Lines {
    fn default() -> Self {
        Self {
            ends: 0,
            data: 0,
            control: 0,
            in_control: false,
            opened: false,
            unreported: false,
            head: [0; HEAD],
            head_len: 0,
        }
    }
}

impl Lines {
    #[inline]
    fn push(&mut self, chunk: &[u8]) {
        let mut from = 0;
        for end in memchr::memchr_iter(b'\n', chunk) {
            if self.head_len == 0 {
                self.line(&chunk[from..end]);
            } else {
                self.keep(&chunk[from..end]);
                self.end_head();
            }
            from = end + 1;
        }
        self.keep(&chunk[from..]);
    }

    /// Keeps a part of a line that is not whole, as far as it matters.
    #[inline]
    fn keep(&mut self, part: &[u8]) {
        let room = &mut self.head[self.head_len..];
        let len = part.len().min(room.len());
        room[..len].copy_from_slice(&part[..len]);
        self.head_len += len;
    }

    fn end_head(&mut self) {
        let (head, len) = (self.head, self.head_len);
        self.head_len = 0;
        self.line(&head[..len]);
    }

    /// One whole line, or as much of it as matters.
    #[inline]
    fn line(&mut self, line: &[u8]) {
        if line.starts_with(b"data:") {
            self.data += 1;
            self.control += u64::from(self.in_control);
        } else if let Some(name) = line.strip_prefix(b"event:") {
            let name = name.trim_ascii();
            self.in_control = is_control(name);
            match name {
                b"message_start" => (self.opened, self.unreported) = (true, true),
                b"message_delta" => self.unreported = false,
                _ => {},
            }
        } else if matches!(line, b"" | b"\r") {
            self.in_control = false;
        }
    }

    /// The counts with the line that has not ended.
    fn finished(&self) -> Self {
        let mut lines = *self;
        lines.end_head();
        lines
    }
}

/// Whether an event of this name carries no token, in the dialects that name their events.
fn is_control(name: &[u8]) -> bool {
    match name {
        b"ping"
        | b"error"
        | b"message_start"
        | b"message_delta"
        | b"message_stop"
        | b"content_block_start"
        | b"content_block_stop" => true,
        _ => name.starts_with(b"response.") && !name.ends_with(b".delta"),
    }
}

/// The dialects, the most telling first: OpenAI's, Ollama's, Anthropic's.
const DIALECTS: usize = 3;
const ANTHROPIC: usize = 2;

/// What an engine reported.
#[derive(Clone, Copy, Debug, Default)]
struct Report {
    completion: Option<u64>,
    prompt: Option<u64>,
    duration_ns: Option<u64>,
}

/// What each dialect's keys report: of a key that stands there several times the last one with a
/// number. One pass from the end, key by key, since most answers are short and end in their report.
fn reports(tail: &[u8]) -> [Report; DIALECTS] {
    let mut reports = [Report::default(); DIALECTS];
    for colon in memchr::memrchr_iter(b':', tail) {
        let Some(name) = name_before(&tail[..colon]) else {
            continue;
        };
        let [openai, ollama, anthropic] = &mut reports;
        let slot = match name {
            b"completion_tokens" => &mut openai.completion,
            b"prompt_tokens" => &mut openai.prompt,
            b"eval_count" => &mut ollama.completion,
            b"prompt_eval_count" => &mut ollama.prompt,
            b"eval_duration" => &mut ollama.duration_ns,
            b"output_tokens" => &mut anthropic.completion,
            b"input_tokens" => &mut anthropic.prompt,
            _ => continue,
        };
        if slot.is_none() {
            *slot = number(&tail[colon + 1..]);
        }
        if openai.completion.is_some() && openai.prompt.is_some() {
            break;
        }
    }
    reports
}

/// The quoted name that ends here, if it is no longer than the longest that matters.
fn name_before(text: &[u8]) -> Option<&[u8]> {
    const LONGEST: usize = "completion_tokens".len();
    let text = text.strip_suffix(b"\"")?;
    let window = &text[text.len().saturating_sub(LONGEST + 1)..];
    let open = window.iter().rposition(|&b| b == b'"')?;
    Some(&window[open + 1..])
}

/// A number of up to 18 digits, which always fits.
fn number(text: &[u8]) -> Option<u64> {
    let digits = text.trim_ascii_start();
    let len = digits
        .iter()
        .take(18)
        .take_while(|b| b.is_ascii_digit())
        .count();
    std::str::from_utf8(&digits[..len]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
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
        let event = |name: &str, data: &str| {
            format!("event: {name}\ndata: {{\"type\":\"{name}\",{data}}}\n\n")
        };
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
        stream.push_str("event: response.completed\ndata: {\"usage\":{\"input_tokens\":5,\"output_tokens\":9}}\n\n");
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
                TapKind::for_response(kind, encoding),
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
}
