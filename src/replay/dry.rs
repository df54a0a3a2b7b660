//! The dry replay: the daemon as it is now, and a table of who would get what.
//!
//! Owns: taking the snapshot, the report. Leaves to others: the virtual clock and the decisions
//! (`rules::replay`). Live state is only read.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::rules::engine::EngineId;
use crate::rules::gateway::VirtualModels;
use crate::rules::ids::NodeId;
use crate::rules::policy::Selector;
use crate::rules::replay::{Arrival, Outcome, Place, Scene, Speed, simulate};
use crate::rules::reservations::Board;
use crate::state::facade::Routing;
use crate::state::shared::Shared;
use crate::wire::replay::{DryReport, Moved, NodeShare, Unowned};

/// What decides, as it was at one moment.
pub struct Snapshot {
    selector: Selector,
    board: Board,
    facades: Vec<(EngineId, Arc<Routing>, bool)>,
    virtuals: Arc<VirtualModels>,
    /// Host names of the nodes that are known.
    names: BTreeMap<NodeId, String>,
}

impl Snapshot {
    /// The daemon as it is.
    pub fn take(shared: &Shared) -> Self {
        let facades = shared.sources();
        let is_open = |engine| shared.facade(engine).is_some();
        let nodes = facades
            .iter()
            .flat_map(|f| f.nodes().into_iter().chain(f.pool_nodes()));
        let (board, selector) = shared.scheduler.background();
        Self {
            selector,
            board,
            names: nodes
                .map(|n| (n.id.clone(), n.shown().to_owned()))
                .collect(),
            facades: facades
                .iter()
                .map(|f| (f.engine(), f.routing(), is_open(f.engine())))
                .collect(),
            virtuals: shared.settings.now().virtual_models.clone(),
        }
    }

    /// Replays arrivals against it.
    pub fn replay(self, arrivals: &[Arrival], speed: Speed) -> DryReport {
        let places: Vec<_> = self
            .facades
            .iter()
            .map(|(engine, routing, open)| Place {
                engine: *engine,
                view: &routing.view,
                pin: routing.pin.as_ref(),
                open: *open,
            })
            .collect();
        let generation = self.board.generation().0;
        let policy = self.selector.policy();
        let scene = Scene {
            selector: self.selector,
            board: self.board,
            places: &places,
            virtuals: &self.virtuals,
        };
        let outcome = simulate(scene, arrivals, speed);
        let nodes = shares(self.names, arrivals, &outcome);
        DryReport {
            policy: policy.as_str().to_owned(),
            generation,
            nodes,
            ..compare(arrivals, &outcome)
        }
    }
}

fn shares(
    names: BTreeMap<NodeId, String>,
    arrivals: &[Arrival],
    outcome: &Outcome,
) -> Vec<NodeShare> {
    let share = |node: NodeId, name: String, known| NodeShare {
        peak_in_flight: outcome.peaks.get(&node).copied().unwrap_or(0),
        node,
        name,
        known,
        then: 0,
        now: 0,
    };
    let mut all: BTreeMap<NodeId, NodeShare> = names
        .into_iter()
        .map(|(node, name)| (node.clone(), share(node, name, true)))
        .collect();
    for (arrival, placed) in std::iter::zip(arrivals, &outcome.placed) {
        if let Some(node) = &arrival.node {
            let new = || share(node.clone(), String::new(), false);
            all.entry(node.clone()).or_insert_with(new).then += 1;
        }
        if let Ok(node) = placed {
            // Known to the view, so it has its entry; a node may have come between the two reads.
            let new = || share(node.clone(), String::new(), true);
            all.entry(node.clone()).or_insert_with(new).now += 1;
        }
    }
    all.into_values().collect()
}

fn compare(arrivals: &[Arrival], outcome: &Outcome) -> DryReport {
    let mut report = DryReport {
        policy: String::new(),
        generation: 0,
        nodes: Vec::new(),
        no_owner_then: 0,
        no_owner_now: 0,
        moved: Vec::new(),
        unowned: Vec::new(),
    };
    for (a, placed) in std::iter::zip(arrivals, &outcome.placed) {
        report.no_owner_then += u64::from(a.node.is_none());
        match (placed, &a.node) {
            (Ok(to), Some(from)) if to != from => report.moved.push(Moved {
                run_id: a.run_id.clone(),
                engine: a.engine,
                id: a.id,
                model: a.model.clone(),
                from: from.clone(),
                to: to.clone(),
            }),
            (Ok(_), _) => {},
            (Err(why), from) => {
                report.no_owner_now += 1;
                report.unowned.push(Unowned {
                    run_id: a.run_id.clone(),
                    engine: a.engine,
                    id: a.id,
                    model: a.model.clone(),
                    from: from.clone(),
                    reason: why.as_str().to_owned(),
                });
            },
        }
    }
    report
}
