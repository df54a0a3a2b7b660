//! Who may serve a request of a facade: every node either becomes a target or is excluded with the
//! reason (spec §5, step 1; data plane 3.2 and 3.3).
//!
//! Owns: reachability, kinds, ownership of models. Leaves to others: the order (`policy`), the
//! confirmed address of a node (passed in).
//!
//! A [`View`] is built when something changes and only read per request.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use http::HeaderValue;
use rustc_hash::FxHashMap;

use super::addresses;
use super::discovery::Node;
use super::engine::Naming;
use super::ids::NodeId;
use super::secret::Secret;

/// How a target is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// This machine's own engine, in plain HTTP.
    Own,
    /// Another proxy of the cluster, over mTLS pinned to this principal.
    Peer(String),
    /// A node named by hand, in plain HTTP.
    Manual,
}

/// One reachable node.
#[derive(Debug)]
pub struct Target {
    /// Its id: what `scheduledOn` names, also for our own engine.
    pub node: NodeId,
    /// How it is reached.
    pub kind: Kind,
    /// Host to dial: an IP literal or a name.
    pub host: String,
    /// Port to dial.
    pub port: u16,
    /// `host:port`, for logs and events.
    pub authority: Arc<str>,
    /// The same as the `Host` header towards it.
    pub host_header: HeaderValue,
    /// In front of every path.
    pub prefix: String,
    /// Replaces the client's `Authorization` towards this node.
    pub bearer: Option<HeaderValue>,
    /// Parallel requests it runs, at least 1.
    pub slots: u32,
    /// Relative weight, at least 1.
    pub weight: u32,
    /// Whether it has other addresses and none is known to answer.
    pub unconfirmed: bool,
}

/// Why a node is no candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exclusion {
    /// It has other models.
    NotAnOwner,
    /// It is this machine, and no healthy local engine is known.
    NoLocalBackend,
    /// It is a cluster node whose certificate is not pinned here, or no cluster node at all.
    NotPinned,
    /// No usable address.
    NoAddress,
    /// Its address is one of our own listeners.
    OwnListener,
    /// Its probes fail.
    Unreachable(String),
    /// The same `host:port` as a node before it.
    SameAs(NodeId),
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnOwner => f.write_str("does not advertise the model"),
            Self::NoLocalBackend => {
                f.write_str("is this machine, and no healthy local engine is known")
            },
            Self::NotPinned => f.write_str("relayed, but its certificate is not pinned here"),
            Self::NoAddress => f.write_str("has no usable address"),
            Self::OwnListener => f.write_str("its address is one of our own listeners"),
            Self::Unreachable(why) => write!(f, "does not answer: {why}"),
            Self::SameAs(node) => write!(f, "has the same address as {node}"),
        }
    }
}

/// A target that advertises the model in question.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The node.
    pub target: Arc<Target>,
    /// Whether it has the model in memory.
    pub warm: bool,
}

/// What a view is made from.
pub struct Sources<'a> {
    /// How names compare.
    pub naming: Naming,
    /// The relayed overlay.
    pub relayed: &'a BTreeMap<NodeId, Node>,
    /// The manual overlay.
    pub manual: &'a BTreeMap<NodeId, Node>,
    /// Port of this facade.
    pub port: u16,
    /// Bound alias addresses, host and port.
    pub aliases: &'a [(String, u16)],
    /// This machine's engine, host and port, if healthy.
    pub backend: Option<(&'a str, u16)>,
    /// Chosen address of a node, confirmed or best-ranked, and whether a confirmation is wanted.
    pub address: &'a dyn Fn(&Node) -> Option<(String, bool)>,
    /// Whether a principal's certificate is pinned now.
    pub pinned: &'a dyn Fn(&str) -> bool,
}

/// Every node of a facade, resolved.
#[derive(Debug, Default)]
pub struct View {
    /// Reachable nodes, by id.
    targets: Vec<Candidate>,
    /// The others.
    excluded: Vec<(NodeId, Exclusion)>,
    /// Owners by normalised model name, each list by id.
    owners: FxHashMap<String, Vec<Candidate>>,
    /// Whether two targets share an address, so that requests must look for it.
    shared_addresses: bool,
    peers: bool,
}

impl View {
    /// Resolves every node of a facade.
    pub fn build(s: &Sources) -> Self {
        let mut view = Self::default();
        let mut seen: Vec<Arc<str>> = Vec::new();
        for node in merged(s.relayed, s.manual) {
            let is_manual = s.manual.contains_key(&node.id);
            match resolve(s, node, is_manual) {
                Ok(target) => {
                    view.shared_addresses |= seen.contains(&target.authority);
                    view.peers |= matches!(target.kind, Kind::Peer(_));
                    seen.push(target.authority.clone());
                    view.add(s.naming, node, Arc::new(target));
                },
                Err(why) => view.excluded.push((node.id.clone(), why)),
            }
        }
        view
    }

    fn add(&mut self, naming: Naming, node: &Node, target: Arc<Target>) {
        let is_warm = |model: &str| node.extra.warm.iter().any(|w| naming.normalize(w) == model);
        for model in &node.models {
            let model = naming.normalize(model).into_owned();
            if model.is_empty() {
                continue;
            }
            let candidate = Candidate {
                target: target.clone(),
                warm: is_warm(&model),
            };
            let owners = self.owners.entry(model).or_default();
            // A node that lists a model twice owns it once.
            if owners.last().is_none_or(|o| o.target.node != target.node) {
                owners.push(candidate);
            }
        }
        self.targets.push(Candidate {
            target,
            warm: false,
        });
    }

    /// Candidates for a model (already normalised), or all reachable nodes, by id.
    pub fn candidates(&self, model: Option<&str>) -> &[Candidate] {
        match model {
            None => &self.targets,
            Some(model) => self.owners.get(model).map_or(&[], Vec::as_slice),
        }
    }

    /// Whether two reachable nodes share an address.
    pub fn shares_addresses(&self) -> bool {
        self.shared_addresses
    }

    /// Whether any reachable node is a peer.
    pub fn has_peers(&self) -> bool {
        self.peers
    }

    /// Nodes that cannot be reached, with the reason.
    pub fn excluded(&self) -> &[(NodeId, Exclusion)] {
        &self.excluded
    }

    /// Normalised names of all models with a reachable owner, unordered.
    pub fn models(&self) -> impl Iterator<Item = (&str, &[Candidate])> {
        self.owners.iter().map(|(m, c)| (m.as_str(), c.as_slice()))
    }
}

/// Relayed nodes, then manual ones whose id is not relayed, all by id.
pub fn merged<'a>(
    relayed: &'a BTreeMap<NodeId, Node>,
    manual: &'a BTreeMap<NodeId, Node>,
) -> Vec<&'a Node> {
    let manual = manual.iter().filter(|(id, _)| !relayed.contains_key(*id));
    let mut all: Vec<&Node> = relayed.iter().chain(manual).map(|(_, n)| n).collect();
    all.sort_by(|a, b| a.id.cmp(&b.id));
    all
}

/// Keeps the first of several candidates with one address: the same machine can be present under a
/// manual and a relayed id.
pub fn drop_shared(candidates: &mut Vec<Candidate>) {
    let mut seen: Vec<Arc<str>> = Vec::with_capacity(candidates.len());
    candidates.retain(|c| {
        let new = !seen.contains(&c.target.authority);
        seen.push(c.target.authority.clone());
        new
    });
}

fn resolve(s: &Sources, node: &Node, is_manual: bool) -> Result<Target, Exclusion> {
    if let Some(why) = &node.extra.unreachable {
        return Err(Exclusion::Unreachable(why.clone()));
    }
    if node.extra.local {
        return own(s, node);
    }
    let (host, unconfirmed) = (s.address)(node).ok_or(Exclusion::NoAddress)?;
    let port = node.port;
    if is_own_listener(s.port, s.aliases, &host, port) {
        return own(s, node);
    }
    let kind = match &node.principal {
        Some(principal) if (s.pinned)(principal) => Kind::Peer(principal.clone()),
        // Whoever named it said that it is another proxy.
        _ if node.extra.peer.is_some() => return Err(Exclusion::NotPinned),
        _ if is_manual => Kind::Manual,
        // Its engine listens on its own loopback only, and its proxy refuses plaintext.
        _ => return Err(Exclusion::NotPinned),
    };
    Ok(Target {
        unconfirmed,
        ..target(node, kind, host, port)?
    })
}

/// This machine: served by its engine, never by dialling ourselves.
fn own(s: &Sources, node: &Node) -> Result<Target, Exclusion> {
    let (host, port) = s.backend.ok_or(Exclusion::NoLocalBackend)?;
    if is_own_listener(s.port, s.aliases, host, port) {
        return Err(Exclusion::OwnListener);
    }
    target(node, Kind::Own, host.to_owned(), port)
}

/// Whether an address is one on which a facade listens, given its port and aliases.
pub fn is_own_listener(own: u16, aliases: &[(String, u16)], host: &str, port: u16) -> bool {
    let primary = port == own && addresses::is_loopback_host(host);
    primary
        || aliases
            .iter()
            .any(|(h, p)| *p == port && addresses::same_loopback(h, host))
}

fn target(node: &Node, kind: Kind, host: String, port: u16) -> Result<Target, Exclusion> {
    let authority: Arc<str> = addresses::authority(&host, port).into();
    let host_header = HeaderValue::from_str(&authority).map_err(|_| Exclusion::NoAddress)?;
    let bearer = node.extra.api_key.as_ref().map(bearer).transpose()?;
    Ok(Target {
        node: node.id.clone(),
        kind,
        host,
        port,
        authority,
        host_header,
        prefix: node.extra.prefix.clone(),
        bearer,
        slots: node.extra.slots.max(1),
        weight: node.extra.weight.max(1),
        unconfirmed: false,
    })
}

fn bearer(key: &Secret) -> Result<HeaderValue, Exclusion> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", key.reveal()))
        .map_err(|_| Exclusion::Unreachable("its api_key is not a valid header value".into()))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::discovery::Extra;
    use super::super::discovery::tests::node;
    use super::*;

    struct Setup {
        relayed: BTreeMap<NodeId, Node>,
        manual: BTreeMap<NodeId, Node>,
        aliases: Vec<(String, u16)>,
        backend: Option<(&'static str, u16)>,
        pins: Vec<&'static str>,
        naming: Naming,
    }

    impl Setup {
        fn new() -> Self {
            Self {
                relayed: BTreeMap::new(),
                manual: BTreeMap::new(),
                aliases: vec![],
                backend: None,
                pins: vec![],
                naming: Naming::Exact,
            }
        }

        fn manual(mut self, n: Node) -> Self {
            self.manual.insert(n.id.clone(), n);
            self
        }

        fn relayed(mut self, n: Node) -> Self {
            self.relayed.insert(n.id.clone(), n);
            self
        }

        fn view(&self) -> View {
            View::build(&Sources {
                naming: self.naming,
                relayed: &self.relayed,
                manual: &self.manual,
                port: 11434,
                aliases: &self.aliases,
                backend: self.backend,
                address: &|n| n.addresses.first().map(|a| (a.clone(), false)),
                pinned: &|p| self.pins.contains(&p),
            })
        }
    }

    fn ids(c: &[Candidate]) -> Vec<&str> {
        c.iter().map(|c| c.target.node.as_str()).collect()
    }

    #[test]
    fn candidates_own_the_model_and_come_by_id() {
        let s = Setup::new()
            .manual(node("c", 3, &["m"]))
            .manual(node("a", 1, &["m", "n"]))
            .manual(node("b", 2, &[]));
        let v = s.view();
        assert_eq!(ids(v.candidates(Some("m"))), ["a", "c"]);
        assert_eq!(ids(v.candidates(Some("n"))), ["a"]);
        assert!(v.candidates(Some("x")).is_empty());
        assert_eq!(ids(v.candidates(None)), ["a", "b", "c"]);
    }

    #[test]
    fn names_compare_as_the_engine_compares() {
        let mut s = Setup::new().manual(node("a", 1, &["llama3", "llama3:latest", ""]));
        s.naming = Naming::ImpliedLatest;
        let v = s.view();
        assert_eq!(ids(v.candidates(Some("llama3:latest"))), ["a"]);
        assert!(
            v.candidates(Some("")).is_empty(),
            "an empty name matches nothing"
        );
    }

    #[test]
    fn our_own_listener_stands_for_the_local_engine() {
        let mut s = Setup::new().manual(node("me", 11434, &["m"]));
        assert_eq!(
            s.view().excluded(),
            [("me".into(), Exclusion::NoLocalBackend)]
        );
        s.backend = Some(("127.0.0.1", 11436));
        let v = s.view();
        let t = &v.candidates(Some("m"))[0].target;
        assert_eq!(
            (t.node.as_str(), &t.kind, &*t.authority),
            ("me", &Kind::Own, "127.0.0.1:11436")
        );
        // A backend that is ourselves would loop.
        s.backend = Some(("localhost", 11434));
        assert_eq!(s.view().excluded(), [("me".into(), Exclusion::OwnListener)]);
    }

    #[test]
    fn an_alias_is_ourselves_only_where_address_and_port_match() {
        let mut a = node("a", 500, &["m"]);
        a.addresses = vec!["127.0.0.2".into()];
        let mut s = Setup::new().manual(a).manual(node("b", 500, &["m"]));
        s.aliases = vec![("127.0.0.2".into(), 500)];
        assert_eq!(ids(s.view().candidates(Some("m"))), ["b"]);
    }

    #[test]
    fn the_same_port_elsewhere_is_not_ourselves() {
        let mut n = node("real", 11434, &["m"]);
        n.addresses = vec!["192.0.2.10".into()];
        assert_eq!(
            ids(Setup::new().manual(n).view().candidates(Some("m"))),
            ["real"]
        );
    }

    #[test]
    fn a_relayed_node_needs_a_live_pin() {
        let n = Node {
            principal: Some("p".into()),
            ..node("r", 5, &["m"])
        };
        let mut s = Setup::new().relayed(n).relayed(node("plain", 6, &["m"]));
        let v = s.view();
        assert_eq!(
            v.excluded(),
            [
                ("plain".into(), Exclusion::NotPinned),
                ("r".into(), Exclusion::NotPinned)
            ]
        );
        s.pins = vec!["p"];
        let v = s.view();
        assert_eq!(ids(v.candidates(Some("m"))), ["r"]);
        assert_eq!(
            v.candidates(Some("m"))[0].target.kind,
            Kind::Peer("p".into())
        );
    }

    #[test]
    fn a_manual_peer_is_dialled_by_its_pin_or_not_at_all() {
        let named = || Node {
            principal: Some("p".into()),
            extra: Extra {
                peer: Some("p".into()),
                ..Extra::default()
            },
            ..node("a", 5, &["m"])
        };
        let mut s = Setup::new().manual(named());
        assert_eq!(s.view().excluded(), [("a".into(), Exclusion::NotPinned)]);
        s.pins = vec!["p"];
        let view = s.view();
        let kind = &view.candidates(Some("m"))[0].target.kind;
        assert_eq!(*kind, Kind::Peer("p".into()));
    }

    #[test]
    fn a_relayed_record_wins_over_a_manual_one_and_stays_reachable() {
        let mut relayed = node("x", 7, &["m"]);
        relayed.addresses = vec!["127.0.0.9".into()];
        let s = Setup::new().relayed(relayed).manual(node("x", 8, &[]));
        let v = s.view();
        let t = &v.candidates(Some("m"))[0].target;
        assert_eq!((&t.kind, &*t.authority), (&Kind::Manual, "127.0.0.9:7"));
    }

    #[test]
    fn a_shared_address_is_kept_once() {
        let s = Setup::new()
            .manual(node("a", 1, &["m"]))
            .manual(node("b", 1, &["m"]));
        let v = s.view();
        assert!(v.shares_addresses());
        let mut c = v.candidates(Some("m")).to_vec();
        drop_shared(&mut c);
        assert_eq!(ids(&c), ["a"]);
    }

    #[test]
    fn a_node_whose_probes_fail_is_listed_with_the_reason() {
        let mut n = node("a", 1, &["m"]);
        n.extra.unreachable = Some("connection refused".into());
        let v = Setup::new().manual(n).view();
        assert!(v.candidates(None).is_empty());
        assert_eq!(
            v.excluded()[0].1.to_string(),
            "does not answer: connection refused"
        );
    }

    #[test]
    fn a_warm_model_is_known_per_model() {
        let mut n = node("a", 1, &["m", "n"]);
        n.extra.warm = vec!["n".into()];
        let v = Setup::new().manual(n).view();
        assert!(!v.candidates(Some("m"))[0].warm);
        assert!(v.candidates(Some("n"))[0].warm);
    }

    #[test]
    fn ipv6_targets_are_bracketed() {
        let mut n = node("a", 1, &[]);
        n.addresses = vec!["fd00::1".into()];
        let v = Setup::new().manual(n).view();
        assert_eq!(&*v.candidates(None)[0].target.authority, "[fd00::1]:1");
    }
}
