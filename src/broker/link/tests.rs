//! The link over a pipe in memory, with a daemon that only records.

use std::io::Write;
use std::pin::Pin;
use std::sync::{Mutex, mpsc as std_mpsc};
use std::task::{Context, Poll};

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::rules::ids::JobId;
use crate::state::command::{CommandQueue, PortRule};
use crate::state::events::{Notice, Sink};
use crate::wire::control::{
    DaemonInfo, ModelList, PortSet, RouteExplained, Status, Workload, WorkloadFilter, WorkloadList,
};

fn engine(id: &str) -> EngineId {
    EngineId::parse(id).unwrap()
}

/// Ollama and LM Studio are enabled; asking for LM Studio's nodes panics.
#[derive(Default)]
struct Facts {
    models: Vec<String>,
}

impl Queries for Facts {
    fn is_enabled(&self, which: EngineId) -> bool {
        which != engine("llamacpp")
    }
    fn nodes(&self, which: EngineId) -> Vec<NodeRecord> {
        assert_eq!(which, engine("ollama"), "scripted panic");
        vec![NodeRecord {
            id: "n".into(),
            models: self.models.clone(),
            ..NodeRecord::default()
        }]
    }
    fn selected(&self, which: EngineId) -> Option<NodeId> {
        (which == engine("ollama")).then(|| "n".into())
    }
    fn info(&self) -> DaemonInfo {
        panic!("not asked")
    }
    fn status(&self) -> Status {
        panic!("not asked")
    }
    fn workloads(&self, _: &WorkloadFilter) -> WorkloadList {
        panic!("not asked")
    }
    fn workload(&self, _: Option<EngineId>, _: JobId) -> Vec<Workload> {
        panic!("not asked")
    }
    fn models(&self, _: Option<EngineId>, _: bool) -> ModelList {
        panic!("not asked")
    }
    fn follow(&self, _: WorkloadFilter) -> crate::state::follow::Follower {
        panic!("not asked")
    }
    fn route(&self, _: EngineId, _: &str) -> Option<RouteExplained> {
        panic!("not asked")
    }
}

/// Passes bytes on; each write waits for a permit, if there is a gate.
struct Tap(
    mpsc::UnboundedSender<Vec<u8>>,
    Option<std_mpsc::Receiver<()>>,
);

impl Write for Tap {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if let Some(gate) = &self.1 {
            gate.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
        }
        let sent = self.0.send(buf.to_vec());
        sent.map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(buf.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Rig {
    to_link: DuplexStream,
    outbox: Outbox,
    out: mpsc::UnboundedReceiver<Vec<u8>>,
    heard: Vec<u8>,
    link: JoinHandle<LinkEnd>,
}

impl Rig {
    fn new(facts: Facts, gate: Option<std_mpsc::Receiver<()>>) -> (Self, CommandQueue) {
        let (to_link, input) = tokio::io::duplex(16 << 20);
        let (tx, out) = mpsc::unbounded_channel();
        let outbox = Outbox::start(Tap(tx, gate), "1.2.3", |_| {}).unwrap();
        let (commands, queue) = Commands::queue(8);
        let link = tokio::spawn(run(input, outbox.clone(), commands, Arc::new(facts)));
        let rig = Self {
            to_link,
            outbox,
            out,
            heard: Vec::new(),
            link,
        };
        (rig, queue)
    }

    /// A link whose daemon does as the real one: see [`serve`].
    fn served() -> Self {
        let (rig, queue) = Self::new(Facts::default(), None);
        tokio::spawn(serve(queue, rig.outbox.clone()));
        rig
    }

    async fn line(&mut self, line: &str) {
        self.to_link.write_all(line.as_bytes()).await.unwrap();
        self.to_link.write_all(b"\n").await.unwrap();
    }

    async fn request(&mut self, id: &str, method: &str, params: &str) {
        let frame =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        self.line(&frame).await;
    }

    async fn notify(&mut self, method: &str, params: &str) {
        let frame = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#);
        self.line(&frame).await;
    }

    async fn text(&mut self) -> String {
        loop {
            if let Some(end) = self.heard.iter().position(|b| *b == b'\n') {
                let line = self.heard.drain(..=end).collect();
                return String::from_utf8(line).unwrap();
            }
            self.heard.extend(self.out.recv().await.unwrap());
        }
    }

    async fn frame(&mut self) -> Value {
        serde_json::from_str(&self.text().await).unwrap()
    }

    /// Sends a request and returns the frames up to its answer, each as its method, or as its
    /// error code or `result`.
    async fn frames_of(&mut self, method: &str, params: &str) -> Vec<String> {
        self.request("\"f\"", method, params).await;
        self.until("f").await
    }

    async fn until(&mut self, id: &str) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            let frame = self.frame().await;
            all.push(kind(&frame));
            if frame["id"] == id {
                return all;
            }
        }
    }

    async fn answer(&mut self, method: &str, params: &str) -> Value {
        self.request("1", method, params).await;
        let mut frame = self.frame().await;
        while frame["id"] != 1 {
            frame = self.frame().await;
        }
        frame
    }

    /// Proves that nothing but this one answer comes out of what was sent before.
    async fn silence(&mut self) {
        let frames = self.frames_of("no/such", "{}").await;
        assert_eq!(frames, ["-32601"]);
    }
}

fn kind(frame: &Value) -> String {
    match (&frame["method"], &frame["error"]["code"]) {
        (Value::String(method), _) => method.clone(),
        (_, Value::Number(code)) => code.to_string(),
        _ => "result".to_owned(),
    }
}

/// Answers as a daemon would, with the notices at their places. Node ids choose the outcome:
/// `bad` is refused, `panic` panics. Port 1 is lost to somebody else.
async fn serve(mut queue: CommandQueue, outbox: Outbox) {
    while let Some(command) = queue.recv().await {
        match command {
            Command::Enable(e, r) if e.port == 1 => {
                outbox.notice(&Notice::BindFailed(e.engine, 1, "in use".into()));
                r.answer(Err(CommandError::new(
                    ErrorCode::BindFailed,
                    "port 1: in use",
                )));
            },
            Command::Enable(e, r) => {
                let port = 11434;
                outbox.notice(&Notice::Ready(e.engine, port));
                outbox.notice(&Notice::Subscribe(e.engine));
                let rule = PortRule::Requested;
                let already = false;
                r.answer(Ok(Enabled {
                    port,
                    rule,
                    already,
                }));
            },
            Command::SetPort(engine, port, r) => {
                let port = u16::try_from(port).unwrap();
                outbox.notice(&Notice::Ready(engine, port));
                let version = "1.2.3".to_owned();
                r.answer(Ok(PortSet { version, port }));
            },
            Command::Select(_, Some(id), r) if id.as_str() == "bad" => {
                r.answer(Err(CommandError::params("no node \"bad\"")));
            },
            // As a panic in the daemon: the responder is gone unanswered.
            Command::Select(_, Some(id), r) if id.as_str() == "panic" => drop(r),
            Command::Select(engine, id, r) => {
                r.answer(Ok(()));
                outbox.notice(&Notice::SelectionChanged(engine, id));
            },
            Command::AddNode(..) | Command::RemoveNode(..) => panic!("not a call of the link"),
            Command::AddManual(engine, node, r) => {
                r.answer(Ok(()));
                outbox.notice(&Notice::NodeDiscovered(engine, node.record));
            },
            Command::RemoveManual(engine, id, r) => {
                let there = id.as_str() == "n";
                r.answer(Ok(there));
                if there {
                    let id = id.to_string();
                    let node = NodeRecord {
                        id,
                        ..NodeRecord::default()
                    };
                    outbox.notice(&Notice::SelectionChanged(engine, None));
                    outbox.notice(&Notice::NodeRemoved(engine, node));
                }
            },
            Command::SetLocalBackend(.., r) => r.answer(Ok(())),
            Command::SetPriority(snapshot, r) => r.answer(Ok(snapshot.nodes.len())),
            Command::Discovery(engine, nodes, r) => {
                for node in nodes {
                    let id = node.host_uuid;
                    let node = NodeRecord {
                        id,
                        ..NodeRecord::default()
                    };
                    outbox.notice(&Notice::NodeDiscovered(engine, node));
                }
                r.answer(Ok(()));
            },
            Command::SetLogLevel(level, r) => r.answer(Ok(level)),
            Command::Shutdown(r) => r.answer(Ok(())),
            Command::Apply(..)
            | Command::Reach(..)
            | Command::Move(..)
            | Command::Disable(..)
            | Command::Reload(..) => {
                panic!("not a call of this link")
            },
        }
    }
}

#[tokio::test]
async fn every_method_answers_in_its_shape() {
    let mut rig = Rig::served();
    for (method, params, want) in [
        (
            "facade/enable",
            r#"{"engine":"ollama"}"#,
            r#"{"engine":"ollama","port":11434}"#,
        ),
        (
            "ollama:set-port",
            r#"{"port":11500}"#,
            r#"{"version":"1.2.3","port":11500}"#,
        ),
        (
            "ollama:nodes/list",
            "null",
            r#"{"nodes":[{"id":"n","host":"","port":0,"addresses":[],"txt":[]}]}"#,
        ),
        ("ollama:node/select", r#"{"id":"n"}"#, r#"{"id":"n"}"#),
        ("ollama:node/select", r#"{"id":""}"#, r#"{"id":""}"#),
        ("ollama:node/selected", "{}", r#"{"id":"n"}"#),
        ("lmstudio:node/selected", "{}", r#"{"id":""}"#),
        (
            "ollama:node/add-manual",
            r#"{"id":"m","port":9,"addresses":["a"]}"#,
            r#"{"added":true}"#,
        ),
        (
            "ollama:node/remove-manual",
            r#"{"id":"n"}"#,
            r#"{"removed":true}"#,
        ),
        (
            "ollama:node/remove-manual",
            r#"{"id":"x"}"#,
            r#"{"removed":false}"#,
        ),
        (
            "ollama:node/set-local-backend",
            r#"{"port":11435,"healthy":true}"#,
            r#"{"ok":true}"#,
        ),
        (
            "node/set-priority",
            r#"{"generation":1,"nodes":["a","b"]}"#,
            r#"{"count":2}"#,
        ),
        (
            "ollama:node/set-priority",
            r#"{"generation":1}"#,
            r#"{"count":0}"#,
        ),
        ("ollama:discovery:nodes", "null", "null"),
        (
            "log/set-level",
            r#"{"level":"warn"}"#,
            r#"{"level":"warn"}"#,
        ),
    ] {
        let answer = rig.answer(method, params).await;
        let want: Value = serde_json::from_str(want).unwrap();
        assert_eq!(
            answer,
            json!({"jsonrpc":"2.0","id":1,"result":want}),
            "{method}"
        );
    }
}

#[tokio::test]
async fn every_refusal_has_its_code() {
    let mut rig = Rig::served();
    for (method, params, code, message) in [
        ("no/such", "{}", -32601, "method not found: no/such"),
        ("ollama:", "{}", -32601, "method not found: ollama:"),
        ("ollama:set-port", r#"{"port":0}"#, -32602, "port 0"),
        ("ollama:node/select", r#"{"id":"bad"}"#, -32602, "bad"),
        ("lmstudio:nodes/list", "{}", -32603, "lmstudio:nodes/list"),
        (
            "ollama:node/select",
            r#"{"id":"panic"}"#,
            -32603,
            "ollama:node/select",
        ),
        ("facade/enable", r#"{"engine":"vllm"}"#, -32000, "vllm"),
        (
            "llamacpp:nodes/list",
            "{}",
            -32002,
            "no facade is enabled for engine \"llamacpp\" on this proxy",
        ),
        (
            "nodes/list",
            "{}",
            -32002,
            "no facade is enabled for engine \"\" on this proxy",
        ),
        (
            "facade/enable",
            r#"{"engine":"ollama","port":1}"#,
            -32010,
            "in use",
        ),
    ] {
        let answer = rig.answer(method, params).await;
        assert_eq!(answer["error"]["code"], code, "{method}: {answer}");
        let text = answer["error"]["message"].as_str().unwrap();
        assert!(text.contains(message), "{method}: {text}");
        assert!(answer.get("result").is_none());
    }
    rig.silence().await;
}

#[tokio::test]
async fn notices_stand_before_and_after_the_answer_as_the_daemon_emits_them() {
    let mut rig = Rig::served();
    for (method, params, want) in [
        (
            "facade/enable",
            r#"{"engine":"ollama","port":1}"#,
            vec!["ollama:error", "-32010"],
        ),
        (
            "facade/enable",
            r#"{"engine":"ollama"}"#,
            vec!["ollama:ready", "ollama:discovery:subscribe", "result"],
        ),
        (
            "ollama:set-port",
            r#"{"port":5}"#,
            vec!["ollama:ready", "result"],
        ),
        ("ollama:node/select", r#"{"id":""}"#, vec!["result"]),
        (
            "ollama:node/remove-manual",
            r#"{"id":"n"}"#,
            vec!["ollama:node/selection-changed", "result"],
        ),
        (
            "no/such",
            "{}",
            vec![
                "ollama:node/selection-changed",
                "ollama:node/removed",
                "-32601",
            ],
        ),
        (
            "ollama:discovery:nodes",
            r#"{"nodes":[{"hostUuid":"a"},{"hostUuid":"b"}]}"#,
            vec!["ollama:node/discovered", "ollama:node/discovered", "result"],
        ),
    ] {
        assert_eq!(rig.frames_of(method, params).await, want, "{method}");
    }
}

#[tokio::test]
async fn a_notification_is_carried_out_before_the_next_line_and_never_answered() {
    let mut rig = Rig::served();
    rig.notify("ollama:discovery:nodes", r#"{"nodes":[{"hostUuid":"a"}]}"#)
        .await;
    let frames = rig.frames_of("no/such", "{}").await;
    assert_eq!(frames, ["ollama:node/discovered", "-32601"]);
    for (method, params) in [
        ("log/set-level", r#"{"level":"warn"}"#),
        ("log/set-level", r#"{"level":"bogus"}"#),
        ("ollama:discovery:nodes", r#"{"nodes":5}"#),
        (
            "llamacpp:discovery:nodes",
            r#"{"nodes":[{"hostUuid":"a"}]}"#,
        ),
        ("discovery:nodes", "{}"),
        ("no/such", "{}"),
        ("shutdown", "{}"),
        ("ollama:node/select", r#"{"id":"n"}"#),
        ("lmstudio:nodes/list", "{}"),
    ] {
        rig.notify(method, params).await;
    }
    rig.line(r#"{"jsonrpc":"2.0","id":null,"method":"no/such"}"#)
        .await;
    rig.line(r#"{"jsonrpc":"2.0","id":5,"result":{}}"#).await;
    rig.silence().await;
}

#[tokio::test]
async fn a_bad_line_costs_itself_only() {
    let mut rig = Rig::served();
    for line in [
        "this is not json",
        r#"{"jsonrpc":"1.0","id":1,"method":"nodes/list"}"#,
        "",
        "\r",
        r#"{"jsonrpc":"2.0","id":5,"meth"#,
        "[]",
        r#"{"id":1,"method":"x"}"#,
    ] {
        rig.line(line).await;
    }
    rig.to_link.write_all(b"\xff\xfe\n").await.unwrap();
    let padding = "x".repeat(MAX_INBOUND);
    rig.request("2", "no/such", &format!("\"{padding}\"")).await;
    rig.silence().await;
    let padding = "x".repeat(MAX_INBOUND - 100);
    let frames = rig.frames_of("no/such", &format!("\"{padding}\"")).await;
    assert_eq!(frames, ["-32601"], "below the cap it is a message");
}

#[tokio::test]
async fn an_id_comes_back_byte_for_byte() {
    let mut rig = Rig::served();
    for id in [
        "0",
        "1.50",
        "1e400",
        "-0",
        "false",
        "\"\\u0041\"",
        r#"[1, {"a":null}]"#,
        "{}",
    ] {
        rig.request(id, "ollama:node/selected", "{}").await;
        let want = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"id":"n"}}}}"#);
        assert_eq!(rig.text().await, want + "\n");
        rig.request(id, "no/such", "{}").await;
        let start = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":"#);
        assert!(rig.text().await.starts_with(&start), "{id}");
    }
}

#[tokio::test]
async fn a_list_above_the_cap_is_an_error_that_says_so() {
    let models = vec!["m".repeat(1 << 20)];
    let (mut rig, _queue) = Rig::new(Facts { models }, None);
    let answer = rig.answer("ollama:nodes/list", "{}").await;
    assert_eq!(answer["error"]["code"], -32000);
    let text = answer["error"]["message"].as_str().unwrap();
    assert!(text.contains("limit"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn the_next_message_waits_for_the_answer() {
    let (mut rig, mut queue) = Rig::new(Facts::default(), None);
    rig.request("1", "ollama:node/select", r#"{"id":"a"}"#)
        .await;
    rig.request("2", "ollama:node/select", r#"{"id":"b"}"#)
        .await;
    let Some(Command::Select(_, Some(first), responder)) = queue.recv().await else {
        panic!("no command");
    };
    assert_eq!(first.as_str(), "a");
    // Paused time passes only when nothing else can happen.
    let more = timeout(Duration::from_secs(60), queue.recv()).await;
    assert!(more.is_err(), "handled two messages at once");
    responder.answer(Ok(()));
    let Some(Command::Select(_, Some(second), responder)) = queue.recv().await else {
        panic!("no command");
    };
    assert_eq!(second.as_str(), "b");
    responder.answer(Ok(()));
    assert_eq!(rig.frame().await["id"], 1);
    assert_eq!(rig.frame().await["id"], 2);
}

#[tokio::test]
async fn a_blocked_reader_stops_neither_messages_nor_their_order() {
    let (gate, permits) = std_mpsc::channel();
    let (mut rig, queue) = Rig::new(Facts::default(), Some(permits));
    let (seen_tx, mut seen) = mpsc::unbounded_channel();
    let outbox = rig.outbox.clone();
    tokio::spawn(async move {
        let mut queue = queue;
        while let Some(Command::SetPriority(snapshot, r)) = queue.recv().await {
            r.answer(Ok(1));
            outbox.notice(&Notice::Activity(snapshot.generation.to_string().into()));
            seen_tx.send(snapshot.generation).unwrap();
        }
    });
    for n in 1..=200 {
        let params = format!(r#"{{"generation":{n}}}"#);
        rig.request(&n.to_string(), "node/set-priority", &params)
            .await;
    }
    // All of them are handled although not one frame has left.
    for n in 1..=200 {
        assert_eq!(seen.recv().await, Some(n));
    }
    assert!(rig.out.try_recv().is_err());
    for _ in 0..400 {
        gate.send(()).unwrap();
    }
    for n in 1..=200 {
        assert_eq!(rig.frame().await["id"], n);
        assert_eq!(rig.frame().await["params"]["hostUuid"], n.to_string());
    }
}

#[tokio::test]
async fn a_stopping_daemon_refuses_but_agrees_to_stop() {
    let (mut rig, queue) = Rig::new(Facts::default(), None);
    drop(queue);
    let answer = rig.answer("node/set-priority", r#"{"generation":1}"#).await;
    assert_eq!(answer["error"]["code"], -32000);
    rig.notify("log/set-level", r#"{"level":"info"}"#).await;
    let answer = rig.answer("shutdown", "{}").await;
    assert_eq!(answer, json!({"jsonrpc":"2.0","id":1,"result":null}));
    assert!(matches!(rig.link.await.unwrap(), LinkEnd::Shutdown));
}

#[tokio::test]
async fn shutdown_is_answered_and_ends_the_link() {
    let mut rig = Rig::served();
    rig.request("1", "shutdown", "{}").await;
    rig.request("2", "no/such", "{}").await;
    assert!(matches!(rig.link.await.unwrap(), LinkEnd::Shutdown));
    rig.outbox.close();
    let mut all = Vec::new();
    while let Some(bytes) = rig.out.recv().await {
        all.extend(bytes);
    }
    assert_eq!(all, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}\n");
}

#[tokio::test]
async fn the_end_of_the_input_ends_the_link_after_its_last_line() {
    let mut rig = Rig::served();
    let last = br#"{"jsonrpc":"2.0","id":1,"method":"ollama:node/selected"}"#;
    rig.to_link.write_all(last).await.unwrap();
    rig.to_link.shutdown().await.unwrap();
    assert_eq!(rig.frame().await["result"]["id"], "n");
    assert!(matches!((&mut rig.link).await.unwrap(), LinkEnd::Eof));
    // What is said after the end still goes out.
    rig.outbox.notice(&Notice::Activity("n".into()));
    assert_eq!(rig.frame().await["method"], "node/activity");
}

#[tokio::test]
async fn an_input_that_fails_ends_the_link() {
    struct Broken;
    impl AsyncRead for Broken {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
        }
    }
    let outbox = Outbox::start(io::sink(), "v", |_| {}).unwrap();
    let (commands, _queue) = Commands::queue(1);
    let end = run(Broken, outbox, commands, Arc::new(Facts::default())).await;
    assert!(matches!(end, LinkEnd::Failed(_)));
}

/// Collects the log of this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(buf);
        Ok(buf.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Everything that is logged with something of the broker's, with a canary where content is.
async fn provoke_the_log() {
    let mut rig = Rig::served();
    rig.line("CANARY").await;
    rig.line(r#"{"jsonrpc":"CANARY","method":"x"}"#).await;
    rig.line(r#"{"jsonrpc":"2.0","method":{"CANARY":1}}"#).await;
    rig.notify("log/set-level", r#"{"level":"CANARY"}"#).await;
    rig.notify("ollama:discovery:nodes", r#"{"nodes":"CANARY"}"#)
        .await;
    rig.notify("no/such", r#"{"CANARY":1}"#).await;
    rig.notify(&format!("{}CANARY", "x".repeat(NAME_SHOWN)), "{}")
        .await;
    rig.answer("ollama:node/select", r#"{"id":"panic","CANARY":1}"#)
        .await;
    rig.silence().await;
}

#[tokio::test]
async fn no_content_reaches_the_log() {
    // Places that log are registered when first reached, for the subscribers of that moment. A
    // first pass keeps other tests, which have none, from registering them during the second.
    provoke_the_log().await;
    let log = Log::default();
    let sink = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || sink.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    tracing::callsite::rebuild_interest_cache();
    provoke_the_log().await;
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for said in ["malformed", "unknown notification", "refused", "unanswered"] {
        assert!(log.contains(said), "{said}: {log}");
    }
    assert!(!log.contains("CANARY"), "{log}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_lines_leave_a_link_that_answers(
        lines in proptest::collection::vec(prop_oneof![
            ".{0,40}",
            r#"\{"jsonrpc":"2.0",("id":(1|null|"f"),)?"method":"(ollama:)?(nodes/list|set-port|node/select|discovery:nodes)","params":(null|\{\}|\{"id":"a"\}|\{"port":7\}|\[)\}"#,
        ], 0..12),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut rig = Rig::served();
            for line in &lines {
                rig.line(line).await;
            }
            rig.request("\"the end\"", "no/such", "{}").await;
            rig.until("the end").await;
        });
    }
}
