//! Header fields on their way through (data plane 7.1 and 7.2).
//!
//! Owns: what is stripped, replaced and appended. Leaves to others: everything end-to-end, which is
//! passed as it came.

use std::net::IpAddr;

use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HeaderMap, HeaderName, HeaderValue, ORIGIN,
    PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, REFERER, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{StatusCode, Version, response};

/// `X-Forwarded-For`.
pub const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Fields that concern one connection only.
const HOP_BY_HOP: [HeaderName; 8] = [
    CONNECTION,
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Takes hop-by-hop fields off, those named in `Connection` included. `TE: trailers` stays, since
/// trailers pass; `upgrade` is what the connection is asked to become, handed back if asked for.
pub fn strip(headers: &mut HeaderMap) -> Option<HeaderValue> {
    // Most messages have none or one: looking once is cheaper than removing each that may be there.
    let found: Vec<HeaderName> = headers
        .keys()
        .filter(|k| HOP_BY_HOP.contains(k))
        .cloned()
        .collect();
    if found.is_empty() {
        return None;
    }
    let upgrade = wishes_upgrade(headers)
        .then(|| headers.get(UPGRADE).cloned())
        .flatten()
        .filter(|protocol| !protocol.is_empty());
    let named: Vec<HeaderName> = tokens(headers, &CONNECTION)
        .filter_map(|token| token.parse().ok())
        .collect();
    let trailers = tokens(headers, &TE).any(|t| t.eq_ignore_ascii_case("trailers"));
    for name in named.iter().chain(&found) {
        // A client that names `close` or `keep-alive` names no field of this name.
        headers.remove(name);
    }
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    upgrade
}

fn wishes_upgrade(headers: &HeaderMap) -> bool {
    tokens(headers, &CONNECTION).any(|t| t.eq_ignore_ascii_case("upgrade"))
}

fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter();
    values
        .flat_map(|v| v.to_str().unwrap_or_default().split(','))
        .map(str::trim)
}

/// Makes a client's fields ready for any target: hop-by-hop off, `Expect` off (the body is read
/// here), the client appended to `X-Forwarded-For`. The `Host` is set per target.
pub fn forward(headers: &mut HeaderMap, client: IpAddr) -> Option<HeaderValue> {
    // Only a chunked body can have trailers; where it has, the field announces them and stays.
    let chunked = headers.contains_key(TRANSFER_ENCODING);
    let upgrade = strip(headers);
    headers.remove(EXPECT);
    if !chunked {
        headers.remove(TRAILER);
    }
    let before: Vec<&str> = tokens(headers, &FORWARDED_FOR).collect();
    let mut chain: String = before.iter().flat_map(|hop| [hop, ", "]).collect();
    let value = if chain.is_empty() && client == IpAddr::from([127, 0, 0, 1]) {
        // By far the usual case, without an allocation.
        Ok(HeaderValue::from_static("127.0.0.1"))
    } else {
        chain.push_str(&client.to_string());
        HeaderValue::try_from(chain)
    };
    if let Ok(value) = value {
        headers.insert(FORWARDED_FOR, value);
    }
    upgrade
}

/// Why an engine's answer cannot be handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Doubtful {
    /// It switches to a protocol that nobody asked for.
    #[error("the answer switches protocols, which nobody asked for")]
    Switch,
    /// Its body is coded in a way that would have to be taken off.
    #[error("the answer has a transfer coding other than chunked")]
    Coding,
    /// It has lengths that differ, or one that is no number.
    #[error("the answer's length is no number")]
    Length,
}

/// Makes an answer's head ready for whoever asked; `may_switch`: they asked for another protocol.
///
/// # Errors
/// It cannot be handed on: whoever reads it could take its body for another one.
pub fn answer(head: &mut response::Parts, may_switch: bool) -> Result<(), Doubtful> {
    // An engine of HTTP/1.0 is answered for in our own version.
    head.version = Version::HTTP_11;
    if head.status == StatusCode::SWITCHING_PROTOCOLS {
        // The fields that are stripped otherwise are what it is about.
        return may_switch.then_some(()).ok_or(Doubtful::Switch);
    }
    let headers = &mut head.headers;
    if headers.contains_key(TRANSFER_ENCODING) {
        let codings: Vec<_> = tokens(headers, &TRANSFER_ENCODING).collect();
        if !matches!(codings[..], [one] if one.eq_ignore_ascii_case("chunked")) {
            return Err(Doubtful::Coding);
        }
        // The coding is what counts (RFC 9112, 6.3). Passed on, the length would cut the body that
        // was read by it.
        headers.remove(CONTENT_LENGTH);
    }
    if let Some(length) = headers.get(CONTENT_LENGTH) {
        let is_number = !length.is_empty() && length.as_bytes().iter().all(u8::is_ascii_digit);
        if !is_number || headers.get_all(CONTENT_LENGTH).iter().any(|l| l != length) {
            return Err(Doubtful::Length);
        }
    }
    strip(headers);
    Ok(())
}

/// What a caller proves itself with, meant for us or for one service.
const CREDENTIALS: [&str; 5] = [
    "authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "cookie",
];

/// What concerns this house alone: who asked, and from where.
const PRIVATE: [&str; 7] = [
    "openai-organization",
    "openai-project",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
];

/// Takes off what proves who asks: of a question to everybody nobody was meant.
pub fn leave_credentials(headers: &mut HeaderMap) {
    for name in CREDENTIALS {
        headers.remove(name);
    }
}

/// Takes off what a provider must not be told. Its own key is put on afterwards.
pub fn leave_at_home(headers: &mut HeaderMap) {
    leave_credentials(headers);
    for name in PRIVATE {
        headers.remove(name);
    }
    // Where the page is that asked.
    headers.remove(ORIGIN);
    headers.remove(REFERER);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(k, v)| {
                (
                    k.parse::<HeaderName>().unwrap(),
                    v.parse::<HeaderValue>().unwrap(),
                )
            })
            .collect()
    }

    fn names(h: &HeaderMap) -> Vec<String> {
        let mut n: Vec<_> = h.keys().map(|k| k.to_string()).collect();
        n.sort();
        n
    }

    #[test]
    fn hop_by_hop_fields_go_and_named_ones_with_them() {
        let mut h = map(&[
            ("connection", "close, X-Hop , keep-alive"),
            ("x-hop", "1"),
            ("keep-alive", "5"),
            ("proxy-authorization", "b"),
            ("transfer-encoding", "chunked"),
            ("te", "gzip"),
            ("authorization", "a"),
            ("x-test", "1"),
        ]);
        assert_eq!(strip(&mut h), None);
        assert_eq!(names(&h), ["authorization", "x-test"]);
    }

    #[test]
    fn trailers_may_still_be_asked_for() {
        let mut h = map(&[("te", "gzip, Trailers")]);
        strip(&mut h);
        assert_eq!(h.get("te").unwrap(), "trailers");
    }

    #[test]
    fn an_upgrade_is_handed_back_only_if_the_connection_names_it() {
        let mut h = map(&[("connection", "Upgrade"), ("upgrade", "websocket")]);
        assert_eq!(strip(&mut h).unwrap(), "websocket");
        let mut h = map(&[("upgrade", "websocket")]);
        assert_eq!(strip(&mut h), None);
        assert!(h.is_empty());
    }

    fn answered(status: u16, pairs: &[(&str, &str)]) -> response::Parts {
        let (mut head, ()) = http::Response::new(()).into_parts();
        (head.status, head.version) = (StatusCode::from_u16(status).unwrap(), Version::HTTP_10);
        head.headers = map(pairs);
        head
    }

    #[test]
    fn of_two_ends_of_an_answer_the_coding_counts_and_doubts_are_told() {
        let (cl, te) = ("content-length", "transfer-encoding");
        for (pairs, want) in [
            (&[(cl, "5")][..], Ok(vec![cl])),
            (&[(te, "Chunked")], Ok(vec![])),
            (&[(te, "chunked"), (cl, "3")], Ok(vec![])),
            (&[(cl, "3, 3"), (te, "chunked")], Ok(vec![])),
            (&[(te, "gzip, chunked")], Err(Doubtful::Coding)),
            (&[(te, "chunked"), (te, "chunked")], Err(Doubtful::Coding)),
            (&[(te, "")], Err(Doubtful::Coding)),
            (&[(cl, "5"), (cl, "5")], Ok(vec![cl])),
            (&[(cl, "5"), (cl, "6")], Err(Doubtful::Length)),
            (&[(cl, "5, 5")], Err(Doubtful::Length)),
            (&[(cl, "+5")], Err(Doubtful::Length)),
            (&[(cl, "")], Err(Doubtful::Length)),
        ] {
            let mut head = answered(200, pairs);
            let got = answer(&mut head, false).map(|()| names(&head.headers));
            let want = want.map(|n| n.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(got, want, "{pairs:?}");
            assert_eq!(head.version, Version::HTTP_11);
        }
    }

    #[test]
    fn only_who_asked_for_a_switch_gets_one_with_its_fields() {
        let mut head = answered(101, &[("connection", "upgrade"), ("upgrade", "websocket")]);
        assert_eq!(answer(&mut head, false), Err(Doubtful::Switch));
        assert_eq!(answer(&mut head, true), Ok(()));
        assert_eq!(names(&head.headers), ["connection", "upgrade"]);
    }

    #[test]
    fn the_client_is_appended_to_the_chain() {
        let client = IpAddr::from([127, 0, 0, 1]);
        let mut h = map(&[("expect", "100-continue")]);
        forward(&mut h, client);
        assert_eq!(h.get("x-forwarded-for").unwrap(), "127.0.0.1");
        assert!(h.get("expect").is_none());
        let mut h = map(&[
            ("x-forwarded-for", "10.0.0.1"),
            ("x-forwarded-for", "10.0.0.2"),
        ]);
        forward(&mut h, client);
        assert_eq!(h.get_all("x-forwarded-for").iter().count(), 1);
        assert_eq!(
            h.get("x-forwarded-for").unwrap(),
            "10.0.0.1, 10.0.0.2, 127.0.0.1"
        );
    }
}
