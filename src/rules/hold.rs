//! One request's weight on the board of loads: a reservation from the choice on, and the dispatch
//! under way (spec §6).
//!
//! Owns: that it follows each dispatch and is taken off before a wait. Leaves to others: the counts
//! (`reservations`), the order (`policy`), the lock and the guard (`state::scheduler`). The request
//! path and the dry `replay` both count with this.

use super::ids::NodeId;
use super::policy::{Ask, Selector};
use super::reservations::{Board, Load, Reservation};
use super::shortlist::Shortlist;

/// What one request counts, and where.
#[derive(Debug, Default)]
pub struct Hold {
    reservation: Option<Reservation>,
    running_on: Option<NodeId>,
}

impl Hold {
    /// Puts candidates from a place on in order and counts the request on the chosen one, in one step. What it
    /// reserved before is given back first. Returns the pool nodes that were taken out as full.
    pub fn choose(
        &mut self,
        selector: &mut Selector,
        board: &mut Board,
        ask: Ask,
        candidates: &mut Shortlist,
        from: usize,
    ) -> Vec<NodeId> {
        if let Some(old) = self.reservation.take() {
            board.release(old);
        }
        let (reservation, full) = selector.order_and_reserve(board, ask, candidates, from);
        self.reservation = reservation;
        full
    }

    /// Dispatched to this node: the reservation moves there. One that never was (a pin) does not
    /// begin here. Returns the node's load without this dispatch.
    pub fn dispatch(&mut self, board: &mut Board, node: &NodeId) -> Load {
        let before = board.load(node);
        let mine = self.reservation.as_ref().is_some_and(|r| r.node() == node);
        if let Some(r) = &mut self.reservation {
            board.move_to(r, node);
        }
        if self.running_on.as_ref() != Some(node) {
            if let Some(old) = self.running_on.take() {
                board.end(&old);
            }
            board.begin(node);
            self.running_on = Some(node.clone());
        }
        Load {
            reserved: before.reserved.saturating_sub(u64::from(mine)),
            ..before
        }
    }

    /// Whether it counts nowhere.
    pub fn is_empty(&self) -> bool {
        self.reservation.is_none() && self.running_on.is_none()
    }

    /// Nothing is running any more: before a wait, and at the end.
    pub fn release(&mut self, board: &mut Board) {
        if let Some(r) = self.reservation.take() {
            board.release(r);
        }
        if let Some(node) = self.running_on.take() {
            board.end(&node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_leaves_nothing_behind_whatever_it_did() {
        let (a, b) = (NodeId::from("a"), NodeId::from("b"));
        let mut board = Board::default();
        let mut hold = Hold {
            reservation: Some(board.take(&a)),
            running_on: None,
        };
        let own = hold.dispatch(&mut board, &a);
        assert_eq!(own, Load::default(), "its own count is not its load");
        hold.dispatch(&mut board, &b);
        let (on_a, on_b) = (board.load(&a), board.load(&b));
        assert_eq!((on_a.estimate(), on_b.reserved, on_b.in_flight), (0, 1, 1));
        assert!(!hold.is_empty());
        hold.release(&mut board);
        assert!(hold.is_empty());
        assert_eq!((board.load(&a), board.load(&b)), Default::default());
    }
}
