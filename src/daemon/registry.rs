//! The node registry out of its settings.
//!
//! Owns: which certificate it serves, how many connections stay, and how workers are told to reach
//! it. Leaves to others: the pool behind it (`state`), the listener itself (`registry`), where it runs
//! (`thread`).

mod thread;

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use crate::config::pool::PoolSettings;
use crate::net::interfaces::Interfaces;
use crate::net::server_tls::ServerTls;
use crate::registry::Options;
use crate::rules::addresses::authority;
use crate::rules::rate::PerMinute;
use crate::state::fleet::{Fleet, PoolDesk};
use crate::store::certificate::OwnCertificate;
pub use thread::Server;

/// Connections of workers that stay, at most. Each costs some 25 kB.
const STAYING: u64 = 16_384;

/// A registry that listens.
pub struct Opened {
    /// It, until it is stopped or dropped.
    pub server: Server,
    /// What the control socket needs of it: for [`crate::state::shared::Shared::set_pool`].
    pub desk: PoolDesk,
}

/// How many connections of workers stay in a process that may have so many open descriptors; `None` =
/// any number.
pub fn staying(descriptors: Option<u64>) -> usize {
    (descriptors.unwrap_or(u64::MAX) / 8).min(STAYING) as usize
}

/// Starts the registry, where so many connections stay. `state_dir` keeps its certificate where none is configured and other
/// machines reach it; `machine` is this host's name.
///
/// # Errors
/// A sentence that says what to do.
pub fn open(
    settings: &PoolSettings,
    state_dir: Option<&Path>,
    machine: &str,
    staying: usize,
    fleet: Arc<dyn Fleet>,
) -> Result<Opened, String> {
    let tls = certificate(settings, state_dir, machine)?.map(Arc::new);
    let options = Options {
        tls: tls.clone(),
        allowed_endpoints: settings.allowed_endpoints.clone(),
        registrations: PerMinute::new(settings.registrations_per_minute),
        staying,
        ..Options::standard(settings.listen)
    };
    let server = thread::start(options, fleet.clone())?;
    let proxy_addr = reached(server.address(), machine);
    let fingerprint = move || tls.as_ref().map(|tls| tls.fingerprint());
    Ok(Opened {
        server,
        desk: PoolDesk {
            usage: None,
            fleet,
            proxy_addr,
            fingerprint: Arc::new(fingerprint),
        },
    })
}

/// The configured certificate, else one of our own where other machines come in.
fn certificate(
    settings: &PoolSettings,
    state_dir: Option<&Path>,
    machine: &str,
) -> Result<Option<ServerTls>, String> {
    let (certificate, key) = match &settings.tls {
        Some(files) => (files.cert.clone(), files.key.clone()),
        None if settings.listen.ip().to_canonical().is_loopback() => return Ok(None),
        None => {
            let folder = state_dir.ok_or(
                "the node registry needs a certificate and there is no state folder to keep one \
                 in; give `tls_cert` and `tls_key` in [pool], or listen on 127.0.0.1",
            )?;
            let own = OwnCertificate::keep(folder, names(settings.listen.ip(), machine))?;
            (own.certificate, own.key)
        },
    };
    let opened = ServerTls::open(&certificate, &key);
    opened.map(Some).map_err(|e| e.to_string())
}

/// Names that a worker may know this machine by.
fn names(listen: IpAddr, machine: &str) -> Vec<String> {
    let addresses = match listen.is_unspecified() {
        true => Interfaces::read().list(),
        false => vec![listen],
    };
    let mut names = vec![machine.to_owned(), "localhost".to_owned()];
    names.extend(addresses.iter().map(IpAddr::to_string));
    names
}

/// The address as other machines would write it.
fn reached(address: SocketAddr, machine: &str) -> String {
    let host = match address.ip() {
        ip if ip.is_unspecified() => machine.to_owned(),
        ip => ip.to_string(),
    };
    authority(&host, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_told_a_name_where_every_address_is_listened_on() {
        let at = |text: &str| reached(text.parse().unwrap(), "gw");
        assert_eq!(at("0.0.0.0:9090"), "gw:9090");
        assert_eq!(at("[::]:9090"), "gw:9090");
        assert_eq!(at("10.0.0.1:1"), "10.0.0.1:1");
        assert_eq!(at("[fd00::1]:1"), "[fd00::1]:1");
    }

    #[test]
    fn other_machines_meet_a_certificate_of_our_own_and_loopback_none() {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = PoolSettings::default();
        assert!(certificate(&settings, None, "gw").unwrap().is_none());
        settings.listen = "0.0.0.0:0".parse().unwrap();
        let told = certificate(&settings, None, "gw").err().unwrap();
        assert!(told.contains("`tls_cert`"), "{told}");
        let made = certificate(&settings, Some(dir.path()), "gw").unwrap();
        let again = certificate(&settings, Some(dir.path()), "gw").unwrap();
        let told = |tls: Option<ServerTls>| tls.unwrap().fingerprint();
        assert_eq!(told(made), told(again));
    }
}
