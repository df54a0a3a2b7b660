//! The words of the OpenTelemetry semantic conventions for what happens here.
//!
//! Owns: which operation a route is, how an end and a lost attempt are called. Every set of words is
//! small, since each word is a label of a metric. Leaves to others: where they are written down
//! (`telemetry`, `export`).

use std::borrow::Cow;

use http::Method;

use super::outcome::{End, Failure};

/// What an inference request does: `gen_ai.operation.name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A turn of a conversation.
    Chat,
    /// Text that goes on.
    TextCompletion,
    /// Vectors of texts.
    Embeddings,
    /// Text of speech, in its language or in English. The conventions have no word for it and let one
    /// be made.
    Transcription,
}

impl Operation {
    /// The operation of an inference route.
    pub fn of(path: &str) -> Self {
        if path.contains("/embed") {
            Self::Embeddings
        } else if path.ends_with("/generate") || path == "/v1/completions" {
            Self::TextCompletion
        } else if path.starts_with("/v1/audio/") {
            Self::Transcription
        } else {
            Self::Chat
        }
    }

    /// The convention's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::TextCompletion => "text_completion",
            Self::Embeddings => "embeddings",
            Self::Transcription => "transcription",
        }
    }
}

/// What went wrong: `error.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorType {
    /// A status of 400 or more.
    Status(u16),
    /// One of a few words.
    Named(&'static str),
}

impl ErrorType {
    /// As it is written.
    pub fn as_text(self) -> Cow<'static, str> {
        match self {
            Self::Status(status) => Cow::Owned(status.to_string()),
            Self::Named(word) => Cow::Borrowed(word),
        }
    }

    /// Whether a span that a server makes of it has failed: the conventions have 4xx be the caller's
    /// doing.
    pub fn is_ours(self) -> bool {
        !matches!(self, Self::Status(400..=499))
    }

    fn of_status(status: u16) -> Option<Self> {
        match status {
            400..=599 => Some(Self::Status(status)),
            // None that HTTP knows, and a label must not take any number.
            600.. => Some(Self::Named("invalid_status")),
            _ => None,
        }
    }

    /// What is wrong with a request that ended like this; `status` is what the client was told, 0 for
    /// nothing, `truncated` that the engine broke its answer off.
    pub fn of_end(end: &End, status: u16, truncated: bool) -> Option<Self> {
        match end {
            End::Relayed { .. } if truncated => Some(Self::Named(TRUNCATED)),
            End::Relayed { status } => Self::of_status(*status),
            End::ClientGone | End::ClientDead(_) => Some(Self::Named("client_disconnected")),
            End::Shutdown => Some(Self::Named("shutdown")),
            End::Own(_) => Self::of_status(status).or(Some(Self::Named("_OTHER"))),
            End::Lost => Some(Self::Named("panic")),
        }
    }

    /// What a lost attempt is called.
    pub fn of_failure(failure: Failure) -> Self {
        match failure {
            Failure::Status(status) => Self::of_status(status).unwrap_or(Self::Named("_OTHER")),
            other => Self::Named(outcome(other)),
        }
    }
}

/// Outcome of an attempt whose answer went to the client.
pub const ANSWERED: &str = "answered";

/// Outcome of an attempt whose answer broke off after it had begun.
pub const TRUNCATED: &str = "stream_aborted";

/// Outcome of an attempt that nobody waited for any more.
pub const CANCELLED: &str = "cancelled";

/// Outcome of an attempt that was lost.
pub fn outcome(failure: Failure) -> &'static str {
    match failure {
        Failure::Status(_) => "refused",
        Failure::Transport => "transport",
        Failure::NoHeaders => "no_headers",
        Failure::NoContent => "no_content",
        Failure::Broken => "broken",
        Failure::TargetGone => "target_gone",
    }
}

/// A method as a label: one of those that everybody knows.
pub fn method(method: &Method) -> &'static str {
    const KNOWN: [&str; 9] = [
        "GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT",
    ];
    let known = KNOWN.iter().find(|known| **known == method.as_str());
    known.copied().unwrap_or("_OTHER")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::engine::{EngineId, RouteKind};

    #[test]
    fn every_inference_route_is_an_operation() {
        let operations = [
            ("/api/chat", "chat"),
            ("/api/generate", "text_completion"),
            ("/v1/chat/completions", "chat"),
            ("/v1/completions", "text_completion"),
            ("/api/embed", "embeddings"),
            ("/api/embeddings", "embeddings"),
            ("/v1/embeddings", "embeddings"),
            ("/v1/messages", "chat"),
            ("/v1/responses", "chat"),
            ("/v1/audio/transcriptions", "transcription"),
            ("/v1/audio/translations", "transcription"),
        ];
        for (path, want) in operations {
            assert_eq!(Operation::of(path).as_str(), want, "{path}");
        }
        let routes = EngineId::facades().flat_map(|e| e.spec().routes);
        for route in routes.filter(|r| r.kind == RouteKind::Inference) {
            let known = operations.iter().any(|(path, _)| *path == route.path);
            assert!(known, "{}: say which operation it is", route.path);
        }
    }

    #[test]
    fn an_end_is_called_by_what_the_client_met() {
        let text = |end: End, status, cut| {
            ErrorType::of_end(&end, status, cut).map(|e| e.as_text().into_owned())
        };
        let relayed = |status| End::Relayed { status };
        assert_eq!(text(relayed(200), 200, false), None);
        assert_eq!(text(relayed(302), 302, false), None);
        assert_eq!(text(relayed(429), 429, false).unwrap(), "429");
        assert_eq!(text(relayed(999), 999, false).unwrap(), "invalid_status");
        assert_eq!(text(relayed(200), 200, true).unwrap(), "stream_aborted");
        assert_eq!(
            text(End::ClientGone, 0, false).unwrap(),
            "client_disconnected"
        );
        assert_eq!(text(End::Shutdown, 200, false).unwrap(), "shutdown");
        assert_eq!(text(End::Own("x".into()), 503, false).unwrap(), "503");
        assert_eq!(text(End::Lost, 0, false).unwrap(), "panic");
        assert!(!ErrorType::Status(404).is_ours() && ErrorType::Status(500).is_ours());
        assert!(ErrorType::Named("panic").is_ours());
    }

    #[test]
    fn labels_come_from_small_sets() {
        assert_eq!(method(&Method::GET), "GET");
        assert_eq!(method(&Method::from_bytes(b"PROPFIND").unwrap()), "_OTHER");
        assert_eq!(outcome(Failure::Status(503)), "refused");
        assert_eq!(
            ErrorType::of_failure(Failure::Status(503)),
            ErrorType::Status(503)
        );
        assert_eq!(ErrorType::of_failure(Failure::Broken).as_text(), "broken");
    }
}
