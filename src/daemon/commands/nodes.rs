//! Commands about nodes: pins, records by hand, snapshots of discovery, loads, the local engine.
//!
//! Owns: their checks and what is announced of them. Leaves to others: facades and their listeners
//! (`commands`), keeping nodes that people name (`director`).

use super::*;

impl Executor {
    pub(super) fn select(&self, engine: EngineId, node: Option<NodeId>, r: Responder<()>) {
        if engine.is_gateway() {
            return r.answer(Err(no_nodes_of_its_own()));
        }
        let facade = match self.facade(engine) {
            Ok(facade) => facade,
            Err(e) => return r.answer(Err(e)),
        };
        if !facade.select(node.clone()) {
            let id = node.as_ref().map_or("", NodeId::as_str);
            let text = format!("no node {id:?} on the {} facade", engine.spec().display);
            return r.answer(Err(CommandError::params(text)));
        }
        r.answer(Ok(()));
        self.emit(Notice::SelectionChanged(engine, node));
    }

    pub(super) fn add_manual(&mut self, engine: EngineId, node: ManualNode, r: Responder<()>) {
        let n = &node.record;
        if n.id.is_empty() || n.port == 0 || n.addresses.iter().all(String::is_empty) {
            let text = "a manual node needs id, port and at least one address";
            return r.answer(Err(CommandError::params(text)));
        }
        match self.facade_or_early(engine) {
            Err(e) => r.answer(Err(e)),
            Ok(facade) => {
                let node = manual(node);
                let record = announced(&node);
                let is_new = facade.add_manual(node);
                r.answer(Ok(()));
                self.emit(match is_new {
                    true => Notice::NodeDiscovered(engine, record),
                    false => Notice::NodeUpdated(engine, record),
                });
            },
        }
    }

    pub(super) fn remove_manual(&mut self, engine: EngineId, node: &NodeId, r: Responder<bool>) {
        match self.facade_or_early(engine) {
            Err(e) => r.answer(Err(e)),
            Ok(facade) => {
                let removed = facade.remove_manual(node);
                r.answer(Ok(removed.is_some()));
                let Some(removed) = removed else { return };
                if removed.was_pinned {
                    self.emit(Notice::SelectionChanged(engine, None));
                }
                let record = NodeRecord {
                    id: node.to_string(),
                    ..NodeRecord::default()
                };
                self.emit(Notice::NodeRemoved(engine, record));
            },
        }
    }

    /// Hands a node to whoever keeps them; where nobody does, it is a manual node as it stands.
    pub(super) fn add_node(&mut self, node: Box<NewNode>, r: Responder<NodeAdded>) {
        let engine = node.setting.engine;
        if engine.is_gateway() {
            return r.answer(Err(no_nodes_of_its_own()));
        }
        if let Some(desk) = &self.desk {
            let asked = self.context.shared.facade(EngineId::GATEWAY).is_some();
            if let (Err(e), false) = (self.facade(engine), asked) {
                return r.answer(Err(e));
            }
            return leave(desk, NodeAsk::Add(node, r));
        }
        let (url, is_record) = (node.setting.url.to_string(), node.record.is_some());
        if !is_record && node.setting.models.is_none() {
            let text = "under a broker nodes are not probed, so that the models of this one have to \
                        be named";
            return r.answer(Err(CommandError::params(text)));
        }
        let record = node.into_record();
        let (id, models) = (NodeId::from(record.id.as_str()), record.models.clone());
        let replaced = self.facade(engine).is_ok_and(|f| f.is_manual(&id));
        let node = ManualNode {
            record,
            extra: Extra::default(),
        };
        let added = NodeAdded {
            schema_version: SCHEMA_VERSION,
            engine,
            id,
            url,
            replaced,
            saved: false,
            state: NodeState::Unknown,
            reason: None,
            models,
        };
        let then = Responder::new(move |done: Result<(), _>| r.answer(done.map(|()| added)));
        self.add_manual(engine, node, then);
    }

    pub(super) fn remove_node(&mut self, engine: EngineId, node: NodeId, r: Responder<bool>) {
        match &self.desk {
            Some(desk) => leave(desk, NodeAsk::Remove(engine, node, r)),
            None => self.remove_manual(engine, &node, r),
        }
    }

    pub(super) fn set_local_backend(
        &mut self,
        engine: EngineId,
        backend: LocalBackend,
    ) -> Result<(), CommandError> {
        let facade = self.facade_or_early(engine)?;
        if !backend.host.is_empty() && !is_loopback_host(&backend.host) {
            let text = format!(
                "the local backend's host {:?} is not loopback",
                backend.host
            );
            return Err(CommandError::params(text));
        }
        facade.set_backend(backend);
        Ok(())
    }

    pub(super) fn set_priority(&self, snapshot: PrioritySnapshot) -> Result<usize, CommandError> {
        if snapshot.generation == 0 {
            return Err(CommandError::params("generation must be above 0"));
        }
        Ok(self.context.shared.scheduler.apply(snapshot))
    }

    pub(super) fn discovery(&self, engine: EngineId, nodes: Vec<DirectoryNode>) {
        // Without a facade there is nobody to tell; the next snapshot supersedes this one.
        let Ok(facade) = self.facade(engine) else {
            return;
        };
        let nodes = nodes
            .into_iter()
            .filter_map(|d| project(engine, d))
            .collect();
        let change = facade.snapshot(nodes);
        self.announce(engine, &facade, change);
    }

    pub(super) fn announce(&self, engine: EngineId, facade: &FacadeState, change: SnapshotChange) {
        let nodes: HashMap<NodeId, _> = facade
            .nodes()
            .into_iter()
            .map(|n| (n.id.clone(), n))
            .collect();
        let report = |id: &NodeId| format!("{}:upstream-unreachable:{id}", engine.spec().component);
        for node in change.diff.new.iter().filter_map(|id| nodes.get(id)) {
            self.emit(Notice::NodeDiscovered(engine, announced(node)));
            self.emit(Notice::ErrorClear(engine, report(&node.id)));
        }
        for node in change.diff.changed.iter().filter_map(|id| nodes.get(id)) {
            self.emit(Notice::NodeUpdated(engine, announced(node)));
        }
        for node in &change.gone {
            self.emit(Notice::NodeRemoved(engine, announced(node)));
            let name = if node.host.is_empty() {
                node.id.as_str()
            } else {
                &node.host
            };
            let text =
                format!("{name} left discovery; requests go to other nodes until it is back");
            self.emit(Notice::ErrorReport(engine, report(&node.id), text));
        }
        if change.unpinned {
            self.emit(Notice::SelectionChanged(engine, None));
        }
    }
}

pub(super) fn no_nodes_of_its_own() -> CommandError {
    CommandError::params(
        "the gateway has no nodes of its own: say which engine it is, or name a chain of targets in \
         [virtual_models]",
    )
}

/// Leaves a request for the keeper of the nodes, who answers it.
fn leave(desk: &Desk, ask: NodeAsk) {
    use tokio::sync::mpsc::error::TrySendError;
    match desk.try_send(ask) {
        Ok(()) => {},
        Err(TrySendError::Full(ask)) => ask.refuse("too many nodes are being added; try it again"),
        Err(TrySendError::Closed(ask)) => ask.refuse("the daemon is starting or shutting down"),
    }
}
