//! The engines: one entry each, with everything that is engine-specific (spec §10).
//!
//! Owns: identity, ports, file names, routes, model naming, the empty model list.
//! Leaves to others: what a route class means (`route`), how a list is merged (`models`).
//! To add an engine, add one entry to [`ENGINES`], and its name to `pool::record` if workers may
//! serve for it; nothing else names an engine.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An engine known to this build, or the gateway: an index into [`ENGINES`] or the one behind it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EngineId(u8);

impl EngineId {
    /// The gateway: a facade over all engines and none of its own (product section 8).
    pub const GATEWAY: Self = Self(ENGINES.len() as u8);

    /// Every engine, in table order. Messages that list engines use this order.
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        (0..ENGINES.len() as u8).map(Self)
    }

    /// Whatever may have a facade: every engine, then the gateway.
    pub fn facades() -> impl Iterator<Item = Self> + Clone {
        Self::all().chain([Self::GATEWAY])
    }

    /// The engine with this exact id (`ollama`, `lmstudio`, `llamacpp`); case counts.
    pub fn parse(id: &str) -> Option<Self> {
        Self::all().find(|e| e.spec().id == id)
    }

    /// The same, or the gateway.
    pub fn parse_facade(id: &str) -> Option<Self> {
        Self::facades().find(|e| e.spec().id == id)
    }

    /// Whether it is the gateway, which no node runs.
    pub fn is_gateway(self) -> bool {
        self == Self::GATEWAY
    }

    /// The engine's table entry.
    pub fn spec(self) -> &'static Engine {
        ENGINES.get(usize::from(self.0)).unwrap_or(&GATEWAY)
    }

    /// The engine's id as text.
    pub fn as_str(self) -> &'static str {
        self.spec().id
    }

    /// Position in table order, for arrays with one slot an engine.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for EngineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for EngineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// No engine has this id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown engine {0:?}; known engines: {list}", list = known_engines())]
pub struct UnknownEngine(pub String);

/// No engine has this id, nor is it the gateway's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown engine {0:?}; known are {list}", list = listed(EngineId::facades()))]
pub struct UnknownFacade(pub String);

/// The ids of all engines, in table order, for messages.
pub fn known_engines() -> String {
    listed(EngineId::all())
}

fn listed(engines: impl Iterator<Item = EngineId>) -> String {
    engines.map(EngineId::as_str).collect::<Vec<_>>().join(", ")
}

impl FromStr for EngineId {
    type Err = UnknownFacade;

    /// An engine or the gateway.
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Self::parse_facade(s).ok_or_else(|| UnknownFacade(s.to_owned()))
    }
}

impl Serialize for EngineId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for EngineId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let s = <Cow<'de, str>>::deserialize(d)?;
        s.parse().map_err(serde::de::Error::custom)
    }
}

/// One engine: everything that sets it apart from the others.
#[derive(Debug)]
pub struct Engine {
    /// Bare id: the address on the broker link and the name on the command line.
    pub id: &'static str,
    /// What a person reads.
    pub display: &'static str,
    /// Component name: the prefix of error ids, never an address.
    pub component: &'static str,
    /// Key of the facade's port in a directory record.
    pub service_key: &'static str,
    /// The engine's own client-facing port, which a managed facade takes over (spec §8).
    pub facade_port: u16,
    /// Where the engine is moved so that the facade can have its port (spec §8).
    pub moved_port: u16,
    /// Port of the facade when none is asked for (spec §8).
    pub standalone_port: u16,
    /// Where the standalone facade goes once when its port is taken.
    pub fallback_port: u16,
    /// A saved port that is never restored: the engine itself lives there.
    pub never_restored: Option<u16>,
    /// Name of the persisted-port file (spec §8).
    pub port_file: &'static str,
    /// Whether loopback alias addresses are allowed (spec §7).
    pub aliases: bool,
    /// Environment variable in which clients of this engine keep its address.
    pub host_variable: Option<&'static str>,
    /// How model names compare.
    pub naming: Naming,
    /// Classified routes; everything else is forwarded verbatim.
    pub routes: &'static [Route],
    /// Where a probe finds the inventory, and in which shape.
    pub inventory: Inventory,
    /// Path that tells the engine's version, and the key of it in the answer, if there is one.
    pub version: Option<(&'static str, &'static str)>,
    /// What an OpenAI client takes as base: `/v1` or nothing behind the origin.
    pub client_base: &'static str,
}

impl Engine {
    /// Where the engine itself is to be started beside a facade on this port: both places are
    /// looked at all the time, and the engine's own goes first unless the facade has it.
    pub fn port_beside(&self, facade: u16) -> u16 {
        match facade == self.facade_port {
            true => self.moved_port,
            false => self.facade_port,
        }
    }
}

/// How two model names compare (spec §5, step 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// Byte for byte, after trimming white space.
    Exact,
    /// A name without tag or digest means `:latest`.
    ImpliedLatest,
}

impl Naming {
    /// The form in which names are compared. Empty stays empty and matches nothing.
    ///
    /// The tag is looked for behind the last `/`, since a registry's host may carry a port.
    pub fn normalize(self, name: &str) -> Cow<'_, str> {
        let name = name.trim();
        if self == Self::Exact {
            return Cow::Borrowed(name);
        }
        let last = name.rsplit('/').next().unwrap_or(name);
        if last.is_empty() || last.contains([':', '@']) {
            Cow::Borrowed(name)
        } else {
            Cow::Owned(format!("{name}:latest"))
        }
    }
}

/// A method that the route tables know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// GET
    Get,
    /// POST
    Post,
}

/// One classified route: exact path, exact method, query ignored.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The method.
    pub verb: Verb,
    /// The path, compared byte for byte.
    pub path: &'static str,
    /// What it is.
    pub kind: RouteKind,
}

/// What a classified route is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteKind {
    /// Runs a model: filtered to owners, retried, reported as a workload.
    Inference,
    /// The fleet's model list, asked upstream at `upstream`.
    List {
        /// Which array the answer holds.
        shape: ListShape,
        /// Path used towards engines.
        upstream: &'static str,
    },
}

/// The two envelopes of a model list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListShape {
    /// `{"models":[…]}`, identity in `model` or else `name`, compared normalised.
    Native,
    /// `{"object":"list","data":[…]}`, identity in `id`, compared byte for byte.
    OpenAi,
}

impl ListShape {
    /// The list without entries. The array is always present.
    pub fn empty(self) -> &'static str {
        match self {
            Self::Native => r#"{"models":[]}"#,
            Self::OpenAi => r#"{"object":"list","data":[]}"#,
        }
    }
}

/// How a probe reads what a node has (product.md section 3).
#[derive(Clone, Copy, Debug)]
pub struct Inventory {
    /// Path of the list.
    pub path: &'static str,
    /// Its envelope.
    pub shape: ListShape,
    /// Where the loaded models are told, if anywhere.
    pub warm: Warm,
}

/// Where an engine tells which models are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warm {
    /// Ollama: `GET /api/ps`, a native list.
    RunningList {
        /// Its path.
        path: &'static str,
    },
    /// LM Studio: `GET /api/v0/models`, `state` of each entry.
    StateList {
        /// Its path.
        path: &'static str,
    },
    /// llama.cpp: `GET /props` tells the slots; `status.value` of a list entry the load state.
    Props {
        /// Its path.
        path: &'static str,
    },
    /// Nowhere.
    Untold,
}

const fn post(path: &'static str) -> Route {
    Route {
        verb: Verb::Post,
        path,
        kind: RouteKind::Inference,
    }
}

const fn list(path: &'static str, shape: ListShape, upstream: &'static str) -> Route {
    Route {
        verb: Verb::Get,
        path,
        kind: RouteKind::List { shape, upstream },
    }
}

/// The gateway's port where nobody names one.
pub const GATEWAY_PORT: u16 = 4000;

/// The engines, in the order in which they are always listed.
pub static ENGINES: [Engine; 3] = [
    Engine {
        id: "ollama",
        display: "Ollama",
        component: "ollama-proxy",
        service_key: "ol",
        facade_port: 11434,
        moved_port: 11435,
        standalone_port: 11435,
        fallback_port: 11436,
        never_restored: None,
        port_file: "proxy-port.json",
        aliases: true,
        host_variable: Some("OLLAMA_HOST"),
        naming: Naming::ImpliedLatest,
        routes: &[
            post("/api/chat"),
            post("/api/generate"),
            post("/v1/chat/completions"),
            post("/v1/completions"),
            post("/api/embed"),
            post("/api/embeddings"),
            post("/v1/embeddings"),
            post("/v1/messages"),
            post("/v1/responses"),
            list("/api/tags", ListShape::Native, "/api/tags"),
            list("/v1/models", ListShape::OpenAi, "/v1/models"),
        ],
        inventory: Inventory {
            path: "/api/tags",
            shape: ListShape::Native,
            warm: Warm::RunningList { path: "/api/ps" },
        },
        version: Some(("/api/version", "version")),
        client_base: "",
    },
    Engine {
        id: "lmstudio",
        display: "LM Studio",
        component: "lmstudio-proxy",
        service_key: "lm",
        facade_port: 1234,
        moved_port: 1235,
        standalone_port: 1234,
        fallback_port: 1235,
        never_restored: Some(1235),
        port_file: "lmstudio-proxy-port.json",
        aliases: false,
        host_variable: None,
        naming: Naming::Exact,
        routes: &[
            post("/v1/chat/completions"),
            post("/v1/completions"),
            post("/v1/embeddings"),
            post("/v1/messages"),
            post("/v1/responses"),
            list("/v1/models", ListShape::OpenAi, "/v1/models"),
        ],
        inventory: Inventory {
            path: "/v1/models",
            shape: ListShape::OpenAi,
            warm: Warm::StateList {
                path: "/api/v0/models",
            },
        },
        version: None,
        client_base: "/v1",
    },
    Engine {
        id: "llamacpp",
        display: "llama.cpp",
        component: "llamacpp-proxy",
        service_key: "lc",
        facade_port: 8080,
        moved_port: 8081,
        standalone_port: 8080,
        fallback_port: 8081,
        never_restored: Some(8081),
        port_file: "llamacpp-proxy-port.json",
        aliases: false,
        host_variable: None,
        naming: Naming::Exact,
        routes: &[
            post("/v1/chat/completions"),
            post("/v1/completions"),
            post("/v1/embeddings"),
            post("/v1/messages"),
            post("/v1/responses"),
            list("/v1/models", ListShape::OpenAi, "/models"),
            list("/models", ListShape::OpenAi, "/models"),
        ],
        inventory: Inventory {
            path: "/models",
            shape: ListShape::OpenAi,
            warm: Warm::Props { path: "/props" },
        },
        version: Some(("/props", "build_info")),
        client_base: "/v1",
    },
];

/// The gateway's entry: one OpenAI endpoint over all engines. It is asked, never probed.
static GATEWAY: Engine = Engine {
    id: "gateway",
    display: "gateway",
    component: "gateway-proxy",
    service_key: "gw",
    facade_port: GATEWAY_PORT,
    moved_port: 4001,
    standalone_port: GATEWAY_PORT,
    fallback_port: 4001,
    never_restored: None,
    port_file: "gateway-proxy-port.json",
    aliases: false,
    host_variable: None,
    naming: Naming::Exact,
    routes: &[
        post("/v1/chat/completions"),
        post("/v1/completions"),
        post("/v1/embeddings"),
        post("/v1/messages"),
        post("/v1/responses"),
        post("/v1/audio/transcriptions"),
        post("/v1/audio/translations"),
        list("/v1/models", ListShape::OpenAi, "/v1/models"),
    ],
    inventory: Inventory {
        path: "/v1/models",
        shape: ListShape::OpenAi,
        warm: Warm::Untold,
    },
    version: None,
    client_base: "/v1",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_told_those_that_would_have_been_taken() {
        let told = "x".parse::<EngineId>().unwrap_err().to_string();
        for known in EngineId::facades() {
            assert_eq!(known.as_str().parse(), Ok(known));
            assert!(told.contains(known.as_str()), "{told}");
        }
        assert!(!known_engines().contains(EngineId::GATEWAY.as_str()));
    }

    fn engine(id: &str) -> EngineId {
        EngineId::parse(id).unwrap()
    }

    #[test]
    fn ids_parse_exactly_and_in_table_order() {
        let ids: Vec<_> = EngineId::all().map(EngineId::as_str).collect();
        assert_eq!(ids, ["ollama", "lmstudio", "llamacpp"]);
        for no in ["Ollama", "ollama-proxy", "vllm", "", "ollama ", "gateway"] {
            assert!(EngineId::parse(no).is_none(), "{no:?}");
        }
        let facades: Vec<_> = EngineId::facades().map(EngineId::as_str).collect();
        assert_eq!(facades, ["ollama", "lmstudio", "llamacpp", "gateway"]);
        assert_eq!(EngineId::parse_facade("gateway"), Some(EngineId::GATEWAY));
        let e = "olama".parse::<EngineId>().unwrap_err();
        assert!(e.to_string().contains("ollama, lmstudio, llamacpp"), "{e}");
    }

    #[test]
    fn ports_are_those_of_the_spec() {
        let ports: Vec<_> = ENGINES
            .iter()
            .map(|e| (e.facade_port, e.moved_port, e.standalone_port))
            .collect();
        assert_eq!(
            ports,
            [
                (11434, 11435, 11435),
                (1234, 1235, 1234),
                (8080, 8081, 8080)
            ]
        );
        let files: Vec<_> = ENGINES.iter().map(|e| e.port_file).collect();
        assert_eq!(
            files,
            [
                "proxy-port.json",
                "lmstudio-proxy-port.json",
                "llamacpp-proxy-port.json"
            ]
        );
        let never: Vec<_> = ENGINES.iter().map(|e| e.never_restored).collect();
        assert_eq!(never, [None, Some(1235), Some(8081)]);
    }

    #[test]
    fn ollama_names_imply_latest_unless_the_last_part_has_a_tag_or_digest() {
        let n = engine("ollama").spec().naming;
        for (name, want) in [
            ("llama3", "llama3:latest"),
            ("llama3:latest", "llama3:latest"),
            ("llama3:8b", "llama3:8b"),
            ("registry.example/llama3", "registry.example/llama3:latest"),
            (
                "registry.example:5000/llama3",
                "registry.example:5000/llama3:latest",
            ),
            ("llama3@sha256:abc", "llama3@sha256:abc"),
            ("  llama3 ", "llama3:latest"),
            ("", ""),
            ("   ", ""),
            ("org/", "org/"),
        ] {
            assert_eq!(n.normalize(name), want, "{name:?}");
        }
    }

    #[test]
    fn exact_names_are_only_trimmed() {
        for id in ["lmstudio", "llamacpp"] {
            let n = engine(id).spec().naming;
            for (name, want) in [(" a ", "a"), ("a:latest", "a:latest"), ("A", "A"), ("", "")] {
                assert_eq!(n.normalize(name), want, "{name:?}");
            }
        }
    }

    #[test]
    fn normalising_twice_changes_nothing() {
        for n in [Naming::Exact, Naming::ImpliedLatest] {
            for name in ["a", "a:b", "x/y", "x:1/y", " a ", "", "@", ":", "/"] {
                let once = n.normalize(name).into_owned();
                assert_eq!(n.normalize(&once), once.as_str(), "{name:?}");
            }
        }
    }
}
