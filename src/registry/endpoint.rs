//! Where a registration may lead (the SSRF rules of product section 7).
//!
//! Owns: looking the endpoint's host up once, judging every address, choosing the one that is kept.
//! Leaves to others: what is judged how (`rules::pool::endpoint`).
//!
//! The address that is given back is the one that is dialled from now on. The name is not looked up
//! again, so whoever owns it cannot turn it towards another machine later.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use super::methods::Refusal;
use super::resolve::Resolve;
use crate::net::confirm::best_answering;
use crate::rules::pool::endpoint::{Allow, Endpoint, admits};

/// Addresses that one name may have.
const ADDRESSES: usize = 16;

/// Reads an endpoint.
pub(super) fn parse(text: &str) -> Result<Endpoint, Refusal> {
    Endpoint::parse(text).map_err(|why| Refusal::params(format!("endpoint: {why}")))
}

/// The address to dial.
pub(super) async fn judge(
    endpoint: &Endpoint,
    allow: &[String],
    peer: IpAddr,
    everywhere: &[IpNet],
    resolver: &dyn Resolve,
) -> Result<SocketAddr, Refusal> {
    let host = &endpoint.host;
    let found = match host.parse::<IpAddr>() {
        Ok(ip) => vec![ip],
        Err(_) => resolver.lookup(host).await.map_err(|e| {
            Refusal::unavailable(format!(
                "endpoint: the gateway cannot find an address of {host:?}: {e}; register an \
                 address, or a name that it can look up"
            ))
        })?,
    };
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in found {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() || addresses.len() > ADDRESSES {
        return Err(Refusal::forbidden(format!(
            "endpoint: {host:?} has {} addresses and may have 1 to {ADDRESSES}",
            addresses.len()
        )));
    }
    let allow = allowed(allow, peer)?;
    for address in &addresses {
        admits(host, *address, &allow)
            .map_err(|refused| Refusal::forbidden(format!("endpoint: {refused}")))?;
        let address = address.to_canonical();
        if !everywhere.is_empty() && !everywhere.iter().any(|net| net.contains(&address)) {
            return Err(Refusal::forbidden(format!(
                "endpoint: {address} is outside of `allowed_endpoints` in the gateway's [pool]"
            )));
        }
    }
    Ok((best(&addresses, endpoint.port).await, endpoint.port).into())
}

/// The key's allow list; without one, the address that the call comes from.
fn allowed(allow: &[String], peer: IpAddr) -> Result<Vec<Allow>, Refusal> {
    if allow.is_empty() {
        // Not as if it were listed: through a tunnel or a proxy of the gateway's own every call
        // comes from a loopback address, which must not open the gateway's own services.
        return Ok(vec![Allow::Net(IpNet::from(peer))]);
    }
    let each = allow.iter().map(|text| {
        Allow::parse(text).map_err(|_| {
            Refusal::forbidden(format!("the key's allow list has {text:?}, which is no network and no host; make a new key"))
        })
    });
    each.collect()
}

/// Of several, the one that answers now; all of them were judged.
async fn best(addresses: &[IpAddr], port: u16) -> IpAddr {
    let first = addresses[0].to_canonical();
    if addresses.len() == 1 {
        return first;
    }
    let texts: Vec<String> = addresses.iter().map(|a| a.to_canonical().to_string()).collect();
    let best = best_answering(&texts, port).await;
    best.and_then(|text| text.parse().ok()).unwrap_or(first)
}
