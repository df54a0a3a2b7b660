//! Answers we make ourselves (product section 10).
//!
//! Owns: their shape in each dialect; the one place that turns a refusal into a response.
//! Leaves to others: the decision (`rules`), relayed answers (`facade::relay`).
//!
//! Never a CORS header, never content of a request beyond the model's name.

use bytes::{BufMut, Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response, StatusCode};
use serde_json::json;

use crate::rules::route::Dialect;

/// Seconds in `Retry-After` of our own 503s: short, since client libraries sleep for as long.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// An error in the dialect of the route.
pub fn error(dialect: Dialect, status: StatusCode, message: &str) -> Response<Bytes> {
    let kind = kind(status);
    let body = match dialect {
        Dialect::Flat => json!({ "error": message }),
        Dialect::OpenAi => {
            json!({ "error": { "message": message, "type": kind, "code": status.as_u16() } })
        },
        Dialect::Anthropic => {
            json!({ "type": "error", "error": { "type": anthropic(status), "message": message } })
        },
    };
    let mut response = json_response(status, body.to_string().into());
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, RETRY_SECONDS);
    }
    response
}

/// A refusal at the door: the same shape on every path, with a code for programs.
pub fn refusal(status: StatusCode, code: &str, message: &str) -> Response<Bytes> {
    json_response(
        status,
        json!({ "code": code, "error": message }).to_string().into(),
    )
}

/// There is no place for another connection.
pub fn overloaded() -> Response<Bytes> {
    let text = "too many connections are open here; try again shortly, or raise the limit on open \
                files of nvpair-proxy";
    let mut response = refusal(StatusCode::SERVICE_UNAVAILABLE, "overloaded", text);
    let headers = response.headers_mut();
    headers.insert(RETRY_AFTER, RETRY_SECONDS);
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// An answer as it is written to a client.
pub fn bytes(response: &Response<Bytes>) -> BytesMut {
    let (status, body) = (response.status(), response.body());
    let mut out = BytesMut::with_capacity(256 + body.len());
    let reason = status.canonical_reason().unwrap_or_default();
    out.put_slice(format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).as_bytes());
    for (name, value) in response.headers() {
        out.put_slice(name.as_str().as_bytes());
        out.put_slice(b": ");
        out.put_slice(value.as_bytes());
        out.put_slice(b"\r\n");
    }
    out.put_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
    out.put_slice(body);
    out
}

/// A JSON body of ours.
pub fn json_response(status: StatusCode, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn kind(status: StatusCode) -> &'static str {
    match status {
        StatusCode::SERVICE_UNAVAILABLE => "unavailable_error",
        StatusCode::GATEWAY_TIMEOUT => "timeout_error",
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        s if s.is_client_error() => "invalid_request_error",
        _ => "upstream_error",
    }
}

/// The error types Anthropic's own clients know.
fn anthropic(status: StatusCode) -> &'static str {
    match status {
        StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
        StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
        StatusCode::GATEWAY_TIMEOUT => "timeout_error",
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        s if s.is_client_error() => "invalid_request_error",
        _ => "api_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(dialect: Dialect, status: StatusCode) -> String {
        String::from_utf8(error(dialect, status, "no \"x\"").into_body().to_vec()).unwrap()
    }

    #[test]
    fn each_dialect_has_its_shape() {
        let s = StatusCode::BAD_GATEWAY;
        assert_eq!(body(Dialect::Flat, s), r#"{"error":"no \"x\""}"#);
        assert_eq!(
            body(Dialect::OpenAi, s),
            r#"{"error":{"code":502,"message":"no \"x\"","type":"upstream_error"}}"#
        );
        assert_eq!(
            body(Dialect::Anthropic, s),
            r#"{"error":{"message":"no \"x\"","type":"api_error"},"type":"error"}"#
        );
    }

    #[test]
    fn an_overload_is_told_in_the_form_of_a_refusal() {
        let written = String::from_utf8(bytes(&overloaded()).to_vec()).unwrap();
        let (head, body) = written.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with("HTTP/1.1 503 Service Unavailable\r\n"),
            "{head}"
        );
        assert!(head.contains("\r\nretry-after: 1\r\n"), "{head}");
        assert!(head.contains("\r\nconnection: close\r\n"), "{head}");
        assert!(head.ends_with(&format!("\r\ncontent-length: {}", body.len())));
        assert!(
            body.starts_with(r#"{"code":"overloaded","error":""#),
            "{body}"
        );
    }

    #[test]
    fn only_a_503_tells_when_to_come_back() {
        let r = error(Dialect::Flat, StatusCode::SERVICE_UNAVAILABLE, "x");
        assert_eq!(r.headers().get(RETRY_AFTER).unwrap(), "1");
        assert!(
            error(Dialect::Flat, StatusCode::BAD_GATEWAY, "x")
                .headers()
                .get(RETRY_AFTER)
                .is_none()
        );
    }
}
