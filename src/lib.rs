//! nvpair-proxy as a library.

pub mod rules;
