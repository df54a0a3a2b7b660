//! The keys of the configuration file: one table that names, validates and describes them.
//!
//! Owns: every key with what it takes, its range, its default and its meaning. The reader looks
//! names and ranges up here, the JSON Schema and `config show` are printed from here, so that none
//! of them can drift from the others.
//! Leaves to others: how a value is read (`reader`, `kinds`), what it becomes (`file` and the
//! sections' files).

use super::file::{GATES, LEVELS};
use super::telemetry::OtlpProtocol;
use crate::rules::log_level::LogFormat;
use crate::rules::policy::Policy;
use crate::rules::pool::limits;

/// What a key takes. Whatever is not a text may also be written as one, so that it can come from a
/// variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Any text.
    Text,
    /// A credential: shown nowhere.
    Secret,
    /// One of these words.
    Words(&'static [&'static str]),
    /// `true` or `false`.
    Switch,
    /// A whole number from the first to the second.
    Number(u32, u32),
    /// A duration of at least and at most so many milliseconds. From 0: 0 is allowed.
    Span(u64, u64),
    /// Bytes, as a number or like `64MiB`.
    Size,
    /// A list of texts.
    Texts,
    /// A table of texts; the keys are free.
    Map,
    /// A table of lists of texts; the keys are free.
    Lists,
    /// A list of texts, or a table of texts.
    TextsOrMap,
    /// Another table of this file.
    Table(&'static Section),
    /// A list of tables.
    Tables(&'static Section),
    /// A table a engine.
    Engines(&'static Section),
}

/// What it takes for a change of a key to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// A reload.
    Reload,
    /// Another start.
    Restart,
}

/// One key.
#[derive(Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub shape: Shape,
    /// Whether its table is wrong without it.
    pub required: bool,
    /// What holds without it, as it would be written; empty = nothing.
    pub default: &'static str,
    /// Whether a reload applies it.
    pub takes: Takes,
    /// One sentence: meaning and unit.
    pub help: &'static str,
}

/// The keys of one table.
#[derive(Debug, PartialEq, Eq)]
pub struct Section {
    /// How it is called in a message: `in [pool]`.
    pub place: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
}

impl Section {
    /// The key of this name.
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|k| k.name == name)
    }

    /// The names of its keys, in the order of the table.
    pub fn names(&self) -> Vec<&'static str> {
        self.keys.iter().map(|k| k.name).collect()
    }
}

const fn live(name: &'static str, shape: Shape, default: &'static str, help: &'static str) -> Key {
    Key {
        name,
        shape,
        required: false,
        default,
        takes: Takes::Reload,
        help,
    }
}

const fn fixed(name: &'static str, shape: Shape, default: &'static str, help: &'static str) -> Key {
    Key {
        takes: Takes::Restart,
        ..live(name, shape, default, help)
    }
}

const fn needed(name: &'static str, shape: Shape, help: &'static str) -> Key {
    Key {
        required: true,
        ..live(name, shape, "", help)
    }
}

const fn span((least, most): limits::Range<u64>) -> Shape {
    Shape::Span(least, most)
}

const fn number((least, most): limits::Range<u32>) -> Shape {
    Shape::Number(least, most)
}

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// No limit that a person would meet.
const FOREVER: u64 = 292 * 365 * DAY;

/// The top level.
pub const TOP: Section = Section {
    place: "at the top level",
    keys: &[
        live(
            "policy",
            Shape::Words(&[Policy::Weighted.as_str(), Policy::Ordered.as_str()]),
            "weighted",
            "How a node is chosen without a broker: by own load and warmth, or by id.",
        ),
        live(
            "response_header_timeout",
            Shape::Span(0, FOREVER),
            "30m",
            "Time to an engine's response headers, and again to its first content; 0 = no limit.",
        ),
        live(
            "max_request_bytes",
            Shape::Size,
            "128MiB",
            "Bytes of a request that are kept so that it can be sent again elsewhere.",
        ),
        live(
            "allowed_hosts",
            Shape::Texts,
            "",
            "Names that a request's Host header may have besides loopback and this machine's own.",
        ),
        live(
            "allowed_origins",
            Shape::Texts,
            "",
            "The only browser origins that are let in; without it the engines' own policy decides.",
        ),
        live(
            "allowed_cidrs",
            Shape::Texts,
            "",
            "Networks whose callers may use a facade with a client key; none = loopback only.",
        ),
        live(
            "stream_idle_timeout",
            Shape::Span(0, FOREVER),
            "0",
            "Silence that ends a stream once it has begun; 0 = no limit.",
        ),
        live(
            "drain_timeout",
            Shape::Span(0, FOREVER),
            "10m",
            "How long SIGTERM waits for requests under way; 0 = not at all.",
        ),
        live(
            "commit_gate",
            Shape::Words(&[GATES[0].0, GATES[1].0]),
            "framing",
            "What commits an event stream: its first content, or its first byte of any kind.",
        ),
        live(
            "response_headers",
            Shape::Switch,
            "false",
            "Whether answers get X-Nvpair-Node, X-Nvpair-Attempts and X-Nvpair-Request-Id.",
        ),
        live(
            "engines",
            Shape::Engines(&ENGINE),
            "",
            "The facades, one table an engine.",
        ),
        live("nodes", Shape::Tables(&NODE), "", "Nodes named by hand."),
        live("log", Shape::Table(&LOG), "", "The log."),
        fixed(
            "pool",
            Shape::Table(&POOL),
            "",
            "The pool of nodes that register themselves; with this table it runs.",
        ),
        live(
            "gateway",
            Shape::Table(&GATEWAY),
            "",
            "One OpenAI endpoint over everything; with this table, or with [pool], it runs.",
        ),
        live(
            "providers",
            Shape::Tables(&PROVIDER),
            "",
            "OpenAI-compatible services that the gateway falls back to.",
        ),
        live(
            "virtual_models",
            Shape::Lists,
            "",
            "Names of the gateway that stand for an ordered list of \"target/model\"; a target is \
             a node's id, an engine, `pool` or a provider.",
        ),
        live(
            "telemetry",
            Shape::Table(&TELEMETRY),
            "",
            "Traces and metrics over OTLP/HTTP; with this table they are sent.",
        ),
        live(
            "admin",
            Shape::Table(&ADMIN),
            "",
            "Prometheus metrics, /livez and /readyz on loopback; with this table it listens.",
        ),
    ],
};

/// `[engines.NAME]`.
pub const ENGINE: Section = Section {
    place: "in [engines.NAME]",
    keys: &[
        live(
            "enabled",
            Shape::Switch,
            "true",
            "Whether it gets a facade.",
        ),
        live(
            "port",
            Shape::Number(1, 65535),
            "",
            "Port of the facade; one that `set-port` saved goes first.",
        ),
        live("tls_cert", Shape::Text, "", TLS_CERT),
        live("tls_key", Shape::Text, "", TLS_KEY),
    ],
};

const TLS_CERT: &str = "PEM file of the certificate chain for callers beyond loopback.";
const TLS_KEY: &str = "PEM file of the certificate's private key.";

/// `[[nodes]]`.
pub const NODE: Section = Section {
    place: "in [[nodes]]",
    keys: &[
        needed("engine", Shape::Text, "What runs there."),
        needed(
            "url",
            Shape::Text,
            "Where it listens; a trailing /v1 is the OpenAI base of the same origin.",
        ),
        live(
            "name",
            Shape::Text,
            "",
            "Its id instead of its host's name; at most 100 bytes without blanks.",
        ),
        live(
            "models",
            Shape::Texts,
            "",
            "Its models; without it the node is asked.",
        ),
        live("api_key", Shape::Secret, "", "Key sent to this node only."),
        live(
            "slots",
            Shape::Number(1, 4096),
            "",
            "Requests it serves at once; without it the node is asked.",
        ),
        live(
            "weight",
            Shape::Number(1, 1000),
            "1",
            "Its share of the load against other nodes.",
        ),
        live("enabled", Shape::Switch, "true", "Whether it is used."),
        live(
            "peer",
            Shape::Text,
            "",
            "UUID of a cluster member: its facade is dialled over mutual TLS, pinned to it; needs models and --cluster-dir.",
        ),
    ],
};

/// `[log]`.
pub const LOG: Section = Section {
    place: "in [log]",
    keys: &[
        live(
            "level",
            Shape::Words(&[LEVELS[0].0, LEVELS[1].0, LEVELS[2].0, LEVELS[3].0]),
            "",
            "Threshold; without it info, or warn at a terminal.",
        ),
        fixed(
            "format",
            Shape::Words(&[LogFormat::Text.as_str(), LogFormat::Json.as_str()]),
            "text",
            "Form of its lines.",
        ),
    ],
};

/// `[pool]`. The pool is opened with the values of the start, whatever the file says later.
pub const POOL: Section = Section {
    place: "in [pool]",
    keys: &[
        fixed("enabled", Shape::Switch, "true", "Whether the pool runs."),
        fixed(
            "listen",
            Shape::Text,
            "127.0.0.1:9090",
            "Address of the registry; beyond loopback it speaks TLS only.",
        ),
        fixed(
            "tls_cert",
            Shape::Text,
            "",
            "PEM file of the registry's certificate chain; without it one is made.",
        ),
        fixed("tls_key", Shape::Text, "", TLS_KEY),
        fixed(
            "store",
            Shape::Secret,
            "memory",
            "\"memory\", or redis://… for a store that several gateways share.",
        ),
        fixed(
            "heartbeat_ttl",
            span(limits::TTL),
            "15s",
            "Silence after which a node counts as gone; at least two heartbeats.",
        ),
        fixed(
            "heartbeat_interval",
            span(limits::BEAT),
            "5s",
            "Time between two heartbeats of a node; at most half of heartbeat_ttl.",
        ),
        fixed(
            "sweep_interval",
            span(limits::SWEEP),
            "5s",
            "Time between two looks for nodes that fell silent.",
        ),
        fixed(
            "retention",
            span(limits::RETENTION),
            "24h",
            "How long a node that is gone is remembered; above heartbeat_ttl.",
        ),
        fixed(
            "breaker_failures",
            number(limits::FAILURES),
            "5",
            "Failures in a row that take a node out.",
        ),
        fixed(
            "breaker_cooldown",
            span(limits::COOLDOWN),
            "30s",
            "Time until such a node gets one trial.",
        ),
        fixed(
            "suspect_temperature",
            number(limits::TEMPERATURE),
            "88",
            "GPU temperature in °C from which a node is used only if no healthy one is left.",
        ),
        fixed(
            "suspect_utilization",
            number(limits::UTILIZATION),
            "98",
            "GPU utilisation in percent from which the same holds; 101 = never.",
        ),
        fixed(
            "lease_ttl",
            span(limits::LEASE),
            "30s",
            "How long a request's slot outlives its gateway.",
        ),
        fixed(
            "lease_renewal",
            span(limits::RENEWAL),
            "10s",
            "Time between two renewals of a slot; at most half of lease_ttl.",
        ),
        fixed(
            "allowed_endpoints",
            Shape::Texts,
            "",
            "Networks in which a node's endpoint must be, whatever its key allows; none = the \
             key alone decides.",
        ),
        fixed(
            "registrations_per_minute",
            Shape::Number(1, 6000),
            "60",
            "Registrations taken from one node key in a minute.",
        ),
        fixed(
            "usage_file",
            Shape::Text,
            "",
            "File to which a line a finished request is appended.",
        ),
        fixed(
            "usage_collector",
            Shape::Text,
            "",
            "http or https URL to which the same is posted in batches.",
        ),
    ],
};

/// `[gateway]`.
pub const GATEWAY: Section = Section {
    place: "in [gateway]",
    keys: &[
        live(
            "enabled",
            Shape::Switch,
            "true",
            "Whether the gateway runs.",
        ),
        live(
            "port",
            Shape::Number(1, 65535),
            "4000",
            "Its port; one that `set-port` saved goes first.",
        ),
        live("tls_cert", Shape::Text, "", TLS_CERT),
        live("tls_key", Shape::Text, "", TLS_KEY),
    ],
};

/// `[[providers]]`.
pub const PROVIDER: Section = Section {
    place: "in [[providers]]",
    keys: &[
        needed(
            "name",
            Shape::Text,
            "Its name: at most 100 bytes without blanks and `/`; no engine's, and not `pool`.",
        ),
        needed(
            "base_url",
            Shape::Text,
            "Its OpenAI base, http or https, as a client would be given it.",
        ),
        live(
            "api_key",
            Shape::Secret,
            "",
            "Key sent to this provider only.",
        ),
        live(
            "tier",
            Shape::Number(0, 1000),
            "0",
            "Lower tiers are tried first.",
        ),
        live(
            "models",
            Shape::TextsOrMap,
            "",
            "Models it is asked for: a list, or a table of our name = \"its name\".",
        ),
        live(
            "upstream_timeout_secs",
            Shape::Number(1, 300),
            "5",
            "Seconds for connecting to it, TLS included.",
        ),
        live("enabled", Shape::Switch, "true", "Whether it is used."),
    ],
};

/// `[telemetry]`.
pub const TELEMETRY: Section = Section {
    place: "in [telemetry]",
    keys: &[
        live(
            "enabled",
            Shape::Switch,
            "true",
            "Whether anything is sent.",
        ),
        live(
            "endpoint",
            Shape::Text,
            "http://127.0.0.1:4318",
            "http or https URL of the collector; /v1/traces and /v1/metrics are added.",
        ),
        live(
            "protocol",
            Shape::Words(&[
                OtlpProtocol::HttpJson.as_str(),
                OtlpProtocol::HttpProtobuf.as_str(),
            ]),
            "http/json",
            "Form of the bodies.",
        ),
        live(
            "headers",
            Shape::Map,
            "",
            "Headers of every export, such as a collector's key; values are shown nowhere.",
        ),
        live("traces", Shape::Switch, "true", "Whether traces are sent."),
        live(
            "metrics",
            Shape::Switch,
            "true",
            "Whether metrics are sent.",
        ),
        live(
            "metrics_interval",
            Shape::Span(SECOND, HOUR),
            "1m",
            "Time between two exports of metrics.",
        ),
        live(
            "sample_percent",
            Shape::Number(0, 100),
            "100",
            "Share of new traces that are recorded; a caller's own decision is kept.",
        ),
        live(
            "service_name",
            Shape::Text,
            "nvpair-proxy",
            "service.name of everything that is sent.",
        ),
    ],
};

/// `[admin]`.
pub const ADMIN: Section = Section {
    place: "in [admin]",
    keys: &[
        live("enabled", Shape::Switch, "true", "Whether it listens."),
        live(
            "listen",
            Shape::Text,
            "127.0.0.1:9464",
            "Its address; loopback only.",
        ),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_described_once_and_in_a_sentence() {
        fn look(section: &Section) {
            for (i, key) in section.keys.iter().enumerate() {
                let at = format!("`{}` {}", key.name, section.place);
                assert!(key.help.ends_with('.'), "{at}");
                let again = section.keys[..i].iter().any(|k| k.name == key.name);
                assert!(!again, "{at} is there twice");
                match key.shape {
                    Shape::Table(inner) | Shape::Tables(inner) | Shape::Engines(inner) => {
                        look(inner);
                    },
                    Shape::Number(min, max) => assert!(min < max, "{at}"),
                    Shape::Span(min, max) => assert!(min < max, "{at}"),
                    _ => {},
                }
            }
        }
        look(&TOP);
    }
}
