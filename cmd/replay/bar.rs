//! The bar of `replay --send`, on a terminal only; a pipe gets the report alone.
//!
//! It is on stderr, so that stdout has the report and nothing else.

use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nvpair_proxy::rules::units::human_age;
use nvpair_proxy::wire::replay::ReplayProgress;

use crate::cli::Globals;
use crate::output::stderr_color;

/// A bar; removed when dropped.
pub struct Bar {
    bar: ProgressBar,
    begun: Instant,
}

impl Bar {
    /// An empty one, where one is wanted and stderr is a terminal.
    pub fn start(wanted: bool, globals: &Globals) -> Self {
        let target = match wanted && !globals.quiet {
            // Hides itself where there is no terminal.
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let template = match stderr_color(globals) {
            true => "sending {wide_bar:.cyan} {pos}/{len}  {msg}",
            false => "sending {wide_bar} {pos}/{len}  {msg}",
        };
        let style = ProgressStyle::with_template(template);
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(Some(0), target);
        bar.set_style(style.progress_chars("━╸ "));
        Self {
            bar,
            begun: Instant::now(),
        }
    }

    /// Shows how far it is.
    pub fn show(&self, progress: &ReplayProgress) {
        self.bar.set_length(progress.total);
        self.bar
            .set_message(message(progress, self.begun.elapsed().as_secs_f64()));
        self.bar.set_position(progress.done);
        self.bar.tick();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn message(progress: &ReplayProgress, seconds: f64) -> String {
    let rate = match seconds > 0.0 {
        true => progress.done as f64 / seconds,
        false => 0.0,
    };
    let left = std::time::Duration::from_millis(progress.left_ms);
    let (eta, failed) = (human_age(left), progress.failed);
    format!("{rate:.1}/s  eta {eta}  {failed} failed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_tells_rate_time_left_and_failures() {
        let progress = ReplayProgress {
            total: 50,
            done: 34,
            failed: 2,
            in_flight: 3,
            left_ms: 8_000,
        };
        assert_eq!(message(&progress, 17.0), "2.0/s  eta 8s  2 failed");
        assert_eq!(message(&progress, 0.0), "0.0/s  eta 8s  2 failed");
    }
}
