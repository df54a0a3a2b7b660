//! What the end of an attempt says about the node it was sent to.
//!
//! Owns: whose failure it is. Leaves to others: whether the request is tried again (`outcome`),
//! counting (`breaker`). Only statuses are read, never bodies: engines say "loading" and "busy" by
//! status too, and a body may hold what a user wrote.

use super::breaker::End;
use super::ema::Sample;

/// Whose failure the end of an attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Nobody's: it answered 2xx to the end.
    Success,
    /// The node's.
    Node,
    /// This model's on this node.
    Model,
    /// The node is busy or loads the model: the request goes elsewhere, nothing is counted.
    Busy,
    /// It says nothing about the node.
    Nothing,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The answer had this status and went through to its end.
    Status(u16),
    /// No connection, a broken one, or the node stalled beyond a limit; at any moment, so also in
    /// the middle of an answer.
    Transport,
    /// The client went away, or our own deadline or shutdown ended it.
    Ours,
    /// The node left the pool meanwhile.
    Left,
}

/// Judges the end of an attempt.
pub fn blame(ended: Ended) -> Blame {
    match ended {
        Ended::Transport => Blame::Node,
        Ended::Ours | Ended::Left => Blame::Nothing,
        Ended::Status(status) => match status {
            200..=299 => Blame::Success,
            404 => Blame::Model,
            429 | 503 => Blame::Busy,
            // A route that is not built in.
            501 => Blame::Nothing,
            500..=599 => Blame::Node,
            _ => Blame::Nothing,
        },
    }
}

impl Blame {
    /// What it means to the node's own breaker.
    pub fn for_node(self) -> End {
        match self {
            Self::Success => End::Success,
            Self::Node => End::Failure,
            Self::Model | Self::Busy | Self::Nothing => End::Neutral,
        }
    }

    /// What it means to the breaker of the model on this node.
    pub fn for_model(self) -> End {
        match self {
            Self::Success => End::Success,
            Self::Model => End::Failure,
            Self::Node | Self::Busy | Self::Nothing => End::Neutral,
        }
    }
}

/// How a request on a node ended: what the store takes in when its lease is given back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Whose failure it is.
    pub blame: Blame,
    /// What was measured; counts only with [`Blame::Success`].
    pub sample: Sample,
}

impl Outcome {
    /// An end without figures.
    pub fn of(ended: Ended) -> Self {
        Self {
            blame: blame(ended),
            sample: Sample::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_blame_the_node_the_model_or_nobody() {
        for (statuses, want) in [
            (&[200, 201, 204, 299][..], Blame::Success),
            (&[500, 502, 504, 505, 507, 599], Blame::Node),
            (&[404], Blame::Model),
            (&[429, 503], Blame::Busy),
            (
                &[101, 301, 302, 304, 400, 401, 403, 408, 413, 422, 501],
                Blame::Nothing,
            ),
        ] {
            for status in statuses {
                assert_eq!(blame(Ended::Status(*status)), want, "{status}");
            }
        }
        assert_eq!(blame(Ended::Transport), Blame::Node);
        assert_eq!(blame(Ended::Ours), Blame::Nothing);
        assert_eq!(blame(Ended::Left), Blame::Nothing);
    }

    #[test]
    fn each_scope_counts_its_own_failures_only() {
        for (blame, node, model) in [
            (Blame::Success, End::Success, End::Success),
            (Blame::Node, End::Failure, End::Neutral),
            (Blame::Model, End::Neutral, End::Failure),
            (Blame::Busy, End::Neutral, End::Neutral),
            (Blame::Nothing, End::Neutral, End::Neutral),
        ] {
            assert_eq!((blame.for_node(), blame.for_model()), (node, model));
        }
    }
}
