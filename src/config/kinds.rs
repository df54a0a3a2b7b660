//! Kinds of values: what a text, number or list entry of the file may be.
//!
//! Owns: the form of each value and the sentence when it has another. No sentence repeats a value
//! that may hold a credential. Leaves to others: where it stands (`reader`), which key takes which
//! kind (`file` and the sections' files).

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderValue;
use ipnet::IpNet;

use super::http_url::HttpUrl;
use super::node_url::NodeUrl;
use super::reader::Plain;
use crate::rules::addresses::{loopback, parse_ip, without_brackets};
use crate::rules::engine::EngineId;
use crate::rules::gateway::POOL;
use crate::rules::nearest::closest;
use crate::rules::secret::Secret;
use crate::rules::units::{duration_text, parse_duration, parse_size};
use crate::rules::url::is_host;

/// Any text.
pub fn text(key: &str, value: Plain) -> Result<String, String> {
    match value {
        Plain::Text(text) => Ok(text),
        _ => Err(format!("`{key}` must be a text in quotes")),
    }
}

/// `true` or `false`; as a text too, so that it may come from a variable.
pub fn boolean(key: &str, value: Plain) -> Result<bool, String> {
    match value {
        Plain::Boolean(b) => Ok(b),
        Plain::Text(t) if t == "true" => Ok(true),
        Plain::Text(t) if t == "false" => Ok(false),
        _ => Err(format!("`{key}` must be true or false")),
    }
}

/// A whole number in a range; as a text too, so that it may come from a variable.
pub fn integer(range: RangeInclusive<u32>) -> impl Fn(&str, Plain) -> Result<u32, String> {
    move |key, value| {
        let number = match value {
            Plain::Integer(n) => Some(n),
            Plain::Text(t) => t.trim().parse().ok(),
            _ => None,
        };
        let number = number.ok_or_else(|| format!("`{key}` must be a whole number"))?;
        let inside = u32::try_from(number).ok().filter(|n| range.contains(n));
        inside.ok_or_else(|| {
            format!(
                "{key} {number} is not in {}..{}",
                range.start(),
                range.end()
            )
        })
    }
}

/// A TCP port.
pub fn port(key: &str, value: Plain) -> Result<u16, String> {
    let number = integer(1..=65535)(key, value)?;
    u16::try_from(number).map_err(|_| format!("{key} {number} is not in 1..65535"))
}

/// A duration in a range; a bare 0 needs no quotes.
pub fn duration(
    range: RangeInclusive<Duration>,
) -> impl Fn(&str, Plain) -> Result<Duration, String> {
    move |key, value| {
        let given = match value {
            Plain::Text(t) => parse_duration(t.trim()).map_err(|e| format!("`{key}`: {e}"))?,
            Plain::Integer(0) => Duration::ZERO,
            _ => {
                return Err(format!(
                    "`{key}` must be a duration in quotes, like \"90s\" or \"1h30m\""
                ));
            },
        };
        if range.contains(&given) {
            return Ok(given);
        }
        let (min, max) = (duration_text(*range.start()), duration_text(*range.end()));
        Err(format!(
            "`{key}`: {} is not in {min}..{max}",
            duration_text(given)
        ))
    }
}

/// A size in bytes.
pub fn size(key: &str, value: Plain) -> Result<u64, String> {
    let text = match value {
        Plain::Integer(n) => n.to_string(),
        Plain::Text(t) => t,
        _ => {
            return Err(format!(
                "`{key}`: write bytes, or a size in quotes, like \"64MiB\""
            ));
        },
    };
    parse_size(text.trim()).map_err(|e| format!("`{key}`: {e}"))
}

/// One of a few words.
pub fn word<T: Copy>(
    words: &'static [(&'static str, T)],
) -> impl Fn(&str, Plain) -> Result<T, String> {
    move |key, value| {
        let given = text(key, value)?;
        pick(words, &given).map_err(|e| format!("`{key}`: {e}"))
    }
}

/// The value of the word that was given, or a sentence that lists the words.
pub fn pick<T: Copy>(words: &[(&'static str, T)], given: &str) -> Result<T, String> {
    if let Some((_, value)) = words.iter().find(|(w, _)| *w == given) {
        return Ok(*value);
    }
    let known: Vec<_> = words.iter().map(|(w, _)| *w).collect();
    let help = match closest(given, known.iter().copied()) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("it is one of {}", known.join(", ")),
    };
    Err(format!("{given:?} is not known; {help}"))
}

/// An engine by its id, or a sentence with the nearest one.
pub fn engine_named(given: &str) -> Result<EngineId, String> {
    let words: Vec<_> = EngineId::all().map(|e| (e.as_str(), e)).collect();
    pick(&words, given).map_err(|e| format!("engine {e}"))
}

/// The same, or the gateway: whatever may have a facade.
pub fn facade_named(given: &str) -> Result<EngineId, String> {
    let words: Vec<_> = EngineId::facades().map(|e| (e.as_str(), e)).collect();
    pick(&words, given).map_err(|e| format!("engine {e}"))
}

/// An engine out of the file.
pub fn engine(key: &str, value: Plain) -> Result<EngineId, String> {
    engine_named(&text(key, value)?)
}

/// Where a node listens.
pub fn node_url(key: &str, value: Plain) -> Result<NodeUrl, String> {
    NodeUrl::parse(&text(key, value)?).map_err(|e| format!("`{key}`: {e}"))
}

/// A text with something in it, without blanks around it.
pub fn not_empty(key: &str, value: Plain) -> Result<String, String> {
    let text = text(key, value)?.trim().to_owned();
    if text.is_empty() {
        Err(format!("`{key}` must not be empty"))
    } else {
        Ok(text)
    }
}

/// Names stand on command lines and in tables: no blanks, no control characters.
pub fn node_name(key: &str, value: Plain) -> Result<String, String> {
    let name = not_empty(key, value)?;
    let bad = |c: char| c.is_whitespace() || c.is_control();
    if name.len() > 100 || name.contains(bad) {
        return Err(format!("`{key}` must be at most 100 bytes without blanks"));
    }
    Ok(name)
}

/// A credential, as it may stand in an HTTP header.
pub fn secret(key: &str, value: Plain) -> Result<Secret, String> {
    let text = not_empty(key, value)?;
    match HeaderValue::from_str(&text) {
        Ok(_) => Ok(Secret::new(text)),
        Err(_) => Err(format!(
            "`{key}` has a character that no HTTP header may have"
        )),
    }
}

/// A host of the `Host` gate.
pub fn host(key: &str, value: Plain) -> Result<String, String> {
    host_name(&text(key, value)?).map_err(|e| format!("`{key}`: {e}"))
}

/// An origin that is let in.
pub fn origin(key: &str, value: Plain) -> Result<String, String> {
    origin_name(&text(key, value)?).map_err(|e| format!("`{key}`: {e}"))
}

/// A host that the `Host` gate may admit: a name or address without port, in lower case.
pub fn host_name(given: &str) -> Result<String, String> {
    let host = given.trim().to_ascii_lowercase();
    let bare = without_brackets(&host);
    if is_host(bare) {
        Ok(bare.to_owned())
    } else {
        Err(format!(
            "{given:?} is not a host name; no scheme, port, path or wildcard"
        ))
    }
}

/// An origin as a browser sends it: `null`, or scheme and host with an optional port.
pub fn origin_name(given: &str) -> Result<String, String> {
    let origin = given.trim();
    let bad = || format!("{given:?} is not an origin; write it like https://app.example:8443");
    if origin == "null" {
        return Ok(origin.to_owned());
    }
    let (scheme, rest) = origin.split_once("://").ok_or_else(bad)?;
    let odd =
        |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | '*' | '?' | '#' | '@');
    if scheme.is_empty() || rest.is_empty() || rest.contains(odd) {
        return Err(bad());
    }
    // Browsers send scheme and host in lower case, and the comparison is exact.
    Ok(origin.to_ascii_lowercase())
}

/// A file or folder; relative ones are relative to the folder of the configuration file, which
/// whoever reads the file puts in front.
pub fn path(key: &str, value: Plain) -> Result<PathBuf, String> {
    let text = not_empty(key, value)?;
    if text.contains('\0') {
        return Err(format!("`{key}` is no path"));
    }
    Ok(text.into())
}

/// A listener's address: an IP address or `localhost`, with a port.
pub fn listen(key: &str, value: Plain) -> Result<SocketAddr, String> {
    let text = text(key, value)?;
    let text = text.trim();
    let bad = || format!("`{key}`: {text:?} is not an address; write it like 127.0.0.1:9090");
    let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
    let bracketed = host.starts_with('[') && host.ends_with(']');
    let ip = match without_brackets(host) {
        host if host.contains(':') && !bracketed => return Err(bad()),
        host => parse_ip(host).or_else(|| loopback(host)).ok_or_else(bad)?,
    };
    match port.parse::<u16>() {
        Ok(port) if port > 0 => Ok(SocketAddr::new(ip, port)),
        _ => Err(format!("`{key}`: port {port:?} is not in 1..65535")),
    }
}

/// The same, on loopback only.
pub fn listen_loopback(key: &str, value: Plain) -> Result<SocketAddr, String> {
    let address = listen(key, value)?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err(format!(
            "`{key}`: {address} is not loopback; it shows what this machine does and has no key"
        )),
    }
}

/// A network, or one address as a network of one.
pub fn cidr(key: &str, value: Plain) -> Result<IpNet, String> {
    let text = text(key, value)?;
    network(text.trim()).map_err(|e| format!("`{key}`: {e}"))
}

/// A network like `10.0.0.0/8`, or one address. An IPv4-mapped address is that IPv4 address.
pub fn network(text: &str) -> Result<IpNet, String> {
    let bad = || format!("{text:?} is not a network; write it like 192.168.1.0/24 or 10.0.0.7");
    if !text.contains('/') {
        return parse_ip(text).map(IpNet::from).ok_or_else(bad);
    }
    let net: IpNet = text.parse().map_err(|_| bad())?;
    if net.trunc() != net {
        // Either the address or the length is a slip, and the two mean different callers.
        let (trunc, one) = (net.trunc(), IpNet::from(net.addr()));
        return Err(format!(
            "{text:?} has bits behind its prefix; write {trunc} for the network or {one} for the \
             one address"
        ));
    }
    Ok(net)
}

/// An http or https URL.
pub fn http_url(key: &str, value: Plain) -> Result<HttpUrl, String> {
    HttpUrl::parse(&text(key, value)?).map_err(|e| format!("`{key}`: {e}"))
}

/// A name without blanks and slashes: it stands in front of the `/` of a virtual model's target.
pub fn provider_name(key: &str, value: Plain) -> Result<String, String> {
    let name = node_name(key, value)?;
    if name.contains('/') {
        return Err(format!("`{key}` must not contain `/`"));
    }
    if name == POOL || EngineId::parse_facade(&name).is_some() {
        return Err(format!(
            "`{key}`: {name:?} already means something as a target; take another name"
        ));
    }
    Ok(name)
}

/// A UUID, in lower case.
pub fn uuid(key: &str, value: Plain) -> Result<String, String> {
    let text = text(key, value)?.trim().to_ascii_lowercase();
    let groups: Vec<_> = text.split('-').collect();
    let hex = |g: &&str| g.bytes().all(|b| b.is_ascii_hexdigit());
    let lengths: Vec<_> = groups.iter().map(|g| g.len()).collect();
    match lengths == [8, 4, 4, 4, 12] && groups.iter().all(hex) {
        true => Ok(text),
        false => Err(format!(
            "`{key}` must be a UUID, like 01234567-89ab-cdef-0123-456789abcdef"
        )),
    }
}
