//! This machine's addresses (data plane 3.4).
//!
//! Owns: which there are, as of the last look. Leaves to others: when to look (`daemon`).

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

/// Addresses of the local interfaces, loopback aside: those are nobody else's anyway.
#[derive(Default)]
pub struct Interfaces {
    addresses: RwLock<BTreeSet<IpAddr>>,
    generation: AtomicU64,
}

impl Interfaces {
    /// The addresses of this moment.
    pub fn read() -> Self {
        let interfaces = Self::default();
        interfaces.refresh();
        interfaces
    }

    /// Looks again. What cannot be read stays as it was.
    pub fn refresh(&self) {
        let Ok(found) = if_addrs::get_if_addrs() else {
            return;
        };
        let found = found.iter().map(|i| i.ip().to_canonical());
        self.replace(found.filter(|ip| !ip.is_loopback()).collect());
    }

    fn replace(&self, found: BTreeSet<IpAddr>) {
        let mut known = self
            .addresses
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if *known != found {
            *known = found;
            self.generation.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether an address is one of them.
    pub fn has(&self, ip: IpAddr) -> bool {
        let known = self
            .addresses
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        known.contains(&ip.to_canonical())
    }

    /// All of them.
    pub fn list(&self) -> Vec<IpAddr> {
        let known = self
            .addresses
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        known.iter().copied().collect()
    }

    /// Those that a listener can be bound to by the address alone. An IPv6 address of one link is not
    /// among them: it says nothing without its link.
    pub fn bindable(&self) -> Vec<IpAddr> {
        let one_link = |ip: &IpAddr| matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
        self.list().into_iter().filter(|ip| !one_link(ip)).collect()
    }

    /// Counts the changes that were found.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_left_out_and_a_change_counts_once() {
        let interfaces = Interfaces::read();
        assert!(!interfaces.has([127, 0, 0, 1].into()));
        let before = interfaces.generation();
        interfaces.refresh();
        assert_eq!(interfaces.generation(), before);
        let lan: IpAddr = [192, 0, 2, 7].into();
        interfaces.replace([lan].into());
        assert!(interfaces.has(lan) && interfaces.has("::ffff:192.0.2.7".parse().unwrap()));
        assert_eq!(interfaces.list(), [lan]);
        interfaces.replace([lan, "fe80::1".parse().unwrap()].into());
        assert_eq!(interfaces.bindable(), [lan]);
        interfaces.replace([lan].into());
        assert_eq!(interfaces.generation(), before + 3);
    }
}
