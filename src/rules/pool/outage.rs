//! What an outage of the store means for silence.
//!
//! Owns: by which time standings are judged while the store is down and shortly after it. Leaves to
//! others: noticing that it is down (`state::pool`), standings (`standing`).
//!
//! While nobody can be heard, silence is no sign: the nodes stay what they were, so that requests are
//! told that the store is down and not that there is no such model. Nobody can be used meanwhile,
//! since no lease is to be had. After an outage workers have some time to be heard again, also by a
//! store that lost everything.

/// Workers that could not be heard try again within this time, in ms.
const LONGEST_GRACE: u64 = 30_000;

/// Where an outage stands. All times are Unix ms by the store's clock, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outage {
    /// There is none.
    #[default]
    None,
    /// The store is down.
    Down {
        /// Since then.
        since: u64,
    },
    /// It is back, and not everybody was heard again yet.
    Grace {
        /// It went down then.
        since: u64,
        /// It lasts until then.
        until: u64,
    },
}

impl Outage {
    /// The store does not answer at this time.
    pub fn down(&mut self, now: u64) {
        match *self {
            Self::None => *self = Self::Down { since: now },
            // As long as it does not stay, silence is no sign.
            Self::Grace { since, .. } => *self = Self::Down { since },
            Self::Down { .. } => {},
        }
    }

    /// The store answers, and this is its time; nodes that are silent for longer than `ttl` ms are
    /// offline. Says whether an outage has just become history: what is known is to be read anew.
    #[must_use]
    pub fn up(&mut self, now: u64, ttl: u64) -> bool {
        match *self {
            Self::Down { since } => {
                let until = now.saturating_add(ttl.min(LONGEST_GRACE));
                *self = Self::Grace { since, until };
                false
            },
            Self::Grace { until, .. } if now >= until => {
                *self = Self::None;
                true
            },
            Self::None | Self::Grace { .. } => false,
        }
    }

    /// The time by which nodes are judged at this time.
    pub fn judged_at(&self, now: u64) -> u64 {
        match *self {
            Self::None => now,
            Self::Down { since } | Self::Grace { since, .. } => since.min(now),
        }
    }

    /// Whether the store is down.
    pub fn is_down(&self) -> bool {
        matches!(self, Self::Down { .. })
    }

    /// Whether nodes that the store does not know are kept: it may have lost them.
    pub fn keeps_unknown(&self) -> bool {
        *self != Self::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_no_sign_during_an_outage_and_until_all_could_be_heard_again() {
        let mut outage = Outage::default();
        assert_eq!((outage.judged_at(7), outage.keeps_unknown()), (7, false));
        assert!(!outage.up(1_000, 15_000));
        outage.down(2_000);
        outage.down(90_000);
        assert!(outage.is_down());
        assert_eq!(outage.judged_at(90_000), 2_000);
        assert!(!outage.up(100_000, 15_000));
        assert!(outage.keeps_unknown() && !outage.is_down());
        assert_eq!(outage.judged_at(114_999), 2_000);
        assert!(!outage.up(114_999, 15_000));
        assert!(outage.up(115_000, 15_000), "over: read all anew");
        assert_eq!((outage, outage.judged_at(9)), (Outage::None, 9));
    }

    #[test]
    fn one_that_comes_and_goes_is_one_and_no_grace_lasts_for_an_hour() {
        let mut outage = Outage::default();
        outage.down(2_000);
        assert!(!outage.up(3_000, 3_600_000));
        outage.down(20_000);
        assert_eq!(outage, Outage::Down { since: 2_000 });
        assert!(!outage.up(40_000, 3_600_000));
        assert!(!outage.up(69_999, 3_600_000));
        assert!(outage.up(70_000, 3_600_000));
    }

    #[test]
    fn a_store_whose_clock_went_back_is_judged_by_what_it_says() {
        let mut outage = Outage::default();
        outage.down(50_000);
        assert_eq!(outage.judged_at(10), 10);
    }
}
