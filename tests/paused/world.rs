//! A facade in memory: clients and engines at the two ends of pipes, and a clock that jumps
//! whenever nobody has anything left to do.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nvpair_proxy::facade::{Certificates, Context, Facade, plaintext};
use nvpair_proxy::net::h1::request::{Admission, admit};
use nvpair_proxy::net::places::Places;
use nvpair_proxy::net::sockets::Sockets;
use nvpair_proxy::net::stream::Network;
use nvpair_proxy::net::upstream::Upstreams;
use nvpair_proxy::rules::discovery::{Extra, Node};
use nvpair_proxy::rules::engine::EngineId;
use nvpair_proxy::rules::ids::RunId;
use nvpair_proxy::rules::places::Limits;
use nvpair_proxy::rules::policy::Policy;
use nvpair_proxy::rules::reservations::Load;
use nvpair_proxy::rules::workload::State;
use nvpair_proxy::state::activity::Activity;
use nvpair_proxy::state::events::{Events, Notice, Sink};
use nvpair_proxy::state::facade::{Alone, FacadeState};
use nvpair_proxy::state::lifetime::Lifetime;
use nvpair_proxy::state::scheduler::Scheduler;
use nvpair_proxy::state::settings::RequestSettings;
use nvpair_proxy::state::shared::Shared;
use nvpair_proxy::telemetry::hub::Telemetry;
use nvpair_proxy::wire::broker::WorkloadInfo;
use nvpair_proxy::wire::control::{DaemonInfo, Mode};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::{Instant, sleep};

/// The facade's own port, for `Host`.
const PORT: u16 = 4000;

/// What a pipe holds before its writer has to wait.
const PIPE: usize = 4096;

/// Which way a request takes: carried as bytes, or through the HTTP library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    Express,
    Library,
}

/// Runs a test once for each lane, each time on a clock of its own that stands still.
pub fn on_both_lanes(test: impl AsyncFn(Lane)) {
    for lane in [Lane::Express, Lane::Library] {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(test(lane));
    }
}

/// What an engine does with a request, step by step; behind the last it closes.
#[derive(Clone, Debug)]
pub enum Step {
    /// The connection is never made.
    NoDial,
    /// The connection takes this long to be made; only as the first step.
    DialIn(Duration),
    /// The connection is refused.
    Refused,
    Wait(Duration),
    Say(String),
    /// Says nothing more and keeps the connection until the other side closes it.
    Hold,
    /// Takes its own node out of discovery.
    Leave,
    /// Reads another request from the same connection.
    Again,
}

pub fn say(text: impl Into<String>) -> Step {
    Step::Say(text.into())
}

/// A whole answer with this status.
pub fn status(status: u16, body: &str) -> Vec<Step> {
    let length = body.len();
    vec![say(format!(
        "HTTP/1.1 {status} Said So\r\nContent-Length: {length}\r\n\r\n{body}"
    ))]
}

/// The head of a stream.
pub fn stream_head() -> Step {
    say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
}

pub fn chunk(text: &str) -> Step {
    say(format!("{:x}\r\n{text}\r\n", text.len()))
}

pub fn last_chunk() -> Step {
    say("0\r\n\r\n")
}

/// Scripts by port: what the first request there meets, the second, and the last for all others.
type Scripts = Vec<(u16, Vec<Vec<Step>>)>;

/// What was seen at the engines.
#[derive(Default)]
struct Seen {
    /// When each dial began and where it went.
    dials: Vec<(Duration, u16)>,
    /// When each connection was seen closed by the proxy.
    closed: Vec<Duration>,
}

/// Events of workloads, and at which sign of life from now on to panic.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<WorkloadInfo>>>, Arc<AtomicUsize>);

impl Sink for Told {
    fn notice(&self, notice: &Notice) {
        match notice {
            Notice::Workload(_, info) => self.0.lock().unwrap().push((**info).clone()),
            Notice::Activity(_) => assert!(self.1.fetch_sub(1, Ordering::Relaxed) != 1, "a bug"),
            _ => {},
        }
    }
}

pub struct World {
    pub facade: Facade,
    begun: Instant,
    seen: Arc<Mutex<Seen>>,
    told: Told,
    lane: Lane,
    pipe: usize,
    /// Where its engines are.
    #[allow(dead_code, reason = "the benchmark asks engines without a proxy")]
    pub network: Arc<Network>,
}

/// An answer as the client has it.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
    /// It came to the end that its framing says.
    pub whole: bool,
    /// Since the world began.
    pub at: Duration,
}

impl World {
    /// A facade with one node a script, all owning the model `m`.
    pub fn new(lane: Lane, settings: RequestSettings, scripts: Scripts) -> Self {
        Self::piped(PIPE, lane, settings, scripts)
    }

    /// The same with pipes that hold so many bytes.
    pub fn piped(pipe: usize, lane: Lane, settings: RequestSettings, scripts: Scripts) -> Self {
        let begun = Instant::now();
        let seen = Arc::<Mutex<Seen>>::default();
        let engine = EngineId::parse("llamacpp").unwrap();
        let info = DaemonInfo {
            version: "1".into(),
            pid: 1,
            mode: Mode::Broker,
            run_id: RunId::from_bytes([0; 8]),
            started_at: 0,
            socket: None,
        };
        let (told, events) = (Told::default(), Arc::<Events>::default());
        events.join(vec![Box::new(told.clone())]);
        let scheduler = Scheduler::new(Policy::Listed);
        let shared = Arc::new(Shared::new(info, settings, events, scheduler));
        let scheduler = shared.scheduler.clone();
        let state = Arc::new(FacadeState::new(engine, Arc::new(Alone), scheduler));
        state.opened(PORT, 0);
        for (port, _) in &scripts {
            assert!(state.add_manual(node(*port)));
        }
        let network = Arc::new(network(pipe, begun, scripts, seen.clone(), state.clone()));
        let context = Arc::new(Context {
            shared,
            upstreams: Upstreams::new(None, network.clone()),
            sockets: Sockets::new(network.clone()),
            cluster: None,
            lifetime: Arc::<Lifetime>::default(),
            activity: Activity::default(),
            places: Places::new(Limits::of(None)),
            certificates: Certificates::default(),
            machine: "here".into(),
            telemetry: Arc::new(Telemetry::new().0),
            on_failure: std::sync::OnceLock::new(),
        });
        Self {
            facade: Facade { context, state },
            begun,
            seen,
            told,
            lane,
            pipe,
            network,
        }
    }

    /// Time since the world began.
    pub fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// When each dial began.
    pub fn dials(&self) -> Vec<Duration> {
        let seen = self.seen.lock().unwrap();
        seen.dials.iter().map(|d| d.0).collect()
    }

    /// Where each dial went.
    pub fn dialled(&self) -> Vec<u16> {
        let seen = self.seen.lock().unwrap();
        seen.dials.iter().map(|d| d.1).collect()
    }

    /// When connections were closed by us, while their engine held them.
    pub fn closed(&self) -> Vec<Duration> {
        self.seen.lock().unwrap().closed.clone()
    }

    /// A bug strikes on the request's own task when bytes of an answer are told of for this time.
    pub fn panics_at(&self, nth: usize) {
        self.told.1.store(nth, Ordering::Relaxed);
    }

    /// A node comes back.
    pub fn joins(&self, port: u16) {
        assert!(self.facade.state.add_manual(node(port)));
    }

    /// A node misses its probes: it is listed still, and known to be down.
    pub fn is_down(&self, port: u16) {
        let mut down = node(port);
        down.extra.unreachable = Some("connection refused".into());
        assert!(!self.facade.state.add_manual(down));
    }

    pub fn leaves(&self, port: u16) {
        let id = node(port).id;
        assert!(self.facade.state.remove_manual(&id).is_some());
    }

    /// A client that has sent its request for the model `m`.
    pub async fn ask(&self) -> DuplexStream {
        self.send("/v1/chat/completions").await.0
    }

    /// The same, on a path; with the count of how often its connection was looked at.
    pub async fn send(&self, path: &str) -> (DuplexStream, Arc<AtomicUsize>) {
        let (mut client, server) = duplex(self.pipe);
        let body = r#"{"model":"m","stream":true}"#;
        let framing = match self.lane {
            Lane::Express => format!("Content-Length: {}\r\n\r\n{body}", body.len()),
            Lane::Library => {
                let length = body.len();
                format!("Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n")
            },
        };
        let json = "Content-Type: application/json";
        let request =
            format!("POST {path} HTTP/1.1\r\nHost: localhost:{PORT}\r\n{json}\r\n{framing}");
        let here = ([127, 0, 0, 1], 9).into();
        let plain = matches!(admit(request.as_bytes()), Admission::Plain(_));
        assert_eq!(plain, self.lane == Lane::Express, "the lane under test");
        let looks = Arc::<AtomicUsize>::default();
        let (facade, count) = (self.facade.clone(), looks.clone());
        tokio::spawn(async move {
            let mut served = pin!(plaintext(facade, server.into(), here, None));
            poll_fn(|cx| {
                count.fetch_add(1, Ordering::Relaxed);
                served.as_mut().poll(cx)
            })
            .await;
        });
        client.write_all(request.as_bytes()).await.unwrap();
        (client, looks)
    }

    /// Reads an answer to its end, clean or not.
    pub async fn answer(&self, client: &mut DuplexStream) -> Answer {
        let mut read = Vec::new();
        let (head, body, whole) = loop {
            let text = String::from_utf8_lossy(&read);
            if let Some((head, body)) = text.split_once("\r\n\r\n")
                && is_whole(head, body)
            {
                break (head.to_owned(), body.to_owned(), true);
            }
            if client.read_buf(&mut read).await.unwrap_or(0) == 0 {
                let text = String::from_utf8_lossy(&read);
                let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
                break (head.to_owned(), body.to_owned(), false);
            }
        };
        let status = head.get(9..12).and_then(|s| s.parse().ok()).unwrap_or(0);
        Answer {
            status,
            head,
            body,
            whole,
            at: self.now(),
        }
    }

    /// Asks and reads the answer.
    pub async fn chat(&self) -> Answer {
        let mut client = self.ask().await;
        self.answer(&mut client).await
    }

    /// Events told so far.
    pub fn events(&self) -> usize {
        self.told.0.lock().unwrap().len()
    }

    /// Waits until one workload ended: its state and error, and when.
    pub async fn end(&self) -> (State, Option<String>, Duration) {
        loop {
            if let Some(last) = self.told.0.lock().unwrap().last()
                && last.state.is_terminal()
            {
                return (last.state, last.error.clone(), self.now());
            }
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// One workload told its story without a gap and ended once; nothing counts any more.
    pub async fn is_over(&self, state: State) {
        assert_eq!(self.end().await.0, state);
        let told = self.told.0.lock().unwrap();
        for (n, event) in told.iter().enumerate() {
            assert_eq!(event.seq, n as u64 + 1);
            assert_eq!(event.state.is_terminal(), n + 1 == told.len());
        }
        for port in [1, 2] {
            let load = self.facade.context.shared.scheduler.load(&node(port).id);
            assert_eq!(load, Load::default());
        }
    }
}

fn is_whole(head: &str, body: &str) -> bool {
    let head = head.to_ascii_lowercase();
    match head.split_once("content-length: ") {
        Some((_, rest)) => {
            let length = rest.split("\r\n").next().unwrap_or_default();
            length.parse() == Ok(body.len())
        },
        None => body.ends_with("0\r\n\r\n"),
    }
}

fn node(port: u16) -> Node {
    Node {
        id: format!("n{port}").into(),
        host: "192.0.2.1".into(),
        port,
        addresses: vec![],
        txt: vec![],
        models: vec!["m".into()],
        principal: None,
        extra: Extra::default(),
    }
}

/// Gives the first dial at a port its first script, and so on.
fn network(
    pipe: usize,
    begun: Instant,
    scripts: Scripts,
    seen: Arc<Mutex<Seen>>,
    state: Arc<FacadeState>,
) -> Network {
    Network::Pipes(Box::new(move |_, port| {
        let mut log = seen.lock().unwrap();
        let nth = log.dials.iter().filter(|d| d.1 == port).count();
        log.dials.push((begun.elapsed(), port));
        let (_, mine) = scripts.iter().find(|s| s.0 == port).unwrap();
        let script = mine[nth.min(mine.len() - 1)].clone();
        let (seen, state) = (seen.clone(), state.clone());
        Box::pin(async move {
            match script[0] {
                Step::NoDial => std::future::pending().await,
                Step::Refused => Err(std::io::ErrorKind::ConnectionRefused.into()),
                _ => {
                    if let Step::DialIn(time) = script[0] {
                        sleep(time).await;
                    }
                    let (ours, theirs) = duplex(pipe);
                    tokio::spawn(serve(theirs, script, port, begun, seen, state));
                    Ok(ours)
                },
            }
        })
    }))
}

/// Reads to the end of a request, which is a line of JSON; `false` if none comes.
async fn request(io: &mut DuplexStream, read: &mut Vec<u8>) -> bool {
    read.clear();
    while !String::from_utf8_lossy(read).contains("true}") {
        if io.read_buf(read).await.unwrap_or(0) == 0 {
            return false;
        }
    }
    true
}

async fn serve(
    mut io: DuplexStream,
    script: Vec<Step>,
    port: u16,
    begun: Instant,
    seen: Arc<Mutex<Seen>>,
    state: Arc<FacadeState>,
) {
    let mut read = Vec::new();
    if !request(&mut io, &mut read).await {
        return;
    }
    for step in script {
        let gone = match step {
            Step::NoDial | Step::Refused => unreachable!("there is no connection"),
            Step::DialIn(_) => false,
            Step::Wait(time) => {
                sleep(time).await;
                false
            },
            Step::Say(text) => io.write_all(text.as_bytes()).await.is_err(),
            Step::Hold => {
                while io.read_buf(&mut read).await.unwrap_or(0) > 0 {}
                true
            },
            Step::Leave => state.remove_manual(&node(port).id).is_none(),
            Step::Again => !request(&mut io, &mut read).await,
        };
        if gone {
            seen.lock().unwrap().closed.push(begun.elapsed());
            return;
        }
    }
}
