//! The commit gate: however an answer is cut, it commits at the same byte and stays so.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nvpair_proxy::rules::gate::{Gate, GateMode, Verdict};
use nvpair_proxy_fuzz::PIECES;

fuzz_target!(|body: &[u8]| {
    for kind in [Some("text/event-stream"), Some("application/json"), None] {
        for mode in [GateMode::Framing, GateMode::FirstByte] {
            let mut gate = Gate::for_response(kind.map(str::as_bytes), mode);
            let whole = gate.push(body);
            for size in PIECES {
                let mut gate = Gate::for_response(kind.map(str::as_bytes), mode);
                let mut last = Verdict::Hold;
                for piece in body.chunks(size) {
                    let verdict = gate.push(piece);
                    assert!(last == Verdict::Hold || verdict == Verdict::Commit);
                    last = verdict;
                }
                assert_eq!(last, whole, "{kind:?} {mode:?} in pieces of {size}");
            }
            let framed = kind == Some("text/event-stream") && mode == GateMode::Framing;
            let commits = whole == Verdict::Commit;
            assert!(framed || commits != body.is_empty(), "one byte commits");
        }
    }
});
