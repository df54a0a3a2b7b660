//! What every request passes before a method is looked for: form, key, size.
//!
//! Owns: the HTTP side of a call and its refusals. Leaves to others: whose key it is
//! (`state::fleet`), what a call does (`methods`).
//!
//! The key comes before the body: a stranger's bytes are not kept. It is taken out of the request
//! here and travels in a type that cannot be shown.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use http::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use jsonrpsee::core::RegisterMethodError;
use jsonrpsee::server::{
    BatchRequestConfig, HttpBody, Methods, Server, ServerConfig, StopHandle, TowerServiceBuilder,
};
use tokio::time::timeout;
use tower_service::Service;

use super::methods::{self, Registry};
use crate::net::body::{Collected, RequestBody, collect, discard};
use crate::rules::pool::key::KeyRecord;
use crate::rules::secret::Secret;
use crate::wire::pool::{CODE_UNAUTHORIZED, CODE_UNAVAILABLE};

/// Bytes of a request. The longest registration that is taken has about a quarter of it.
const BODY_BYTES: u64 = 1024 * 1024;

/// A body takes no longer.
const BODY_TIME: Duration = Duration::from_secs(10);

/// JSON-RPC's own code of a request that is none.
const INVALID_REQUEST: i32 = -32600;

/// JSON-RPC's own code of a fault of ours.
const INTERNAL: i32 = -32603;

/// What to do without a key.
const GET_A_KEY: &str = "create one on the gateway with `nvpair-proxy nodes keys create NAME \
    --node-id ID` and send it as `Authorization: Bearer ktms_node_…`";

/// Who calls.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    /// The record of its key.
    pub(super) key: KeyRecord,
    /// The key itself, to look again whether it still stands.
    pub(super) presented: Secret,
    /// Where it calls from.
    pub(super) peer: IpAddr,
}

type Rpc = TowerServiceBuilder<tower_layer::Identity, tower_layer::Identity>;

/// The door of the registry.
pub(super) struct Gate {
    registry: Arc<Registry>,
    methods: Methods,
    rpc: Rpc,
    stop: StopHandle,
}

/// A refusal over HTTP.
struct Refused {
    status: StatusCode,
    code: i32,
    text: String,
    header: Option<(HeaderName, &'static str)>,
}

impl Refused {
    fn new(status: StatusCode, code: i32, text: impl Into<String>) -> Self {
        Self {
            status,
            code,
            text: text.into(),
            header: None,
        }
    }

    fn unauthorized(text: impl Into<String>) -> Self {
        Self {
            header: Some((
                WWW_AUTHENTICATE,
                "Bearer realm=\"nvpair-proxy node registry\"",
            )),
            ..Self::new(StatusCode::UNAUTHORIZED, CODE_UNAUTHORIZED, text)
        }
    }

    fn answer(self) -> Response<HttpBody> {
        let error = serde_json::json!({
            "jsonrpc": "2.0", "id": null, "error": {"code": self.code, "message": self.text},
        });
        let mut answer = Response::new(HttpBody::from(error.to_string()));
        *answer.status_mut() = self.status;
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some((name, value)) = self.header {
            headers.insert(name, HeaderValue::from_static(value));
        }
        answer
    }
}

impl Gate {
    pub(super) fn new(
        registry: Arc<Registry>,
        stop: StopHandle,
    ) -> Result<Self, RegisterMethodError> {
        let config = ServerConfig::builder()
            .http_only()
            // Counted by `accept`.
            .max_connections(u32::MAX)
            .max_request_body_size(BODY_BYTES as u32)
            .set_batch_request_config(BatchRequestConfig::Disabled)
            .build();
        Ok(Self {
            methods: methods::module(registry.clone())?.into(),
            registry,
            rpc: Server::builder().set_config(config).to_service_builder(),
            stop,
        })
    }

    /// The answer to a request, and the name of the key that it showed. A panic under it is an answer
    /// too.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        peer: IpAddr,
    ) -> (Response<HttpBody>, Option<String>) {
        let answered = AssertUnwindSafe(self.admit(request, peer))
            .catch_unwind()
            .await;
        let refused = match answered {
            Ok(Ok((answer, key))) => return (answer, Some(key)),
            Ok(Err(refused)) => refused,
            Err(_) => {
                tracing::error!("a registry call panicked");
                let text = "the call failed inside the gateway; its log has more";
                Refused::new(StatusCode::INTERNAL_SERVER_ERROR, INTERNAL, text)
            },
        };
        (refused.answer(), None)
    }

    async fn admit(
        &self,
        request: Request<Incoming>,
        peer: IpAddr,
    ) -> Result<(Response<HttpBody>, String), Refused> {
        let (mut head, body) = request.into_parts();
        let admitted = match form(&head.method, head.uri.path(), &head.headers) {
            Ok(()) => self.caller(&head.headers, peer).await,
            Err(refused) => Err(refused),
        };
        let caller = match admitted {
            Ok(caller) => caller,
            Err(refused) => {
                tracing::debug!(%peer, reason = %refused.text, "a registry request was refused");
                discard(body);
                return Err(refused);
            },
        };
        let body = match timeout(BODY_TIME, collect(body, BODY_BYTES, |_| {})).await {
            Ok(Collected::Whole(body)) => RequestBody::replay(&body),
            Ok(Collected::TooLarge(rest)) => {
                rest.discard();
                let text = format!(
                    "a request has {BODY_BYTES} bytes at most; advertise fewer models, or \
                     check what the agent sends"
                );
                return Err(Refused::new(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    INVALID_REQUEST,
                    text,
                ));
            },
            Ok(Collected::Broken(_)) => {
                let text = "the request's body ended early or is malformed";
                return Err(Refused::new(StatusCode::BAD_REQUEST, INVALID_REQUEST, text));
            },
            Err(_) => {
                let text = format!("the body did not come within {} s", BODY_TIME.as_secs());
                return Err(Refused::new(
                    StatusCode::REQUEST_TIMEOUT,
                    INVALID_REQUEST,
                    text,
                ));
            },
        };
        head.headers.remove(AUTHORIZATION);
        let key = caller.key.name.clone();
        head.extensions.insert(caller);
        let mut rpc = self
            .rpc
            .clone()
            .build(self.methods.clone(), self.stop.clone());
        let answered = rpc.call(Request::from_parts(head, body)).await;
        let answer = answered.map_err(|e| {
            tracing::error!(error = %e, "a registry call failed");
            let text = "the call failed inside the gateway; its log has more";
            Refused::new(StatusCode::INTERNAL_SERVER_ERROR, INTERNAL, text)
        })?;
        Ok((answer, key))
    }

    async fn caller(&self, headers: &HeaderMap, peer: IpAddr) -> Result<Caller, Refused> {
        let presented = bearer(headers)?;
        match self.registry.fleet.find_key(presented.reveal()).await {
            Ok(Some(key)) => Ok(Caller {
                key,
                presented,
                peer,
            }),
            Ok(None) => Err(Refused::unauthorized(format!(
                "this node key is unknown or was revoked; {GET_A_KEY}"
            ))),
            Err(down) => Err(Refused {
                header: Some((RETRY_AFTER, "5")),
                ..Refused::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    CODE_UNAVAILABLE,
                    format!("{down}; try again, the gateway recovers by itself"),
                )
            }),
        }
    }
}

/// Whether a request can be a call at all.
fn form(method: &Method, path: &str, headers: &HeaderMap) -> Result<(), Refused> {
    if path != "/" {
        let text = "there is nothing here; the registry's calls are POSTs to /";
        return Err(Refused::new(StatusCode::NOT_FOUND, INVALID_REQUEST, text));
    }
    if *method != Method::POST {
        let text = "the registry takes JSON-RPC 2.0 calls by POST alone";
        return Err(Refused {
            header: Some((ALLOW, "POST")),
            ..Refused::new(StatusCode::METHOD_NOT_ALLOWED, INVALID_REQUEST, text)
        });
    }
    let kind = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
    let kind = kind.and_then(|v| v.split(';').next()).map(str::trim);
    if !kind.is_some_and(|k| k.eq_ignore_ascii_case("application/json")) {
        let text = "a call needs `Content-Type: application/json`";
        return Err(Refused::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            INVALID_REQUEST,
            text,
        ));
    }
    Ok(())
}

/// The key that a request shows.
fn bearer(headers: &HeaderMap) -> Result<Secret, Refused> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let Some(first) = given.next() else {
        return Err(Refused::unauthorized(format!(
            "a node key is missing; {GET_A_KEY}"
        )));
    };
    if given.next().is_some() {
        return Err(Refused::unauthorized(
            "there is more than one Authorization header; send one",
        ));
    }
    let token = first.to_str().ok().and_then(|v| {
        let (scheme, token) = v.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    match token {
        Some(token) => Ok(Secret::new(token)),
        None => Err(Refused::unauthorized(format!(
            "the Authorization header shows no node key; {GET_A_KEY}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_json_post_to_the_root_is_a_call() {
        let json = |v| HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(v))]);
        let status = |m, p, h: &HeaderMap| form(&m, p, h).map_err(|r| r.status.as_u16());
        for good in ["application/json", "Application/JSON; charset=utf-8"] {
            assert_eq!(status(Method::POST, "/", &json(good)), Ok(()));
        }
        assert_eq!(
            status(Method::GET, "/", &json("application/json")),
            Err(405)
        );
        assert_eq!(
            status(Method::POST, "/x", &json("application/json")),
            Err(404)
        );
        assert_eq!(status(Method::POST, "/", &json("text/plain")), Err(415));
        assert_eq!(status(Method::POST, "/", &HeaderMap::new()), Err(415));
    }

    #[test]
    fn one_bearer_token_is_a_key_and_its_debug_output_is_not() {
        let auth = |values: &[&'static str]| {
            let each = values
                .iter()
                .map(|v| (AUTHORIZATION, HeaderValue::from_static(v)));
            bearer(&HeaderMap::from_iter(each))
        };
        let key = auth(&["bearer ktms_node_canary"]).ok().unwrap();
        assert_eq!(key.reveal(), "ktms_node_canary");
        assert!(!format!("{key:?}").contains("canary"));
        for bad in [
            &[][..],
            &["Basic x"],
            &["ktms_node_x"],
            &["Bearer a", "Bearer a"],
        ] {
            let refused = auth(bad).err().unwrap();
            assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
            assert!(refused.answer().headers().contains_key(WWW_AUTHENTICATE));
        }
    }
}
