//! From records on the wire to nodes and back (control-plane facts, section 8).
//!
//! Owns: the projection. Leaves to others: overlays and their changes (`facade`).

use crate::rules::discovery::{Extra, Node, shown_ip};
use crate::rules::engine::EngineId;
use crate::wire::broker::{DirectoryNode, NodeRecord};

use super::command::ManualNode;

/// The node that a directory record stands for on this engine's facade; `None` if it has no port
/// for the engine or no address.
pub fn project(engine: EngineId, d: DirectoryNode) -> Option<Node> {
    let port = d.services.get(engine.spec().service_key)?.port;
    if d.ip.is_empty() {
        return None;
    }
    let models = match d.models_by_engine {
        // Present at all: a missing engine serves nothing.
        Some(mut by_engine) => by_engine
            .remove(engine.as_str())
            .flatten()
            .unwrap_or_default(),
        None => d.models.unwrap_or_default(),
    };
    let addresses = d
        .ips
        .filter(|ips| !ips.is_empty())
        .unwrap_or_else(|| vec![d.ip]);
    let mut txt = vec![format!("ip={}", addresses[0])];
    if addresses.len() > 1 {
        txt.push(format!("ips={}", addresses.join(",")));
    }
    Some(Node {
        id: d.host_uuid.into(),
        host: d.name,
        port,
        addresses,
        txt,
        models,
        principal: d.cluster_uuid.filter(|p| !p.is_empty()),
        extra: Extra::default(),
    })
}

/// The node that somebody named by hand.
pub fn manual(m: ManualNode) -> Node {
    let r = m.record;
    Node {
        id: r.id.into(),
        host: r.host,
        port: r.port,
        addresses: r.addresses,
        txt: r.txt,
        models: r.models,
        principal: m.extra.peer.clone(),
        extra: m.extra,
    }
}

/// The node as `nodes/list` returns it.
pub fn record(n: &Node) -> NodeRecord {
    NodeRecord {
        id: n.id.to_string(),
        host: n.host.clone(),
        port: n.port,
        addresses: n.addresses.clone(),
        txt: n.txt.clone(),
        models: n.models.clone(),
        ip: None,
    }
}

/// The node as events carry it: with its best address.
pub fn announced(n: &Node) -> NodeRecord {
    NodeRecord {
        ip: shown_ip(n),
        ..record(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(json: &str) -> Option<Node> {
        project(
            EngineId::parse("ollama").unwrap(),
            serde_json::from_str(json).unwrap(),
        )
    }

    #[test]
    fn a_record_needs_the_engines_port_and_an_address() {
        assert!(
            directory(r#"{"hostUuid":"u","ip":"10.0.0.1","services":{"ni":{"port":1}}}"#).is_none()
        );
        assert!(directory(r#"{"hostUuid":"u","ip":"","services":{"ol":{"port":1}}}"#).is_none());
        let n = directory(
            r#"{"hostUuid":"u","name":"host-a","ip":"10.0.0.1","services":{"ol":{"port":11434}},"clusterUuid":"","lastSeen":9,"new":{}}"#,
        )
        .unwrap();
        assert_eq!(
            (n.id.as_str(), n.host.as_str(), n.port),
            ("u", "host-a", 11434)
        );
        assert_eq!(
            (n.addresses, n.txt, n.principal),
            (vec!["10.0.0.1".into()], vec!["ip=10.0.0.1".into()], None)
        );
    }

    #[test]
    fn the_inventory_by_engine_wins_as_soon_as_it_is_there() {
        for (inventory, want) in [
            (
                r#""models":["u"],"modelsByEngine":{"ollama":["a"]}"#,
                vec!["a"],
            ),
            (r#""models":["u"],"modelsByEngine":{"ollama":[]}"#, vec![]),
            (r#""models":["u"],"modelsByEngine":{"ollama":null}"#, vec![]),
            (
                r#""models":["u"],"modelsByEngine":{"lmstudio":["b"]}"#,
                vec![],
            ),
            (r#""models":["u"],"modelsByEngine":{}"#, vec![]),
            (r#""models":["u"],"modelsByEngine":null"#, vec!["u"]),
            (r#""models":["u"]"#, vec!["u"]),
            (r#""x":1"#, vec![]),
        ] {
            let json = format!(
                r#"{{"hostUuid":"u","ip":"10.0.0.1","services":{{"ol":{{"port":1}}}},{inventory}}}"#
            );
            assert_eq!(directory(&json).unwrap().models, want, "{inventory}");
        }
    }

    #[test]
    fn several_addresses_are_published_in_order() {
        let n = directory(r#"{"hostUuid":"u","ip":"10.0.0.1","ips":["10.0.0.2","10.0.0.1"],"services":{"ol":{"port":1}}}"#).unwrap();
        assert_eq!(n.txt, ["ip=10.0.0.2", "ips=10.0.0.2,10.0.0.1"]);
        assert_eq!(announced(&n).ip.as_deref(), Some("10.0.0.2"));
    }
}
