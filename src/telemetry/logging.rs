//! The log on stderr (product sections 12 and 13.25).
//!
//! Owns: the line's form, the threshold that can be changed while running, the panic hook.
//! Leaves to others: what is logged; never prompts, answers, bodies or credentials. What is special
//! about the journal (`journal`).
//!
//! Lines go through a bounded queue to a thread of their own: a parent that stops reading stderr
//! must hang neither a request nor the exit. Lines over the bound are dropped and counted.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::journal;
use crate::rules::log_level::{LogFormat, LogLevel};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::layer::{Context, Filter, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

/// Lines waiting to be written.
const QUEUE: usize = 4096;

/// The component of every line: the process, since at its start there is no engine to name.
const COMPONENT: &str = "nvpair-proxy";

/// Only what we log ourselves: libraries log requests whole.
const TARGETS: [&str; 1] = ["nvpair_proxy"];

/// Changes the threshold while the process runs.
#[derive(Clone, Debug)]
pub struct LogHandle(Arc<AtomicU8>);

impl LogHandle {
    /// From now on only this severity and above.
    pub fn set(&self, threshold: LogLevel) {
        self.0.store(threshold as u8, Ordering::Relaxed);
        tracing::callsite::rebuild_interest_cache();
    }
}

/// Starts the log. A second call in one process changes nothing but the threshold it returns.
pub fn start(threshold: LogLevel, form: LogFormat) -> LogHandle {
    let handle = LogHandle(Arc::new(AtomicU8::new(threshold as u8)));
    let lines = Lines::start();
    let ours = Ours(handle.0.clone());
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(lines)
        .with_ansi(false);
    let layer: Box<dyn Layer<Registry> + Send + Sync> = match form {
        LogFormat::Text if journal::is_stderr() => {
            Box::new(layer.event_format(JournalText).with_filter(ours))
        },
        LogFormat::Text => Box::new(layer.event_format(Text).with_filter(ours)),
        // With its time also in the journal: whoever asks for JSON takes the message out of there.
        LogFormat::Json => {
            let json = layer.json().flatten_event(true).with_current_span(false);
            Box::new(json.with_span_list(false).with_filter(ours))
        },
    };
    // Already set only where a test started it before.
    drop(tracing::subscriber::set_global_default(
        Registry::default().with(layer),
    ));
    handle
}

/// A panic is logged with its place and stack, but without its message: that may quote data.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let stack = std::backtrace::Backtrace::force_capture();
        tracing::error!(place, %stack, "a panic ended its request or task");
    }));
}

struct Ours(Arc<AtomicU8>);

impl Ours {
    /// By the number that the level has in the enum.
    fn threshold(&self) -> LevelFilter {
        match self.0.load(Ordering::Relaxed) {
            n if n == LogLevel::Error as u8 => LevelFilter::ERROR,
            n if n == LogLevel::Warn as u8 => LevelFilter::WARN,
            n if n == LogLevel::Info as u8 => LevelFilter::INFO,
            _ => LevelFilter::DEBUG,
        }
    }

    fn lets_through(&self, meta: &Metadata<'_>) -> bool {
        let ours = TARGETS.iter().any(|t| meta.target().starts_with(t));
        ours && *meta.level() <= self.threshold()
    }
}

impl<S> Filter<S> for Ours {
    fn enabled(&self, meta: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.lets_through(meta)
    }

    // Cached per place in the code, so that a line below the threshold costs the request path one
    // load; changing the threshold rebuilds the cache.
    fn callsite_enabled(&self, meta: &'static Metadata<'static>) -> Interest {
        if self.lets_through(meta) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.threshold())
    }
}

struct Text;

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        ctx: &FmtContext<'_, S, N>,
        mut w: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        SystemTime.format_time(&mut w)?;
        write!(w, " {} [{COMPONENT}] ", event.metadata().level())?;
        ctx.format_fields(w.by_ref(), event)?;
        writeln!(w)
    }
}

/// The same without what the journal keeps beside each line: time and process. The level stays,
/// since `journalctl` shows priorities by colour only.
struct JournalText;

impl<S, N> FormatEvent<S, N> for JournalText
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        ctx: &FmtContext<'_, S, N>,
        mut w: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = event.metadata().level();
        let mut text = format!("{level} ");
        ctx.format_fields(Writer::new(&mut text), event)?;
        w.write_str(&journal::entries(level, &text))
    }
}

/// What the writing thread gets.
enum Message {
    Line(Vec<u8>),
    /// Everything before this was written.
    Flush(SyncSender<()>),
}

/// Hands whole lines to the writing thread.
#[derive(Clone)]
struct Lines {
    queue: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

static WRITER: OnceLock<Lines> = OnceLock::new();

impl Lines {
    fn start() -> Self {
        WRITER
            .get_or_init(|| {
                let (queue, messages) = sync_channel(QUEUE);
                let dropped = Arc::<AtomicU64>::default();
                let count = dropped.clone();
                let thread = std::thread::Builder::new().name("log".to_owned());
                // Without a thread the queue fills and lines are dropped: never a reason to fail.
                drop(thread.spawn(move || write_lines(&messages, &count)));
                Self { queue, dropped }
            })
            .clone()
    }
}

fn write_lines(messages: &Receiver<Message>, dropped: &AtomicU64) {
    let mut stderr = io::stderr();
    while let Ok(message) = messages.recv() {
        match message {
            Message::Line(line) => {
                let lost = dropped.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    drop(writeln!(
                        stderr,
                        "[{COMPONENT}] {lost} log lines were dropped"
                    ));
                }
                // Nobody reads it: then there is nobody to tell.
                drop(stderr.write_all(&line));
            },
            Message::Flush(done) => drop(done.try_send(())),
        }
    }
}

/// Waits until what was logged so far is written, at most this long: a parent that reads no more
/// must not keep the process.
pub fn flush(limit: Duration) {
    let Some(lines) = WRITER.get() else { return };
    let (done, written) = sync_channel(1);
    if lines.queue.try_send(Message::Flush(done)).is_ok() {
        let _in_time = written.recv_timeout(limit);
    }
}

/// One line under way.
struct Line {
    lines: Lines,
    bytes: Vec<u8>,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let line = std::mem::take(&mut self.bytes);
        if let Err(TrySendError::Full(_)) = self.lines.queue.try_send(Message::Line(line)) {
            self.lines.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line {
            lines: self.clone(),
            bytes: Vec::with_capacity(160),
        }
    }
}
