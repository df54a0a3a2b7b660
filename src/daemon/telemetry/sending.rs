//! `[telemetry]` as a plan for the export.
//!
//! Owns: turning settings into a plan, and the export's life. Leaves to others: sending
//! (`export::otlp`).

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING};
use http::{HeaderName, HeaderValue};
use tokio::sync::{mpsc, watch};

use super::super::jitter;
use crate::config::http_url::HttpUrl;
use crate::config::telemetry::{OtlpProtocol, TelemetrySettings};
use crate::export::gauges::Sources;
use crate::export::otlp::{Exporting, Form, Plan, Planned as OtlpPlan, Speaker};
use crate::net::client_tls::ClientTls;
use crate::rules::secret::Secret;
use crate::state::shared::Shared;
use crate::telemetry::spans::Span;

pub(super) use crate::export::otlp::Standing;

/// Headers that the export itself says.
const OURS: [HeaderName; 5] = [
    CONNECTION,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    HOST,
    TRANSFER_ENCODING,
];

/// Makes plans and hands them to the export.
pub(super) struct Planner {
    plans: watch::Sender<OtlpPlan>,
    version: String,
    run: String,
    /// The settings that the last plan was made of.
    last: Option<TelemetrySettings>,
}

/// What a plan means for what is collected.
pub(super) struct Planned {
    /// Share of new traces that are recorded, if traces are wanted.
    pub(super) sample_percent: Option<u32>,
    /// Whether measurements are wanted.
    pub(super) metrics: bool,
    /// The collector, for a person.
    pub(super) shown: String,
}

/// The running export.
pub(super) struct Sending(Exporting);

/// Starts an export without a plan.
pub(super) fn start(
    spans: mpsc::Receiver<Span>,
    sources: Arc<Sources>,
    version: &str,
    shared: &Shared,
) -> (Planner, Sending) {
    let (plans, planned) = watch::channel(None);
    let exporting = Exporting::start(&planned, spans, sources, jitter);
    let planner = Planner {
        plans,
        version: version.to_owned(),
        run: shared.info.run_id.to_string(),
        last: None,
    };
    (planner, Sending(exporting))
}

impl Planner {
    /// Plans by these settings from now on. Certificates are read here; without any, nothing is sent.
    pub(super) fn plan(&mut self, settings: Option<&TelemetrySettings>) -> Option<Planned> {
        if self.last.as_ref() != settings {
            self.last = settings.cloned();
            let plan = settings.and_then(|s| self.made(s));
            self.plans.send_replace(plan.map(Arc::new));
        }
        let planned = self.plans.borrow();
        let (settings, _) = settings.zip(planned.as_ref())?;
        Some(Planned {
            sample_percent: settings.traces.then_some(settings.sample_percent),
            metrics: settings.metrics,
            shown: shown(&settings.endpoint),
        })
    }

    fn made(&self, s: &TelemetrySettings) -> Option<Plan> {
        let tls = match s.endpoint.tls.then(ClientTls::system).transpose() {
            Ok(tls) => tls,
            Err(e) => {
                tracing::warn!(reason = %e, "telemetry is not sent: no TLS towards the collector");
                return None;
            },
        };
        Some(Plan {
            host: s.endpoint.host.clone(),
            port: s.endpoint.port,
            tls,
            path: s.endpoint.path.clone(),
            form: match s.protocol {
                OtlpProtocol::HttpJson => Form::Json,
                OtlpProtocol::HttpProtobuf => Form::Protobuf,
            },
            headers: s.headers.iter().filter_map(header).collect(),
            traces: s.traces,
            metrics: s.metrics.then_some(s.metrics_interval),
            speaker: Speaker {
                service: s.service_name.clone(),
                version: self.version.clone(),
                instance: self.run.clone(),
            },
        })
    }
}

impl Sending {
    pub(super) fn standing(&self) -> Arc<Standing> {
        self.0.standing.clone()
    }

    pub(super) async fn end(self, limit: Duration) {
        self.0.end(limit).await;
    }
}

/// A configured header; one that cannot be sent is told by its name alone.
fn header((name, value): &(String, Secret)) -> Option<(HeaderName, HeaderValue)> {
    let parsed = HeaderName::try_from(name.as_str()).ok();
    let parsed = parsed.filter(|name| !OURS.contains(name));
    let value = HeaderValue::from_str(value.reveal()).ok();
    let Some((parsed, mut value)) = parsed.zip(value) else {
        tracing::warn!(
            header = name,
            "this header of [telemetry] is not sent: it is the export's own, or its value cannot \
             stand in a header"
        );
        return None;
    };
    value.set_sensitive(true);
    Some((parsed, value))
}

fn shown(url: &HttpUrl) -> String {
    let scheme = if url.tls { "https" } else { "http" };
    format!("{scheme}://{}{}", url.authority(), url.path)
}
