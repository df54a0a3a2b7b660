//! The key that a caller shows (product section 8).
//!
//! Owns: where keys stand in a request, that a recognised one goes no further, who needs one, which
//! routes take which. Leaves to others: whose key it is (`state::clients`), what it lets its owner use
//! (`rules::client_key`, applied by `round` and `inventory`).
//!
//! A key is taken out here, ahead of everything that sends the request anywhere: no kind of target
//! can be forgotten.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};

use crate::net::answers;
use crate::rules::client_key::Over;
use crate::rules::engine::EngineId;
use crate::rules::route::{Class, dialect, tells_nothing};
use crate::state::clients::{Client, Clients};

use super::report::Report;

/// Where a key may stand, the one that counts first where there are two.
const PLACES: [HeaderName; 2] = [AUTHORIZATION, HeaderName::from_static("x-api-key")];

/// Why a request is refused for its key.
pub enum Refused {
    /// A caller beyond loopback shows none, or one that is nobody's.
    Stranger {
        /// Whether it shows anything where a key would stand.
        shown: bool,
    },
    /// The route takes a key that may use everything.
    NotEverything(Arc<Client>),
}

/// Takes recognised keys out of a request and says whose the first one is. On this machine
/// nobody needs one, and what is nobody's key passes as it came.
///
/// # Errors
/// The caller needs a key and shows none, or its key is not for this route.
pub fn admit<B>(
    clients: &Clients,
    here: bool,
    engine: EngineId,
    class: Class,
    request: &mut Request<B>,
) -> Result<Option<Arc<Client>>, Refused> {
    if here && clients.is_empty() {
        return Ok(None);
    }
    let shown = PLACES.iter().any(|p| request.headers().contains_key(p));
    let taken = take(clients, request.headers_mut());
    let Some(client) = taken else {
        // A browser asks for permission without any credential, whatever it shows afterwards.
        return match here || class == Class::Preflight {
            true => Ok(None),
            false => Err(Refused::Stranger { shown }),
        };
    };
    // What no table knows may change an engine's state, or tell of others' requests. The gateway
    // answers all of that itself.
    let open = class != Class::Other
        || engine.is_gateway()
        || client.grants().is_all()
        || is_read(request.method()) && tells_nothing(request.uri().path());
    match open {
        true => Ok(Some(client)),
        false => Err(Refused::NotEverything(client)),
    }
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

fn take(clients: &Clients, headers: &mut HeaderMap) -> Option<Arc<Client>> {
    let mut first = None;
    for place in &PLACES {
        let values = headers.get_all(place).iter();
        let found: Vec<_> = values
            .map(|v| (v.clone(), clients.recognise(v.as_bytes())))
            .collect();
        if found.iter().all(|(_, client)| client.is_none()) {
            continue;
        }
        headers.remove(place);
        for (value, client) in found {
            match client {
                Some(client) => drop(first.get_or_insert(client)),
                None => drop(headers.append(place, value)),
            }
        }
    }
    first
}

impl Refused {
    /// The answer, in the dialect of the request's path.
    pub fn answer(self, report: &mut Report) -> Response<Bytes> {
        let (status, text) = match self {
            Self::Stranger { shown: false } => (
                StatusCode::UNAUTHORIZED,
                "callers from other machines need a client key: send it as `Authorization: Bearer \
                 ktms_…`; `nvpair-proxy keys create` on the serving machine makes one"
                    .to_owned(),
            ),
            Self::Stranger { shown: true } => (
                StatusCode::UNAUTHORIZED,
                "the client key is unknown or was revoked; `nvpair-proxy keys list` on the serving \
                 machine shows those there are"
                    .to_owned(),
            ),
            Self::NotEverything(client) => {
                report.identify(client.clone());
                let text = format!(
                    "the key {:?} may not use this route: it runs no model, so that it takes a key \
                     with `--allow all`",
                    client.name()
                );
                (StatusCode::FORBIDDEN, text)
            },
        };
        let mut response = answers::error(dialect(report.path()), status, &text);
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer realm=\"nvpair-proxy\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        }
        let short = match status {
            StatusCode::UNAUTHORIZED => "no valid client key",
            _ => "the client key does not allow this route",
        };
        report.answered(status.as_u16(), Some(short.to_owned()));
        response
    }
}

/// The name of a caller's key, never the key.
fn name(client: Option<&Arc<Client>>) -> &str {
    client.map_or("", |c| c.name())
}

/// What a caller is told whose key may use nobody that could serve its request.
pub fn not_granted(client: Option<&Arc<Client>>, model: Option<&str>) -> String {
    let key = name(client);
    match model {
        Some(model) => {
            format!("the key {key:?} may not use the model {model:?} on any node that has it")
        },
        None => format!(
            "the key {key:?} may not be used for a request without a model: name one that it may \
             use"
        ),
    }
}

/// What a caller is told whose key is used up for now.
pub fn over_limit(client: Option<&Arc<Client>>, over: Over) -> String {
    let (key, wait) = (name(client), over.retry_seconds());
    match over {
        Over::Requests { per_minute, .. } => format!(
            "the key {key:?} may make {per_minute} requests a minute; try again in {wait} s"
        ),
        Over::Tokens {
            per_day,
            needs,
            left,
            ..
        } => format!(
            "the key {key:?} may use {per_day} tokens a day (UTC), {left} are left and this request \
             may need about {needs}; a new day begins in {wait} s"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::client_key::{ClientKey, make, secret_part};
    use crate::rules::engine::ListShape;
    use crate::rules::key_form::KeyHash;

    fn secret(byte: u8) -> String {
        make([byte; 32]).reveal().to_owned()
    }

    /// Key 1 may use everything, key 2 one engine.
    fn clients(dir: &tempfile::TempDir) -> Clients {
        let clients = Clients::default();
        clients.keep_in(dir.path()).unwrap();
        for (byte, allow) in [(1, "all"), (2, "ollama")] {
            let key = ClientKey {
                name: format!("k{byte}"),
                hash: KeyHash::of_secret(secret_part(&secret(byte)).unwrap()),
                allow: vec![allow.into()],
                requests_per_minute: None,
                tokens_per_day: None,
                created_at: 0,
            };
            clients.add(key).unwrap();
        }
        clients
    }

    fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    const INFERENCE: Class = Class::Inference { path: "/api/chat" };

    /// Who it is, or why not, and what is left of the headers.
    fn admitted(
        clients: &Clients,
        here: bool,
        class: Class,
        request: Request<()>,
    ) -> (String, Vec<String>) {
        let ollama = EngineId::parse("ollama").unwrap();
        admitted_at(ollama, clients, here, class, request)
    }

    fn admitted_at(
        engine: EngineId,
        clients: &Clients,
        here: bool,
        class: Class,
        mut request: Request<()>,
    ) -> (String, Vec<String>) {
        let told = match admit(clients, here, engine, class, &mut request) {
            Ok(None) => "nobody".to_owned(),
            Ok(Some(client)) => client.name().to_string(),
            Err(Refused::Stranger { shown }) => format!("stranger {shown}"),
            Err(Refused::NotEverything(client)) => format!("{} not all", client.name()),
        };
        let left = request.headers().iter();
        let left = left.map(|(n, v)| format!("{n}: {}", v.to_str().unwrap()));
        (told, left.collect())
    }

    #[test]
    fn a_recognised_key_goes_no_further_and_every_other_value_does() {
        let dir = tempfile::tempdir().unwrap();
        let clients = clients(&dir);
        let (one, two, odd) = (secret(1), secret(2), secret(9));
        let bearer = |key: &str| format!("Bearer {key}");
        let (b1, b2, b9) = (bearer(&one), bearer(&two), bearer(&odd));
        for (headers, here, far, left) in [
            (vec![], "nobody", "stranger false", vec![]),
            (vec![("authorization", &*b2)], "k2", "k2", vec![]),
            (vec![("x-api-key", &*two)], "k2", "k2", vec![]),
            (vec![("x-api-key", &*b2)], "k2", "k2", vec![]),
            (
                vec![("authorization", &*b1), ("x-api-key", &*two)],
                "k1",
                "k1",
                vec![],
            ),
            (
                vec![("authorization", "Bearer sk-1"), ("x-api-key", &*two)],
                "k2",
                "k2",
                vec!["authorization: Bearer sk-1"],
            ),
            (
                vec![("authorization", &*b2), ("authorization", "Basic x")],
                "k2",
                "k2",
                vec!["authorization: Basic x"],
            ),
            (
                vec![("authorization", &*b9)],
                "nobody",
                "stranger true",
                vec![&*format!("authorization: {b9}")],
            ),
            (
                vec![("x-other", &*two)],
                "nobody",
                "stranger false",
                vec![&*format!("x-other: {two}")],
            ),
        ] {
            for (is_here, want) in [(true, here), (false, far)] {
                let request = request("POST", "/api/chat", &headers);
                let (told, rest) = admitted(&clients, is_here, INFERENCE, request);
                assert_eq!(
                    (told.as_str(), &rest),
                    (want, &left.iter().map(|l| (*l).to_owned()).collect()),
                    "{headers:?}"
                );
            }
        }
    }

    #[test]
    fn where_there_are_no_keys_beyond_loopback_everybody_is_a_stranger() {
        let none = Clients::default();
        let key = format!("Bearer {}", secret(1));
        let shown = || request("POST", "/api/chat", &[("authorization", &key)]);
        assert_eq!(admitted(&none, true, INFERENCE, shown()).0, "nobody");
        assert_eq!(
            admitted(&none, false, INFERENCE, shown()).0,
            "stranger true"
        );
    }

    #[test]
    fn routes_that_run_no_model_take_a_key_for_everything() {
        let dir = tempfile::tempdir().unwrap();
        let clients = clients(&dir);
        let list = Class::List {
            shape: ListShape::Native,
            upstream: "/api/tags",
        };
        for (key, class, method, path, want) in [
            (1, Class::Other, "DELETE", "/api/delete", "k1"),
            (2, Class::Other, "DELETE", "/api/delete", "k2 not all"),
            (2, Class::Other, "GET", "/slots", "k2 not all"),
            (2, Class::Other, "GET", "/api/version", "k2"),
            (2, Class::Other, "HEAD", "/", "k2"),
            (2, Class::Other, "POST", "/api/version", "k2 not all"),
            (2, list, "GET", "/api/tags", "k2"),
            (2, INFERENCE, "POST", "/api/chat", "k2"),
            (2, Class::Preflight, "OPTIONS", "/api/chat", "k2"),
            (9, Class::Preflight, "OPTIONS", "/api/chat", "nobody"),
            (9, list, "GET", "/api/tags", "stranger true"),
            (9, Class::Other, "GET", "/api/version", "stranger true"),
        ] {
            let value = secret(key);
            let request = request(method, path, &[("x-api-key", &value)]);
            let (told, _) = admitted(&clients, false, class, request);
            assert_eq!(told, want, "{method} {path}");
        }
        let value = secret(2);
        let request = request("GET", "/v1/models/m", &[("x-api-key", &value)]);
        let (told, _) = admitted_at(EngineId::GATEWAY, &clients, false, Class::Other, request);
        assert_eq!(told, "k2");
    }
}
