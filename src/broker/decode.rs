//! From a wire method and its parameters to what is asked of the daemon, or why not.
//!
//! Owns: the methods of the link, addressing, check order, value checks, texts of refusals.
//! Leaves to others: how JSON is read (`go`), carrying out (`daemon`), answers (`link`).
//!
//! Check order: method, facade, parameters, values. What only the daemon can know (a node's id, a
//! bound port, alias rules) is checked there.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use serde_json::value::RawValue;

use super::go::{self, Go};
use crate::rules::address;
use crate::rules::addresses::loopback;
use crate::rules::engine::{EngineId, UnknownEngine};
use crate::rules::ids::NodeId;
use crate::rules::log_level::LogLevel;
use crate::state::command::{Enable, LocalBackend, ManualNode, PrioritySnapshot, Rank};
use crate::wire::broker::{DirectoryNode, NodeRecord, ServicePort};
use crate::wire::jsonrpc::{CommandError, ErrorCode};

/// A decoded and checked message.
#[derive(Debug)]
pub enum Call {
    /// `facade/enable`.
    Enable(Enable),
    /// `set-port`, in range.
    SetPort(EngineId, i64),
    /// `nodes/list`.
    Nodes(EngineId),
    /// `node/select`; `None` = automatic.
    Select(EngineId, Option<NodeId>),
    /// `node/selected`.
    Selected(EngineId),
    /// `node/add-manual`.
    AddManual(EngineId, Box<ManualNode>),
    /// `node/remove-manual`.
    RemoveManual(EngineId, NodeId),
    /// `node/set-local-backend`.
    SetLocalBackend(EngineId, LocalBackend),
    /// `node/set-priority`.
    SetPriority(PrioritySnapshot),
    /// `discovery:nodes`.
    Discovery(EngineId, Vec<DirectoryNode>),
    /// `log/set-level`.
    SetLogLevel(LogLevel),
    /// `shutdown`.
    Shutdown,
}

/// Why a notification is not acted upon.
#[derive(Debug, PartialEq, Eq)]
pub enum Ignored {
    /// No notification of this name, or one that only a request may carry.
    Unknown,
    /// For a facade that is not enabled; the next snapshot supersedes it.
    NoFacade,
    /// Its parameters are not right.
    Invalid(CommandError),
}

type Params<'a> = Option<&'a RawValue>;

/// Decodes the parameters of a facade-scoped method.
type FacadeMethod = fn(EngineId, Params<'_>) -> Result<Call, CommandError>;

/// Decodes a request.
pub fn request(
    method: &str,
    params: Params,
    is_enabled: impl Fn(EngineId) -> bool,
) -> Result<Call, CommandError> {
    let (engine, bare) = address::split(method);
    match bare {
        "facade/enable" => enable(params),
        "node/set-priority" => set_priority(params),
        "shutdown" => Ok(Call::Shutdown),
        // The one process method on which an address is not tolerated.
        "log/set-level" if engine.is_none() => set_log_level(params),
        _ => {
            let decode = facade_method(bare).ok_or_else(|| {
                let text = format!("method not found: {method}");
                CommandError::new(ErrorCode::MethodNotFound, text)
            })?;
            match engine {
                Some(engine) if is_enabled(engine) => decode(engine, params),
                _ => Err(CommandError::no_facade(engine.map_or("", EngineId::as_str))),
            }
        },
    }
}

/// Decodes a notification: the broker sends two kinds.
pub fn notification(
    method: &str,
    params: Params,
    is_enabled: impl Fn(EngineId) -> bool,
) -> Result<Call, Ignored> {
    match address::split(method) {
        (Some(engine), "discovery:nodes") if is_enabled(engine) => {
            discovery(engine, params).map_err(Ignored::Invalid)
        },
        (_, "discovery:nodes") => Err(Ignored::NoFacade),
        (None, "log/set-level") => set_log_level(params).map_err(Ignored::Invalid),
        _ => Err(Ignored::Unknown),
    }
}

/// The decoder of a facade-scoped method.
fn facade_method(bare: &str) -> Option<FacadeMethod> {
    Some(match bare {
        "nodes/list" => |engine, _| Ok(Call::Nodes(engine)),
        "node/selected" => |engine, _| Ok(Call::Selected(engine)),
        "node/select" => select,
        "node/add-manual" => add_manual,
        "node/remove-manual" => remove_manual,
        "node/set-local-backend" => set_local_backend,
        "set-port" => set_port,
        "discovery:nodes" => discovery,
        _ => return None,
    })
}

fn enable(params: Params) -> Result<Call, CommandError> {
    const SHAPE: &str =
        r#"{"engine":string,"port":int,"aliasAddresses":[string],"ignorePersistedPort":bool}"#;
    let [engine, port, aliases, ignore] = fields(
        params,
        ["engine", "port", "aliasAddresses", "ignorePersistedPort"],
        SHAPE,
    )?;
    let engine: String = field(engine, SHAPE)?;
    let port = field(port, SHAPE)?;
    let alias_addresses = field(aliases, SHAPE)?;
    let ignore_persisted_port = field(ignore, SHAPE)?;
    // Unlike in set-port, a value out of range is a refusal here.
    // The gateway is none of a parent's facades.
    let engine = EngineId::parse(&engine)
        .ok_or_else(|| CommandError::refused(UnknownEngine(engine).to_string()))?;
    if !(0..=i64::from(u16::MAX)).contains(&port) {
        let text = format!("port {port} is out of range: 1 to 65535, or 0 for the engine's own");
        return Err(CommandError::refused(text));
    }
    Ok(Call::Enable(Enable {
        engine,
        port,
        alias_addresses,
        ignore_persisted_port,
    }))
}

fn set_port(engine: EngineId, params: Params) -> Result<Call, CommandError> {
    const SHAPE: &str = r#"{"port":int}"#;
    let [port] = fields(params, ["port"], SHAPE)?;
    let port = field(port, SHAPE)?;
    if !(1..=i64::from(u16::MAX)).contains(&port) {
        let text = format!("port {port} is out of range: 1 to 65535");
        return Err(CommandError::params(text));
    }
    Ok(Call::SetPort(engine, port))
}

fn select(engine: EngineId, params: Params) -> Result<Call, CommandError> {
    let id = id(params)?;
    let pin = (!id.is_empty()).then(|| NodeId::from(id));
    Ok(Call::Select(engine, pin))
}

fn remove_manual(engine: EngineId, params: Params) -> Result<Call, CommandError> {
    Ok(Call::RemoveManual(engine, id(params)?.into()))
}

fn id(params: Params) -> Result<String, CommandError> {
    const SHAPE: &str = r#"{"id":string}"#;
    let [id] = fields(params, ["id"], SHAPE)?;
    field(id, SHAPE)
}

fn add_manual(engine: EngineId, params: Params) -> Result<Call, CommandError> {
    const SHAPE: &str =
        r#"{"id":string,"host":string,"port":int,"addresses":[string],"models":[string]}"#;
    let [id, host, port, addresses, txt, models, ip] = fields(
        params,
        ["id", "host", "port", "addresses", "txt", "models", "ip"],
        SHAPE,
    )?;
    let port: i64 = field(port, SHAPE)?;
    let record = NodeRecord {
        id: field(id, SHAPE)?,
        host: field(host, SHAPE)?,
        // 0 is refused below, so a port that is none may become it.
        port: u16::try_from(port).unwrap_or(0),
        addresses: field(addresses, SHAPE)?,
        txt: field(txt, SHAPE)?,
        models: field(models, SHAPE)?,
        ip: field(ip, SHAPE)?,
    };
    if record.id.is_empty() || record.port == 0 || record.addresses.is_empty() {
        return Err(CommandError::params(
            "a manual node needs an id, a port from 1 to 65535 and at least one address",
        ));
    }
    Ok(Call::AddManual(
        engine,
        Box::new(ManualNode {
            record,
            ..ManualNode::default()
        }),
    ))
}

fn set_local_backend(engine: EngineId, params: Params) -> Result<Call, CommandError> {
    const SHAPE: &str = r#"{"engine":string,"host":string,"port":int,"healthy":bool}"#;
    let [named, host, port, healthy] =
        fields(params, ["engine", "host", "port", "healthy"], SHAPE)?;
    let named: String = field(named, SHAPE)?;
    let host: String = field(host, SHAPE)?;
    let port: i64 = field(port, SHAPE)?;
    let healthy = field(healthy, SHAPE)?;
    if !named.is_empty() && named != engine.as_str() {
        let text = format!("engine {named:?} in the parameters, but addressed to {engine}");
        return Err(CommandError::params(text));
    }
    // Nothing means this machine.
    let meant = match host.as_str() {
        "" => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        host => loopback(host),
    };
    let Some(host) = meant.map(|ip| ip.to_string()) else {
        let text = format!("host {host:?} is not a loopback address");
        return Err(CommandError::params(text));
    };
    let Ok(port) = u16::try_from(port.max(0)) else {
        let text = format!("port {port} is out of range: 1 to 65535, or 0 for none");
        return Err(CommandError::params(text));
    };
    Ok(Call::SetLocalBackend(
        engine,
        LocalBackend {
            host,
            port,
            healthy,
        },
    ))
}

fn set_priority(params: Params) -> Result<Call, CommandError> {
    const SHAPE: &str = r#"{"generation":uint,"nodes":[string],"ranks":[{"id":string,"pending":int,"gpuPressure":int}]}"#;
    let [generation, nodes, ranks] = fields(params, ["generation", "nodes", "ranks"], SHAPE)?;
    let generation = field(generation, SHAPE)?;
    let nodes: Vec<String> = field(nodes, SHAPE)?;
    let ranks: Vec<WireRank> = field(ranks, SHAPE)?;
    if generation == 0 {
        return Err(CommandError::params(
            "generation 0: a snapshot needs a generation above 0",
        ));
    }
    Ok(Call::SetPriority(PrioritySnapshot {
        generation,
        nodes: nodes.into_iter().map(NodeId::from).collect(),
        ranks: (ranks.into_iter())
            .filter_map(|r| Rank::told(r.id, r.pending, r.gpu_pressure))
            .collect(),
    }))
}

fn set_log_level(params: Params) -> Result<Call, CommandError> {
    const SHAPE: &str = r#"{"level":"debug"|"info"|"warn"|"error"}"#;
    let [level] = fields(params, ["level"], SHAPE)?;
    let level: String = field(level, SHAPE)?;
    match LogLevel::parse(&level) {
        Some(level) => Ok(Call::SetLogLevel(level)),
        None => Err(CommandError::params(format!(
            "unknown level {level:?}: debug, info, warn or error"
        ))),
    }
}

fn discovery(engine: EngineId, params: Params) -> Result<Call, CommandError> {
    const SHAPE: &str = r#"{"nodes":[node]}"#;
    let [nodes] = fields(params, ["nodes"], SHAPE)?;
    Ok(Call::Discovery(engine, field(nodes, SHAPE)?))
}

/// The named members of the parameters. Missing parameters do not decode; `null` has no members.
fn fields<'a, const N: usize>(
    params: Params<'a>,
    names: [&'static str; N],
    shape: &str,
) -> Result<[Option<&'a RawValue>; N], CommandError> {
    match params.map(RawValue::get) {
        Some("null") => Ok([None; N]),
        Some(text) => go::members(text, names).ok_or_else(|| not(shape)),
        None => Err(not(shape)),
    }
}

fn field<T: Go>(member: Option<&RawValue>, shape: &str) -> Result<T, CommandError> {
    go::value(member).ok_or_else(|| not(shape))
}

fn not(shape: &str) -> CommandError {
    CommandError::params(format!("the parameters do not decode as {shape}"))
}

/// A rank as it stands in `node/set-priority`.
#[derive(Default)]
struct WireRank {
    id: String,
    pending: i64,
    gpu_pressure: i64,
}

impl Go for WireRank {
    fn read(text: &str) -> Option<Self> {
        let [id, pending, pressure, rank] =
            go::members(text, ["id", "pending", "gpuPressure", "rank"])?;
        // Unused, but of the wrong type it fails the whole snapshot in the original too.
        go::value::<i64>(rank)?;
        Some(Self {
            id: go::value(id)?,
            pending: go::value(pending)?,
            gpu_pressure: go::value(pressure)?,
        })
    }
}

impl Go for ServicePort {
    fn read(text: &str) -> Option<Self> {
        let [port] = go::members(text, ["port"])?;
        let port: i64 = go::value(port)?;
        // One impossible port is that node's misfortune, not a reason to drop the snapshot.
        let port = u16::try_from(port).unwrap_or(0);
        Some(Self { port })
    }
}

impl Go for DirectoryNode {
    fn read(text: &str) -> Option<Self> {
        let [
            host_uuid,
            name,
            ip,
            ips,
            cluster,
            services,
            models,
            by_engine,
        ] = go::members(
            text,
            [
                "hostUuid",
                "name",
                "ip",
                "ips",
                "clusterUuid",
                "services",
                "models",
                "modelsByEngine",
            ],
        )?;
        Some(Self {
            host_uuid: go::value(host_uuid)?,
            name: go::value(name)?,
            ip: go::value(ip)?,
            ips: go::value(ips)?,
            cluster_uuid: go::value(cluster)?,
            services: go::value::<BTreeMap<String, ServicePort>>(services)?,
            models: go::value(models)?,
            models_by_engine: go::value(by_engine)?,
        })
    }
}

#[cfg(test)]
mod tests;
