//! Whether this daemon keeps a journal, and joining it to the workloads.
//!
//! Owns: who may write. Leaves to others: the files (`store::journal`), the records
//! (`state::workloads`).

use std::path::PathBuf;
use std::time::Duration;

use crate::state::workloads::{Finished, Workloads};
use crate::store::journal::Journal;
use crate::wire::journal::Entry;

/// The last records have this long to reach the disk.
const FLUSH_TIME: Duration = Duration::from_millis(500);

impl Finished for Journal {
    fn finished(&self, entry: &Entry<'_>) {
        self.append(entry);
    }
}

/// Opens the journal and fills it from now on. `None` where there is none, which is never a reason
/// not to start.
pub fn start(dir: Option<PathBuf>, workloads: &Workloads) -> Option<Journal> {
    let dir = dir?;
    match Journal::open(&dir) {
        Ok(journal) => {
            workloads.keep_in(Box::new(journal.clone()));
            Some(journal)
        },
        Err(e) => {
            tracing::warn!(dir = %dir.display(), reason = %e, "no journal is kept");
            None
        },
    }
}

/// Takes the last records to the disk.
pub async fn end(journal: &Journal) {
    if !journal.flush(FLUSH_TIME).await {
        tracing::warn!("the journal's last records did not reach the disk in time");
    }
    if journal.lost() > 0 {
        tracing::warn!(
            lost = journal.lost(),
            "the journal lacks records of this run"
        );
    }
}
