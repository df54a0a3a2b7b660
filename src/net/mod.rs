//! Layer 2: bytes in and out.

pub mod answers;
pub mod body;
pub mod client_io;
pub mod client_tls;
pub mod confirm;
pub mod descriptors;
pub mod fetch;
pub mod h1;
pub mod headers;
pub mod identity;
pub mod interfaces;
pub mod listen;
pub mod members;
pub mod places;
pub mod probe;
pub mod public_tls;
pub mod rewound;
pub mod server_tls;
pub mod sockets;
pub mod stir;
pub mod stream;
pub mod strict_io;
pub mod tls;
pub mod upstream;
pub mod usage_collector;
pub mod watched;
