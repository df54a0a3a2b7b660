//! How many clients may be connected at once, and who is turned away (product section 10).
//!
//! Owns: the shares and the account of who holds a place. Leaves to others: the lock around it and the
//! answer to who is turned away (`net::places`, `facade::server`).
//!
//! A process out of descriptors can neither answer nor reach an engine, so it refuses before it is
//! out. Others on the network need no more than an open port to hold connections: they get a part of
//! the places, each address a part of that, so that neither this machine's own clients nor a peer is
//! locked out by them.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Most connections, whatever the system allows: beyond it memory is the shortage.
const CEILING: usize = 65_536;

/// Bounds of what is kept for ourselves: listeners, the control socket and who follows it, files,
/// idle connections to engines, requests that go to all nodes at once.
const OWN: std::ops::RangeInclusive<u64> = 32..=1024;

/// Most handshakes at once: each costs some 20 kB and a signature.
const HANDSHAKES: usize = 256;

/// What a process can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections from clients.
    pub connections: usize,
    /// Connections from beyond this machine, among them.
    pub remote: usize,
    /// Connections from one address beyond this machine, among those.
    pub address: usize,
    /// Handshakes under way.
    pub handshakes: usize,
    /// Handshakes with one address beyond this machine, among them.
    pub address_handshakes: usize,
    /// Clients that are being told that there is no place; more are told nothing.
    pub farewells: usize,
}

impl Limits {
    /// For a process that may have so many open descriptors; `None` = any number.
    ///
    /// A client that is served holds two: its own and its engine's.
    pub fn of(descriptors: Option<u64>) -> Self {
        let ceiling = CEILING as u64;
        let all = descriptors.unwrap_or(u64::MAX).min(4 * ceiling);
        let own = (all / 4).clamp(*OWN.start(), *OWN.end());
        let connections = (all.saturating_sub(own) / 2).clamp(1, ceiling) as usize;
        let part = |whole: usize, n: usize| (whole / n).max(1);
        let handshakes = part(connections, 4).min(HANDSHAKES);
        Self {
            connections,
            remote: part(connections, 2),
            address: part(connections, 4),
            handshakes,
            address_handshakes: part(handshakes, 4),
            farewells: (own / 8) as usize,
        }
    }
}

/// What becomes of a new connection.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It has a place.
    Granted,
    /// It has none, and is told so.
    Refused {
        /// The first one since places were last plenty: worth a line in the log.
        first: bool,
    },
    /// It has none, and there are too many of those already to tell them all.
    Dropped {
        /// As above.
        first: bool,
    },
}

/// What one address beyond this machine holds.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    connections: usize,
    handshakes: usize,
}

/// Who holds a place.
#[derive(Debug)]
pub struct Places {
    limits: Limits,
    connections: usize,
    remote: usize,
    handshakes: usize,
    farewells: usize,
    addresses: BTreeMap<IpAddr, Held>,
    /// Somebody was turned away, and places have not been plenty since.
    is_full: bool,
}

impl Places {
    /// All of them free.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            connections: 0,
            remote: 0,
            handshakes: 0,
            farewells: 0,
            addresses: BTreeMap::new(),
            is_full: false,
        }
    }

    /// What there is in all.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Connections that hold a place.
    pub fn connections(&self) -> usize {
        self.connections
    }

    /// A connection comes. What it is given has to be returned: a place by [`Places::leave`], a
    /// refusal by [`Places::told`], a drop by nothing.
    pub fn enter(&mut self, from: IpAddr) -> Entry {
        let limits = self.limits;
        let free = self.connections < limits.connections
            && remote(from).is_none_or(|address| {
                let held = self.addresses.get(&address).copied().unwrap_or_default();
                self.remote < limits.remote && held.connections < limits.address
            });
        if free {
            self.connections += 1;
            if let Some(address) = remote(from) {
                self.remote += 1;
                self.addresses.entry(address).or_default().connections += 1;
            }
            return Entry::Granted;
        }
        let first = !std::mem::replace(&mut self.is_full, true);
        if self.farewells < limits.farewells {
            self.farewells += 1;
            Entry::Refused { first }
        } else {
            Entry::Dropped { first }
        }
    }

    /// A connection that had a place is over.
    pub fn leave(&mut self, from: IpAddr) {
        self.connections = self.connections.saturating_sub(1);
        if let Some(address) = remote(from) {
            self.remote = self.remote.saturating_sub(1);
            self.changed(address, |held| {
                held.connections = held.connections.saturating_sub(1);
            });
        }
        // Around the limit one client that comes and goes must not fill the log.
        if self.connections <= self.limits.connections / 4 * 3 {
            self.is_full = false;
        }
    }

    /// Somebody without a place was told so.
    pub fn told(&mut self) {
        self.farewells = self.farewells.saturating_sub(1);
    }

    /// A handshake begins; false if too many are under way. One that began has to be ended by
    /// [`Places::shaken`].
    pub fn shake(&mut self, from: IpAddr) -> bool {
        let limits = self.limits;
        let free = self.handshakes < limits.handshakes
            && remote(from).is_none_or(|address| {
                let held = self.addresses.get(&address).copied().unwrap_or_default();
                held.handshakes < limits.address_handshakes
            });
        if free {
            self.handshakes += 1;
            if let Some(address) = remote(from) {
                self.addresses.entry(address).or_default().handshakes += 1;
            }
        }
        free
    }

    /// A handshake is over, however it ended.
    pub fn shaken(&mut self, from: IpAddr) {
        self.handshakes = self.handshakes.saturating_sub(1);
        if let Some(address) = remote(from) {
            self.changed(address, |held| {
                held.handshakes = held.handshakes.saturating_sub(1);
            });
        }
    }

    /// Nothing is remembered of an address that holds nothing.
    fn changed(&mut self, address: IpAddr, change: impl FnOnce(&mut Held)) {
        if let Some(held) = self.addresses.get_mut(&address) {
            change(held);
            if held.connections == 0 && held.handshakes == 0 {
                self.addresses.remove(&address);
            }
        }
    }
}

/// The address that shares are counted by; `None` = this machine. A machine has 2^64 addresses of
/// IPv6 to itself, so there the network counts.
fn remote(from: IpAddr) -> Option<IpAddr> {
    match from.to_canonical() {
        ip if ip.is_loopback() => None,
        IpAddr::V6(ip) => {
            let network = u128::from(ip) >> 64 << 64;
            Some(IpAddr::V6(network.into()))
        },
        v4 => Some(v4),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn away(n: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, n])
    }

    fn filled(places: &mut Places, from: IpAddr) -> usize {
        (0..)
            .take_while(|_| places.enter(from) == Entry::Granted)
            .count()
    }

    #[test]
    fn every_client_can_have_an_engine_and_something_is_left_for_ourselves() {
        for limit in [40, 64, 128, 256, 1024, 4096, 20_000, 524_288, 1 << 40] {
            let limits = Limits::of(Some(limit));
            assert!(2 * limits.connections as u64 + 32 <= limit, "{limit}");
            assert!(limits.connections >= 1 && limits.remote <= limits.connections);
            assert!(limits.address <= limits.remote && limits.handshakes <= limits.connections);
            assert!(limits.farewells as u64 <= 128, "{limit}");
        }
        assert_eq!(Limits::of(Some(64)).connections, 16);
        assert_eq!(Limits::of(Some(1024)).connections, 384);
        assert_eq!(Limits::of(Some(20_000)).connections, 9488);
        assert_eq!(Limits::of(None).connections, CEILING);
        assert_eq!(Limits::of(Some(0)).connections, 1, "never none");
    }

    #[test]
    fn a_place_is_free_again_when_its_client_leaves() {
        let mut places = Places::new(Limits::of(Some(64)));
        assert_eq!(filled(&mut places, HERE), 16);
        assert_ne!(places.enter(HERE), Entry::Granted);
        places.leave(HERE);
        assert_eq!(places.enter(HERE), Entry::Granted);
        assert_ne!(places.enter(HERE), Entry::Granted);
    }

    #[test]
    fn strangers_lock_out_neither_this_machine_nor_each_other() {
        let mut places = Places::new(Limits::of(Some(64)));
        assert_eq!(filled(&mut places, away(1)), 4);
        assert_eq!(filled(&mut places, away(2)), 4);
        assert_eq!(filled(&mut places, away(3)), 0);
        assert_eq!(filled(&mut places, HERE), 8);
        places.leave(away(1));
        assert_eq!(places.enter(away(3)), Entry::Granted);
    }

    #[test]
    fn addresses_of_one_network_of_ipv6_are_one() {
        let mut places = Places::new(Limits::of(Some(64)));
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(filled(&mut places, ip("fd00::1")), 4);
        assert_eq!(filled(&mut places, ip("fd00::2:3")), 0);
        assert_eq!(filled(&mut places, ip("fd00:0:0:1::1")), 4);
        assert_eq!(filled(&mut places, ip("::ffff:127.0.0.1")), 8, "ourselves");
    }

    #[test]
    fn so_many_are_told_and_the_first_of_a_spell_is_marked() {
        let mut places = Places::new(Limits::of(Some(64)));
        filled(&mut places, HERE);
        // `filled` met the first of them.
        let refusals: Vec<_> = (0..5).map(|_| places.enter(HERE)).collect();
        let told = refusals.iter();
        let told = told.filter(|e| matches!(e, Entry::Refused { .. })).count();
        assert_eq!(told, 3, "four in all");
        assert_eq!(refusals[4], Entry::Dropped { first: false });
        places.told();
        assert_eq!(places.enter(HERE), Entry::Refused { first: false });
        places.leave(HERE);
        assert_eq!(places.enter(HERE), Entry::Granted);
        assert_eq!(places.enter(HERE), Entry::Dropped { first: false });
        for _ in 0..4 {
            places.leave(HERE);
        }
        assert_eq!(filled(&mut places, HERE), 4);
        places.told();
        let Entry::Refused { first } = places.enter(HERE) else {
            panic!("told");
        };
        assert!(!first, "`filled` met the first of the second spell");
    }

    #[test]
    fn handshakes_have_shares_too() {
        let mut places = Places::new(Limits::of(Some(1024)));
        let limits = places.limits();
        assert_eq!((limits.handshakes, limits.address_handshakes), (96, 24));
        let begun = |places: &mut Places, from| (0..).take_while(|_| places.shake(from)).count();
        assert_eq!(begun(&mut places, away(1)), 24);
        assert_eq!(begun(&mut places, HERE), 72);
        assert!(!places.shake(away(2)));
        places.shaken(away(1));
        assert!(places.shake(away(2)));
    }

    proptest! {
        #[test]
        fn nothing_is_left_behind_when_all_have_left(
            steps in prop::collection::vec((0u8..6, 0u8..4), 0..200),
        ) {
            let mut places = Places::new(Limits::of(Some(64)));
            let (mut held, mut told, mut shaking) = (Vec::new(), 0, Vec::new());
            for (what, who) in steps {
                let from = if who == 0 { HERE } else { away(who) };
                match what {
                    0..3 => match places.enter(from) {
                        Entry::Granted => held.push(from),
                        Entry::Refused { .. } => told += 1,
                        Entry::Dropped { .. } => {},
                    },
                    3 => if let Some(from) = held.pop() { places.leave(from) },
                    4 => if places.shake(from) { shaking.push(from) },
                    _ => if let Some(from) = shaking.pop() { places.shaken(from) },
                }
                prop_assert!(places.connections() == held.len());
                prop_assert!(held.len() <= places.limits().connections);
                let remote = held.iter().filter(|ip| !ip.is_loopback()).count();
                prop_assert!(remote <= places.limits().remote);
            }
            held.into_iter().for_each(|from| places.leave(from));
            shaking.into_iter().for_each(|from| places.shaken(from));
            (0..told).for_each(|_| places.told());
            prop_assert!(places.addresses.is_empty());
            prop_assert_eq!((places.connections, places.remote), (0, 0));
            prop_assert_eq!((places.handshakes, places.farewells), (0, 0));
        }
    }
}
