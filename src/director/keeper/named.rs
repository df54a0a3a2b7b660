//! Nodes that come and go by name while the daemon runs.
//!
//! Owns: which may be added and removed. Leaves to others: the book on disk (`state::named`), taking
//! nodes in and out (`members`), probing (`keeper`).

use super::{Keeper, facade_ports};
use crate::config::file::NodeSetting;
use crate::director::kept::{Kept, Origin};
use crate::director::plan;
use crate::rules::engine::EngineId;
use crate::rules::ids::NodeId;
use crate::state::command::Responder;
use crate::state::named::{NewNode, NodeAsk};
use crate::wire::control::NodeAdded;
use crate::wire::jsonrpc::CommandError;

impl Keeper {
    /// Does what somebody asks for.
    pub async fn carry_out(&mut self, ask: NodeAsk) {
        match ask {
            NodeAsk::Add(node, r) => {
                if let Err((why, r)) = self.add(*node, r).await {
                    r.answer(Err(CommandError::refused(why)));
                }
            },
            NodeAsk::Remove(engine, id, r) => {
                let removed = self.remove(engine, &id).await;
                r.answer(removed.map_err(CommandError::refused));
            },
        }
    }

    /// Adds or replaces a node; it answers once it was probed.
    async fn add(
        &mut self,
        new: NewNode,
        r: Responder<NodeAdded>,
    ) -> Result<(), (String, Responder<NodeAdded>)> {
        let NewNode { setting, record } = new;
        let old = match self.place_for(&setting, record.is_some()) {
            Ok(old) => old,
            Err(why) => return Err((why, r)),
        };
        let origin = match record {
            Some(_) => Origin::Passing,
            None => Origin::Added,
        };
        let (engine, url) = (setting.engine, setting.url.clone());
        let left = old.map(|i| self.nodes[i].target.clone());
        let is_old = |n: &NodeSetting| {
            let at_old = left.as_ref().is_some_and(|t| {
                (&n.url.host, n.url.port, &n.url.prefix) == (&t.host, t.port, &t.prefix)
            });
            n.engine == engine && (n.url == url || at_old)
        };
        let kept = (origin == Origin::Added).then(|| setting.clone());
        if let Err(why) = self.asks.book.change(is_old, kept).await {
            return Err((why, r));
        }
        let i = match old {
            Some(i) => self.replace(i, &setting, origin).await,
            None => self.name(&setting, origin),
        };
        let node = &mut self.nodes[i];
        if let Some(record) = record {
            node.host = record.host;
            node.addresses = record.addresses;
            node.addresses.retain(|a| !a.is_empty());
        }
        tracing::info!(%engine, node = %node.id, replaced = old.is_some(), "node added");
        node.waiting.push((old.is_some(), r));
        Ok(())
    }

    /// Which node the new one takes the place of, if any; or why it cannot be.
    fn place_for(&self, new: &NodeSetting, is_record: bool) -> Result<Option<usize>, String> {
        let (engine, url) = (new.engine, &new.url);
        let display = engine.spec().display;
        if self.off.contains(&engine) {
            // It went while this was on its way.
            return Err(format!("the {display} facade is off"));
        }
        let here = plan::is_this_machine(&url.host, self.names.host_name());
        if here && facade_ports(&*self.queries).contains(&url.port) {
            return Err(format!(
                "{url} is a facade of this daemon, and not an engine: requests would go round in \
                 circles"
            ));
        }
        let find =
            |which: &dyn Fn(&Kept) -> bool| self.find(|n| n.target.engine == engine && which(n));
        let same_url = find(&|n| self.is_meant(n, engine, url));
        let wanted = new.name.as_deref();
        let same_id = find(&|n| wanted.is_some_and(|w| n.id.as_str() == w));
        let old = match (same_url, same_id) {
            (url, None) => url,
            (Some(a), Some(b)) if a == b => Some(a),
            (None, Some(b)) if is_record => Some(b),
            (_, Some(b)) => {
                let other = &self.nodes[b];
                return Err(format!(
                    "another {display} node is called {} already: {}:{}",
                    other.id, other.target.host, other.target.port
                ));
            },
        };
        match old.map(|i| &self.nodes[i]) {
            Some(n) if n.origin == Origin::Configured => Err(format!(
                "{} is a {display} node already, named {} by a flag or the configuration file; \
                 change it there",
                url, n.id
            )),
            _ => Ok(old),
        }
    }

    /// Whether the node was there; or why it stays.
    async fn remove(&mut self, engine: EngineId, id: &NodeId) -> Result<bool, String> {
        let Some(i) = self.find(|n| n.target.engine == engine && n.id == *id) else {
            return Ok(false);
        };
        let display = engine.spec().display;
        let target = self.nodes[i].target.clone();
        match self.nodes[i].origin {
            Origin::Configured => {
                return Err(format!(
                    "{id} is named by a flag or the configuration file; take it out there: the file \
                     is read again by `nvpair-proxy config reload`, a flag counts from the next start"
                ));
            },
            Origin::Found => {
                return Err(format!(
                    "{id} is this machine's own {display} on port {}, found by looking; it goes \
                     when that ends",
                    target.port
                ));
            },
            Origin::Added => {
                let at = |n: &NodeSetting| {
                    let url = &n.url;
                    let here = (&url.host, url.port, &url.prefix);
                    n.engine == engine && here == (&target.host, target.port, &target.prefix)
                };
                self.asks.book.change(at, None).await?;
            },
            Origin::Passing => {},
        }
        self.take_out(i).await;
        tracing::info!(%engine, node = %id, "node removed");
        Ok(true)
    }
}
