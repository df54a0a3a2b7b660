//! A real Redis of a test's own: on a free port, in a folder of its own, nothing kept on disk.

// Tests and benchmark use different parts.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long anything may take before a test is called hung.
const LIMIT: Duration = Duration::from_secs(60);

/// Set where Redis must be tested: then its absence fails.
const REQUIRED: &str = "NVPAIR_REQUIRE_REDIS";

/// A running `redis-server`. Ends with the value.
pub struct Redis {
    port: u16,
    password: Option<&'static str>,
    dir: TempDir,
    child: Child,
}

impl Redis {
    /// Starts one; `None`, said aloud, where there is no `redis-server`.
    pub fn start(password: Option<&'static str>) -> Option<Self> {
        let mut dir = tempfile::tempdir().expect("a folder");
        // The free port may be somebody else's by the time that it is bound: then once more.
        for _ in 0..20 {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
            let port = free.local_addr().expect("its address").port();
            drop(free);
            let child = spawn(&dir, port, password)?;
            let mut redis = Self {
                port,
                password,
                dir,
                child,
            };
            if redis.answers() {
                return Some(redis);
            }
            dir = std::mem::replace(&mut redis.dir, tempfile::tempdir().expect("a folder"));
        }
        panic!("redis-server did not start");
    }

    /// Its address, as a setting.
    pub fn address(&self) -> String {
        match self.password {
            Some(password) => format!("redis://:{password}@127.0.0.1:{}", self.port),
            None => format!("redis://127.0.0.1:{}", self.port),
        }
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        self.child.wait().expect("it ends");
    }

    /// Starts it again, empty, where it was.
    pub fn restart(&mut self) {
        self.kill();
        let end = Instant::now() + LIMIT;
        while Instant::now() < end {
            self.child = spawn(&self.dir, self.port, self.password).expect("it was there before");
            if self.answers() {
                return;
            }
        }
        panic!("redis-server did not start again");
    }

    /// Lets it stop in its tracks, or go on.
    #[cfg(unix)]
    pub fn freeze(&self, on: bool) {
        use rustix::process::{Pid, Signal, kill_process};
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let signal = if on { Signal::STOP } else { Signal::CONT };
        kill_process(pid.expect("a process"), signal).expect("a signal");
    }

    /// Its process, for what it costs.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it something, apart from what is tested; the answer as it comes.
    pub fn ask(&self, words: &[&str]) -> String {
        let mut stream = self.connect().expect("it takes connections");
        send(&mut stream, words);
        answer(&mut BufReader::new(stream))
    }

    /// What it is asked from now on, one line a command.
    pub fn monitor(&self) -> Monitor {
        let mut stream = self.connect().expect("it takes connections");
        send(&mut stream, &["MONITOR"]);
        let mut reader = BufReader::new(stream);
        assert_eq!(answer(&mut reader), "OK");
        Monitor(reader)
    }

    fn connect(&self) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(LIMIT))?;
        if let Some(password) = self.password {
            send(&mut stream, &["AUTH", password]);
            let mut ok = [0; 5];
            stream.read_exact(&mut ok)?;
        }
        Ok(stream)
    }

    /// Waits until it answers; `false` if it ended instead.
    fn answers(&mut self) -> bool {
        let end = Instant::now() + LIMIT;
        while Instant::now() < end {
            if self.child.try_wait().expect("its state").is_some() {
                return false;
            }
            // Whoever else has the port is not our child.
            if self.connect().is_ok()
                && self
                    .ask(&["INFO", "server"])
                    .contains(&format!("process_id:{}\r", self.child.id()))
            {
                return true;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        false
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The commands that reach a Redis.
pub struct Monitor(BufReader<TcpStream>);

impl Monitor {
    /// The commands of clients, without those inside scripts, up to one with this word in it.
    pub fn until(&mut self, word: &str) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            let line = answer(&mut self.0);
            if line.contains(word) {
                return seen;
            }
            if !line.contains(" lua] ") {
                seen.push(line);
            }
        }
    }
}

fn spawn(dir: &TempDir, port: u16, password: Option<&str>) -> Option<Child> {
    let mut command = Command::new("redis-server");
    command.args([
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
        "--port",
    ]);
    command.arg(port.to_string()).arg("--dir").arg(dir.path());
    if let Some(password) = password {
        command.args(["--requirepass", password]);
    }
    match command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
    {
        Ok(child) => Some(child),
        Err(e) => {
            assert!(
                std::env::var_os(REQUIRED).is_none(),
                "{REQUIRED} is set, and redis-server does not start: {e}"
            );
            // Past the capture of the test's output: nobody should take this for a pass.
            let said = writeln!(
                std::io::stderr(),
                "SKIPPED: no redis-server here ({e}); a test with Redis did not run"
            );
            drop(said);
            None
        },
    }
}

fn send(stream: &mut TcpStream, words: &[&str]) {
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        text += &format!("${}\r\n{word}\r\n", word.len());
    }
    stream
        .write_all(text.as_bytes())
        .expect("it takes commands");
}

fn answer(reader: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).expect("it answers");
    let line = line.trim_end();
    match line.split_at_checked(1) {
        Some(("$", "-1")) => "nil".to_owned(),
        Some(("$", length)) => {
            let mut content = vec![0; length.parse::<usize>().expect("a length") + 2];
            reader.read_exact(&mut content).expect("the rest");
            String::from_utf8_lossy(&content)
                .trim_end_matches("\r\n")
                .to_owned()
                + "\r"
        },
        Some((_, rest)) => rest.to_owned(),
        None => String::new(),
    }
}
