//! The director against scripted engines on real loopback sockets and a daemon that only records.
//!
//! Engines, daemon and director share one runtime, so that a paused clock is safe and a minute of
//! probing takes no time.

mod adapting;
mod facades;
mod named;
mod probing;

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::{Instant, sleep};

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
