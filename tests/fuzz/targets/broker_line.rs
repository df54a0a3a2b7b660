//! The parent's input: lines are cut as newlines say, and whatever a line holds is refused or decoded.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nvpair_proxy::broker::codec::{Inbound, Line, LineReader, parse};
use nvpair_proxy::broker::decode;
use nvpair_proxy_fuzz::now;

/// A limit that inputs reach.
const LIMIT: usize = 512;

fuzz_target!(|input: &[u8]| {
    let mut expected: Vec<_> = input.split(|b| *b == b'\n').collect();
    expected.pop_if(|last| last.is_empty());
    let mut reader = LineReader::new(input, LIMIT);
    for wanted in expected {
        match now(reader.next()).expect("memory can be read") {
            Some(Line::Whole(line)) => {
                assert_eq!(line, wanted);
                take(line);
            },
            Some(Line::Oversized) => assert!(wanted.len() > LIMIT),
            None => panic!("a line is missing"),
        }
    }
    assert_eq!(now(reader.next()).expect("memory can be read"), None);
});

fn take(line: &[u8]) {
    let Ok(text) = std::str::from_utf8(line) else {
        return;
    };
    if let Ok(Inbound::Message(message)) = parse(text) {
        for enabled in [true, false] {
            let is_enabled = |_| enabled;
            drop(decode::request(&message.method, message.params, is_enabled));
            drop(decode::notification(
                &message.method,
                message.params,
                is_enabled,
            ));
        }
    }
}
