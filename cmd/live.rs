//! What goes on until the reader or the user has enough: redrawing in place, Ctrl-C.
//!
//! Owns: the frames of a live view, the pace of `--watch`, and what ends either. Leaves to others:
//! what is shown.
//! A frame is one write and is drawn over the one before, so that nothing flickers; the terminal's
//! history and cursor stay as they are.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::cli::Globals;
use crate::errors::CliError;
use crate::output::{self, Reader};

/// Time between two looks of `--watch`.
const PACE: Duration = Duration::from_secs(1);

/// Lines of a terminal that does not tell.
const DEFAULT_ROWS: usize = 24;

/// Time between two looks at whether anybody still reads.
const LOOK: Duration = Duration::from_secs(1);

/// Whether stdout can be drawn on.
pub fn on_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Lines of the terminal.
pub fn rows() -> usize {
    let size = terminal_size::terminal_size();
    size.map_or(DEFAULT_ROWS, |(_, h)| usize::from(h.0))
}

fn columns() -> Option<usize> {
    terminal_size::terminal_size().map(|(w, _)| usize::from(w.0))
}

/// A view that is drawn again and again.
#[derive(Debug, Default)]
pub struct View {
    /// Lines of the last frame, which the next one goes over.
    lines: usize,
    /// Columns of the terminal then.
    columns: Option<usize>,
}

impl View {
    /// Draws a text over the last one, as far as it fits.
    pub fn draw(&mut self, text: &str) -> Result<Reader, CliError> {
        let columns = columns();
        let (mut frame, lines) = frame(self.lines, text, rows());
        if self.lines > 0 && columns != self.columns {
            // The terminal broke the old lines anew, so that nobody knows how many they are.
            frame.insert_str(0, "\x1b[H\x1b[2J");
        }
        (self.lines, self.columns) = (lines, columns);
        output::stream(&frame)
    }
}

/// `--watch`: shows what `look` gives, again and again: drawn in place on a terminal, else one text after
/// the other. With `--json` a text is a line.
pub async fn watch(
    globals: &Globals,
    mut look: impl AsyncFnMut() -> Result<String, CliError>,
) -> Result<ExitCode, CliError> {
    let mut view = on_terminal().then(View::default);
    let interrupt = Interrupt::listen();
    let mut first = true;
    loop {
        let text = look().await?;
        let reader = match &mut view {
            Some(view) if !globals.json => view.draw(&text)?,
            _ if globals.json || first => output::stream(&text)?,
            _ => output::stream(&format!("\n{text}"))?,
        };
        first = false;
        if reader == Reader::Gone {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::select! {
            () = tokio::time::sleep(PACE) => {},
            () = interrupt.pressed() => return Ok(ExitCode::SUCCESS),
        }
    }
}

/// One write: up to where the last frame began, each line with what stood behind it cleared, and what
/// stood below. Lines do not wrap meanwhile, since a wrapped one would count as two.
fn frame(before: usize, text: &str, rows: usize) -> (String, usize) {
    let most = rows.saturating_sub(1).max(1);
    let mut frame = String::from("\x1b[?7l");
    if before > 0 {
        frame.push_str(&format!("\r\x1b[{before}A"));
    }
    let mut lines = 0;
    for line in text.lines().take(most) {
        frame.push_str(line);
        frame.push_str("\x1b[K\n");
        lines += 1;
    }
    frame.push_str("\x1b[J\x1b[?7h");
    (frame, lines)
}

/// Ctrl-C, which ends a live view well. Listened for from the start, so that none is lost between two
/// waits.
pub struct Interrupt(Arc<Notify>);

impl Interrupt {
    /// Listens from the next wait on, whatever it is for.
    pub fn listen() -> Self {
        let pressed = Arc::new(Notify::new());
        let told = pressed.clone();
        tokio::spawn(async move {
            // Where it cannot be heard, the system's own way ends the process.
            if tokio::signal::ctrl_c().await.is_ok() {
                told.notify_one();
            }
        });
        Self(pressed)
    }

    /// Resolves when it was pressed.
    pub async fn pressed(&self) {
        self.0.notified().await;
    }
}

/// Resolves when nobody reads stdout any more, where the system tells that without a write: a pipe's
/// reader may go long before the next line.
pub async fn unread() {
    let mut tick = tokio::time::interval(LOOK);
    loop {
        tick.tick().await;
        if is_unread() {
            return;
        }
    }
}

#[cfg(unix)]
fn is_unread() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let out = io::stdout();
    let mut fds = [PollFd::new(&out, PollFlags::empty())];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let gone = PollFlags::ERR | PollFlags::HUP;
    poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().intersects(gone)
}

#[cfg(not(unix))]
fn is_unread() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_goes_over_the_one_before_and_never_below_the_screen() {
        let (first, lines) = frame(0, "a\nb\nc\n", 24);
        assert_eq!(lines, 3);
        assert_eq!(first, "\x1b[?7la\x1b[K\nb\x1b[K\nc\x1b[K\n\x1b[J\x1b[?7h");
        let (second, lines) = frame(lines, "a\n", 24);
        assert_eq!(lines, 1);
        assert_eq!(second, "\x1b[?7l\r\x1b[3Aa\x1b[K\n\x1b[J\x1b[?7h");
        let (cut, lines) = frame(1, &"x\n".repeat(50), 10);
        assert_eq!((lines, cut.matches('\n').count()), (9, 9));
    }
}
