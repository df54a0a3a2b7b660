//! The address of a service that may be anywhere: a provider, a collector.
//!
//! Owns: which URLs name one and what is kept of them. Leaves to others: what is put behind the
//! path, dialling it (`net`), engines' addresses (`node_url`).

use http::Uri;
use std::fmt;

use crate::rules::addresses::authority;
use crate::rules::url::{host, port};

/// An http or https URL without user info, query and fragment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HttpUrl {
    /// Whether it is https.
    pub tls: bool,
    /// Host name or address, lower case, IPv6 without brackets.
    pub host: String,
    /// Port; the scheme's where the URL has none.
    pub port: u16,
    /// Its path as written, without trailing slash: `/openai/v1`, or empty.
    pub path: String,
}

impl HttpUrl {
    /// Takes a URL apart. No error text repeats the URL: it may hold a password.
    ///
    /// # Errors
    /// A sentence for a person.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let scheme = text.split_once("://").map(|(s, _)| s.to_ascii_lowercase());
        let tls = match scheme.as_deref() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err("the URL must start with http:// or https://".into()),
        };
        if text.contains(['#', '?']) {
            return Err("the URL must have no query or fragment".into());
        }
        let uri: Uri = text.parse().map_err(|_| "this is not a URL".to_owned())?;
        let authority = uri.authority().ok_or("the URL has no host")?;
        if authority.as_str().contains('@') {
            return Err("no user name or password in URLs; a key has a setting of its own".into());
        }
        let default = if tls { 443 } else { 80 };
        Ok(Self {
            tls,
            host: host(authority.host())?,
            port: port(authority.as_str(), authority.port_u16(), default)?,
            path: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// `host`, or `host:port` where the port is not the scheme's: as it stands in a `Host` header.
    pub fn authority(&self) -> String {
        match (self.tls, self.port) {
            (true, 443) | (false, 80) => bracketed(&self.host),
            _ => authority(&self.host, self.port),
        }
    }
}

fn bracketed(host: &str) -> String {
    match host.contains(':') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_keep_scheme_port_and_path() {
        for (url, shown, port) in [
            (
                "https://api.groq.com/openai/v1/",
                "https://api.groq.com/openai/v1",
                443,
            ),
            ("HTTPS://API.Example", "https://api.example", 443),
            (
                "https://api.example:8443/v1",
                "https://api.example:8443/v1",
                8443,
            ),
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318", 4318),
            ("http://[::1]/x", "http://[::1]/x", 80),
        ] {
            let read = HttpUrl::parse(url).unwrap();
            assert_eq!(
                (read.to_string().as_str(), read.port),
                (shown, port),
                "{url}"
            );
        }
    }

    #[test]
    fn other_urls_are_refused_without_repeating_them() {
        for url in [
            "",
            "canary",
            "ftp://canary",
            "https://",
            "https://canary:canary@x",
            "https://canary:0",
            "https://canary/?key=canary",
            "https://canary/#x",
            "https://ca nary",
            "https://ca*nary",
        ] {
            let e = HttpUrl::parse(url).expect_err(url);
            assert!(!e.contains("canary"), "{url}: {e}");
        }
    }
}
