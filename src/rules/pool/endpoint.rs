//! Where a pool node may serve (the SSRF rules of product section 7).
//!
//! Owns: which URLs are endpoints and which addresses may be dialled for them. Leaves to others:
//! resolving names, dialling exactly the address that was judged.
//!
//! Two lines of defence: a host that a resolver could read as an address in another spelling
//! (`0x7f.1`, `2130706433`) is no host, and every address is judged by [`admits`] in the form in
//! which it would be dialled, whatever name led to it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::Uri;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::sizes::MAX_ENDPOINT;
use crate::rules::addresses::{authority, without_brackets};
use crate::rules::url;

/// The part of a URL that says how to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// In the clear.
    Http,
    /// Over TLS.
    Https,
}

/// Where a pool node serves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// How to speak to it.
    pub scheme: Scheme,
    /// Name or address, lower case, IPv6 without brackets.
    pub host: String,
    /// Port; 80 or 443 where the URL has none.
    pub port: u16,
    /// In front of every path, with leading and without trailing slash; usually empty.
    pub prefix: String,
}

/// One entry of a key's allow list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allow {
    /// Addresses of this network.
    Net(IpNet),
    /// Any ordinary address of the endpoint whose host is exactly this name, lower case.
    Host(String),
}

/// Why an address is not dialled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address} {why}")]
pub struct Refused {
    /// The address as it was resolved.
    pub address: IpAddr,
    /// Why not, and what to do.
    pub why: String,
}

impl Endpoint {
    /// Takes a URL apart. A trailing `/v1` is the OpenAI base of the same origin and not kept.
    ///
    /// # Errors
    /// What is wrong. The text never repeats the URL: it may hold a password.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_ENDPOINT {
            return Err(format!("the URL is longer than {MAX_ENDPOINT} bytes"));
        }
        let (scheme, _) = text
            .split_once("://")
            .ok_or("the URL has no scheme; write http://HOST:PORT")?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err("the URL starts with neither http:// nor https://".into()),
        };
        // A parser may drop the one and read the other as a slash.
        if text.contains(['#', '?', '\\']) || text.chars().any(|c| c.is_control() || c == ' ') {
            return Err("the URL has a query, a fragment, a backslash or a space".into());
        }
        let uri: Uri = text.parse().map_err(|_| "this is not a URL".to_owned())?;
        let authority = uri.authority().ok_or("the URL has no host")?;
        if authority.as_str().contains('@') {
            return Err("the URL has a user name or password; an endpoint has none".into());
        }
        let default = match scheme {
            Scheme::Http => 80,
            Scheme::Https => 443,
        };
        Ok(Self {
            scheme,
            host: host(authority.host())?,
            port: url::port(authority.as_str(), authority.port_u16(), default)?,
            prefix: prefix(uri.path())?,
        })
    }

    /// The address that the host is, if it is no name.
    pub fn literal(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// `host:port`, as it stands in a `Host` header.
    pub fn authority(&self) -> String {
        authority(&self.host, self.port)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        write!(f, "{scheme}://{}{}", self.authority(), self.prefix)
    }
}

impl Allow {
    /// Reads an entry: a network (`10.0.0.0/8`), an address, or a host name.
    ///
    /// # Errors
    /// What an entry looks like.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bare = without_brackets(text);
        if let Ok(net) = bare.parse::<IpNet>() {
            return Ok(Self::Net(net.trunc()));
        }
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(Self::Net(address.into()));
        }
        let wrong =
            || "is neither a network like 10.0.0.0/8, nor an address, nor a host name".to_owned();
        if text.contains(['/', ':', '[']) {
            return Err(wrong());
        }
        host(text).map(Self::Host).map_err(|_| wrong())
    }

    /// The entry that stands for the address a node registers from, where its key has no list.
    pub fn peer(address: IpAddr) -> Self {
        Self::Net(address.to_canonical().into())
    }
}

impl fmt::Display for Allow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Net(net) => write!(f, "{net}"),
            Self::Host(host) => f.write_str(host),
        }
    }
}

/// Whether an address that `host` resolved to may be dialled.
///
/// Addresses that embed an IPv4 address are judged by that one. Loopback, link-local (cloud
/// metadata), multicast, unspecified and reserved addresses are admitted only by a network that
/// lies within such a range: `127.0.0.1` in the list means it, `0.0.0.0/0` does not.
///
/// # Errors
/// Why it may not.
pub fn admits(host: &str, address: IpAddr, allow: &[Allow]) -> Result<(), Refused> {
    let inner = embedded(address);
    let refused = |why: String| Err(Refused { address, why });
    let nets = || {
        allow.iter().filter_map(|a| match a {
            Allow::Net(net) => Some(canonical(*net)),
            Allow::Host(_) => None,
        })
    };
    if let Some((what, range)) = special(inner) {
        let meant = |net: IpNet| range.contains(&net) && net.contains(&inner);
        if nets().any(meant) {
            return Ok(());
        }
        let via = if inner == address {
            String::new()
        } else {
            format!(" ({inner})")
        };
        return refused(format!(
            "is {what}{via}, which the key must allow by its own address or network"
        ));
    }
    let named = |a: &Allow| matches!(a, Allow::Host(name) if *name == host);
    if allow.iter().any(named) || nets().any(|net| net.contains(&inner) || net.contains(&address)) {
        return Ok(());
    }
    refused("is not in the key's allow list".to_owned())
}

/// The address that a dialled one leads to: the IPv4 address in mapped, compatible, NAT64 and 6to4
/// forms.
fn embedded(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else {
        return address;
    };
    let s = v6.segments();
    let v4 = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    match s {
        // Unspecified and loopback are no embedded addresses.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => address,
        // Mapped (::ffff:0:0/96), translated (::ffff:0:0:0/96), compatible (::/96).
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => {
            v4(high, low)
        },
        // NAT64: the well-known prefix, and the one for local use (RFC 8215).
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x64, 0xff9b, 1, _, _, _, high, low] => {
            v4(high, low)
        },
        // 6to4.
        [0x2002, high, low, ..] => v4(high, low),
        _ => address,
    }
}

/// A network of mapped addresses, as the network of IPv4 addresses that it is.
fn canonical(net: IpNet) -> IpNet {
    match net {
        IpNet::V6(v6) if v6.prefix_len() >= 96 => match v6.addr().to_ipv4_mapped() {
            Some(v4) => Ipv4Net::new(v4, v6.prefix_len() - 96).map_or(net, IpNet::V4),
            None => net,
        },
        _ => net,
    }
}

/// What is special about an address, and the range of its kind; `None` for an ordinary one.
fn special(address: IpAddr) -> Option<(&'static str, IpNet)> {
    let v4 = |a, b, c, d, len| {
        Ipv4Net::new(Ipv4Addr::new(a, b, c, d), len)
            .ok()
            .map(IpNet::V4)
    };
    let v6 = |s: [u16; 8], len| Ipv6Net::new(Ipv6Addr::from(s), len).ok().map(IpNet::V6);
    let ranges = [
        ("the broadcast address", v4(255, 255, 255, 255, 32)),
        // Alibaba's and Amazon's besides the link-local one that all have.
        ("a cloud's metadata address", v4(100, 100, 100, 200, 32)),
        (
            "a cloud's metadata address",
            v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128),
        ),
        ("an unspecified address", v4(0, 0, 0, 0, 8)),
        ("an unspecified address", v6([0; 8], 128)),
        ("a loopback address", v4(127, 0, 0, 0, 8)),
        ("a loopback address", v6([0, 0, 0, 0, 0, 0, 0, 1], 128)),
        ("a link-local address", v4(169, 254, 0, 0, 16)),
        (
            "a link-local address",
            v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
        ),
        ("a multicast address", v4(224, 0, 0, 0, 4)),
        ("a multicast address", v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8)),
        ("a reserved address", v4(240, 0, 0, 0, 4)),
    ];
    let mut known = ranges
        .into_iter()
        .filter_map(|(what, net)| Some((what, net?)));
    known.find(|(_, net)| net.contains(&address))
}

fn host(raw: &str) -> Result<String, String> {
    let bare = without_brackets(raw).to_ascii_lowercase();
    if bare.is_empty() {
        return Err("the URL has no host".into());
    }
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(address.to_string());
    }
    let labels: Vec<&str> = bare.strip_suffix('.').unwrap_or(&bare).split('.').collect();
    let sign = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let label = |l: &&str| (1..=63).contains(&l.len()) && l.bytes().all(sign);
    if bare.len() > 253 || !labels.iter().all(label) {
        return Err("the URL's host is not a host name".into());
    }
    // What ends in a number is an address in a resolver's eyes: decimal, octal, hex, or short.
    let hex = |l: &str| {
        l.strip_prefix("0x")
            .is_some_and(|h| h.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    if labels
        .last()
        .is_some_and(|l| l.bytes().all(|b| b.is_ascii_digit()) || hex(l))
    {
        return Err(
            "the URL's host is an address in an unusual spelling; write it like 10.0.0.7".into(),
        );
    }
    Ok(bare)
}

/// As for a node named by hand; and no `..`, which would lead out of the prefix.
fn prefix(path: &str) -> Result<String, String> {
    let path = url::prefix(path);
    let dots = |part: &str| {
        matches!(
            part.to_ascii_lowercase().replace("%2e", ".").as_str(),
            "." | ".."
        )
    };
    if path.split('/').any(dots) {
        return Err("the URL's path has `.` or `..` in it".into());
    }
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests;
