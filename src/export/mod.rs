//! Layer 6: what leaves the process about itself: to an OTLP collector, and to whoever asks the admin
//! listener.
//!
//! Everything starts from the same reading of the instruments (`telemetry`) and of the daemon's state
//! (`gauges`). Nothing here is on a request's path.

pub mod admin;
#[cfg(feature = "otlp")]
mod encode;
pub mod gauges;
#[cfg(feature = "otlp")]
pub mod otlp;
pub mod prometheus;
