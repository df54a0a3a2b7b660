//! The control socket between a real client and a scripted daemon.

use super::*;
use crate::control::client::{ClientError, ControlApiClient, ControlClient};
use crate::rules::engine::EngineId;
use crate::rules::ids::{JobId, NodeId, RunId};
use crate::rules::log_level::LogLevel;
use crate::state::command::{Command, CommandQueue};
use crate::state::follow::{Feed, Follower};
use crate::wire::broker::{NodeRecord, WorkloadState};
use crate::wire::control::*;
use crate::wire::jsonrpc::CommandError;
use std::sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const LIMIT: Duration = Duration::from_secs(20);

pub(in crate::control) fn engine(id: &str) -> EngineId {
    EngineId::parse(id).unwrap()
}

/// One enabled facade (Ollama), one node, no workloads.
#[derive(Default)]
pub(in crate::control) struct FakeQueries {
    filter: Mutex<Option<WorkloadFilter>>,
    feed: Feed,
}

impl Queries for FakeQueries {
    fn is_enabled(&self, e: EngineId) -> bool {
        e == engine("ollama")
    }
    fn nodes(&self, _: EngineId) -> Vec<NodeRecord> {
        vec![NodeRecord {
            id: "tower".into(),
            ..NodeRecord::default()
        }]
    }
    fn selected(&self, _: EngineId) -> Option<NodeId> {
        Some("tower".into())
    }
    fn info(&self) -> DaemonInfo {
        DaemonInfo {
            version: "0.0.0".into(),
            pid: 7,
            mode: Mode::Standalone,
            run_id: RunId::from_bytes([1; 8]),
            started_at: 1,
            socket: None,
        }
    }
    fn status(&self) -> Status {
        panic!("a fault in a read")
    }
    fn workloads(&self, filter: &WorkloadFilter) -> WorkloadList {
        *self.filter.lock().unwrap() = Some(filter.clone());
        WorkloadList {
            schema_version: SCHEMA_VERSION,
            workloads: vec![],
        }
    }
    fn workload(&self, _: Option<EngineId>, _: JobId) -> Vec<Workload> {
        vec![]
    }
    fn models(&self, _: Option<EngineId>, _: bool) -> ModelList {
        ModelList {
            schema_version: SCHEMA_VERSION,
            models: vec![],
        }
    }
    fn follow(&self, filter: WorkloadFilter) -> Follower {
        self.feed.follow(filter)
    }
    fn route(&self, _: EngineId, _: &str) -> Option<RouteExplained> {
        None
    }
}

/// Answers commands and keeps what they were; ends at `shutdown`.
async fn fake_daemon(mut queue: CommandQueue) -> Vec<String> {
    let mut seen = vec![];
    while let Some(command) = queue.recv().await {
        match command {
            Command::Enable(e, r) => {
                seen.push(format!("enable {e:?}"));
                r.answer(Err(CommandError::new(
                    crate::wire::jsonrpc::ErrorCode::BindFailed,
                    "port 1 is taken",
                )));
            },
            Command::SetPort(e, port, r) => {
                seen.push(format!("set-port {e} {port}"));
                r.answer(Ok(PortSet {
                    version: "0.0.0".into(),
                    port: 11500,
                }));
            },
            Command::Select(e, pin, r) => {
                seen.push(format!("select {e} {pin:?}"));
                r.answer(match pin {
                    Some(id) if id.as_str() == "gone" => {
                        Err(CommandError::params("no node \"gone\""))
                    },
                    _ => Ok(()),
                });
            },
            Command::AddNode(node, r) => {
                let (e, url) = (node.setting.engine, node.setting.url.to_string());
                let record = (*node).clone().into_record();
                seen.push(format!(
                    "add {e} {} {:?} {url}",
                    record.id, record.addresses
                ));
                r.answer(Ok(NodeAdded {
                    schema_version: SCHEMA_VERSION,
                    engine: e,
                    id: record.id.as_str().into(),
                    url,
                    replaced: false,
                    saved: true,
                    state: NodeState::Healthy,
                    reason: None,
                    models: record.models,
                }));
            },
            Command::RemoveNode(e, id, r) => {
                seen.push(format!("remove {e} {id}"));
                r.answer(Ok(false));
            },
            Command::SetLocalBackend(e, b, r) => {
                seen.push(format!("backend {e} {b:?}"));
                r.answer(Ok(()));
            },
            Command::SetPriority(s, r) => {
                seen.push(format!("{s:?}"));
                r.answer(Ok(s.nodes.len()));
            },
            Command::Reload(r) => {
                seen.push("reload".into());
                r.answer(Err(CommandError::refused("not now")));
            },
            Command::AddManual(..)
            | Command::RemoveManual(..)
            | Command::Discovery(..)
            | Command::Apply(..)
            | Command::Reach(..)
            | Command::Move(..)
            | Command::Disable(..) => panic!("not a call of this socket"),
            Command::SetLogLevel(level, r) => {
                assert_eq!(level, LogLevel::Warn);
                // A dropped responder is a handler that panicked.
                drop(r);
            },
            Command::Shutdown(r) => {
                seen.push("shutdown".into());
                r.answer(Ok(()));
                return seen;
            },
        }
    }
    seen
}

struct Rig {
    _dir: tempfile::TempDir,
    path: PathBuf,
    queries: Arc<FakeQueries>,
    server: ControlServer,
    daemon: JoinHandle<Vec<String>>,
}

impl Rig {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        let (commands, queue) = Commands::queue(8);
        let queries = Arc::new(FakeQueries::default());
        let server = ControlSocket::bind(&path)
            .unwrap()
            .serve(commands, Arc::clone(&queries) as Arc<dyn Queries>)
            .unwrap();
        Self {
            _dir: dir,
            path,
            queries,
            server,
            daemon: tokio::spawn(fake_daemon(queue)),
        }
    }

    async fn client(&self) -> ControlClient {
        ControlClient::connect(&self.path, LIMIT).await.unwrap()
    }

    /// One call over plain HTTP, as `curl --unix-socket` makes it.
    async fn post(&self, body: &str) -> serde_json::Value {
        let mut stream = tokio::net::UnixStream::connect(&self.path).await.unwrap();
        let head = format!(
            "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
                 content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (_, json) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(json).unwrap()
    }
}

fn code<T: std::fmt::Debug>(result: Result<T, ClientError>) -> i32 {
    match result {
        Err(ClientError::Refused { code, .. }) => code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn commands_and_reads_go_through_and_shutdown_is_answered_before_the_end() {
    let rig = Rig::start();
    let c = rig.client().await;
    let ollama = engine("ollama");
    let port = c.call(async |c| c.set_port(ollama, 11500).await).await;
    assert_eq!(port.unwrap().port, 11500);
    let pin = c.call(async |c| c.node_select(ollama, "tower".into()).await);
    assert_eq!(pin.await.unwrap().id, "tower");
    let auto = c.call(async |c| c.node_select(ollama, String::new()).await);
    assert_eq!(auto.await.unwrap().id, "");
    let now = c.call(async |c| c.node_selected(ollama).await).await;
    assert_eq!(now.unwrap().id, "tower");
    let nodes = c.call(async |c| c.nodes_list(ollama).await).await.unwrap();
    assert_eq!(nodes.nodes[0].id, "tower");
    let removed = c.call(async |c| c.node_remove_manual(ollama, "x".into()).await);
    assert!(!removed.await.unwrap().removed);
    assert_eq!(
        c.call(async |c| c.daemon_info().await).await.unwrap().pid,
        7
    );
    c.call(async |c| {
        let state = Some(WorkloadState::Running);
        c.workloads_list(Some(ollama), state, None, None, Some(3))
            .await
    })
    .await
    .unwrap();
    let filter = rig.queries.filter.lock().unwrap().clone().unwrap();
    assert_eq!((filter.engine, filter.limit), (Some(ollama), Some(3)));

    c.call(async |c| c.shutdown().await).await.unwrap();
    let seen = rig.daemon.await.unwrap();
    assert_eq!(
        seen,
        [
            "set-port ollama 11500",
            "select ollama Some(\"tower\")",
            "select ollama None",
            "remove ollama x",
            "shutdown"
        ]
    );
    rig.server.stop().await;
    assert!(!rig.path.exists());
}

#[tokio::test]
async fn refusals_keep_their_codes_and_texts() {
    let rig = Rig::start();
    let c = rig.client().await;
    let (ollama, lmstudio) = (engine("ollama"), engine("lmstudio"));
    let enable = c.call(async |c| c.facade_enable("ollama".into(), Some(1), None, None).await);
    match enable.await {
        Err(ClientError::Refused {
            code: -32010,
            message,
        }) => {
            assert_eq!(message, "port 1 is taken");
        },
        other => panic!("{other:?}"),
    }
    let unknown = c.call(async |c| c.facade_enable("vllm".into(), None, None, None).await);
    assert_eq!(code(unknown.await), -32000);
    assert_eq!(
        code(c.call(async |c| c.set_port(lmstudio, 1).await).await),
        -32002
    );
    let gone = c.call(async |c| c.node_select(ollama, "gone".into()).await);
    assert_eq!(code(gone.await), -32602);
    let none = c.call(async |c| c.workloads_get(None, JobId(9)).await);
    assert_eq!(code(none.await), -32000);
    let zero = c.call(async |c| c.node_set_priority(0, None, None).await);
    assert_eq!(code(zero.await), -32602);
    let level = c.call(async |c| c.log_set_level("loud".into()).await);
    assert_eq!(code(level.await), -32602);
    // The command's handler panicked in the daemon.
    let level = c.call(async |c| c.log_set_level("warn".into()).await);
    assert_eq!(code(level.await), -32603);
}

#[tokio::test]
async fn a_panic_in_a_handler_is_answered_and_the_connection_lives() {
    let rig = Rig::start();
    let c = rig.client().await;
    assert_eq!(code(c.call(async |c| c.status().await).await), -32603);
    c.call(async |c| c.daemon_info().await).await.unwrap();
}

fn running(id: u64) -> Workload {
    serde_json::from_value(serde_json::json!({
        "engine": "ollama", "id": id, "run_id": "0101010101010101", "model": "m",
        "path": "/api/chat", "body_bytes": 1, "state": "running", "created_at": 1,
    }))
    .unwrap()
}

#[tokio::test]
async fn changes_reach_a_subscriber_until_it_goes_and_slow_ones_are_told_what_they_missed() {
    let rig = Rig::start();
    let c = rig.client().await;
    let subscribe = async || {
        c.call(async |c| c.workloads_subscribe(None, None, None, None).await)
            .await
            .unwrap()
    };
    let mut changes = subscribe().await;
    let feed = &rig.queries.feed;
    feed.publish(3, running(1));
    let first = changes.next().await.unwrap().unwrap();
    assert_eq!((first.seq, first.workload.id.0, first.missed), (3, 1, 0));
    // Nothing else runs meanwhile, so that the subscriber cannot keep up.
    for id in 2..=2000 {
        feed.publish(1, running(id));
    }
    let next = changes.next().await.unwrap().unwrap();
    assert_eq!(next.missed + 2, next.workload.id.0);
    assert!(next.missed > 0);
    drop(changes);
    tokio::time::timeout(LIMIT, async {
        while feed.is_followed() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("who goes is forgotten");
    // One that is still there does not keep the daemon.
    let mut last = subscribe().await;
    rig.server.stop().await;
    assert!(last.next().await.is_none());
}

#[tokio::test]
async fn the_names_of_the_link_work_over_plain_http() {
    let rig = Rig::start();
    for (body, want) in [
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ollama:set-port","params":{"port":11500}}"#,
            serde_json::json!({"version": "0.0.0", "port": 11500}),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ollama:node/selected"}"#,
            serde_json::json!({"id": "tower"}),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ollama:node/add-manual",
                    "params":{"id":"a","port":1,"addresses":["10.0.0.1"]}}"#,
            serde_json::json!({"added": true}),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ollama:nodes/add",
                    "params":{"url":"http://10.0.0.1:1/v1","name":"a","models":["m"]}}"#,
            serde_json::json!({"schema_version": 1, "engine": "ollama", "id": "a",
                    "url": "http://10.0.0.1:1", "replaced": false, "saved": true,
                    "state": "healthy", "models": ["m"]}),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"nodes/remove",
                    "params":{"engine":"ollama","id":"a"}}"#,
            serde_json::json!({"schema_version": 1, "engine": "ollama", "id": "a",
                    "removed": false}),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ollama:node/set-local-backend",
                    "params":{"engine":"ollama","port":1,"healthy":true}}"#,
            serde_json::json!({"ok": true}),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"node/set-priority","params":{"generation":7,
                    "nodes":["a"],"ranks":[{"id":"a","pending":-2,"gpuPressure":9,"rank":0}]}}"#,
            serde_json::json!({"count": 1}),
        ),
    ] {
        assert_eq!(rig.post(body).await["result"], want, "{body}");
    }
    for (body, code) in [
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"vllm:set-port","params":{"port":1}}"#,
            -32601,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ollama:set-port","params":{"prt":1}}"#,
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ollama:nodes/add","params":{"url":"x:1"}}"#,
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ollama:node/add-manual",
                    "params":{"id":"a","port":0,"addresses":["10.0.0.1"]}}"#,
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ollama:set-port","params":{"port":"1"}}"#,
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"node/set-priority",
                    "params":{"generation":1,"ranks":[{"idd":"a"}]}}"#,
            -32602,
        ),
    ] {
        assert_eq!(rig.post(body).await["error"]["code"], code, "{body}");
    }
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"status"}]"#;
    assert!(rig.post(batch).await["error"]["code"].is_i64());
}

#[tokio::test]
async fn a_client_tells_absent_silent_and_vanished_daemons_apart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.sock");
    let absent = ControlClient::connect(&path, LIMIT).await;
    assert!(matches!(absent, Err(ClientError::NoDaemon { .. })));

    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let dead = ControlClient::connect(&path, LIMIT).await;
    assert!(matches!(dead, Err(ClientError::NoDaemon { .. })));

    // Bound but not served: the kernel accepts, nobody answers.
    let bound = ControlSocket::bind(&path).unwrap();
    let silent = ControlClient::connect(&path, Duration::from_millis(50)).await;
    assert!(matches!(silent, Err(ClientError::TimedOut(_))));
    drop(bound);

    let rig = Rig::start();
    let c = rig.client().await;
    rig.server.stop().await;
    let broken = c.call(async |c| c.daemon_info().await).await;
    assert!(matches!(broken, Err(ClientError::Broken(_))), "{broken:?}");
}

#[tokio::test]
async fn a_stopping_daemon_refuses_commands() {
    let rig = Rig::start();
    rig.daemon.abort();
    drop(rig.daemon.await);
    let c = ControlClient::connect(&rig.path, LIMIT).await.unwrap();
    let port = c.call(async |c| c.set_port(engine("ollama"), 1).await);
    assert_eq!(code(port.await), -32000);
}

#[tokio::test]
async fn a_dropped_server_frees_the_path_for_the_next() {
    let rig = Rig::start();
    assert!(matches!(
        ControlSocket::bind(&rig.path),
        Err(SocketError::InUse(_))
    ));
    drop(rig.server);
    assert!(!rig.path.exists());
    ControlSocket::bind(&rig.path).unwrap();
}
