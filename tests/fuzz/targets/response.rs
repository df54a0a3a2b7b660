//! An engine's bytes: the head of its answer, and where the body ends however it is cut.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nvpair_proxy::net::h1::framing::Tracker;
use nvpair_proxy::net::h1::response::read;
use nvpair_proxy_fuzz::PIECES;

fuzz_target!(|raw: &[u8]| {
    for bytes in [raw, &[b"HTTP/1.1 200 OK\r\n", raw].concat()] {
        if let Ok(Some(head)) = read(bytes) {
            assert!(head.len <= bytes.len());
            assert!(head.lines.ends_with(b"\r\n"));
            follow(&head.body, &bytes[head.len..]);
        }
    }
    follow(&Tracker::chunked(), raw);
});

/// Body, length in raw bytes, whether it is done; nothing if its framing breaks.
type Followed = Option<(Vec<u8>, usize, bool)>;

fn follow(tracker: &Tracker, raw: &[u8]) {
    let whole = cut(tracker, raw, raw.len().max(1));
    for size in PIECES {
        assert_eq!(cut(tracker, raw, size), whole, "in pieces of {size}");
    }
}

fn cut(tracker: &Tracker, raw: &[u8], size: usize) -> Followed {
    let mut tracker = tracker.clone();
    let (mut body, mut used) = (Vec::new(), 0);
    for piece in raw.chunks(size) {
        used += tracker.feed(piece, |d| body.extend_from_slice(d)).ok()?;
        if tracker.is_done() {
            break;
        }
    }
    Some((body, used, tracker.is_done()))
}
