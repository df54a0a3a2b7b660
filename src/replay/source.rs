//! What this daemon has recorded: its journal's files, and what is only in memory.
//!
//! Owns: bringing both together, and handing records out in parts. Leaves to others: the files
//! (`store::journal`), what is in memory (`state::workloads`).
//!
//! The files hold earlier runs too; memory holds what the journal lost, or all there is where none
//! is kept (a demonstration).

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::state::follow::fits;
use crate::state::replays::Parts;
use crate::state::workloads::Workloads;
use crate::store::journal::{self, Journal};
use crate::wire::control::{SCHEMA_VERSION, WorkloadFilter};
use crate::wire::journal::Record;
use crate::wire::replay::{ExportEnd, ExportPart};

/// What was appended has this long to reach the files before they are read.
const FLUSH: Duration = Duration::from_secs(2);

/// Records of one part: some 200 KB.
const PART: usize = 500;

/// Where recordings are.
#[derive(Clone)]
pub struct Recordings {
    /// This run's workloads.
    pub workloads: Arc<Workloads>,
    /// The journal and its folder, if one is kept.
    pub journal: Option<(PathBuf, Journal)>,
}

/// Everything that is recorded.
#[derive(Debug, Default)]
pub struct Recorded {
    /// In no order.
    pub records: Vec<Record>,
    /// Lines that could not be read.
    pub skipped_lines: usize,
}

impl Recordings {
    /// Waits until the files have what ended before now; where the disk is too slow, memory has it.
    pub async fn settle(&self) {
        if let Some((_, journal)) = &self.journal {
            journal.flush(FLUSH).await;
        }
    }

    /// Reads everything. Blocks.
    ///
    /// # Errors
    /// A file or the folder cannot be read.
    pub fn read(&self) -> io::Result<Recorded> {
        let mut all = match &self.journal {
            Some((dir, _)) => read_files(dir)?,
            None => Recorded::default(),
        };
        let known: HashSet<_> = all.records.iter().map(key).collect();
        let memory = self.workloads.finished_records().into_iter();
        let lost: Vec<_> = memory.filter(|r| !known.contains(&key(r))).collect();
        all.records.extend(lost);
        Ok(all)
    }

    /// Hands out what passes a filter, a part at a time as the receiver takes them.
    pub fn export(self, filter: WorkloadFilter) -> Parts {
        let (tx, parts) = mpsc::channel(1);
        tokio::spawn(async move {
            self.settle().await;
            // A receiver that goes ends it at the next part.
            drop(tokio::task::spawn_blocking(move || self.hand_out(&filter, &tx)).await);
        });
        parts
    }

    fn hand_out(&self, filter: &WorkloadFilter, tx: &mpsc::Sender<Box<RawValue>>) {
        let Recorded {
            mut records,
            skipped_lines,
        } = match self.read() {
            Ok(recorded) => recorded,
            Err(e) => {
                // The parts end without their last one, which is how a receiver knows.
                tracing::warn!(reason = %e, "the journal cannot be read");
                return;
            },
        };
        records.retain(|r| {
            let node = r.attempts.last().map(|a| &a.node);
            fits(filter, r.engine, r.state, &r.model, node)
        });
        records.sort_by_cached_key(|r| (r.created_at, key(r)));
        if let Some(limit) = filter.limit {
            records.drain(..records.len().saturating_sub(limit));
        }
        let end = ExportEnd {
            records: records.len() as u64,
            skipped_lines: skipped_lines as u64,
        };
        let mut rest = records.into_iter();
        loop {
            let records: Vec<_> = rest.by_ref().take(PART).collect();
            let end = (rest.len() == 0).then_some(end);
            let part = ExportPart {
                schema_version: SCHEMA_VERSION,
                records,
                end,
            };
            let Ok(part) = serde_json::value::to_raw_value(&part) else {
                return;
            };
            if tx.blocking_send(part).is_err() || end.is_some() {
                return;
            }
        }
    }
}

fn key(r: &Record) -> (String, usize, u64) {
    (r.run_id.as_str().to_owned(), r.engine.index(), r.id.0)
}

fn read_files(dir: &std::path::Path) -> io::Result<Recorded> {
    let mut all = Recorded::default();
    for file in journal::list(dir)? {
        match journal::read(&file) {
            Ok(contents) => {
                all.records.extend(contents.records);
                all.skipped_lines += contents.skipped;
            },
            // The oldest file makes way for a new one at any time.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {},
            Err(e) => return Err(e),
        }
    }
    Ok(all)
}
