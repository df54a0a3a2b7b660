//! Which provider is tried first.
//!
//! Owns: the order. Leaves to others: which providers have the model, and which of them rest
//! (`state::providers`).

/// Where a provider stands now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// Its tier.
    pub tier: u32,
    /// Its penalty now, in milliseconds.
    pub penalty_ms: u64,
}

/// Lowest tier first, then least penalty; equals stay as they are, which is the order of the file.
/// Each rank is looked at once, so that one that changes meanwhile does no harm.
pub fn by_rank<T>(providers: &mut [T], rank: impl FnMut(&T) -> Rank) {
    providers.sort_by_cached_key(rank);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tier_beats_penalty_and_equals_keep_their_order() {
        let rank = |tier, penalty_ms| Rank { tier, penalty_ms };
        let mut all = [
            ("late", rank(2, 0)),
            ("bad", rank(0, 300_000)),
            ("b", rank(0, 1_000)),
            ("a", rank(0, 1_000)),
            ("fine", rank(1, 0)),
            ("good", rank(0, 999)),
        ];
        by_rank(&mut all, |(_, rank)| *rank);
        let names = all.map(|(name, _)| name);
        assert_eq!(names, ["good", "b", "a", "bad", "fine", "late"]);
    }
}
