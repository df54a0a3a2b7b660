use super::super::events::Sink;
use super::shown::ended;
use super::*;
use crate::wire::journal::{Attempt, AttemptOutcome, Entry};

#[derive(Default, Clone)]
struct Seen(Arc<Mutex<Vec<(WorkloadNotice, WorkloadInfo)>>>);

impl Sink for Seen {
    fn notice(&self, notice: &Notice) {
        if let Notice::Workload(kind, info) = notice {
            self.0.lock().unwrap().push((*kind, (**info).clone()));
        }
    }
}

fn workloads() -> (Arc<Workloads>, Seen) {
    let (seen, events) = (Seen::default(), Arc::new(Events::default()));
    events.join(vec![Box::new(seen.clone())]);
    (
        Arc::new(Workloads::new(RunId::from_bytes([1; 8]), events)),
        seen,
    )
}

fn admit(w: &Arc<Workloads>, id: u64) -> Arc<Job> {
    w.admit(Admission {
        engine: EngineId::parse("ollama").unwrap(),
        id: JobId(id),
        model: "m".into(),
        path: "/api/chat",
        body_bytes: 3,
        created_at: 1000,
        arrived: Instant::now(),
        owners: Owners::of(1, [NodeId::from("a")].iter()),
        client: None,
    })
}

#[test]
fn one_owner_that_refuses_once_then_serves() {
    let (w, seen) = workloads();
    let (job, a) = (admit(&w, 7), NodeId::from("a"));
    job.place(&a, Load::default());
    job.refused(&a, Failure::Status(503), "HTTP 503".into());
    job.clear();
    job.place(&a, Load::default());
    job.start(&a, 200);
    job.finish(End::Relayed { status: 200 }, None, None);
    job.finish(End::ClientGone, None, None);
    let events: Vec<_> = seen
        .0
        .lock()
        .unwrap()
        .iter()
        .map(|(n, i)| (*n, i.seq, i.scheduled_on.clone().map(|n| n.to_string())))
        .collect();
    use WorkloadNotice::*;
    let on = |n: &str| Some(n.to_owned());
    assert_eq!(
        events,
        [
            (Submitted, 1, None),
            (Submitted, 2, on("a")),
            (Submitted, 3, None),
            (Submitted, 4, on("a")),
            (Started, 5, on("a")),
            (Completed, 6, on("a")),
        ]
    );
    assert_eq!(
        w.counts(),
        WorkloadCounts {
            completed: 1,
            ..Default::default()
        }
    );
    let shown: Vec<_> = w.find(None, JobId(7))[0]
        .timeline
        .iter()
        .map(|t| t.event.clone())
        .collect();
    assert_eq!(
        shown,
        [
            "admitted",
            "dispatched",
            "refused",
            "waiting",
            "dispatched",
            "started",
            "completed"
        ]
    );
}

#[derive(Default, Clone)]
struct Kept(Arc<Mutex<Vec<Record>>>);

impl Finished for Kept {
    fn finished(&self, entry: &Entry<'_>) {
        self.0.lock().unwrap().push(entry.to_record());
    }
}

#[test]
fn what_ended_is_kept_once_with_every_attempt() {
    let (w, _) = workloads();
    let kept = Kept::default();
    w.keep_in(Box::new(kept.clone()));
    let [a, b] = ["a", "b"].map(NodeId::from);
    let load = Load {
        pending: 2,
        in_flight: 1,
        ..Load::default()
    };
    let job = admit(&w, 7);
    job.place(&a, load);
    job.refused(&a, Failure::Status(503), "HTTP 503".into());
    job.place(&b, Load::default());
    job.start(&b, 200);
    job.framed(Some(b"application/x-ndjson"));
    assert!(kept.0.lock().unwrap().is_empty(), "it goes on");
    job.finish(End::Relayed { status: 200 }, None, None);
    job.finish(End::ClientGone, None, None);
    let lost = admit(&w, 8);
    lost.place(&a, Load::default());
    lost.finish(End::ClientGone, None, None);
    let kept = kept.0.lock().unwrap();
    let tries = |r: &Record| -> Vec<_> {
        let of = |a: &Attempt| (a.node.to_string(), a.outcome, a.status);
        r.attempts.iter().map(of).collect()
    };
    assert_eq!(
        tries(&kept[0]),
        [
            ("a".to_owned(), AttemptOutcome::Refused, Some(503)),
            ("b".to_owned(), AttemptOutcome::Committed, Some(200)),
        ]
    );
    assert_eq!(kept[0].attempts[0].load, [2, 0, 1]);
    assert_eq!(kept[0].framing, Some(Framing::Ndjson));
    assert_eq!((kept[0].v, kept[0].state), (1, State::Completed));
    assert_eq!(
        tries(&kept[1]),
        [("a".to_owned(), AttemptOutcome::Abandoned, None)]
    );
    assert_eq!((kept.len(), kept[1].state), (2, State::Cancelled));
}

#[tokio::test]
async fn a_follower_sees_each_change_as_the_broker_does() {
    let (w, seen) = workloads();
    let mut f = w.follow(WorkloadFilter::default());
    let (job, a) = (admit(&w, 7), NodeId::from("a"));
    job.place(&a, Load::default());
    job.start(&a, 200);
    job.finish(End::Relayed { status: 200 }, None, None);
    let told = seen.0.lock().unwrap().clone();
    for (_, info) in &told {
        let change = f.next().await.unwrap();
        assert_eq!((change.seq, change.missed), (info.seq, 0));
        let now = (change.workload.state, change.workload.node.clone());
        assert_eq!(now, (info.state, info.scheduled_on.clone()));
    }
    assert_eq!(told.len(), 4);
}

#[test]
fn the_timeline_says_how_long_the_first_byte_took_and_what_was_measured() {
    let (w, _) = workloads();
    let (job, a) = (admit(&w, 1), NodeId::from("a"));
    job.place(&a, Load::default());
    // The wait counts from the last dispatch, and not from the arrival.
    job.lock().timeline.last_mut().unwrap().0 = 20;
    job.lock()
        .timeline
        .push((616, Step::Started(NodeId::from("a"))));
    let stats = Stats {
        completion_tokens: Some(340),
        tokens_per_second: Some(42.0),
        ..Stats::default()
    };
    job.finish(End::Relayed { status: 200 }, None, Some(stats));
    let details: Vec<_> = w.find(None, JobId(1))[0]
        .timeline
        .iter()
        .map(|t| t.detail.clone().unwrap_or_default())
        .collect();
    let want = [
        "1 owner: a",
        "",
        "first byte after 596 ms",
        "340 tokens, 42.0 tok/s",
    ];
    assert_eq!(details, want);
}

#[test]
fn an_end_tells_its_reason_and_its_measures_as_far_as_they_are_known() {
    let stats = |tokens, speed, estimated| Stats {
        completion_tokens: tokens,
        tokens_per_second: speed,
        estimated,
        ..Stats::default()
    };
    for (why, stats, want) in [
        (None, None, None),
        (Some("gone"), None, Some("gone")),
        (None, Some(stats(None, None, false)), None),
        (None, Some(stats(Some(1), None, false)), Some("1 token")),
        (
            Some("gone"),
            Some(stats(Some(61), Some(40.12), true)),
            Some("gone, about 61 tokens, 40.1 tok/s"),
        ),
    ] {
        assert_eq!(ended(why, stats.as_ref()).as_deref(), want);
    }
}

#[test]
fn filters_narrow_and_the_newest_comes_first() {
    let (w, _) = workloads();
    let first = admit(&w, 1);
    admit(&w, 2);
    first.finish(End::ClientGone, None, None);
    let ids = |f: WorkloadFilter| w.list(&f).iter().map(|w| w.id.0).collect::<Vec<_>>();
    assert_eq!(ids(WorkloadFilter::default()), [2, 1]);
    assert_eq!(
        ids(WorkloadFilter {
            limit: Some(1),
            ..Default::default()
        }),
        [2]
    );
    let state = Some(State::Cancelled);
    assert_eq!(
        ids(WorkloadFilter {
            state,
            ..Default::default()
        }),
        [1]
    );
    let model = Some("m:latest".into());
    assert_eq!(
        ids(WorkloadFilter {
            model,
            ..Default::default()
        }),
        [2, 1]
    );
    let node = Some("zz".into());
    assert!(
        ids(WorkloadFilter {
            node,
            ..Default::default()
        })
        .is_empty()
    );
}

#[test]
fn only_the_last_ten_thousand_are_kept() {
    let (w, _) = workloads();
    for id in 1..=(KEPT as u64 + 5) {
        admit(&w, id);
    }
    assert_eq!(w.recent().len(), KEPT);
    assert!(w.find(None, JobId(5)).is_empty());
    assert_eq!(w.find(None, JobId(6)).len(), 1);
}

#[test]
fn a_few_owners_are_told_by_name() {
    let ids: Vec<NodeId> = (0..1000).map(|i| format!("n{i}").as_str().into()).collect();
    let told = |n: usize| Owners::of(n, ids[..n].iter()).to_string();
    assert_eq!(told(1), "1 owner: n0");
    assert_eq!(told(8), "8 owners: n0, n1, n2, n3, n4, n5, n6, n7");
    assert_eq!(
        told(1000),
        "1000 owners: n0, n1, n2, n3, n4, n5, n6, n7 and 992 more"
    );
}
