//! The shapes of a text answer, streamed and whole.
//!
//! Owns: framing (NDJSON, server-sent events), the order of a stream's parts, and the body that
//! pulls tokens from a source. Leaves to others: where tokens come from (`sample`, `behind`).
//!
//! A stream's body *is* the running answer: hyper drops it when the client leaves, and with it
//! the source, its timer or its connection. So there is no task to cancel.

use std::io;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Iso8601;
use time::format_description::well_known::iso8601::{Config, EncodedConfig, TimePrecision};

use super::behind::BehindRun;
use super::sample::SampleRun;

/// The body of every answer here. An error in it breaks the connection off.
pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A body with a known length.
pub(super) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// How a text answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Ollama's `/api/chat`
    OllamaChat,
    /// Ollama's `/api/generate`
    OllamaGenerate,
    /// OpenAI's `/v1/chat/completions`
    Chat,
    /// OpenAI's `/v1/completions`
    Completion,
    /// OpenAI's `/v1/responses`
    Responses,
    /// Anthropic's `/v1/messages`
    Anthropic,
}

impl Shape {
    /// Content type of a stream in this shape.
    pub(super) fn stream_type(self) -> &'static str {
        match self {
            Self::OllamaChat | Self::OllamaGenerate => "application/x-ndjson",
            _ => "text/event-stream",
        }
    }
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    /// All was said.
    Stop,
    /// The limit was reached.
    Length,
}

impl Finish {
    fn openai(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
        }
    }

    fn anthropic(self) -> &'static str {
        match self {
            Self::Stop => "end_turn",
            Self::Length => "max_tokens",
        }
    }
}

/// What an answer took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stats {
    pub(super) prompt_tokens: u64,
    pub(super) tokens: u64,
    pub(super) load: Duration,
    pub(super) prompt: Duration,
    pub(super) eval: Duration,
    pub(super) total: Duration,
}

impl Stats {
    fn usage(&self) -> Value {
        json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.tokens,
            "total_tokens": self.prompt_tokens + self.tokens,
        })
    }

    fn input_output(&self) -> Value {
        json!({
            "input_tokens": self.prompt_tokens,
            "output_tokens": self.tokens,
            "total_tokens": self.prompt_tokens + self.tokens,
        })
    }
}

/// Where tokens come from.
pub(super) enum Source {
    /// The built-in text.
    Sample(SampleRun),
    /// A llama-server.
    Behind(Box<BehindRun>),
}

/// One step of a source.
pub(super) enum Piece {
    /// A token.
    Text(String),
    /// The end of the answer.
    End(Finish, Stats),
    /// The engine told of an error after the stream began.
    Failed(String),
}

impl Source {
    async fn next(&mut self) -> io::Result<Piece> {
        match self {
            Self::Behind(run) => run.next().await,
            Self::Sample(run) => Ok(match run.next().await {
                Some(text) => Piece::Text(text),
                None => {
                    let (finish, stats) = run.end();
                    Piece::End(finish, stats)
                },
            }),
        }
    }
}

/// Writes one answer.
pub(super) struct Writer {
    shape: Shape,
    model: String,
    id: String,
    created: SystemTime,
    include_usage: bool,
    prompt_tokens: u64,
    opened: bool,
    text: String,
    /// Events of a `/v1/responses` stream so far: each carries its number.
    events: u64,
}

impl Writer {
    pub(super) fn new(shape: Shape, model: &str, number: u64, usage: bool, prompt: u64) -> Self {
        let prefix = match shape {
            Shape::Anthropic => "msg_sample",
            Shape::Responses => "resp_sample",
            Shape::Completion => "cmpl-sample",
            _ => "chatcmpl-sample",
        };
        Self {
            shape,
            model: model.to_owned(),
            id: format!("{prefix}{number:08}"),
            created: SystemTime::now(),
            include_usage: usage,
            prompt_tokens: prompt,
            opened: false,
            text: String::new(),
            events: 0,
        }
    }

    /// The first token brings the opening with it: nothing is sent before there is something.
    fn token(&mut self, token: &str) -> Vec<u8> {
        let mut out = self.open();
        match self.shape {
            Shape::OllamaChat | Shape::OllamaGenerate => {
                let mut v = self.native(token);
                v["done"] = json!(false);
                line(&mut out, &v);
            },
            Shape::Chat => data(&mut out, &self.chat_chunk(&json!({"content": token}), None)),
            Shape::Completion => data(&mut out, &self.text_chunk(token, None)),
            Shape::Anthropic => event(
                &mut out,
                &json!({"type": "content_block_delta", "index": 0,
                        "delta": {"type": "text_delta", "text": token}}),
            ),
            Shape::Responses => {
                let v = json!({"type": "response.output_text.delta", "item_id": self.item_id(),
                               "output_index": 0, "content_index": 0, "delta": token,
                               "logprobs": []});
                self.numbered(&mut out, v);
            },
        }
        self.text.push_str(token);
        out
    }

    fn open(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if std::mem::replace(&mut self.opened, true) {
            return out;
        }
        match self.shape {
            Shape::OllamaChat | Shape::OllamaGenerate | Shape::Completion => {},
            Shape::Chat => {
                let role = json!({"role": "assistant", "content": ""});
                data(&mut out, &self.chat_chunk(&role, None));
            },
            Shape::Anthropic => {
                let usage = json!({"input_tokens": self.prompt_tokens, "output_tokens": 0});
                let message = self.message(&json!([]), None, &usage);
                event(
                    &mut out,
                    &json!({"type": "message_start", "message": message}),
                );
                event(
                    &mut out,
                    &json!({"type": "content_block_start", "index": 0,
                            "content_block": {"type": "text", "text": ""}}),
                );
            },
            Shape::Responses => {
                let response = self.response("in_progress", &json!([]), None);
                let (item, id) = (self.item("in_progress", &json!([])), self.item_id());
                for v in [
                    json!({"type": "response.created", "response": response}),
                    json!({"type": "response.in_progress", "response": response}),
                    json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
                    json!({"type": "response.content_part.added", "item_id": id,
                           "output_index": 0, "content_index": 0, "part": output_text("")}),
                ] {
                    self.numbered(&mut out, v);
                }
            },
        }
        out
    }

    fn close(&mut self, finish: Finish, stats: &Stats) -> Vec<u8> {
        let mut out = self.open();
        match self.shape {
            Shape::OllamaChat | Shape::OllamaGenerate => {
                line(&mut out, &self.native_end("", finish.openai(), stats));
            },
            Shape::Chat | Shape::Completion => {
                let last = match self.shape {
                    Shape::Chat => self.chat_chunk(&json!({}), Some(finish)),
                    _ => self.text_chunk("", Some(finish)),
                };
                data(&mut out, &last);
                if self.include_usage {
                    let mut v = last;
                    v["choices"] = json!([]);
                    v["usage"] = stats.usage();
                    data(&mut out, &v);
                }
                out.extend_from_slice(b"data: [DONE]\n\n");
            },
            Shape::Anthropic => {
                event(&mut out, &json!({"type": "content_block_stop", "index": 0}));
                event(
                    &mut out,
                    &json!({"type": "message_delta", "usage": {"output_tokens": stats.tokens},
                            "delta": {"stop_reason": finish.anthropic(), "stop_sequence": null}}),
                );
                event(&mut out, &json!({"type": "message_stop"}));
            },
            Shape::Responses => self.close_response(&mut out, finish, stats),
        }
        out
    }

    fn close_response(&mut self, out: &mut Vec<u8>, finish: Finish, stats: &Stats) {
        let (id, part, status) = (
            self.item_id(),
            output_text(&self.text),
            response_status(finish),
        );
        let item = self.item(status, &json!([part]));
        for v in [
            json!({"type": "response.output_text.done", "item_id": id, "output_index": 0,
                   "content_index": 0, "text": self.text, "logprobs": []}),
            json!({"type": "response.content_part.done", "item_id": id, "output_index": 0,
                   "content_index": 0, "part": part}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
            json!({"type": format!("response.{status}"),
                   "response": self.response(status, &json!([item]), Some(stats))}),
        ] {
            self.numbered(out, v);
        }
    }

    fn numbered(&mut self, out: &mut Vec<u8>, mut v: Value) {
        v["sequence_number"] = json!(self.events);
        self.events += 1;
        event(out, &v);
    }

    /// The answer in one piece.
    fn whole(&self, finish: Finish, stats: &Stats) -> Value {
        match self.shape {
            Shape::OllamaChat | Shape::OllamaGenerate => {
                self.native_end(&self.text, finish.openai(), stats)
            },
            Shape::Chat => json!({
                "id": self.id, "object": "chat.completion", "created": unix(self.created),
                "model": self.model, "usage": stats.usage(),
                "choices": [{"index": 0, "logprobs": null, "finish_reason": finish.openai(),
                             "message": {"role": "assistant", "content": self.text}}],
            }),
            Shape::Completion => {
                let mut v = self.text_chunk(&self.text, Some(finish));
                v["usage"] = stats.usage();
                v
            },
            Shape::Anthropic => self.message(
                &json!([{"type": "text", "text": self.text}]),
                Some(finish.anthropic()),
                &json!({"input_tokens": stats.prompt_tokens, "output_tokens": stats.tokens}),
            ),
            Shape::Responses => {
                let status = response_status(finish);
                let item = self.item(status, &json!([output_text(&self.text)]));
                self.response(status, &json!([item]), Some(stats))
            },
        }
    }

    /// An error told inside a stream, as the family tells it.
    fn failed(&self, message: &str) -> Vec<u8> {
        let mut out = Vec::new();
        match self.shape {
            Shape::OllamaChat | Shape::OllamaGenerate => {
                line(&mut out, &json!({"error": message}));
            },
            Shape::Anthropic => event(
                &mut out,
                &json!({"type": "error", "error": {"type": "api_error", "message": message}}),
            ),
            _ => data(
                &mut out,
                &json!({"error": {"message": message, "type": "server_error", "code": 500}}),
            ),
        }
        out
    }

    fn native(&self, text: &str) -> Value {
        let mut v = json!({"model": self.model, "created_at": rfc3339(SystemTime::now())});
        match self.shape {
            Shape::OllamaChat => v["message"] = json!({"role": "assistant", "content": text}),
            _ => v["response"] = json!(text),
        }
        v
    }

    fn native_end(&self, text: &str, reason: &str, stats: &Stats) -> Value {
        let mut v = self.native(text);
        v["done"] = json!(true);
        v["done_reason"] = json!(reason);
        v["total_duration"] = nanos(stats.total);
        v["load_duration"] = nanos(stats.load);
        v["prompt_eval_count"] = json!(stats.prompt_tokens);
        v["prompt_eval_duration"] = nanos(stats.prompt);
        v["eval_count"] = json!(stats.tokens);
        v["eval_duration"] = nanos(stats.eval);
        v
    }

    /// Ollama's answer to a request without a prompt.
    pub(super) fn loaded(&self, reason: &str) -> Value {
        let mut v = self.native("");
        v["done"] = json!(true);
        v["done_reason"] = json!(reason);
        v
    }

    fn chat_chunk(&self, delta: &Value, finish: Option<Finish>) -> Value {
        json!({
            "id": self.id, "object": "chat.completion.chunk", "created": unix(self.created),
            "model": self.model,
            "choices": [{"index": 0, "delta": delta, "logprobs": null,
                         "finish_reason": finish.map(Finish::openai)}],
        })
    }

    fn text_chunk(&self, text: &str, finish: Option<Finish>) -> Value {
        json!({
            "id": self.id, "object": "text_completion", "created": unix(self.created),
            "model": self.model,
            "choices": [{"index": 0, "text": text, "logprobs": null,
                         "finish_reason": finish.map(Finish::openai)}],
        })
    }

    fn message(&self, content: &Value, stop: Option<&str>, usage: &Value) -> Value {
        json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model,
            "content": content, "stop_reason": stop, "stop_sequence": null, "usage": usage,
        })
    }

    fn item_id(&self) -> String {
        self.id.replace("resp_", "item_")
    }

    fn item(&self, status: &str, content: &Value) -> Value {
        json!({"id": self.item_id(), "type": "message", "role": "assistant", "status": status,
               "content": content})
    }

    fn response(&self, status: &str, output: &Value, stats: Option<&Stats>) -> Value {
        let why = (status == "incomplete").then(|| json!({"reason": "max_output_tokens"}));
        json!({
            "id": self.id, "object": "response", "created_at": unix(self.created),
            "status": status, "model": self.model, "output": output, "error": null,
            "incomplete_details": why, "parallel_tool_calls": false, "tool_choice": "auto",
            "tools": [], "metadata": {}, "usage": stats.map(Stats::input_output),
        })
    }
}

fn response_status(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "completed",
        Finish::Length => "incomplete",
    }
}

fn output_text(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": []})
}

fn line(out: &mut Vec<u8>, v: &Value) {
    out.extend_from_slice(v.to_string().as_bytes());
    out.push(b'\n');
}

fn data(out: &mut Vec<u8>, v: &Value) {
    out.extend_from_slice(format!("data: {v}\n\n").as_bytes());
}

/// An event named by its `type`.
fn event(out: &mut Vec<u8>, v: &Value) {
    let name = v["type"].as_str().unwrap_or("message");
    out.extend_from_slice(format!("event: {name}\ndata: {v}\n\n").as_bytes());
}

fn nanos(d: Duration) -> Value {
    // Ollama leaves no duration at 0 where work was done, and clients divide by it.
    json!(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX).max(1))
}

fn unix(t: SystemTime) -> u64 {
    t.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| d.as_secs())
}

/// How Ollama writes a moment: UTC with nanoseconds.
const MOMENT: EncodedConfig = Config::DEFAULT
    .set_time_precision(TimePrecision::Second {
        decimal_digits: std::num::NonZero::new(9),
    })
    .encode();

/// A moment as Ollama writes it; empty for one beyond any calendar.
pub(super) fn rfc3339(t: SystemTime) -> String {
    let moment = OffsetDateTime::from(t).format(&Iso8601::<MOMENT>);
    moment.unwrap_or_default()
}

/// The answer as a stream: one piece a token.
pub(super) fn streamed(source: Source, writer: Writer) -> Body {
    let run = (source, writer, false);
    let pieces = stream::try_unfold(run, |(mut source, mut writer, ended)| async move {
        if ended {
            return Ok::<_, io::Error>(None);
        }
        let (bytes, ended) = match source.next().await? {
            Piece::Text(token) => (writer.token(&token), false),
            Piece::End(finish, stats) => (writer.close(finish, &stats), true),
            Piece::Failed(message) => (writer.failed(&message), true),
        };
        Ok(Some((
            Frame::data(Bytes::from(bytes)),
            (source, writer, ended),
        )))
    });
    StreamBody::new(pieces).boxed_unsync()
}

/// The answer in one piece, or the text of the error that ended it.
pub(super) async fn gathered(mut source: Source, mut writer: Writer) -> Result<Value, String> {
    loop {
        match source.next().await.map_err(|e| e.to_string())? {
            Piece::Text(token) => writer.text.push_str(&token),
            Piece::End(finish, stats) => return Ok(writer.whole(finish, &stats)),
            Piece::Failed(message) => return Err(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_utc() {
        for (secs, want) in [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000000Z"),
        ] {
            assert_eq!(
                rfc3339(SystemTime::UNIX_EPOCH + Duration::from_secs(secs)),
                want
            );
        }
    }
}
