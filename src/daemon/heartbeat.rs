//! The service manager kept informed: a line on what goes on, and signs of life.
//!
//! Owns: when it is told, and what counts as life. Leaves to others: the protocol
//! (`telemetry::manager`), the moments of start and end (`daemon`, `shutdown`).
//!
//! A sign of life is given by the one thread that serves, and only while commands are carried out.
//! No more is asked, because the manager's answer to silence is a kill, which costs every stream
//! under way: a slow disk or a lost node must not bring it on.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::facade::Context;
use crate::rules::units::count;
use crate::state::lifetime::Phase;
use crate::telemetry::manager::Manager;

/// Between two looks where no watchdog asks for more.
const EVERY: Duration = Duration::from_secs(5);

/// Tells the manager for as long as the runtime lives, from the moment it knows that we are ready:
/// a start that fails has nothing to tell. `executor` carries commands out.
pub fn start(manager: Manager, context: Arc<Context>, executor: AbortHandle) {
    if manager.is_there() {
        tokio::spawn(beat(manager, context, executor));
    }
}

async fn beat(manager: Manager, context: Arc<Context>, executor: AbortHandle) {
    let mut tick = interval(pace(manager.watchdog()));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told = String::new();
    loop {
        tick.tick().await;
        let phase = context.lifetime.phase();
        if manager.watchdog().is_some() {
            // Once it ends, commands are refused on purpose.
            if phase > Phase::Running || !executor.is_finished() {
                manager.alive();
            } else {
                tracing::error!("commands are not carried out any more; the watchdog is not fed");
            }
        }
        let now = summary(&context, phase);
        if now != told {
            manager.status(&now);
            told = now;
        }
    }
}

/// Half the limit, as sd_watchdog_enabled(3) advises, so that one late beat is no death.
fn pace(watchdog: Option<Duration>) -> Duration {
    let half = watchdog.map(|limit| (limit / 2).max(Duration::from_millis(1)));
    half.map_or(EVERY, |half| half.min(EVERY))
}

/// One line for `systemctl status`.
pub fn summary(context: &Context, phase: Phase) -> String {
    let facades = context.shared.facades();
    let under_way: u64 = facades.iter().map(|f| f.in_flight()).sum();
    let places = facades.iter();
    let places = places.map(|f| format!("{} on {}", f.engine().spec().display, f.port()));
    let places: Vec<_> = places.collect();
    line(&places, under_way, phase)
}

fn line(places: &[String], under_way: u64, phase: Phase) -> String {
    let what = match (phase, places) {
        (Phase::Draining | Phase::Cut, _) => "ending".to_owned(),
        (Phase::Running, []) => "no facade".to_owned(),
        (Phase::Running, places) => places.join(", "),
    };
    format!("{what}; {} under way", count(under_way, "request"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats_come_twice_in_the_limit_and_never_spin() {
        let ms = Duration::from_millis;
        assert_eq!(pace(None), EVERY);
        assert_eq!(pace(Some(ms(400))), ms(200));
        assert_eq!(pace(Some(Duration::from_secs(30))), EVERY);
        assert_eq!(pace(Some(Duration::from_nanos(1))), ms(1));
    }

    #[test]
    fn the_line_says_what_listens_and_what_is_under_way() {
        let places = ["Ollama on 1".to_owned(), "LM Studio on 2".to_owned()];
        assert_eq!(
            line(&places, 3, Phase::Running),
            "Ollama on 1, LM Studio on 2; 3 requests under way"
        );
        assert_eq!(
            line(&[], 0, Phase::Running),
            "no facade; 0 requests under way"
        );
        assert_eq!(
            line(&places, 1, Phase::Draining),
            "ending; 1 request under way"
        );
    }
}
