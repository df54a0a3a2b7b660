//! Calls to the gateway's registry.
//!
//! Owns: JSON-RPC over one POST, telling apart why there is no result. Leaves to others: the
//! connection (`net::fetch`), what follows (`super`).
//!
//! All calls go over one connection that is kept: over a new one a heartbeat costs the registry five
//! times as much. Each may arrive twice: a beat has a number, a registration replaces the one before,
//! and only its own session can be ended.
//!
//! The key is in one header that is marked as secret, and in no text that is made here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use http::header::AUTHORIZATION;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::net::client_tls::ClientTls;
use crate::net::fetch::{FetchError, Kept, Limits};
use crate::rules::addresses::authority;
use crate::rules::secret::Secret;
use crate::wire::pool::{
    CODE_FORBIDDEN, CODE_STALE, CODE_TOO_MANY, CODE_UNAUTHORIZED, CODE_UNAVAILABLE,
};

/// Bounds of a call.
const LIMITS: Limits = Limits {
    connect: Duration::from_secs(3),
    whole: Duration::from_secs(5),
    body: 1 << 20,
};

/// Characters of a text that the other side wrote.
const QUOTED: usize = 500;

/// Where the registry is.
#[derive(Clone, Debug)]
pub struct RegistryAddress {
    /// Name or address, IPv6 without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Whom to trust there; `None` = in the clear.
    pub tls: Option<ClientTls>,
}

/// Why a call has no result.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CallError {
    /// There is no answer, or it is none of a registry.
    Silent(String),
    /// Whoever answers is not the registry that is meant.
    Distrust(String),
    /// The key does not allow it, or the call is wrong: trying again is of no use.
    Refused(String),
    /// Not before so many ms.
    TooMany(u64, String),
    /// The beat's number was seen before: by another sender, or the beat came and its answer did not.
    Stale,
}

#[derive(Serialize)]
struct Call<'a, P> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: &'a P,
}

#[derive(Deserialize)]
struct Reply<R> {
    result: Option<R>,
    error: Option<RpcError>,
}

#[derive(Deserialize)]
struct RpcError {
    code: i32,
    message: String,
    data: Option<serde_json::Value>,
}

/// A way to the registry.
pub(super) struct Client {
    address: RegistryAddress,
    way: Kept,
    authorization: HeaderValue,
    id: AtomicU64,
}

impl Client {
    /// `None` if the key cannot stand in a header.
    pub(super) fn new(address: RegistryAddress, key: &Secret) -> Option<Self> {
        let mut authorization = HeaderValue::try_from(format!("Bearer {}", key.reveal())).ok()?;
        authorization.set_sensitive(true);
        let RegistryAddress { host, port, tls } = &address;
        Some(Self {
            way: Kept::new(host, *port, tls.clone(), LIMITS),
            address,
            authorization,
            id: AtomicU64::new(0),
        })
    }

    /// `HOST:PORT`.
    pub(super) fn shown(&self) -> String {
        authority(&self.address.host, self.address.port)
    }

    pub(super) async fn call<P, R>(&self, method: &str, params: &P) -> Result<R, CallError>
    where
        P: Serialize + Sync,
        R: DeserializeOwned,
    {
        let call = Call {
            jsonrpc: "2.0",
            id: self.id.fetch_add(1, Ordering::Relaxed) + 1,
            method,
            params,
        };
        let body = serde_json::to_vec(&call).map_err(|e| CallError::Silent(e.to_string()))?;
        let key = [(AUTHORIZATION, self.authorization.clone())];
        let answer = self.way.post_json("/", &key, Bytes::from(body)).await;
        let tls = self.address.tls.is_some();
        let answer = answer.map_err(|e| no_answer(&e, tls))?;
        read(answer.status.as_u16(), &answer.body)
    }
}

fn no_answer(e: &FetchError, tls: bool) -> CallError {
    match e {
        FetchError::Tls(e) if e.is_distrust() => CallError::Distrust(e.to_string()),
        FetchError::NotHttp | FetchError::Cut if !tls => CallError::Silent(format!(
            "{e}; if the registry speaks TLS, give --proxy-fingerprint or --proxy-ca"
        )),
        e => CallError::Silent(e.to_string()),
    }
}

fn read<R: DeserializeOwned>(status: u16, body: &[u8]) -> Result<R, CallError> {
    let reply: Option<Reply<R>> = serde_json::from_slice(body).ok();
    let error = match reply {
        Some(Reply {
            result: Some(result),
            error: None,
        }) if status == 200 => return Ok(result),
        Some(Reply {
            error: Some(error), ..
        }) => error,
        _ => {
            return Err(CallError::Silent(format!(
                "HTTP {status} that is no answer of a node registry"
            )));
        },
    };
    let text = clean(&error.message);
    Err(match (error.code, status) {
        (CODE_STALE, _) => CallError::Stale,
        (CODE_TOO_MANY, _) => {
            let ms = error
                .data
                .and_then(|d| d.get("retry_after_ms")?.as_u64())
                .unwrap_or(0);
            CallError::TooMany(ms, text)
        },
        (CODE_UNAUTHORIZED | CODE_FORBIDDEN, _) | (_, 401 | 403) => CallError::Refused(text),
        // An internal error or a store that is down may be over the next time.
        (CODE_UNAVAILABLE | -32603, _) | (_, 500..) => CallError::Silent(text),
        _ => CallError::Refused(text),
    })
}

/// A text of the other side, fit for a line of a log.
fn clean(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(QUOTED).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn said(status: u16, body: Value) -> Result<Value, CallError> {
        read(status, body.to_string().as_bytes())
    }

    fn error(code: i32) -> Value {
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "no\nway"}})
    }

    #[test]
    fn each_refusal_is_what_it_says() {
        let refused = || Err(CallError::Refused("no way".into()));
        let silent = || Err(CallError::Silent("no way".into()));
        assert_eq!(said(200, json!({"result": 1})), Ok(json!(1)));
        for (status, code, want) in [
            (401, CODE_UNAUTHORIZED, refused()),
            (200, CODE_FORBIDDEN, refused()),
            (200, -32602, refused()),
            (403, -1, refused()),
            (503, CODE_UNAVAILABLE, silent()),
            (200, CODE_UNAVAILABLE, silent()),
            (200, -32603, silent()),
            (502, -1, silent()),
            (200, CODE_STALE, Err(CallError::Stale)),
            (
                200,
                CODE_TOO_MANY,
                Err(CallError::TooMany(0, "no way".into())),
            ),
        ] {
            assert_eq!(said(status, error(code)), want, "{status} {code}");
        }
        let mut later = error(CODE_TOO_MANY);
        later["error"]["data"] = json!({"retry_after_ms": 7});
        let want = CallError::TooMany(7, "no way".into());
        assert_eq!(said(200, later), Err(want));
    }

    #[test]
    fn other_answers_are_no_answers() {
        for (status, body) in [
            (200, json!({})),
            (404, json!({"result": 1})),
            (200, json!([])),
            (200, json!({"result": null})),
        ] {
            let told = said(status, body.clone());
            assert!(matches!(told, Err(CallError::Silent(_))), "{body}");
        }
    }
}
