//! Who is kept: the one way in and out, whoever asks for it.
//!
//! Owns: names, places in the list, what follows for the places that are looked at, and the nodes of
//! facades that are off. Leaves to others: why a node comes or goes (`named`, `changing`), probing
//! (`keeper`).
//!
//! A node is here or gone. One that is here is asked while its engine has a facade, and rests while
//! it has none; the place in the list of one that is gone is used again once its last probe is over.

use super::{Keeper, Scout};
use crate::config::file::NodeSetting;
use crate::config::node_url::NodeUrl;
use crate::director::kept::{Kept, Origin, Turn};
use crate::director::local::Place;
use crate::director::plan;
use crate::director::probe::Target;
use crate::rules::addresses::is_loopback_host;
use crate::rules::engine::EngineId;
use crate::state::command::{Command, LocalBackend};
use crate::wire::jsonrpc::CommandError;

impl Keeper {
    /// Takes a node in that somebody named.
    pub(super) fn name(&mut self, node: &NodeSetting, origin: Origin) -> usize {
        let (engine, url) = (node.engine, &node.url);
        let name = node.name.as_deref();
        let id = self
            .names
            .take(engine, name, &url.host, url.port, &url.prefix);
        let i = self.keep(Kept::new(id, Target::of(node)));
        self.describe(i, node, origin);
        // Nobody looks where somebody is known to be; a peer's port is not even dialled.
        for s in 0..self.scouts.len() {
            if self.is_there(&self.nodes[i], self.scouts[s].place) {
                self.scouts[s].turn.active = false;
            }
        }
        if self.off.contains(&engine) {
            self.nodes[i].rest();
        }
        i
    }

    /// Gives a node what was said of it.
    pub(super) fn describe(&mut self, i: usize, node: &NodeSetting, origin: Origin) {
        let others = self.nodes.iter().enumerate().filter(|(j, _)| *j != i);
        let is_local = |n: &Kept| !n.gone && n.local && n.target.engine == node.engine;
        // Peers and clients of this machine's engine speak to its origin, so no prefix.
        let local = node.peer.is_none()
            && is_loopback_host(&node.url.host)
            && node.url.prefix.is_empty()
            && !others.into_iter().any(|(_, n)| is_local(n));
        self.nodes[i].describe(node, origin, local);
    }

    /// Takes a node in, in the place of one that is gone if there is one.
    pub(super) fn keep(&mut self, kept: Kept) -> usize {
        match self.nodes.iter().position(Kept::is_free) {
            Some(i) => {
                self.nodes[i] = kept;
                i
            },
            None => {
                self.nodes.push(kept);
                self.nodes.len() - 1
            },
        }
    }

    /// Makes a kept node another one. Its standing lasts where it stays at its place: a new weight is
    /// no news of its health.
    pub(super) async fn replace(&mut self, i: usize, new: &NodeSetting, origin: Origin) -> usize {
        let node = &self.nodes[i];
        let keeps_id = new.name.as_ref().is_none_or(|n| n == node.id.as_str());
        if keeps_id && node.is_at(new.engine, &new.url) && node.peer == new.peer {
            self.describe(i, new, origin);
            return i;
        }
        self.take_out(i).await;
        self.name(new, origin)
    }

    /// Forgets a node here and at the daemon.
    pub(super) async fn take_out(&mut self, i: usize) {
        let node = &mut self.nodes[i];
        let was_asked = std::mem::take(&mut node.turn.active);
        node.gone = true;
        for (_, r) in std::mem::take(&mut node.waiting) {
            r.answer(Err(CommandError::refused(
                "it was removed or replaced meanwhile",
            )));
        }
        let (engine, id) = (node.target.engine, node.id.clone());
        let (told, told_local) = (node.told.take(), node.told_local.take());
        self.names.release(engine, &id);
        if told.is_some() {
            let gone = self.commands.call(|r| Command::RemoveManual(engine, id, r));
            // Refused where its facade is gone: then there is nothing to forget.
            drop(gone.await);
        }
        if told_local.is_some() {
            self.forget_backend(engine).await;
        }
        if was_asked {
            self.look_for(i);
        }
    }

    /// The facade of this engine goes, or did not come. It keeps its nodes for the requests under way,
    /// so that nothing is taken from it; here they rest until it comes (again).
    pub fn leave(&mut self, engine: EngineId) {
        if !self.off.contains(&engine) {
            self.off.push(engine);
        }
        let saved = self.asks.book.is_saved();
        let nodes = self.nodes.iter_mut();
        for node in nodes.filter(|n| !n.gone && n.target.engine == engine) {
            if node.rest() {
                self.stale.push((engine, node.id.clone()));
            }
            // Nothing is learned of it for now.
            node.report(saved);
        }
        let scouts = self.scouts.iter_mut();
        for scout in scouts.filter(|s| s.place.engine == engine) {
            scout.turn.active = false;
        }
    }

    /// Lets the engines rest that nobody asks for after the start.
    pub async fn rest(&mut self, engines: Vec<EngineId>) {
        for engine in engines {
            self.leave(engine);
            self.forget_stale(engine).await;
        }
    }

    /// Whether this engine's nodes rest.
    pub fn rests(&self, engine: EngineId) -> bool {
        self.off.contains(&engine)
    }

    /// The facade of this engine comes (again): what it still holds from before goes, its nodes are
    /// asked again, and this machine is looked at.
    pub async fn enter(&mut self, engine: EngineId) {
        self.forget_stale(engine).await;
        self.forget_backend(engine).await;
        self.off.retain(|e| *e != engine);
        let nodes = self.nodes.iter_mut();
        for node in nodes.filter(|n| !n.gone && n.target.engine == engine) {
            node.wake();
        }
        let places = self.places.iter().filter(|p| p.engine == engine).copied();
        for place in places.collect::<Vec<_>>() {
            if !self.knows(place) {
                self.watch(place);
            }
        }
    }

    /// Whether a node is the engine at a place where engines of this machine are looked for.
    pub(super) fn is_there(&self, node: &Kept, place: Place) -> bool {
        let t = &node.target;
        t.engine == place.engine
            && t.port == place.port
            && plan::is_place(&t.host, self.names.host_name())
    }

    /// Whether a node that is here is at such a place.
    pub(super) fn knows(&self, place: Place) -> bool {
        self.nodes
            .iter()
            .any(|n| !n.gone && self.is_there(n, place))
    }

    /// Whether a node is what is meant by a URL: named by it, or found where it points.
    pub(super) fn is_meant(&self, node: &Kept, engine: EngineId, url: &NodeUrl) -> bool {
        let found = || {
            node.is_found()
                && (node.target.engine, node.target.port) == (engine, url.port)
                && plan::is_place(&url.host, self.names.host_name())
        };
        !node.gone && (node.is_at(engine, url) || found())
    }

    /// Looks at a place, from now on.
    pub(super) fn watch(&mut self, place: Place) {
        if let Some(scout) = self.scouts.iter_mut().find(|s| s.place == place) {
            return scout.look_again();
        }
        self.scouts.push(Scout {
            place,
            looked: false,
            found: false,
            turn: Turn::now(),
        });
    }

    /// Whoever listens where this node was is found by looking, without the name.
    fn look_for(&mut self, i: usize) {
        let node = &self.nodes[i];
        let here = self.places.iter().find(|p| self.is_there(node, **p));
        if let Some(place) = here.copied() {
            self.watch(place);
        }
    }

    async fn forget_stale(&mut self, engine: EngineId) {
        let stale = self.stale.extract_if(.., |(e, _)| *e == engine);
        for (engine, id) in stale.collect::<Vec<_>>() {
            let gone = self.commands.call(|r| Command::RemoveManual(engine, id, r));
            // Refused where no facade was ever known: then there is nothing to forget.
            drop(gone.await);
        }
    }

    /// This machine has no engine of this kind.
    async fn forget_backend(&mut self, engine: EngineId) {
        let none = LocalBackend {
            host: String::new(),
            port: 0,
            healthy: false,
        };
        let call = self
            .commands
            .call(|r| Command::SetLocalBackend(engine, none, r));
        drop(call.await);
    }
}
