//! `serve --demo` and the subcommands against it: the real daemon, with its sample engines.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Stdio};

use crate::world::{Said, World};

/// A running demonstration with one facade; ended when dropped.
struct Demo {
    world: World,
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
    fn start(more: &[&str]) -> Self {
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

    fn run(&self, args: &[&str]) -> Said {
        self.world.run(args)
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
