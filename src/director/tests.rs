//! The director against scripted engines on real loopback sockets and a daemon that only records.
//!
//! Engines, daemon and director share one runtime, so that a paused clock is safe and a minute of
//! probing takes no time.

mod named;

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::{Instant, sleep};

mod adapting;

use super::*;
use crate::config::file::{self, Config};
use crate::config::settings::{Flags, resolve};
use crate::rules::ids::{JobId, NodeId, RunId};
use crate::state::command::{CommandQueue, ManualNode, PortRule};
use crate::state::named::{Book as Added, Desk};
use crate::wire::broker::NodeRecord;
use crate::wire::control::{
    DaemonInfo, FacadeStatus, Mode, ModelList, RouteExplained, SchedulerStatus, Status, Workload,
    WorkloadFilter, WorkloadList,
};

const TAGS: &str = r#"{"models":[{"name":"b"},{"name":"a"}]}"#;

/// What a scripted engine does.
#[derive(Default)]
struct Script {
    answers: HashMap<&'static str, (u16, String)>,
    /// Accepts and stays silent.
    hang: bool,
    calls: Vec<String>,
    heads: Vec<String>,
    open: usize,
    most_open: usize,
}

/// A scripted engine; gone when dropped.
struct Engine {
    port: u16,
    script: Arc<Mutex<Script>>,
    task: JoinHandle<()>,
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Engine {
    async fn start(answers: &[(&'static str, &str)]) -> Self {
        Self::start_at(0, answers).await
    }

    async fn start_at(port: u16, answers: &[(&'static str, &str)]) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let answers = answers
            .iter()
            .map(|(path, body)| (*path, (200, (*body).to_owned())));
        let script = Script {
            answers: answers.collect(),
            ..Script::default()
        };
        let script = Arc::new(Mutex::new(script));
        let task = tokio::spawn(serve(listener, script.clone()));
        Self { port, script, task }
    }

    fn set(&self, path: &'static str, status: u16, body: &str) {
        self.script
            .lock()
            .unwrap()
            .answers
            .insert(path, (status, body.to_owned()));
    }

    fn hang(&self) {
        self.script.lock().unwrap().hang = true;
    }

    fn calls(&self) -> Vec<String> {
        self.script.lock().unwrap().calls.clone()
    }

    /// How often its inventory was asked for.
    fn asked(&self, path: &str) -> usize {
        self.calls().iter().filter(|c| c.as_str() == path).count()
    }

    /// Stops it: dials are refused once this returns.
    async fn stop(mut self) -> u16 {
        self.task.abort();
        drop((&mut self.task).await);
        self.port
    }
}

async fn serve(listener: TcpListener, script: Arc<Mutex<Script>>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(answer(stream, script.clone()));
    }
}

async fn answer(mut stream: TcpStream, script: Arc<Mutex<Script>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).await.unwrap_or(0) == 0 {
            return;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let path = head.split(' ').nth(1).unwrap().to_owned();
    let (hang, (status, body)) = {
        let mut s = script.lock().unwrap();
        s.calls.push(path.clone());
        s.heads.push(head);
        s.open += 1;
        s.most_open = s.most_open.max(s.open);
        let missing = || (404, "Not Found".to_owned());
        (
            s.hang,
            s.answers
                .get(path.as_str())
                .cloned()
                .unwrap_or_else(missing),
        )
    };
    if hang {
        // Until the prober gives up.
        drop(stream.read(&mut [0]).await);
    } else {
        let length = body.len();
        let text = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}");
        drop(stream.write_all(text.as_bytes()).await);
    }
    script.lock().unwrap().open -= 1;
}

/// What the fake daemon holds.
#[derive(Default)]
struct Book {
    facades: Vec<(EngineId, u16, Vec<String>)>,
    /// Alias addresses that somebody else has.
    alias_blocked: Vec<String>,
    /// Ports that cannot be bound.
    unbindable: Vec<u16>,
    /// Port that was saved.
    saved: Option<u16>,
    /// Whether nodes are refused before their facade is up, as on the broker link.
    strict: bool,
}

struct Asked(Arc<Mutex<Book>>);

impl Queries for Asked {
    fn is_enabled(&self, engine: EngineId) -> bool {
        self.0
            .lock()
            .unwrap()
            .facades
            .iter()
            .any(|(e, ..)| *e == engine)
    }
    fn status(&self) -> Status {
        let facade = |(engine, port, aliases): &(EngineId, u16, Vec<String>)| FacadeStatus {
            engine: *engine,
            port: *port,
            aliases: aliases.clone(),
            pin: None,
            in_flight: 0,
            since_at: 0,
        };
        Status {
            schema_version: 1,
            daemon: self.info(),
            facades: self.0.lock().unwrap().facades.iter().map(facade).collect(),
            nodes: Vec::new(),
            scheduler: SchedulerStatus {
                policy: String::new(),
                generation: 0,
                age_ms: None,
            },
            workloads: Default::default(),
            providers: Vec::new(),
            door: Default::default(),
            pool: None,
            telemetry: None,
        }
    }
    fn info(&self) -> DaemonInfo {
        DaemonInfo {
            version: String::new(),
            pid: 0,
            mode: Mode::Standalone,
            run_id: RunId::from_bytes([0; 8]),
            started_at: 0,
            socket: None,
        }
    }
    fn nodes(&self, _: EngineId) -> Vec<NodeRecord> {
        panic!("not for the director")
    }
    fn selected(&self, _: EngineId) -> Option<NodeId> {
        panic!("not for the director")
    }
    fn workloads(&self, _: &WorkloadFilter) -> WorkloadList {
        panic!("not for the director")
    }
    fn workload(&self, _: Option<EngineId>, _: JobId) -> Vec<Workload> {
        panic!("not for the director")
    }
    fn models(&self, _: Option<EngineId>, _: bool) -> ModelList {
        panic!("not for the director")
    }
    fn follow(&self, _: WorkloadFilter) -> crate::state::follow::Follower {
        panic!("not for the director")
    }
    fn route(&self, _: EngineId, _: &str) -> Option<RouteExplained> {
        panic!("not for the director")
    }
}

/// Carries commands out on paper and writes each down.
async fn daemon(mut queue: CommandQueue, book: Arc<Mutex<Book>>, log: UnboundedSender<String>) {
    while let Some(command) = queue.recv().await {
        match command {
            Command::Enable(e, r) => {
                let (port, aliases) = (e.port, e.alias_addresses.join(","));
                drop(log.send(format!(
                    "enable {} {port} ignore={} [{aliases}]",
                    e.engine, e.ignore_persisted_port
                )));
                r.answer(enable(&mut book.lock().unwrap(), &e));
            },
            Command::AddManual(engine, node, r) => {
                let book = book.lock().unwrap();
                if book.strict && !book.facades.iter().any(|(e, ..)| *e == engine) {
                    r.answer(Err(CommandError::no_facade(engine.as_str())));
                    continue;
                }
                drop(log.send(shown(engine, &node)));
                r.answer(Ok(()));
            },
            Command::RemoveManual(engine, id, r) => {
                drop(log.send(format!("remove {engine} {id}")));
                r.answer(Ok(true));
            },
            Command::SetLocalBackend(engine, b, r) => {
                let state = if b.healthy { "healthy" } else { "ill" };
                drop(log.send(format!("local {engine} {}:{} {state}", b.host, b.port)));
                r.answer(Ok(()));
            },
            Command::Disable(engine, r) => {
                drop(log.send(format!("disable {engine}")));
                book.lock().unwrap().facades.retain(|(e, ..)| *e != engine);
                r.answer(Ok(true));
            },
            _ => panic!("the director sends nothing else"),
        }
    }
}

fn enable(book: &mut Book, e: &Enable) -> Result<Enabled, CommandError> {
    let standalone = e.engine.spec().standalone_port;
    let (port, rule) = match (book.saved.filter(|_| !e.ignore_persisted_port), e.port) {
        (Some(saved), _) => (saved, PortRule::Saved),
        (None, 0) => (standalone, PortRule::Standalone),
        (None, port) => (u16::try_from(port).unwrap(), PortRule::Requested),
    };
    if book.unbindable.contains(&port) {
        return Err(CommandError::new(
            ErrorCode::BindFailed,
            format!("port {port}: in use"),
        ));
    }
    let free = |a: &&String| !book.alias_blocked.contains(*a);
    let aliases = e.alias_addresses.iter().filter(free).cloned().collect();
    book.facades.push((e.engine, port, aliases));
    Ok(Enabled {
        port,
        rule,
        already: false,
    })
}

fn shown(engine: EngineId, node: &ManualNode) -> String {
    let (r, x) = (&node.record, &node.extra);
    let state = x
        .unreachable
        .as_deref()
        .map_or("up".to_owned(), |why| format!("gone: {why}"));
    let local = match (x.local, x.found) {
        (true, true) => " local",
        (true, false) => " local named",
        (false, true) => " found",
        (false, false) => "",
    };
    assert_eq!(r.host, r.id, "the id is what people are shown");
    format!(
        "node {engine} {} {}:{}{} [{}] warm [{}] slots {} ctx {}{local} {state}",
        r.id,
        r.addresses.join(","),
        r.port,
        x.prefix,
        r.models.join(","),
        x.warm.join(","),
        x.slots,
        x.context
            .iter()
            .map(|(_, n)| n.to_string())
            .collect::<Vec<_>>()
            .join(","),
    )
}

/// One director with its fake daemon.
struct Bench {
    book: Arc<Mutex<Book>>,
    commands: Commands,
    log: UnboundedReceiver<String>,
    places: Vec<Place>,
    taken: Vec<u16>,
    /// State folder.
    state: Option<std::path::PathBuf>,
    desk: Mutex<Option<Desk>>,
}

impl Bench {
    fn new() -> Self {
        let (commands, queue) = Commands::queue(8);
        let (tx, log) = mpsc::unbounded_channel();
        let book = Arc::new(Mutex::new(Book::default()));
        tokio::spawn(daemon(queue, book.clone(), tx));
        Self {
            book,
            commands,
            log,
            places: Vec::new(),
            taken: Vec::new(),
            state: None,
            desk: Mutex::default(),
        }
    }

    fn look(&mut self, engine: &str, port: u16) {
        self.places.push(Place {
            engine: id(engine),
            port,
        });
    }

    async fn start(&self, settings: &Settings) -> Result<Started, StartError> {
        let (desk, asks) = Asks::open(Added::open(self.state.as_deref()).0);
        *self.desk.lock().unwrap() = Some(desk);
        let options = Options {
            timing: Timing::standard(Box::new(|| 0.5)),
            places: self.places.clone(),
            taken: PortCheck::Known(self.taken.clone()),
            asks,
        };
        let queries = Arc::new(Asked(self.book.clone()));
        start(settings, "this-pc", self.commands.clone(), queries, options).await
    }

    /// Everything written down so far.
    fn so_far(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.log.try_recv().ok()).collect()
    }

    async fn next(&mut self) -> String {
        self.log.recv().await.unwrap()
    }
}

fn id(engine: &str) -> EngineId {
    EngineId::parse(engine).unwrap()
}

fn settings(engines: &[&str], toml: &str) -> Settings {
    let none = |_: &str| None;
    let config = if toml.is_empty() {
        Config::default()
    } else {
        file::parse("c", toml, &none).unwrap()
    };
    let flag = |text: &&str| match text.split_once('=') {
        Some((name, port)) => (id(name), Some(port.parse().unwrap())),
        None => (id(text), None),
    };
    let engines = engines.iter().map(flag).collect();
    resolve(
        &Flags {
            engines,
            ..Flags::default()
        },
        &config,
        &none,
    )
    .unwrap()
}

fn node(engine: &str, port: u16, more: &str) -> String {
    format!("[[nodes]]\nengine = \"{engine}\"\nurl = \"http://127.0.0.1:{port}\"\n{more}\n")
}

#[tokio::test(start_paused = true)]
async fn the_first_engine_found_is_this_machines_and_a_second_one_is_told_apart() {
    let (a, b) = (
        Engine::start(&[("/api/tags", TAGS)]).await,
        Engine::start(&[("/api/tags", TAGS)]).await,
    );
    let other = Engine::start(&[("/api/tags", r#"{"error":"no such thing"}"#)]).await;
    let mut bench = Bench::new();
    for port in [other.port, a.port, b.port] {
        bench.look("ollama", port);
    }
    let started = bench.start(&settings(&["ollama"], "")).await.unwrap();
    let (a, b) = (a.port, b.port);
    assert_eq!(
        bench.so_far(),
        [
            format!("local ollama 127.0.0.1:{a} healthy"),
            format!("node ollama this-pc 127.0.0.1:{a} [a,b] warm [] slots 0 ctx  local up"),
            format!("node ollama this-pc:{b} 127.0.0.1:{b} [a,b] warm [] slots 0 ctx  found up"),
            "enable ollama 0 ignore=false []".to_owned(),
        ]
    );
    let ids: Vec<_> = started.rows[0].nodes.iter().map(NodeId::as_str).collect();
    assert_eq!(ids, ["this-pc".to_owned(), format!("this-pc:{b}")]);
    assert!(started.warnings.is_empty(), "{:?}", started.warnings);
}

#[tokio::test(start_paused = true)]
async fn each_engine_is_read_in_its_own_way() {
    let ollama = Engine::start(&[
        ("/api/tags", TAGS),
        (
            "/api/ps",
            r#"{"models":[{"name":"a","context_length":8192}]}"#,
        ),
    ])
    .await;
    let lm = Engine::start(&[
        (
            "/v1/models",
            r#"{"object":"list","data":[{"id":"x"},{"id":"y"}]}"#,
        ),
        (
            "/api/v0/models",
            r#"{"data":[{"id":"y","state":"loaded","loaded_context_length":4096}]}"#,
        ),
    ])
    .await;
    let llama = Engine::start(&[
        (
            "/models",
            r#"{"models":[{"name":"n"}],"object":"list","data":[{"id":"q","meta":{"n_ctx":2048}}]}"#,
        ),
        ("/props", r#"{"total_slots":4}"#),
    ])
    .await;
    let router = Engine::start(&[
        (
            "/gpu/models",
            r#"{"data":[{"id":"l/1","status":{"value":"loaded"}},
                {"id":"u","status":{"value":"unloaded"}},{"id":"f","status":{"value":"failed"}}]}"#,
        ),
        (
            "/gpu/props?model=l%2F1&autoload=false",
            r#"{"total_slots":2}"#,
        ),
    ])
    .await;
    let toml = [
        node("ollama", ollama.port, "weight = 3"),
        node("lmstudio", lm.port, ""),
        node("llamacpp", llama.port, ""),
        node("llamacpp", router.port, "name = \"router\"").replace("\"\nname", "/gpu/v1\"\nname"),
    ]
    .join("");
    let mut bench = Bench::new();
    bench.start(&settings(&[], &toml)).await.unwrap();
    let told: Vec<_> = bench
        .so_far()
        .into_iter()
        .filter(|l| l.starts_with("node"))
        .collect();
    let (o, l, c, r) = (ollama.port, lm.port, llama.port, router.port);
    assert_eq!(
        told,
        [
            format!(
                "node ollama this-pc 127.0.0.1:{o} [a,b] warm [a] slots 0 ctx 8192 local named up"
            ),
            format!(
                "node lmstudio this-pc 127.0.0.1:{l} [x,y] warm [y] slots 0 ctx 4096 local named up"
            ),
            format!(
                "node llamacpp this-pc 127.0.0.1:{c} [q] warm [q] slots 4 ctx 2048 local named up"
            ),
            format!("node llamacpp router 127.0.0.1:{r}/gpu [l/1,u] warm [l/1] slots 2 ctx  up"),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_is_gone_at_the_third_missed_probe_and_back_when_it_answers() {
    let engine = Engine::start(&[("/api/tags", TAGS)]).await;
    let mut bench = Bench::new();
    let s = settings(&["ollama"], &node("ollama", engine.port, "name = \"rig\""));
    bench.start(&s).await.unwrap();
    bench.so_far();
    let stopped = Instant::now();
    let port = engine.stop().await;
    assert_eq!(
        bench.next().await,
        format!("local ollama 127.0.0.1:{port} ill")
    );
    let gone = bench.next().await;
    assert!(
        gone.contains("rig") && gone.contains("[a,b]"),
        "still listed: {gone}"
    );
    assert!(gone.ends_with("gone: connection refused"), "{gone}");
    assert_eq!(stopped.elapsed().as_secs(), 15);

    let _again = Engine::start_at(port, &[("/api/tags", r#"{"models":[{"name":"c"}]}"#)]).await;
    assert_eq!(
        bench.next().await,
        format!("local ollama 127.0.0.1:{port} healthy")
    );
    let back = bench.next().await;
    assert!(back.contains("[c]") && back.ends_with(" up"), "{back}");
    assert!(stopped.elapsed().as_secs() <= 20);
}

#[tokio::test(start_paused = true)]
async fn only_changes_are_told() {
    let engine = Engine::start(&[("/api/tags", TAGS)]).await;
    let mut bench = Bench::new();
    bench
        .start(&settings(&["ollama"], &node("ollama", engine.port, "")))
        .await
        .unwrap();
    bench.so_far();
    sleep(Duration::from_secs(61)).await;
    assert_eq!(engine.asked("/api/tags"), 13, "every five seconds");
    assert_eq!(bench.so_far(), [""; 0]);
    engine.set("/api/tags", 200, r#"{"models":[{"name":"new"}]}"#);
    assert!(bench.next().await.contains("[new]"));
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_hangs_delays_start_up_by_a_second_and_nobody_elses_news() {
    let (hung, good) = (
        Engine::start(&[]).await,
        Engine::start(&[("/api/tags", TAGS)]).await,
    );
    hung.hang();
    let toml = [
        node("ollama", hung.port, "name = \"hung\""),
        node("ollama", good.port, ""),
    ];
    let mut bench = Bench::new();
    let began = Instant::now();
    bench
        .start(&settings(&["ollama"], &toml.concat()))
        .await
        .unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(1));
    bench.so_far();
    good.set("/api/tags", 200, r#"{"models":[{"name":"new"}]}"#);
    assert!(
        bench.next().await.contains("hung"),
        "its own miss, at its limit of 5 s"
    );
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    assert!(bench.next().await.contains("[new]"));
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    sleep(Duration::from_secs(61)).await;
    assert_eq!(
        hung.script.lock().unwrap().most_open,
        1,
        "never two probes of one node"
    );
    assert_eq!(good.asked("/api/tags"), 14, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_facade_is_no_engine_wherever_it_is_met() {
    let facade = Engine::start(&[]).await;
    let far = Engine::start(&[]).await;
    let closed = Engine::start(&[]).await;
    facade.set(
        "/api/tags",
        409,
        r#"{"error":"the compatibility facade","code":"proxy-facade"}"#,
    );
    far.set(
        "/api/tags",
        403,
        r#"{"error":"plaintext","code":"loopback-only"}"#,
    );
    closed.set(
        "/api/tags",
        403,
        r#"{"error":"not let in","code":"address-not-allowed"}"#,
    );
    let toml = [
        node("ollama", facade.port, "name = \"loop\""),
        node("ollama", far.port, "name = \"far\""),
        node("ollama", closed.port, "name = \"closed\""),
    ];
    let mut bench = Bench::new();
    let found = Engine::start(&[]).await;
    found.set("/api/tags", 409, r#"{"models":[],"code":"proxy-facade"}"#);
    bench.look("ollama", found.port);
    let started = bench
        .start(&settings(&["ollama"], &toml.concat()))
        .await
        .unwrap();
    let told: Vec<_> = bench
        .so_far()
        .into_iter()
        .filter(|l| l.starts_with("node"))
        .collect();
    assert_eq!(told.len(), 3, "{told:?}");
    let why = "gone: answers as an nvpair-proxy facade, not as an engine";
    assert!(told.iter().all(|l| l.ends_with(why)), "{told:?}");
    assert_eq!(started.warnings.len(), 3, "{:?}", started.warnings);
}

#[tokio::test(start_paused = true)]
async fn our_own_ports_are_not_even_asked() {
    let engine = Engine::start(&[("/api/tags", TAGS)]).await;
    let mut bench = Bench::new();
    bench.look("ollama", engine.port);
    let s = settings(&[&format!("ollama={}", engine.port)], "");
    // As if the port had become ours before the first look.
    bench
        .book
        .lock()
        .unwrap()
        .facades
        .push((id("lmstudio"), engine.port, Vec::new()));
    let started = bench.start(&s).await.unwrap();
    sleep(Duration::from_secs(20)).await;
    assert_eq!(engine.calls(), [""; 0]);
    let hint = "none yet: start Ollama on 11434, or add --node ollama=URL";
    assert_eq!(started.rows[0].hint.as_deref(), Some(hint));
}

#[tokio::test(start_paused = true)]
async fn a_failure_on_the_request_path_brings_the_next_probe_forward_once() {
    let engine = Engine::start(&[("/api/tags", TAGS)]).await;
    let bench = Bench::new();
    let s = settings(&["ollama"], &node("ollama", engine.port, "name = \"rig\""));
    let started = bench.start(&s).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    for _ in 0..200 {
        started.probe_now.poke(id("ollama"), &NodeId::from("rig"));
    }
    started
        .probe_now
        .poke(id("ollama"), &NodeId::from("nobody"));
    sleep(Duration::from_millis(100)).await;
    assert_eq!(engine.asked("/api/tags"), 2);
    started.probe_now.poke(id("ollama"), &NodeId::from("rig"));
    sleep(Duration::from_millis(300)).await;
    assert_eq!(
        engine.asked("/api/tags"),
        2,
        "not twice within half a second"
    );
    sleep(Duration::from_millis(200)).await;
    assert_eq!(engine.asked("/api/tags"), 3);
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_starts_later_is_found() {
    let spare = Engine::start(&[]).await;
    let mut bench = Bench::new();
    bench.look("ollama", spare.port);
    let started = bench.start(&settings(&["ollama"], "")).await.unwrap();
    assert!(started.rows[0].nodes.is_empty());
    bench.so_far();
    spare.set("/api/tags", 200, TAGS);
    let port = spare.port;
    assert_eq!(
        bench.next().await,
        format!("local ollama 127.0.0.1:{port} healthy")
    );
    assert!(bench.next().await.ends_with("local up"));
}

#[tokio::test(start_paused = true)]
async fn this_machines_engine_that_comes_back_on_another_port_stays_one_node() {
    let (old, new) = (
        Engine::start(&[("/api/tags", TAGS)]).await,
        Engine::start(&[]).await,
    );
    let mut bench = Bench::new();
    bench.look("ollama", old.port);
    bench.look("ollama", new.port);
    bench.start(&settings(&["ollama"], "")).await.unwrap();
    bench.so_far();
    old.stop().await;
    assert!(bench.next().await.ends_with("ill"));
    assert!(bench.next().await.contains("gone"));
    new.set("/api/tags", 200, TAGS);
    let port = new.port;
    assert_eq!(
        bench.next().await,
        format!("local ollama 127.0.0.1:{port} healthy")
    );
    let back = bench.next().await;
    assert!(
        back.starts_with(&format!("node ollama this-pc 127.0.0.1:{port}")),
        "{back}"
    );
}

#[tokio::test(start_paused = true)]
async fn configured_models_stand_and_the_node_is_still_watched() {
    let engine = Engine::start(&[]).await;
    let mut bench = Bench::new();
    let more = "models = [\"mine\"]\nslots = 2\nname = \"rig\"";
    bench
        .start(&settings(&["ollama"], &node("ollama", engine.port, more)))
        .await
        .unwrap();
    let told = bench.so_far();
    assert!(
        told[1].contains("[mine]") && told[1].contains("slots 2"),
        "{told:?}"
    );
    assert!(
        told[1].ends_with("up"),
        "alive, even without a list: {told:?}"
    );
    engine.stop().await;
    bench.next().await;
    assert!(bench.next().await.contains("gone"));
}

#[tokio::test(start_paused = true)]
async fn a_key_goes_to_its_own_node_and_every_probe_says_what_it_is() {
    let (a, b) = (
        Engine::start(&[("/api/tags", TAGS)]).await,
        Engine::start(&[]).await,
    );
    b.set("/api/tags", 401, "no");
    let keyed = node("ollama", a.port, "name = \"keyed\"\napi_key = \"canary\"");
    let toml = [keyed, node("ollama", b.port, "name = \"bare\"")].concat();
    let bench = Bench::new();
    let started = bench.start(&settings(&["ollama"], &toml)).await.unwrap();
    let heads = |e: &Engine| e.script.lock().unwrap().heads.clone();
    assert!(
        heads(&a)
            .iter()
            .all(|h| h.contains("authorization: Bearer canary\r\n"))
    );
    assert!(heads(&b).iter().all(|h| !h.contains("canary")));
    let probe = "x-nvpair-engine-identity-probe: 1\r\n";
    assert!(
        heads(&a)
            .iter()
            .chain(&heads(&b))
            .all(|h| h.contains(probe))
    );
    assert_eq!(
        started.warnings,
        ["node bare (Ollama): HTTP 401: check api_key"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_knows_no_node_before_its_facade_is_told_after_it() {
    let engine = Engine::start(&[("/api/tags", TAGS)]).await;
    let mut bench = Bench::new();
    bench.book.lock().unwrap().strict = true;
    bench
        .start(&settings(&["ollama"], &node("ollama", engine.port, "")))
        .await
        .unwrap();
    let told = bench.so_far();
    assert!(
        told[1].starts_with("enable") && told[2].starts_with("node"),
        "{told:?}"
    );
    assert_eq!(told.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_port_that_cannot_be_bound_gives_way_once_and_the_table_says_so() {
    let mut bench = Bench::new();
    bench.book.lock().unwrap().unbindable.push(11435);
    bench.taken.push(1234);
    let started = bench.start(&settings(&[], "")).await.unwrap();
    assert_eq!(
        bench.so_far(),
        [
            "enable ollama 0 ignore=false []",
            "enable ollama 11436 ignore=true []",
            "enable lmstudio 1235 ignore=false []",
            "enable llamacpp 0 ignore=false []",
        ]
    );
    let notes: Vec<_> = started
        .rows
        .iter()
        .map(|r| (r.port, r.note.as_deref()))
        .collect();
    let want = [
        (11436, Some("11435 is taken")),
        (1235, Some("1234 is taken")),
        (8080, None),
    ];
    assert_eq!(notes, want);
}

#[tokio::test(start_paused = true)]
async fn a_saved_port_goes_before_the_fallback() {
    let mut bench = Bench::new();
    bench.book.lock().unwrap().saved = Some(12000);
    bench.taken.push(11435);
    let started = bench.start(&settings(&["ollama"], "")).await.unwrap();
    let row = &started.rows[0];
    assert_eq!(
        (row.port, row.note.as_deref()),
        (12000, Some("saved by set-port"))
    );
}

#[tokio::test(start_paused = true)]
async fn some_facades_are_a_warning_and_none_is_an_error() {
    let engine = Engine::start(&[("/api/tags", TAGS)]).await;
    let mut bench = Bench::new();
    bench.book.lock().unwrap().unbindable.extend([9000, 9001]);
    let toml = node("ollama", engine.port, "name = \"rig\"");
    let started = bench
        .start(&settings(&["ollama=9000", "llamacpp"], &toml))
        .await
        .unwrap();
    assert_eq!(started.rows.len(), 1);
    assert_eq!(started.warnings, ["no Ollama facade: port 9000: in use"]);
    assert_eq!(bench.so_far().last().unwrap(), "remove ollama rig");
    sleep(Duration::from_secs(20)).await;
    assert_eq!(engine.asked("/api/tags"), 1, "nobody needs it any more");

    let bench = Bench::new();
    bench.book.lock().unwrap().unbindable.extend([9000, 9001]);
    let failed = bench
        .start(&settings(&["ollama=9000", "llamacpp=9001"], ""))
        .await;
    let text = failed.err().unwrap().to_string();
    let want =
        "no facade could be enabled\n  Ollama: port 9000: in use\n  llama.cpp: port 9001: in use";
    assert_eq!(text, want);
}

#[tokio::test(start_paused = true)]
async fn the_host_variables_address_is_proposed_only_beside_a_running_engine() {
    let engine = Engine::start(&[("/api/tags", TAGS)]).await;
    for (running, taken, want) in [
        (true, false, "[127.0.0.1:11500]"),
        (true, true, "[]"),
        (false, false, "[]"),
    ] {
        let mut bench = Bench::new();
        let mut s = settings(&["ollama"], "");
        s.host_variables = vec![(id("ollama"), "127.0.0.1:11500".parse().unwrap())];
        if running {
            bench.look("ollama", engine.port);
        }
        bench.taken.extend(taken.then_some(11500));
        bench.start(&s).await.unwrap();
        let log = bench.so_far();
        let enable = log.iter().find(|l| l.starts_with("enable")).unwrap();
        assert!(enable.ends_with(want), "{enable}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_table_shows_the_aliases_that_were_bound() {
    let bench = Bench::new();
    let mut s = settings(&["ollama", "llamacpp"], "");
    s.aliases = ["127.0.0.1:11500", "[::1]:11500"]
        .map(|a| (id("ollama"), a.parse().unwrap()))
        .to_vec();
    bench.book.lock().unwrap().alias_blocked = vec!["[::1]:11500".to_owned()];
    let rows = bench.start(&s).await.unwrap().rows;
    assert_eq!(rows[0].aliases, ["127.0.0.1:11500"]);
    assert!(rows[1].aliases.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_named_node_on_another_loopback_address_hides_no_engine() {
    let engine = Engine::start(&[("/api/tags", TAGS)]).await;
    let port = engine.port;
    for (url, nodes) in [
        (format!("http://127.0.0.2:{port}"), 2),
        (format!("http://127.0.0.1:{port}"), 1),
        (format!("http://localhost:{port}"), 1),
    ] {
        let mut bench = Bench::new();
        bench.look("ollama", port);
        let named = format!("[[nodes]]\nengine = \"ollama\"\nurl = \"{url}\"\n");
        let started = bench.start(&settings(&["ollama"], &named)).await.unwrap();
        assert_eq!(started.rows[0].nodes.len(), nodes, "{url}");
        let log = bench.so_far();
        let found = log.iter().filter(|l| l.contains(" found up"));
        assert_eq!(found.count(), nodes - 1, "{url}: {log:?}");
    }
}

#[tokio::test]
async fn a_taken_port_is_told_by_dialling() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    assert!(local::listens(port).await);
    drop(listener);
    assert!(!local::listens(port).await);
}
