//! The numbers of connections.
//!
//! Owns: who may be connected, and whose connection stays after its call. Leaves to others: accepting
//! and closing (`accept`), whose key it is (`gate`).
//!
//! Whoever comes is counted by its address until it has shown a key, then by the key: a fleet behind
//! one address is a connection a worker, and a stranger has no more of them by keeping them open. What a
//! key has beyond its two counts as a stranger's. Where a fleet has all the connections that may stay,
//! whoever else belongs to it is answered all the same, and the connection ends with the answer.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Connections at once of whoever has shown no key yet.
const STRANGERS: usize = 1024;

/// Those of one address: one host cannot keep the others out.
const FROM_ONE: usize = 128;

/// Connections that are counted by one key: its worker's, and one that is not known to be dead yet.
const OF_KEY: usize = 2;

/// Who is connected.
pub(super) struct Seats {
    /// Connections that stay, at most.
    staying: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    strangers: HashMap<IpAddr, usize>,
    stranger_count: usize,
    keys: HashMap<String, usize>,
    key_count: usize,
}

/// By what a connection is counted.
enum By {
    Address(IpAddr),
    Key(String),
}

/// One connection's right to be.
pub(super) struct Seat {
    seats: Arc<Seats>,
    by: Mutex<By>,
}

impl Seats {
    /// All free; so many connections of known keys may stay.
    pub(super) fn new(staying: usize) -> Self {
        Self {
            staying,
            taken: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// For a connection from this address; `None` = it has as many as it may.
    pub(super) fn take(seats: &Arc<Seats>, peer: IpAddr) -> Option<Self> {
        let mut taken = seats.lock();
        let own = taken.strangers.get(&peer).copied().unwrap_or(0);
        if taken.stranger_count >= STRANGERS || own >= FROM_ONE {
            return None;
        }
        taken.strangers.insert(peer, own + 1);
        taken.stranger_count += 1;
        drop(taken);
        Some(Self {
            seats: seats.clone(),
            by: Mutex::new(By::Address(peer)),
        })
    }

    /// Whether the connection may go on after a call that showed the key of this name.
    pub(super) fn stay(&self, key: &str) -> bool {
        let mut by = self.by.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(&*by, By::Key(own) if own == key) {
            return true;
        }
        let mut taken = self.seats.lock();
        let own = taken.keys.get(key).copied().unwrap_or(0);
        if own >= OF_KEY {
            return true;
        }
        if taken.key_count >= self.seats.staying {
            return false;
        }
        taken.keys.insert(key.to_owned(), own + 1);
        taken.key_count += 1;
        let before = std::mem::replace(&mut *by, By::Key(key.to_owned()));
        taken.free(&before);
        true
    }
}

impl Taken {
    fn free(&mut self, by: &By) {
        match by {
            By::Address(peer) => {
                less(&mut self.strangers, peer);
                self.stranger_count -= 1;
            },
            By::Key(key) => {
                less(&mut self.keys, key);
                self.key_count -= 1;
            },
        }
    }
}

/// One fewer; who has none is not remembered.
fn less<K, Q>(counts: &mut HashMap<K, usize>, whose: &Q)
where
    K: std::borrow::Borrow<Q> + std::hash::Hash + Eq,
    Q: std::hash::Hash + Eq + ?Sized,
{
    match counts.get_mut(whose) {
        Some(own) if *own > 1 => *own -= 1,
        _ => {
            counts.remove(whose);
        },
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let by = self.by.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.seats.lock().free(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn at(n: u16) -> IpAddr {
        IpAddr::from(Ipv4Addr::from(0x0a00_0000 + u32::from(n)))
    }

    fn is_empty(seats: &Seats) -> bool {
        let taken = seats.lock();
        taken.strangers.is_empty()
            && taken.keys.is_empty()
            && (taken.stranger_count, taken.key_count) == (0, 0)
    }

    #[test]
    fn one_address_cannot_take_every_seat_and_all_come_back() {
        let seats = Arc::new(Seats::new(0));
        let mut held: Vec<_> = (0..FROM_ONE)
            .filter_map(|_| Seat::take(&seats, at(0)))
            .collect();
        assert_eq!(held.len(), FROM_ONE);
        assert!(Seat::take(&seats, at(0)).is_none());
        held.extend((1..2_000).filter_map(|n| Seat::take(&seats, at(n))));
        assert_eq!(held.len(), STRANGERS);
        assert!(!held[0].stay("k"), "none may stay");
        held.clear();
        assert!(is_empty(&seats));
    }

    #[test]
    fn known_keys_leave_room_for_others_of_their_address_and_have_two_each() {
        let seats = Arc::new(Seats::new(500));
        let come = |key: &str| {
            let seat = Seat::take(&seats, at(0)).unwrap();
            seat.stay(key).then_some(seat)
        };
        let mut held: Vec<_> = (0..200).filter_map(|n| come(&format!("k{n}"))).collect();
        assert_eq!(held.len(), 200);
        assert!(held[7].stay("k7"), "call after call");
        held.push(come("k7").unwrap());
        assert_eq!(seats.lock().stranger_count, 0);
        held.push(come("k7").unwrap());
        assert_eq!(seats.lock().stranger_count, 1, "the third is a stranger's");
        assert_eq!(seats.lock().key_count, 201);
        drop(held.pop());
        // Another key on the same connection counts for itself.
        assert!(held[8].stay("other") && held[8].stay("k8"));
        held.extend((200..1_000).filter_map(|n| come(&format!("k{n}"))));
        assert_eq!(held.len(), 500, "no more of them stay");
        assert!(seats.lock().strangers.is_empty());
        held.clear();
        assert!(is_empty(&seats));
    }
}
