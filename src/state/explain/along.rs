//! The dry run on the gateway: every link of the chain, and everybody who is in none.
//!
//! Owns: telling each target's part in it. Leaves to others: the chain and its order, which are found
//! by the very code of the request path (`state::chain`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use crate::rules::candidates::{Candidate, Exclusion};
use crate::rules::discovery::Node;
use crate::rules::engine::Naming;
use crate::rules::gateway::VirtualModels;
use crate::rules::ids::NodeId;
use crate::wire::control::{RouteCandidate, RouteExcluded, RouteExplained, SCHEMA_VERSION};

use super::super::chain::{self, Found, Wanted};
use super::super::facade::FacadeState;
use super::super::scheduler::{Previewed, Scheduler};
use super::super::shared::Shared;
use super::{Terms, candidate, excluded, near, without_near};

/// The route whose targets are told.
const PATH: &str = "/v1/chat/completions";

/// Decides as a request for `model` on the gateway would be decided, and takes nothing.
pub fn explain(shared: &Shared, gateway: &FacadeState, model: &str) -> RouteExplained {
    let virtuals = shared.settings.now().virtual_models.clone();
    let (found, terms) = found(shared, gateway, model, &virtuals);
    let sources = shared.sources();
    let names: BTreeMap<NodeId, Node> = sources
        .iter()
        .flat_map(|s| nodes(s))
        .map(|n| (n.id.clone(), n))
        .collect();
    let asked: Vec<Arc<str>> = (virtuals.chain(model).into_iter())
        .map(|link| link.model)
        .collect();
    let tried = found.candidates.to_vec();
    let candidates: Vec<_> = (tried.iter())
        .map(|c| RouteCandidate {
            model: c.send_as.as_deref().map(str::to_owned),
            ..told(c, &sources, &names, &terms)
        })
        .collect();
    let mut left_out = Vec::new();
    for source in &sources {
        left_out.extend(of_source(source, &tried, &found.busy, &asked));
    }
    left_out.extend(found.resting.iter().map(|(provider, rest)| RouteExcluded {
        node: provider.target().node.clone(),
        name: provider.name().to_owned(),
        near: Vec::new(),
        reason: rest.why.to_string(),
    }));
    let known = chain::models(shared, gateway, &virtuals, None);
    RouteExplained {
        schema_version: SCHEMA_VERSION,
        engine: gateway.engine(),
        model: model.to_owned(),
        policy: shared.scheduler.policy().as_str().to_owned(),
        generation: shared.scheduler.snapshot().0.0,
        pin: None,
        nearest: match candidates.is_empty() {
            true => near(model, known.keys().map(String::as_str)),
            false => Vec::new(),
        },
        candidates,
        excluded: left_out,
    }
}

/// By address: on the gateway two engines of one machine share its id.
type AllTerms = BTreeMap<Arc<str>, Terms>;

fn found(
    shared: &Shared,
    gateway: &FacadeState,
    model: &str,
    virtuals: &VirtualModels,
) -> (Found, AllTerms) {
    let mut terms = AllTerms::new();
    let scheduler: &Scheduler = &shared.scheduler;
    let wanted = Wanted {
        model: Some(model),
        path: PATH,
        clock: Instant::now,
        virtuals,
        asker: None,
        demand: &mut || 0,
        routing: &|source| source.routing(),
        order: &mut |ask, candidates, from| {
            let Previewed {
                loads, selection, ..
            } = scheduler.preview(ask, candidates, from);
            let targets = candidates.targets().skip(from);
            let reckoned = selection.weights.iter().zip(&selection.speeds);
            let all = targets.zip(loads).zip(reckoned);
            terms.extend(all.map(|((target, load), (weight, speed))| {
                let terms = Terms {
                    load,
                    weight: *weight,
                    speed: *speed,
                };
                (target.authority.clone(), terms)
            }));
            selection.full
        },
    };
    let found = chain::find(shared, gateway, wanted);
    (found, terms)
}

fn told(
    c: &Candidate,
    sources: &[Arc<FacadeState>],
    names: &BTreeMap<NodeId, Node>,
    terms: &AllTerms,
) -> RouteCandidate {
    let own = terms.get(&c.target.authority).copied();
    let terms = [(c.target.node.clone(), own.unwrap_or_default())].into();
    let source = sources.iter().find(|s| s.engine() == c.target.facade);
    let routing = source.map(|s| s.routing()).unwrap_or_default();
    RouteCandidate {
        // A pin is of one engine's facade and says nothing here.
        pinned: false,
        ..candidate(c, &routing, names, &terms)
    }
}

/// A facade's nodes that would not be tried, each with its reason.
fn of_source(
    source: &FacadeState,
    tried: &[Candidate],
    busy: &[NodeId],
    asked: &[Arc<str>],
) -> Vec<RouteExcluded> {
    let naming = source.engine().spec().naming;
    let routing = source.routing();
    let is_tried = |n: &Node| {
        let of = |c: &&Candidate| c.target.facade == source.engine() && c.target.node == n.id;
        tried.iter().any(|c| of(&c))
    };
    let left_out = nodes(source).into_iter().filter(|n| !is_tried(n));
    left_out
        .map(|n| {
            // It rests for one link's model, or has none of them.
            let rests = |model: &&Arc<str>| {
                let resting = routing.view.resting(&naming.normalize(model));
                resting.iter().any(|(id, _)| *id == n.id)
            };
            let model = asked.iter().find(rests).or(asked.first());
            let model = model.map_or("", |m| &**m);
            match owns(&n, naming, asked) && busy.contains(&n.id) {
                true if asked.iter().find(rests).is_none() => without_near(&n, Exclusion::Full),
                _ => excluded(&n, naming, model, &routing, &[]),
            }
        })
        .collect()
}

fn owns(node: &Node, naming: Naming, asked: &[Arc<str>]) -> bool {
    let is_asked = |m: &String| {
        let name = naming.normalize(m);
        asked.iter().any(|a| naming.normalize(a) == name)
    };
    node.models.iter().any(is_asked)
}

fn nodes(source: &FacadeState) -> Vec<Node> {
    let mut all = source.nodes();
    all.extend(source.pool_nodes());
    all
}
