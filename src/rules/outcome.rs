//! What a status or a failure means (spec §5.4).
//!
//! Owns: retry or answer, and the workload's state at the end. Leaves to others: counting attempts
//! (`dispatch`), wording for a dialect (`net::answers`).

use super::workload::State;

/// Whether requests of this kind have a retry budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Inference: rounds, backoff, deadline.
    Budget,
    /// Everything else: one pass, each candidate once, since some of it changes state.
    OnePass,
}

/// Whether a status is worth another candidate before commit.
pub fn is_retryable(effort: Effort, status: u16) -> bool {
    match status {
        // Positive inventory can be stale, and only inference was filtered by it.
        404 => effort == Effort::Budget,
        408 | 429 => true,
        _ => status >= 500,
    }
}

/// How one attempt was lost before commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A retryable status.
    Status(u16),
    /// No connection, or the connection broke before headers.
    Transport,
    /// No headers within the cap.
    NoHeaders,
    /// Headers, then no content within the cap.
    NoContent,
    /// Headers, then the connection broke before content.
    Broken,
    /// The target left discovery, and the watcher won the claim.
    TargetGone,
}

impl Failure {
    /// Whether the node's confirmed address is forgotten: only where the network failed, never for
    /// a status or a stall (data plane 3.4).
    pub fn forgets_address(self, last: bool) -> bool {
        match self {
            Self::Transport | Self::NoHeaders => true,
            Self::NoContent | Self::Broken | Self::TargetGone => last,
            Self::Status(_) => false,
        }
    }

    /// The status that it is, if it is one.
    pub fn status(self) -> Option<u16> {
        match self {
            Self::Status(status) => Some(status),
            _ => None,
        }
    }

    /// In words, for our own answer and the workload's error. Never content.
    pub fn text(self) -> &'static str {
        match self {
            Self::Status(_) => "upstream refused the request",
            Self::Transport => "upstream error: the connection failed",
            Self::NoHeaders => "upstream error: no response headers within the response timeout",
            Self::NoContent => {
                "upstream error: upstream sent no response body within the first-byte budget"
            },
            Self::Broken => "upstream error: the connection broke before any content",
            Self::TargetGone => "upstream error: target node left discovery mid-request",
        }
    }
}

/// How a request that became a workload ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// A committed answer was relayed to its end, or the node died while it was.
    Relayed {
        /// Its status.
        status: u16,
    },
    /// The client left.
    ClientGone,
    /// A write towards the client failed or took too long.
    ClientDead(String),
    /// We are shutting down.
    Shutdown,
    /// We answered ourselves, with this text.
    Own(String),
    /// The handler ended without saying how.
    Lost,
}

impl End {
    /// State and error text of the terminal event.
    pub fn terminal(self) -> (State, Option<String>) {
        let cancelled = |text: String| (State::Cancelled, Some(text));
        match self {
            // A truncated 2xx is completed: the caller holds partial output (spec §1.1).
            Self::Relayed { status } if status < 300 => (State::Completed, None),
            Self::Relayed { status } => (
                State::Failed,
                Some(format!("upstream returned HTTP {status}")),
            ),
            Self::ClientGone => cancelled("client disconnected before completion".into()),
            Self::ClientDead(cause) => cancelled(format!("client connection lost: {cause}")),
            Self::Shutdown => cancelled("request cancelled before completion".into()),
            Self::Own(text) => (State::Failed, Some(text)),
            Self::Lost => (
                State::Failed,
                Some("request handler exited before completion".into()),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_table_of_the_spec() {
        for (status, budget, one_pass) in [
            (200, false, false),
            (204, false, false),
            (301, false, false),
            (308, false, false),
            (400, false, false),
            (401, false, false),
            (403, false, false),
            (404, true, false),
            (408, true, true),
            (409, false, false),
            (413, false, false),
            (422, false, false),
            (429, true, true),
            (499, false, false),
            (500, true, true),
            (501, true, true),
            (502, true, true),
            (503, true, true),
            (504, true, true),
            (599, true, true),
        ] {
            assert_eq!(is_retryable(Effort::Budget, status), budget, "{status}");
            assert_eq!(is_retryable(Effort::OnePass, status), one_pass, "{status}");
        }
    }

    #[test]
    fn the_terminal_states_of_the_spec() {
        for (end, want) in [
            (End::Relayed { status: 200 }, State::Completed),
            (End::Relayed { status: 302 }, State::Failed),
            (End::Relayed { status: 400 }, State::Failed),
            (End::Relayed { status: 503 }, State::Failed),
            (End::ClientGone, State::Cancelled),
            (End::ClientDead("timed out".into()), State::Cancelled),
            (End::Shutdown, State::Cancelled),
            (End::Own("no".into()), State::Failed),
            (End::Lost, State::Failed),
        ] {
            let (state, error) = end.clone().terminal();
            assert_eq!(state, want, "{end:?}");
            assert_eq!(error.is_none(), state == State::Completed, "{end:?}");
        }
        let (_, text) = End::Relayed { status: 503 }.terminal();
        assert_eq!(text.as_deref(), Some("upstream returned HTTP 503"));
    }

    #[test]
    fn a_status_never_costs_a_confirmed_address() {
        assert!(!Failure::Status(503).forgets_address(true));
        assert!(Failure::Transport.forgets_address(false));
        assert!(!Failure::NoContent.forgets_address(false));
        assert!(Failure::NoContent.forgets_address(true));
    }
}
