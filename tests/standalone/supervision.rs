//! Under systemd: what the manager is told (sd_notify), and what the journal is given.

use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::client::Client;
use crate::support::daemon::{Lines, Process, Standalone, World};
use crate::support::engine::{Gate, Reply};
use crate::support::{ring, wait_for};
use crate::{chat, ollama};

/// The manager's end.
struct Manager {
    name: OsString,
    address: SocketAddr,
    told: Arc<Mutex<Vec<String>>>,
}

impl Manager {
    fn listen(name: impl Into<OsString>, address: &SocketAddr) -> Self {
        let socket = UnixDatagram::bind_addr(address).unwrap();
        let told = Arc::<Mutex<Vec<String>>>::default();
        let filled = told.clone();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length) = socket.recv(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
                filled.lock().unwrap().push(text);
                ring();
            }
        });
        Self {
            name: name.into(),
            address: address.clone(),
            told,
        }
    }

    fn at_path(world: &World) -> Self {
        let path = world.path().join("notify");
        Self::listen(&path, &SocketAddr::from_pathname(&path).unwrap())
    }

    fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }

    /// All that was sent until now: order is kept, so that a message of our own comes last.
    #[track_caller]
    fn all(&self) -> Vec<String> {
        let own = UnixDatagram::unbound().unwrap();
        own.send_to_addr(b"END", &self.address).unwrap();
        self.expect("END");
        self.told()
    }

    /// Waits for a message that begins so, and gives it.
    #[track_caller]
    fn expect(&self, start: &str) -> String {
        wait_for(start, || self.told().iter().any(|m| m.starts_with(start)));
        let mut told = self.told().into_iter();
        told.find(|m| m.starts_with(start)).unwrap()
    }

    fn start(&self, world: &World, args: &[&str], more: &[(&str, &str)]) -> Standalone {
        Standalone::start_with(world, args, &|command| {
            command.env("NOTIFY_SOCKET", &self.name);
            command.envs(more.iter().copied());
        })
    }
}

#[test]
fn ready_comes_when_the_facade_listens_and_stopping_with_the_time_that_it_takes() {
    let world = World::new();
    let manager = Manager::at_path(&world);
    let mut daemon = manager.start(&world, &[], &[]);
    let status = format!("STATUS=Ollama on {}; 0 requests under way\n", daemon.port);
    assert_eq!(manager.expect("READY"), format!("READY=1\n{status}"));
    daemon.process.terminate();
    // 10 minutes of drain and what comes after it, in microseconds.
    let end = "STOPPING=1\nSTATUS=ending; 0 requests under way\nEXTEND_TIMEOUT_USEC=615000000\n";
    assert_eq!(manager.expect("STOPPING"), end);
    assert_eq!(daemon.process.exit_code(), 0);
    let told = manager.all();
    assert!(!told.iter().any(|m| m.contains("WATCHDOG")), "{told:?}");
}

/// A reload's begin and end in what the manager was told, from the first one on: the moment of each
/// begin, `None` for each end.
fn reloads(told: &[String]) -> Vec<Option<u64>> {
    let begin = |m: &String| {
        let moment = m.strip_prefix("RELOADING=1\nMONOTONIC_USEC=")?;
        Some(moment.trim_end().parse().unwrap())
    };
    let of = |m: &String| (m.starts_with("READY") || begin(m).is_some()).then(|| begin(m));
    let all: Vec<_> = told.iter().filter_map(of).collect();
    // The start's own.
    assert_eq!(all[0], None, "{told:?}");
    all[1..].to_vec()
}

#[test]
fn a_reload_is_told_with_its_moment_and_ended_also_by_a_bad_file() {
    let world = World::new();
    let manager = Manager::at_path(&world);
    let config = world.file("nvpair.toml", "drain_timeout = \"1m\"\n");
    let mut daemon = manager.start(&world, &["--config", config.to_str().unwrap()], &[]);
    manager.expect("READY");
    for (n, text) in ["drain_timeout = \"2m\"\n", "drian_timeout = 1\n"]
        .iter()
        .enumerate()
    {
        world.file("nvpair.toml", text);
        let told = world.run(&["config", "reload"]);
        assert_eq!(told.code, 2 * n as i32, "{told:?}");
        // The file is looked at besides, which may have found the change first.
        wait_for("begin and end", || {
            let all = reloads(&manager.told());
            all.len() >= 2 * (n + 1) && all.len().is_multiple_of(2)
        });
    }
    daemon.process.signal(rustix::process::Signal::HUP);
    wait_for("SIGHUP's too", || reloads(&manager.told()).len() >= 6);
    daemon.process.terminate();
    assert_eq!(daemon.process.exit_code(), 0);
    let all = reloads(&manager.all());
    let moments: Vec<_> = all.iter().step_by(2).map(|m| m.expect("a begin")).collect();
    assert!(moments.is_sorted_by(|a, b| a < b), "{moments:?}");
    assert!(
        all.iter().skip(1).step_by(2).all(Option::is_none),
        "{all:?}"
    );
}

#[test]
fn the_drain_of_the_configuration_is_what_the_manager_grants() {
    let gate = Gate::new();
    let engine = ollama(&["m"], Reply::lines().chunk("1").gate(&gate).end());
    let world = World::new();
    let manager = Manager::at_path(&world);
    let node = format!("ollama=http://127.0.0.1:{}", engine.port());
    let config = world.file("nvpair.toml", "drain_timeout = \"40m\"\n");
    let args = ["--node", &node, "--config", config.to_str().unwrap()];
    let mut daemon = manager.start(&world, &args, &[]);
    let mut client = Client::connect(daemon.port);
    client.post("/api/chat", &chat("m"));
    let mut head = client.head();
    assert!(client.read_until(&mut head, "1"));
    daemon.process.terminate();
    let end = "STOPPING=1\nSTATUS=ending; 1 request under way\nEXTEND_TIMEOUT_USEC=2415000000\n";
    assert_eq!(manager.expect("STOPPING"), end);
    gate.open();
    assert!(client.finish(head).complete);
    assert_eq!(daemon.process.exit_code(), 0);
}

#[test]
fn the_watchdog_is_fed_also_while_the_last_stream_goes_on() {
    let gate = Gate::new();
    let engine = ollama(&["m"], Reply::lines().chunk("1").gate(&gate).end());
    let world = World::new();
    let manager = Manager::at_path(&world);
    let node = format!("ollama=http://127.0.0.1:{}", engine.port());
    let mut daemon = manager.start(&world, &["--node", &node], &[("WATCHDOG_USEC", "20000")]);
    let beats = || {
        manager
            .told()
            .iter()
            .filter(|m| *m == "WATCHDOG=1\n")
            .count()
    };
    wait_for("three beats", || beats() >= 3);
    let mut client = Client::connect(daemon.port);
    client.post("/api/chat", &chat("m"));
    let mut head = client.head();
    assert!(client.read_until(&mut head, "1"));
    daemon.process.terminate();
    manager.expect("STOPPING");
    let before = beats();
    wait_for("three more", || beats() >= before + 3);
    gate.open();
    assert!(client.finish(head).complete);
    assert_eq!(daemon.process.exit_code(), 0);
}

#[test]
fn another_process_s_watchdog_is_not_fed() {
    let world = World::new();
    let manager = Manager::at_path(&world);
    let more = [("WATCHDOG_USEC", "20000"), ("WATCHDOG_PID", "1")];
    let mut daemon = manager.start(&world, &[], &more);
    manager.expect("READY");
    daemon.process.terminate();
    assert_eq!(daemon.process.exit_code(), 0);
    assert!(!manager.all().iter().any(|m| m.contains("WATCHDOG")));
}

#[test]
fn an_abstract_name_works_too() {
    let world = World::new();
    let name = format!("nvpair-proxy-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let manager = Manager::listen(format!("@{name}"), &address);
    let _daemon = manager.start(&world, &[], &[]);
    manager.expect("READY=1\n");
}

#[test]
fn a_socket_that_is_not_there_costs_no_start() {
    let world = World::new();
    let gone = [("NOTIFY_SOCKET", "/nowhere/notify")];
    let daemon = Standalone::start_with(&world, &[], &|c| {
        c.envs(gone);
    });
    assert!(daemon.out.text().contains("Ready in"));
}

#[test]
fn a_start_that_fails_is_never_ready() {
    let world = World::new();
    let manager = Manager::at_path(&world);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let engine = format!("ollama={}", taken.local_addr().unwrap().port());
    let mut command = world.command(&["serve", "--engine", &engine]);
    let mut process = Process::spawn(command.env("NOTIFY_SOCKET", &manager.name));
    assert_eq!(process.exit_code(), 1);
    assert_eq!(manager.all(), ["END"]);
}

/// A child of a service's process has its variables, but is not the service.
#[test]
fn a_driven_daemon_does_not_speak_for_its_parent() {
    let world = World::new();
    let manager = Manager::at_path(&world);
    let mut command = world.command(&["serve", "--broker"]);
    command.env("NOTIFY_SOCKET", &manager.name);
    command.env("SYSTEMD_EXEC_PID", std::process::id().to_string());
    let mut process = Process::spawn(&mut command);
    // Its stdin is at its end, so that it ends by itself.
    assert_eq!(process.exit_code(), 0);
    assert_eq!(manager.all(), ["END"]);
}

/// What a daemon logs into a file that `JOURNAL_STREAM` names, or does not.
fn logged(log_format: &str, named: bool) -> String {
    (0..5)
        .find_map(|_| try_logged(log_format, named))
        .expect("one of five free ports is still free")
}

fn try_logged(log_format: &str, named: bool) -> Option<String> {
    let world = World::new();
    let path = world.file("journal", "");
    let file = std::fs::OpenOptions::new().append(true).open(&path);
    let file = file.unwrap();
    let meta = file.metadata().unwrap();
    let inode = if named { meta.ino() } else { meta.ino() + 1 };
    let engine = format!("ollama={}", crate::support::free_port());
    let mut command = world.command(&["serve", "--engine", &engine]);
    command
        .args(["--log-format", log_format, "--log-level", "debug"])
        .env("JOURNAL_STREAM", format!("{}:{inode}", meta.dev()))
        .stderr(file);
    let mut child = command.spawn().unwrap();
    let out = Lines::of(child.stdout.take().unwrap());
    wait_for("ready, or the end", || {
        out.text().contains("Ready in") || out.ended()
    });
    let pid = rustix::process::Pid::from_child(&child);
    // It may have ended already.
    let _ended = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    let well = child.wait().unwrap().success();
    well.then(|| std::fs::read_to_string(path).unwrap())
}

#[test]
fn the_journal_gets_priorities_and_no_second_time() {
    let text = logged("text", true);
    assert!(
        text.contains("<6>INFO shutting down signal=\"SIGTERM\"\n"),
        "{text}"
    );
    assert!(text.contains("<7>DEBUG open descriptors "), "{text}");
    for line in text.lines() {
        assert!(line.starts_with('<'), "{line}");
        assert!(!line.contains("[nvpair-proxy]"), "{line}");
    }
}

#[test]
fn a_stderr_that_is_not_the_journal_keeps_its_times() {
    let text = logged("text", false);
    let line = text.lines().find(|l| l.contains("shutting down")).unwrap();
    assert!(
        line.contains("Z INFO [nvpair-proxy] shutting down"),
        "{line}"
    );
    assert!(!text.contains("<6>"), "{text}");
}

#[test]
fn json_stays_whole_in_the_journal() {
    for line in logged("json", true).lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["timestamp"].is_string(), "{line}");
    }
}
