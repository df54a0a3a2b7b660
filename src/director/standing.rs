//! How a probed node stands: what its last answers told, and when it counts as gone.
//!
//! Owns: the count of missed probes and what survives one. Pure.
//! Leaves to others: asking (`probe`), telling the daemon (`keeper`).

pub use crate::rules::inventory::{Miss, Reading};

/// Missed probes after which a node counts as gone.
pub const MISSES: u32 = 3;

/// What people read about a facade that was taken for an engine.
pub const FACADE: &str = "answers as an nvpair-proxy facade, not as an engine";

/// A node's standing. New: not asked yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    reading: Reading,
    asked: bool,
    answered: bool,
    misses: u32,
    reason: Option<String>,
}

impl Standing {
    /// Takes the outcome of a probe.
    pub fn take(&mut self, outcome: Result<Reading, Miss>) {
        self.asked = true;
        match outcome {
            Ok(reading) => {
                self.answered = true;
                self.misses = 0;
                self.reason = None;
                // Optional answers that failed once leave what was known.
                self.reading = Reading {
                    models: reading.models.or(self.reading.models.take()),
                    warm: reading.warm.or(self.reading.warm.take()),
                    slots: reading.slots.or(self.reading.slots),
                    context: reading.context,
                };
            },
            Err(Miss::Silent(reason)) => {
                self.misses = self.misses.saturating_add(1);
                // Of a node that never answered nothing is known: there is nothing to wait for.
                if self.misses >= MISSES || !self.answered || self.reason.is_some() {
                    self.reason = Some(reason);
                }
            },
            Err(Miss::Facade) => {
                self.misses = self.misses.saturating_add(1);
                self.reason = Some(FACADE.to_owned());
            },
        }
    }

    /// Why it is no candidate now; `None` while it is, or was not asked yet.
    pub fn unreachable(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Whether it answered and has not been missed too often since.
    pub fn is_up(&self) -> bool {
        self.answered && self.reason.is_none()
    }

    /// Whether a probe of it has ended, however.
    pub fn is_asked(&self) -> bool {
        self.asked
    }

    /// The last that was told. Kept while it is gone, so that lists do not shrink over a restart.
    pub fn reading(&self) -> &Reading {
        &self.reading
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silent() -> Result<Reading, Miss> {
        Err(Miss::Silent("connection refused".into()))
    }

    fn told(models: &[&str]) -> Result<Reading, Miss> {
        let models = models.iter().map(|m| (*m).to_owned()).collect();
        Ok(Reading {
            models: Some(models),
            ..Reading::default()
        })
    }

    #[test]
    fn a_node_is_gone_at_its_third_missed_probe_and_back_at_its_first_answer() {
        let mut s = Standing::default();
        assert_eq!((s.unreachable(), s.is_up()), (None, false));
        s.take(told(&["a"]));
        for _ in 1..MISSES {
            s.take(silent());
            assert!(s.is_up(), "a missed probe alone means nothing");
        }
        s.take(silent());
        assert_eq!(s.unreachable(), Some("connection refused"));
        assert_eq!(
            s.reading().models.as_deref(),
            Some(&["a".to_owned()][..]),
            "still listed"
        );
        s.take(told(&["b"]));
        assert!(s.is_up());
        s.take(silent());
        assert!(s.is_up(), "an answer starts the count again");
    }

    #[test]
    fn a_node_that_never_answered_is_gone_at_once() {
        let mut s = Standing::default();
        s.take(silent());
        assert!(s.unreachable().is_some());
    }

    #[test]
    fn a_facade_is_never_a_candidate() {
        let mut s = Standing::default();
        s.take(told(&["a"]));
        s.take(Err(Miss::Facade));
        assert_eq!(s.unreachable(), Some(FACADE));
        s.take(silent());
        assert_eq!(
            s.unreachable(),
            Some("connection refused"),
            "the newest reason is shown"
        );
    }

    #[test]
    fn optional_answers_that_fail_leave_what_was_known() {
        let mut s = Standing::default();
        let full = Reading {
            warm: Some(vec!["a".into()]),
            slots: Some(4),
            ..Reading::default()
        };
        s.take(Ok(full));
        s.take(told(&["a"]));
        assert_eq!(s.reading().slots, Some(4));
        assert_eq!(s.reading().warm.as_deref(), Some(&["a".to_owned()][..]));
    }
}
