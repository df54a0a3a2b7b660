//! Whether the telemetry collector takes what it is sent.
//!
//! Owns: asking the daemon, or else the collector's port, and what to do. Leaves to others: sending
//! (`export`). Nothing is sent to the collector from here.

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Finding, Level, limits};
use crate::config::settings::Settings;
use crate::rules::units::count;
use crate::wire::control::{Status, TelemetryStatus};

const CHECK: &str = "telemetry";

/// What is known of the collector; nothing where none is configured and none is in use.
pub(super) async fn collector(settings: &Settings, status: Option<&Status>) -> Option<Finding> {
    match status {
        Some(status) => status.telemetry.as_ref().and_then(told),
        None => {
            let endpoint = &settings.telemetry.as_ref()?.endpoint;
            let dial = TcpStream::connect((endpoint.host.as_str(), endpoint.port));
            let reached = matches!(timeout(limits().connect, dial).await, Ok(Ok(_)));
            Some(dialled(&endpoint.authority(), reached))
        },
    }
}

/// As the daemon has it.
fn told(t: &TelemetryStatus) -> Option<Finding> {
    let collector = t.collector.as_ref()?;
    let lost = match t.dropped {
        0 => String::new(),
        n => format!(", lost {}", count(n, "span")),
    };
    Some(match &t.problem {
        Some(problem) => Finding::new(
            CHECK,
            Level::Warning,
            format!("{collector} does not take what it is sent: {problem}{lost}"),
        )
        .remedy("start the collector, or mend `endpoint` and `headers` in [telemetry]"),
        None => Finding::new(
            CHECK,
            Level::Ok,
            format!("{collector} took {}{lost}", count(t.sent, "span")),
        ),
    })
}

/// Without a daemon only its port can be tried.
fn dialled(authority: &str, reached: bool) -> Finding {
    match reached {
        true => Finding::new(
            CHECK,
            Level::Ok,
            format!("the collector at {authority} listens"),
        ),
        false => Finding::new(
            CHECK,
            Level::Warning,
            format!("nobody listens at {authority}, where [telemetry] sends to"),
        )
        .remedy("start the collector, or mend `endpoint` in [telemetry]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_that_takes_nothing_is_a_warning_with_a_remedy() {
        let mut t = TelemetryStatus::default();
        assert_eq!(told(&t), None, "nothing is sent");
        t.collector = Some("http://c".into());
        t.sent = 4;
        assert_eq!(told(&t).unwrap().level, Level::Ok);
        t.problem = Some("HTTP 404".into());
        t.dropped = 2;
        let found = told(&t).unwrap();
        assert_eq!(found.level, Level::Warning);
        assert!(found.text.contains("HTTP 404, lost 2 spans"), "{found:?}");
        assert!(found.remedy.is_some() && dialled("c:1", false).remedy.is_some());
        assert_eq!(dialled("c:1", true).level, Level::Ok);
    }
}
