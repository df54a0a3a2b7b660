//! HTTP/1.1 read as bytes: just enough to carry a plain request and its answer without a library
//! in between.
//!
//! Owns: which request heads are plain, which are refused, the lines of a forwarded head, where a body
//! ends.
//! Leaves to others: everything that is not plain (the HTTP library behind `facade::exchange`).

pub mod framing;
pub mod request;
pub mod response;
pub mod strict;
