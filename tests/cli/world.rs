//! A home of its own for each test, and a daemon with canned answers.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use nvpair_proxy::config::file::NodeSetting;
use nvpair_proxy::control::socket::{ControlServer, ControlSocket};
use nvpair_proxy::rules::engine::EngineId;
use nvpair_proxy::rules::ids::{JobId, NodeId, RunId};
use nvpair_proxy::state::command::{Command as DaemonCommand, CommandQueue, Commands};
use nvpair_proxy::state::follow::{Feed, Follower};
use nvpair_proxy::state::query::Queries;
use nvpair_proxy::wire::broker::{NodeRecord, Stats, WorkloadState};
use nvpair_proxy::wire::control::*;
use nvpair_proxy::wire::jsonrpc::CommandError;
use nvpair_proxy::wire::pool::PoolStatus;

/// What one run of the command said.
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    /// Its stdout as one JSON document, with nothing else on it.
    pub fn json(&self) -> serde_json::Value {
        assert_eq!(self.code, 0, "{}", self.err);
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}", self.out))
    }
}

/// A machine's folders.
pub struct World {
    dir: tempfile::TempDir,
    daemon: Option<Daemon>,
}

impl World {
    /// Without a daemon.
    pub fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            daemon: None,
        }
    }

    /// With the fake daemon on the default socket.
    pub fn with_daemon() -> Self {
        let mut world = Self::new();
        world.daemon = Some(Daemon::start(&world.socket()));
        world
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn socket(&self) -> PathBuf {
        self.path().join("run/nvpair-proxy/control.sock")
    }

    /// With a daemon whose documents are of this schema.
    pub fn with_daemon_of_schema(version: u32) -> Self {
        let world = Self::with_daemon();
        let queries = &world.daemon.as_ref().unwrap().queries;
        *queries.schema.lock().unwrap() = version;
        world
    }

    /// The daemon has a pool and telemetry from now on.
    pub fn everything(&self) {
        self.set_everything(true);
    }

    /// The daemon has neither any more.
    pub fn no_pool(&self) {
        self.set_everything(false);
    }

    fn set_everything(&self, on: bool) {
        let queries = &self.daemon.as_ref().unwrap().queries;
        *queries.everything.lock().unwrap() = on;
    }

    /// The commands the daemon got.
    pub fn commands(&self) -> Vec<String> {
        self.daemon.as_ref().unwrap().seen.lock().unwrap().clone()
    }

    /// The filter of the last `workloads/list`.
    pub fn filter(&self) -> WorkloadFilter {
        let daemon = self.daemon.as_ref().unwrap();
        daemon.queries.filter.lock().unwrap().clone().unwrap()
    }

    /// The daemon ends.
    pub fn end_daemon(&mut self) {
        self.daemon = None;
    }

    /// A change for whoever follows.
    pub fn publish(&self, id: u64) {
        let daemon = self.daemon.as_ref().unwrap();
        let feed = &daemon.queries.feed;
        feed.publish(1, workload("ollama", id, WorkloadState::Queued));
    }

    /// The binary with these arguments, in this world and no other.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nvpair-proxy"));
        command
            .args(args)
            .env_clear()
            .env("HOME", self.path())
            .env("XDG_RUNTIME_DIR", self.path().join("run"))
            .env("XDG_STATE_HOME", self.path().join("state"))
            .env("XDG_CONFIG_HOME", self.path().join("config"))
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> Said {
        let output = self.command(args).output().unwrap();
        Said {
            code: output.status.code().expect("not killed"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// The fake daemon; dropped before the folders.
struct Daemon {
    seen: Arc<Mutex<Vec<String>>>,
    queries: Arc<Canned>,
    _server: ControlServer,
    _runtime: tokio::runtime::Runtime,
}

impl Daemon {
    fn start(socket: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let _inside = runtime.enter();
        let (commands, queue) = Commands::queue(8);
        let seen = Arc::new(Mutex::new(Vec::new()));
        tokio::spawn(answer(queue, Arc::clone(&seen)));
        let queries = Arc::new(Canned::default());
        let server = ControlSocket::bind(socket)
            .unwrap()
            .serve(commands, Arc::clone(&queries) as Arc<dyn Queries>)
            .unwrap();
        Self {
            seen,
            queries,
            _server: server,
            _runtime: runtime,
        }
    }
}

async fn answer(mut queue: CommandQueue, seen: Arc<Mutex<Vec<String>>>) {
    while let Some(command) = queue.recv().await {
        let text = match command {
            DaemonCommand::Select(engine, pin, r) => {
                r.answer(Ok(()));
                format!("select {engine} {pin:?}")
            },
            DaemonCommand::SetPort(engine, port, r) => {
                r.answer(match port {
                    1 => Err(CommandError::refused("port 1: permission denied")),
                    _ => Ok(PortSet {
                        version: "9.9.9".into(),
                        port: port as u16,
                    }),
                });
                format!("set-port {engine} {port}")
            },
            DaemonCommand::AddNode(node, r) => {
                let NodeSetting {
                    engine,
                    url,
                    name,
                    models,
                    api_key,
                    slots,
                    ..
                } = node.setting.clone();
                let id = name.clone().unwrap_or_else(|| url.host.clone());
                r.answer(match url.port {
                    1 => Err(CommandError::refused("it is a facade of this daemon")),
                    _ => Ok(NodeAdded {
                        schema_version: SCHEMA_VERSION,
                        engine,
                        id: id.as_str().into(),
                        url: url.to_string(),
                        replaced: false,
                        saved: true,
                        state: NodeState::Healthy,
                        reason: None,
                        models: models.clone().unwrap_or_default(),
                    }),
                });
                let key = api_key.map(|k| k.reveal().to_owned());
                format!("add {engine} {url} {name:?} {models:?} {key:?} {slots:?}")
            },
            DaemonCommand::RemoveNode(engine, id, r) => {
                let text = format!("remove {engine} {id}");
                r.answer(Ok(id.as_str() == "tower"));
                text
            },
            _ => "another command".to_owned(),
        };
        seen.lock().unwrap().push(text);
    }
}

pub fn engine(id: &str) -> EngineId {
    EngineId::parse(id).unwrap()
}

/// Two facades; two Ollama nodes and two LM Studio nodes of the same name.
struct Canned {
    filter: Mutex<Option<WorkloadFilter>>,
    feed: Feed,
    schema: Mutex<u32>,
    everything: Mutex<bool>,
}

impl Default for Canned {
    fn default() -> Self {
        Self {
            filter: Mutex::default(),
            feed: Feed::default(),
            schema: Mutex::new(SCHEMA_VERSION),
            everything: Mutex::default(),
        }
    }
}

fn node(engine_id: &str, id: &str, name: &str, kind: NodeKind, warm: &[&str]) -> NodeStatus {
    NodeStatus {
        id: id.into(),
        name: name.into(),
        engine: engine(engine_id),
        kind,
        state: NodeState::Healthy,
        reason: None,
        address: Some("127.0.0.1:1".into()),
        pending: 1,
        pressure: 0,
        reserved: 1,
        load: 2,
        models: vec!["qwen3:8b".into(), "phi4".into()],
        warm: warm.iter().map(|m| (*m).to_owned()).collect(),
    }
}

fn facade(engine_id: &str, port: u16, pin: Option<&str>) -> FacadeStatus {
    FacadeStatus {
        engine: engine(engine_id),
        port,
        aliases: vec![],
        pin: pin.map(NodeId::from),
        in_flight: 3,
        since_at: 1_000,
    }
}

fn workload(engine_id: &str, id: u64, state: WorkloadState) -> Workload {
    Workload {
        engine: engine(engine_id),
        id: JobId(id),
        run_id: RunId::from_bytes([1; 8]),
        model: "qwen3:8b".into(),
        path: "/api/chat".into(),
        body_bytes: 412,
        state,
        node: Some("this-pc".into()),
        created_at: 1_000,
        started_at: Some(1_810),
        ended_at: Some(9_905),
        status: Some(200),
        error: None,
        stats: Some(Stats {
            completion_tokens: Some(340),
            tokens_per_second: Some(42.0),
            ttft_ms: Some(810),
            ..Stats::default()
        }),
        timeline: vec![],
    }
}

/// With every key that it can have.
fn pool() -> PoolStatus {
    serde_json::from_value(serde_json::json!({
        "listen": "127.0.0.1:9090", "tls": false, "store": "memory", "store_error": "it is down",
        "nodes": [{
            "id": "rig-01", "engine": "vllm", "endpoint": "http://10.0.0.7:8000/v1",
            "address": "10.0.0.7:8000", "state": "healthy", "reason": "", "drain": false,
            "slots": 4, "leases": 1, "active_requests": 2, "queue_depth": 3, "base_weight": 4,
            "weight": 17, "last_beat_age_ms": 2500, "key": "rig", "agent_version": "0.1.0",
            "breaker": {"state": "open", "failures": 5, "retry_in_ms": 100},
            "models": [{"id": "qwen3:8b", "context_length": 8192, "warm": true, "ttft_ms": 120.4,
                "tokens_per_second": 45.26, "breaker": {"state": "closed", "failures": 0}}],
            "free_vram_bytes": 1, "gpu_temperature_c": 60.0, "gpu_utilization_percent": 5.0,
        }],
        "usage": {"file_lost": 0, "collector": {"sent": 1, "queued": 0, "lost": 0}},
    }))
    .unwrap()
}

fn entry(at_ms: u64, event: &str, node: Option<&str>, detail: &str) -> TimelineEntry {
    TimelineEntry {
        at_ms,
        event: event.into(),
        node: node.map(NodeId::from),
        load: (event == "dispatched").then_some([1, 0, 1]),
        detail: (!detail.is_empty()).then(|| detail.to_owned()),
    }
}

impl Queries for Canned {
    fn is_enabled(&self, e: EngineId) -> bool {
        e != engine("llamacpp") && !e.is_gateway()
    }

    fn nodes(&self, _: EngineId) -> Vec<NodeRecord> {
        vec![]
    }

    fn selected(&self, _: EngineId) -> Option<NodeId> {
        None
    }

    fn info(&self) -> DaemonInfo {
        DaemonInfo {
            version: "9.9.9".into(),
            pid: 7,
            mode: Mode::Standalone,
            run_id: RunId::from_bytes([1; 8]),
            started_at: 1_000,
            socket: None,
        }
    }

    fn status(&self) -> Status {
        let everything = *self.everything.lock().unwrap();
        Status {
            schema_version: *self.schema.lock().unwrap(),
            daemon: self.info(),
            facades: vec![
                facade("ollama", 11435, None),
                facade("lmstudio", 1234, Some("uuid-1")),
            ],
            nodes: vec![
                node(
                    "ollama",
                    "this-pc",
                    "this-pc",
                    NodeKind::Local,
                    &["qwen3:8b"],
                ),
                node("ollama", "tower", "tower.lan", NodeKind::Manual, &[]),
                node("lmstudio", "uuid-1", "rig", NodeKind::Peer, &[]),
                node("lmstudio", "uuid-2", "rig", NodeKind::Peer, &[]),
            ],
            scheduler: SchedulerStatus {
                policy: "weighted".into(),
                generation: 41,
                age_ms: Some(3_200),
            },
            workloads: WorkloadCounts {
                queued: 1,
                running: 3,
                completed: 412,
                failed: 2,
                cancelled: 5,
            },
            providers: vec![],
            door: Default::default(),
            pool: everything.then(pool),
            telemetry: everything.then(|| TelemetryStatus {
                collector: Some("http://127.0.0.1:4318/v1".into()),
                problem: Some("connection refused".into()),
                admin: Some("127.0.0.1:9464".into()),
                ..TelemetryStatus::default()
            }),
        }
    }

    fn providers(&self) -> Vec<ProviderStatus> {
        vec![ProviderStatus {
            name: "groq".into(),
            base_url: "https://api.groq.com/openai/v1".into(),
            tier: 1,
            state: ProviderState::CoolingDown,
            standing: None,
            penalty_ms: 2_000,
            cool_down_ms: 11_500,
            failures_in_a_row: 2,
            failures: 3,
            last_failure: Some(ProviderFailure {
                text: "answered 503".into(),
                age_ms: 61_000,
            }),
            requests: 40,
            limited: 5,
            models: vec!["llama".into()],
        }]
    }

    fn workloads(&self, filter: &WorkloadFilter) -> WorkloadList {
        *self.filter.lock().unwrap() = Some(filter.clone());
        let mut failed = workload("ollama", 88, WorkloadState::Failed);
        failed.error = Some("upstream returned HTTP 400".into());
        failed.stats = None;
        failed.started_at = None;
        // A node or a model that nobody knows has none.
        let known = |name: &Option<String>, all: &[&str]| {
            name.as_ref().is_none_or(|n| all.contains(&n.as_str()))
        };
        let nodes = ["this-pc", "tower", "gone", "uuid-1", "uuid-2"];
        if !known(&filter.node, &nodes) || !known(&filter.model, &["qwen3:8b", "phi4"]) {
            return WorkloadList {
                schema_version: SCHEMA_VERSION,
                workloads: vec![],
            };
        }
        WorkloadList {
            schema_version: SCHEMA_VERSION,
            workloads: vec![workload("ollama", 90, WorkloadState::Completed), failed],
        }
    }

    fn workload(&self, wanted: Option<EngineId>, id: JobId) -> Vec<Workload> {
        let mut all = match id.0 {
            90 => vec![workload("ollama", 90, WorkloadState::Completed)],
            7 => vec![
                workload("ollama", 7, WorkloadState::Completed),
                workload("lmstudio", 7, WorkloadState::Failed),
            ],
            _ => vec![],
        };
        all.retain(|w| wanted.is_none_or(|e| e == w.engine));
        for w in &mut all {
            w.timeline = vec![
                entry(0, "admitted", None, "2 owners: tower, this-pc"),
                entry(1, "dispatched", Some("tower"), ""),
                entry(214, "refused", Some("tower"), "HTTP 503"),
                entry(8905, "completed", None, "340 tokens, 42.0 tok/s"),
            ];
        }
        all
    }

    fn models(&self, _: Option<EngineId>, loaded: bool) -> ModelList {
        let entry = |model: &str, loaded: &[&str]| ModelEntry {
            engine: engine("ollama"),
            model: model.into(),
            owners: vec!["this-pc".into(), "tower".into()],
            loaded: loaded.iter().map(|n| NodeId::from(*n)).collect(),
            context_length: (model == "phi4").then_some(16_384),
        };
        let mut models = vec![entry("phi4", &[]), entry("qwen3:8b", &["this-pc"])];
        models.retain(|m| !loaded || !m.loaded.is_empty());
        ModelList {
            schema_version: SCHEMA_VERSION,
            models,
        }
    }

    /// With three changes that happen at once.
    fn follow(&self, filter: WorkloadFilter) -> Follower {
        let follower = self.feed.follow(filter.clone());
        *self.filter.lock().unwrap() = Some(filter);
        for (seq, id, state) in [
            (1, 91, WorkloadState::Queued),
            (3, 90, WorkloadState::Completed),
            (2, 91, WorkloadState::Running),
        ] {
            self.feed.publish(seq, workload("ollama", id, state));
        }
        follower
    }

    fn route(&self, engine: EngineId, model: &str) -> Option<RouteExplained> {
        let candidate = |node: &str, name: &str, load, warm| RouteCandidate {
            node: node.into(),
            name: name.into(),
            address: "127.0.0.1:1".into(),
            model: None,
            pending: 0,
            pressure: 0,
            reserved: load,
            in_flight: load,
            load,
            slots: 1,
            weight: 100,
            ttft_ms: None,
            tokens_per_second: None,
            warm,
            pinned: false,
        };
        Some(RouteExplained {
            schema_version: SCHEMA_VERSION,
            engine,
            model: model.to_owned(),
            policy: "weighted".into(),
            generation: 0,
            pin: None,
            candidates: vec![
                candidate("tower", "tower.lan", 0, true),
                candidate("this-pc", "this-pc", 1, true),
            ],
            excluded: vec![RouteExcluded {
                node: "attic".into(),
                name: "attic".into(),
                reason: "does not advertise the model".into(),
                near: vec!["qwen3:4b".into()],
            }],
            nearest: vec![],
        })
    }
}
