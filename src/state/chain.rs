//! Who may serve a request now, link by link (product section 8): one link on an engine's facade, on
//! the gateway those of its chain.
//!
//! Owns: gathering candidates from what is known of each engine, link by link. Leaves to others: what
//! a chain is (`rules::gateway`), the order within a link (`rules::policy`, by the caller's hand),
//! trying them (`facade::round`). The request path and the `route` dry run both call this.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use crate::rules::candidates::Candidate;
use crate::rules::client_key::{TargetKind, TargetRef};
use crate::rules::dispatch::Answer;
use crate::rules::gateway::{Link, Place, VirtualModels, node_serves, provider_serves};
use crate::rules::ids::NodeId;
use crate::rules::policy::Ask;
use crate::rules::shortlist::Shortlist;

use super::clients::Client;
use super::facade::{FacadeState, Routing};
use super::providers::{Choice, Provider, Rest};
use super::shared::Shared;

/// What a request asks for.
pub struct Wanted<'a> {
    /// The model's name as requested; `None` where none decides.
    pub model: Option<&'a str>,
    /// Path of its route.
    pub path: &'a str,
    /// Where to read the time, if anybody wants to know.
    pub clock: fn() -> Instant,
    /// The virtual models in force.
    pub virtuals: &'a VirtualModels,
    /// Whose key it shows, where it shows one.
    pub asker: Option<Asker<'a>>,
    /// Tokens that it may need, estimated when somebody wants to know.
    pub demand: &'a mut dyn FnMut() -> u64,
    /// A facade's routing, made new if need be.
    pub routing: &'a dyn Fn(&FacadeState) -> Arc<Routing>,
    /// Puts a link's candidates in order, which are those from a place on, and takes out the pool nodes
    /// that are full. From 0 on it is the first link that has any, on which the request counts.
    pub order: &'a mut Order<'a>,
}

/// A caller with a key.
#[derive(Clone, Copy)]
pub struct Asker<'a> {
    /// Who.
    pub client: &'a Client,
    /// Whether the request runs a model. One that does not was judged by its route.
    pub runs: bool,
}

impl Asker<'_> {
    /// Whether its key may use this model at a target; the name as it is compared there.
    fn may(self, target: TargetRef, model: Option<&str>) -> bool {
        let grants = self.client.grants();
        match self.runs {
            true => grants.allows(target, model.unwrap_or_default()),
            false => grants.allows_some(target),
        }
    }
}

/// How a link is put in order.
pub type Order<'a> = dyn FnMut(Ask, &mut Shortlist, usize) -> Vec<NodeId> + 'a;

/// Whoever may serve it.
#[derive(Default)]
pub struct Found {
    /// In the order in which they are tried, as far as it is decided now.
    pub candidates: Shortlist,
    /// Where each link's candidates end, if there is more than one link: only within a link is
    /// somebody else chosen later.
    pub ends: Vec<usize>,
    /// Owners that take nothing now.
    pub busy: Vec<NodeId>,
    /// The providers among the candidates, by their targets' ids.
    pub providers: Vec<Arc<Provider>>,
    /// Providers that take nothing now, and until when.
    pub resting: Vec<(Arc<Provider>, Rest)>,
    /// It fits the context of no owner, and no owner rests.
    pub too_long: Option<Answer>,
    /// Somebody was left out since the caller's key may not use it.
    pub denied: bool,
}

/// Looks the candidates up as they are now.
pub fn find<'a>(shared: &'a Shared, facade: &'a FacadeState, wanted: Wanted<'a>) -> Found {
    let is_gateway = facade.engine().is_gateway();
    let mut search = Search {
        shared,
        facade,
        wanted,
        found: Found::default(),
    };
    match search.wanted.model {
        Some(model) if is_gateway => search.along(model),
        _ => search.own(),
    }
    search.found
}

/// Every model that a facade can be asked for, with who has it: nodes, or on the gateway what a name
/// stands for.
pub fn models(
    shared: &Shared,
    facade: &FacadeState,
    virtuals: &VirtualModels,
    client: Option<&Client>,
) -> BTreeMap<String, Vec<String>> {
    let may = |model: &str, target: TargetRef| {
        client.is_none_or(|client| client.grants().allows(target, model))
    };
    let is_gateway = facade.engine().is_gateway();
    let mut models: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut add = |routing: &Routing| {
        for (model, owners) in routing.view.models() {
            let owners = owners.iter().map(|c| &c.target);
            let granted = owners.filter(|t| may(model, t.as_granted()));
            let nodes: Vec<_> = granted.map(|t| t.node.to_string()).collect();
            if !nodes.is_empty() {
                models.entry(model.to_owned()).or_default().extend(nodes);
            }
        }
    };
    if !is_gateway {
        add(&facade.routing());
        return models;
    }
    shared.sources().iter().for_each(|s| add(&s.routing()));
    for provider in shared.providers.all().iter() {
        let target = provider.target();
        for model in provider.models() {
            if may(model, target.as_granted()) {
                let owners = models.entry(model.to_owned()).or_default();
                owners.push(provider.name().to_owned());
            }
        }
    }
    let granted = |name: &&str| client.is_none_or(|c| c.grants().allows_virtual(name));
    for name in virtuals.names().filter(granted) {
        models.insert(name.to_owned(), vec!["virtual".to_owned()]);
    }
    models
}

struct Search<'a> {
    shared: &'a Shared,
    facade: &'a FacadeState,
    wanted: Wanted<'a>,
    found: Found,
}

impl Search<'_> {
    /// The facade's own nodes.
    fn own(&mut self) {
        let engine = self.facade.engine();
        let model = self.wanted.model.map(|m| engine.spec().naming.normalize(m));
        let routing = (self.wanted.routing)(self.facade);
        let view = &routing.view;
        self.found.candidates = view.shortlist(model.as_deref());
        if let Some(model) = model.as_deref() {
            let resting = view.resting(model).iter();
            self.found.busy.extend(resting.map(|(id, _)| id.clone()));
        }
        self.grant(0, 0, model.as_deref());
        let ask = Ask {
            engine,
            model: model.as_deref().unwrap_or_default(),
            pin: routing.pin.as_ref(),
        };
        self.order(ask, 0);
        if view.shares_addresses() {
            self.found.candidates.drop_shared();
        }
    }

    /// Leaves out what was found from here on and the caller's key may not use.
    fn grant(&mut self, from: usize, busy_from: usize, model: Option<&str>) {
        let Some(asker) = self.wanted.asker else {
            return;
        };
        let found = &mut self.found;
        let before = found.candidates.len() + found.busy.len();
        let mut busy_at = 0;
        let may = |c: &Candidate| asker.may(c.target.as_granted(), model);
        found.candidates.retain(from, may);
        // Only pool nodes rest.
        let kind = TargetKind::Pool;
        found.busy.retain(|node| {
            busy_at += 1;
            busy_at <= busy_from || asker.may(TargetRef { node, kind }, model)
        });
        found.denied |= found.candidates.len() + found.busy.len() < before;
    }

    /// The gateway's chain for this model. A virtual model is granted by its name: then its targets
    /// are, wherever they are.
    fn along(&mut self, model: &str) {
        if let Some(asker) = self.wanted.asker
            && self.wanted.virtuals.links(model).is_some()
        {
            if !asker.client.grants().allows_virtual(model.trim()) {
                self.found.denied = true;
                return;
            }
            self.wanted.asker = None;
        }
        let sources = self.shared.sources();
        for link in self.wanted.virtuals.chain(model) {
            let from = self.found.candidates.len();
            match &link.place {
                Place::Provider(name) => self.provider(name, &link.model),
                Place::Providers => self.providers(model.trim()),
                _ => self.nodes(&sources, &link, model, from),
            }
            self.found.ends.push(self.found.candidates.len());
        }
        self.found.candidates.drop_again(&mut self.found.ends);
    }

    /// A provider that is named by the chain. One that is turned off is none.
    fn provider(&mut self, name: &str, model: &str) {
        if let Some(provider) = self.shared.providers.find(name) {
            let upstream_model = provider.upstream_model(model);
            self.choose(Choice {
                provider,
                upstream_model,
            });
        }
    }

    /// Every provider that lists the model, in the order of their standing.
    fn providers(&mut self, model: &str) {
        for choice in self.shared.providers.serving(model, (self.wanted.clock)()) {
            self.choose(choice);
        }
    }

    /// One that rests costs no dispatch.
    fn choose(&mut self, choice: Choice) {
        if !provider_serves(self.wanted.path) {
            return;
        }
        let Choice {
            provider,
            upstream_model,
        } = choice;
        let granted = |asker: Asker| asker.may(provider.target().as_granted(), self.wanted.model);
        if !self.wanted.asker.is_none_or(granted) {
            self.found.denied = true;
            return;
        }
        if let Some(rest) = provider.rests((self.wanted.clock)()) {
            self.found.busy.push(provider.target().node.clone());
            self.found.resting.push((provider, rest));
            return;
        }
        let asked = self.wanted.model.map_or("", str::trim);
        self.found.candidates.push(Candidate {
            target: provider.target(),
            warm: false,
            context: None,
            speed: None,
            send_as: (*upstream_model != *asked).then_some(upstream_model),
        });
        self.found.providers.push(provider);
    }

    /// The nodes of a link.
    fn nodes(&mut self, sources: &[Arc<FacadeState>], link: &Link, asked: &str, from: usize) {
        for source in sources {
            if matches!(link.place, Place::Engine(engine) if source.engine() != engine) {
                continue;
            }
            let name = source.engine().spec().naming.normalize(&link.model);
            let before = (self.found.candidates.len(), self.found.busy.len());
            let routing = (self.wanted.routing)(source);
            if let Some(owners) = routing.view.owners(Some(&name)) {
                let serves = |engine| node_serves(engine, self.wanted.path);
                let all_serve = owners.all_run(serves);
                let send_as = (*link.model != *asked.trim()).then(|| link.model.clone());
                self.found.candidates.add(owners, send_as, |c| {
                    link.place.takes(c) && (all_serve || serves(c.target.runs))
                });
            }
            // Only pool nodes rest, and of those it is not told what runs there.
            let resting = routing.view.resting(&name).iter();
            let resting = resting.filter(|(id, _)| match &link.place {
                Place::Node(wanted) => id == wanted,
                _ => true,
            });
            self.found.busy.extend(resting.map(|(id, _)| id.clone()));
            self.grant(before.0, before.1, Some(&name));
        }
        // As each facade has them.
        self.found.candidates.sort_by_id(from);
        let ask = Ask {
            engine: self.facade.engine(),
            model: &link.model,
            pin: None,
        };
        self.order(ask, from);
    }

    /// Orders what was found from here on, without those that it does not fit or that are full.
    fn order(&mut self, ask: Ask, from: usize) {
        let found = &mut self.found;
        let too_long = found.candidates.fit(from, &mut *self.wanted.demand);
        if too_long.is_some() && found.busy.is_empty() {
            found.too_long = too_long;
            return;
        }
        let full = (self.wanted.order)(ask, &mut found.candidates, from);
        found.busy.extend(full);
    }
}
