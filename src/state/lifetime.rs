//! How long the process goes on: running, draining, cut.
//!
//! Owns: the phase, in one direction. Leaves to others: what each part does about it.

use tokio::sync::watch;

/// Where the process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Serving.
    Running,
    /// No new requests; those under way go on.
    Draining,
    /// Whatever is under way ends now.
    Cut,
}

/// The process's phase.
#[derive(Debug)]
pub struct Lifetime(watch::Sender<Phase>);

impl Default for Lifetime {
    fn default() -> Self {
        Self(watch::Sender::new(Phase::Running))
    }
}

impl Lifetime {
    /// Moves on; never back.
    pub fn advance(&self, to: Phase) {
        self.0.send_if_modified(|now| {
            let later = to > *now;
            if later {
                *now = to;
            }
            later
        });
    }

    /// The phase now.
    pub fn phase(&self) -> Phase {
        *self.0.borrow()
    }

    /// Follows the phase.
    pub fn follow(&self) -> watch::Receiver<Phase> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_way_back() {
        let l = Lifetime::default();
        l.advance(Phase::Cut);
        l.advance(Phase::Draining);
        assert_eq!(l.phase(), Phase::Cut);
    }
}
