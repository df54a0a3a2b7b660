//! Who is let in: a plain request meets the same checks as any other, and no foreign name passes.

#![no_main]

use std::net::{IpAddr, Ipv4Addr};

use libfuzzer_sys::fuzz_target;
use nvpair_proxy::rules::ingress::{Caller, Door, Refusal};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fuzz_target!(|text: (&str, Option<&str>, bool)| {
    let (host, origin, probe) = text;
    let origins = ["http://a.test".to_owned()];
    let door = Door {
        machine: "study-pc",
        hosts: &[],
        origins: Some(&origins),
        networks: &[],
        needs_tls: false,
    };
    let (Ok(value), Ok(from)) = (
        http::HeaderValue::from_str(host),
        origin.map(http::HeaderValue::from_str).transpose(),
    ) else {
        return;
    };
    let mut headers = http::HeaderMap::new();
    headers.insert(http::header::HOST, value);
    if let Some(from) = from {
        headers.insert(http::header::ORIGIN, from);
    }
    if probe {
        headers.insert(
            "x-nvpair-engine-identity-probe",
            http::HeaderValue::from_static("1"),
        );
    }
    let refused = door.refuses(&Caller::at(HERE), true, None, &headers);
    let plain = door.refuses_plain(HERE, host, probe, origin.map(str::as_bytes));
    // Beyond ASCII a header is no text, and its host nobody's.
    if host.is_ascii() {
        assert_eq!(refused, plain);
    }
    if refused.is_none() {
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let name = name.trim_matches(['[', ']', '.']).to_ascii_lowercase();
        let reserved = [".localhost", ".internal"]
            .iter()
            .any(|end| name.ends_with(end));
        let ours = name == "study-pc" || name == "localhost" || reserved;
        let ip = |name: &str| {
            name.parse::<IpAddr>()
                .is_ok_and(|ip| ip.to_canonical().is_loopback())
        };
        assert!(
            ours || ip(&name) || ip(host.trim_matches(['[', ']'])),
            "{host:?}"
        );
        assert!(!probe);
    }
    let away = IpAddr::from([10, 0, 0, 1]);
    assert_eq!(
        door.refuses(&Caller::at(away), true, None, &headers),
        Some(Refusal::LoopbackOnly)
    );
});
