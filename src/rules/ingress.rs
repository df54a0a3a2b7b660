//! Who may come in at the plaintext door (spec §7, product section 10).
//!
//! Owns: the order of the checks and what each looks at. Leaves to others: the answers' form
//! (`net::answers`).

use std::net::IpAddr;

use http::{HeaderMap, header};
use ipnet::IpNet;

use super::addresses::{is_loopback_host, parse_ip};

/// Header by which an engine's manager asks "are you the engine?".
pub const IDENTITY_PROBE: &str = "x-nvpair-engine-identity-probe";

/// Why a request is refused at the door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The caller is not on this machine: 403 `loopback-only`.
    LoopbackOnly,
    /// The caller is beyond loopback and in no network that is let in: 403 `address-not-allowed`.
    AddressNotAllowed,
    /// The caller is beyond loopback and speaks in the clear where a certificate is configured: 403
    /// `tls-required`.
    TlsRequired,
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

impl Refusal {
    /// What a well-formed probe of an engine can meet. From another machine the door's come first.
    const OF_A_PROBE: [Self; 5] = [
        Self::LoopbackOnly,
        Self::AddressNotAllowed,
        Self::TlsRequired,
        Self::HostNotAllowed,
        Self::NotTheEngine,
    ];

    /// The code for programs.
    pub const fn code(self) -> &'static str {
        match self {
            Self::LoopbackOnly => "loopback-only",
            Self::AddressNotAllowed => "address-not-allowed",
            Self::TlsRequired => "tls-required",
            Self::NoHost => "bad-host",
            Self::HostNotAllowed => "host-not-allowed",
            Self::NotTheEngine => "proxy-facade",
            Self::OriginNotAllowed => "origin-not-allowed",
            Self::BadTarget => "bad-target",
            Self::NoTunnels => "no-tunnels",
        }
    }

    /// Whether it is a facade that refused a probe with this code.
    pub fn meets_a_probe(code: &str) -> bool {
        Self::OF_A_PROBE.iter().any(|r| r.code() == code)
    }
}

/// Who is at the door.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// Where it calls from.
    pub from: IpAddr,
    /// The address of ours that it called, where that is known.
    pub to: Option<IpAddr>,
    /// Whether it speaks TLS.
    pub tls: bool,
}

impl Caller {
    /// One that is only known by where it calls from, and speaks in the clear.
    pub fn at(from: IpAddr) -> Self {
        Self {
            from,
            to: None,
            tls: false,
        }
    }

    /// Whether it calls from this machine, by loopback.
    pub fn is_here(&self) -> bool {
        self.from.to_canonical().is_loopback()
    }
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
    /// Networks whose callers may come in, with a key; empty = none.
    pub networks: &'a [IpNet],
    /// Whether callers beyond loopback have to speak TLS.
    pub needs_tls: bool,
}

impl Door<'_> {
    /// The first check that a plaintext request fails.
    pub fn refuses(
        &self,
        caller: &Caller,
        needs_host: bool,
        target_host: Option<&str>,
        headers: &HeaderMap,
    ) -> Option<Refusal> {
        if let Some(refusal) = self.refuses_address(caller) {
            return Some(refusal);
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
                    .all(|h| self.allows_host(h) || self.is_called_by(h, caller))
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

    fn refuses_address(&self, caller: &Caller) -> Option<Refusal> {
        let from = caller.from.to_canonical();
        if caller.is_here() {
            None
        } else if self.networks.is_empty() {
            Some(Refusal::LoopbackOnly)
        } else if !self.networks.iter().any(|n| n.contains(&from)) {
            Some(Refusal::AddressNotAllowed)
        } else if self.needs_tls && !caller.tls {
            Some(Refusal::TlsRequired)
        } else {
            None
        }
    }

    /// Whether a caller beyond loopback names this machine as it is known there: by the address that
    /// it called, or by the machine's name on the local network. A page that was rebound to this
    /// machine has a name of its own in `Host`, and never an address.
    fn is_called_by(&self, authority: &str, caller: &Caller) -> bool {
        let Some(host) = host_of(authority).filter(|_| !caller.is_here()) else {
            return false;
        };
        let called = caller.to.map(|ip| ip.to_canonical());
        if called.is_some() && parse_ip(host).map(|ip| ip.to_canonical()) == called {
            return true;
        }
        let host = host.strip_suffix('.').unwrap_or(host);
        before(host, ".local").is_some_and(|name| name.eq_ignore_ascii_case(self.machine))
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
        if !Caller::at(client).is_here() {
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
        // Neither exists in public DNS, so no foreign page can have such a name.
        before(host, ".localhost").is_some()
            || before(host, ".internal").is_some()
            || (!self.machine.is_empty() && host.eq_ignore_ascii_case(self.machine))
            || self.hosts.iter().any(|h| h.eq_ignore_ascii_case(host))
    }
}

/// What stands before this end of a host, in any case; `None` if nothing does, or the end is another.
fn before<'a>(host: &'a str, end: &str) -> Option<&'a str> {
    let at = host.len().checked_sub(end.len())?;
    let (name, tail) = host.split_at_checked(at)?;
    (!name.is_empty() && tail.eq_ignore_ascii_case(end)).then_some(name)
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
            networks: &[],
            needs_tls: false,
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
                d.refuses(&Caller::at(HERE), true, None, &h).is_none(),
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
            d.refuses(&Caller::at(away), true, None, &all),
            Some(Refusal::LoopbackOnly)
        );
        assert_eq!(
            d.refuses(&Caller::at(HERE), true, None, &all),
            Some(Refusal::HostNotAllowed)
        );
        let ok = headers(&[
            ("host", "localhost"),
            (IDENTITY_PROBE, "1"),
            ("origin", "http://a"),
        ]);
        assert_eq!(
            d.refuses(&Caller::at(HERE), true, None, &ok),
            Some(Refusal::NotTheEngine)
        );
        let ok = headers(&[("host", "localhost"), ("origin", "http://a")]);
        assert_eq!(
            d.refuses(&Caller::at(HERE), true, None, &ok),
            Some(Refusal::OriginNotAllowed)
        );
        assert_eq!(
            d.refuses(
                &Caller::at(HERE),
                true,
                None,
                &headers(&[("host", "localhost")])
            ),
            None
        );
    }

    #[test]
    fn a_host_is_needed_once() {
        let d = door(&[], None);
        assert_eq!(
            d.refuses(&Caller::at(HERE), true, None, &HeaderMap::new()),
            Some(Refusal::NoHost)
        );
        assert_eq!(
            d.refuses(&Caller::at(HERE), false, None, &HeaderMap::new()),
            None,
            "HTTP/1.0"
        );
        let two = headers(&[("host", "localhost"), ("host", "localhost")]);
        assert_eq!(
            d.refuses(&Caller::at(HERE), true, None, &two),
            Some(Refusal::NoHost)
        );
        let h = headers(&[("host", "localhost")]);
        assert_eq!(
            d.refuses(&Caller::at(HERE), true, Some("evil:80"), &h),
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
                d.refuses(&Caller::at(HERE), true, None, &h).is_none(),
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
                        assert_eq!(plain, d.refuses(&Caller::at(client), true, None, &h));
                    }
                }
            }
        }
    }

    #[test]
    fn ipv4_mapped_loopback_is_loopback() {
        let mapped: IpAddr = "::ffff:127.0.0.1".parse().unwrap();
        assert_eq!(
            door(&[], None).refuses(
                &Caller::at(mapped),
                true,
                None,
                &headers(&[("host", "localhost")])
            ),
            None
        );
    }

    #[test]
    fn beyond_loopback_a_network_has_to_be_listed_and_tls_spoken_where_it_is_configured() {
        let lan: [IpNet; 2] = ["10.0.0.0/8".parse().unwrap(), "fd00::/64".parse().unwrap()];
        let h = headers(&[("host", "localhost")]);
        for (from, networks, needs_tls, tls, want) in [
            ("127.0.0.1", &lan[..0], false, false, None),
            ("127.0.0.1", &lan, true, false, None),
            ("::1", &lan, true, false, None),
            ("10.1.2.3", &[], false, false, Some(Refusal::LoopbackOnly)),
            ("10.1.2.3", &[], true, true, Some(Refusal::LoopbackOnly)),
            ("10.1.2.3", &lan, false, false, None),
            ("::ffff:10.1.2.3", &lan, false, false, None),
            ("fd00::7", &lan, false, false, None),
            (
                "11.0.0.1",
                &lan,
                false,
                false,
                Some(Refusal::AddressNotAllowed),
            ),
            (
                "11.0.0.1",
                &lan,
                true,
                true,
                Some(Refusal::AddressNotAllowed),
            ),
            ("10.1.2.3", &lan, true, false, Some(Refusal::TlsRequired)),
            ("10.1.2.3", &lan, true, true, None),
        ] {
            let d = Door {
                networks,
                needs_tls,
                ..door(&[], None)
            };
            let caller = Caller {
                tls,
                ..Caller::at(from.parse().unwrap())
            };
            assert_eq!(d.refuses(&caller, true, None, &h), want, "{from} {tls}");
        }
    }

    #[test]
    fn a_caller_beyond_loopback_names_the_address_it_called_or_the_machine() {
        let lan: [IpNet; 1] = ["10.0.0.0/8".parse().unwrap()];
        let extra = ["proxy.lan".to_owned()];
        let d = Door {
            networks: &lan,
            ..door(&extra, None)
        };
        let called = |to: &str| Caller {
            to: to.parse().ok(),
            ..Caller::at([10, 0, 0, 9].into())
        };
        for (to, host, passes) in [
            ("10.0.0.5", "10.0.0.5:11434", true),
            ("::ffff:10.0.0.5", "10.0.0.5", true),
            ("10.0.0.5", "10.0.0.6:11434", false),
            ("", "10.0.0.5", false),
            ("fd00::5", "[fd00::5]:1", true),
            ("fd00::5", "[fd00::6]:1", false),
            ("10.0.0.5", "study-pc", true),
            ("10.0.0.5", "Study-PC.local:1", true),
            ("10.0.0.5", "study-pc.local.", true),
            ("10.0.0.5", "study-pc.lan", false),
            ("10.0.0.5", "x.local", false),
            ("10.0.0.5", "proxy.lan", true),
            ("10.0.0.5", "evil.example", false),
            ("10.0.0.5", "10.0.0.5.evil.example", false),
        ] {
            let h = headers(&[("host", host)]);
            let refused = d.refuses(&called(to), true, None, &h);
            assert_eq!(refused.is_none(), passes, "{to} {host}");
        }
        // On this machine nothing changes: its own name of the network is nobody's there.
        let h = headers(&[("host", "study-pc.local")]);
        let here = Caller {
            to: Some(HERE),
            ..Caller::at(HERE)
        };
        assert_eq!(
            d.refuses(&here, true, None, &h),
            Some(Refusal::HostNotAllowed)
        );
        let h = headers(&[("host", "10.0.0.5"), ("origin", "http://a")]);
        let refused = d.refuses(&called("10.0.0.5"), true, Some("evil"), &h);
        assert_eq!(
            refused,
            Some(Refusal::HostNotAllowed),
            "the target counts too"
        );
    }
}
