//! What every call passes on its way to a handler: an RPC middleware.
//!
//! Owns: rewriting the link's addressed names (`ollama:set-port` is `set-port` with `engine`),
//! refusing unknown parameters, the engine check, and turning a panic into an answer.
//! Leaves to others: the types of parameters (`api`), what a call does (`server`).
//!
//! Unknown parameters are refused here because the generated decoder ignores them, and the engine
//! is checked here because -32002 goes before -32602. A panic is caught because jsonrpsee would
//! leave a WebSocket caller without any answer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use jsonrpsee::MethodResponse;
use jsonrpsee::core::middleware::{Batch, Notification, RpcServiceT};
use jsonrpsee::types::{ErrorObjectOwned, Request};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::server::refusal;
use crate::rules::address;
use crate::rules::engine::EngineId;
use crate::state::query::Queries;
use crate::wire::jsonrpc::{CommandError, ErrorCode};

/// What a method has to do with an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// Concerns one enabled facade; the engine is required.
    Facade,
    /// May be narrowed to one engine.
    Filter,
    /// Names the engine itself; an address is allowed and yields to it, as on the link.
    Bootstrap,
    /// Concerns the process; an address is ignored, as on the link.
    Process,
    /// Concerns the process, and an address makes it another, unknown method.
    Plain,
}

/// One method: its name, its scope, its parameters besides the engine.
struct Method(&'static str, Scope, &'static [&'static str]);

const METHODS: &[Method] = &[
    Method("status", Scope::Plain, &[]),
    Method("daemon/info", Scope::Plain, &[]),
    Method(
        "workloads/list",
        Scope::Filter,
        &["state", "model", "node", "limit"],
    ),
    Method("workloads/get", Scope::Filter, &["id"]),
    Method(
        "workloads/subscribe",
        Scope::Filter,
        &["state", "model", "node"],
    ),
    Method("workloads/unsubscribe", Scope::Plain, &["subscription"]),
    Method(
        "workloads/export",
        Scope::Filter,
        &["state", "model", "node", "limit"],
    ),
    Method("workloads/unexport", Scope::Plain, &["subscription"]),
    Method(
        "replay/start",
        Scope::Filter,
        &["source", "since_ms", "last", "send", "speed"],
    ),
    Method("replay/add", Scope::Plain, &["replay", "arrivals"]),
    Method("replay/cancel", Scope::Plain, &["replay"]),
    Method("replay/subscribe", Scope::Plain, &["replay"]),
    Method("replay/unsubscribe", Scope::Plain, &["subscription"]),
    Method("models/list", Scope::Filter, &["loaded"]),
    Method("providers/list", Scope::Plain, &[]),
    Method("route/explain", Scope::Facade, &["model"]),
    Method("nodes/list", Scope::Facade, &[]),
    Method("node/select", Scope::Facade, &["id"]),
    Method("node/selected", Scope::Facade, &[]),
    Method(
        "node/add-manual",
        Scope::Facade,
        &["id", "host", "port", "addresses", "txt", "models"],
    ),
    Method("node/remove-manual", Scope::Facade, &["id"]),
    Method(
        "nodes/add",
        Scope::Facade,
        &["url", "name", "models", "api_key", "slots", "weight"],
    ),
    Method("nodes/remove", Scope::Facade, &["id"]),
    Method(
        "node/set-local-backend",
        Scope::Facade,
        &["host", "port", "healthy"],
    ),
    Method(
        "node/set-priority",
        Scope::Process,
        &["generation", "nodes", "ranks"],
    ),
    Method("set-port", Scope::Facade, &["port"]),
    Method(
        "facade/enable",
        Scope::Bootstrap,
        &["port", "aliasAddresses", "ignorePersistedPort"],
    ),
    Method("log/set-level", Scope::Plain, &["level"]),
    Method("pool/list", Scope::Plain, &[]),
    Method("pool/drain", Scope::Plain, &["id"]),
    Method("pool/resume", Scope::Plain, &["id"]),
    Method("pool/reset", Scope::Plain, &["id"]),
    Method(
        "pool/keys/create",
        Scope::Plain,
        &["name", "node_id", "allow", "models"],
    ),
    Method("pool/keys/list", Scope::Plain, &[]),
    Method("pool/keys/revoke", Scope::Plain, &["name"]),
    Method(
        "keys/create",
        Scope::Plain,
        &["name", "allow", "requests_per_minute", "tokens_per_day"],
    ),
    Method("keys/list", Scope::Plain, &[]),
    Method("keys/revoke", Scope::Plain, &["name"]),
    Method("config/reload", Scope::Plain, &[]),
    Method("shutdown", Scope::Process, &[]),
];

impl Method {
    /// The method of this wire name and the address in it, if that counts.
    fn find(wire: &str) -> Option<(&'static Self, Option<EngineId>)> {
        let (engine, bare) = address::split(wire);
        let method = METHODS.iter().find(|m| m.0 == bare)?;
        match (engine, method.1) {
            (Some(_), Scope::Plain) => None,
            (_, Scope::Process) => Some((method, None)),
            _ => Some((method, engine)),
        }
    }

    fn takes_engine(&self) -> bool {
        matches!(self.1, Scope::Facade | Scope::Filter | Scope::Bootstrap)
    }

    /// The parameters as the handler takes them, or why not.
    fn admit(
        &self,
        address: Option<EngineId>,
        params: Option<&RawValue>,
        enabled: &dyn Fn(EngineId) -> bool,
    ) -> Result<Value, CommandError> {
        let mut given = match params {
            Some(raw) => serde_json::from_str(raw.get()).map_err(|e| malformed(&e))?,
            None => Value::Null,
        };
        if given.is_null() {
            given = Value::Object(Map::new());
        }
        self.check_engine(address, &given, enabled)?;
        match &mut given {
            Value::Object(map) => {
                self.check_names(map)?;
                if let Some(engine) = address
                    && !map.contains_key("engine")
                {
                    map.insert("engine".to_owned(), engine.as_str().into());
                }
            },
            Value::Array(list) => {
                if let Some(engine) = address {
                    list.insert(0, engine.as_str().into());
                }
                let most = self.2.len() + usize::from(self.takes_engine());
                if list.len() > most {
                    return Err(CommandError::params(format!(
                        "{} takes {most} parameters at most",
                        self.0
                    )));
                }
            },
            _ => return Err(CommandError::params("params must be an object or an array")),
        }
        Ok(given)
    }

    /// A facade method's engine must be known and enabled, and no address may contradict it.
    fn check_engine(
        &self,
        address: Option<EngineId>,
        given: &Value,
        enabled: &dyn Fn(EngineId) -> bool,
    ) -> Result<(), CommandError> {
        if !matches!(self.1, Scope::Facade | Scope::Filter) {
            return Ok(());
        }
        let named = match given {
            Value::Object(map) => map.get("engine"),
            Value::Array(list) if address.is_none() => list.first(),
            _ => None,
        };
        let named = match named {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) if name.is_empty() => None,
            Some(Value::String(name)) => Some(
                name.parse::<EngineId>()
                    .map_err(|e| CommandError::params(e.to_string()))?,
            ),
            Some(_) => return Err(CommandError::params("engine must be a string")),
        };
        if let (Some(address), Some(named)) = (address, named)
            && address != named
        {
            return Err(CommandError::params(format!(
                "the method is addressed to {address}, but engine is {named}"
            )));
        }
        if self.1 == Scope::Facade {
            match address.or(named) {
                None => return Err(CommandError::no_facade("")),
                // Nodes are the engines', and the gateway uses those of all.
                Some(_) if self.0.starts_with("nodes/") && enabled(EngineId::GATEWAY) => {},
                Some(engine) if !enabled(engine) => {
                    return Err(CommandError::no_facade(engine.as_str()));
                },
                Some(_) => {},
            }
        }
        Ok(())
    }

    fn check_names(&self, map: &Map<String, Value>) -> Result<(), CommandError> {
        let known =
            |name: &str| self.2.contains(&name) || (name == "engine" && self.takes_engine());
        let Some(unknown) = map.keys().find(|name| !known(name)) else {
            return Ok(());
        };
        let mut names: Vec<_> = self.2.to_vec();
        if self.takes_engine() {
            names.insert(0, "engine");
        }
        let list = if names.is_empty() {
            "it takes none".to_owned()
        } else {
            format!("it takes {}", names.join(", "))
        };
        Err(CommandError::params(format!(
            "{} has no parameter {unknown:?}; {list}",
            self.0
        )))
    }
}

fn malformed(error: &serde_json::Error) -> CommandError {
    CommandError::params(format!("params are not valid JSON: {error}"))
}

/// The middleware around jsonrpsee's own service.
#[derive(Clone)]
pub(super) struct Door<S> {
    inner: S,
    queries: Arc<dyn Queries>,
}

impl<S> Door<S> {
    pub(super) fn new(inner: S, queries: Arc<dyn Queries>) -> Self {
        Self { inner, queries }
    }

    /// The call as its handler takes it, or the refusal.
    fn rewrite<'a>(&self, mut request: Request<'a>) -> Result<Request<'a>, MethodResponse> {
        let admitted = match Method::find(&request.method) {
            None => Err(CommandError::new(
                ErrorCode::MethodNotFound,
                format!("method not found: {}", request.method),
            )),
            Some((method, address)) => method
                .admit(address, request.params.as_deref(), &|e| {
                    self.queries.is_enabled(e)
                })
                .and_then(|params| {
                    serde_json::value::to_raw_value(&params).map_err(|e| malformed(&e))
                })
                .map(|params| (method.0, params)),
        };
        match admitted {
            Ok((name, params)) => {
                request.method = name.into();
                request.params = Some(std::borrow::Cow::Owned(params));
                Ok(request)
            },
            Err(error) => Err(MethodResponse::error(request.id, refusal(&error))),
        }
    }
}

impl<S> RpcServiceT for Door<S>
where
    S: RpcServiceT<
            MethodResponse = MethodResponse,
            NotificationResponse = MethodResponse,
            BatchResponse = MethodResponse,
        > + Clone
        + Send
        + Sync
        + 'static,
{
    type MethodResponse = MethodResponse;
    type NotificationResponse = MethodResponse;
    type BatchResponse = MethodResponse;

    fn call<'a>(&self, request: Request<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let door = self.clone();
        async move {
            let id = request.id.clone().into_owned();
            let wire_name = request.method.clone().into_owned();
            let call = async move {
                match door.rewrite(request) {
                    Ok(request) => door.inner.call(request).await,
                    Err(answer) => answer,
                }
            };
            match AssertUnwindSafe(call).catch_unwind().await {
                Ok(answer) => answer,
                Err(_) => {
                    // Never the panic's own text: it could quote a request.
                    tracing::error!(method = wire_name, "panic while handling a control call");
                    MethodResponse::error(id, internal(&wire_name))
                },
            }
        }
    }

    // Batches are turned off at the server: each of their calls would slip past this door.
    fn batch<'a>(&self, requests: Batch<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        self.inner.batch(requests)
    }

    fn notification<'a>(
        &self,
        notification: Notification<'a>,
    ) -> impl Future<Output = MethodResponse> + Send + 'a {
        self.inner.notification(notification)
    }
}

fn internal(method: &str) -> ErrorObjectOwned {
    refusal(&CommandError::new(
        ErrorCode::Internal,
        format!("internal error while handling {method}; see the daemon's log"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::api::ControlApiServer;
    use crate::control::keys::{KeysApiServer, KeysHandlers};
    use crate::control::pool::{PoolApiServer, PoolHandlers};
    use crate::control::server::Handlers;
    use crate::control::socket::tests::{FakeQueries, engine};
    use crate::state::command::Commands;

    fn admit(wire: &str, params: &str) -> Result<String, CommandError> {
        let (method, address) = Method::find(wire).ok_or_else(|| {
            CommandError::new(
                ErrorCode::MethodNotFound,
                format!("method not found: {wire}"),
            )
        })?;
        let raw = RawValue::from_string(params.to_owned()).unwrap();
        let only_ollama = |e: EngineId| e == engine("ollama");
        method
            .admit(address, Some(&raw), &only_ollama)
            .map(|v| v.to_string())
    }

    #[test]
    fn the_table_has_exactly_the_methods_of_the_traits() {
        let queries = Arc::new(FakeQueries::default());
        let module = Handlers {
            commands: Commands::queue(1).0,
            queries: queries.clone(),
        }
        .into_rpc();
        let keys = KeysHandlers {
            commands: Commands::queue(1).0,
            queries: queries.clone(),
        }
        .into_rpc();
        let pool = PoolHandlers { queries }.into_rpc();
        let names = module.method_names().chain(pool.method_names());
        let mut served: Vec<_> = names.chain(keys.method_names()).collect();
        let mut listed: Vec<_> = METHODS.iter().map(|m| m.0).collect();
        served.sort_unstable();
        listed.sort_unstable();
        assert_eq!(served, listed);
    }

    #[test]
    fn an_address_becomes_the_engine_parameter() {
        for (wire, params, want) in [
            (
                "ollama:set-port",
                r#"{"port":1}"#,
                r#"{"port":1,"engine":"ollama"}"#,
            ),
            ("ollama:set-port", "[1]", r#"["ollama",1]"#),
            ("ollama:nodes/list", "null", r#"{"engine":"ollama"}"#),
            (
                "set-port",
                r#"{"engine":"ollama","port":1}"#,
                r#"{"engine":"ollama","port":1}"#,
            ),
            ("lmstudio:models/list", "{}", r#"{"engine":"lmstudio"}"#),
            (
                "ollama:node/set-priority",
                r#"{"generation":1}"#,
                r#"{"generation":1}"#,
            ),
            ("ollama:shutdown", "null", "{}"),
            (
                "ollama:facade/enable",
                r#"{"engine":"lmstudio"}"#,
                r#"{"engine":"lmstudio"}"#,
            ),
        ] {
            let got: Value = serde_json::from_str(&admit(wire, params).unwrap()).unwrap();
            let want: Value = serde_json::from_str(want).unwrap();
            assert_eq!(got, want, "{wire} {params}");
        }
    }

    #[test]
    fn refusals_have_the_codes_of_the_link() {
        for (wire, params, code) in [
            ("vllm:set-port", "{}", ErrorCode::MethodNotFound),
            ("ollama:log/set-level", "{}", ErrorCode::MethodNotFound),
            ("ollama:status", "{}", ErrorCode::MethodNotFound),
            ("ollama:", "{}", ErrorCode::MethodNotFound),
            // The facade is looked for before parameters are looked at.
            (
                "lmstudio:set-port",
                r#"{"nonsense":1}"#,
                ErrorCode::NoFacade,
            ),
            ("set-port", r#"{"port":1}"#, ErrorCode::NoFacade),
            ("set-port", "null", ErrorCode::NoFacade),
            (
                "set-port",
                r#"{"engine":"vllm","port":1}"#,
                ErrorCode::InvalidParams,
            ),
            (
                "set-port",
                r#"{"engine":1,"port":1}"#,
                ErrorCode::InvalidParams,
            ),
            (
                "ollama:set-port",
                r#"{"engine":"lmstudio","port":1}"#,
                ErrorCode::InvalidParams,
            ),
            (
                "ollama:set-port",
                r#"{"port":1,"prot":2}"#,
                ErrorCode::InvalidParams,
            ),
            ("ollama:set-port", "[1,2]", ErrorCode::InvalidParams),
            ("ollama:set-port", "7", ErrorCode::InvalidParams),
            ("status", r#"{"engine":"ollama"}"#, ErrorCode::InvalidParams),
        ] {
            assert_eq!(
                admit(wire, params).unwrap_err().code,
                code,
                "{wire} {params}"
            );
        }
    }
}
