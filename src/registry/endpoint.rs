//! Where a registration may lead (the SSRF rules of product section 7).
//!
//! Owns: looking the endpoint's host up once, judging every address, choosing the one that is kept.
//! Leaves to others: what is judged how (`rules::pool::endpoint`).
//!
//! The address that is given back is the one that is dialled from now on. The name is not looked up
//! again, so whoever owns it cannot turn it towards another machine later.

use std::net::{IpAddr, SocketAddr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::methods::Refusal;
use super::resolve::Resolve;
use crate::net::confirm::best_answering;
use crate::rules::pool::endpoint::{Allow, Endpoint, Refused, admits};
use crate::rules::pool::key::KeyRecord;

/// Addresses that one name may have.
const ADDRESSES: usize = 16;

/// Reads an endpoint.
pub(super) fn parse(text: &str) -> Result<Endpoint, Refusal> {
    Endpoint::parse(text).map_err(|why| Refusal::params(format!("endpoint: {why}")))
}

/// The address to dial.
pub(super) async fn judge(
    endpoint: &Endpoint,
    key: &KeyRecord,
    peer: IpAddr,
    everywhere: &[IpNet],
    resolver: &dyn Resolve,
) -> Result<SocketAddr, Refusal> {
    let host = &endpoint.host;
    let found = match endpoint.literal() {
        Some(ip) => vec![ip],
        None => resolver.lookup(host).await.map_err(|e| {
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
    let allow = allowed(key, peer)?;
    for address in &addresses {
        admits(host, *address, &allow)
            .map_err(|refused| Refusal::forbidden(refusal(host, &refused, key, peer)))?;
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
fn allowed(key: &KeyRecord, peer: IpAddr) -> Result<Vec<Allow>, Refusal> {
    if !key.allow.is_empty() {
        return Ok(key.allow());
    }
    // Not as if it were listed: through a tunnel or a proxy on this machine every call comes from
    // a loopback address, which must not open this machine's own services.
    let (v4, v6) = (Ipv4Net::default(), Ipv6Net::default());
    let ordinary = [Allow::Net(v4.into()), Allow::Net(v6.into())];
    admits("", peer, &ordinary).map_err(|refused| {
        Refusal::forbidden(format!(
            "the key has no allow list, so the endpoint would have to be where the call comes \
             from, and {refused}; make a key with `--allow {peer}` if that is meant"
        ))
    })?;
    Ok(vec![Allow::peer(peer)])
}

fn refusal(host: &str, refused: &Refused, key: &KeyRecord, peer: IpAddr) -> String {
    let named = match refused.address.to_string() == host {
        true => String::new(),
        false => format!("{host:?} leads to "),
    };
    let whose = match key.allow.is_empty() {
        true => format!(" (it has none, so that is {peer}, where the call comes from)"),
        false => String::new(),
    };
    format!(
        "endpoint: {named}{refused}{whose}; make a key with `nodes keys create … --allow {}` if \
         it is meant",
        refused.address
    )
}

/// Of several, the one that answers now; all of them were judged.
async fn best(addresses: &[IpAddr], port: u16) -> IpAddr {
    let first = addresses[0].to_canonical();
    if addresses.len() == 1 {
        return first;
    }
    let texts: Vec<String> = addresses
        .iter()
        .map(|a| a.to_canonical().to_string())
        .collect();
    let best = best_answering(&texts, port).await;
    best.and_then(|text| text.parse().ok()).unwrap_or(first)
}
