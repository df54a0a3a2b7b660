use super::*;
use crate::net::places::Places;
use crate::net::sockets::Sockets;
use crate::net::upstream::Upstreams;
use crate::rules::discovery::Extra;
use crate::rules::ids::RunId;
use crate::rules::log_level::{LogFormat, LogLevel};
use crate::rules::places::Limits;
use crate::rules::policy::Policy;
use crate::state::activity::Activity;
use crate::state::command::Commands;
use crate::state::events::Events;
use crate::state::facade::Alone;
use crate::state::lifetime::Lifetime;
use crate::state::query::Queries;
use crate::state::scheduler::Scheduler;
use crate::state::settings::RequestSettings;
use crate::state::shared::Shared;
use crate::telemetry::hub::Telemetry;
use crate::telemetry::logging;
use crate::wire::broker::WorkloadState;
use crate::wire::control::{DaemonInfo, Mode, WorkloadFilter};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn ollama() -> EngineId {
    EngineId::parse("ollama").unwrap()
}

struct World {
    context: Arc<Context>,
    shared: Arc<Shared>,
    commands: Commands,
    died: mpsc::UnboundedSender<Died>,
}

fn world() -> World {
    let info = DaemonInfo {
        version: "1".into(),
        pid: 1,
        mode: Mode::Broker,
        run_id: RunId::from_bytes([0; 8]),
        started_at: 0,
        socket: None,
    };
    let events = Arc::<Events>::default();
    let scheduler = Scheduler::new(Policy::Listed);
    let shared = Arc::new(Shared::new(
        info,
        RequestSettings::default(),
        events,
        scheduler,
    ));
    let context = Arc::new(Context {
        shared: shared.clone(),
        upstreams: Upstreams::new(None, Arc::default()),
        sockets: Sockets::new(Arc::default()),
        cluster: None,
        lifetime: Arc::<Lifetime>::default(),
        activity: Activity::default(),
        places: Places::new(Limits::of(None)),
        certificates: crate::facade::Certificates::default(),
        machine: "here".into(),
        telemetry: Arc::new(Telemetry::new().0),
        on_failure: std::sync::OnceLock::new(),
    });
    let log = logging::start(LogLevel::Error, LogFormat::Text);
    let (ports, stop) = (Ports::Unsaved, Stop::default());
    let surroundings: Arc<dyn Surroundings> = Arc::new(Alone);
    let executor = Executor::new(
        context.clone(),
        surroundings,
        ports,
        Scope::Loopback,
        false,
        None,
        log,
        "1".into(),
        stop,
        mpsc::unbounded_channel().0,
    );
    let died = executor.died.0.clone();
    let (commands, queue) = Commands::queue(8);
    tokio::spawn(executor.run(queue));
    World {
        context,
        shared,
        commands,
        died,
    }
}

async fn enable(w: &World, port: u16) -> Result<Enabled, CommandError> {
    let enable = Enable {
        engine: ollama(),
        port: i64::from(port),
        alias_addresses: vec![],
        ignore_persisted_port: true,
    };
    w.commands.call(|r| Command::Enable(enable, r)).await
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let probe = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    probe.local_addr().unwrap().port()
}

#[tokio::test]
async fn a_facade_whose_accept_loop_died_is_withdrawn_and_can_be_enabled_again() {
    let w = world();
    let port = free_port();
    assert!(!enable(&w, port).await.unwrap().already);
    assert!(
        enable(&w, port).await.unwrap().already,
        "enabling twice changes nothing"
    );
    let died = |opening| Died {
        engine: ollama(),
        opening,
        reason: "test".into(),
    };
    w.died.send(died(99)).unwrap();
    assert!(
        enable(&w, port).await.unwrap().already,
        "a late notice hits no successor"
    );
    w.died.send(died(1)).unwrap();
    let again = enable(&w, free_port()).await.unwrap();
    assert!(!again.already, "its place was free");
    assert!(w.shared.is_enabled(ollama()));
}

/// What comes back on a connection of its own, up to its end.
async fn answer(port: u16, request: &str) -> String {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn a_panic_in_a_request_ends_that_request_alone() {
    let w = world();
    let told = Box::new(|_, _: &NodeId| panic!("on purpose"));
    assert!(w.context.on_failure.set(told).is_ok());
    let port = enable(&w, free_port()).await.unwrap().port;
    // Nobody listens there, and the hook for transport failures panics.
    let node = ManualNode {
        record: NodeRecord {
            id: "n".into(),
            port: free_port(),
            addresses: vec!["127.0.0.1".into()],
            models: vec!["m".into()],
            ..NodeRecord::default()
        },
        extra: Extra::default(),
    };
    let add = |r| Command::AddManual(ollama(), Box::new(node), r);
    w.commands.call(add).await.unwrap();

    let head = "POST /api/chat HTTP/1.1\r\nHost: localhost\r\n";
    let body = r#"{"model":"m"}"#;
    let plain = format!("{head}Content-Length: 13\r\n\r\n{body}");
    // Not plain, so that the HTTP library serves it.
    let chunked = format!(
        "{head}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n{body}\r\n0\r\n\r\n"
    );
    for request in [&plain, &chunked, &plain] {
        let answer = answer(port, request).await;
        assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
        assert!(answer.contains("internal error"), "{answer}");
        assert!(!answer.contains("on purpose"), "{answer}");
    }
    let list = "GET /api/version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert!(answer(port, list).await.starts_with("HTTP/1.1 "));
    assert!(enable(&w, port).await.unwrap().already, "it still serves");
    let ended = w.shared.workloads(&WorkloadFilter::default()).workloads;
    let states: Vec<_> = ended.iter().map(|w| w.state).collect();
    assert_eq!(states, [WorkloadState::Failed; 3]);
}

#[tokio::test]
async fn a_lost_bind_leaves_no_facade_behind() {
    let w = world();
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = held.local_addr().unwrap().port();
    assert_eq!(
        enable(&w, taken).await.unwrap_err().code,
        ErrorCode::BindFailed
    );
    assert!(!w.shared.is_enabled(ollama()));
    assert!(enable(&w, free_port()).await.is_ok());
}
