//! Nodes that come, go and change while the daemon runs.
//!
//! Owns: what a difference of two configurations means for the kept nodes.
//! Leaves to others: the difference (`config::change`), probing (`keeper`).

use tokio::time::Instant;

use super::keeper::Keeper;
use super::local::Place;
use crate::config::change::Nodes;
use crate::config::file::NodeSetting;
use crate::rules::engine::EngineId;
use crate::state::command::{Command, LocalBackend};

impl Keeper {
    /// Takes nodes out, in, and over.
    pub async fn change(&mut self, nodes: &Nodes<'_>) {
        for node in &nodes.removed {
            for i in self.at(node) {
                self.take_out(i).await;
                self.look_for(i);
            }
        }
        for node in &nodes.changed {
            for i in self.at(node) {
                let kept = &mut self.nodes[i];
                kept.target.api_key.clone_from(&node.api_key);
                kept.target.models_known = node.models.is_some();
                kept.models.clone_from(&node.models);
                kept.slots = node.slots;
                kept.weight = node.weight.unwrap_or(0);
                kept.turn.due = Instant::now();
            }
        }
        for node in &nodes.added {
            let place = Place {
                engine: node.engine,
                port: node.url.port,
            };
            // It was found before it was named: one engine, not two.
            let here = super::plan::is_place(&node.url.host, self.names.host_name());
            let found = |n: &super::kept::Kept| {
                !n.removed
                    && n.found
                    && n.target.engine == place.engine
                    && n.target.port == place.port
            };
            if here && node.peer.is_none() {
                let same: Vec<_> = (0..self.nodes.len())
                    .filter(|i| found(&self.nodes[*i]))
                    .collect();
                for i in same {
                    self.take_out(i).await;
                }
                let scouts = self.scouts.iter_mut().filter(|s| s.place == place);
                scouts.for_each(|s| s.turn.active = false);
            }
            self.name(node);
        }
    }

    /// The facade of this engine goes. It keeps its nodes for the requests under way, so that nothing
    /// is taken from it.
    pub fn leave(&mut self, engine: EngineId) {
        for i in 0..self.nodes.len() {
            let node = &mut self.nodes[i];
            if node.removed || node.target.engine != engine {
                continue;
            }
            (node.removed, node.turn.active, node.told_local) = (true, false, None);
            if node.told.take().is_some() {
                self.stale.push((engine, node.id.clone()));
            }
            self.names.release(engine, &node.id);
        }
        let scouts = self.scouts.iter_mut();
        for scout in scouts.filter(|s| s.place.engine == engine) {
            scout.turn.active = false;
        }
    }

    /// The facade of this engine comes (again): what it still holds from before goes, and this
    /// machine is looked at. `named` are all nodes that are named now: those that went with the facade
    /// come back with it.
    pub async fn enter(&mut self, engine: EngineId, named: &[NodeSetting]) {
        let of = |(e, _): &mut (EngineId, _)| *e == engine;
        let stale: Vec<_> = self.stale.extract_if(.., of).collect();
        for (engine, id) in stale {
            // A node of that id may have been named anew, and is told when it has answered.
            drop(
                self.commands
                    .call(|r| Command::RemoveManual(engine, id, r))
                    .await,
            );
        }
        drop(
            self.commands
                .call(|r| Command::SetLocalBackend(engine, none(), r))
                .await,
        );
        for node in named.iter().filter(|n| n.engine == engine) {
            if self.at(node).is_empty() {
                self.name(node);
            }
        }
        let places = self.places.iter().filter(|p| p.engine == engine).copied();
        for place in places.collect::<Vec<_>>() {
            if !self.knows(place) {
                self.watch(place);
            }
        }
        let kept = self.nodes.iter_mut();
        for node in kept.filter(|n| !n.removed && n.target.engine == engine) {
            // One whose facade could not be opened before was left alone.
            (node.turn.active, node.turn.due) = (true, Instant::now());
            (node.told, node.told_local) = (None, None);
        }
    }

    /// The kept nodes at the place of a named one: one, or none.
    fn at(&self, node: &NodeSetting) -> Vec<usize> {
        let same = |i: &usize| {
            let n = &self.nodes[*i];
            let (t, url) = (&n.target, &node.url);
            let place = t.host == url.host && t.port == url.port && t.prefix == url.prefix;
            !n.removed && !n.found && t.engine == node.engine && place
        };
        (0..self.nodes.len()).filter(same).collect()
    }

    async fn take_out(&mut self, i: usize) {
        let node = &mut self.nodes[i];
        let (engine, id) = (node.target.engine, node.id.clone());
        (node.removed, node.turn.active) = (true, false);
        self.names.release(engine, &id);
        let (told, told_local) = (node.told.take(), node.told_local.take());
        if told_local.is_some() {
            drop(
                self.commands
                    .call(|r| Command::SetLocalBackend(engine, none(), r))
                    .await,
            );
        }
        if told.is_some() {
            // Refused where its facade is gone: then there is nothing to forget.
            drop(
                self.commands
                    .call(|r| Command::RemoveManual(engine, id, r))
                    .await,
            );
        }
    }

    /// A node that is named no more may be an engine of this machine, which is found by looking.
    fn look_for(&mut self, i: usize) {
        let target = &self.nodes[i].target;
        let place = Place {
            engine: target.engine,
            port: target.port,
        };
        let here = super::plan::is_place(&target.host, self.names.host_name());
        if here && self.places.contains(&place) {
            self.watch(place);
        }
    }
}

/// This machine has no engine of the kind.
fn none() -> LocalBackend {
    LocalBackend {
        host: String::new(),
        port: 0,
        healthy: false,
    }
}
