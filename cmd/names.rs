//! Nodes and engines by the names people use.
//!
//! Owns: finding the one node that a word means. Leaves to others: which nodes there are.

use nvpair_proxy::rules::engine::EngineId;
use nvpair_proxy::rules::ids::NodeId;
use nvpair_proxy::rules::nearest::closest;
use nvpair_proxy::wire::control::{NodeStatus, Status};

use crate::errors::{CliError, Kind};
use crate::output::clean;

/// What a word means among nodes.
#[derive(Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// This node.
    One(&'a NodeId),
    /// Several nodes have this name.
    Many(Vec<&'a NodeId>),
    /// None.
    None,
}

/// The node with this id, else the only one with this name (case aside).
pub fn find<'a>(nodes: impl Iterator<Item = &'a NodeStatus> + Clone, word: &str) -> Found<'a> {
    if let Some(node) = nodes.clone().find(|n| n.id.as_str() == word) {
        return Found::One(&node.id);
    }
    let mut ids: Vec<_> = nodes
        .filter(|n| n.name.eq_ignore_ascii_case(word))
        .map(|n| &n.id)
        .collect();
    ids.sort_unstable();
    ids.dedup();
    match ids.as_slice() {
        [] => Found::None,
        [id] => Found::One(id),
        _ => Found::Many(ids),
    }
}

/// The node of a facade, or the error that lists what there is. `again` = the command as far as the
/// node's name, for what to try.
pub fn node_of(
    status: &Status,
    engine: EngineId,
    word: &str,
    again: &str,
) -> Result<NodeId, CliError> {
    let nodes = status.nodes.iter().filter(move |n| n.engine == engine);
    let facade = format!(" on the {} facade", engine.spec().display);
    one(status, nodes, word, &facade, again)
}

/// The node of this name among all facades or on the one that is named, with its facade.
pub fn only(
    status: &Status,
    engine: Option<EngineId>,
    word: &str,
    again: &str,
) -> Result<(EngineId, NodeId), CliError> {
    let id = among(status, engine, word, again)?;
    if let Some(engine) = engine {
        return Ok((engine, id));
    }
    let having = status.nodes.iter().filter(|n| n.id == id);
    let engines: Vec<_> = having.map(|n| n.engine).collect();
    match engines.as_slice() {
        [engine] => Ok((*engine, id)),
        _ => {
            let names: Vec<_> = engines.iter().map(|e| e.as_str()).collect();
            let what = format!("{} facades have a node {word:?}", names.len());
            Err(CliError::new(Kind::Refused, what)
                .why(format!("they are: {}", names.join(", ")))
                .try_this(format!("{again} {id} --engine {}", names[0])))
        },
    }
}

/// The node of this name on one facade or on any; several facades may have it.
pub fn among(
    status: &Status,
    engine: Option<EngineId>,
    word: &str,
    again: &str,
) -> Result<NodeId, CliError> {
    match engine {
        Some(engine) => node_of(status, engine, word, again),
        None => one(status, status.nodes.iter(), word, "", again),
    }
}

fn one<'a>(
    status: &'a Status,
    nodes: impl Iterator<Item = &'a NodeStatus> + Clone,
    word: &str,
    facade: &str,
    again: &str,
) -> Result<NodeId, CliError> {
    match find(nodes.clone(), word) {
        Found::One(id) => Ok(id.clone()),
        Found::Many(ids) => {
            let shown: Vec<_> = ids.iter().map(|id| id.as_str()).collect();
            let what = format!("several nodes are named {word:?}{facade}");
            Err(CliError::new(Kind::Refused, what)
                .why(format!("their ids: {}", clean(&shown.join(", "))))
                .try_this(format!("{again} {}", clean(shown[0]))))
        },
        Found::None => {
            let what = format!("no node {word:?}{facade}");
            let mut names: Vec<_> = nodes.map(|n| label(status, n)).collect();
            // Two engines of one machine share its name.
            names.sort_unstable();
            names.dedup();
            let error = CliError::new(Kind::Refused, what);
            if names.is_empty() {
                return Err(error
                    .why("there are no nodes yet")
                    .try_this("nvpair-proxy nodes add ENGINE=http://HOST:PORT"));
            }
            let near = closest(word, names.iter().copied()).unwrap_or(names[0]);
            Err(error
                .why(format!("known nodes: {}", clean(&names.join(", "))))
                .try_this(format!("{again} {}", clean(near))))
        },
    }
}

/// What a node is called in a table: its name where no other machine has it, else its id.
pub fn label<'a>(status: &'a Status, node: &'a NodeStatus) -> &'a str {
    let all = status.nodes.iter().map(|n| (&n.id, &*n.name));
    unique(&node.id, &node.name, all)
}

/// A node's name where no other of these is called so, else its id.
pub fn unique<'a, 'b>(
    id: &'a NodeId,
    name: &'a str,
    mut all: impl Iterator<Item = (&'b NodeId, &'b str)>,
) -> &'a str {
    let is_it = |word: &str| word.eq_ignore_ascii_case(name);
    match name.is_empty() || all.any(|(i, n)| i != id && (is_it(n) || is_it(i.as_str()))) {
        true => id.as_str(),
        false => name,
    }
}

/// The same for a node of which the id is at hand; the id itself if it is not known.
pub fn shown<'a>(status: &'a Status, id: &'a NodeId) -> &'a str {
    let node = status.nodes.iter().find(|n| n.id == *id);
    node.map_or(id.as_str(), |n| label(status, n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_shown_where_no_other_node_is_called_so() {
        let ids: Vec<NodeId> = ["a", "b", "tower", "d"].map(NodeId::from).to_vec();
        let names = ["rig", "RIG", "x", "Tower"];
        let all = || std::iter::zip(&ids, names);
        let shown: Vec<_> = all().map(|(id, name)| unique(id, name, all())).collect();
        // The last one's name is another one's id.
        assert_eq!(shown, ["a", "b", "x", "d"]);
        assert_eq!(unique(&ids[0], "", all()), "a");
        // One machine with two engines is one node.
        assert_eq!(
            unique(&ids[0], "rig", [(&ids[0], "rig")].into_iter()),
            "rig"
        );
    }
}
