//! Addresses of every kind: of a method, of a node, of an alias; and numbers with units.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nvpair_proxy::config::node_url::NodeUrl;
use nvpair_proxy::rules::engine::EngineId;
use nvpair_proxy::rules::{address, addresses, port, units};

fuzz_target!(|text: &str| {
    match address::split(text) {
        (Some(engine), bare) => assert_eq!(format!("{engine}:{bare}"), text),
        (None, bare) => assert_eq!(bare, text),
    }
    if let Ok(alias) = port::alias(text) {
        assert!(alias.ip().is_loopback() && alias.port() > 0);
    }
    let parts: Vec<_> = text.split(' ').map(str::to_owned).collect();
    for engine in EngineId::all() {
        if let Ok(aliases) = port::aliases(engine, &parts, 11434) {
            assert!(aliases.len() <= 2);
            assert!(aliases.iter().all(|a| a.port() != 11434));
        }
    }
    let ranked = addresses::rank(&parts, &parts, |ip| ip.is_ipv6());
    assert!(ranked.len() <= addresses::MAX_ADDRESSES);
    for (i, address) in ranked.iter().enumerate() {
        assert!(!address.is_empty() && !ranked[..i].contains(address));
    }
    if let Some(ip) = addresses::loopback(text) {
        assert!(ip.is_loopback());
    }
    assert_eq!(
        addresses::is_loopback_host(text),
        addresses::loopback(text).is_some()
    );
    if let Ok(url) = NodeUrl::parse(text) {
        assert!(!url.authority().is_empty());
    }
    drop(units::parse_duration(text));
    drop(units::parse_size(text));
});
