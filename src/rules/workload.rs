//! The life of one workload (spec §5.5): which event follows which, numbered without gaps.
//!
//! Owns: states, placement, `seq`. Leaves to others: the record on the wire (`wire::broker`), the
//! lock that keeps numbering and sending together (`state::workloads`).

use serde::{Deserialize, Serialize};

use super::ids::NodeId;

/// State of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Admitted, or dispatched without a byte yet: the whole life before commit.
    Queued,
    /// The engine produces content.
    Running,
    /// Ended after a committed answer below 300.
    Completed,
    /// Ended otherwise.
    Failed,
    /// Ended by the requester or by our shutdown.
    Cancelled,
}

impl State {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The state of this name.
    pub fn parse(name: &str) -> Option<Self> {
        [
            Self::Queued,
            Self::Running,
            Self::Completed,
            Self::Failed,
            Self::Cancelled,
        ]
        .into_iter()
        .find(|s| s.as_str() == name)
    }

    /// Whether nothing follows this state.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// An event to be sent, with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an event that was numbered must be sent, or the numbers have a gap"]
pub struct Numbered(pub u64);

/// State, placement and event counter of one workload. Nothing follows the terminal event, and a
/// job never steps back from running to queued: the broker's store would reject it.
#[derive(Debug)]
pub struct Lifecycle {
    state: State,
    placed: Option<NodeId>,
    seq: u64,
}

impl Lifecycle {
    /// Admitted, not placed. The first event has number 1.
    pub fn admit() -> (Self, Numbered) {
        let mut new = Self {
            state: State::Queued,
            placed: None,
            seq: 0,
        };
        let first = new.number();
        (new, first)
    }

    /// State now.
    pub fn state(&self) -> State {
        self.state
    }

    /// Placement now.
    pub fn placed(&self) -> Option<&NodeId> {
        self.placed.as_ref()
    }

    /// Dispatched to a node. No event if it is there already.
    pub fn place(&mut self, node: &NodeId) -> Option<Numbered> {
        if self.state != State::Queued || self.placed.as_ref() == Some(node) {
            return None;
        }
        self.placed = Some(node.clone());
        Some(self.number())
    }

    /// Placed nowhere, before a wait. No event if it was nowhere.
    pub fn clear(&mut self) -> Option<Numbered> {
        if self.state != State::Queued || self.placed.is_none() {
            return None;
        }
        self.placed = None;
        Some(self.number())
    }

    /// Committed on a node. Once.
    pub fn start(&mut self, node: &NodeId) -> Option<Numbered> {
        if self.state != State::Queued {
            return None;
        }
        self.placed = Some(node.clone());
        self.state = State::Running;
        Some(self.number())
    }

    /// Ended. The first end wins; `state` must be terminal.
    pub fn finish(&mut self, state: State) -> Option<Numbered> {
        debug_assert!(state.is_terminal());
        if self.state.is_terminal() {
            return None;
        }
        self.state = state;
        Some(self.number())
    }

    fn number(&mut self) -> Numbered {
        self.seq += 1;
        Numbered(self.seq)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_owner_that_refuses_once() {
        let a = NodeId::from("A");
        let (mut w, n) = Lifecycle::admit();
        assert_eq!(n, Numbered(1));
        assert_eq!(w.place(&a), Some(Numbered(2)));
        assert_eq!(w.clear(), Some(Numbered(3)));
        assert_eq!(w.place(&a), Some(Numbered(4)));
        assert_eq!(w.start(&a), Some(Numbered(5)));
        assert_eq!(w.finish(State::Completed), Some(Numbered(6)));
        assert_eq!(w.placed(), Some(&a), "the end keeps the placement");
    }

    #[test]
    fn an_unchanged_placement_is_no_event() {
        let a = NodeId::from("A");
        let (mut w, _) = Lifecycle::admit();
        assert_eq!(w.clear(), None);
        assert_eq!(w.place(&a), Some(Numbered(2)));
        assert_eq!(w.place(&a), None);
    }

    proptest! {
        #[test]
        fn numbers_have_no_gaps_and_nothing_follows_the_end(steps in prop::collection::vec((0u8..5, 0u8..3), 0..40)) {
            let nodes = [NodeId::from("a"), NodeId::from("b"), NodeId::from("c")];
            let (mut w, first) = Lifecycle::admit();
            let mut last = first.0;
            let mut ended = false;
            for (step, node) in steps {
                let node = &nodes[usize::from(node)];
                let before = w.state();
                let event = match step {
                    0 => w.place(node),
                    1 => w.clear(),
                    2 => w.start(node),
                    3 => w.finish(State::Failed),
                    _ => w.finish(State::Completed),
                };
                if let Some(Numbered(n)) = event {
                    prop_assert!(!ended, "an event after the end");
                    prop_assert_eq!(n, last + 1);
                    last = n;
                }
                prop_assert!(!(before == State::Running && w.state() == State::Queued));
                ended = w.state().is_terminal();
            }
        }
    }
}
