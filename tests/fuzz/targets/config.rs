//! A configuration is read or refused with reasons, and never breaks the reader.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nvpair_proxy::config::file::parse;

fuzz_target!(|text: &str| {
    let env = |name: &str| (name.len() % 2 == 0).then(|| "value".into());
    if let Err(problems) = parse("fuzz.toml", text, &env) {
        assert!(!problems.to_string().is_empty());
    }
});
