use super::*;
use crate::wire::usage_event::sample;

fn ids(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let read = |line: &str| serde_json::from_str::<UsageEvent>(line).ok();
    text.lines().filter_map(read).map(|e| e.event_id).collect()
}

async fn flushed(file: &UsageFile) {
    assert!(file.flush(Duration::from_secs(30)).await);
}

#[tokio::test]
async fn events_are_appended_for_their_owner_alone_and_a_torn_line_is_ended() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/usage.jsonl");
    let file = UsageFile::open(&path);
    for n in 0..3 {
        file.append(&sample(n));
    }
    flushed(&file).await;
    assert_eq!(ids(&path), ["id-0", "id-1", "id-2"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let mut text = fs::read(&path).unwrap();
    text.extend_from_slice(br#"{"v":1,"event"#);
    fs::write(&path, text).unwrap();
    let again = UsageFile::open(&path);
    again.append(&sample(3));
    flushed(&again).await;
    assert_eq!(ids(&path), ["id-0", "id-1", "id-2", "id-3"]);
    assert_eq!(again.lost(), 0);
}

#[tokio::test]
async fn a_file_that_is_full_or_moved_away_is_followed_by_another() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("u");
    let line = serde_json::to_vec(&sample(0)).unwrap().len() as u64 + 1;
    let file = UsageFile::with_limits(&path, ROOM, line * 2);
    for n in 0..9 {
        file.append(&sample(n));
    }
    flushed(&file).await;
    let aside = |n: u32| dir.path().join(format!("u.{n}"));
    assert_eq!(ids(&path), ["id-8"]);
    assert_eq!(ids(&aside(1)), ["id-6", "id-7"]);
    assert_eq!(ids(&aside(4)), ["id-0", "id-1"]);
    for n in 10..40 {
        file.append(&sample(n));
    }
    flushed(&file).await;
    assert!(aside(KEPT).exists() && !aside(KEPT + 1).exists());
    fs::rename(&path, dir.path().join("taken")).unwrap();
    file.append(&sample(50));
    flushed(&file).await;
    assert_eq!(ids(&path), ["id-50"]);
    assert_eq!(file.lost(), 0);
}

#[tokio::test]
async fn what_cannot_be_written_is_counted_and_the_next_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("u");
    let file = UsageFile::open(&path);
    fs::remove_file(&path).unwrap();
    // A folder stands in its place.
    fs::create_dir(&path).unwrap();
    file.append(&sample(1));
    flushed(&file).await;
    assert_eq!(file.lost(), 1);
    fs::remove_dir(&path).unwrap();
    file.append(&sample(2));
    flushed(&file).await;
    assert_eq!(ids(&path), ["id-2"]);
    assert_eq!(file.lost(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_full_buffer_costs_events_and_no_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("u");
    let line = serde_json::to_vec(&sample(0)).unwrap().len() + 1;
    let file = UsageFile::with_limits(&path, line * 4, FILE_BYTES);
    for n in 0..10 {
        file.append(&sample(n));
    }
    assert_eq!(file.lost(), 6);
    flushed(&file).await;
    assert_eq!(ids(&path).len(), 4);
}
