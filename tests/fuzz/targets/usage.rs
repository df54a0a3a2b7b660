//! What an answer says of its cost: the same however it is cut.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nvpair_proxy::rules::usage::{Tap, TapKind};
use nvpair_proxy_fuzz::PIECES;

fuzz_target!(|body: &[u8]| {
    for kind in [TapKind::Sse, TapKind::Lines, TapKind::Opaque] {
        let mut whole = Tap::new(kind);
        whole.push(body, 2_000);
        let stats = whole.finish(1_000);
        assert_eq!(stats.is_none(), body.is_empty());
        for size in PIECES {
            let mut cut = Tap::new(kind);
            body.chunks(size).for_each(|piece| cut.push(piece, 2_000));
            assert_eq!(cut.finish(1_000), stats, "{kind:?} in pieces of {size}");
        }
    }
});
