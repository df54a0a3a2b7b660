//! A raw HTTP/1.1 client: it sends odd requests, stops reading, hangs up when told, and keeps what
//! it got as it came.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::time::Duration;

use serde_json::Value;

use super::LIMIT;
use super::engine::values;

/// An answer.
#[derive(Clone, Debug, Default)]
pub struct Response {
    pub status: u16,
    pub version: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub trailers: Vec<(String, String)>,
    /// Whether it came to the end its framing announces.
    pub complete: bool,
    /// Statuses of interim answers before it.
    pub interim: Vec<u16>,
    framing: Framing,
}

#[derive(Clone, Copy, Debug, Default)]
enum Framing {
    #[default]
    None,
    Length(usize),
    Chunked,
    Close,
}

impl Response {
    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers_of(name).first().copied()
    }

    /// All headers of this name, in order.
    pub fn headers_of(&self, name: &str) -> Vec<&str> {
        values(&self.headers, name)
    }

    /// Names of the headers, in order and as spelled.
    pub fn names(&self) -> Vec<&str> {
        self.headers.iter().map(|(n, _)| n.as_str()).collect()
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// The text of an error of ours, in whichever shape.
    #[track_caller]
    pub fn error_text(&self) -> String {
        let body = self.json();
        let error = &body["error"];
        let text = error.as_str().or_else(|| error["message"].as_str());
        text.unwrap_or_else(|| panic!("no error text: {body}"))
            .to_owned()
    }
}

/// One connection.
pub struct Client {
    reader: BufReader<TcpStream>,
    port: u16,
    methods: Vec<String>,
}

impl Client {
    /// A connection to this port of 127.0.0.1.
    #[track_caller]
    pub fn connect(port: u16) -> Self {
        Self::of(
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap(),
            port,
        )
    }

    /// This connection; `port` is what its requests name as `Host`.
    pub fn of(stream: TcpStream, port: u16) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_write_timeout(Some(LIMIT)).unwrap();
        Self {
            reader: BufReader::new(stream),
            port,
            methods: Vec::new(),
        }
    }

    /// Writes bytes as they are.
    #[track_caller]
    pub fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_write(bytes.as_ref()).unwrap();
    }

    /// Writes bytes; an error if the other side is gone.
    pub fn try_write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.reader.get_ref().write_all(bytes)
    }

    /// Whether something of an answer is there.
    pub fn has_answer(&self) -> bool {
        let stream = self.reader.get_ref();
        stream.set_nonblocking(true).unwrap();
        let there = stream.peek(&mut [0]).is_ok();
        stream.set_nonblocking(false).unwrap();
        there
    }

    /// Writes a request's head: `method target`, a `Host` unless one is given, these headers.
    #[track_caller]
    pub fn start(&mut self, method: &str, target: &str, headers: &[(&str, &str)]) {
        let mut head = format!("{method} {target} HTTP/1.1\r\n");
        if !headers.iter().any(|(n, _)| n.eq_ignore_ascii_case("host")) {
            head.push_str(&format!("Host: 127.0.0.1:{}\r\n", self.port));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        self.methods.push(method.to_owned());
        self.write(head + "\r\n");
    }

    /// Writes a whole request with a body of known length.
    #[track_caller]
    pub fn send(&mut self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) {
        let length = body.len().to_string();
        let mut all = headers.to_vec();
        if !body.is_empty() {
            all.push(("Content-Length", &length));
        }
        self.start(method, target, &all);
        self.write(body);
    }

    /// Posts JSON.
    #[track_caller]
    pub fn post(&mut self, target: &str, body: &Value) {
        let kind = [("Content-Type", "application/json")];
        self.send("POST", target, &kind, body.to_string().as_bytes());
    }

    /// Reads up to the answer's body.
    #[track_caller]
    pub fn head(&mut self) -> Response {
        self.try_head().expect("an answer")
    }

    /// The same; `None` if the connection ends first.
    pub fn try_head(&mut self) -> Option<Response> {
        let mut response = Response::default();
        loop {
            let line = self.line()?;
            let mut words = line.split(' ');
            response.version = words.next()?.to_owned();
            response.status = words.next()?.parse().ok()?;
            response.headers = self.fields()?;
            if !(100..200).contains(&response.status) || response.status == 101 {
                break;
            }
            response.interim.push(response.status);
        }
        let bodyless = !self.methods.is_empty() && self.methods.remove(0) == "HEAD";
        response.framing = if bodyless || matches!(response.status, 101 | 204 | 304) {
            Framing::None
        } else if response.header("transfer-encoding") == Some("chunked") {
            Framing::Chunked
        } else if let Some(length) = response.header("content-length") {
            Framing::Length(length.parse().unwrap())
        } else {
            Framing::Close
        };
        Some(response)
    }

    /// Reads body pieces until this text came; false if the body ends before.
    pub fn read_until(&mut self, response: &mut Response, text: &str) -> bool {
        let seen = |r: &Response| {
            let mut windows = r.body.windows(text.len());
            windows.any(|w| w == text.as_bytes())
        };
        while !seen(response) {
            if !self.piece(response) {
                return false;
            }
        }
        true
    }

    /// Reads the rest of an answer.
    pub fn finish(&mut self, mut response: Response) -> Response {
        while self.piece(&mut response) {}
        response
    }

    /// Reads a whole answer.
    #[track_caller]
    pub fn answer(&mut self) -> Response {
        let head = self.head();
        self.finish(head)
    }

    /// One more piece of body; false at the end, clean or not.
    fn piece(&mut self, r: &mut Response) -> bool {
        match r.framing {
            Framing::None | Framing::Length(0) => r.complete = true,
            Framing::Length(left) => {
                let mut piece = vec![0; left.min(65_536)];
                if let Ok(n @ 1..) = self.reader.read(&mut piece) {
                    r.body.extend_from_slice(&piece[..n]);
                    r.framing = Framing::Length(left - n);
                    return true;
                }
            },
            Framing::Chunked => return self.next_chunk(r).is_some(),
            Framing::Close => {
                let mut piece = [0; 65_536];
                match self.reader.read(&mut piece) {
                    Ok(0) => r.complete = true,
                    Ok(n) => {
                        r.body.extend_from_slice(&piece[..n]);
                        return true;
                    },
                    Err(_) => {},
                }
            },
        }
        false
    }

    fn next_chunk(&mut self, r: &mut Response) -> Option<()> {
        let line = self.line()?;
        let size = usize::from_str_radix(line.split(';').next()?, 16).ok()?;
        if size == 0 {
            r.trailers = self.fields()?;
            r.complete = true;
            r.framing = Framing::None;
            return None;
        }
        let mut piece = vec![0; size];
        self.reader.read_exact(&mut piece).ok()?;
        r.body.extend_from_slice(&piece);
        self.line().map(drop)
    }

    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line).ok()?;
        let line = String::from_utf8(line).ok()?;
        line.ends_with('\n').then(|| line.trim_end().to_owned())
    }

    fn fields(&mut self) -> Option<Vec<(String, String)>> {
        let mut fields = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Some(fields);
            }
            let (name, value) = line.split_once(':')?;
            fields.push((name.to_owned(), value.trim().to_owned()));
        }
    }

    /// Everything until the other side ends the connection; an error if it does not within the
    /// limit.
    pub fn rest(&mut self) -> std::io::Result<Vec<u8>> {
        let mut all = Vec::new();
        match self.reader.read_to_end(&mut all) {
            Err(e) if e.kind() != std::io::ErrorKind::ConnectionReset => Err(e),
            _ => Ok(all),
        }
    }

    /// Exactly so many bytes.
    #[track_caller]
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut bytes = vec![0; n];
        self.reader.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Says that nothing more comes, and listens on.
    pub fn half_close(&self) {
        self.reader.get_ref().shutdown(Shutdown::Write).unwrap();
    }

    /// Leaves with a reset.
    pub fn reset(self) {
        let socket = socket2::SockRef::from(self.reader.get_ref());
        socket.set_linger(Some(Duration::ZERO)).unwrap();
    }
}

/// One request on a connection of its own.
#[track_caller]
pub fn http(
    port: u16,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Response {
    let mut client = Client::connect(port);
    client.send(method, target, headers, body);
    client.answer()
}

/// GET without anything special.
#[track_caller]
pub fn get(port: u16, target: &str) -> Response {
    http(port, "GET", target, &[], b"")
}

/// POST of JSON.
#[track_caller]
pub fn post(port: u16, target: &str, body: &Value) -> Response {
    let mut client = Client::connect(port);
    client.post(target, body);
    client.answer()
}
