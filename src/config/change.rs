//! What sets two configurations apart.
//!
//! Owns: the difference, as keys for a person and as steps for whoever carries them out. Pure.
//! Leaves to others: reading them (`settings`), the steps (`director`, `daemon`).

use super::file::NodeSetting;
use super::keys::{self, Takes};
use super::settings::{EngineSetting, Settings};
use crate::rules::engine::EngineId;

/// Keys whose values differ, in the order of the table of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Those that a reload puts in force.
    pub live: Vec<String>,
    /// Those that take another start.
    pub restart: Vec<String>,
}

impl Changed {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty() && self.restart.is_empty()
    }
}

/// The keys in which `new` differs from `old`. Sections that are handed over as a whole are one key.
pub fn keys(old: &Settings, new: &Settings) -> Changed {
    let top = |name: &'static str, same: bool| (name, keys::TOP.key(name), same);
    let log = |name: &'static str, path, same: bool| (path, keys::LOG.key(name), same);
    let found = [
        top("policy", old.policy == new.policy),
        top(
            "response_header_timeout",
            old.response_header_timeout == new.response_header_timeout,
        ),
        top(
            "max_request_bytes",
            old.max_request_bytes == new.max_request_bytes,
        ),
        top("allowed_hosts", old.allowed_hosts == new.allowed_hosts),
        top(
            "allowed_origins",
            old.allowed_origins == new.allowed_origins,
        ),
        top("allowed_cidrs", old.allowed_cidrs == new.allowed_cidrs),
        top(
            "stream_idle_timeout",
            old.stream_idle_timeout == new.stream_idle_timeout,
        ),
        top("drain_timeout", old.drain_timeout == new.drain_timeout),
        top(
            "commit_gate",
            old.commit_gate_first_byte == new.commit_gate_first_byte,
        ),
        top(
            "response_headers",
            old.response_headers == new.response_headers,
        ),
        top("engines", facades(old, false) == facades(new, false)),
        top("nodes", old.nodes == new.nodes),
        log("level", "log.level", old.log_level == new.log_level),
        log("format", "log.format", old.log_format == new.log_format),
        top("pool", old.pool == new.pool),
        top(
            "gateway",
            old.gateway == new.gateway && facades(old, true) == facades(new, true),
        ),
        top("providers", old.providers == new.providers),
        top("virtual_models", old.virtual_models == new.virtual_models),
        top("telemetry", old.telemetry == new.telemetry),
        top("admin", old.admin == new.admin),
    ];
    let mut changed = Changed::default();
    for (path, key, _) in found.into_iter().filter(|(_, _, same)| !same) {
        match key.map(|k| k.takes) {
            Some(Takes::Reload) => changed.live.push(path.to_owned()),
            _ => changed.restart.push(path.to_owned()),
        }
    }
    if old.engine_tls != new.engine_tls {
        changed.live.push("engines.*.tls_cert".to_owned());
    }
    changed
}

/// The engines' facades, or the gateway's.
fn facades(settings: &Settings, gateway: bool) -> Vec<&EngineSetting> {
    let all = settings.engines.iter();
    all.filter(|e| e.engine.is_gateway() == gateway).collect()
}

/// How one list of named nodes becomes another. A node is known by its engine and place.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Nodes<'s> {
    /// No longer there.
    pub removed: Vec<&'s NodeSetting>,
    /// New.
    pub added: Vec<&'s NodeSetting>,
    /// The same place, described otherwise: as it is now.
    pub changed: Vec<&'s NodeSetting>,
}

/// The difference of two lists of nodes.
pub fn nodes<'s>(old: &'s [NodeSetting], new: &'s [NodeSetting]) -> Nodes<'s> {
    let same = |a: &NodeSetting, b: &NodeSetting| a.engine == b.engine && a.url == b.url;
    let mut found = Nodes {
        removed: old
            .iter()
            .filter(|o| !new.iter().any(|n| same(o, n)))
            .collect(),
        ..Nodes::default()
    };
    for node in new {
        match old.iter().find(|o| same(o, node)) {
            None => found.added.push(node),
            // Another name or another way to reach it is another node to everybody else.
            Some(was) if was.name != node.name || was.peer != node.peer => {
                found.removed.push(was);
                found.added.push(node);
            },
            Some(was) if was != node => found.changed.push(node),
            Some(_) => {},
        }
    }
    found
}

/// How one set of facades becomes another.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Engines {
    /// To be turned off.
    pub off: Vec<EngineId>,
    /// To be turned on.
    pub on: Vec<EngineSetting>,
    /// On before and after, with another port.
    pub moved: Vec<EngineSetting>,
}

/// The difference of two sets of facades.
pub fn engines(old: &[EngineSetting], new: &[EngineSetting]) -> Engines {
    let of = |list: &[EngineSetting], e: EngineId| list.iter().find(|s| s.engine == e).copied();
    let off = old.iter().filter(|o| of(new, o.engine).is_none());
    let on = new.iter().filter(|n| of(old, n.engine).is_none());
    let moved = new
        .iter()
        .filter(|n| of(old, n.engine).is_some_and(|o| o.port != n.port));
    Engines {
        off: off.map(|o| o.engine).collect(),
        on: on.copied().collect(),
        moved: moved.copied().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::super::settings::{Flags, resolve};
    use super::*;

    fn settings(text: &str) -> Settings {
        let none = |_: &str| None;
        let config = file::parse("config.toml", text, &none).unwrap();
        resolve(&Flags::default(), &config, &none).unwrap()
    }

    const NODES: &str = "\
[[nodes]]\nengine = \"ollama\"\nurl = \"http://a:1\"\nslots = 2
[[nodes]]\nengine = \"ollama\"\nurl = \"http://b:1\"\nname = \"b\"
[[nodes]]\nengine = \"ollama\"\nurl = \"http://c:1\"";

    #[test]
    fn a_configuration_differs_from_itself_in_nothing() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let full = std::fs::read_to_string(path.join("tests/config/valid/full.toml")).unwrap();
        let full = ["TOWER_KEY", "GROQ_KEY", "OTLP_KEY", "REDIS_PASSWORD"]
            .iter()
            .fold(full, |text, name| {
                text.replace(&format!("${{{name}}}"), "k")
            });
        for text in ["", NODES, &full] {
            let (old, new) = (settings(text), settings(text));
            assert!(keys(&old, &new).is_empty());
            assert_eq!(nodes(&old.nodes, &new.nodes), Nodes::default());
            assert_eq!(engines(&old.engines, &new.engines), Engines::default());
        }
    }

    #[test]
    fn every_key_that_differs_is_named() {
        let old = settings("");
        for (text, live, restart) in [
            ("policy = \"ordered\"", "policy", ""),
            (
                "response_header_timeout = \"1s\"",
                "response_header_timeout",
                "",
            ),
            ("max_request_bytes = 1", "max_request_bytes", ""),
            ("allowed_hosts = [\"a\"]", "allowed_hosts", ""),
            ("allowed_origins = []", "allowed_origins", ""),
            ("allowed_cidrs = [\"10.0.0.0/8\"]", "allowed_cidrs", ""),
            ("stream_idle_timeout = \"1s\"", "stream_idle_timeout", ""),
            ("drain_timeout = 0", "drain_timeout", ""),
            ("commit_gate = \"first-byte\"", "commit_gate", ""),
            ("response_headers = true", "response_headers", ""),
            ("[engines.ollama]\nport = 1", "engines", ""),
            (NODES, "nodes", ""),
            ("[log]\nlevel = \"warn\"", "log.level", ""),
            ("[log]\nformat = \"json\"", "", "log.format"),
            ("[pool]\n", "gateway", "pool"),
            ("[gateway]\n", "gateway", ""),
            (
                "[[providers]]\nname = \"p\"\nbase_url = \"https://p\"",
                "providers",
                "",
            ),
            ("[virtual_models]\nv = [\"ollama/m\"]", "virtual_models", ""),
            ("[telemetry]\n", "telemetry", ""),
            ("[admin]\n", "admin", ""),
            (
                "[engines.ollama]\ntls_cert = \"c\"\ntls_key = \"k\"",
                "engines.*.tls_cert",
                "",
            ),
        ] {
            let new = settings(text);
            for (a, b) in [(&old, &new), (&new, &old)] {
                let found = keys(a, b);
                assert_eq!(
                    (found.live.join(" "), found.restart.join(" ")),
                    (live.to_owned(), restart.to_owned()),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn nodes_are_known_by_their_place() {
        let old = settings(NODES);
        let new = settings(
            &NODES
                .replace("slots = 2", "slots = 3")
                .replace("\"b\"", "\"bb\"")
                .replace("//c", "//d"),
        );
        let found = nodes(&old.nodes, &new.nodes);
        let urls = |list: &[&NodeSetting]| {
            let host = |n: &&NodeSetting| n.url.host.clone();
            list.iter().map(host).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(urls(&found.removed), "c b");
        assert_eq!(urls(&found.added), "b d");
        assert_eq!(urls(&found.changed), "a");
        assert_eq!(found.changed[0].slots, Some(3));
    }

    #[test]
    fn facades_go_come_and_move() {
        let old = settings("[engines.llamacpp]\nenabled = false");
        let new = settings("[engines.lmstudio]\nenabled = false\n[engines.ollama]\nport = 5");
        let found = engines(&old.engines, &new.engines);
        let name = |e: &EngineSetting| e.engine.as_str();
        assert_eq!(found.off, [EngineId::parse("lmstudio").unwrap()]);
        assert_eq!(found.on.iter().map(name).collect::<Vec<_>>(), ["llamacpp"]);
        assert_eq!(found.moved.iter().map(name).collect::<Vec<_>>(), ["ollama"]);
    }
}
