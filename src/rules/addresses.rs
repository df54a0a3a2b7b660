//! Which of a node's advertised addresses to prefer (data plane 3.4).
//!
//! Owns: the ranking. Leaves to others: which addresses this machine has, which of a node's answers
//! (`net`, `state`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// At most so many addresses of a node are considered.
pub const MAX_ADDRESSES: usize = 4;

/// A node's addresses, best first: the TXT `ip=`, then `ips=` in the node's own order, then the
/// other advertised ones by class. An address of this machine becomes `127.0.0.1`, loopback goes to
/// the front, duplicates go.
pub fn rank(addresses: &[String], txt: &[String], is_ours: impl Fn(IpAddr) -> bool) -> Vec<String> {
    let mut ordered: Vec<&str> = Vec::new();
    let entry = |key: &'static str| txt.iter().filter_map(move |t| t.strip_prefix(key));
    ordered.extend(entry("ip="));
    ordered.extend(entry("ips=").flat_map(|list| list.split(',')));
    let mut rest: Vec<&str> = addresses.iter().map(String::as_str).collect();
    rest.sort_by(|a, b| score(b).cmp(&score(a)).then(a.cmp(b)));
    ordered.extend(rest);

    let mut seen = Vec::new();
    for address in ordered {
        let address = address.trim();
        let address = match parse_ip(address) {
            Some(ip) if is_ours(ip) => "127.0.0.1".to_owned(),
            Some(ip) => ip.to_string(),
            None => address.to_owned(),
        };
        if !address.is_empty() && !seen.contains(&address) {
            seen.push(address);
        }
    }
    let loopback = |a: &String| parse_ip(a).is_some_and(|ip| ip.is_loopback());
    // Stable: within each half the ranking stands.
    seen.sort_by_key(|a| !loopback(a));
    seen.truncate(MAX_ADDRESSES);
    seen
}

/// An IP literal, with or without brackets; an IPv4-mapped IPv6 address counts as IPv4.
pub fn parse_ip(text: &str) -> Option<IpAddr> {
    let text = without_brackets(text);
    text.parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
}

/// A host without the brackets that a URL puts around an IPv6 address.
pub fn without_brackets(host: &str) -> &str {
    host.strip_prefix('[')
        .and_then(|h| h.strip_suffix(']'))
        .unwrap_or(host)
}

/// The loopback address that a host means: a literal, or `localhost` (any case, optional final
/// dot), which is 127.0.0.1.
pub fn loopback(host: &str) -> Option<IpAddr> {
    let name = host.strip_suffix('.').unwrap_or(host);
    if name.eq_ignore_ascii_case("localhost") {
        return Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    parse_ip(host).filter(IpAddr::is_loopback)
}

/// Whether a host is a loopback address, or the name `localhost`.
pub fn is_loopback_host(host: &str) -> bool {
    loopback(host).is_some()
}

/// Whether two loopback hosts are the same listener: equal addresses, or `localhost` against
/// either family's own.
pub fn same_loopback(a: &str, b: &str) -> bool {
    let own = |h: &str| {
        parse_ip(h).is_none_or(|ip| {
            ip == IpAddr::V4(Ipv4Addr::LOCALHOST) || ip == IpAddr::V6(Ipv6Addr::LOCALHOST)
        })
    };
    if !is_loopback_host(a) || !is_loopback_host(b) {
        return false;
    }
    match (parse_ip(a), parse_ip(b)) {
        (Some(x), Some(y)) => x == y,
        _ => own(a) && own(b),
    }
}

/// `host:port` as it stands in a URL and in `Host`.
pub fn authority(host: &str, port: u16) -> String {
    match parse_ip(host) {
        Some(IpAddr::V6(ip)) => format!("[{ip}]:{port}"),
        Some(ip) => format!("{ip}:{port}"),
        None => format!("{host}:{port}"),
    }
}

fn score(address: &str) -> i32 {
    match parse_ip(address) {
        None => 60,
        Some(ip) if ip.is_loopback() => -500,
        Some(IpAddr::V4(ip)) => score_v4(ip),
        Some(IpAddr::V6(ip)) => score_v6(ip),
    }
}

fn score_v4(ip: Ipv4Addr) -> i32 {
    let [a, b, ..] = ip.octets();
    if ip.is_link_local() {
        -100
    } else if a == 100 && (64..128).contains(&b) {
        -50
    } else if a == 172 && b == 17 {
        // Container bridges are private too, but hardly ever reachable from elsewhere.
        20
    } else if ip.is_private() {
        100
    } else {
        40
    }
}

fn score_v6(ip: Ipv6Addr) -> i32 {
    if ip.is_unicast_link_local() {
        -100
    } else if ip.is_unique_local() {
        30
    } else {
        20
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranked(addresses: &[&str], txt: &[&str]) -> Vec<String> {
        let own = |s: &[&str]| s.iter().map(|s| s.to_string()).collect::<Vec<_>>();
        rank(&own(addresses), &own(txt), |ip| {
            ip.to_string() == "10.0.0.9"
        })
    }

    #[test]
    fn the_nodes_own_order_goes_before_classes() {
        assert_eq!(
            ranked(
                &["127.0.0.2", "127.0.0.4"],
                &["ip=127.0.0.4", "ips=127.0.0.4,127.0.0.3"]
            ),
            ["127.0.0.4", "127.0.0.3", "127.0.0.2"]
        );
        assert_eq!(
            ranked(&["192.168.1.2"], &["ip=8.8.8.8"]),
            ["8.8.8.8", "192.168.1.2"]
        );
    }

    #[test]
    fn classes_order_the_rest_and_four_are_kept() {
        assert_eq!(
            ranked(
                &[
                    "169.254.1.1",
                    "8.8.8.8",
                    "100.64.0.1",
                    "172.17.0.2",
                    "fd00::1",
                    "b.lan",
                    "10.1.1.1"
                ],
                &[]
            ),
            ["10.1.1.1", "b.lan", "8.8.8.8", "fd00::1"]
        );
        assert_eq!(
            ranked(&["172.17.0.2", "2001:db8::1", "100.64.0.1"], &[])
                .last()
                .unwrap(),
            "100.64.0.1"
        );
    }

    #[test]
    fn our_own_address_becomes_loopback_and_leads() {
        assert_eq!(
            ranked(&["192.168.1.2", "10.0.0.9"], &[]),
            ["127.0.0.1", "192.168.1.2"]
        );
        assert_eq!(
            ranked(&["10.0.0.9", "127.0.0.1", "::ffff:10.0.0.9"], &[]),
            ["127.0.0.1"]
        );
    }

    #[test]
    fn loopback_equality_knows_localhost() {
        for (a, b, want) in [
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("localhost", "127.0.0.1", true),
            ("LOCALHOST.", "::1", true),
            ("localhost", "127.0.0.2", false),
            ("localhost", "localhost", true),
            ("::1", "127.0.0.1", false),
            ("10.0.0.1", "10.0.0.1", false),
        ] {
            assert_eq!(same_loopback(a, b), want, "{a} {b}");
        }
    }

    #[test]
    fn authorities_bracket_ipv6() {
        assert_eq!(authority("::1", 80), "[::1]:80");
        assert_eq!(authority("[fd00::1]", 80), "[fd00::1]:80");
        assert_eq!(authority("tower.lan", 80), "tower.lan:80");
    }
}
