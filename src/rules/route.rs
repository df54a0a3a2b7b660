//! What a request is, by method and path, and in which dialect we answer it ourselves.
//!
//! Owns: the classes and dialects. Leaves to others: the route tables (`engine`), serving a class
//! (`facade`). The table classifies, it is no allow-list: what it does not name is forwarded.

use http::{HeaderMap, Method};

use super::cors::Preflight;
use super::engine::{EngineId, ListShape, Route, RouteKind, Verb};

/// What a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Runs a model: retried within the budget, committed at the first content byte.
    Inference {
        /// The route's path: the table's own text, so that a record of the request costs no copy.
        path: &'static str,
    },
    /// A model list, merged over all nodes.
    List {
        /// Its envelope.
        shape: ListShape,
        /// Path used towards engines.
        upstream: &'static str,
    },
    /// A browser's permission question, answered for all nodes together (spec §5.8).
    Preflight,
    /// Anything else: forwarded verbatim, once per node at most.
    Other,
}

/// Classifies a request. Path and method match exactly; the query never counts.
pub fn classify(engine: EngineId, method: &Method, path: &str, headers: &HeaderMap) -> Class {
    let verb = match *method {
        Method::POST => Verb::Post,
        Method::GET => Verb::Get,
        Method::OPTIONS if Preflight::is_one(headers) => return Class::Preflight,
        _ => return Class::Other,
    };
    let route = engine
        .spec()
        .routes
        .iter()
        .find(|r| r.verb == verb && r.path == path);
    match route {
        Some(Route {
            kind: RouteKind::Inference,
            path,
            ..
        }) => Class::Inference { path },
        Some(Route {
            kind: RouteKind::List { shape, upstream },
            ..
        }) => Class::List {
            shape: *shape,
            upstream,
        },
        None => Class::Other,
    }
}

/// Whether a route outside the tables tells no more than that an engine is there: what clients ask
/// before they ask for anything.
pub fn tells_nothing(path: &str) -> bool {
    matches!(path, "/" | "/api/version" | "/health" | "/v1/health")
}

/// How our own answers are shaped, so that the client's library reads them (product section 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `/api/*` and paths outside both families: `{"error":"text"}`.
    Flat,
    /// `/v1/*`: `{"error":{"message","type","code"}}`.
    OpenAi,
    /// `/v1/messages`: `{"type":"error","error":{"type","message"}}`.
    Anthropic,
}

/// The dialect of a path.
pub fn dialect(path: &str) -> Dialect {
    if path == "/v1/messages" || path.starts_with("/v1/messages/") {
        Dialect::Anthropic
    } else if path == "/v1" || path.starts_with("/v1/") {
        Dialect::OpenAi
    } else {
        Dialect::Flat
    }
}

#[cfg(test)]
mod tests {
    use http::header;

    use super::*;

    fn class(engine: &str, method: Method, path: &str) -> Class {
        classify(
            EngineId::parse(engine).unwrap(),
            &method,
            path,
            &HeaderMap::new(),
        )
    }

    #[test]
    fn routes_match_exactly() {
        use Class::{List, Other};
        let inference = |path| Class::Inference { path };
        let native = List {
            shape: ListShape::Native,
            upstream: "/api/tags",
        };
        let openai = List {
            shape: ListShape::OpenAi,
            upstream: "/v1/models",
        };
        let llama = List {
            shape: ListShape::OpenAi,
            upstream: "/models",
        };
        for (engine, method, path, want) in [
            ("ollama", Method::POST, "/api/chat", inference("/api/chat")),
            (
                "ollama",
                Method::POST,
                "/api/generate",
                inference("/api/generate"),
            ),
            (
                "ollama",
                Method::POST,
                "/api/embed",
                inference("/api/embed"),
            ),
            (
                "ollama",
                Method::POST,
                "/api/embeddings",
                inference("/api/embeddings"),
            ),
            (
                "ollama",
                Method::POST,
                "/v1/messages",
                inference("/v1/messages"),
            ),
            (
                "ollama",
                Method::POST,
                "/v1/responses",
                inference("/v1/responses"),
            ),
            ("ollama", Method::GET, "/api/tags", native),
            ("ollama", Method::GET, "/v1/models", openai),
            ("ollama", Method::POST, "/v1/models", Other),
            ("ollama", Method::GET, "/api/chat", Other),
            ("ollama", Method::GET, "/models", Other),
            ("ollama", Method::POST, "/api/chat/", Other),
            ("ollama", Method::POST, "/API/chat", Other),
            ("ollama", Method::POST, "/api/pull", Other),
            ("ollama", Method::HEAD, "/api/tags", Other),
            (
                "lmstudio",
                Method::POST,
                "/v1/chat/completions",
                inference("/v1/chat/completions"),
            ),
            ("lmstudio", Method::POST, "/api/generate", Other),
            ("lmstudio", Method::GET, "/v1/models", openai),
            ("lmstudio", Method::GET, "/api/v0/models", Other),
            ("llamacpp", Method::GET, "/v1/models", llama),
            ("llamacpp", Method::GET, "/models", llama),
            (
                "llamacpp",
                Method::POST,
                "/v1/embeddings",
                inference("/v1/embeddings"),
            ),
            ("llamacpp", Method::POST, "/v1/messages/count_tokens", Other),
            ("llamacpp", Method::GET, "/v1/models/x", Other),
        ] {
            assert_eq!(
                class(engine, method.clone(), path),
                want,
                "{engine} {method} {path}"
            );
        }
    }

    #[test]
    fn a_preflight_needs_an_origin_and_a_requested_method() {
        let engine = EngineId::parse("ollama").unwrap();
        let mut h = HeaderMap::new();
        let is = |h: &HeaderMap| classify(engine, &Method::OPTIONS, "/x", h);
        assert_eq!(is(&h), Class::Other);
        h.insert(header::ORIGIN, "http://app.test".parse().unwrap());
        assert_eq!(is(&h), Class::Other);
        h.insert(
            header::ACCESS_CONTROL_REQUEST_METHOD,
            "POST".parse().unwrap(),
        );
        assert_eq!(is(&h), Class::Preflight);
        h.insert(header::ORIGIN, "".parse().unwrap());
        assert_eq!(is(&h), Class::Other);
    }

    #[test]
    fn our_answers_speak_the_dialect_of_the_path() {
        for (path, want) in [
            ("/api/chat", Dialect::Flat),
            ("/models", Dialect::Flat),
            ("/", Dialect::Flat),
            ("/v1x", Dialect::Flat),
            ("/v1/chat/completions", Dialect::OpenAi),
            ("/v1/models", Dialect::OpenAi),
            ("/v1/messages", Dialect::Anthropic),
            ("/v1/messages/count_tokens", Dialect::Anthropic),
            ("/v1/messagesx", Dialect::OpenAi),
        ] {
            assert_eq!(dialect(path), want, "{path}");
        }
    }
}
