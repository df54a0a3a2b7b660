//! Layer 4: replaying recorded workloads, and handing them out.
//!
//! Owns: the replays that are prepared or under way, their limits and their end. Leaves to others:
//! what is recorded (`source`), the two kinds of replay (`dry`, `send`), the calls (`control`).
//!
//! Whatever is long (reading, deciding, writing reports) runs beside the threads that serve requests.
//! A replay lives as long as somebody follows it, and ends when the daemon stops serving.

mod dry;
mod exchange;
mod send;
mod source;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_blocking;

use crate::rules::replay::{Arrival, MOST, Pick};
use crate::state::lifetime::{Lifetime, Phase};
use crate::state::replays::{Parts, Replays};
use crate::state::shared::Shared;
use crate::wall_clock;
use crate::wire::control::{SCHEMA_VERSION, WorkloadFilter};
use crate::wire::jsonrpc::CommandError;
use crate::wire::replay::{
    DryReport, ReplayProgress, ReplayReport, ReplayUpdate, SentReport, Source, Wanted,
};

use dry::Snapshot;
pub use source::Recordings;

/// Replays that are prepared or under way.
const OPEN: usize = 8;

/// A prepared replay that nobody touches is forgotten after this: whoever prepared it is gone.
const IDLE: Duration = Duration::from_secs(60);

/// Updates that a follower may be behind; then progress is left out.
const BUFFER: usize = 16;

/// The replays of a daemon.
#[derive(Clone)]
pub struct Desk {
    shared: Arc<Shared>,
    recordings: Recordings,
    lifetime: Arc<Lifetime>,
    book: Arc<Mutex<Book>>,
}

#[derive(Default)]
struct Book {
    last: u64,
    open: BTreeMap<u64, Entry>,
}

struct Entry {
    wanted: Wanted,
    stage: Stage,
}

enum Stage {
    /// Not followed yet: the workloads given so far, and how often it was touched.
    Prepared(Vec<Arrival>, u64),
    /// Under way; `true` stops it.
    Running(watch::Sender<bool>),
}

impl Desk {
    /// No replays yet.
    pub fn new(shared: Arc<Shared>, recordings: Recordings, lifetime: Arc<Lifetime>) -> Self {
        Self {
            shared,
            recordings,
            lifetime,
            book: Arc::default(),
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a prepared replay once nobody touched it for a while.
    fn expire(&self, replay: u64) {
        let desk = self.clone();
        tokio::spawn(async move {
            let mut seen = 0;
            loop {
                tokio::time::sleep(IDLE).await;
                let mut book = desk.book();
                match book.open.get(&replay).map(|e| &e.stage) {
                    Some(Stage::Prepared(_, touched)) if *touched != seen => seen = *touched,
                    Some(Stage::Prepared(..)) => {
                        book.open.remove(&replay);
                        return;
                    },
                    _ => return,
                }
            }
        });
    }

    async fn run(&self, mut replay: Running) {
        let Running { wanted, .. } = replay;
        let mut stop = replay.stop.clone();
        let mut phase = self.lifetime.follow();
        let parts = replay.parts.clone();
        let stopped = async {
            tokio::select! {
                // Gone with its book's entry, it can be stopped no more, which is as good.
                _ = stop.wait_for(|stop| *stop) => {},
                _ = phase.wait_for(|p| *p != Phase::Running) => {},
                () = parts.closed() => {},
            }
        };
        tokio::pin!(stopped);
        let given = std::mem::take(&mut replay.given);
        let gathered = tokio::select! {
            gathered = self.gather(wanted, given) => gathered,
            () = &mut stopped => return,
        };
        let update = match gathered {
            Err(failure) => ended(Err(failure)),
            Ok(gathered) if wanted.send => {
                let progress = |p| replay.progress(p);
                let (mark, arrivals) = (replay.number, &gathered.arrivals);
                let sent = send::send(
                    &self.shared,
                    mark,
                    arrivals,
                    wanted.speed,
                    &mut stopped,
                    progress,
                );
                let sent = sent.await;
                ended(Ok(gathered.report(wanted, None, Some(sent))))
            },
            Ok(gathered) => {
                let snapshot = Snapshot::take(&self.shared);
                let work = spawn_blocking(move || {
                    let dry = snapshot.replay(&gathered.arrivals, wanted.speed);
                    ended(Ok(gathered.report(wanted, Some(dry), None)))
                });
                tokio::select! {
                    done = work => match done {
                        Ok(update) => update,
                        Err(_) => ended(Err("an internal error; see the daemon's log".to_owned())),
                    },
                    () = &mut stopped => return,
                }
            },
        };
        if let Some(update) = update {
            // A follower that is gone wants nothing.
            drop(replay.parts.send(update).await);
        }
    }

    /// The workloads that are replayed.
    async fn gather(&self, wanted: Wanted, given: Vec<Arrival>) -> Result<Gathered, String> {
        if wanted.source == Source::Journal {
            self.recordings.settle().await;
        }
        let recordings = self.recordings.clone();
        let work = spawn_blocking(move || {
            let (mut arrivals, skipped_lines, now) = match wanted.source {
                Source::Given => {
                    let last = given.iter().map(|a| a.created_at).max();
                    (given, 0, last.unwrap_or(0))
                },
                Source::Journal => {
                    let recorded = recordings.read();
                    let recorded =
                        recorded.map_err(|e| format!("the journal cannot be read: {e}"))?;
                    let arrivals = recorded.records.iter().map(Arrival::from).collect();
                    (arrivals, recorded.skipped_lines, wall_clock::unix_ms())
                },
            };
            let pick = Pick {
                engine: wanted.engine,
                from_at: wanted.since_ms.map(|since| now.saturating_sub(since)),
                last: wanted.last,
            };
            pick.apply(&mut arrivals);
            Ok(Gathered {
                arrivals,
                skipped_lines: skipped_lines as u64,
            })
        });
        work.await
            .unwrap_or_else(|_| Err("an internal error; see the daemon's log".to_owned()))
    }
}

/// What is replayed.
struct Gathered {
    arrivals: Vec<Arrival>,
    skipped_lines: u64,
}

impl Gathered {
    fn report(
        &self,
        wanted: Wanted,
        dry: Option<DryReport>,
        sent: Option<SentReport>,
    ) -> ReplayReport {
        ReplayReport {
            schema_version: SCHEMA_VERSION,
            source: wanted.source,
            workloads: self.arrivals.len() as u64,
            skipped_lines: self.skipped_lines,
            from_at: self.arrivals.first().map(|a| a.created_at),
            to_at: self.arrivals.last().map(|a| a.created_at),
            speed: wanted.speed,
            dry,
            sent,
        }
    }
}

/// A replay under way.
struct Running {
    number: u64,
    wanted: Wanted,
    given: Vec<Arrival>,
    stop: watch::Receiver<bool>,
    parts: mpsc::Sender<Box<RawValue>>,
}

impl Running {
    fn progress(&self, progress: ReplayProgress) {
        let update = ReplayUpdate {
            progress: Some(progress),
            ..nothing()
        };
        // The last place is the report's.
        if self.parts.capacity() > 1
            && let Ok(raw) = serde_json::value::to_raw_value(&update)
        {
            drop(self.parts.try_send(raw));
        }
    }
}

fn nothing() -> ReplayUpdate {
    ReplayUpdate {
        schema_version: SCHEMA_VERSION,
        progress: None,
        report: None,
        failure: None,
    }
}

/// The last update, ready to go.
fn ended(outcome: Result<ReplayReport, String>) -> Option<Box<RawValue>> {
    let mut update = nothing();
    match outcome {
        Ok(report) => update.report = Some(report),
        Err(failure) => update.failure = Some(failure),
    }
    serde_json::value::to_raw_value(&update).ok()
}

/// Takes a replay out of the book when it ends, however it ends.
struct Closing(Desk, u64);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.book().open.remove(&self.1);
    }
}

fn no_such(replay: u64) -> CommandError {
    CommandError::refused(format!("no replay {replay}; it may have ended"))
}

impl Replays for Desk {
    fn start(&self, wanted: Wanted) -> Result<u64, CommandError> {
        let mut book = self.book();
        if book.open.len() >= OPEN {
            return Err(CommandError::refused(format!(
                "{OPEN} replays are prepared or under way already; try again when one has ended"
            )));
        }
        book.last += 1;
        let number = book.last;
        let stage = Stage::Prepared(Vec::new(), 0);
        book.open.insert(number, Entry { wanted, stage });
        drop(book);
        self.expire(number);
        Ok(number)
    }

    fn add(&self, replay: u64, arrivals: Vec<Arrival>) -> Result<usize, CommandError> {
        let mut book = self.book();
        let entry = book.open.get_mut(&replay).ok_or_else(|| no_such(replay))?;
        let Stage::Prepared(given, touched) = &mut entry.stage else {
            return Err(CommandError::refused("this replay is under way already"));
        };
        if entry.wanted.source != Source::Given {
            return Err(CommandError::refused(
                "this replay takes its workloads from the journal",
            ));
        }
        if given.len() + arrivals.len() > MOST {
            return Err(CommandError::refused(format!(
                "a replay has {MOST} workloads at most; narrow it with --engine or --last"
            )));
        }
        given.extend(arrivals);
        *touched += 1;
        Ok(given.len())
    }

    fn follow(&self, replay: u64) -> Result<Parts, CommandError> {
        let mut book = self.book();
        let sends = |e: &Entry| e.wanted.send && matches!(e.stage, Stage::Running(_));
        let sending = book.open.values().any(sends);
        let entry = book.open.get_mut(&replay).ok_or_else(|| no_such(replay))?;
        let Stage::Prepared(given, _) = &mut entry.stage else {
            return Err(CommandError::refused("this replay is followed already"));
        };
        if sending && entry.wanted.send {
            return Err(CommandError::refused(
                "another replay is being sent, and both would measure each other; \
                 wait for it, or end it with Ctrl-C where it runs",
            ));
        }
        let given = std::mem::take(given);
        let (stop, stopped) = watch::channel(false);
        let (tx, parts) = mpsc::channel(BUFFER);
        entry.stage = Stage::Running(stop);
        let running = Running {
            number: replay,
            wanted: entry.wanted,
            given,
            stop: stopped,
            parts: tx,
        };
        drop(book);
        let closing = Closing(self.clone(), replay);
        tokio::spawn(async move {
            closing.0.run(running).await;
            drop(closing);
        });
        Ok(parts)
    }

    fn cancel(&self, replay: u64) -> bool {
        let mut book = self.book();
        match book.open.get(&replay).map(|e| &e.stage) {
            Some(Stage::Running(stop)) => {
                stop.send_replace(true);
                true
            },
            Some(Stage::Prepared(..)) => book.open.remove(&replay).is_some(),
            None => false,
        }
    }

    fn export(&self, filter: WorkloadFilter) -> Parts {
        self.recordings.clone().export(filter)
    }
}

#[cfg(test)]
mod tests;
