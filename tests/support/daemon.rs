//! Daemons in folders of their own.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

use super::{LIMIT, free_port, ring, wait, wait_for};

/// Lines of a pipe as they come.
#[derive(Clone, Debug, Default)]
pub struct Lines(Arc<Mutex<(Vec<String>, bool)>>);

impl Lines {
    /// Reads a pipe to its end, in a thread.
    pub fn of(pipe: impl Read + Send + 'static) -> Self {
        let lines = Self::default();
        let filled = lines.clone();
        thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut line = Vec::new();
            while let Ok(1..) = pipe.read_until(b'\n', &mut line) {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                line.clear();
                filled.0.lock().unwrap().0.push(text);
                ring();
            }
            filled.0.lock().unwrap().1 = true;
            ring();
        });
        lines
    }

    /// All so far.
    pub fn text(&self) -> String {
        self.0.lock().unwrap().0.join("\n")
    }

    pub fn count(&self) -> usize {
        self.0.lock().unwrap().0.len()
    }

    /// Whether the pipe came to its end.
    pub fn ended(&self) -> bool {
        self.0.lock().unwrap().1
    }

    /// Waits for a line with this text.
    #[track_caller]
    pub fn expect(&self, text: &str) {
        wait_for(text, || self.text().contains(text));
    }
}

/// What one run of the command said.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// The folders of one machine.
pub struct World(tempfile::TempDir);

impl World {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn socket(&self) -> PathBuf {
        self.path().join("control.sock")
    }

    /// Writes a file and gives its path.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The binary with these arguments, in this world and no other.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.program(env!("CARGO_BIN_EXE_nvpair-proxy"));
        command.args(args);
        command
    }

    /// A shell with this script, in this world; what is added are its `$0` and on.
    pub fn shell(&self, script: &str) -> Command {
        let mut command = self.program("/bin/sh");
        command.arg("-c").arg(script);
        command
    }

    fn program(&self, program: &str) -> Command {
        let at = |name: &str| self.path().join(name);
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", self.path())
            .env("XDG_RUNTIME_DIR", at("run"))
            .env("XDG_STATE_HOME", at("state"))
            .env("XDG_CONFIG_HOME", at("config"))
            .env("XDG_DATA_HOME", at("share"))
            .env("NVPAIR_PROXY_DATA_DIR", at("data"))
            .env("NVPAIR_PROXY_SOCKET", self.socket())
            .current_dir(self.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs it to its end.
    pub fn run(&self, args: &[&str]) -> Said {
        let output = self.command(args).output().unwrap();
        Said {
            code: output.status.code().expect("not killed"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs it with `--json`; it has to succeed.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> Value {
        let said = self.run(&[args, &["--json"]].concat());
        assert_eq!(said.code, 0, "{said:?}");
        serde_json::from_str(&said.out).unwrap_or_else(|e| panic!("{e}: {said:?}"))
    }

    /// Every file below this world, with its content.
    pub fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        let mut folders = vec![self.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                match entry.file_type().unwrap() {
                    kind if kind.is_dir() => folders.push(entry.path()),
                    kind if kind.is_file() => {
                        let content = std::fs::read(entry.path()).unwrap();
                        found.push((entry.path(), content));
                    },
                    _ => {},
                }
            }
        }
        found
    }
}

/// A running binary; dropped, it is killed.
pub struct Process {
    child: Child,
    ended: Arc<Mutex<Option<ExitStatus>>>,
    /// What it logs.
    pub log: Lines,
}

impl Process {
    /// Starts it; whoever wants its stdin or stdout takes them from the child.
    pub fn spawn(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let log = Lines::of(child.stderr.take().unwrap());
        Self {
            child,
            ended: Arc::default(),
            log,
        }
    }

    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for its end. Its log ends with it, which is what is waited for.
    #[track_caller]
    pub fn exit_code(&mut self) -> i32 {
        wait_for("the process ends", || self.log.ended());
        let status = self.child.wait().unwrap();
        *self.ended.lock().unwrap() = Some(status);
        let text = || panic!("ended by a signal: {status:?}\n{}", self.log.text());
        status.code().unwrap_or_else(text)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A daemon that runs without a parent.
pub struct Standalone {
    pub process: Process,
    /// What it printed.
    pub out: Lines,
    /// The port of its Ollama facade, if it was started with one.
    pub port: u16,
}

impl Standalone {
    /// `serve` with an Ollama facade on a free port and these arguments, once it is ready.
    #[track_caller]
    pub fn start(world: &World, args: &[&str]) -> Self {
        Self::start_with(world, args, &|_| {})
    }

    /// `serve` with the gateway alone on a free port and these arguments, once it is ready.
    #[track_caller]
    pub fn gateway(world: &World, args: &[&str]) -> Self {
        Self::gateway_with(world, args, &|_| {})
    }

    /// The same; `change` may give the command another environment.
    #[track_caller]
    pub fn gateway_with(world: &World, args: &[&str], change: &dyn Fn(&mut Command)) -> Self {
        Self::on_free_port(world, "gateway", args, change)
    }

    /// The same; `change` may give the command another environment or another stderr.
    #[track_caller]
    pub fn start_with(world: &World, args: &[&str], change: &dyn Fn(&mut Command)) -> Self {
        Self::on_free_port(world, "ollama", args, change)
    }

    #[track_caller]
    fn on_free_port(
        world: &World,
        facade: &str,
        args: &[&str],
        change: &dyn Fn(&mut Command),
    ) -> Self {
        for _ in 0..5 {
            let port = free_port();
            let engine = format!("{facade}={port}");
            let all = [&["--engine", &engine], args].concat();
            match Self::try_start_with(world, port, &all, change) {
                Ok(started) => return started,
                Err(text) if text.contains("taken") || text.contains("cannot listen") => {},
                Err(text) => panic!("{text}"),
            }
        }
        panic!("no port could be had");
    }

    /// `serve` with these arguments; an error with what it said if it ends instead.
    pub fn try_start(world: &World, port: u16, args: &[&str]) -> Result<Self, String> {
        Self::try_start_with(world, port, args, &|_| {})
    }

    fn try_start_with(
        world: &World,
        port: u16,
        args: &[&str],
        change: &dyn Fn(&mut Command),
    ) -> Result<Self, String> {
        let mut command = world.command(&[&["serve"], args].concat());
        change(&mut command);
        let mut process = Process::spawn(&mut command);
        let out = Lines::of(process.child().stdout.take().unwrap());
        let ready = || out.text().contains("Ready in").then_some(true);
        let ended = || (out.ended() && process.log.ended()).then_some(false);
        match wait(LIMIT, || ready().or_else(ended)) {
            Some(true) => Ok(Self { process, out, port }),
            _ => Err(process.log.text()),
        }
    }
}
