//! `serve --demo` and the subcommands against it: the real daemon, with its sample engines.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use nvpair_proxy::control::client::{ControlApiClient, ControlClient};
use nvpair_proxy::demo::{DialectConfig, DialectEngine};

use crate::world::{Said, World};

/// A running demonstration with one facade; ended when dropped.
pub struct Demo {
    pub world: World,
    child: Child,
    /// What it printed until it was ready.
    shown: String,
    port: u16,
}

impl Drop for Demo {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A port that nobody has now. Somebody may take it before it is used: then the caller tries again.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

impl Demo {
    pub fn start(more: &[&str]) -> Self {
        (0..5)
            .find_map(|_| Self::try_start(more))
            .expect("the demonstration starts")
    }

    fn try_start(more: &[&str]) -> Option<Self> {
        let (world, port) = (World::new(), free_port());
        let engine = format!("ollama={port}");
        let args = [&["serve", "--demo", "--engine", &engine], more].concat();
        let mut command = world.command(&args);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut demo = Self {
            world,
            child,
            shown: String::new(),
            port,
        };
        while !demo.shown.contains("Ready in") {
            if out.read_line(&mut demo.shown).unwrap() == 0 {
                return None;
            }
        }
        Some(demo)
    }

    pub fn run(&self, args: &[&str]) -> Said {
        self.world.run(args)
    }

    /// The whole answer to a generate call, head and body.
    pub fn ask(&self, body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let head = format!(
            "POST /api/generate HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + body).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

#[test]
fn aliases_are_shown_where_people_look() {
    let alias = format!("127.0.0.1:{}", free_port());
    let demo = Demo::start(&["--alias", &format!("ollama={alias}")]);
    let listening = format!("localhost:{} (as asked), {alias}", demo.port);
    assert!(demo.shown.contains(&listening), "{}", demo.shown);
    let status = demo.run(&["status"]).out;
    let mut lines = status.lines().map(|l| l.split_whitespace());
    assert_eq!(lines.nth(1).unwrap().nth(2), Some("ALIASES"), "{status}");
    assert_eq!(lines.next().unwrap().nth(2), Some(&*alias), "{status}");
}

#[test]
fn a_node_that_is_added_at_the_control_socket_is_served_as_given() {
    let demo = Demo::start(&[]);
    // A thread of its own: the engine answers while this one asks.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let ollama = crate::world::engine("ollama");
    let engine = runtime
        .block_on(DialectEngine::start(DialectConfig {
            engine: ollama,
            name: "added".to_owned(),
            models: vec!["only-here:1b".to_owned()],
            token_delay: Duration::ZERO,
            refuse_every: None,
            behind: None,
            listen: ([127, 0, 0, 1], 0).into(),
        }))
        .unwrap();
    let port = engine.addr().port();
    let added = runtime.block_on(async {
        let limit = Duration::from_secs(10);
        let client = ControlClient::connect(&demo.world.socket(), limit)
            .await
            .unwrap();
        let (addresses, models) = (
            vec!["127.0.0.1".to_owned()],
            vec!["only-here:1b".to_owned()],
        );
        let call = client.call(async |c| {
            let id = "added".to_owned();
            c.node_add_manual(ollama, id, None, port, addresses, None, Some(models))
                .await
        });
        call.await.unwrap()
    });
    assert!(added.added);
    let answer = demo.ask(r#"{"model":"only-here:1b","prompt":"hello","stream":false}"#);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("from added"), "{answer}");
    let timeline = demo.run(&["workloads", "ollama/1"]).out;
    for want in ["1 owner: added", "first byte after ", " tokens, "] {
        assert!(timeline.contains(want), "{want} in {timeline}");
    }
}

#[test]
fn a_demonstration_s_facade_moves_and_nothing_is_saved() {
    let demo = Demo::start(&[]);
    let moved = (0..5).map(|_| free_port()).find(|port| {
        let said = demo.run(&["set-port", "ollama", &port.to_string()]);
        assert!(!said.err.contains("HOME"), "{}", said.err);
        said.code == 0
    });
    let moved = moved.expect("one of five free ports is still free");
    let status = demo.run(&["status", "--json"]).json();
    assert_eq!(status["facades"][0]["port"], moved);
    assert_ne!(moved, demo.port);
    let kept = demo.world.path().join("config");
    assert!(!kept.exists(), "{} was made", kept.display());
}
