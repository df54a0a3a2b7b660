//! A client's bytes at the door: which lane they take, and what of them is let through to the library.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nvpair_proxy::net::h1::request::{Admission, Without, admit};
use nvpair_proxy::net::h1::strict::Requests;
use nvpair_proxy_fuzz::PIECES;

const HERE: &str = "127.0.0.1";

fuzz_target!(|raw: &[u8]| {
    lanes(raw);
    lanes(&[b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n", raw].concat());
    let whole = passed(raw, raw.len().max(1));
    for size in PIECES {
        assert_eq!(passed(raw, size), whole, "in pieces of {size}");
    }
    assert!(whole.len() <= raw.len());
});

fn lanes(raw: &[u8]) {
    match admit(raw) {
        Admission::Plain(plain) => {
            let head = &raw[..plain.len];
            assert!(plain.target(head).starts_with(b"/"));
            let mut lines = Vec::new();
            plain.put_lines(head, HERE, Without::default(), &mut lines);
            assert!(lines.ends_with(b"\r\n") && lines.len() <= plain.room(HERE));
            // What the one lane takes for plain, the other has no doubt about.
            assert_eq!(passed(head, head.len()), head);
            // Nothing shorter was taken for a whole head.
            assert_eq!(admit(&raw[..plain.len - 1]), Admission::Partial);
        },
        Admission::Partial | Admission::Other => {},
    }
}

/// What goes on to the library, in pieces of this size.
fn passed(raw: &[u8], size: usize) -> Vec<u8> {
    let (mut requests, mut out) = (Requests::default(), Vec::new());
    for piece in raw.chunks(size) {
        let mut piece = piece.to_vec();
        let n = requests.pass(&mut piece);
        out.extend_from_slice(&piece[..n]);
        if n < piece.len() {
            break;
        }
    }
    out
}
