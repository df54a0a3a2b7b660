//! `[gateway]`, `[[providers]]` and `[virtual_models]` (product section 8).
//!
//! Owns: their settings, and which targets of a virtual model are known to exist.
//! Leaves to others: the gateway itself, the order in which providers are tried.

use std::path::PathBuf;
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::file::NodeSetting;
use super::http_url::HttpUrl;
use super::keys;
use super::kinds;
use super::reader::{Plain, Reader, Section};
use crate::rules::addresses::is_loopback_host;
use crate::rules::engine::{EngineId, GATEWAY_PORT};
use crate::rules::gateway::POOL;
use crate::rules::nearest::closest;
use crate::rules::secret::Secret;

/// Certificate and key of a listener. Paths as written; relative ones count from the file's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// PEM: the chain.
    pub cert: PathBuf,
    /// PEM: the key.
    pub key: PathBuf,
}

/// `[gateway]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewaySettings {
    /// Its port, if the file names one; yields to a saved one.
    pub port: Option<u16>,
    /// What callers beyond loopback are met with.
    pub tls: Option<TlsFiles>,
}

/// One of `[[providers]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderSetting {
    /// Its name; no other provider's, no engine's, without `/`.
    pub name: String,
    /// Its OpenAI base, as a client would be given it.
    pub base_url: HttpUrl,
    /// Sent to this provider only.
    pub api_key: Option<Secret>,
    /// Lower ones are tried first.
    pub tier: u32,
    /// What it is asked for; empty = only what virtual models name.
    pub models: Vec<ProviderModel>,
    /// Bound of connecting, TLS included; 1 to 300 seconds.
    pub upstream_timeout: Duration,
}

/// One model of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderModel {
    /// Our name of it.
    pub name: String,
    /// Its own; usually the same.
    pub upstream: String,
}

/// One of `[virtual_models]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualModel {
    /// What clients ask for.
    pub name: String,
    /// What is tried, in this order; at least one.
    pub targets: Vec<VirtualTarget>,
}

/// `target/model`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualTarget {
    /// Where.
    pub target: TargetName,
    /// The model there.
    pub model: String,
}

/// Where a virtual model may lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetName {
    /// Any node of this engine.
    Engine(EngineId),
    /// Any pool node.
    Pool,
    /// A provider of this file.
    Provider(String),
    /// The node of this id, whether it is known now or not.
    Node(String),
}

impl TargetName {
    /// As it is written.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Engine(engine) => engine.as_str(),
            Self::Pool => POOL,
            Self::Provider(name) | Self::Node(name) => name,
        }
    }
}

/// Reads `tls_cert` and `tls_key`: both or none.
pub(super) fn tls_files(s: &mut Section) -> Option<TlsFiles> {
    let (cert, key) = (
        s.spanned("tls_cert", &kinds::path),
        s.spanned("tls_key", &kinds::path),
    );
    for (here, there) in [("tls_cert", "tls_key"), ("tls_key", "tls_cert")] {
        if let (Some((at, _)), None) = (s.raw(here), s.raw(there)) {
            let text = format!("`{here}` needs `{there}` beside it");
            s.reader.complain(at, text);
        }
    }
    let ((_, cert), (_, key)) = (cert?, key?);
    Some(TlsFiles { cert, key })
}

/// What `[gateway]` says.
pub(super) enum Gateway {
    /// The table is not there.
    Unsaid,
    /// `enabled = false`.
    Off,
    /// It runs.
    On(GatewaySettings),
}

/// Reads `[gateway]`. A port of an engine cannot be its own.
pub(super) fn gateway(r: &mut Reader, t: &DeTable, taken: &[u16]) -> Gateway {
    let Some((at, table)) = r.table(t, "gateway") else {
        return Gateway::Unsaid;
    };
    let mut s = r.section(table, &keys::GATEWAY, at, "gateway.", None);
    let enabled = s.switch("enabled").unwrap_or(true);
    let port = s.port("port");
    let (at, wanted) = port.unwrap_or((at, GATEWAY_PORT));
    if enabled && taken.contains(&wanted) {
        let text = format!("port {wanted} is asked for by an engine already");
        s.reader.complain(at, text);
    }
    let tls = tls_files(&mut s);
    let port = port.map(|(_, port)| port);
    match enabled {
        true => Gateway::On(GatewaySettings { port, tls }),
        false => Gateway::Off,
    }
}

/// Reads `[[providers]]`: those that are enabled, and the names of the others.
///
/// A name is one target only: none is that of a named node.
pub(super) fn providers(
    r: &mut Reader,
    t: &DeTable,
    nodes: &[NodeSetting],
) -> (Vec<ProviderSetting>, Vec<String>) {
    let (mut read, mut off): (Vec<ProviderSetting>, Vec<String>) = (Vec::new(), Vec::new());
    for (i, (at, table)) in r.tables(t, "providers").into_iter().enumerate() {
        let path = format!("providers[{i}].");
        let mut s = r.section(table, &keys::PROVIDER, at, &path, None);
        let Some((enabled, provider)) = provider(&mut s) else {
            continue;
        };
        let known = read.iter().map(|p| &p.name).chain(&off);
        if known.into_iter().any(|name| *name == provider.name) {
            let text = format!("two providers are named {:?}", provider.name);
            r.complain(at, text);
        } else if nodes.iter().any(|n| is_called(n, &provider.name)) {
            let text = format!(
                "a node is named {:?}; call the provider otherwise",
                provider.name
            );
            r.complain(at, text);
        } else if enabled {
            read.push(provider);
        } else {
            off.push(provider.name);
        }
    }
    (read, off)
}

fn provider(s: &mut Section) -> Option<(bool, ProviderSetting)> {
    let name = s.value("name", &kinds::provider_name);
    let base_url = s.spanned("base_url", &kinds::http_url);
    let api_key = s.value("api_key", &kinds::secret);
    if let (Some((at, url)), true) = (&base_url, api_key.is_some())
        && !url.tls
        // Nothing on the way there can listen.
        && !is_loopback_host(&url.host)
    {
        let text = "`base_url` is http: the key goes over the network unprotected";
        s.reader.warn(*at, text);
    }
    let tier = s.number("tier").unwrap_or(0);
    let models = models(s);
    let timeout = s.number("upstream_timeout_secs").unwrap_or(5);
    let enabled = s.switch("enabled").unwrap_or(true);
    let provider = ProviderSetting {
        name: name?,
        base_url: base_url?.1,
        api_key,
        tier,
        models,
        upstream_timeout: Duration::from_secs(timeout.into()),
    };
    Some((enabled, provider))
}

/// A list of names, or a table of our name = "its name".
fn models(s: &mut Section) -> Vec<ProviderModel> {
    let Some((at, value)) = s.raw("models") else {
        return Vec::new();
    };
    let r = &mut *s.reader;
    let mut read: Vec<(usize, ProviderModel)> = Vec::new();
    match value {
        DeValue::Table(map) => {
            for (key, value) in map {
                let upstream = r.one(
                    value.span().start,
                    value.get_ref(),
                    "models",
                    &kinds::not_empty,
                );
                let name = key.get_ref().trim().to_owned();
                if name.is_empty() {
                    r.complain(key.span().start, "`models` must not be empty");
                }
                let model = |(_, upstream)| (key.span().start, ProviderModel { name, upstream });
                read.extend(upstream.map(model));
            }
        },
        DeValue::Array(_) => {
            let listed = r.entries(value, at, "models", &kinds::not_empty);
            let model = |(at, name): (usize, String)| {
                let upstream = name.clone();
                (at, ProviderModel { name, upstream })
            };
            read.extend(listed.into_iter().flatten().map(model));
        },
        _ => {
            let text =
                "`models` must be a list, like [\"a\"], or a table, like { ours = \"theirs\" }";
            r.complain(at, text);
        },
    }
    let mut models: Vec<ProviderModel> = Vec::new();
    for (at, model) in read {
        if models.iter().any(|m| m.name == model.name) {
            r.complain(at, format!("model {:?} is listed twice", model.name));
        } else {
            models.push(model);
        }
    }
    models
}

/// What the targets of virtual models are compared with.
pub(super) struct Known<'c> {
    /// Providers that are used.
    pub providers: &'c [ProviderSetting],
    /// Names of those that are not.
    pub off: &'c [String],
    /// Nodes named by hand.
    pub nodes: &'c [NodeSetting],
    /// Whether there is a pool.
    pub pool: bool,
}

/// Reads `[virtual_models]`.
pub(super) fn virtual_models(r: &mut Reader, t: &DeTable, known: &Known) -> Vec<VirtualModel> {
    let Some((_, table)) = r.table(t, "virtual_models") else {
        return Vec::new();
    };
    let mut read = Vec::new();
    for (key, value) in table {
        let (at, name) = (key.span().start, key.get_ref().as_ref());
        r.note(&format!("virtual_models.{name}"), at);
        if name.trim() != name || name.is_empty() {
            r.complain(
                at,
                "a virtual model's name must not be empty or begin or end blank",
            );
        }
        let (from, value) = (value.span().start, value.get_ref());
        let Some(entries) = r.entries(value, from, name, &target) else {
            continue;
        };
        if matches!(value, DeValue::Array(list) if list.is_empty()) {
            r.complain(from, format!("`{name}` has no target"));
        }
        let mut targets: Vec<VirtualTarget> = Vec::new();
        for (at, (given, model)) in entries {
            let target = resolve(r, at, &given, known);
            let target = VirtualTarget { target, model };
            if targets.contains(&target) {
                let text = format!("`{name}` has {given}/{} twice", target.model);
                r.complain(at, text);
            } else {
                targets.push(target);
            }
        }
        read.push(VirtualModel {
            name: name.to_owned(),
            targets,
        });
    }
    read
}

/// `target/model`; a model may have slashes of its own.
fn target(key: &str, value: Plain) -> Result<(String, String), String> {
    let text = kinds::not_empty(key, value)?;
    let bad = || format!("`{key}`: {text:?} is no \"target/model\"");
    let (target, model) = text.split_once('/').ok_or_else(bad)?;
    let (target, model) = (target.trim(), model.trim());
    if target.is_empty() || model.is_empty() {
        return Err(bad());
    }
    Ok((target.to_owned(), model.to_owned()))
}

/// Whether a named node is meant by a name: without one of its own it is called by its place.
fn is_called(node: &NodeSetting, given: &str) -> bool {
    match &node.name {
        Some(name) => name == given,
        None => node.url.host == given || node.url.authority() == given,
    }
}

/// What a target's name means. A name that nothing here has may be a node's that shows up later.
fn resolve(r: &mut Reader, at: usize, given: &str, known: &Known) -> TargetName {
    // With a facade or without: the gateway uses its nodes.
    if let Some(engine) = EngineId::parse(given) {
        return TargetName::Engine(engine);
    }
    if given == POOL {
        if !known.pool {
            r.complain(at, "there is no [pool] that this target could mean");
        }
        return TargetName::Pool;
    }
    if known.providers.iter().any(|p| p.name == given) {
        return TargetName::Provider(given.to_owned());
    }
    if known.off.iter().any(|name| name == given) {
        r.warn(at, format!("provider {given:?} is turned off"));
        return TargetName::Provider(given.to_owned());
    }
    if !known.nodes.iter().any(|n| is_called(n, given)) {
        let mut names: Vec<&str> = EngineId::all().map(EngineId::as_str).collect();
        names.push(POOL);
        names.extend(known.providers.iter().map(|p| p.name.as_str()));
        let name = |n: &'_ NodeSetting| n.name.clone().unwrap_or_else(|| n.url.host.clone());
        let nodes: Vec<String> = known.nodes.iter().map(name).collect();
        names.extend(nodes.iter().map(String::as_str));
        let help = match closest(given, names) {
            Some(near) => format!("; did you mean {near:?}?"),
            None => String::new(),
        };
        r.warn(
            at,
            format!(
                "{given:?} is no provider, engine or named node: it is taken for the id of a node \
                 that shows up later{help}"
            ),
        );
    }
    TargetName::Node(given.to_owned())
}
