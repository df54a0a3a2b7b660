//! Tests of `outbox`.

use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::{Value, json};

use super::*;
use crate::wire::jsonrpc::ErrorCode;

const SMALL: Limits = Limits {
    frame: 200,
    backlog: 1000,
};

/// Passes on what it is given; every write first waits for a permit, if it has a gate.
struct Tap {
    out: Sender<Vec<u8>>,
    gate: Option<Receiver<()>>,
    at_most: usize,
}

impl Write for Tap {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if let Some(gate) = &self.gate {
            gate.recv().map_err(|_| ErrorKind::BrokenPipe)?;
        }
        let n = buf.len().min(self.at_most);
        self.out
            .send(buf[..n].to_vec())
            .map_err(|_| ErrorKind::BrokenPipe)?;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Rig {
    outbox: Outbox,
    out: Receiver<Vec<u8>>,
    gate: Sender<()>,
    gone: Receiver<String>,
}

impl Rig {
    fn new(limits: Limits, gated: bool, at_most: usize) -> Self {
        let (out_tx, out) = channel();
        let (gate, gate_rx) = channel();
        let (gone_tx, gone) = channel();
        let tap = Tap {
            out: out_tx,
            gate: gated.then_some(gate_rx),
            at_most,
        };
        let outbox = Outbox::with_limits(limits, tap, "1.2.3".into(), move |why| {
            gone_tx.send(why.to_string()).unwrap();
        });
        Self {
            outbox: outbox.unwrap(),
            out,
            gate,
            gone,
        }
    }

    fn open() -> Self {
        Self::new(SMALL, false, usize::MAX)
    }

    /// Closes the queue and returns everything that was written.
    fn written(self) -> Vec<Value> {
        self.outbox.close();
        let bytes: Vec<u8> = self.out.iter().flatten().collect();
        assert!(bytes.is_empty() || bytes.ends_with(b"\n"));
        bytes
            .split(|b| *b == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect()
    }
}

fn id(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

#[test]
fn every_frame_is_one_compact_line() {
    let rig = Rig::open();
    let engine = EngineId::parse("ollama");
    rig.outbox.notify(engine, "ready", &json!({"port":1}));
    rig.outbox
        .notify(None, "workload:started", &json!({"a":"x\ny"}));
    rig.outbox.reply(&id(r#"{"b": 1}"#), &());
    rig.outbox
        .refuse(&id("1e400"), &CommandError::params("bad \"x\""));
    rig.outbox.close();
    let bytes: Vec<u8> = rig.out.iter().flatten().collect();
    let want = concat!(
        r#"{"jsonrpc":"2.0","method":"ollama:ready","params":{"port":1}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","method":"workload:started","params":{"a":"x\ny"}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":{"b": 1},"result":null}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":1e400,"error":{"code":-32602,"message":"bad \"x\""}}"#,
        "\n",
    );
    assert_eq!(String::from_utf8(bytes).unwrap(), want);
}

#[test]
fn an_answer_above_the_cap_becomes_an_error_that_says_so() {
    let limits = Limits {
        frame: 300,
        ..SMALL
    };
    let rig = Rig::new(limits, false, usize::MAX);
    rig.outbox.reply(&id("7"), &"x".repeat(300));
    let frames = rig.written();
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0]["id"], 7);
    assert_eq!(
        frames[0]["error"]["code"],
        ErrorCode::Refused.number(),
        "{frames:?}"
    );
    assert!(
        frames[0]["error"]["message"]
            .as_str()
            .unwrap()
            .contains("above the limit")
    );
}

#[test]
fn the_cap_counts_the_whole_frame_and_a_notification_above_it_is_dropped() {
    let rig = Rig::open();
    let frame = |n: usize| json!("x".repeat(n));
    let envelope = r#"{"jsonrpc":"2.0","method":"a","params":""}"#.len() + 1;
    rig.outbox.notify(None, "a", &frame(200 - envelope));
    rig.outbox.notify(None, "a", &frame(201 - envelope));
    rig.outbox.notify(None, "b", &json!(1));
    let methods: Vec<_> = rig.written().iter().map(|f| f["method"].clone()).collect();
    assert_eq!(methods, ["a", "b"]);
}

#[test]
fn an_answer_that_cannot_fit_at_all_is_not_sent() {
    let rig = Rig::open();
    rig.outbox.reply(&id(&format!("{:?}", "x".repeat(300))), &1);
    assert_eq!(rig.written(), Vec::<Value>::new());
}

#[test]
fn a_blocked_reader_delays_frames_but_loses_and_reorders_none() {
    let limits = Limits {
        frame: 200,
        backlog: 1 << 20,
    };
    let rig = Rig::new(limits, true, usize::MAX);
    // Nothing can be written during any of this, and still nobody waits.
    thread::scope(|scope| {
        for who in 0..4 {
            let outbox = &rig.outbox;
            scope.spawn(move || {
                for n in 0..500 {
                    outbox.notify(None, "n", &json!([who, n]));
                }
            });
        }
    });
    assert!(rig.out.try_recv().is_err());
    for _ in 0..2000 {
        rig.gate.send(()).unwrap();
    }
    let frames = rig.written();
    assert_eq!(frames.len(), 2000);
    for who in 0..4 {
        let own: Vec<_> = frames
            .iter()
            .filter(|f| f["params"][0] == who)
            .map(|f| f["params"][1].as_u64().unwrap())
            .collect();
        assert_eq!(own, (0..500).collect::<Vec<_>>());
    }
}

#[test]
fn what_waits_goes_out_in_one_write() {
    let rig = Rig::new(SMALL, true, usize::MAX);
    rig.outbox.notify(None, "a", &1);
    // The first write is given its frame and then blocked; the rest gathers behind it.
    while rig.outbox.0.lock().in_flight == 0 {
        thread::yield_now();
    }
    rig.outbox.notify(None, "b", &2);
    rig.outbox.notify(None, "c", &3);
    rig.gate.send(()).unwrap();
    rig.gate.send(()).unwrap();
    rig.outbox.close();
    let writes: Vec<_> = rig.out.iter().collect();
    let lines = |w: &Vec<u8>| w.iter().filter(|b| **b == b'\n').count();
    assert_eq!(writes.iter().map(lines).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn short_writes_are_continued() {
    let rig = Rig::new(SMALL, false, 3);
    rig.outbox.notify(None, "abc", &json!({"k":"value"}));
    rig.outbox.notify(None, "def", &json!(null));
    let frames = rig.written();
    assert_eq!(frames[0]["params"]["k"], "value");
    assert_eq!(frames[1]["method"], "def");
}

#[test]
fn a_sink_that_hesitates_is_asked_again() {
    struct Moody(Vec<ErrorKind>, Sender<Vec<u8>>);
    impl Write for Moody {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            if let Some(kind) = self.0.pop() {
                return Err(kind.into());
            }
            self.1.send(buf.to_vec()).unwrap();
            Ok(buf.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (tx, rx) = channel();
    let moods = vec![
        ErrorKind::Interrupted,
        ErrorKind::WouldBlock,
        ErrorKind::Interrupted,
    ];
    let outbox = Outbox::start(Moody(moods, tx), "v", |_| panic!("not gone")).unwrap();
    outbox.notify(None, "a", &1);
    assert!(rx.recv().unwrap().ends_with(b"\n"));
}

#[test]
fn a_backlog_above_the_limit_means_the_parent_is_gone() {
    let rig = Rig::new(SMALL, true, usize::MAX);
    for n in 0..100 {
        rig.outbox.notify(None, "n", &n);
    }
    assert!(rig.gone.recv().unwrap().contains("does not read"));
    assert!(rig.gone.recv().is_err(), "called once");
    assert!(rig.outbox.0.lock().pending.is_empty(), "memory is freed");
}

#[test]
fn a_broken_sink_means_the_parent_is_gone() {
    let rig = Rig::new(SMALL, false, usize::MAX);
    drop(rig.out);
    rig.outbox.notify(None, "a", &1);
    assert!(!rig.gone.recv().unwrap().is_empty());
    rig.outbox.notify(None, "b", &1);
    assert!(rig.gone.recv().is_err(), "called once");
}

#[test]
fn a_callback_may_emit() {
    let slot = Arc::new(Mutex::new(None::<Outbox>));
    let (gate, gate_rx) = channel();
    let (done_tx, done) = channel();
    let tap = Tap {
        out: channel().0,
        gate: Some(gate_rx),
        at_most: usize::MAX,
    };
    let inner = Arc::clone(&slot);
    let outbox = Outbox::with_limits(SMALL, tap, String::new(), move |_| {
        let outbox = inner.lock().unwrap().clone().unwrap();
        outbox.notify(None, "late", &1);
        done_tx.send(()).unwrap();
    })
    .unwrap();
    *slot.lock().unwrap() = Some(outbox.clone());
    for n in 0..100 {
        outbox.notify(None, "n", &n);
    }
    done.recv().unwrap();
    drop(gate);
}

#[tokio::test(start_paused = true)]
async fn flush_waits_for_the_last_byte_or_for_its_deadline() {
    let rig = Rig::new(SMALL, true, usize::MAX);
    let soon = || Instant::now() + Duration::from_secs(1);
    assert!(rig.outbox.flush(soon()).await, "nothing waits");
    rig.outbox.notify(None, "a", &1);
    assert!(!rig.outbox.flush(soon()).await, "the sink is blocked");
    rig.gate.send(()).unwrap();
    // The frame has left when it can be received, so only the writer's last step is awaited.
    rig.out.recv().unwrap();
    let flushed = tokio::task::spawn_blocking({
        let outbox = rig.outbox.clone();
        move || {
            while outbox.0.lock().in_flight > 0 {
                thread::yield_now();
            }
        }
    });
    flushed.await.unwrap();
    assert!(rig.outbox.flush(soon()).await);
}

#[tokio::test]
async fn flush_ends_at_once_when_the_parent_is_gone() {
    let rig = Rig::new(SMALL, true, usize::MAX);
    for n in 0..100 {
        rig.outbox.notify(None, "n", &n);
    }
    let far = Instant::now() + Duration::from_secs(3600);
    assert!(!rig.outbox.flush(far).await);
}
