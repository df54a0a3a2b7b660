//! The address of an engine, out of a URL.
//!
//! Owns: which URLs name a node and what is kept of them. Leaves to others: what the node is
//! called (`director::plan`), dialling it (`net`).

use http::Uri;
use std::fmt;

use crate::rules::addresses::authority;
use crate::rules::url::{host, port, prefix};

/// Where an engine listens: plain HTTP, no user info, an optional path prefix.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeUrl {
    /// Host name or address, lower case, IPv6 without brackets.
    pub host: String,
    /// Port; 80 where the URL has none.
    pub port: u16,
    /// In front of every path, with leading and without trailing slash; usually empty.
    pub prefix: String,
}

impl NodeUrl {
    /// The engine at this address.
    pub fn of(address: std::net::SocketAddr) -> Self {
        Self {
            host: address.ip().to_string(),
            port: address.port(),
            prefix: String::new(),
        }
    }

    /// Takes a URL apart. A trailing `/v1` is the OpenAI base of the same origin and not kept.
    ///
    /// No error text repeats the URL: it may hold a password.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let scheme = text.split_once("://").map(|(s, _)| s.to_ascii_lowercase());
        match scheme.as_deref() {
            Some("http") => {},
            Some("https") => return Err("https is not supported; engines speak plain http".into()),
            Some(_) => return Err("a node's URL starts with http://".into()),
            None if text.is_empty() => return Err("the URL is empty".into()),
            None => return Err("the URL has no scheme; write http://HOST:PORT".into()),
        }
        if text.contains(['#', '?']) {
            return Err("a node's URL has no query or fragment".into());
        }
        let uri: Uri = text.parse().map_err(|_| "this is not a URL".to_owned())?;
        let authority = uri.authority().ok_or("the URL has no host")?;
        if authority.as_str().contains('@') {
            return Err("no user name or password in URLs; a key goes into `api_key`".into());
        }
        Ok(Self {
            host: host(authority.host())?,
            port: port(authority.as_str(), authority.port_u16(), 80)?,
            prefix: prefix(uri.path()).to_owned(),
        })
    }

    /// `host:port`, as it stands in a `Host` header.
    pub fn authority(&self) -> String {
        authority(&self.host, self.port)
    }
}

impl fmt::Display for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority(), self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_become_host_port_and_prefix() {
        for (url, host, port, prefix) in [
            ("http://tower.lan:11434", "tower.lan", 11434, ""),
            ("http://tower.lan:11434/", "tower.lan", 11434, ""),
            ("http://Tower.LAN:1234/v1", "tower.lan", 1234, ""),
            ("http://tower.lan:1234/v1/", "tower.lan", 1234, ""),
            ("http://tower.lan/gpu/v1", "tower.lan", 80, "/gpu"),
            ("http://tower.lan:1/gpu/", "tower.lan", 1, "/gpu"),
            ("http://[fd00::1]:8080/v1", "fd00::1", 8080, ""),
            ("HTTP://10.0.0.7:8080", "10.0.0.7", 8080, ""),
        ] {
            let want = NodeUrl {
                host: host.into(),
                port,
                prefix: prefix.into(),
            };
            assert_eq!(NodeUrl::parse(url), Ok(want), "{url}");
        }
    }

    #[test]
    fn other_urls_are_refused_without_repeating_them() {
        for url in [
            "",
            "tower.lan:11434",
            "https://canary:1",
            "ftp://canary",
            "http://",
            "http:///canary",
            "http://canary:canary@tower:1",
            "http://canary:0",
            "http://tower:70000",
            "http://tower:",
            "http://canary:1/?a=b",
            "http://canary:1/#x",
            "http://ca nary:1",
            "http://ca*nary:1",
        ] {
            let e = NodeUrl::parse(url).expect_err(url);
            assert!(!e.contains("canary"), "{url}: {e}");
        }
    }

    #[test]
    fn an_ipv6_host_is_shown_in_brackets() {
        let url = NodeUrl::parse("http://[::1]:8080/x").unwrap();
        assert_eq!(url.to_string(), "http://[::1]:8080/x");
    }
}
