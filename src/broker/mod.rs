//! Layer 6: the JSON-RPC link to the broker. It turns lines into commands and notices into lines;
//! it may ask the daemon, never act for it.

pub mod codec;
pub mod decode;
pub mod go;
pub mod link;
pub mod notices;
pub mod outbox;
pub mod transport;
