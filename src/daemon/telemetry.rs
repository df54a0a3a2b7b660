//! Telemetry out of the settings: what is collected, where it goes, the admin listener.
//!
//! Owns: following `[telemetry]` and `[admin]`, also when they change, and the end of both. Leaves to
//! others: collecting (`telemetry`), sending and answering (`export`).
//!
//! A change takes effect without a request noticing: those under way are told of as they began.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::config::settings::Settings;
use crate::config::telemetry::AdminSettings;
use crate::export::admin::{Admin, Desk};
use crate::export::gauges::Sources;
use crate::facade::Context;
use crate::store::journal::Journal;
use crate::telemetry::hub::{Switches, Telemetry};
use crate::telemetry::spans::Span;
use crate::wire::control::TelemetryStatus;

#[cfg(feature = "otlp")]
mod sending;
#[cfg(not(feature = "otlp"))]
#[path = "telemetry/sending_none.rs"]
mod sending;

use sending::Sending;

/// The last spans and readings have this long to reach the collector.
const FLUSH_TIME: Duration = Duration::from_secs(2);

/// Telemetry that follows the settings until it is stopped.
pub struct Running {
    following: JoinHandle<()>,
    sending: Option<Sending>,
}

impl Running {
    /// Sends what is left, then closes the admin listener.
    pub async fn stop(mut self) {
        if let Some(sending) = self.sending.take() {
            sending.end(FLUSH_TIME).await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.following.abort();
    }
}

/// What following needs.
struct Follow {
    telemetry: Arc<Telemetry>,
    desk: Arc<Desk>,
    admin: Option<Admin>,
    shown: Arc<Shown>,
    planner: sending::Planner,
}

/// What `status` is told of the settings in force.
#[derive(Default)]
struct Shown(Mutex<(Option<String>, Option<SocketAddr>)>);

/// Begins with these settings, and follows them. `spans` is the other end of the queue of `context`'s
/// telemetry; a brokered daemon goes on without an admin listener that cannot be opened.
///
/// # Errors
/// The admin listener cannot be opened: a sentence that says what to do.
pub fn start(
    context: &Arc<Context>,
    mut settings: watch::Receiver<Arc<Settings>>,
    spans: mpsc::Receiver<Span>,
    version: &str,
    journal: Option<Journal>,
    brokered: bool,
) -> Result<Running, String> {
    let telemetry = context.telemetry.clone();
    let journal_lost = journal.map(|j| Box::new(move || j.lost()) as _);
    let sources = Arc::new(Sources {
        telemetry: telemetry.clone(),
        queries: context.shared.clone(),
        journal_lost,
    });
    let desk = Arc::new(Desk {
        sources: sources.clone(),
        shared: context.shared.clone(),
        lifetime: context.lifetime.clone(),
        machine: context.machine.clone(),
    });
    let (planner, sending) = sending::start(spans, sources, version, &context.shared);
    let mut follow = Follow {
        telemetry: telemetry.clone(),
        desk,
        admin: None,
        shown: Arc::default(),
        planner,
    };
    let first = settings.borrow_and_update().clone();
    match follow.apply(&first) {
        Err(why) if brokered => tracing::warn!("{why}"),
        other => other?,
    }
    let (shown, standing) = (follow.shown.clone(), sending.standing());
    context.shared.show_telemetry(Box::new(move || {
        let (collector, admin) = shown
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let any = collector.is_some() || admin.is_some();
        any.then(|| TelemetryStatus {
            problem: collector.is_some().then(|| standing.problem()).flatten(),
            collector,
            sent: standing.sent(),
            queued: telemetry.spans.waiting() as u64,
            dropped: telemetry.spans.dropped(),
            admin: admin.map(|a| a.to_string()),
        })
    }));
    let following = tokio::spawn(async move {
        while settings.changed().await.is_ok() {
            let now = settings.borrow_and_update().clone();
            if let Err(why) = follow.apply(&now) {
                tracing::warn!("{why}");
            }
        }
        // Nothing changes any more; the listener stays until the end.
        std::future::pending::<()>().await;
    });
    Ok(Running {
        following,
        sending: Some(sending),
    })
}

impl Follow {
    /// Puts settings in force. The admin listener comes last, since only it can fail.
    fn apply(&mut self, settings: &Settings) -> Result<(), String> {
        let telemetry = settings.telemetry.as_ref();
        let planned = self.planner.plan(telemetry);
        self.telemetry.switch(Switches {
            traces: planned.as_ref().and_then(|p| p.sample_percent),
            metrics: planned.as_ref().is_some_and(|p| p.metrics) || settings.admin.is_some(),
        });
        self.shown.lock().0 = planned.map(|p| p.shown);
        let moved = self.move_admin(settings.admin);
        self.shown.lock().1 = self.admin.as_ref().map(Admin::address);
        moved
    }

    fn move_admin(&mut self, to: Option<AdminSettings>) -> Result<(), String> {
        let Some(AdminSettings { listen }) = to else {
            self.admin = None;
            return Ok(());
        };
        if self.admin.as_ref().is_some_and(|a| a.address() == listen) {
            return Ok(());
        }
        let opened = Admin::open(listen, self.desk.clone()).map_err(|e| {
            format!(
                "the admin listener does not start on {listen}: {e}; give `listen` in [admin] \
                 another address, or turn it off with `enabled = false`"
            )
        })?;
        tracing::info!(address = %opened.address(), "the admin listener is open");
        self.admin = Some(opened);
        Ok(())
    }
}

impl Shown {
    fn lock(&self) -> std::sync::MutexGuard<'_, (Option<String>, Option<SocketAddr>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
