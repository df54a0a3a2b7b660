//! The dry run of one decision: who would get a request for this model now, and why (product
//! section 4, `route`).
//!
//! Owns: telling every node's part in it. Leaves to others: the decision, which is made by the very
//! parts that serve a request: the facade's view, the scheduler's order, one node an address.

mod along;

use std::collections::BTreeMap;

use crate::rules::candidates::{Candidate, Exclusion};
use crate::rules::discovery::Node;
use crate::rules::engine::Naming;
use crate::rules::ids::NodeId;
use crate::rules::nearest::nearest;
use crate::rules::policy::Ask;
use crate::rules::reservations::Load;
use crate::rules::weighted::Speed;
use crate::wire::control::{RouteCandidate, RouteExcluded, RouteExplained, SCHEMA_VERSION};

use super::facade::{FacadeState, Routing};
use super::scheduler::{Previewed, Scheduler};

pub use along::explain as explain_along;

/// Near names that are told of one node, and of all.
const NEAR: usize = 3;

/// Decides as a request for `model` would be decided, and takes nothing.
pub fn explain(facade: &FacadeState, scheduler: &Scheduler, model: &str) -> RouteExplained {
    let naming = facade.engine().spec().naming;
    let routing = facade.routing();
    let normalized = naming.normalize(model);
    let mut tried = routing.view.shortlist(Some(&normalized));
    let ask = Ask {
        engine: facade.engine(),
        model: &normalized,
        pin: routing.pin.as_ref(),
    };
    let Previewed {
        generation,
        loads,
        selection,
    } = scheduler.preview(ask, &mut tried, 0);
    let terms: BTreeMap<NodeId, Terms> = (tried.targets().zip(loads))
        .zip(selection.weights.iter().zip(&selection.speeds))
        .map(|((target, load), (weight, speed))| {
            let terms = Terms {
                load,
                weight: *weight,
                speed: *speed,
            };
            (target.node.clone(), terms)
        })
        .collect();
    let ordered = tried.to_vec();
    if routing.view.shares_addresses() {
        tried.drop_shared();
    }
    let tried = tried.to_vec();
    let known = facade.nodes().into_iter().chain(facade.pool_nodes());
    let nodes: BTreeMap<NodeId, Node> = known.map(|n| (n.id.clone(), n)).collect();
    let candidates: Vec<_> = tried
        .iter()
        .map(|c| candidate(c, &routing, &nodes, &terms))
        .collect();
    let excluded = nodes
        .values()
        .filter(|n| !tried.iter().any(|c| c.target.node == n.id))
        .map(|n| match selection.full.contains(&n.id) {
            true => without_near(n, Exclusion::Full),
            false => excluded(n, naming, model, &routing, &ordered),
        })
        .collect();
    RouteExplained {
        schema_version: SCHEMA_VERSION,
        engine: facade.engine(),
        model: model.to_owned(),
        policy: scheduler.policy().as_str().to_owned(),
        generation: generation.0,
        pin: routing.pin.clone(),
        nearest: match candidates.is_empty() {
            true => near(model, routing.view.models().map(|(known, _)| known)),
            false => Vec::new(),
        },
        candidates,
        excluded,
    }
}

/// What a candidate's place follows from.
#[derive(Clone, Copy, Default)]
struct Terms {
    load: Load,
    weight: i64,
    speed: Speed,
}

/// To one decimal: an average is no more exact.
fn rounded(figure: f64) -> f64 {
    (figure * 10.0).round() / 10.0
}

fn candidate(
    c: &Candidate,
    routing: &Routing,
    nodes: &BTreeMap<NodeId, Node>,
    terms: &BTreeMap<NodeId, Terms>,
) -> RouteCandidate {
    let node = &c.target.node;
    let Terms {
        load,
        weight,
        speed,
    } = terms.get(node).copied().unwrap_or_default();
    RouteCandidate {
        node: node.clone(),
        name: nodes
            .get(node)
            .map_or_else(String::new, |n| n.shown().to_owned()),
        address: c.target.authority.to_string(),
        model: None,
        pending: load.pending,
        pressure: load.pressure,
        reserved: load.reserved,
        in_flight: load.in_flight,
        load: load.estimate(),
        slots: c.target.slots,
        weight,
        ttft_ms: speed.ttft_ms.value().map(rounded),
        tokens_per_second: speed.tps.value().map(rounded),
        warm: c.warm,
        pinned: routing.pin.as_ref() == Some(node),
    }
}

/// Unreachable goes before anything else; then it is no owner, or its address is another's.
fn excluded(
    node: &Node,
    naming: Naming,
    model: &str,
    routing: &Routing,
    ordered: &[Candidate],
) -> RouteExcluded {
    let unreachable = routing
        .view
        .excluded()
        .iter()
        .find(|(id, _)| *id == node.id);
    let name = naming.normalize(model);
    let rests = routing
        .view
        .resting(&name)
        .iter()
        .find(|(id, _)| *id == node.id);
    let why = match (unreachable, rests) {
        (Some((_, why)), _) => why.clone(),
        (None, Some((_, why))) => Exclusion::Resting(why.clone()),
        (None, None) => shared(node, ordered).unwrap_or(Exclusion::NotAnOwner),
    };
    let near = match why {
        Exclusion::NotAnOwner => near(&name, node.models.iter().map(String::as_str)),
        _ => Vec::new(),
    };
    RouteExcluded {
        near,
        ..without_near(node, why)
    }
}

fn without_near(node: &Node, why: Exclusion) -> RouteExcluded {
    RouteExcluded {
        node: node.id.clone(),
        name: node.shown().to_owned(),
        near: Vec::new(),
        reason: why.to_string(),
    }
}

/// It owns the model, but a node in front of it has the same address.
fn shared(node: &Node, ordered: &[Candidate]) -> Option<Exclusion> {
    let own = ordered.iter().find(|c| c.target.node == node.id)?;
    let first = ordered
        .iter()
        .find(|c| c.target.authority == own.target.authority)?;
    Some(Exclusion::SameAs(first.target.node.clone()))
}

fn near<'a>(model: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let found = nearest(model, known, NEAR);
    found.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::command::{PrioritySnapshot, Rank};
    use super::super::facade::Alone;
    use super::*;
    use crate::rules::discovery::tests::node;
    use crate::rules::engine::EngineId;
    use crate::rules::policy::Policy;

    fn facade(policy: Policy) -> (FacadeState, Arc<Scheduler>) {
        let scheduler = Arc::new(Scheduler::new(policy));
        let engine = EngineId::parse("ollama").unwrap();
        let facade = FacadeState::new(engine, Arc::new(Alone), scheduler.clone());
        facade.opened(11435, 0);
        (facade, scheduler)
    }

    fn tried(told: &RouteExplained) -> Vec<&str> {
        told.candidates.iter().map(|c| c.node.as_str()).collect()
    }

    fn reasons(told: &RouteExplained) -> Vec<(&str, &str)> {
        told.excluded
            .iter()
            .map(|e| (e.node.as_str(), e.reason.as_str()))
            .collect()
    }

    #[test]
    fn every_node_is_told_of_with_its_place_or_its_reason() {
        let (f, s) = facade(Policy::Weighted);
        for (id, port, models) in [
            ("a", 1, &["qwen3:8b"][..]),
            ("b", 2, &["qwen3:8b"]),
            ("c", 3, &["qwen3:4b", "phi4"]),
            ("down", 4, &["qwen3:8b"]),
            ("twin", 1, &["qwen3:8b"]),
            ("us", 11435, &["qwen3:8b"]),
        ] {
            let mut n = node(id, port, models);
            if id == "down" {
                n.extra.unreachable = Some("connection refused".into());
            }
            if id == "b" {
                n.extra.warm = vec!["qwen3:8b".into()];
            }
            f.add_manual(n);
        }
        f.snapshot(vec![node("den", 9, &["qwen3:8b"])]);
        let told = explain(&f, &s, "qwen3:8b");
        assert_eq!(tried(&told), ["b", "a"], "warm goes first");
        assert!(told.candidates[0].warm);
        assert_eq!(told.candidates[0].address, "127.0.0.1:2");
        assert_eq!(
            reasons(&told),
            [
                ("c", "does not advertise the model"),
                ("den", "relayed, but its certificate is not pinned here"),
                ("down", "does not answer: connection refused"),
                ("twin", "has the same address as a"),
                (
                    "us",
                    "is this machine, and no healthy local engine is known"
                ),
            ]
        );
        assert_eq!(told.excluded[0].near, ["qwen3:4b"]);
        assert!(told.nearest.is_empty());
    }

    #[test]
    fn the_order_is_the_policy_s_and_nothing_is_taken() {
        let (f, s) = facade(Policy::Listed);
        for (id, port) in [("a", 1), ("b", 2), ("c", 3)] {
            f.add_manual(node(id, port, &["m"]));
        }
        let rank = |id: &str, pending, gpu_pressure| Rank {
            id: id.into(),
            pending,
            gpu_pressure,
        };
        s.apply(PrioritySnapshot {
            generation: 7,
            nodes: vec!["b".into(), "c".into()],
            ranks: vec![rank("b", 2, 1), rank("c", 1, 0)],
        });
        let told = explain(&f, &s, "m:latest");
        assert_eq!(tried(&told), ["c", "b", "a"]);
        let b = &told.candidates[1];
        assert_eq!((b.pending, b.pressure, b.reserved, b.load), (2, 1, 0, 3));
        assert_eq!((told.generation, told.policy.as_str()), (7, "listed"));
        for _ in 0..3 {
            assert_eq!(
                explain(&f, &s, "m"),
                RouteExplained {
                    model: "m".into(),
                    ..told.clone()
                }
            );
        }
        assert!(f.select(Some("a".into())));
        let told = explain(&f, &s, "m");
        assert_eq!(tried(&told), ["a", "b", "c"]);
        assert!(told.candidates[0].pinned && !told.candidates[1].pinned);
        assert_eq!(told.pin, Some("a".into()));
    }

    #[test]
    fn without_an_owner_the_nearest_names_are_told() {
        let (f, s) = facade(Policy::Ordered);
        f.add_manual(node("a", 1, &["qwen3:8b"]));
        let told = explain(&f, &s, "qwen3:7b");
        assert!(told.candidates.is_empty());
        assert_eq!(told.nearest, ["qwen3:8b"]);
    }
}
