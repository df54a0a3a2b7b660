//! nvpair-proxy.
fn main() {}
