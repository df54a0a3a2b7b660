//! One facade's nodes, pin, port and local engine, and the routing view made from them.
//!
//! Owns: the overlays (spec: relayed and manual; the pool's nodes), the pin, the view the request path reads.
//! Leaves to others: what to announce (the caller gets it told), listeners (`daemon`).
//!
//! Everything that changes routing rebuilds one immutable [`Routing`]; a request takes it with a
//! single pointer copy, and a waiting attempt wakes when it is replaced.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustc_hash::FxHashSet;
use tokio::sync::watch;

use crate::rules::addresses;
use crate::rules::candidates::{Sources, View, is_own_listener, merged};
use crate::rules::discovery::{Diff, Node, diff};
use crate::rules::engine::EngineId;
use crate::rules::ids::{JobId, NodeId};

use super::confirm::{Confirmation, Confirmed};
use super::scheduler::Scheduler;
use super::told::LocalBackend;

/// What a request routes by: one consistent moment of the facade.
#[derive(Debug, Default)]
pub struct Routing {
    /// Reachable nodes and owners.
    pub view: View,
    /// The pin, if any.
    pub pin: Option<NodeId>,
    known: FxHashSet<NodeId>,
}

impl Routing {
    /// Whether the node is in any overlay and not known to be down: what an attempt's watcher asks
    /// (spec §5.3).
    pub fn knows(&self, node: &NodeId) -> bool {
        self.known.contains(node)
    }
}

/// What this machine can tell about itself and its cluster.
pub trait Surroundings: Send + Sync {
    /// Whether an address belongs to one of this machine's interfaces.
    fn is_ours(&self, ip: IpAddr) -> bool;
    /// Whether a principal's certificate is pinned now.
    fn is_pinned(&self, principal: &str) -> bool;
    /// Counts the changes of either.
    fn generation(&self) -> u64;
}

/// A machine without cluster: only loopback is its own.
pub struct Alone;

impl Surroundings for Alone {
    fn is_ours(&self, _: IpAddr) -> bool {
        false
    }

    fn is_pinned(&self, _: &str) -> bool {
        false
    }

    fn generation(&self) -> u64 {
        0
    }
}

/// A manual node was taken away.
#[derive(Debug, PartialEq, Eq)]
pub struct Removed {
    /// Whether it was pinned; the pin is gone.
    pub was_pinned: bool,
}

/// What a snapshot changed.
#[derive(Debug, PartialEq, Eq)]
pub struct SnapshotChange {
    /// The nodes, by id.
    pub diff: Diff,
    /// Records of the nodes that are gone.
    pub gone: Vec<Node>,
    /// Whether the pinned node is in neither overlay any more; the pin is gone.
    pub unpinned: bool,
}

struct Inner {
    relayed: BTreeMap<NodeId, Node>,
    manual: BTreeMap<NodeId, Node>,
    pool: BTreeMap<NodeId, Node>,
    pin: Option<NodeId>,
    port: u16,
    aliases: Vec<(String, u16)>,
    backend: Option<LocalBackend>,
    confirmed: Confirmed,
}

impl Inner {
    fn knows(&self, id: &NodeId) -> bool {
        let overlays = [&self.relayed, &self.manual, &self.pool];
        overlays.iter().any(|o| o.contains_key(id))
    }

    /// Of a node that left nothing is remembered.
    fn forget_gone(&mut self) {
        let (relayed, manual) = (&self.relayed, &self.manual);
        let known = |id: &NodeId| relayed.contains_key(id) || manual.contains_key(id);
        self.confirmed.retain(known);
    }

    /// Host and port of this machine's engine, if it can be asked.
    fn usable_backend(&self) -> Option<(&str, u16)> {
        let backend = self.backend.as_ref().filter(|b| b.healthy && b.port > 0)?;
        Some((backend_host(backend), backend.port))
    }
}

/// State of one enabled facade.
pub struct FacadeState {
    engine: EngineId,
    since: AtomicU64,
    surroundings: Arc<dyn Surroundings>,
    scheduler: Arc<Scheduler>,
    /// Generation of the surroundings that the routing was built from.
    built_from: AtomicU64,
    inner: Mutex<Inner>,
    routing: watch::Sender<Arc<Routing>>,
    jobs: AtomicU64,
    in_flight: AtomicU64,
    retired: AtomicBool,
}

impl FacadeState {
    /// A facade without nodes, that listens nowhere yet.
    pub fn new(
        engine: EngineId,
        surroundings: Arc<dyn Surroundings>,
        scheduler: Arc<Scheduler>,
    ) -> Self {
        let inner = Inner {
            relayed: BTreeMap::new(),
            manual: BTreeMap::new(),
            pool: BTreeMap::new(),
            pin: None,
            port: 0,
            aliases: Vec::new(),
            backend: None,
            confirmed: Confirmed::default(),
        };
        Self {
            engine,
            since: AtomicU64::new(0),
            built_from: AtomicU64::new(surroundings.generation()),
            surroundings,
            scheduler,
            inner: Mutex::new(inner),
            routing: watch::Sender::new(Arc::default()),
            jobs: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            retired: AtomicBool::new(false),
        }
    }

    /// Its engine.
    pub fn engine(&self) -> EngineId {
        self.engine
    }

    /// Unix ms since when it is enabled.
    pub fn since(&self) -> u64 {
        self.since.load(Ordering::Relaxed)
    }

    /// It listens on this port, from this Unix millisecond on.
    pub fn opened(&self, port: u16, since: u64) {
        self.since.store(since, Ordering::Relaxed);
        self.retired.store(false, Ordering::Relaxed);
        self.set_port(port);
    }

    /// It listens no more; connections that are open end with their next answer.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// Whether it was retired and not opened since.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// The next request number.
    pub fn next_job(&self) -> JobId {
        JobId(self.jobs.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Counts a request until the guard goes.
    pub fn enter(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(self.clone())
    }

    /// Requests being served.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// The routing of this moment.
    pub fn routing(&self) -> Arc<Routing> {
        self.routing.borrow().clone()
    }

    /// Wakes when the routing is replaced.
    pub fn changes(&self) -> watch::Receiver<Arc<Routing>> {
        self.routing.subscribe()
    }

    /// Bound port.
    pub fn port(&self) -> u16 {
        self.lock().port
    }

    /// Bound aliases, as `host:port`.
    pub fn aliases(&self) -> Vec<String> {
        self.lock()
            .aliases
            .iter()
            .map(|(h, p)| addresses::authority(h, *p))
            .collect()
    }

    /// The pinned node.
    pub fn pin(&self) -> Option<NodeId> {
        self.lock().pin.clone()
    }

    /// Relayed and manual nodes, by id; a relayed one wins.
    pub fn nodes(&self) -> Vec<Node> {
        let inner = self.lock();
        merged([&inner.relayed, &inner.manual])
            .into_iter()
            .cloned()
            .collect()
    }

    /// The pool's nodes that no other overlay has, by id.
    pub fn pool_nodes(&self) -> Vec<Node> {
        let inner = self.lock();
        let others = |id: &NodeId| inner.relayed.contains_key(id) || inner.manual.contains_key(id);
        let nodes = inner.pool.iter().filter(|(id, _)| !others(id));
        nodes.map(|(_, n)| n.clone()).collect()
    }

    /// Whether a node is in the manual overlay.
    pub fn is_manual(&self, node: &NodeId) -> bool {
        self.lock().manual.contains_key(node)
    }

    /// This machine's engine, whatever its health.
    pub fn backend(&self) -> Option<LocalBackend> {
        self.lock().backend.clone()
    }

    /// Host and port of this machine's engine, if it is healthy and not this very facade.
    pub fn usable_backend(&self) -> Option<(String, u16)> {
        let inner = self.lock();
        let (host, port) = inner.usable_backend()?;
        let ours = is_own_listener(inner.port, &inner.aliases, host, port);
        (!ours).then(|| (host.to_owned(), port))
    }

    /// The facade listens on another port now.
    pub fn set_port(&self, port: u16) {
        self.change(|inner| inner.port = port);
    }

    /// These alias addresses are bound.
    pub fn set_aliases(&self, aliases: Vec<(String, u16)>) {
        self.change(|inner| inner.aliases = aliases);
    }

    /// Replaces what is known of this machine's engine.
    pub fn set_backend(&self, backend: LocalBackend) {
        if self.lock().backend.as_ref() == Some(&backend) {
            // Re-sent every few seconds: nothing to rebuild.
            return;
        }
        self.change(|inner| inner.backend = Some(backend));
    }

    /// Pins a node, or with `None` goes back to automatic. `false` if the node is unknown; then
    /// nothing changes.
    #[must_use]
    pub fn select(&self, node: Option<NodeId>) -> bool {
        self.change(|inner| {
            if let Some(id) = &node
                && !inner.knows(id)
            {
                return false;
            }
            inner.pin = node;
            true
        })
    }

    /// Adds or replaces a manual node; says whether it is new.
    pub fn add_manual(&self, node: Node) -> bool {
        self.change(|inner| {
            let is_new =
                !inner.manual.contains_key(&node.id) && !inner.relayed.contains_key(&node.id);
            inner.manual.insert(node.id.clone(), node);
            is_new
        })
    }

    /// Takes a manual node away; its pin goes with it, even if the relay still lists that id.
    pub fn remove_manual(&self, id: &NodeId) -> Option<Removed> {
        self.change(|inner| {
            inner.manual.remove(id)?;
            inner.forget_gone();
            let was_pinned = inner.pin.as_ref() == Some(id);
            if was_pinned {
                inner.pin = None;
            }
            Some(Removed { was_pinned })
        })
    }

    /// Replaces the relayed overlay.
    pub fn snapshot(&self, nodes: Vec<Node>) -> SnapshotChange {
        let new: BTreeMap<_, _> = nodes.into_iter().map(|n| (n.id.clone(), n)).collect();
        self.change(|inner| {
            let old = std::mem::replace(&mut inner.relayed, new);
            inner.forget_gone();
            let diff = diff(&old, &inner.relayed);
            let gone = diff
                .gone
                .iter()
                .filter_map(|id| old.get(id).cloned())
                .collect();
            let unpinned = inner.pin.as_ref().is_some_and(|id| !inner.knows(id));
            if unpinned {
                inner.pin = None;
            }
            SnapshotChange {
                diff,
                gone,
                unpinned,
            }
        })
    }

    /// Replaces the pool's nodes. A pin stays: its node may come back as it went.
    pub fn set_pool(&self, nodes: Vec<Node>) {
        let new: BTreeMap<_, _> = nodes.into_iter().map(|n| (n.id.clone(), n)).collect();
        if self.lock().pool == new {
            return;
        }
        self.change(|inner| inner.pool = new);
    }

    /// Rebuilds the view if the surroundings (interfaces, pins) changed since it was built; says
    /// whether they did.
    pub fn refresh(&self) -> bool {
        let stale = self.surroundings.generation() != self.built_from.load(Ordering::Relaxed);
        if stale {
            self.change(|_| ());
        }
        stale
    }

    /// A transport failure: the node's confirmed address is forgotten.
    pub fn forget_address(&self, node: &NodeId) {
        let several = {
            let inner = self.lock();
            let found = inner.relayed.get(node).or_else(|| inner.manual.get(node));
            found.is_some_and(|n| self.ranked(n).len() > 1)
        };
        // With one address there is nothing to forget, and nothing to rebuild under load.
        if several {
            self.change(|inner| inner.confirmed.forget(node));
        }
    }

    /// The confirmation of a node's address to be made now, if one would help.
    pub fn confirmation(&self, node: &NodeId) -> Option<Confirmation> {
        let mut inner = self.lock();
        let found = inner.relayed.get(node).or_else(|| inner.manual.get(node))?;
        if found.addresses.len() < 2 && found.txt.is_empty() {
            return None;
        }
        let (ranked, port) = (self.ranked(found), found.port);
        inner.confirmed.begin(node, ranked, port, Instant::now())
    }

    /// A confirmation ended.
    pub fn confirmed(&self, c: &Confirmation, answered: Option<String>) {
        let mut inner = self.lock();
        if inner.confirmed.settle(c, answered, Instant::now()) {
            self.publish(&inner);
        }
    }

    fn ranked(&self, node: &Node) -> Vec<String> {
        let mut ranked = addresses::rank(&node.addresses, &node.txt, |ip| {
            self.surroundings.is_ours(ip)
        });
        if ranked.is_empty() && !node.host.is_empty() {
            ranked.push(node.host.clone());
        }
        ranked
    }

    fn change<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> R {
        let mut inner = self.lock();
        let result = f(&mut inner);
        self.publish(&inner);
        result
    }

    /// Builds and publishes under the lock, so that a later change never loses to an earlier one.
    fn publish(&self, inner: &Inner) {
        // Read first: what changes while the view is built makes it stale again.
        let generation = self.surroundings.generation();
        self.built_from.store(generation, Ordering::Relaxed);
        let backend = inner.usable_backend();
        let view = View::build(&Sources {
            engine: self.engine,
            relayed: &inner.relayed,
            manual: &inner.manual,
            pool: &inner.pool,
            port: inner.port,
            aliases: &inner.aliases,
            backend,
            address: &|node| {
                let ranked = self.ranked(node);
                let open = inner.confirmed.is_open(&node.id, &ranked);
                Some((inner.confirmed.choose(&node.id, &ranked)?, open))
            },
            pinned: &|principal| self.surroundings.is_pinned(principal),
            seat: &|node| self.scheduler.seat(node),
        });
        let overlays = [&inner.relayed, &inner.manual, &inner.pool];
        let all = overlays.into_iter().flatten();
        // Who misses its probes is as gone as who is not listed: what waits for it must not.
        let up = all.filter(|(_, node)| node.extra.unreachable.is_none());
        let known = up.map(|(id, _)| id.clone()).collect();
        self.routing.send_replace(Arc::new(Routing {
            view,
            pin: inner.pin.clone(),
            known,
        }));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code under this lock can leave it half changed: a panic elsewhere must not stop the
        // facade.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn backend_host(b: &LocalBackend) -> &str {
    if b.host.is_empty() {
        "127.0.0.1"
    } else {
        &b.host
    }
}

/// A request being served, while it lives.
pub struct InFlight(Arc<FacadeState>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

// Its place is said in full, since `tests/interleave` reads this file from elsewhere.
#[cfg(test)]
#[path = "facade/tests.rs"]
mod tests;
