//! Minutes and hours of the dispatch guarantee, on a clock that stands still, over pipes within the
//! process: every limit of spec §5.1 to §5.4 with its own number, on both lanes.

#![expect(
    clippy::unwrap_used,
    reason = "a helper of tests fails the test that calls it"
)]

mod bounds;
mod leaving;
mod world;
