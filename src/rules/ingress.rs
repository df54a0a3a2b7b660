//! Who may come in at the plaintext door (spec §7, product section 10).
//!
//! Owns: the order of the checks and what each looks at. Leaves to others: the answers' form
//! (`net::answers`).

use std::net::IpAddr;

use http::{HeaderMap, header};

use super::addresses::is_loopback_host;

/// Header by which an engine's manager asks "are you the engine?".
pub const IDENTITY_PROBE: &str = "x-nvpair-engine-identity-probe";

/// Why a request is refused at the door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The caller is not on this machine: 403 `loopback-only`.
    LoopbackOnly,
    /// HTTP/1.1 without `Host`, or with several: 400.
    NoHost,
    /// A web page that got here by DNS rebinding would carry such a name: 403 `host-not-allowed`.
    HostNotAllowed,
    /// An identity probe: 409 `proxy-facade`, so that nobody takes us for an engine.
    NotTheEngine,
    /// 403 `origin-not-allowed`.
    OriginNotAllowed,
    /// A target that is neither a path nor a URL: 400 `bad-target`.
    BadTarget,
    /// A `CONNECT`: 405 `no-tunnels`.
    NoTunnels,
}

/// What the door knows.
#[derive(Clone, Copy, Debug)]
pub struct Door<'a> {
    /// This machine's name.
    pub machine: &'a str,
    /// Further names allowed in `Host`, lower case.
    pub hosts: &'a [String],
    /// Origins let in; `None` = any.
    pub origins: Option<&'a [String]>,
}

impl Door<'_> {
    /// The first check that a plaintext request fails.
    pub fn refuses(
        &self,
        client: IpAddr,
        needs_host: bool,
        target_host: Option<&str>,
        headers: &HeaderMap,
    ) -> Option<Refusal> {
        if !client.to_canonical().is_loopback() {
            return Some(Refusal::LoopbackOnly);
        }
        let mut hosts = headers.get_all(header::HOST).iter();
        match (hosts.next(), hosts.next()) {
            (None, _) if needs_host => return Some(Refusal::NoHost),
            (Some(_), Some(_)) => return Some(Refusal::NoHost),
            (host, _) => {
                let host = host.map(|h| h.to_str().unwrap_or("\0"));
                // In absolute form the target names the host too, and a proxy has to heed it.
                if !host
                    .into_iter()
                    .chain(target_host)
                    .all(|h| self.allows_host(h))
                {
                    return Some(Refusal::HostNotAllowed);
                }
            },
        }
        let probe = headers.get(IDENTITY_PROBE).is_some_and(|v| v == "1");
        self.refuses_to(
            probe,
            headers.get(header::ORIGIN).map(http::HeaderValue::as_bytes),
        )
    }

    /// The same for a request of which only these are known to matter: from this machine, with one
    /// `Host`.
    pub fn refuses_plain(
        &self,
        client: IpAddr,
        host: &str,
        probe: bool,
        origin: Option<&[u8]>,
    ) -> Option<Refusal> {
        if !client.to_canonical().is_loopback() {
            Some(Refusal::LoopbackOnly)
        } else if !self.allows_host(host) {
            Some(Refusal::HostNotAllowed)
        } else {
            self.refuses_to(probe, origin)
        }
    }

    /// The checks behind address and host.
    fn refuses_to(&self, probe: bool, origin: Option<&[u8]>) -> Option<Refusal> {
        if probe {
            return Some(Refusal::NotTheEngine);
        }
        let (allowed, origin) = (self.origins?, origin?);
        let listed = allowed.iter().any(|o| o.as_bytes() == origin);
        (!listed).then_some(Refusal::OriginNotAllowed)
    }

    fn allows_host(&self, authority: &str) -> bool {
        let Some(host) = host_of(authority) else {
            return false;
        };
        // First what clients on this machine nearly always write.
        if host == "127.0.0.1" || host == "localhost" || is_loopback_host(host) {
            return true;
        }
        let host = host.strip_suffix('.').unwrap_or(host);
        let named = |suffix: &str| {
            host.len() > suffix.len()
                && host.is_char_boundary(host.len() - suffix.len())
                && host[host.len() - suffix.len()..].eq_ignore_ascii_case(suffix)
        };
        // Neither exists in public DNS, so no foreign page can have such a name.
        named(".localhost")
            || named(".internal")
            || (!self.machine.is_empty() && host.eq_ignore_ascii_case(self.machine))
            || self.hosts.iter().any(|h| h.eq_ignore_ascii_case(host))
    }
}

/// The host of `host:port`; `None` if it is no authority.
fn host_of(authority: &str) -> Option<&str> {
    let is_port = |p: &str| p.is_empty() || p.parse::<u16>().is_ok();
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        return (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)).then_some(host);
    }
    match authority.split_once(':') {
        None => (!authority.is_empty()).then_some(authority),
        Some((host, port)) => (!host.is_empty() && is_port(port)).then_some(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn door<'a>(hosts: &'a [String], origins: Option<&'a [String]>) -> Door<'a> {
        Door {
            machine: "study-pc",
            hosts,
            origins,
        }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut h = HeaderMap::new();
        for (k, v) in pairs {
            h.append(*k, v.parse().unwrap());
        }
        h
    }

    #[test]
    fn hosts_of_this_machine_pass_and_others_do_not() {
        let extra = ["proxy.lan".to_owned()];
        let d = door(&extra, None);
        for (host, passes) in [
            ("localhost", true),
            ("localhost:11434", true),
            ("LOCALHOST.:1", true),
            ("127.0.0.1:11434", true),
            ("127.9.9.9", true),
            ("[::1]:80", true),
            ("[::1]", true),
            ("Study-PC:11434", true),
            ("ollama.localhost:1", true),
            ("host.docker.internal:1", true),
            ("proxy.lan", true),
            ("evil.example", false),
            ("localhost.evil.example", false),
            ("internal", false),
            (".internal", false),
            ("192.168.1.5:11434", false),
            ("study-pc.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("[::1", false),
            ("localhost:99999", false),
            ("user@localhost", false),
            ("", false),
        ] {
            let h = headers(&[("host", host)]);
            assert_eq!(
                d.refuses(HERE, true, None, &h).is_none(),
                passes,
                "{host:?}"
            );
        }
    }

    #[test]
    fn the_checks_come_in_order() {
        let none: [String; 0] = [];
        let d = door(&[], Some(&none));
        let all = headers(&[
            ("host", "evil"),
            (IDENTITY_PROBE, "1"),
            ("origin", "http://a"),
        ]);
        let away = IpAddr::from([10, 0, 0, 1]);
        assert_eq!(
            d.refuses(away, true, None, &all),
            Some(Refusal::LoopbackOnly)
        );
        assert_eq!(
            d.refuses(HERE, true, None, &all),
            Some(Refusal::HostNotAllowed)
        );
        let ok = headers(&[
            ("host", "localhost"),
            (IDENTITY_PROBE, "1"),
            ("origin", "http://a"),
        ]);
        assert_eq!(
            d.refuses(HERE, true, None, &ok),
            Some(Refusal::NotTheEngine)
        );
        let ok = headers(&[("host", "localhost"), ("origin", "http://a")]);
        assert_eq!(
            d.refuses(HERE, true, None, &ok),
            Some(Refusal::OriginNotAllowed)
        );
        assert_eq!(
            d.refuses(HERE, true, None, &headers(&[("host", "localhost")])),
            None
        );
    }

    #[test]
    fn a_host_is_needed_once() {
        let d = door(&[], None);
        assert_eq!(
            d.refuses(HERE, true, None, &HeaderMap::new()),
            Some(Refusal::NoHost)
        );
        assert_eq!(
            d.refuses(HERE, false, None, &HeaderMap::new()),
            None,
            "HTTP/1.0"
        );
        let two = headers(&[("host", "localhost"), ("host", "localhost")]);
        assert_eq!(d.refuses(HERE, true, None, &two), Some(Refusal::NoHost));
        let h = headers(&[("host", "localhost")]);
        assert_eq!(
            d.refuses(HERE, true, Some("evil:80"), &h),
            Some(Refusal::HostNotAllowed)
        );
    }

    #[test]
    fn listed_origins_match_exactly_and_null_may_be_listed() {
        let origins = ["http://a.test".to_owned(), "null".to_owned()];
        let d = door(&[], Some(&origins));
        for (origin, passes) in [
            ("http://a.test", true),
            ("null", true),
            ("http://A.test", false),
            ("http://a.test:1", false),
        ] {
            let h = headers(&[("host", "localhost"), ("origin", origin)]);
            assert_eq!(
                d.refuses(HERE, true, None, &h).is_none(),
                passes,
                "{origin}"
            );
        }
    }

    #[test]
    fn a_plain_request_meets_the_same_checks() {
        let (origins, away) = (["http://a".to_owned()], IpAddr::from([10, 0, 0, 1]));
        let d = door(&[], Some(&origins));
        for client in [HERE, away] {
            for host in ["localhost", "evil"] {
                for probe in [false, true] {
                    for origin in [None, Some("http://a"), Some("http://b")] {
                        let mut h = headers(&[("host", host)]);
                        if probe {
                            h.insert(IDENTITY_PROBE, "1".parse().unwrap());
                        }
                        if let Some(origin) = origin {
                            h.insert("origin", origin.parse().unwrap());
                        }
                        let plain = d.refuses_plain(client, host, probe, origin.map(str::as_bytes));
                        assert_eq!(plain, d.refuses(client, true, None, &h));
                    }
                }
            }
        }
    }

    #[test]
    fn ipv4_mapped_loopback_is_loopback() {
        let mapped: IpAddr = "::ffff:127.0.0.1".parse().unwrap();
        assert_eq!(
            door(&[], None).refuses(mapped, true, None, &headers(&[("host", "localhost")])),
            None
        );
    }
}
