//! A facade's nodes as they were told to us, and what changed between two snapshots.
//!
//! Owns: the node and the comparison. Leaves to others: decoding a directory record (`state`), who
//! can be reached (`candidates`).

use std::collections::BTreeMap;

use super::ids::NodeId;
use super::pool::record::PoolEngine;
use super::secret::Secret;
use super::weighted::{Health, Speed};

/// One node of one facade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// Host name, for display and as a last address.
    pub host: String,
    /// Port of its facade, or of its engine if it is a manual node.
    pub port: u16,
    /// Advertised addresses.
    pub addresses: Vec<String>,
    /// TXT entries.
    pub txt: Vec<String>,
    /// Advertised models.
    pub models: Vec<String>,
    /// Principal of its certificate, if clustered.
    pub principal: Option<String>,
    /// What only a standalone driver knows.
    pub extra: Extra,
}

/// Particulars of a node that this daemon probes itself; none of them from a broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    /// In front of every path, without trailing slash; usually empty.
    pub prefix: String,
    /// Sent as bearer token to this node only.
    pub api_key: Option<Secret>,
    /// Models in its memory.
    pub warm: Vec<String>,
    /// Parallel requests it runs; 0 = not known, counts as 1.
    pub slots: u32,
    /// Relative weight; 0 = 1.
    pub weight: u32,
    /// Context length by model, where told.
    pub context: Vec<(String, u64)>,
    /// Why it cannot be used now: then it stays listed but is no candidate.
    pub unreachable: Option<String>,
    /// This machine's own engine: reached as the facade's local backend.
    pub local: bool,
    /// Found on this machine by looking, and not named by anybody.
    pub found: bool,
    /// It registered itself with the node pool.
    pub pool: Option<Pooled>,
    /// The cluster member whose facade it is: dialled over mTLS pinned to it, and never in plain
    /// text.
    pub peer: Option<String>,
}

impl Node {
    /// What a person calls it: its host, and a pool node by its id, since several may be at one host.
    pub fn shown(&self) -> &str {
        match self.extra.pool {
            Some(_) => self.id.as_str(),
            None => &self.host,
        }
    }
}

/// How a node of the pool stands at the moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pooled {
    /// What runs there.
    pub engine: Option<PoolEngine>,
    /// How well it is.
    pub health: Health,
    /// Requests on it that are not ours: leases of other gateways, and what it counts itself above
    /// all leases.
    pub active: u32,
    /// Requests that wait in its engine.
    pub queue: u32,
    /// Over TLS.
    pub tls: bool,
    /// Why it takes nothing now; `None` = it does.
    pub resting: Option<String>,
    /// The same for single models.
    pub resting_models: Vec<(String, String)>,
    /// Measured speed by model.
    pub speeds: Vec<(String, Speed)>,
}

impl Eq for Pooled {}

/// Two sets of nodes compared, each part by id.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// Only in the new set.
    pub new: Vec<NodeId>,
    /// In both, different in what routing or display needs.
    pub changed: Vec<NodeId>,
    /// Only in the old set.
    pub gone: Vec<NodeId>,
}

/// Compares two snapshots. A change of the certificate's principal alone is silent: it updates
/// routing, but nothing that was announced.
pub fn diff(old: &BTreeMap<NodeId, Node>, new: &BTreeMap<NodeId, Node>) -> Diff {
    let announced = |n: &Node| Node {
        principal: None,
        extra: Extra::default(),
        ..n.clone()
    };
    let mut d = Diff::default();
    for (id, node) in new {
        match old.get(id) {
            None => d.new.push(id.clone()),
            Some(before) if announced(before) != announced(node) => d.changed.push(id.clone()),
            Some(_) => {},
        }
    }
    d.gone = old
        .keys()
        .filter(|id| !new.contains_key(*id))
        .cloned()
        .collect();
    d
}

/// The address shown on events: the TXT `ip=`, else the best IPv4 address.
pub fn shown_ip(node: &Node) -> Option<String> {
    let txt = node
        .txt
        .iter()
        .find_map(|t| t.strip_prefix("ip="))
        .filter(|ip| !ip.is_empty());
    txt.map(str::to_owned).or_else(|| {
        let ranked = super::addresses::rank(&node.addresses, &[], |_| false);
        ranked
            .into_iter()
            .find(|a| a.parse::<std::net::Ipv4Addr>().is_ok())
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A node as tests need it.
    pub(crate) fn node(id: &str, port: u16, models: &[&str]) -> Node {
        Node {
            id: id.into(),
            host: format!("host-{id}"),
            port,
            addresses: vec!["127.0.0.1".into()],
            txt: vec![],
            models: models.iter().map(|m| m.to_string()).collect(),
            principal: None,
            extra: Extra::default(),
        }
    }

    fn set(nodes: &[Node]) -> BTreeMap<NodeId, Node> {
        nodes.iter().map(|n| (n.id.clone(), n.clone())).collect()
    }

    #[test]
    fn a_diff_names_new_changed_and_gone() {
        let old = set(&[node("a", 1, &[]), node("b", 1, &["m"]), node("c", 1, &[])]);
        let new = set(&[
            node("a", 1, &[]),
            node("b", 1, &["m", "n"]),
            node("d", 1, &[]),
        ]);
        let d = diff(&old, &new);
        assert_eq!(d.new, [NodeId::from("d")]);
        assert_eq!(d.changed, [NodeId::from("b")]);
        assert_eq!(d.gone, [NodeId::from("c")]);
        assert_eq!(diff(&new, &new), Diff::default());
    }

    #[test]
    fn a_changed_principal_alone_is_silent() {
        let a = node("a", 1, &[]);
        let b = Node {
            principal: Some("p".into()),
            ..a.clone()
        };
        assert_eq!(diff(&set(&[a]), &set(&[b])), Diff::default());
    }
}
