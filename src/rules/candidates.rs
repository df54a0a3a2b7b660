//! Who may serve a request of a facade: every node either becomes a target or is excluded with the
//! reason (spec §5, step 1; data plane 3.2 and 3.3).
//!
//! Owns: reachability, kinds, ownership of models, which pool nodes rest. Leaves to others: the order
//! (`policy`), the confirmed address of a node and its seat (passed in).
//!
//! A [`View`] is built when something changes and only read per request.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use rustc_hash::FxHashMap;

use super::addresses;
use super::client_key::{TargetKind, TargetRef};
use super::discovery::Node;
use super::engine::{EngineId, Naming};
use super::ids::NodeId;
use super::pool::record::PoolEngine;
use super::reservations::Seat;
use super::secret::Secret;
use super::shortlist::{Owners, Shortlist};
use super::weighted::{Health, Speed};

/// How a target is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// This machine's own engine, in plain HTTP.
    Own,
    /// Another proxy of the cluster, over mTLS pinned to this principal.
    Peer(String),
    /// A node named by hand, in plain HTTP.
    Manual,
    /// A node that registered itself with the pool.
    Pool(Pooled),
    /// A service beyond this network. No node: it is in no overlay and no view.
    Provider(ProviderLink),
}

/// How a provider is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderLink {
    /// Whether over TLS, proved to the system's roots.
    pub tls: bool,
    /// Bound of connecting, a proxy on the way and TLS included.
    pub connect: Duration,
}

/// What selection knows of a pool node besides its load from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pooled {
    /// How well it is.
    pub health: Health,
    /// Requests on it that are not ours.
    pub active: u32,
    /// Requests that wait in its engine.
    pub queue: u32,
    /// Whether it is reached over TLS.
    pub tls: bool,
}

/// One reachable node.
#[derive(Debug)]
pub struct Target {
    /// Its id: what `scheduledOn` names, also for our own engine.
    pub node: NodeId,
    /// Whose node it is: in whose view it came up, and goes.
    pub facade: EngineId,
    /// What runs there.
    pub runs: PoolEngine,
    /// Its place on the board of loads.
    pub seat: Arc<Seat>,
    /// How it is reached.
    pub kind: Kind,
    /// Host to dial: an IP literal or a name.
    pub host: String,
    /// The name that it has to prove over TLS: its host as it was written.
    pub name: String,
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
    /// A pool node that takes nothing now, and why.
    Resting(String),
    /// A pool node whose places are all taken.
    Full,
    /// A pool node whose context is too short for the request.
    TooShort {
        /// Tokens that fit.
        context: u64,
    },
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
            Self::Resting(why) => f.write_str(why),
            Self::Full => f.write_str("all its places are taken"),
            Self::TooShort { context } => write!(f, "fits {context} tokens only"),
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
    /// Tokens of input and output together that it takes of this model; only told of pool nodes,
    /// which refuse what does not fit.
    pub context: Option<u64>,
    /// How fast this model was on it, where others measure too.
    pub speed: Option<Speed>,
    /// The model's name there, where it is not the one that was asked for.
    pub send_as: Option<Arc<str>>,
}

/// What a view is made from.
pub struct Sources<'a> {
    /// Whose nodes they are.
    pub engine: EngineId,
    /// The relayed overlay.
    pub relayed: &'a BTreeMap<NodeId, Node>,
    /// The manual overlay.
    pub manual: &'a BTreeMap<NodeId, Node>,
    /// The pool's nodes.
    pub pool: &'a BTreeMap<NodeId, Node>,
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
    /// A node's place on the board.
    pub seat: &'a dyn Fn(&NodeId) -> Arc<Seat>,
}

/// Every node of a facade, resolved.
#[derive(Debug, Default)]
pub struct View {
    /// Reachable nodes that take requests of any kind, by id: those of the pool do not.
    targets: Arc<Owners>,
    /// All of them, where there are any of the pool; else empty.
    everybody: Vec<Candidate>,
    /// Owners by normalised model name that take nothing now.
    resting: FxHashMap<String, Vec<(NodeId, String)>>,
    /// The others.
    excluded: Vec<(NodeId, Exclusion)>,
    /// Owners by normalised model name, each list by id.
    owners: FxHashMap<String, Arc<Owners>>,
    /// Whether two targets share an address, so that requests must look for it.
    shared_addresses: bool,
    /// Whether a node is reached otherwise than in plain HTTP.
    tls: bool,
}

impl View {
    /// Resolves every node of a facade.
    pub fn build(s: &Sources) -> Self {
        let mut view = Self::default();
        let mut seen: Vec<Arc<str>> = Vec::new();
        let naming = s.engine.spec().naming;
        let all = merged([s.relayed, s.manual, s.pool]);
        let pooled = all.iter().any(|n| n.extra.pool.is_some());
        for node in all {
            let is_manual = s.manual.contains_key(&node.id);
            match resolve(s, node, is_manual) {
                Ok(target) => {
                    view.shared_addresses |= seen.contains(&target.authority);
                    view.tls |= target.is_tls();
                    seen.push(target.authority.clone());
                    view.add(naming, node, Arc::new(target));
                },
                Err(why) => {
                    if let Exclusion::Resting(why) = &why {
                        view.rest(naming, node, why);
                    }
                    view.excluded.push((node.id.clone(), why));
                },
            }
        }
        if !pooled {
            view.everybody = Vec::new();
        }
        for list in view.owners.values_mut().chain([&mut view.targets]) {
            new(list).finish(view.shared_addresses);
        }
        view
    }

    fn add(&mut self, naming: Naming, node: &Node, target: Arc<Target>) {
        let is_warm = |model: &str| node.extra.warm.iter().any(|w| naming.normalize(w) == model);
        let pool = node.extra.pool.as_ref();
        for model in &node.models {
            let model = naming.normalize(model).into_owned();
            if model.is_empty() {
                continue;
            }
            if let Some((_, why)) = pool.and_then(|p| find(naming, &p.resting_models, &model)) {
                self.rests(model, node, why);
                continue;
            }
            let candidate = Candidate {
                target: target.clone(),
                warm: is_warm(&model),
                context: pool
                    .and_then(|_| find(naming, &node.extra.context, &model))
                    .map(|(_, tokens)| *tokens),
                speed: pool.map(|p| {
                    find(naming, &p.speeds, &model).map_or_else(Speed::default, |(_, s)| *s)
                }),
                send_as: None,
            };
            let owners = new(self.owners.entry(model).or_default());
            // A node that lists a model twice owns it once.
            let last = owners.as_slice().last();
            if last.is_none_or(|o| o.target.node != target.node) {
                owners.push(candidate);
            }
        }
        let candidate = Candidate {
            target,
            warm: false,
            context: None,
            speed: None,
            send_as: None,
        };
        if pool.is_none() {
            new(&mut self.targets).push(candidate.clone());
        }
        self.everybody.push(candidate);
    }

    /// A pool node that takes nothing now still owns its models.
    fn rest(&mut self, naming: Naming, node: &Node, why: &str) {
        for model in &node.models {
            self.rests(naming.normalize(model).into_owned(), node, why);
        }
    }

    fn rests(&mut self, model: String, node: &Node, why: &str) {
        let resting = self.resting.entry(model).or_default();
        resting.push((node.id.clone(), why.to_owned()));
    }

    /// Owners of a model (already normalised) that take nothing now, with the reason.
    pub fn resting(&self, model: &str) -> &[(NodeId, String)] {
        self.resting.get(model).map_or(&[], Vec::as_slice)
    }

    /// Whoever is asked for a list or a permission: all reachable nodes, by id.
    pub fn everybody(&self) -> &[Candidate] {
        match self.everybody.is_empty() {
            true => self.targets.as_slice(),
            false => &self.everybody,
        }
    }

    /// Candidates for a model (already normalised), or all nodes that take requests of any kind, by
    /// id.
    pub fn candidates(&self, model: Option<&str>) -> &[Candidate] {
        self.owners(model).map_or(&[], |list| list.as_slice())
    }

    /// The same as a list for a request to refer to; `None` where nobody has the model.
    pub fn owners(&self, model: Option<&str>) -> Option<&Arc<Owners>> {
        match model {
            None => Some(&self.targets),
            Some(model) => self.owners.get(model),
        }
    }

    /// The same as a request begins with them.
    pub fn shortlist(&self, model: Option<&str>) -> Shortlist {
        self.owners(model)
            .map_or_else(Shortlist::default, Shortlist::of)
    }

    /// Whether two reachable nodes share an address.
    pub fn shares_addresses(&self) -> bool {
        self.shared_addresses
    }

    /// Whether any reachable node is reached over TLS.
    pub fn has_tls(&self) -> bool {
        self.tls
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

/// A list of a view that is being built.
fn new(list: &mut Arc<Owners>) -> &mut Owners {
    Arc::get_mut(list).expect("nobody else has it before the view is built")
}

/// What is told of a model, in any spelling of its name.
fn find<'a, T>(naming: Naming, all: &'a [(String, T)], model: &str) -> Option<&'a (String, T)> {
    all.iter().find(|(m, _)| naming.normalize(m) == model)
}

/// The nodes of several overlays by id; of one id the first overlay's.
pub fn merged<const N: usize>(overlays: [&BTreeMap<NodeId, Node>; N]) -> Vec<&Node> {
    let mut all: Vec<&Node> = overlays.iter().flat_map(|o| o.values()).collect();
    // Stable, so that the first of an id stays the first.
    all.sort_by(|a, b| a.id.cmp(&b.id));
    all.dedup_by(|a, b| a.id == b.id);
    all
}

impl Target {
    /// Whether it is reached over TLS.
    pub fn is_tls(&self) -> bool {
        match &self.kind {
            Kind::Peer(_) => true,
            Kind::Pool(pooled) => pooled.tls,
            Kind::Provider(link) => link.tls,
            Kind::Own | Kind::Manual => false,
        }
    }

    /// It as a key's grants see it.
    pub fn as_granted(&self) -> TargetRef<'_> {
        let kind = match &self.kind {
            Kind::Own | Kind::Peer(_) | Kind::Manual => TargetKind::Node(self.facade),
            Kind::Pool(_) => TargetKind::Pool,
            Kind::Provider(_) => TargetKind::Provider,
        };
        TargetRef {
            node: &self.node,
            kind,
        }
    }

    /// How it is reached, if it is a provider.
    pub fn provider(&self) -> Option<&ProviderLink> {
        match &self.kind {
            Kind::Provider(link) => Some(link),
            _ => None,
        }
    }

    /// A request's path, query included, as it is sent here: behind the prefix. A provider's prefix
    /// is its OpenAI base, which stands for the `/v1` that clients ask for.
    pub fn path_for<'p>(&self, path: &'p str) -> Cow<'p, str> {
        let rest = match self.provider().and_then(|_| path.strip_prefix("/v1")) {
            Some(rest) if rest.is_empty() || rest.starts_with(['/', '?']) => rest,
            _ => path,
        };
        match self.prefix.as_str() {
            "" if rest.is_empty() => Cow::Borrowed("/"),
            "" if rest.starts_with('?') => Cow::Owned(format!("/{rest}")),
            "" => Cow::Borrowed(rest),
            prefix => Cow::Owned(format!("{prefix}{rest}")),
        }
    }

    /// Whether it belongs to the pool: then it takes a request under a lease only.
    pub fn pooled(&self) -> Option<&Pooled> {
        match &self.kind {
            Kind::Pool(pooled) => Some(pooled),
            _ => None,
        }
    }
}

fn resolve(s: &Sources, node: &Node, is_manual: bool) -> Result<Target, Exclusion> {
    if let Some(pool) = &node.extra.pool {
        return of_pool(s, node, pool);
    }
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
        ..target(s, node, kind, host, port)?
    })
}

/// Dialled at the address that was checked, under the name that it registered.
fn of_pool(s: &Sources, node: &Node, pool: &super::discovery::Pooled) -> Result<Target, Exclusion> {
    if let Some(why) = &pool.resting {
        return Err(Exclusion::Resting(why.clone()));
    }
    let address = node.addresses.first().ok_or(Exclusion::NoAddress)?;
    if is_own_listener(s.port, s.aliases, address, node.port) {
        return Err(Exclusion::OwnListener);
    }
    let kind = Kind::Pool(Pooled {
        health: pool.health,
        active: pool.active,
        queue: pool.queue,
        tls: pool.tls,
    });
    let named = addresses::authority(&node.host, node.port);
    Ok(Target {
        host_header: HeaderValue::from_str(&named).map_err(|_| Exclusion::NoAddress)?,
        name: node.host.clone(),
        ..target(s, node, kind, address.clone(), node.port)?
    })
}

/// This machine: served by its engine, never by dialling ourselves.
fn own(s: &Sources, node: &Node) -> Result<Target, Exclusion> {
    let (host, port) = s.backend.ok_or(Exclusion::NoLocalBackend)?;
    if is_own_listener(s.port, s.aliases, host, port) {
        return Err(Exclusion::OwnListener);
    }
    target(s, node, Kind::Own, host.to_owned(), port)
}

/// Whether an address is one on which a facade listens, given its port and aliases.
pub fn is_own_listener(own: u16, aliases: &[(String, u16)], host: &str, port: u16) -> bool {
    let primary = port == own && addresses::is_loopback_host(host);
    primary
        || aliases
            .iter()
            .any(|(h, p)| *p == port && addresses::same_loopback(h, host))
}

fn target(
    s: &Sources,
    node: &Node,
    kind: Kind,
    host: String,
    port: u16,
) -> Result<Target, Exclusion> {
    let authority: Arc<str> = addresses::authority(&host, port).into();
    let host_header = HeaderValue::from_str(&authority).map_err(|_| Exclusion::NoAddress)?;
    let bearer = node.extra.api_key.as_ref().map(bearer).transpose()?;
    Ok(Target {
        node: node.id.clone(),
        facade: s.engine,
        runs: (node.extra.pool.as_ref().and_then(|p| p.engine))
            .or_else(|| PoolEngine::of(s.engine))
            .unwrap_or(PoolEngine::OpenAi),
        seat: (s.seat)(&node.id),
        kind,
        name: host.clone(),
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

/// The header that gives a target its key.
pub(super) fn bearer(key: &Secret) -> Result<HeaderValue, Exclusion> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", key.reveal()))
        .map_err(|_| Exclusion::Unreachable("its api_key is not a valid header value".into()))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
pub(crate) mod tests;
