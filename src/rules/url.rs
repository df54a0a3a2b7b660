//! What the URLs that people write have in common: those of nodes, endpoints, services and stores.
//!
//! Owns: which texts are hosts, the port, the part of a path that is not the OpenAI base. Leaves to
//! others: the scheme, and what else a URL may have.
//!
//! No error repeats a part of the URL: in one that was written wrongly any part may be a password.

use super::addresses::{parse_ip, without_brackets};

/// Whether `text` can be a host: an address, or a name of letters, digits, `-`, `_` and dots.
pub fn is_host(text: &str) -> bool {
    if parse_ip(text).is_some() {
        return true;
    }
    let part = |p: &str| {
        !p.is_empty()
            && p.chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    text.len() <= 253 && text.strip_suffix('.').unwrap_or(text).split('.').all(part)
}

/// The host of an authority, in lower case and without brackets.
///
/// # Errors
/// There is none, or it is none.
pub fn host(raw: &str) -> Result<String, String> {
    let host = without_brackets(raw).to_ascii_lowercase();
    if host.is_empty() {
        Err("the URL has no host".into())
    } else if is_host(&host) {
        Ok(host)
    } else {
        Err("the URL's host is not a host name".into())
    }
}

/// The port of an authority without user info, `default` if it has none. One that does not fit 16
/// bits is `None` to the parser, so the text decides.
///
/// # Errors
/// It is not in 1..65535.
pub fn port(authority: &str, parsed: Option<u16>, default: u16) -> Result<u16, String> {
    let behind_host = authority.rsplit(']').next().unwrap_or(authority);
    match (parsed, behind_host.contains(':')) {
        (Some(0), _) | (None, true) => Err("the URL's port is not in 1..65535".into()),
        (Some(port), _) => Ok(port),
        (None, false) => Ok(default),
    }
}

/// What stands in front of every path of an engine at a URL with this path, with leading and without
/// trailing slash; usually empty. A trailing `/v1` is the OpenAI base of the same origin and not kept.
pub fn prefix(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    let path = path.strip_suffix("/v1").unwrap_or(path);
    path.trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_addresses_or_names_of_labels() {
        for good in [
            "a",
            "a.b.",
            "tower-1.lan",
            "a_b",
            "10.0.0.1",
            "::1",
            "[::1]",
        ] {
            assert!(is_host(good), "{good}");
        }
        let long = "a.".repeat(127);
        for bad in ["", ".", "a..b", "a b", "a/b", "a:1", "*.lan", "ä", &long] {
            assert!(!is_host(bad), "{bad}");
        }
        assert_eq!(host("[FD00::1]").as_deref(), Ok("fd00::1"));
        assert!(host("").unwrap_err().contains("no host"));
        assert!(host("canary*").is_err_and(|e| !e.contains("canary")));
    }

    #[test]
    fn a_port_is_what_the_text_says_and_never_repeated() {
        for (authority, parsed, want) in [
            ("a", None, Some(80)),
            ("a:1", Some(1), Some(1)),
            ("[::1]", None, Some(80)),
            ("[::1]:5", Some(5), Some(5)),
            ("a:0", Some(0), None),
            ("a:", None, None),
            ("a:canary", None, None),
            ("[::1]:70000", None, None),
        ] {
            let got = port(authority, parsed, 80);
            assert!(got.as_ref().is_ok_and(|p| Some(*p) == want) || want.is_none());
            assert!(got.is_ok() == want.is_some(), "{authority}: {got:?}");
            assert!(got.err().is_none_or(|e| !e.contains("canary")));
        }
    }

    #[test]
    fn a_prefix_is_a_path_without_the_openai_base() {
        for (path, want) in [
            ("", ""),
            ("/", ""),
            ("/v1", ""),
            ("/v1/", ""),
            ("/gpu/v1/", "/gpu"),
            ("/gpu/", "/gpu"),
            ("/v1x", "/v1x"),
        ] {
            assert_eq!(prefix(path), want, "{path}");
        }
    }
}
