use super::*;

const LIMIT: Duration = Duration::from_secs(30);

/// What an output of the test's own was given, line by line, and what it told.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    writes: Vec<String>,
    told: Vec<(&'static str, u64)>,
    broken: bool,
    /// Takes so many bytes, and then no more.
    left: Option<usize>,
}

impl Seen {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    fn lines(&self) -> Vec<String> {
        let all = self.inner().writes.concat();
        all.lines().map(str::to_owned).collect()
    }
}

impl Output for Seen {
    fn append(&mut self, lines: &[u8]) -> io::Result<usize> {
        let mut inner = self.inner();
        if inner.broken {
            return Err(io::Error::other("broken"));
        }
        let n = match inner.left.as_mut() {
            None => lines.len(),
            Some(left) => {
                let n = fitting(lines, *left as u64);
                *left -= n;
                if n == 0 {
                    return Err(io::Error::other("full"));
                }
                n
            },
        };
        let text = std::str::from_utf8(&lines[..n]).unwrap();
        inner.writes.push(text.to_owned());
        Ok(n)
    }

    fn tell(&self, news: News<'_>, lost: u64) {
        let word = match news {
            News::Fails(_) => "fails",
            News::Works => "works",
            News::Behind => "behind",
            News::KeepsUp => "keeps up",
        };
        self.inner().told.push((word, lost));
    }
}

fn append(lines: &Lines, text: &str) {
    lines.append(|out| {
        out.extend_from_slice(text.as_bytes());
        Ok(())
    });
}

fn start(room: usize) -> (Lines, Seen) {
    let seen = Seen::default();
    (Lines::start(seen.clone(), false, room), seen)
}

async fn flushed(lines: &Lines) {
    assert!(lines.flush(LIMIT).await);
}

#[tokio::test(start_paused = true)]
async fn what_comes_within_a_moment_is_one_write() {
    let (lines, seen) = start(ROOM);
    for n in 0..3 {
        append(&lines, &n.to_string());
        tokio::time::sleep(GATHER / 4).await;
    }
    tokio::time::sleep(GATHER).await;
    append(&lines, "later");
    flushed(&lines).await;
    assert_eq!(seen.inner().writes, ["0\n1\n2\n", "later\n"]);
    // With nothing new there is nothing to write.
    flushed(&lines).await;
    assert_eq!(seen.inner().writes.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn many_lines_do_not_wait_for_more() {
    let (lines, seen) = start(4_000);
    let begun = tokio::time::Instant::now();
    append(&lines, "first");
    tokio::task::yield_now().await;
    append(&lines, &"x".repeat(many(4_000)));
    while seen.inner().writes.is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(begun.elapsed() < GATHER, "the clock stood still meanwhile");
    assert_eq!(seen.lines().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_there_is_no_room_for_is_lost_counted_and_told_of_once() {
    let (lines, seen) = start(10);
    // The writer cannot run before the first await.
    for n in 0..9 {
        append(&lines, &n.to_string());
    }
    assert_eq!(lines.lost(), 4);
    flushed(&lines).await;
    assert_eq!(seen.lines(), ["0", "1", "2", "3", "4"]);
    for _ in 0..7 {
        append(&lines, "y");
    }
    flushed(&lines).await;
    assert_eq!(lines.lost(), 6);
    append(&lines, "z");
    flushed(&lines).await;
    assert_eq!(seen.inner().told, [("behind", 4), ("keeps up", 6)]);
    assert_eq!(seen.lines().len(), 11);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_line_or_too_long_a_one_is_counted_and_leaves_no_trace() {
    let (lines, seen) = start(ROOM);
    append(&lines, &"x".repeat(LONGEST));
    lines.append(|out| {
        out.extend_from_slice(b"half");
        Err(serde::ser::Error::custom("no line"))
    });
    append(&lines, &"y".repeat(LONGEST - 1));
    append(&lines, "z");
    flushed(&lines).await;
    assert_eq!(lines.lost(), 2);
    let kept: Vec<_> = seen.lines().iter().map(String::len).collect();
    assert_eq!(kept, [LONGEST - 1, 1]);
    assert!(seen.inner().told.is_empty(), "the disk is not at fault");
}

#[tokio::test(start_paused = true)]
async fn an_output_that_fails_is_told_of_once_and_used_again_once_it_works() {
    let (lines, seen) = start(ROOM);
    seen.inner().broken = true;
    for round in 1..=2 {
        for _ in 0..3 {
            append(&lines, "a");
        }
        flushed(&lines).await;
        assert_eq!(lines.lost(), 3 * round);
    }
    flushed(&lines).await;
    assert_eq!(seen.inner().told, [("fails", 3)], "and nothing was tried");
    seen.inner().broken = false;
    append(&lines, "b");
    flushed(&lines).await;
    assert_eq!(seen.inner().told, [("fails", 3), ("works", 6)]);
    assert_eq!((seen.lines().len(), lines.lost()), (1, 6));
}

#[tokio::test(start_paused = true)]
async fn of_a_batch_that_is_written_in_part_only_the_rest_is_lost() {
    let (lines, seen) = start(ROOM);
    seen.inner().left = Some(5);
    for n in 0..4 {
        append(&lines, &n.to_string());
    }
    flushed(&lines).await;
    assert_eq!((seen.lines().concat().as_str(), lines.lost()), ("01", 2));
}

#[tokio::test(start_paused = true)]
async fn the_last_to_leave_has_its_lines_written_and_the_output_let_go() {
    let (lines, seen) = start(ROOM);
    let clone = lines.clone();
    append(&lines, "1");
    drop(lines);
    append(&clone, "2");
    drop(clone);
    // Two hold it: the test, and the writer as long as it lives.
    while Arc::strong_count(&seen.0) > 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(seen.lines(), ["1", "2"]);
}

#[tokio::test]
async fn lines_of_many_threads_are_whole_and_in_their_order() {
    let (lines, seen) = start(ROOM);
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let lines = lines.clone();
            std::thread::spawn(move || {
                for n in 0..1_000 {
                    append(&lines, &format!("{thread} {n}"));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    flushed(&lines).await;
    let all = seen.lines();
    for thread in 0..4 {
        let of = |line: &&String| line.starts_with(&format!("{thread} "));
        let want: Vec<_> = (0..1_000).map(|n| format!("{thread} {n}")).collect();
        assert_eq!(all.iter().filter(of).cloned().collect::<Vec<_>>(), want);
    }
    assert_eq!((all.len(), lines.lost()), (4_000, 0));
}

#[test]
fn only_whole_lines_fit() {
    for (room, want) in [
        (0, 0),
        (1, 0),
        (2, 2),
        (4, 2),
        (5, 5),
        (9, 5),
        (u64::MAX, 5),
    ] {
        assert_eq!(fitting(b"a\nbc\n", room), want, "{room}");
    }
    assert_eq!((first(b"a\nbc\n"), first(b"ab"), first(b"")), (2, 2, 0));
}
