//! What a build without OTLP has in the place of sending.
//!
//! Owns: that nothing is planned, and that the queue stays empty. Leaves to others: saying so to a
//! person (`config::settings`).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::config::telemetry::TelemetrySettings;
use crate::export::gauges::Sources;
use crate::state::shared::Shared;
use crate::telemetry::spans::Span;

/// Plans nothing.
pub(super) struct Planner;

/// What a plan means for what is collected.
pub(super) struct Planned {
    pub(super) sample_percent: Option<u32>,
    pub(super) metrics: bool,
    pub(super) shown: String,
}

/// Sends nothing.
pub(super) struct Sending;

/// Of nothing.
pub(super) struct Standing;

pub(super) fn start(
    _: mpsc::Receiver<Span>,
    _: Arc<Sources>,
    _: &str,
    _: &Shared,
) -> (Planner, Sending) {
    (Planner, Sending)
}

impl Planner {
    pub(super) fn plan(&mut self, _: Option<&TelemetrySettings>) -> Option<Planned> {
        None
    }
}

impl Sending {
    pub(super) fn standing(&self) -> Standing {
        Standing
    }

    pub(super) async fn end(self, _: Duration) {}
}

impl Standing {
    pub(super) fn sent(&self) -> u64 {
        0
    }

    pub(super) fn problem(&self) -> Option<String> {
        None
    }
}
