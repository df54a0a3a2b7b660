//! The one seam of selection: the order in which candidates are tried, and whose load is counted
//! (spec §5 steps 2 and 3, §6; product section 3).
//!
//! Owns: pin, list and weighted order. Leaves to others: eligibility (`candidates`), the counts
//! (`reservations`). The request path and the `route` dry run both call this.

use std::cmp::Ordering;

use super::candidates::Candidate;
use super::ids::NodeId;
use super::reservations::{Board, Reservation};

/// Which policy is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The spec's, under a broker: pin, the broker's list with reservations, then by id.
    Listed,
    /// Standalone: pin, then own load, warm before cold.
    Weighted,
    /// The spec's bare default order: pin, then by id.
    Ordered,
}

impl Policy {
    /// Its name in `status` and in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Listed => "listed",
            Self::Weighted => "weighted",
            Self::Ordered => "ordered",
        }
    }

    /// Puts candidates (given by id) in the order in which they are to be tried, and says which one
    /// a reservation belongs on. A pinned request takes none.
    pub fn order(
        self,
        board: &Board,
        pin: Option<&NodeId>,
        candidates: &mut [Candidate],
    ) -> Option<NodeId> {
        if candidates.is_empty() {
            return None;
        }
        let pinned = pin.is_some_and(|pin| to_front(candidates, pin));
        let rest = if pinned {
            &mut candidates[1..]
        } else {
            &mut *candidates
        };
        match self {
            Self::Ordered => None,
            Self::Listed => {
                rest.sort_by_key(|c| board.rank(&c.target.node).unwrap_or(usize::MAX));
                if pinned {
                    None
                } else {
                    least_loaded_listed(board, candidates)
                }
            },
            Self::Weighted => {
                rest.sort_by(|a, b| by_weight(board, a, b));
                if pinned {
                    None
                } else {
                    Some(candidates[0].target.node.clone())
                }
            },
        }
    }

    /// Orders and counts in one step, so that concurrent requests see each other.
    pub fn order_and_reserve(
        self,
        board: &mut Board,
        pin: Option<&NodeId>,
        candidates: &mut [Candidate],
    ) -> Option<Reservation> {
        let node = self.order(board, pin, candidates)?;
        Some(board.take(&node))
    }
}

/// Among the candidates the scheduler listed, the least loaded goes first, ties to the earlier
/// position; the others keep their order.
fn least_loaded_listed(board: &Board, candidates: &mut [Candidate]) -> Option<NodeId> {
    let listed = candidates
        .iter()
        .filter(|c| board.rank(&c.target.node).is_some());
    let best = listed
        .min_by_key(|c| board.load(&c.target.node).estimate())?
        .target
        .node
        .clone();
    to_front(candidates, &best);
    Some(best)
}

/// Warm with a free slot first; then everybody by load per slot and weight. A warm node that is
/// full counts no more than a cold one: loading a model beats queueing behind others for ever.
fn by_weight(board: &Board, a: &Candidate, b: &Candidate) -> Ordering {
    let tier = |c: &Candidate| {
        let load = board.load(&c.target.node);
        let free = load.in_flight.max(load.reserved) < u64::from(c.target.slots);
        u8::from(!(c.warm && free))
    };
    // Cross-multiplied, so that no fraction is rounded.
    let share = |c: &Candidate| {
        let load = board.load(&c.target.node);
        load.in_flight.max(load.reserved) + load.pending + load.pressure
    };
    let capacity = |c: &Candidate| u64::from(c.target.slots) * u64::from(c.target.weight);
    tier(a)
        .cmp(&tier(b))
        .then_with(|| {
            let x = u128::from(share(a)) * u128::from(capacity(b));
            let y = u128::from(share(b)) * u128::from(capacity(a));
            x.cmp(&y)
        })
        .then_with(|| b.warm.cmp(&a.warm))
        .then_with(|| a.target.node.cmp(&b.target.node))
}

/// Moves the candidate on this node to the front; the others keep their order.
fn to_front(candidates: &mut [Candidate], node: &NodeId) -> bool {
    match candidates.iter().position(|c| c.target.node == *node) {
        Some(i) => {
            candidates[..=i].rotate_right(1);
            true
        },
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::HeaderValue;
    use proptest::prelude::*;

    use super::super::candidates::{Kind, Target};
    use super::super::ids::Generation;
    use super::*;

    fn candidate(id: &str, slots: u32, warm: bool) -> Candidate {
        Candidate {
            target: Arc::new(Target {
                node: id.into(),
                kind: Kind::Manual,
                host: "127.0.0.1".into(),
                port: 1,
                authority: "127.0.0.1:1".into(),
                host_header: HeaderValue::from_static("127.0.0.1:1"),
                prefix: String::new(),
                bearer: None,
                slots,
                weight: 1,
                unconfirmed: false,
            }),
            warm,
        }
    }

    fn nodes(ids: &[&str]) -> Vec<Candidate> {
        ids.iter().map(|id| candidate(id, 1, false)).collect()
    }

    fn ids(c: &[Candidate]) -> Vec<&str> {
        c.iter().map(|c| c.target.node.as_str()).collect()
    }

    fn listed(list: &[&str], loads: &[(&str, u64)]) -> Board {
        let mut b = Board::default();
        let loads = loads.iter().map(|(n, l)| (NodeId::from(*n), *l, 0));
        assert!(b.apply(
            Generation(1),
            list.iter().map(|n| NodeId::from(*n)).collect(),
            loads
        ));
        b
    }

    #[test]
    fn the_list_orders_and_unlisted_nodes_follow_by_id() {
        for (list, want) in [
            (vec!["c", "a", "b"], ["c", "a", "b"]),
            (vec!["b"], ["b", "a", "c"]),
            (vec!["c", "a"], ["c", "a", "b"]),
            (vec!["x", "c"], ["c", "a", "b"]),
            (vec![], ["a", "b", "c"]),
        ] {
            let mut c = nodes(&["a", "b", "c"]);
            Policy::Listed.order(&listed(&list, &[]), None, &mut c);
            assert_eq!(ids(&c), want, "{list:?}");
        }
    }

    #[test]
    fn the_least_loaded_listed_node_goes_first_and_the_rest_keep_their_order() {
        let mut b = listed(&["b", "a", "c"], &[("a", 5), ("c", 6)]);
        let mut c = nodes(&["a", "b", "c"]);
        let r = Policy::Listed
            .order_and_reserve(&mut b, None, &mut c)
            .unwrap();
        assert_eq!((ids(&c), r.node().as_str()), (vec!["b", "a", "c"], "b"));
        b.release(r);
    }

    #[test]
    fn an_eligible_pin_leads_and_takes_no_reservation() {
        let mut b = listed(&["a", "b"], &[]);
        let mut c = nodes(&["a", "b"]);
        assert_eq!(
            Policy::Listed.order_and_reserve(&mut b, Some(&"b".into()), &mut c),
            None
        );
        assert_eq!(ids(&c), ["b", "a"]);
        // An ineligible one is ignored.
        let mut c = nodes(&["a", "b"]);
        let r = Policy::Listed
            .order_and_reserve(&mut b, Some(&"z".into()), &mut c)
            .unwrap();
        assert_eq!(r.node().as_str(), "a");
        b.release(r);
    }

    #[test]
    fn nobody_listed_takes_no_reservation() {
        let mut b = listed(&["z"], &[]);
        let mut c = nodes(&["a", "b"]);
        assert_eq!(Policy::Listed.order_and_reserve(&mut b, None, &mut c), None);
        assert_eq!(ids(&c), ["a", "b"]);
    }

    #[test]
    fn a_burst_spreads_evenly_over_unequal_loads() {
        let mut b = listed(&["a", "b", "c"], &[("a", 0), ("b", 2), ("c", 4)]);
        let mut held = vec![];
        for _ in 0..6 {
            let mut c = nodes(&["a", "b", "c"]);
            held.push(
                Policy::Listed
                    .order_and_reserve(&mut b, None, &mut c)
                    .unwrap(),
            );
        }
        let totals: Vec<_> = ["a", "b", "c"]
            .iter()
            .map(|n| b.load(&NodeId::from(*n)).estimate())
            .collect();
        assert_eq!(totals, [4, 4, 4]);
        held.into_iter().for_each(|r| b.release(r));
    }

    #[test]
    fn ordered_is_the_bare_default() {
        let mut b = listed(&["c"], &[]);
        let mut c = nodes(&["a", "b", "c"]);
        assert_eq!(
            Policy::Ordered.order_and_reserve(&mut b, None, &mut c),
            None
        );
        assert_eq!(ids(&c), ["a", "b", "c"]);
        Policy::Ordered.order(&b, Some(&"b".into()), &mut c);
        assert_eq!(ids(&c), ["b", "a", "c"]);
    }

    #[test]
    fn warm_goes_before_cold_until_its_slots_are_full() {
        let mut b = Board::default();
        let mut c = vec![candidate("cold", 1, false), candidate("warm", 1, true)];
        Policy::Weighted.order(&b, None, &mut c);
        assert_eq!(ids(&c), ["warm", "cold"]);
        b.begin(&"warm".into());
        Policy::Weighted.order(&b, None, &mut c);
        assert_eq!(
            ids(&c),
            ["cold", "warm"],
            "a full warm node counts no more than a cold one"
        );
        b.begin(&"cold".into());
        Policy::Weighted.order(&b, None, &mut c);
        assert_eq!(ids(&c), ["warm", "cold"], "equally full, warm leads again");
    }

    #[test]
    fn load_counts_per_slot() {
        let mut b = Board::default();
        for _ in 0..3 {
            b.begin(&"big".into());
        }
        b.begin(&"small".into());
        let mut c = vec![candidate("big", 8, false), candidate("small", 1, false)];
        Policy::Weighted.order(&b, None, &mut c);
        assert_eq!(ids(&c), ["big", "small"]);
    }

    proptest! {
        #[test]
        fn every_candidate_is_placed_exactly_once(
            n in 0usize..8,
            list in prop::collection::vec(0usize..10, 0..10),
            pin in prop::option::of(0usize..10),
            policy in 0u8..3,
        ) {
            let names: Vec<String> = (0..n).map(|i| format!("n{i}")).collect();
            let refs: Vec<&str> = names.iter().map(String::as_str).collect();
            let mut c = nodes(&refs);
            let mut b = Board::default();
            b.apply(Generation(1), list.iter().map(|i| NodeId::from(format!("n{i}"))).collect(), []);
            let pin = pin.map(|i| NodeId::from(format!("n{i}")));
            let policy = [Policy::Listed, Policy::Weighted, Policy::Ordered][usize::from(policy)];
            let chosen = policy.order(&b, pin.as_ref(), &mut c);
            let mut after = ids(&c);
            if let Some(chosen) = chosen {
                prop_assert_eq!(after[0], chosen.as_str());
            }
            if let Some(pin) = pin.filter(|p| refs.contains(&p.as_str())) {
                prop_assert_eq!(after[0], pin.as_str());
            }
            after.sort();
            prop_assert_eq!(after, refs);
        }

        #[test]
        fn equal_nodes_never_differ_by_more_than_one(n in 1usize..6, requests in 0usize..60) {
            let names: Vec<String> = (0..n).map(|i| format!("n{i}")).collect();
            let refs: Vec<&str> = names.iter().map(String::as_str).collect();
            for policy in [Policy::Listed, Policy::Weighted] {
                let mut b = listed(&refs, &[]);
                let mut held = vec![];
                for _ in 0..requests {
                    let mut c = nodes(&refs);
                    held.push(policy.order_and_reserve(&mut b, None, &mut c).unwrap());
                }
                let loads: Vec<_> = refs.iter().map(|n| b.load(&NodeId::from(*n)).reserved).collect();
                prop_assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1);
                held.into_iter().for_each(|r| b.release(r));
            }
        }
    }
}
