//! The load of nodes as we know it: the scheduler's counts plus our own dispatches since its last
//! snapshot (spec §6).
//!
//! Owns: the board of loads, taking, moving and releasing, and a node's seat on it. Leaves to others:
//! who is chosen (`policy`), the lock (`state`).
//!
//! A snapshot supersedes every reservation taken before it: its pending counts include that work.
//! So a release under an older generation is dropped; applying it would drive the load below zero,
//! which reads as idle for ever.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::ids::{Generation, NodeId};

/// Load of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Jobs the scheduler knows of.
    pub pending: u64,
    /// GPU pressure, 0 to 3.
    pub pressure: u64,
    /// Our dispatches since its snapshot.
    pub reserved: u64,
    /// Our dispatches under way now, whatever snapshot they began under.
    pub in_flight: u64,
}

impl Load {
    /// What the spec estimates: pending + pressure + reservations.
    pub fn estimate(&self) -> u64 {
        self.pending + self.pressure + self.reserved
    }
}

/// A node's place on the board. Selection looks at every candidate of every request, so that it goes
/// by number and not by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Seat(u32);

impl Seat {
    /// The number, dense from 0.
    pub fn index(&self) -> usize {
        self.0 as usize
    }
}

/// Above so many seats, those of nodes that are gone are given up.
const SEATS_KEPT: usize = 1024;

/// One dispatch counted on a node, stamped with the generation it was counted against.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a reservation that is not released counts for ever"]
pub struct Reservation {
    node: NodeId,
    stamp: Generation,
}

impl Reservation {
    /// The node it counts on.
    pub fn node(&self) -> &NodeId {
        &self.node
    }
}

/// Loads of all nodes, the scheduler's list and its generation.
#[derive(Clone, Debug, Default)]
pub struct Board {
    generation: Generation,
    /// Best first, as received.
    priority: Vec<NodeId>,
    /// Position in that list.
    rank: FxHashMap<NodeId, usize>,
    seats: FxHashMap<NodeId, Arc<Seat>>,
    /// By seat.
    loads: Vec<Load>,
    /// Seats that were given up.
    vacant: Vec<u32>,
}

impl Board {
    /// Last applied generation.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// The scheduler's list, best first.
    pub fn priority(&self) -> &[NodeId] {
        &self.priority
    }

    /// Position of a node in the scheduler's list.
    pub fn rank(&self, node: &NodeId) -> Option<usize> {
        self.rank.get(node).copied()
    }

    /// Load of a node; one that nobody mentioned has none.
    pub fn load(&self, node: &NodeId) -> Load {
        let seat = self.seats.get(node);
        seat.map_or_else(Load::default, |seat| self.load_at(seat))
    }

    /// The same by its seat.
    pub fn load_at(&self, seat: &Seat) -> Load {
        self.load_by(seat.index())
    }

    /// The same by its seat's number.
    pub(super) fn load_by(&self, number: usize) -> Load {
        self.loads.get(number).copied().unwrap_or_default()
    }

    /// The seat of a node, taken for it if it has none. It stays the node's as long as somebody holds
    /// it or something is counted there.
    pub fn seat(&mut self, node: &NodeId) -> Arc<Seat> {
        match self.seats.get(node) {
            Some(seat) => seat.clone(),
            None => self.seat_new(node),
        }
    }

    fn seat_new(&mut self, node: &NodeId) -> Arc<Seat> {
        if self.seats.len() >= SEATS_KEPT && self.vacant.is_empty() {
            self.give_up_seats();
        }
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.loads.push(Load::default());
            (self.loads.len() - 1) as u32
        });
        let seat = Arc::new(Seat(number));
        self.seats.insert(node.clone(), seat.clone());
        seat
    }

    /// Node ids come from outside, and the process runs for weeks.
    fn give_up_seats(&mut self) {
        let (loads, vacant) = (&self.loads, &mut self.vacant);
        self.seats.retain(|_, seat| {
            let kept = Arc::strong_count(seat) > 1 || loads[seat.index()] != Load::default();
            if !kept {
                vacant.push(seat.0);
            }
            kept
        });
    }

    /// Applies a snapshot if its generation is newer, and says whether it did. A redelivered one
    /// changes nothing: it must not clear live reservations.
    pub fn apply(
        &mut self,
        generation: Generation,
        nodes: Vec<NodeId>,
        ranks: impl IntoIterator<Item = (NodeId, u64, u64)>,
    ) -> bool {
        if generation <= self.generation {
            return false;
        }
        self.generation = generation;
        self.rank = FxHashMap::with_capacity_and_hasher(nodes.len(), Default::default());
        for (position, node) in nodes.iter().enumerate() {
            self.rank.entry(node.clone()).or_insert(position);
        }
        self.priority = nodes;
        for load in &mut self.loads {
            *load = Load {
                in_flight: load.in_flight,
                ..Load::default()
            };
        }
        for (node, pending, pressure) in ranks {
            let load = self.load_mut(&node);
            (load.pending, load.pressure) = (pending, pressure.min(3));
        }
        true
    }

    /// The same without anything of ours: the scheduler's list and counts, as a replay starts from
    /// them. Live requests would count for ever there, since their ends are not recorded yet.
    pub fn without_ours(&self) -> Self {
        let mut board = self.clone();
        for load in &mut board.loads {
            (load.reserved, load.in_flight) = (0, 0);
        }
        board
    }

    /// Counts a dispatch on a node.
    pub fn take(&mut self, node: &NodeId) -> Reservation {
        self.add(node);
        Reservation {
            node: node.clone(),
            stamp: self.generation,
        }
    }

    /// Moves a dispatch to the node that really got it. Across generations the old count is gone
    /// already, so only the new one is made.
    pub fn move_to(&mut self, reservation: &mut Reservation, node: &NodeId) {
        if reservation.node == *node {
            return;
        }
        self.sub(reservation);
        self.add(node);
        reservation.node = node.clone();
        reservation.stamp = self.generation;
    }

    /// Takes a dispatch off again.
    pub fn release(&mut self, reservation: Reservation) {
        self.sub(&reservation);
    }

    /// A dispatch to this node began.
    pub fn begin(&mut self, node: &NodeId) {
        self.load_mut(node).in_flight += 1;
    }

    /// A dispatch to this node ended.
    pub fn end(&mut self, node: &NodeId) {
        let load = self.load_mut(node);
        load.in_flight = load.in_flight.saturating_sub(1);
    }

    fn add(&mut self, node: &NodeId) {
        self.load_mut(node).reserved += 1;
    }

    fn sub(&mut self, reservation: &Reservation) {
        if reservation.stamp != self.generation {
            return;
        }
        let load = self.load_mut(&reservation.node);
        load.reserved = load.reserved.saturating_sub(1);
    }

    fn load_mut(&mut self, node: &NodeId) -> &mut Load {
        let number = match self.seats.get(node) {
            Some(seat) => seat.index(),
            None => self.seat_new(node).index(),
        };
        &mut self.loads[number]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(n: u8) -> NodeId {
        NodeId::from(((b'a' + n) as char).to_string())
    }

    fn board(nodes: &[&str], ranks: &[(&str, u64, u64)]) -> Board {
        let mut b = Board::default();
        let ranks = ranks.iter().map(|(n, p, g)| (NodeId::from(*n), *p, *g));
        assert!(b.apply(
            Generation(1),
            nodes.iter().map(|n| NodeId::from(*n)).collect(),
            ranks
        ));
        b
    }

    #[test]
    fn a_redelivered_snapshot_keeps_live_reservations() {
        let mut b = board(&["a"], &[("a", 2, 9)]);
        let r = b.take(&id(0));
        assert_eq!(b.load(&id(0)).estimate(), 2 + 3 + 1);
        assert!(!b.apply(Generation(1), vec![], []));
        assert_eq!(b.load(&id(0)).reserved, 1);
        assert!(b.apply(Generation(2), vec![], []));
        assert_eq!(
            b.load(&id(0)).estimate(),
            0,
            "a snapshot supersedes everything before it"
        );
        b.release(r);
        assert_eq!(b.load(&id(0)).estimate(), 0, "a late release is dropped");
    }

    #[test]
    fn a_move_across_generations_counts_once() {
        let mut b = board(&["a", "b"], &[]);
        let mut r = b.take(&id(0));
        assert!(b.apply(Generation(2), vec![id(0), id(1)], []));
        b.move_to(&mut r, &id(1));
        assert_eq!((b.load(&id(0)).reserved, b.load(&id(1)).reserved), (0, 1));
        b.release(r);
        assert_eq!(b.load(&id(1)).reserved, 0);
    }

    #[test]
    fn moving_to_the_same_node_changes_nothing() {
        let mut b = board(&["a"], &[]);
        let mut r = b.take(&id(0));
        assert!(b.apply(Generation(2), vec![], []));
        b.move_to(&mut r, &id(0));
        assert_eq!(b.load(&id(0)).reserved, 0);
        b.release(r);
        assert_eq!(b.load(&id(0)).reserved, 0);
    }

    #[test]
    fn in_flight_survives_snapshots() {
        let mut b = board(&["a"], &[]);
        b.begin(&id(0));
        assert!(b.apply(Generation(2), vec![], []));
        assert_eq!(b.load(&id(0)).in_flight, 1);
        b.end(&id(0));
        b.end(&id(0));
        assert_eq!(b.load(&id(0)), Load::default());
    }

    #[test]
    fn seats_of_nodes_that_are_gone_are_given_up() {
        let mut b = Board::default();
        let held = b.seat(&"held".into());
        b.begin(&"busy".into());
        for n in 0..10 * SEATS_KEPT {
            drop(b.seat(&format!("n{n}").into()));
        }
        assert!(b.loads.len() <= SEATS_KEPT + 1, "{}", b.loads.len());
        assert_eq!(b.seat(&"held".into()), held);
        assert_eq!(b.load(&"busy".into()).in_flight, 1);
        // A seat that another had begins empty.
        assert_eq!(
            b.load_at(&b.seats[&NodeId::from("held")].clone()),
            Load::default()
        );
    }

    proptest! {
        /// Against a plain model: counts per node of reservations taken or moved under the present
        /// generation.
        #[test]
        fn counts_match_a_plain_model_and_return_to_zero(
            steps in prop::collection::vec((0u8..4, 0u8..4, 0usize..8), 0..200)
        ) {
            let mut b = Board::default();
            let mut held: Vec<Reservation> = vec![];
            let mut stamps: Vec<(NodeId, u64)> = vec![];
            let mut generation = 0;
            for (step, node, pick) in steps {
                match step {
                    0 => {
                        held.push(b.take(&id(node)));
                        stamps.push((id(node), generation));
                    },
                    1 if !held.is_empty() => {
                        let i = pick % held.len();
                        b.release(held.remove(i));
                        stamps.remove(i);
                    },
                    2 if !held.is_empty() => {
                        let i = pick % held.len();
                        b.move_to(&mut held[i], &id(node));
                        if stamps[i].0 != id(node) {
                            stamps[i] = (id(node), generation);
                        }
                    },
                    3 => {
                        generation += 1;
                        prop_assert!(b.apply(Generation(generation), vec![id(node)], []));
                    },
                    _ => {},
                }
                for n in 0..4 {
                    let want = stamps.iter().filter(|(i, g)| *i == id(n) && *g == generation).count();
                    prop_assert_eq!(b.load(&id(n)).reserved, want as u64);
                }
            }
            for r in held {
                b.release(r);
            }
            for n in 0..4 {
                prop_assert_eq!(b.load(&id(n)).reserved, 0);
            }
        }
    }
}
