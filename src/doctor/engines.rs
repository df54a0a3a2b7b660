//! Ports, engines and nodes: who is where, and which version.
//!
//! Owns: these checks. Leaves to others: one probe (`director`), where engines may be
//! (`director::local`), which port wins (`rules::port`).

use std::path::PathBuf;

use http::header::AUTHORIZATION;
use http::{HeaderValue, StatusCode};

use super::owners;
use super::{Finding, Level, limits};
use crate::config::file::NodeSetting;
use crate::config::settings::{PortAsk, Settings};
use crate::director::local::{self, HOST, IDENTITY_PROBE, YES};
use crate::director::probe::{self, Target};
use crate::director::standing::{FACADE, Miss, Reading};
use crate::net::fetch;
use crate::rules::addresses::authority;
use crate::rules::engine::EngineId;
use crate::rules::ingress::Refusal;
use crate::rules::inventory;
use crate::rules::port::{self, PortRequest};
use crate::rules::units::count;
use crate::store::ports::Ports;
use crate::wire::control::{Mode, NodeKind, NodeState, NodeStatus, Status};

/// What is behind a port of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Behind {
    /// Nobody.
    Nobody,
    /// A facade of our kind.
    Facade,
    /// The engine that was asked for.
    Engine,
    /// Somebody else.
    Other,
}

/// The ports of facades: those that listen, else those that would.
pub async fn ports(
    settings: &Settings,
    status: Option<&Status>,
    saved: Option<PathBuf>,
) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(status) = status {
        for facade in &status.facades {
            let behind = behind(facade.engine, facade.port).await;
            found.push(serving(facade.engine, facade.port, &behind));
        }
        if status.facades.is_empty() && status.daemon.mode != Mode::Broker {
            let text = "the daemon runs, but no facade listens";
            let finding = Finding::new("port", Level::Problem, text);
            found.push(finding.remedy("look at its log, which says why"));
        }
        return found;
    }
    let saved = Ports::in_folder(saved);
    for setting in &settings.engines {
        let engine = setting.engine;
        let (request, exact) = match setting.port {
            PortAsk::Exact(port) => (PortRequest::Port(port), true),
            PortAsk::Requested(port) => (PortRequest::Port(port), false),
            PortAsk::Default => (PortRequest::Standalone, false),
        };
        let (port, _) = port::decide(engine, request, saved.load(engine), exact);
        let at = behind(engine, port).await;
        found.push(wanted(engine, port, &at, owner(port, &at).as_deref()));
    }
    found
}

fn owner(port: u16, behind: &Behind) -> Option<String> {
    (*behind != Behind::Nobody).then(|| owners::of_port(port).map(|o| o.shown()))?
}

/// A port on which the daemon says that it listens.
fn serving(engine: EngineId, port: u16, behind: &Behind) -> Finding {
    let display = engine.spec().display;
    match behind {
        Behind::Facade => Finding::new(
            "port",
            Level::Ok,
            format!("the {display} facade listens on {port}"),
        ),
        _ => {
            let text = format!(
                "the daemon says that its {display} facade listens on {port}, but something else \
                 answers there"
            );
            let remedy = "stop what answers there, or `nvpair-proxy set-port` the facade elsewhere";
            Finding::new("port", Level::Problem, text).remedy(remedy)
        },
    }
}

/// A port that a facade would take.
fn wanted(engine: EngineId, port: u16, behind: &Behind, owner: Option<&str>) -> Finding {
    let spec = engine.spec();
    let (display, fallback) = (spec.display, spec.fallback_port);
    let who = owner.unwrap_or("a process of another user, or one that cannot be told");
    match behind {
        Behind::Nobody => Finding::new(
            "port",
            Level::Ok,
            format!("{port} is free for the {display} facade"),
        ),
        Behind::Engine => {
            let text =
                format!("{port} is {display}'s own ({who}); the facade would take {fallback}");
            Finding::new("port", Level::Note, text)
        },
        Behind::Facade => {
            let text = format!(
                "a {display} facade listens on {port} already ({who}), but no daemon answers on \
                 this control socket"
            );
            Finding::new("port", Level::Warning, text)
                .remedy("--socket PATH of the daemon it belongs to, or stop that one")
        },
        Behind::Other => {
            let text = format!("{port}, which the {display} facade would take, is in use by {who}");
            let remedy = format!("stop that, or: nvpair-proxy serve --engine {engine}=PORT");
            Finding::new("port", Level::Warning, text).remedy(remedy)
        },
    }
}

async fn behind(engine: EngineId, port: u16) -> Behind {
    let path = engine.spec().inventory.path;
    let asked = fetch::get(HOST, port, path, &[(IDENTITY_PROBE, YES)], limits()).await;
    match asked {
        Ok(answer) if answer.status == StatusCode::CONFLICT => {
            match inventory::refusal_code(&answer.body) {
                Some(code) if code == Refusal::NotTheEngine.code() => Behind::Facade,
                _ => Behind::Other,
            }
        },
        Ok(answer) => {
            let is_it =
                answer.status == StatusCode::OK && inventory::identifies(engine, &answer.body);
            if is_it { Behind::Engine } else { Behind::Other }
        },
        Err(_) if local::listens(port).await => Behind::Other,
        Err(_) => Behind::Nobody,
    }
}

/// The engines of this machine, found by looking where they may be.
pub async fn local(settings: &Settings, status: Option<&Status>) -> Vec<Finding> {
    let ours: Vec<u16> =
        status.map_or_else(Vec::new, |s| s.facades.iter().map(|f| f.port).collect());
    let places = local::places(settings);
    let mut found = Vec::new();
    for engine in settings.engines.iter().map(|e| e.engine) {
        let display = engine.spec().display;
        let mut at = Vec::new();
        for place in places.iter().filter(|p| p.engine == engine) {
            if !ours.contains(&place.port) && behind(engine, place.port).await == Behind::Engine {
                at.push(place.port);
            }
        }
        for port in &at {
            let version = version(engine, HOST, *port, "", None).await;
            let owner =
                owners::of_port(*port).map_or(String::new(), |o| format!(", {}", o.shown()));
            let text = format!("{display}{} answers on {port}{owner}", told(version));
            found.push(Finding::new("engine", Level::Ok, text));
        }
        if at.is_empty() {
            let looked = places
                .iter()
                .filter(|p| p.engine == engine)
                .map(|p| p.port.to_string());
            let looked = looked.collect::<Vec<_>>().join(" and ");
            let text = format!("no {display} answers on this machine (looked on {looked})");
            let remedy = format!(
                "start it if it should be here; for another machine: \
                 nvpair-proxy nodes add {engine}=http://HOST:PORT"
            );
            found.push(Finding::new("engine", Level::Note, text).remedy(remedy));
        }
    }
    found
}

/// Named nodes: as the daemon knows them, else asked here.
pub async fn nodes(named: &[NodeSetting], status: Option<&Status>) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(status) = status {
        for node in &status.nodes {
            found.push(known(node, of_known(node).await));
        }
        return found;
    }
    // Beside each other: ten that do not answer take no longer than one.
    let asked = named.iter().map(|node| async move {
        let target = Target::of(node);
        let answer = probe::ask(&target, limits()).await;
        let version = match &answer {
            Ok(_) => of_target(&target).await,
            Err(_) => None,
        };
        asked(node, answer, version)
    });
    found.extend(futures_util::future::join_all(asked).await);
    found
}

async fn of_known(node: &NodeStatus) -> Option<String> {
    // A peer is a proxy: it is met with certificates only.
    if node.state != NodeState::Healthy || node.kind == NodeKind::Peer {
        return None;
    }
    let (host, port) = node.address.as_ref()?.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    version(node.engine, host, port.parse().ok()?, "", None).await
}

async fn of_target(t: &Target) -> Option<String> {
    let key = t.api_key.as_ref().map(|k| k.reveal());
    version(t.engine, &t.host, t.port, &t.prefix, key).await
}

fn known(node: &NodeStatus, version: Option<String>) -> Finding {
    let display = node.engine.spec().display;
    let name = match node.name.as_str() {
        "" => node.id.as_str(),
        name => name,
    };
    let what = format!("{display}{} on {name}", told(version));
    match (node.state, &node.reason) {
        (NodeState::Healthy, _) => {
            let models = count(node.models.len(), "model");
            let text = format!("{what} is healthy, with {models}");
            Finding::new("node", Level::Ok, text)
        },
        (NodeState::Unknown, _) => {
            Finding::new("node", Level::Note, format!("{what} was not asked yet"))
        },
        (NodeState::Resting, reason) => {
            let reason = reason.as_deref().unwrap_or("no reason is known");
            Finding::new(
                "node",
                Level::Note,
                format!("{what} takes nothing now: {reason}"),
            )
        },
        (NodeState::Unreachable, reason) => {
            let reason = reason.as_deref().unwrap_or("no reason is known");
            unreachable(&what, reason)
        },
    }
}

fn asked(node: &NodeSetting, answer: Result<Reading, Miss>, version: Option<String>) -> Finding {
    let display = node.engine.spec().display;
    let url = &node.url;
    let at = format!("http://{}{}", authority(&url.host, url.port), url.prefix);
    let what = format!("{display}{} at {at}", told(version));
    match answer {
        Ok(reading) => {
            let models = reading.models.or_else(|| node.models.clone());
            let models = count(models.map_or(0, |m| m.len()), "model");
            Finding::new("node", Level::Ok, format!("{what} answers, with {models}"))
        },
        Err(Miss::Silent(reason)) => unreachable(&what, &reason),
        Err(Miss::Facade) => unreachable(&what, FACADE),
    }
}

fn unreachable(what: &str, reason: &str) -> Finding {
    let remedy = match reason {
        FACADE => "name the engine's own port, not a facade's",
        r if r.contains("refused") => {
            "start the engine there; if it runs, let it listen beyond its own machine \
             (OLLAMA_HOST=0.0.0.0, `--host 0.0.0.0`)"
        },
        r if r.contains("api_key") => "give its key: api_key in the file, or --api-key-file",
        r if r.contains("in time") => "look whether the machine is awake, and at its firewall",
        _ => "look at the engine there, and at the URL",
    };
    Finding::new(
        "node",
        Level::Warning,
        format!("{what} cannot be used: {reason}"),
    )
    .remedy(remedy)
}

fn told(version: Option<String>) -> String {
    version.map_or(String::new(), |v| format!(" {v}"))
}

/// The engine's version, where it tells one.
async fn version(
    engine: EngineId,
    host: &str,
    port: u16,
    prefix: &str,
    key: Option<&str>,
) -> Option<String> {
    let (path, field) = engine.spec().version?;
    let mut headers = vec![(IDENTITY_PROBE, YES)];
    if let Some(key) = key {
        let mut value = HeaderValue::try_from(format!("Bearer {key}")).ok()?;
        value.set_sensitive(true);
        headers.push((AUTHORIZATION, value));
    }
    let path = format!("{prefix}{path}");
    let answer = fetch::get(host, port, &path, &headers, limits())
        .await
        .ok()?;
    let document: serde_json::Value = serde_json::from_slice(&answer.body).ok()?;
    let text = document.get(field)?.as_str()?;
    // From elsewhere: it goes into a line.
    let clean: String = text.chars().filter(|c| !c.is_control()).take(40).collect();
    (!clean.is_empty()).then_some(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ollama() -> EngineId {
        EngineId::parse("ollama").unwrap()
    }

    #[test]
    fn a_port_in_use_says_by_whom_and_what_to_do() {
        for (behind, want, text) in [
            (Behind::Nobody, Level::Ok, "11435 is free"),
            (Behind::Engine, Level::Note, "the facade would take 11436"),
            (Behind::Facade, Level::Warning, "no daemon answers"),
            (Behind::Other, Level::Warning, "in use by nc (process 7)"),
        ] {
            let finding = wanted(ollama(), 11435, &behind, Some("nc (process 7)"));
            assert_eq!(finding.level, want, "{behind:?}");
            assert!(finding.text.contains(text), "{finding:?}");
            assert_eq!(finding.remedy.is_some(), want == Level::Warning);
        }
        assert_eq!(serving(ollama(), 1, &Behind::Facade).level, Level::Ok);
        for behind in [Behind::Nobody, Behind::Engine, Behind::Other] {
            assert_eq!(serving(ollama(), 1, &behind).level, Level::Problem);
        }
    }

    #[test]
    fn a_node_that_cannot_be_used_has_a_remedy_of_its_own() {
        for (reason, want) in [
            ("connection refused", "OLLAMA_HOST"),
            ("HTTP 401: check api_key", "key"),
            ("no connection in time", "firewall"),
            (FACADE, "own port"),
            ("HTTP 500 to a probe", "look at the engine"),
        ] {
            let finding = unreachable("x", reason);
            assert!(finding.remedy.unwrap().contains(want), "{reason}");
        }
    }
}
