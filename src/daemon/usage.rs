//! Usage events out of the pool's settings: whether they are kept, and where they go.
//!
//! Owns: an event's id and moment, handing it to the file and the collector, their end. Leaves to
//! others: the shape (`wire::usage_event`), the file (`store::usage_file`), the collector
//! (`net::usage_collector`).

use std::sync::Arc;
use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::well_known::Iso8601;
use time::format_description::well_known::iso8601::{Config, EncodedConfig, TimePrecision};
use uuid::Uuid;

use super::jitter;
use crate::config::pool::PoolSettings;
use crate::net::client_tls::ClientTls;
use crate::net::usage_collector::{Collector, CollectorAddress, Sending};
use crate::rules::ids::NodeId;
use crate::state::workloads::{Finished, Workloads};
use crate::store::usage_file::UsageFile;
use crate::wire::journal::Entry;
use crate::wire::pool::{CollectorUsage, PoolUsage};
use crate::wire::usage_event::{Served, UsageEvent};

/// The last events have this long to reach the disk.
const FLUSH_TIME: Duration = Duration::from_millis(500);

/// The last events have this long to reach the collector.
const SEND_TIME: Duration = Duration::from_millis(1_500);

/// RFC 3339 with milliseconds.
const MOMENT: EncodedConfig = Config::DEFAULT
    .set_time_precision(TimePrecision::Second {
        decimal_digits: std::num::NonZero::new(3),
    })
    .encode();

/// Says who a target is. Called on the task of a request: must not block.
pub type Who = Arc<dyn Fn(&NodeId) -> Served + Send + Sync>;

/// Where events go, until the end.
pub struct Usage {
    sinks: Sinks,
    sending: Option<Sending>,
}

#[derive(Clone)]
struct Sinks {
    file: Option<UsageFile>,
    collector: Option<Collector>,
    who: Who,
}

/// Begins to keep usage events; `None` where the settings name no place for them.
///
/// # Errors
/// A sentence that says what to do.
pub fn start(
    settings: &PoolSettings,
    workloads: &Workloads,
    who: Who,
) -> Result<Option<Usage>, String> {
    let file = settings.usage_file.as_deref().map(UsageFile::open);
    let (collector, sending) = match &settings.usage_collector {
        None => (None, None),
        Some(url) => {
            let tls = match url.tls {
                true => {
                    Some(ClientTls::system().map_err(|e| format!("[pool] usage_collector: {e}"))?)
                },
                false => None,
            };
            let address = CollectorAddress {
                host: url.host.clone(),
                port: url.port,
                tls,
                path: match url.path.as_str() {
                    "" => "/".to_owned(),
                    path => path.to_owned(),
                },
            };
            let (collector, sending) = Collector::start(address, jitter);
            (Some(collector), Some(sending))
        },
    };
    if file.is_none() && collector.is_none() {
        return Ok(None);
    }
    let sinks = Sinks {
        file,
        collector,
        who,
    };
    workloads.keep_in(Box::new(sinks.clone()));
    Ok(Some(Usage { sinks, sending }))
}

impl Usage {
    /// Shows what became of events, whenever it is asked.
    pub fn counts(&self) -> Arc<dyn Fn() -> PoolUsage + Send + Sync> {
        let sinks = self.sinks.clone();
        Arc::new(move || sinks.counts())
    }

    /// Takes the last events to where they belong.
    pub async fn end(self) {
        let Self { sinks, sending } = self;
        let written = async {
            match &sinks.file {
                Some(file) => file.flush(FLUSH_TIME).await,
                None => true,
            }
        };
        let sent = async {
            match sending {
                Some(sending) => sending.end(SEND_TIME).await,
                None => 0,
            }
        };
        let (written, left) = tokio::join!(written, sent);
        if !written {
            tracing::warn!("the last usage events did not reach the disk in time");
        }
        if left > 0 {
            tracing::warn!(
                events = left,
                "the usage collector did not take the last events"
            );
        }
        let counts = sinks.counts();
        let lost = counts.file_lost.unwrap_or(0) + counts.collector.map_or(0, |c| c.lost);
        if lost > 0 {
            tracing::warn!(lost, "usage events of this run are lost");
        }
    }
}

impl Sinks {
    fn counts(&self) -> PoolUsage {
        PoolUsage {
            file_lost: self.file.as_ref().map(UsageFile::lost),
            collector: self.collector.as_ref().map(|c| CollectorUsage {
                sent: c.sent(),
                queued: c.queued(),
                lost: c.lost(),
            }),
        }
    }
}

impl Finished for Sinks {
    fn finished(&self, entry: &Entry<'_>) {
        let event = UsageEvent::of(
            entry,
            Uuid::new_v4().to_string(),
            moment(entry.ended_at),
            |node| (self.who)(node),
        );
        if let Some(file) = &self.file {
            file.append(&event);
        }
        if let Some(collector) = &self.collector {
            collector.send(Arc::new(event));
        }
    }
}

/// A Unix moment in words; empty for one beyond any calendar.
fn moment(unix_ms: u64) -> String {
    let nanos = i128::from(unix_ms) * 1_000_000;
    let at = OffsetDateTime::from_unix_timestamp_nanos(nanos).ok();
    at.and_then(|at| at.format(&Iso8601::<MOMENT>).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_utc_with_milliseconds() {
        assert_eq!(moment(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(moment(1_767_225_599_987), "2025-12-31T23:59:59.987Z");
        assert_eq!(moment(u64::MAX), "");
    }
}
