//! Which of a node's addresses is known to answer (data plane 3.4).
//!
//! Owns: the cache and its generations. Leaves to others: dialling (`net::confirm`), the ranking
//! (`rules::addresses`).
//!
//! The request path never dials to find out: it takes the settled address or the best-ranked one,
//! and one confirmation per node runs in the background.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::rules::ids::NodeId;

/// After a confirmation that reached nothing, the next one waits this long.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// One confirmation to be made: connect to all, report the best-ranked that accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirmation {
    /// The node.
    pub node: NodeId,
    /// Its addresses, best first.
    pub addresses: Vec<String>,
    /// Its port.
    pub port: u16,
    /// Handed back with the result, so that a forgotten one is told apart.
    pub ticket: u64,
}

#[derive(Debug)]
enum Entry {
    Settled(String),
    /// Nothing is known; `ticket` is the confirmation under way.
    Probing(u64),
    /// The last confirmation reached nothing.
    Failed(Instant),
}

/// The settled addresses of one facade's nodes.
#[derive(Debug, Default)]
pub struct Confirmed {
    entries: HashMap<NodeId, Entry>,
    tickets: u64,
}

impl Confirmed {
    /// The address to use now, of these (best first): the settled one if the node still lists it,
    /// else the best-ranked.
    pub fn choose(&self, node: &NodeId, ranked: &[String]) -> Option<String> {
        if let Some(Entry::Settled(address)) = self.entries.get(node)
            && ranked.contains(address)
        {
            return Some(address.clone());
        }
        ranked.first().cloned()
    }

    /// Whether a confirmation would tell anything: several addresses, none settled.
    pub fn is_open(&self, node: &NodeId, ranked: &[String]) -> bool {
        ranked.len() > 1
            && !matches!(self.entries.get(node), Some(Entry::Settled(a)) if ranked.contains(a))
    }

    /// Starts a confirmation, unless one runs or has just failed.
    pub fn begin(
        &mut self,
        node: &NodeId,
        ranked: Vec<String>,
        port: u16,
        now: Instant,
    ) -> Option<Confirmation> {
        if !self.is_open(node, &ranked) {
            return None;
        }
        match self.entries.get(node) {
            Some(Entry::Probing(_)) => return None,
            Some(Entry::Failed(at)) if now.duration_since(*at) < RETRY_AFTER => return None,
            _ => {},
        }
        self.tickets += 1;
        self.entries
            .insert(node.clone(), Entry::Probing(self.tickets));
        Some(Confirmation {
            node: node.clone(),
            addresses: ranked,
            port,
            ticket: self.tickets,
        })
    }

    /// Takes a confirmation's result; one that was forgotten meanwhile is discarded. Says whether
    /// anything changed.
    pub fn settle(&mut self, c: &Confirmation, answered: Option<String>, now: Instant) -> bool {
        if !matches!(self.entries.get(&c.node), Some(Entry::Probing(t)) if *t == c.ticket) {
            return false;
        }
        let entry = match answered {
            Some(address) => Entry::Settled(address),
            None => Entry::Failed(now),
        };
        self.entries.insert(c.node.clone(), entry);
        true
    }

    /// Forgets a node's address after a transport failure, and with it any confirmation under way.
    pub fn forget(&mut self, node: &NodeId) {
        self.entries.remove(node);
    }

    /// Drops entries of nodes that are gone.
    pub fn retain(&mut self, known: impl Fn(&NodeId) -> bool) {
        self.entries.retain(|node, _| known(node));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranked(a: &[&str]) -> Vec<String> {
        a.iter().map(|s| s.to_string()).collect()
    }

    #[test]
    fn a_settled_address_outlives_a_new_ranking_but_not_its_removal() {
        let (mut c, n, now) = (Confirmed::default(), NodeId::from("n"), Instant::now());
        let both = ranked(&["a", "b"]);
        assert_eq!(c.choose(&n, &both).as_deref(), Some("a"));
        let job = c.begin(&n, both.clone(), 1, now).unwrap();
        assert!(c.begin(&n, both.clone(), 1, now).is_none(), "one at a time");
        assert!(c.settle(&job, Some("b".into()), now));
        assert_eq!(
            c.choose(&n, &ranked(&["c", "a", "b"])).as_deref(),
            Some("b")
        );
        assert_eq!(c.choose(&n, &ranked(&["c", "a"])).as_deref(), Some("c"));
        assert!(
            c.begin(&n, both, 1, now).is_none(),
            "settled never expires by time"
        );
    }

    #[test]
    fn a_forgotten_confirmation_is_discarded_when_it_lands() {
        let (mut c, n, now) = (Confirmed::default(), NodeId::from("n"), Instant::now());
        let both = ranked(&["a", "b"]);
        let job = c.begin(&n, both.clone(), 1, now).unwrap();
        c.forget(&n);
        assert!(!c.settle(&job, Some("b".into()), now));
        assert_eq!(c.choose(&n, &both).as_deref(), Some("a"));
    }

    #[test]
    fn a_failed_confirmation_is_not_repeated_for_five_seconds() {
        let (mut c, n, now) = (Confirmed::default(), NodeId::from("n"), Instant::now());
        let both = ranked(&["a", "b"]);
        let job = c.begin(&n, both.clone(), 1, now).unwrap();
        assert!(c.settle(&job, None, now));
        assert!(
            c.begin(&n, both.clone(), 1, now + Duration::from_secs(4))
                .is_none()
        );
        assert!(c.begin(&n, both, 1, now + Duration::from_secs(5)).is_some());
    }

    #[test]
    fn a_single_address_needs_no_confirmation() {
        let mut c = Confirmed::default();
        assert!(
            c.begin(&"n".into(), ranked(&["a"]), 1, Instant::now())
                .is_none()
        );
    }
}
