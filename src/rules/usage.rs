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

use super::media_type::EVENT_STREAM;

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
    pub fn for_response(content_type: Option<&[u8]>, content_encoding: Option<&[u8]>) -> Self {
        let encoded = content_encoding
            .map(<[u8]>::trim_ascii)
            .is_some_and(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"));
        let start = content_type.and_then(|kind| kind.trim_ascii_start().get(..EVENT_STREAM.len()));
        if encoded {
            Self::Opaque
        } else if start.is_some_and(|start| start.eq_ignore_ascii_case(EVENT_STREAM)) {
            Self::Sse
        } else {
            Self::Lines
        }
    }
}

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
    // All that matter end in one of these, and few others do.
    if !matches!(text.last()?, b's' | b't' | b'n') {
        return None;
    }
    let window = &text[text.len().saturating_sub(LONGEST + 1)..];
    let open = window.iter().rposition(|&b| b == b'"')?;
    Some(&window[open + 1..])
}

/// A number of up to 18 digits, which always fits.
fn number(text: &[u8]) -> Option<u64> {
    let digits = text.trim_ascii_start();
    let digits = digits.iter().take(18).take_while(|b| b.is_ascii_digit());
    let put = |n: Option<u64>, digit: &u8| Some(n.unwrap_or(0) * 10 + u64::from(digit - b'0'));
    digits.fold(None, put)
}

#[cfg(test)]
mod tests;
