//! An engine that does as it is told: a raw-socket HTTP/1.1 server whose every step a test decides.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::{LIMIT, ring, wait, wait_for};

/// How long an answer hangs or stands at a gate. Longer than any wait of a test: an engine that gave up
/// first would look like one that failed.
const PATIENCE: Duration = Duration::from_secs(90);

/// A request as it came in.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub method: String,
    /// The target as written.
    pub target: String,
    pub version: String,
    /// In their order and spelling.
    pub headers: Vec<(String, String)>,
    /// Request line and header lines, byte for byte.
    pub head: Vec<u8>,
    /// The body without its framing.
    pub body: Vec<u8>,
    /// Whether the body came in chunks.
    pub chunked: bool,
    pub trailers: Vec<(String, String)>,
    /// Whether the body came to its end.
    pub whole: bool,
    /// Which connection it came on, from 0.
    pub connection: usize,
}

/// The values of all headers of this name, in order.
pub fn values<'a>(headers: &'a [(String, String)], name: &str) -> Vec<&'a str> {
    let found = headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
    found.map(|(_, v)| v.as_str()).collect()
}

impl Request {
    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers_of(name).first().copied()
    }

    /// All headers of this name, in order.
    pub fn headers_of(&self, name: &str) -> Vec<&str> {
        values(&self.headers, name)
    }
}

/// A place where an answer waits until the test opens it.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(AtomicBool, AtomicUsize)>);

impl Gate {
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets everybody through, now and later.
    pub fn open(&self) {
        self.0.0.store(true, Ordering::SeqCst);
        ring();
    }

    /// Waits until an answer stands before it.
    #[track_caller]
    pub fn reached(&self) {
        self.reached_by(1);
    }

    /// Waits until so many answers came to it.
    #[track_caller]
    pub fn reached_by(&self, n: usize) {
        wait_for("an answer comes to the gate", || {
            self.0.1.load(Ordering::SeqCst) >= n
        });
    }
}

/// One step of an answer.
#[derive(Clone, Debug)]
pub enum Step {
    /// These bytes.
    Send(Vec<u8>),
    /// Wait for the test.
    Gate(Gate),
    /// Wait until the other side goes.
    Hang,
    /// Close the connection, as after an orderly end.
    Close,
    /// Close the connection with a reset.
    Reset,
    /// Say that nothing more comes, and listen on.
    HalfClose,
    /// Send back whatever comes, until the other side ends.
    Echo,
    /// Ends the whole engine: listener and connections.
    Die,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    steps: Vec<Step>,
}

fn head(status: u16, headers: &[(&str, &str)]) -> String {
    let mut text = format!("HTTP/1.1 {status} X\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text
}

/// One chunk of a chunked body.
pub fn chunk(data: &str) -> Vec<u8> {
    format!("{:x}\r\n{data}\r\n", data.len()).into_bytes()
}

impl Reply {
    /// These steps.
    pub fn steps(steps: impl Into<Vec<Step>>) -> Self {
        Self {
            steps: steps.into(),
        }
    }

    /// These bytes.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self::steps([Step::Send(bytes.into())])
    }

    /// A body of known length, with these headers.
    pub fn with(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let head = head(status, headers);
        Self::raw(format!(
            "{head}Content-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    }

    /// JSON with this status.
    pub fn json(status: u16, body: &Value) -> Self {
        let kind = [("Content-Type", "application/json")];
        Self::with(status, &kind, &body.to_string())
    }

    /// A plain status with a word of its own.
    pub fn status(status: u16) -> Self {
        Self::json(status, &json!({ "error": format!("engine says {status}") }))
    }

    /// The head of a chunked answer of this type; the steps go on from there.
    pub fn stream(kind: &str) -> Self {
        let head = head(
            200,
            &[("Content-Type", kind), ("Transfer-Encoding", "chunked")],
        );
        Self::raw(format!("{head}\r\n"))
    }

    /// The head of an answer of JSON lines.
    pub fn lines() -> Self {
        Self::stream("application/x-ndjson")
    }

    /// One more step.
    pub fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// One more chunk.
    pub fn chunk(self, data: &str) -> Self {
        self.then(Step::Send(chunk(data)))
    }

    /// Waits for the test.
    pub fn gate(self, gate: &Gate) -> Self {
        self.then(Step::Gate(gate.clone()))
    }

    /// The last chunk.
    pub fn end(self) -> Self {
        self.then(Step::Send(b"0\r\n\r\n".to_vec()))
    }

    /// Never answers; waits until the other side goes.
    pub fn silence() -> Self {
        Self::steps([Step::Hang])
    }
}

type Script = Box<dyn Fn(&Request) -> Reply + Send + Sync>;

struct Inner {
    script: Mutex<Script>,
    requests: Mutex<Vec<Request>>,
    streams: Mutex<HashMap<usize, TcpStream>>,
    hung_up: AtomicUsize,
    /// Answers before it reads a body.
    early: AtomicBool,
    dead: AtomicBool,
    /// The listener is closed.
    closed: AtomicBool,
    address: SocketAddr,
}

/// A running engine; dropped, it is gone.
pub struct Engine(Arc<Inner>);

impl Engine {
    /// An engine that answers everything by this script.
    pub fn start(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::on(0, script)
    }

    /// The same on a port of the test's choice.
    pub fn on(port: u16, script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        let inner = Arc::new(Inner {
            script: Mutex::new(Box::new(script)),
            requests: Mutex::default(),
            streams: Mutex::default(),
            hung_up: AtomicUsize::new(0),
            early: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            address: listener.local_addr().unwrap(),
        });
        let served = Arc::clone(&inner);
        thread::spawn(move || {
            for (n, stream) in listener.incoming().enumerate() {
                let Ok(stream) = stream else { break };
                if served.dead.load(Ordering::SeqCst) {
                    break;
                }
                let copy = stream.try_clone().unwrap();
                served.streams.lock().unwrap().insert(n, copy);
                let served = Arc::clone(&served);
                // A broken connection ends its own thread only.
                thread::spawn(move || {
                    connection(&served, stream, n);
                    // Dropping it is not enough: somebody may still watch it.
                    if let Some(copy) = served.streams.lock().unwrap().remove(&n) {
                        drop(copy.shutdown(Shutdown::Both));
                    }
                });
            }
            drop(listener);
            served.closed.store(true, Ordering::SeqCst);
            ring();
        });
        Self(inner)
    }

    /// An engine with one answer for everything.
    pub fn always(reply: Reply) -> Self {
        Self::start(move |_| reply.clone())
    }

    /// An engine that serves this text in one short stream.
    pub fn serving(text: &str) -> Self {
        Self::always(Reply::lines().chunk(text).end())
    }

    /// An engine that answers as soon as it has a head, and reads the body afterwards.
    pub fn early(reply: Reply) -> Self {
        let engine = Self::always(reply);
        engine.0.early.store(true, Ordering::SeqCst);
        engine
    }

    /// Another script from now on.
    pub fn now(&self, script: impl Fn(&Request) -> Reply + Send + Sync + 'static) {
        *self.0.script.lock().unwrap() = Box::new(script);
    }

    pub fn port(&self) -> u16 {
        self.0.address.port()
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Request> {
        self.0.requests.lock().unwrap().clone()
    }

    /// The requests for this target.
    pub fn requests_for(&self, target: &str) -> Vec<Request> {
        let mut all = self.requests();
        all.retain(|r| r.target == target);
        all
    }

    /// How many requests there were.
    pub fn hits(&self) -> usize {
        self.0.requests.lock().unwrap().len()
    }

    /// The only request there was.
    #[track_caller]
    pub fn only(&self) -> Request {
        let mut all = self.requests();
        assert_eq!(all.len(), 1, "{all:#?}");
        all.remove(0)
    }

    /// Waits until so many requests are there.
    #[track_caller]
    pub fn hit(&self, n: usize) {
        wait_for("requests reach the engine", || self.hits() >= n);
    }

    /// Waits until somebody hung up on so many answers.
    #[track_caller]
    pub fn was_left(&self, n: usize) {
        let left = || self.0.hung_up.load(Ordering::SeqCst);
        wait_for("the engine's connection is closed", || left() >= n);
    }

    /// How often somebody hung up on an answer.
    pub fn hung_up(&self) -> usize {
        self.0.hung_up.load(Ordering::SeqCst)
    }

    /// Hangs up on everybody, and serves on.
    pub fn cut(&self) {
        for (_, stream) in self.0.streams.lock().unwrap().drain() {
            // It may be closed already.
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    /// Gone: nobody listens, and all connections are cut.
    pub fn die(&self) {
        self.0.die();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.die();
    }
}

impl Inner {
    fn die(&self) {
        if self.dead.swap(true, Ordering::SeqCst) {
            return;
        }
        // Wakes the accept loop, which then drops the listener.
        drop(TcpStream::connect(self.address));
        wait(LIMIT, || self.closed.load(Ordering::SeqCst).then_some(()));
        for (_, stream) in self.streams.lock().unwrap().drain() {
            // It may be closed already.
            drop(stream.shutdown(Shutdown::Both));
        }
        ring();
    }
}

fn connection(engine: &Arc<Inner>, stream: TcpStream, n: usize) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut request = read_head(&mut reader)?;
        request.connection = n;
        let early = engine.early.load(Ordering::SeqCst);
        if !early {
            read_body(&mut reader, &mut request);
        }
        let reply = engine.script.lock().unwrap()(&request);
        engine.requests.lock().unwrap().push(request.clone());
        ring();
        run(engine, &stream, n, &reply.steps)?;
        if early {
            read_body(&mut reader, &mut request);
        }
        if !request.whole {
            return None;
        }
    }
}

/// `None` ends the connection.
fn run(engine: &Arc<Inner>, mut stream: &TcpStream, n: usize, steps: &[Step]) -> Option<()> {
    let gone = Arc::new(AtomicBool::new(false));
    let mut watched = false;
    for step in steps {
        if matches!(step, Step::Gate(_) | Step::Hang) && !watched {
            watched = true;
            watch(engine, stream.try_clone().ok()?, Arc::clone(&gone));
        }
        match step {
            Step::Send(bytes) => {
                if stream.write_all(bytes).is_err() {
                    if !gone.swap(true, Ordering::SeqCst) {
                        engine.hung_up.fetch_add(1, Ordering::SeqCst);
                        ring();
                    }
                    return None;
                }
            },
            Step::Gate(gate) => {
                gate.0.1.fetch_add(1, Ordering::SeqCst);
                ring();
                wait(PATIENCE, || {
                    let over = gate.0.0.load(Ordering::SeqCst) || gone.load(Ordering::SeqCst);
                    over.then_some(())
                });
                if gone.load(Ordering::SeqCst) {
                    return None;
                }
            },
            Step::Hang => {
                wait(PATIENCE, || gone.load(Ordering::SeqCst).then_some(()));
                return None;
            },
            Step::Close => {
                drop(stream.shutdown(Shutdown::Both));
                return None;
            },
            Step::Reset => {
                // Closing the last copy resets; reading ends, so that no thread keeps one.
                gone.store(true, Ordering::SeqCst);
                engine.streams.lock().unwrap().remove(&n);
                let linger = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
                linger.and_then(|()| stream.shutdown(Shutdown::Read)).ok()?;
                return None;
            },
            Step::HalfClose => drop(stream.shutdown(Shutdown::Write)),
            Step::Echo => {
                let mut piece = [0; 4096];
                while let Ok(n @ 1..) = stream.read(&mut piece) {
                    stream.write_all(&piece[..n]).ok()?;
                }
                return None;
            },
            Step::Die => {
                engine.die();
                return None;
            },
        }
    }
    Some(())
}

/// Notices that the other side goes, while an answer waits.
fn watch(engine: &Arc<Inner>, stream: TcpStream, gone: Arc<AtomicBool>) {
    let engine = Arc::clone(engine);
    thread::spawn(move || {
        // A byte is the next request: then the answer is over.
        let left = !matches!(stream.peek(&mut [0]), Ok(1..));
        if left && !gone.swap(true, Ordering::SeqCst) {
            engine.hung_up.fetch_add(1, Ordering::SeqCst);
        }
        ring();
    });
}

fn read_line(reader: &mut impl BufRead, raw: &mut Vec<u8>) -> Option<String> {
    let start = raw.len();
    reader.read_until(b'\n', raw).ok()?;
    let line = std::str::from_utf8(&raw[start..]).ok()?;
    line.ends_with('\n').then(|| line.trim_end().to_owned())
}

fn read_fields(reader: &mut impl BufRead, raw: &mut Vec<u8>) -> Option<Vec<(String, String)>> {
    let mut fields = Vec::new();
    loop {
        let line = read_line(reader, raw)?;
        if line.is_empty() {
            return Some(fields);
        }
        let (name, value) = line.split_once(':')?;
        fields.push((name.to_owned(), value.trim().to_owned()));
    }
}

fn read_head(reader: &mut impl BufRead) -> Option<Request> {
    let mut request = Request::default();
    let mut raw = Vec::new();
    let line = read_line(reader, &mut raw)?;
    let mut words = line.split(' ');
    request.method = words.next()?.to_owned();
    request.target = words.next()?.to_owned();
    request.version = words.next()?.to_owned();
    request.headers = read_fields(reader, &mut raw)?;
    request.head = raw;
    request.chunked = request.header("transfer-encoding").is_some();
    Some(request)
}

/// Reads what the framing announces; a body that breaks off is not whole.
fn read_body(reader: &mut impl BufRead, request: &mut Request) {
    request.whole = if request.chunked {
        read_chunks(reader, request).is_some()
    } else {
        let length = request.header("content-length").unwrap_or("0");
        let length: usize = length.parse().unwrap();
        let mut body = Vec::new();
        let read = reader.take(length as u64).read_to_end(&mut body);
        request.body = body;
        read.is_ok() && request.body.len() == length
    };
}

fn read_chunks(reader: &mut impl BufRead, request: &mut Request) -> Option<()> {
    loop {
        let line = read_line(reader, &mut Vec::new())?;
        let size = usize::from_str_radix(line.split(';').next()?, 16).ok()?;
        if size == 0 {
            request.trailers = read_fields(reader, &mut Vec::new())?;
            return Some(());
        }
        let mut piece = vec![0; size];
        reader.read_exact(&mut piece).ok()?;
        request.body.extend_from_slice(&piece);
        read_line(reader, &mut Vec::new())?;
    }
}
