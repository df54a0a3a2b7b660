//! Where a pool node may serve (the SSRF rules of product section 7).
//!
//! Owns: which URLs are endpoints and which addresses may be dialled for them. Leaves to others:
//! resolving names, dialling exactly the address that was judged.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

/// The part of a URL that says how to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// In the clear.
    Http,
    /// Over TLS.
    Https,
}

/// Where a pool node serves.
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The address as it was resolved.
    pub address: IpAddr,
    /// Why not, and what to do.
    pub why: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.address, self.why)
    }
}
