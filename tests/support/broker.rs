//! The parent's side of the link: newline-delimited JSON-RPC over the daemon's stdin and stdout.

use std::io::Write;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::daemon::{Lines, Process, World};
use super::engine::Engine;
use super::{LIMIT, free_port, wait};

/// A daemon with us as its parent.
pub struct Broker {
    pub world: World,
    pub process: Process,
    frames: Lines,
    input: Mutex<Option<ChildStdin>>,
    next: AtomicU64,
    generation: AtomicU64,
}

impl Broker {
    /// Without any facade.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// The same, with more flags.
    pub fn with(args: &[&str]) -> Self {
        Self::with_env(args, &[])
    }

    /// The same, with more of an environment.
    pub fn with_env(args: &[&str], env: &[(&str, &str)]) -> Self {
        let world = World::new();
        let mut command = world.command(&[&["serve", "--broker"], args].concat());
        command.envs(env.iter().copied());
        Self::spawn(world, command)
    }

    /// The same in a process that may have so many open files, and can raise that no further.
    pub fn with_open_files(limit: u32) -> Self {
        let world = World::new();
        let inner = world.command(&["serve", "--broker"]);
        let mut command = world.shell(&format!("ulimit -n {limit} && exec \"$0\" \"$@\""));
        command.arg(inner.get_program()).args(inner.get_args());
        Self::spawn(world, command)
    }

    fn spawn(world: World, mut command: Command) -> Self {
        command.stdin(Stdio::piped());
        let mut process = Process::spawn(&mut command);
        let input = process.child().stdin.take().unwrap();
        let frames = Lines::of(process.child().stdout.take().unwrap());
        Self {
            world,
            process,
            frames,
            input: Mutex::new(Some(input)),
            next: AtomicU64::new(1),
            generation: AtomicU64::new(0),
        }
    }

    /// With one facade of this engine; and its port.
    pub fn with_facade(engine: &str) -> (Self, u16) {
        let broker = Self::start();
        let port = broker.enable(engine);
        (broker, port)
    }

    /// With an Ollama facade and these engines as its nodes `n0`, `n1`, …, all with model `m`, tried
    /// in this order.
    pub fn over(engines: &[&Engine]) -> (Self, u16) {
        let (broker, port) = Self::with_facade("ollama");
        broker.join("ollama", engines);
        (broker, port)
    }

    /// Makes these engines the nodes `n0`, `n1`, … of a facade, all with model `m`.
    pub fn join(&self, facade: &str, engines: &[&Engine]) {
        for (i, engine) in engines.iter().enumerate() {
            self.node(facade, &format!("n{i}"), engine.port(), &["m"]);
        }
        let ids: Vec<_> = (0..engines.len()).map(|i| format!("n{i}")).collect();
        let ids: Vec<_> = ids.iter().map(String::as_str).collect();
        self.priority(&ids);
    }

    fn send(&self, frame: &Value) {
        self.raw(&format!("{frame}\n"));
    }

    /// Writes text to the link as it is.
    pub fn raw(&self, text: &str) {
        let mut input = self.input.lock().unwrap();
        let input = input.as_mut().expect("the link is open");
        input.write_all(text.as_bytes()).unwrap();
    }

    /// Asks; the result, or the error object.
    #[track_caller]
    pub fn call(&self, method: &str, params: &Value) -> Result<Value, Value> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let find = || {
            let frames = self.frames(0);
            frames
                .into_iter()
                .find(|f| f["id"] == id && f.get("method").is_none())
        };
        let reply = wait(LIMIT, find).unwrap_or_else(|| panic!("no reply to {method}"));
        match reply.get("error") {
            Some(error) if !error.is_null() => Err(error.clone()),
            _ => Ok(reply["result"].clone()),
        }
    }

    /// Asks for what has to succeed.
    #[track_caller]
    pub fn request(&self, method: &str, params: &Value) -> Value {
        let said = self.call(method, params);
        said.unwrap_or_else(|e| panic!("{method}: {e}"))
    }

    /// Tells.
    pub fn notify(&self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Every frame from number `since` on, in order.
    pub fn frames(&self, since: usize) -> Vec<Value> {
        let text = self.frames.text();
        let frames = text.lines().skip(since);
        frames.map(|l| serde_json::from_str(l).unwrap()).collect()
    }

    /// All frames as they came.
    pub fn raw_frames(&self) -> String {
        self.frames.text()
    }

    /// Whether the daemon has closed the link.
    pub fn link_ended(&self) -> bool {
        self.frames.ended()
    }

    /// How many frames there are.
    pub fn mark(&self) -> usize {
        self.frames.count()
    }

    /// Waits for the first notification of this name whose params are as wanted.
    #[track_caller]
    pub fn expect(&self, method: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let fits = |f: &Value| f["method"] == method && wanted(&f["params"]);
        let found = wait(LIMIT, || self.frames(0).into_iter().find(|f| fits(f)));
        let found = found.unwrap_or_else(|| panic!("no {method} in\n{}", self.frames.text()));
        found["params"].clone()
    }

    /// Enables a facade on a free port.
    #[track_caller]
    pub fn enable(&self, engine: &str) -> u16 {
        for _ in 0..5 {
            let port = free_port();
            let params = json!({"engine": engine, "port": port, "ignorePersistedPort": true});
            match self.call("facade/enable", &params) {
                Ok(_) => return port,
                // Somebody was faster.
                Err(e) if e["code"] == -32010 => {},
                Err(e) => panic!("{e}"),
            }
        }
        panic!("no facade port could be had");
    }

    /// Adds a node with these models.
    #[track_caller]
    pub fn node(&self, engine: &str, id: &str, port: u16, models: &[&str]) {
        let params = json!({
            "id": id, "host": id, "port": port, "addresses": ["127.0.0.1"], "models": models,
        });
        self.request(&format!("{engine}:node/add-manual"), &params);
    }

    /// Ranks the nodes, idle all of them.
    #[track_caller]
    pub fn priority(&self, nodes: &[&str]) {
        let generation = self.generation.fetch_add(1, Ordering::Relaxed) + 1;
        let ranks: Vec<_> = nodes
            .iter()
            .enumerate()
            .map(|(i, id)| json!({"id": id, "pending": 0, "gpuPressure": 0, "rank": i}))
            .collect();
        let params = json!({"generation": generation, "nodes": nodes, "ranks": ranks});
        self.request("node/set-priority", &params);
    }

    /// All workload events so far: method and record.
    pub fn workloads(&self) -> Vec<(String, Value)> {
        let of = |f: Value| {
            let method = f["method"].as_str()?.strip_prefix("workload:")?.to_owned();
            Some((method, f["params"]["workloadInfo"].clone()))
        };
        self.frames(0).into_iter().filter_map(of).collect()
    }

    /// Waits for the end of Ollama's workload `id`; its events as `event state node` each, once their
    /// numbers are proved to run from 1 without a gap.
    #[track_caller]
    pub fn story(&self, id: &str) -> Vec<String> {
        self.story_of("ollama", id)
    }

    /// The same on another facade.
    #[track_caller]
    pub fn story_of(&self, engine: &str, id: &str) -> Vec<String> {
        let of = || {
            let mut all = self.workloads();
            all.retain(|(_, w)| w["engine"] == engine && w["id"] == id);
            all
        };
        let is_end = |(m, _): &(String, Value)| m == "completed" || m == "errored";
        let ended = wait(LIMIT, || of().iter().any(is_end).then_some(()));
        assert!(ended.is_some(), "workload {id} does not end: {:#?}", of());
        // What comes later would come before the answer to this.
        drop(self.call("test/barrier", &json!({})));
        let events = of();
        for (i, (_, w)) in events.iter().enumerate() {
            assert_eq!(w["seq"], i + 1, "gapless numbers: {events:#?}");
        }
        let text = |v: &Value| v.as_str().unwrap_or("-").to_owned();
        let line = |(m, w): &(String, Value)| {
            format!("{m} {} {}", text(&w["state"]), text(&w["scheduledOn"]))
        };
        events.iter().map(line).collect()
    }

    /// Ends the link, as a parent does.
    pub fn close(&self) {
        drop(self.input.lock().unwrap().take());
    }
}
