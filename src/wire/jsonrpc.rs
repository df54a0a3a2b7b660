//! Error codes shared by the broker link and the control socket (control-plane facts, spec §4).
//!
//! Owns: the codes and the error a command may end with. Leaves to others: envelopes and framing
//! (`broker::codec` on the link, jsonrpsee on the control socket).

/// Why a command was refused. The broker acts on codes alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// -32601: no such method.
    MethodNotFound,
    /// -32602: the parameters do not decode or fail a check.
    InvalidParams,
    /// -32603: a panic while handling the request.
    Internal,
    /// -32000: refused for any other reason.
    Refused,
    /// -32002: the engine has no facade here.
    NoFacade,
    /// -32010: the port could not be bound; the broker retries on another one.
    BindFailed,
}

impl ErrorCode {
    /// The number on the wire.
    pub fn number(self) -> i32 {
        match self {
            Self::MethodNotFound => -32601,
            Self::InvalidParams => -32602,
            Self::Internal => -32603,
            Self::Refused => -32000,
            Self::NoFacade => -32002,
            Self::BindFailed => -32010,
        }
    }
}

/// A refused command: a code for programs and a text for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CommandError {
    /// What kind of refusal.
    pub code: ErrorCode,
    /// What, why, and what to do; never content of a request.
    pub message: String,
}

impl CommandError {
    /// A refusal with this code and text.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// -32602 with this text.
    pub fn params(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidParams, message)
    }

    /// -32000 with this text.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Refused, message)
    }

    /// -32002 for this engine; empty when the message carried no address.
    pub fn no_facade(engine: &str) -> Self {
        Self::new(
            ErrorCode::NoFacade,
            format!("no facade is enabled for engine {engine:?} on this proxy"),
        )
    }
}
