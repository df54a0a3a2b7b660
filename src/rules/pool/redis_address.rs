//! The address of a Redis, out of a setting.
//!
//! Owns: which texts are one, and how it is shown. Leaves to others: connecting (`store::pool`).

use std::fmt;

use http::Uri;

use crate::rules::addresses;
use crate::rules::secret::Secret;
use crate::rules::url;

/// Where Redis listens if nothing else is said.
const PORT: u16 = 6379;

/// Where the shared store is. Shown with `***` for user name and password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisAddress {
    url: Secret,
    shown: String,
    password: Option<Secret>,
}

impl RedisAddress {
    /// Reads `redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]`, or `HOST:PORT` as `REDIS_ADDR` has it.
    ///
    /// # Errors
    /// What is wrong. The text never repeats the setting: it may hold a password.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let whole = match text.split_once("://") {
            None if text.is_empty() => return Err("the address is empty".into()),
            None => format!("redis://{text}"),
            Some(("redis", _)) => text.to_owned(),
            Some(("rediss", _)) => {
                return Err(
                    "rediss:// (TLS) is not supported; use a tunnel, or a network of your own"
                        .into(),
                );
            },
            Some(_) => return Err("the address must start with redis://".into()),
        };
        let form = "write it like redis://HOST:6379 or redis://:PASSWORD@HOST:6379/0";
        let uri: Uri = whole
            .parse()
            .map_err(|_| format!("this is no address; {form}"))?;
        let authority = uri.authority().ok_or_else(|| format!("no host; {form}"))?;
        if uri.query().is_some() || whole.contains('#') {
            return Err(format!("this is no address; {form}"));
        }
        let host = url::host(authority.host()).map_err(|e| format!("{e}; {form}"))?;
        let (credentials, place) = match authority.as_str().rsplit_once('@') {
            Some((credentials, place)) => (Some(credentials), place),
            None => (None, authority.as_str()),
        };
        let port = url::port(place, authority.port_u16(), PORT)?;
        let db = uri.path().trim_matches('/');
        if !db.is_empty() && db.parse::<u16>().is_err() {
            return Err(format!("the database is no number; {form}"));
        }
        let db = if db.is_empty() {
            String::new()
        } else {
            format!("/{db}")
        };
        let password = credentials.and_then(|c| c.split_once(':')).map(|(_, p)| p);
        let login = credentials.map_or("", |_| "***@");
        Ok(Self {
            shown: format!("redis://{login}{}{db}", addresses::authority(&host, port)),
            password: password.filter(|p| !p.is_empty()).map(Secret::new),
            url: Secret::new(whole),
        })
    }

    /// The whole address, for connecting.
    pub fn url(&self) -> &Secret {
        &self.url
    }

    /// A text from elsewhere, without the password where it should stand in it.
    pub fn masked(&self, text: &str) -> String {
        match &self.password {
            Some(password) => text.replace(password.reveal(), "***"),
            None => text.to_owned(),
        }
    }
}

impl fmt::Display for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_without_credentials() {
        for (text, shown) in [
            ("redis://cache.lan", "redis://cache.lan:6379"),
            ("cache.lan:6380", "redis://cache.lan:6380"),
            (
                "redis://:canary@cache.lan:6380/2",
                "redis://***@cache.lan:6380/2",
            ),
            (
                "redis://canary:canary@[fd00::1]:6380",
                "redis://***@[fd00::1]:6380",
            ),
            (" redis://10.0.0.1/ ", "redis://10.0.0.1:6379"),
        ] {
            let address = RedisAddress::parse(text).unwrap();
            assert_eq!(address.to_string(), shown);
            assert!(
                !format!("{address:?} {address}").contains("canary"),
                "{text}"
            );
        }
        let address = RedisAddress::parse("redis://:canary@h").unwrap();
        assert_eq!(address.masked("AUTH canary failed"), "AUTH *** failed");
    }

    #[test]
    fn other_texts_are_refused_without_repeating_them() {
        for text in [
            "",
            "redis://",
            "rediss://:canary@h",
            "http://canary",
            "unix:///canary",
            "redis://canary:0",
            "redis://canary:99999",
            "redis://:canary@",
            "redis://h/canary",
            "redis://h?canary=1",
            "redis://h:1#canary",
            "can ary:1",
            "ca*nary:1",
            "redis://:canary",
        ] {
            let e = RedisAddress::parse(text).expect_err(text);
            assert!(!e.contains("canary"), "{text}: {e}");
        }
    }
}
