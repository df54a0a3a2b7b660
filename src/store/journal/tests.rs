use std::fs;

use super::super::batched::LONGEST;
use super::*;
use crate::rules::engine::EngineId;
use crate::rules::ids::{JobId, RunId};
use crate::wire::broker::WorkloadState;
use crate::wire::journal::{Record, VERSION};

const LIMIT: Duration = Duration::from_secs(20);

fn record(id: u64) -> Record {
    Record {
        v: VERSION,
        run_id: RunId::from_bytes([1; 8]),
        engine: EngineId::parse("ollama").unwrap(),
        id: JobId(id),
        model: "m".into(),
        path: "/api/chat".into(),
        body_bytes: 3,
        created_at: 1,
        started_at: None,
        ended_at: 2,
        state: WorkloadState::Failed,
        status: Some(502),
        error: None,
        framing: None,
        attempts: vec![],
        stats: None,
    }
}

fn line(record: &Record) -> Vec<u8> {
    let mut line = Vec::new();
    Entry::from(record).write(&mut line).unwrap();
    line.push(b'\n');
    line
}

fn lines(ids: std::ops::Range<u64>) -> Vec<u8> {
    ids.flat_map(|id| line(&record(id))).collect()
}

fn ids(dir: &Path) -> Vec<u64> {
    let all = list(dir).unwrap();
    let records = all.iter().flat_map(|f| read(f).unwrap().records);
    records.map(|r| r.id.0).collect()
}

fn append(files: &mut Files, ids: std::ops::Range<u64>) {
    let lines = lines(ids);
    let mut written = 0;
    while written < lines.len() {
        written += files.append(&lines[written..]).unwrap();
    }
    assert_eq!(written, lines.len());
}

#[test]
fn files_turn_over_and_only_the_newest_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let line = lines(10..11).len() as u64;
    let mut files = Files::with_limits(dir.path(), 3 * line, 2);
    append(&mut files, 10..18);
    assert_eq!(ids(dir.path()), [13, 14, 15, 16, 17]);
    let names: Vec<_> = list(dir.path())
        .unwrap()
        .iter()
        .map(|f| f.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["journal-000002.jsonl", "journal-000003.jsonl"]);
    // Another run goes on where this one stopped.
    append(&mut Files::with_limits(dir.path(), 3 * line, 2), 18..20);
    assert_eq!(ids(dir.path()), [16, 17, 18, 19]);
    for file in list(dir.path()).unwrap() {
        assert!(fs::metadata(file).unwrap().len() <= 3 * line);
    }
}

#[test]
fn a_torn_last_line_is_skipped_and_nothing_else_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    append(&mut Files::new(dir.path()), 1..4);
    let path = list(dir.path()).unwrap().remove(0);
    let whole = fs::read(&path).unwrap();
    for cut in [1, 20] {
        fs::write(&path, &whole[..whole.len() - cut]).unwrap();
        let torn = read(&path).unwrap();
        // Without its last byte it is still whole.
        let kept = if cut == 1 { 3 } else { 2 };
        assert_eq!((torn.records.len(), torn.skipped), (kept, 3 - kept));
        append(&mut Files::new(dir.path()), 4..5);
        let now = read(&path).unwrap();
        assert_eq!((now.records.len(), now.skipped), (kept + 1, 0));
    }
    // One that begins with garbage and one of a later version are skipped where they stand.
    let later = r#"{"v":2,"what":"later"}"#;
    fs::write(
        &path,
        [b"garbage\n", later.as_bytes(), b"\n", &whole].concat(),
    )
    .unwrap();
    let read = read(&path).unwrap();
    assert_eq!((read.records.len(), read.skipped), (3, 2));
}

#[test]
fn a_line_that_no_file_holds_has_one_for_itself() {
    let dir = tempfile::tempdir().unwrap();
    let line = lines(1..2).len() as u64;
    let mut files = Files::with_limits(dir.path(), line - 1, 8);
    append(&mut files, 1..4);
    assert_eq!(ids(dir.path()), [1, 2, 3]);
    assert_eq!(list(dir.path()).unwrap().len(), 3);
}

#[test]
fn a_failed_write_is_told_and_the_next_one_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    fs::write(&state, "a file where the folder should be").unwrap();
    let mut files = Files::new(&state);
    files.append(&lines(1..3)).unwrap_err();
    fs::remove_file(&state).unwrap();
    append(&mut files, 3..5);
    assert_eq!(ids(&state), [3, 4]);
}

#[cfg(unix)]
#[tokio::test]
async fn what_is_appended_is_on_the_disk_after_a_flush_and_only_its_owner_may_look() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("a/state");
    let journal = Journal::open(&state).unwrap();
    for id in 1..=100 {
        journal.append(&Entry::from(&record(id)));
    }
    assert!(journal.flush(LIMIT).await);
    assert_eq!(ids(&state), (1..=100).collect::<Vec<_>>());
    assert_eq!(journal.lost(), 0);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700);
    assert_eq!(mode(&list(&state).unwrap()[0]), 0o600);
}

#[tokio::test]
async fn one_process_writes_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let first = Journal::open(dir.path()).unwrap();
    let second = Journal::open(dir.path());
    assert!(matches!(second, Err(JournalError::InUse)), "{second:?}");
    drop(first);
}

#[tokio::test]
async fn an_overflow_and_an_endless_name_cost_records_and_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    // The writer cannot run before the first await.
    let mut appended = 0;
    while journal.lost() < 7 {
        journal.append(&Entry::from(&record(appended)));
        appended += 1;
    }
    assert!(journal.flush(LIMIT).await);
    journal.append(&Entry::from(&Record {
        model: "x".repeat(LONGEST),
        ..record(9999)
    }));
    assert!(journal.flush(LIMIT).await);
    assert_eq!(journal.lost(), 8);
    assert_eq!(ids(dir.path()).len() as u64, appended - 7);
    let size = |file: &std::path::PathBuf| fs::metadata(file).unwrap().len();
    let all: u64 = list(dir.path()).unwrap().iter().map(size).sum();
    assert!(all <= ROOM as u64);
}
