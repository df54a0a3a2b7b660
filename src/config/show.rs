//! The settings in force, each with where it came from.
//!
//! Owns: their order and form, as TOML that could be a configuration file and as JSON, and that no
//! secret is in either. Leaves to others: what they are (`settings`), printing (`cmd`).

use serde_json::{Map, Value, json};

use super::file::{Config, GATES};
use super::gateway::{ProviderSetting, TlsFiles};
use super::keys::{self, Section};
use super::pool::{PoolSettings, StoreSetting};
use super::settings::{PortAsk, Settings};
use crate::rules::budget::Cap;
use crate::rules::engine::{EngineId, GATEWAY_PORT};
use crate::rules::secret::Secret;
use crate::rules::units::{duration_text, size_text};

/// What stands for a secret.
const MASK: &str = "***";

/// One table of the settings.
pub struct Table {
    /// `[log]`; empty for the top level.
    pub header: String,
    /// Its place in the JSON form; of a list of tables, each adds one to the list.
    path: Vec<String>,
    listed: bool,
    /// Its values, in the order of the table of keys.
    pub values: Vec<Shown>,
}

/// One value.
pub struct Shown {
    /// Its key.
    pub key: String,
    /// As JSON; what is a text in the file is one here.
    pub value: Value,
    /// `default`, `config.toml:3` or `environment NAME`.
    pub source: String,
}

/// What is in force and why.
pub fn tables(settings: &Settings, config: &Config) -> Vec<Table> {
    let b = Builder { settings, config };
    let mut all = vec![b.top()];
    for engine in EngineId::all() {
        let setting = settings.engines.iter().find(|e| e.engine == engine);
        let port = setting.and_then(|s| match s.port {
            PortAsk::Exact(port) | PortAsk::Requested(port) => Some(port),
            PortAsk::Default => None,
        });
        let name = engine.as_str();
        let tls = settings.engine_tls.iter().find(|(e, _)| *e == engine);
        let tls = tls.map(|(_, files)| files);
        all.push(b.table(
            &format!("[engines.{name}]"),
            &["engines", name],
            &keys::ENGINE,
            vec![
                ("enabled", json!(setting.is_some())),
                ("port", json!(port)),
                ("tls_cert", cert(tls)),
                ("tls_key", key(tls)),
            ],
        ));
    }
    for node in &settings.nodes {
        all.push(b.listed(
            "nodes",
            vec![
                ("engine", json!(node.engine)),
                ("url", json!(node.url.to_string())),
                ("name", json!(node.name)),
                ("models", json!(node.models)),
                ("api_key", masked(node.api_key.as_ref())),
                ("slots", json!(node.slots)),
                ("weight", json!(node.weight)),
                ("peer", json!(node.peer)),
            ],
        ));
    }
    all.push(b.table(
        "[log]",
        &["log"],
        &keys::LOG,
        vec![
            ("level", json!(settings.log_level.map(|l| l.as_str()))),
            ("format", json!(settings.log_format.as_str())),
        ],
    ));
    all.extend(settings.pool.as_ref().map(|p| b.pool(p)));
    if let Some(gateway) = &settings.gateway {
        let tls = gateway.tls.as_ref();
        all.push(b.table(
            "[gateway]",
            &["gateway"],
            &keys::GATEWAY,
            vec![
                ("port", json!(gateway.port.unwrap_or(GATEWAY_PORT))),
                ("tls_cert", cert(tls)),
                ("tls_key", key(tls)),
            ],
        ));
    }
    all.extend(
        settings
            .providers
            .iter()
            .map(|p| b.listed("providers", provider(p))),
    );
    all.extend(b.virtual_models());
    all.extend(b.telemetry());
    if let Some(admin) = &settings.admin {
        let values = vec![("listen", json!(admin.listen.to_string()))];
        all.push(b.table("[admin]", &["admin"], &keys::ADMIN, values));
    }
    all
}

/// The tables as a configuration file that says the same, secrets aside.
pub fn toml(tables: &[Table]) -> String {
    let mut text = String::new();
    for table in tables {
        if !text.is_empty() {
            text.push('\n');
        }
        if !table.header.is_empty() {
            text.push_str(&format!("{}\n", table.header));
        }
        for shown in &table.values {
            let value = literal(&shown.value);
            let key = bare(&shown.key);
            text.push_str(&format!("{key} = {value}  # {}\n", shown.source));
        }
    }
    text
}

/// The values of the tables, nested; and where each came from, by its path.
pub fn json(tables: &[Table]) -> (Value, Value) {
    let (mut settings, mut sources) = (json!({}), Map::new());
    for table in tables {
        let mut place = &mut settings;
        for step in &table.path {
            place = &mut place[step.as_str()];
        }
        let mut path = table.path.join(".");
        if table.listed {
            if !place.is_array() {
                *place = json!([]);
            }
            if let Some(list) = place.as_array_mut() {
                path.push_str(&format!("[{}]", list.len()));
                list.push(json!({}));
            }
            let last = place.as_array().map_or(0, |l| l.len() - 1);
            place = &mut place[last];
        } else if place.is_null() {
            *place = json!({});
        }
        for shown in &table.values {
            place[shown.key.as_str()] = shown.value.clone();
            let dot = if path.is_empty() { "" } else { "." };
            sources.insert(format!("{path}{dot}{}", shown.key), json!(shown.source));
        }
    }
    (settings, Value::Object(sources))
}

/// Builds tables of one pair of settings and file.
struct Builder<'s> {
    settings: &'s Settings,
    config: &'s Config,
}

impl Builder<'_> {
    fn top(&self) -> Table {
        let s = self.settings;
        let list = |l: &[String]| if l.is_empty() { Value::Null } else { json!(l) };
        let cidrs: Vec<_> = s.allowed_cidrs.iter().map(ToString::to_string).collect();
        let gate = GATES
            .iter()
            .find(|g| g.1 == s.commit_gate_first_byte)
            .map(|g| g.0);
        self.table(
            "",
            &[],
            &keys::TOP,
            vec![
                ("policy", json!(s.policy.as_str())),
                ("response_header_timeout", cap(s.response_header_timeout)),
                ("max_request_bytes", json!(size_text(s.max_request_bytes))),
                ("allowed_hosts", list(&s.allowed_hosts)),
                ("allowed_origins", json!(s.allowed_origins)),
                ("allowed_cidrs", list(&cidrs)),
                ("stream_idle_timeout", cap(s.stream_idle_timeout)),
                ("drain_timeout", json!(duration_text(s.drain_timeout))),
                ("commit_gate", json!(gate)),
                ("response_headers", json!(s.response_headers)),
            ],
        )
    }

    fn pool(&self, p: &PoolSettings) -> Table {
        let span = |d| json!(duration_text(d));
        let store = match &p.store {
            StoreSetting::Memory => "memory".to_owned(),
            StoreSetting::Redis(redis) => redis.to_string(),
        };
        let networks = p.allowed_endpoints.iter().map(|n| json!(n.to_string()));
        let networks = match p.allowed_endpoints.is_empty() {
            true => Value::Null,
            false => networks.collect(),
        };
        let file = p.usage_file.as_ref().map(|f| f.display().to_string());
        let collector = p.usage_collector.as_ref().map(ToString::to_string);
        self.table(
            "[pool]",
            &["pool"],
            &keys::POOL,
            vec![
                ("listen", json!(p.listen.to_string())),
                ("tls_cert", cert(p.tls.as_ref())),
                ("tls_key", key(p.tls.as_ref())),
                ("store", json!(store)),
                ("heartbeat_ttl", span(p.heartbeat_ttl)),
                ("heartbeat_interval", span(p.heartbeat_interval)),
                ("sweep_interval", span(p.sweep_interval)),
                ("retention", span(p.retention)),
                ("breaker_failures", json!(p.breaker_failures)),
                ("breaker_cooldown", span(p.breaker_cooldown)),
                ("suspect_temperature", json!(p.suspect_temperature)),
                ("suspect_utilization", json!(p.suspect_utilization)),
                ("lease_ttl", span(p.lease_ttl)),
                ("lease_renewal", span(p.lease_renewal)),
                ("allowed_endpoints", networks),
                (
                    "registrations_per_minute",
                    json!(p.registrations_per_minute),
                ),
                ("usage_file", json!(file)),
                ("usage_collector", json!(collector)),
            ],
        )
    }

    fn virtual_models(&self) -> Option<Table> {
        let models = &self.settings.virtual_models;
        let value = |m: &super::gateway::VirtualModel| {
            let target =
                |t: &super::gateway::VirtualTarget| format!("{}/{}", t.target.as_str(), t.model);
            Shown {
                key: m.name.clone(),
                value: m.targets.iter().map(target).collect(),
                source: self.source(&format!("virtual_models.{}", m.name)),
            }
        };
        (!models.is_empty()).then(|| Table {
            header: "[virtual_models]".to_owned(),
            path: vec!["virtual_models".to_owned()],
            listed: false,
            values: models.iter().map(value).collect(),
        })
    }

    fn telemetry(&self) -> Option<Table> {
        let t = self.settings.telemetry.as_ref()?;
        let headers: Map<_, _> = t
            .headers
            .iter()
            .map(|(n, _)| (n.clone(), json!(MASK)))
            .collect();
        let headers = if headers.is_empty() {
            Value::Null
        } else {
            headers.into()
        };
        Some(self.table(
            "[telemetry]",
            &["telemetry"],
            &keys::TELEMETRY,
            vec![
                ("endpoint", json!(t.endpoint.to_string())),
                ("protocol", json!(t.protocol.as_str())),
                ("headers", headers),
                ("traces", json!(t.traces)),
                ("metrics", json!(t.metrics)),
                ("metrics_interval", json!(duration_text(t.metrics_interval))),
                ("sample_percent", json!(t.sample_percent)),
                ("service_name", json!(t.service_name)),
            ],
        ))
    }

    /// A table; what has no value is left out.
    fn table(
        &self,
        header: &str,
        path: &[&str],
        section: &'static Section,
        values: Vec<(&'static str, Value)>,
    ) -> Table {
        let path: Vec<_> = path.iter().map(|p| (*p).to_owned()).collect();
        let dot = if path.is_empty() { "" } else { "." };
        let prefix = format!("{}{dot}", path.join("."));
        let shown = |(key, value): (&'static str, Value)| Shown {
            key: key.to_owned(),
            value,
            source: self.source(&format!("{prefix}{key}")),
        };
        debug_assert!(values.iter().all(|(k, _)| section.key(k).is_some()));
        let values = values.into_iter().filter(|(_, v)| !v.is_null()).map(shown);
        Table {
            header: header.to_owned(),
            values: values.collect(),
            path,
            listed: false,
        }
    }

    /// One of a list of tables. Those come from the file alone.
    fn listed(&self, name: &str, values: Vec<(&'static str, Value)>) -> Table {
        let shown = |(key, value): (&'static str, Value)| Shown {
            key: key.to_owned(),
            value,
            source: self.config.file.clone(),
        };
        let values = values.into_iter().filter(|(_, v)| !v.is_null()).map(shown);
        Table {
            header: format!("[[{name}]]"),
            values: values.collect(),
            path: vec![name.to_owned()],
            listed: true,
        }
    }

    fn source(&self, path: &str) -> String {
        let variable = self.settings.from_env.iter().find(|(key, _)| *key == path);
        let variable = variable.map(|(_, name)| *name);
        let of_section = self.config.from_env.get(path).map(String::as_str);
        match (variable.or(of_section), self.config.written.get(path)) {
            (Some(name), _) => format!("environment {name}"),
            (None, Some(line)) => format!("{}:{line}", self.config.file),
            (None, None) => "default".to_owned(),
        }
    }
}

fn provider(p: &ProviderSetting) -> Vec<(&'static str, Value)> {
    let same = p.models.iter().all(|m| m.name == m.upstream);
    let models = match same {
        _ if p.models.is_empty() => Value::Null,
        true => p.models.iter().map(|m| json!(m.name)).collect(),
        false => {
            let pair = |m: &super::gateway::ProviderModel| (m.name.clone(), json!(m.upstream));
            Value::Object(p.models.iter().map(pair).collect())
        },
    };
    vec![
        ("name", json!(p.name)),
        ("base_url", json!(p.base_url.to_string())),
        ("api_key", masked(p.api_key.as_ref())),
        ("tier", json!(p.tier)),
        ("models", models),
        ("upstream_timeout_secs", json!(p.upstream_timeout.as_secs())),
    ]
}

fn masked(secret: Option<&Secret>) -> Value {
    json!(secret.map(|_| MASK))
}

fn cert(tls: Option<&TlsFiles>) -> Value {
    json!(tls.map(|t| t.cert.display().to_string()))
}

fn key(tls: Option<&TlsFiles>) -> Value {
    json!(tls.map(|t| t.key.display().to_string()))
}

fn cap(cap: Cap) -> Value {
    match cap {
        Cap::Off => json!("0"),
        Cap::After(span) => json!(duration_text(span)),
    }
}

/// A key as TOML takes it.
fn bare(key: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match !key.is_empty() && key.chars().all(plain) {
        true => key.to_owned(),
        false => literal(&json!(key)),
    }
}

/// A value as TOML takes it. A literal `${` is written so that it reads as itself.
fn literal(value: &Value) -> String {
    match value {
        Value::String(text) => toml::Value::String(text.replace("${", "$${")).to_string(),
        Value::Array(list) => {
            let all: Vec<_> = list.iter().map(literal).collect();
            format!("[{}]", all.join(", "))
        },
        Value::Object(map) => {
            let one = |(k, v): (&String, &Value)| format!("{} = {}", bare(k), literal(v));
            let all: Vec<_> = map.iter().map(one).collect();
            format!("{{ {} }}", all.join(", "))
        },
        plain => plain.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::super::settings::{Flags, resolve};
    use super::*;
    use std::ffi::OsString;

    fn env(name: &str) -> Option<OsString> {
        match name {
            "TOWER_KEY" | "GROQ_KEY" | "OTLP_KEY" | "REDIS_PASSWORD" => Some("canary".into()),
            "NVPAIR_LOG_LEVEL" => Some("error".into()),
            "NODE_RETENTION_TTL_DAYS" => Some("2".into()),
            _ => None,
        }
    }

    fn shown(text: &str, env: &dyn Fn(&str) -> Option<OsString>) -> (Settings, Vec<Table>) {
        let config = file::parse("config.toml", text, env).unwrap();
        let settings = resolve(&Flags::default(), &config, env).unwrap();
        let tables = tables(&settings, &config);
        (settings, tables)
    }

    fn full() -> String {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(root.join("tests/config/valid/full.toml")).unwrap()
    }

    #[test]
    fn what_is_shown_reads_as_the_same_settings() {
        let none = |_: &str| None;
        // Masked, a secret is another one; everything else has to come back.
        let mut text = full();
        for (secret, masked) in [
            ("${TOWER_KEY}", MASK),
            ("${GROQ_KEY}", MASK),
            ("Bearer ${OTLP_KEY}", MASK),
            ("pool:${REDIS_PASSWORD}@cache.lan/2", "cache.lan:6379/2"),
        ] {
            text = text.replace(secret, masked);
        }
        let (before, tables) = shown(&text, &none);
        let (after, _) = shown(&toml(&tables), &none);
        let differ = super::super::change::keys(&before, &after);
        assert!(differ.is_empty(), "{differ:?}\n{}", toml(&tables));
    }

    #[test]
    fn no_secret_is_in_it() {
        let (_, tables) = shown(&full(), &env);
        let text = toml(&tables);
        let (settings, sources) = json(&tables);
        assert!(text.contains("api_key = \"***\""), "{text}");
        for form in [text, settings.to_string(), sources.to_string()] {
            assert!(!form.contains("canary"), "{form}");
        }
    }

    #[test]
    fn each_value_says_where_it_came_from() {
        let text = "policy = \"ordered\"\n[log]\nlevel = \"warn\"\n[pool]\nsweep_interval = \"1s\"";
        let (_, tables) = shown(text, &env);
        let (settings, sources) = json(&tables);
        for (path, want) in [
            ("policy", "config.toml:1"),
            ("drain_timeout", "default"),
            ("log.level", "environment NVPAIR_LOG_LEVEL"),
            ("pool.sweep_interval", "config.toml:5"),
            ("pool.retention", "environment NODE_RETENTION_TTL_DAYS"),
            ("pool.lease_ttl", "default"),
            ("gateway.port", "default"),
        ] {
            assert_eq!(sources[path], want, "{path}");
        }
        assert_eq!(settings["log"]["level"], "error");
        assert_eq!(settings["pool"]["retention"], "48h");
        assert_eq!(settings["gateway"]["port"], 4000);
    }

    #[test]
    fn the_defaults_shown_are_those_of_the_table_of_keys() {
        let (_, tables) = shown("[pool]\n[gateway]\n[telemetry]\n[admin]\n", &|_| None);
        let (settings, _) = json(&tables);
        for (section, place) in [
            (&keys::TOP, &settings),
            (&keys::LOG, &settings["log"]),
            (&keys::POOL, &settings["pool"]),
            (&keys::GATEWAY, &settings["gateway"]),
            (&keys::TELEMETRY, &settings["telemetry"]),
            (&keys::ADMIN, &settings["admin"]),
        ] {
            for key in section.keys.iter().filter(|k| k.name != "enabled") {
                let default = super::super::schema::default(key).unwrap_or_default();
                let shown = &place[key.name];
                // 60s and 1m are one duration.
                let same = *shown == default
                    || (shown.is_object() || shown.is_array()) && default.is_null();
                let span = |v: &Value| {
                    v.as_str()
                        .and_then(|t| crate::rules::units::parse_duration(t).ok())
                };
                let equal = same || span(shown).is_some() && span(shown) == span(&default);
                assert!(
                    equal,
                    "{} {}: {shown} is not {default}",
                    key.name, section.place
                );
            }
        }
    }
}
