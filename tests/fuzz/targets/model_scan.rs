//! The model of a body: as serde_json has it, and however the body is cut.

#![no_main]

#[path = "../../../src/rules/model_scan/oracle.rs"]
mod oracle;

use libfuzzer_sys::fuzz_target;
use nvpair_proxy::rules::model_scan::{ModelScan, scan};
use nvpair_proxy_fuzz::PIECES;

use crate::oracle::Oracle;

/// Long names are nobody's, and an escape takes six bytes.
const SHORT: usize = 4096 / 6;

fuzz_target!(|body: &[u8]| {
    let found = scan(body);
    for size in PIECES {
        let mut cut = ModelScan::new();
        body.chunks(size).for_each(|piece| cut.push(piece));
        assert_eq!(cut.finish(), found, "in pieces of {size}");
    }
    if let Some(wanted) = oracle(body) {
        assert_eq!(found, wanted);
    }
});

/// What serde_json says, or nothing where it is stricter or laxer than the rule.
fn oracle(body: &[u8]) -> Option<Option<String>> {
    let text = std::str::from_utf8(body).ok()?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match serde_json::from_str::<Oracle>(text) {
        Ok(Oracle(Some(name))) if name.len() > SHORT => None,
        Ok(Oracle(name)) => Some(name.filter(|name| !name.trim().is_empty())),
        Err(e) => {
            let why = e.to_string();
            let apart = [
                "surrogate",
                "unexpected end of hex escape",
                "recursion limit",
            ];
            (!apart.iter().any(|a| why.contains(a))).then_some(None)
        },
    }
}
