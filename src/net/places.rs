//! The places of clients as guards: whatever ends a connection frees its place.
//!
//! Owns: the lock around the account. Leaves to others: who gets a place (`rules::places`), what is
//! said to who does not (`facade::server`).

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::rules::places::{Entry, Limits, Places as Account};

/// The places of a process: all its facades share them, since they share its descriptors.
#[derive(Clone, Debug)]
pub struct Places(Arc<Mutex<Account>>);

/// What becomes of a new connection.
#[must_use]
#[derive(Debug)]
pub enum Admission {
    /// It is served.
    Granted(Place),
    /// It is not; who holds the farewell says so. `first` marks the first of a spell.
    Refused {
        /// Bounds how many are told at once.
        farewell: Farewell,
        /// Worth a line in the log.
        first: bool,
    },
    /// It is not, and is closed without a word.
    Dropped {
        /// Worth a line in the log.
        first: bool,
    },
}

impl Places {
    /// All of them free.
    pub fn new(limits: Limits) -> Self {
        Self(Arc::new(Mutex::new(Account::new(limits))))
    }

    /// What there is in all.
    pub fn limits(&self) -> Limits {
        self.lock().limits()
    }

    /// Takes in a connection from this address, or not.
    pub fn enter(&self, from: IpAddr) -> Admission {
        let entry = self.lock().enter(from);
        let places = self.clone();
        match entry {
            Entry::Granted => Admission::Granted(Place { places, from }),
            Entry::Refused { first } => Admission::Refused {
                farewell: Farewell(places),
                first,
            },
            Entry::Dropped { first } => Admission::Dropped { first },
        }
    }

    fn lock(&self) -> MutexGuard<'_, Account> {
        // Counts are whole between any two statements of the account.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's place, while it lives.
#[derive(Debug)]
pub struct Place {
    places: Places,
    from: IpAddr,
}

impl Place {
    /// Room for this connection's handshake; `None` if too many are under way.
    pub fn shake(&self) -> Option<Handshake> {
        let begins = self.places.lock().shake(self.from);
        // Made only if it begins: dropped, it would end one.
        begins.then(|| Handshake {
            places: self.places.clone(),
            from: self.from,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().leave(self.from);
    }
}

/// A handshake under way.
#[derive(Debug)]
pub struct Handshake {
    places: Places,
    from: IpAddr,
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.places.lock().shaken(self.from);
    }
}

/// The right to be told that there is no place.
#[derive(Debug)]
pub struct Farewell(Places);

impl Drop for Farewell {
    fn drop(&mut self) {
        self.0.lock().told();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_return_what_they_hold() {
        let here = IpAddr::from([127, 0, 0, 1]);
        let places = Places::new(Limits::of(Some(0)));
        let Admission::Granted(place) = places.enter(here) else {
            panic!("one place");
        };
        let shaking = place.shake().unwrap();
        assert!(place.shake().is_none());
        drop(shaking);
        assert!(place.shake().is_some());
        let refused = places.enter(here);
        assert!(matches!(refused, Admission::Refused { first: true, .. }));
        drop((refused, place));
        assert!(matches!(places.enter(here), Admission::Granted(_)));
        assert_eq!(places.lock().connections(), 0);
    }
}
