//! Where the gateway looks for a model (product section 8): the chain of places, in order.
//!
//! Owns: what a virtual model stands for, which routes a target has. Leaves to others: who is at a
//! place now (`candidates`, `state`), the order within one (`policy`, `provider`).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::candidates::Candidate;
use super::engine::{EngineId, RouteKind};
use super::ids::NodeId;
use super::pool::record::PoolEngine;

/// One link of a chain: targets among which a choice is made before the next link's turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Who.
    pub place: Place,
    /// The model there.
    pub model: Arc<str>,
}

/// Whose targets a link has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Every node, those of the pool included.
    Nodes,
    /// Nodes of this engine.
    Engine(EngineId),
    /// Nodes of the pool.
    Pool,
    /// This node.
    Node(NodeId),
    /// This provider.
    Provider(String),
    /// Every provider that lists the model.
    Providers,
}

impl Place {
    /// Whether a node of the engines looked through is one of its targets.
    pub fn takes(&self, candidate: &Candidate) -> bool {
        match self {
            Self::Node(id) => candidate.target.node == *id,
            Self::Pool => candidate.target.pooled().is_some(),
            _ => true,
        }
    }
}

/// The virtual models: names that stand for ordered lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VirtualModels(BTreeMap<String, Vec<Link>>);

impl VirtualModels {
    /// These, by name.
    pub fn new(models: impl IntoIterator<Item = (String, Vec<Link>)>) -> Self {
        Self(models.into_iter().collect())
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// What a name stands for, if it is one of them.
    pub fn links(&self, name: &str) -> Option<&[Link]> {
        self.0.get(name.trim()).map(Vec::as_slice)
    }

    /// The chain of a model: a virtual one's links; else all nodes, then the providers that list it.
    pub fn chain(&self, model: &str) -> Vec<Link> {
        if let Some(links) = self.links(model) {
            return links.to_vec();
        }
        let model: Arc<str> = model.trim().into();
        let link = |place| Link {
            place,
            model: model.clone(),
        };
        vec![link(Place::Nodes), link(Place::Providers)]
    }
}

/// What stands for every pool node, as the target of a virtual model and of a grant.
pub const POOL: &str = "pool";

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";
const EMBEDDINGS: &str = "/v1/embeddings";
const RESPONSES: &str = "/v1/responses";
const MESSAGES: &str = "/v1/messages";
const TRANSCRIPTIONS: &str = "/v1/audio/transcriptions";
const TRANSLATIONS: &str = "/v1/audio/translations";

/// Whether a node on which this engine runs has a route of the gateway. A wrong yes costs an attempt,
/// a wrong no the node: what other servers have differs by version, so that they get the benefit of
/// the doubt.
pub fn node_serves(engine: PoolEngine, path: &str) -> bool {
    let others: &[&str] = match engine {
        PoolEngine::Vllm => &[
            CHAT,
            COMPLETIONS,
            EMBEDDINGS,
            RESPONSES,
            MESSAGES,
            TRANSCRIPTIONS,
            TRANSLATIONS,
        ],
        PoolEngine::Tgi => &[CHAT, COMPLETIONS],
        PoolEngine::OpenAi => &[
            CHAT,
            COMPLETIONS,
            EMBEDDINGS,
            RESPONSES,
            TRANSCRIPTIONS,
            TRANSLATIONS,
        ],
        PoolEngine::Ollama | PoolEngine::LmStudio | PoolEngine::LlamaCpp => {
            let routes = engine.facade().map_or(&[][..], |e| e.spec().routes);
            let inference = |r: &&super::engine::Route| r.kind == RouteKind::Inference;
            return routes.iter().filter(inference).any(|r| r.path == path);
        },
    };
    others.contains(&path)
}

/// Whether a provider has a route of the gateway: what OpenAI-compatible services have in common.
pub fn provider_serves(path: &str) -> bool {
    let common = [CHAT, COMPLETIONS, EMBEDDINGS, TRANSCRIPTIONS, TRANSLATIONS];
    common.contains(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(place: Place, model: &str) -> Link {
        Link {
            place,
            model: model.into(),
        }
    }

    #[test]
    fn virtual_models_map_to_their_targets_in_order_and_others_to_nodes_then_providers() {
        let fast = vec![
            link(Place::Engine(EngineId::parse("ollama").unwrap()), "llama3"),
            link(Place::Pool, "llama-3"),
            link(Place::Provider("groq".into()), "llama-3.1-8b"),
        ];
        let models = VirtualModels::new([("fast".to_owned(), fast.clone())]);
        assert_eq!(models.chain("fast"), fast);
        assert_eq!(models.chain(" fast "), fast, "as names compare elsewhere");
        let plain = vec![link(Place::Nodes, "other"), link(Place::Providers, "other")];
        assert_eq!(models.chain("other"), plain);
        assert_eq!(models.names().collect::<Vec<_>>(), ["fast"]);
    }

    #[test]
    fn messages_and_responses_go_to_nodes_that_have_them() {
        for (engine, has) in [
            (PoolEngine::Ollama, [true, true, true, false]),
            (PoolEngine::LmStudio, [true, true, true, false]),
            (PoolEngine::LlamaCpp, [true, true, true, false]),
            (PoolEngine::Vllm, [true, true, true, true]),
            (PoolEngine::Tgi, [true, false, false, false]),
            (PoolEngine::OpenAi, [true, false, true, true]),
        ] {
            let routes = [CHAT, MESSAGES, RESPONSES, TRANSCRIPTIONS];
            assert_eq!(routes.map(|r| node_serves(engine, r)), has, "{engine}");
        }
        let routes = [
            CHAT,
            COMPLETIONS,
            EMBEDDINGS,
            TRANSCRIPTIONS,
            MESSAGES,
            RESPONSES,
        ];
        let has = [true, true, true, true, false, false];
        assert_eq!(routes.map(provider_serves), has);
    }
}
