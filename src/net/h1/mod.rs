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

/// A length in a head: up to 18 digits, which always fit, and nothing else.
fn length(digits: &[u8]) -> Option<u64> {
    let plain = (1..=18).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    plain.then(|| {
        digits
            .iter()
            .fold(0, |n, digit| n * 10 + u64::from(digit - b'0'))
    })
}
