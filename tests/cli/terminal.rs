//! On a terminal: widths, colour, redrawing in place, and a terminal that is closed.

#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::world::World;

/// A pseudo-terminal of this size, and its far end.
fn terminal(columns: u16, rows: u16) -> (File, File) {
    let near: OwnedFd =
        openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&near).unwrap();
    unlockpt(&near).unwrap();
    let name = ptsname(&near, Vec::new()).unwrap().into_string().unwrap();
    let far = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OpenptFlags::NOCTTY.bits().cast_signed())
        .open(name)
        .unwrap();
    resize(&near, columns, rows);
    (near.into(), far)
}

fn resize(near: &impl std::os::fd::AsFd, columns: u16, rows: u16) {
    let size = Winsize {
        ws_col: columns,
        ws_row: rows,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(near, size).unwrap();
}

/// A command on a terminal; killed when dropped.
struct OnTerminal {
    near: Option<File>,
    child: Child,
    seen: String,
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl OnTerminal {
    fn start(mut command: Command, columns: u16) -> Self {
        let (near, far) = terminal(columns, 24);
        command.stdin(far.try_clone().unwrap());
        command.stdout(far.try_clone().unwrap());
        let child = command.stderr(far).spawn().unwrap();
        Self {
            near: Some(near),
            child,
            seen: String::new(),
        }
    }

    /// Reads on; false at the end.
    fn more(&mut self) -> bool {
        let mut bytes = [0; 4096];
        // Once nobody has the far end open, reading is an error.
        let n = self.near.as_mut().unwrap().read(&mut bytes).unwrap_or(0);
        self.seen
            .push_str(&String::from_utf8_lossy(&bytes[..n]).replace('\r', ""));
        n > 0
    }

    /// Waits until this was drawn so many times.
    fn until(&mut self, text: &str, times: usize) {
        while self.seen.matches(text).count() < times {
            assert!(self.more(), "it ended: {}", self.seen);
        }
    }

    fn interrupt(mut self) -> (Option<i32>, String) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        while self.more() {}
        (
            self.child.wait().unwrap().code(),
            std::mem::take(&mut self.seen),
        )
    }
}

fn shown(
    world: &World,
    args: &[&str],
    columns: u16,
    variable: Option<&str>,
) -> (Option<i32>, String) {
    let mut command = world.command(args);
    if let Some(name) = variable {
        command.env(name, "1");
    }
    let mut on = OnTerminal::start(command, columns);
    // The command holds the far end alone from here on.
    while on.more() {}
    (
        on.child.wait().unwrap().code(),
        std::mem::take(&mut on.seen),
    )
}

/// Without the letters that set colours.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        rest = after.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
        rest = &rest[rest.len().min(1)..];
    }
    plain + rest
}

#[test]
fn narrow_terminals_lose_nothing_and_no_line_is_wider() {
    let world = World::with_daemon();
    for (args, words) in [
        (
            &["status"][..],
            &[
                "this-pc",
                "healthy",
                "qwen3:8b",
                "2=1+0+1",
                "uuid-2",
                "2 failed, 5 cancelled.",
            ][..],
        ),
        (
            &["workloads"],
            &[
                "completed",
                "this-pc",
                "0.81s",
                "340",
                "42.0",
                "upstream returned HTTP 400",
            ],
        ),
        (&["models"], &["qwen3:8b", "this-pc, tower", "16384"]),
        (&["nodes"], &["tower.lan", "127.0.0.1:1", "manual"]),
    ] {
        for columns in [40, 60, 80, 120] {
            let (code, text) = shown(&world, args, columns, None);
            assert_eq!(code, Some(0), "{text}");
            let text = plain(&text);
            // A live view shows no more of a line than fits: nothing may need wrapping.
            for line in text.lines() {
                let wide = line.chars().count();
                assert!(wide <= usize::from(columns), "{columns}: {line:?}");
            }
            let squeezed = text.split_whitespace().collect::<Vec<_>>().join(" ");
            for word in words {
                let full = *word == "2=1+0+1" && columns == 120;
                assert!(
                    full || squeezed.contains(word),
                    "{args:?} {columns}: {word} in\n{text}"
                );
            }
            assert!(!text.contains('…'), "{text}");
        }
    }
}

#[test]
fn colour_is_for_terminals_unless_somebody_says_otherwise() {
    let world = World::with_daemon();
    let coloured =
        |args: &[&str], variable| shown(&world, args, 100, variable).1.contains("\x1b[1m");
    assert!(coloured(&["status"], None));
    assert!(!coloured(&["status"], Some("NO_COLOR")));
    assert!(!coloured(&["status", "--color", "never"], None));
    assert!(coloured(&["status", "--color", "always"], Some("NO_COLOR")));
    assert!(
        world
            .run(&["status", "--color", "always"])
            .out
            .contains("\x1b[1m")
    );
}

#[test]
fn watch_and_follow_draw_in_place_and_leave_the_terminal_as_it_was() {
    let world = World::with_daemon();
    for (args, text) in [
        (&["status", "--watch"][..], "Scheduler: "),
        (&["nodes", "list", "--watch"], "tower.lan"),
        (&["workloads", "--follow"], "qwen3:8b"),
    ] {
        let mut on = OnTerminal::start(world.command(args), 100);
        on.until(text, 1);
        on.until("\x1b[?7h", 2);
        let (code, seen) = on.interrupt();
        assert_eq!(code, Some(0), "{seen}");
        // The second frame goes over the first one: no clearing of the screen, no scrolling.
        assert!(!seen.contains("\x1b[2J"), "{seen:?}");
        let up = seen.split("\x1b[?7l").nth(2).unwrap();
        assert!(up.starts_with("\x1b[") && up.contains('A'), "{up:?}");
        let (on, off) = (
            seen.matches("\x1b[?7l").count(),
            seen.matches("\x1b[?7h").count(),
        );
        assert_eq!(on, off, "wrapping is on again: {seen:?}");
    }
}

#[test]
fn a_terminal_that_was_resized_is_drawn_anew() {
    let world = World::with_daemon();
    let mut on = OnTerminal::start(world.command(&["status", "--watch"]), 100);
    on.until("\x1b[?7h", 1);
    resize(on.near.as_ref().unwrap(), 60, 24);
    on.until("\x1b[H\x1b[2J", 1);
    on.until("LOAD = pending", 1);
    assert_eq!(on.interrupt().0, Some(0));
}

#[test]
fn a_terminal_that_is_closed_ends_it_without_a_panic() {
    let world = World::with_daemon();
    for args in [
        &["status", "--watch"][..],
        &["nodes", "list", "--watch"],
        &["workloads", "--follow"],
    ] {
        // stderr is a pipe, so that a panic would be seen.
        let (near, far) = terminal(100, 24);
        let mut command = world.command(args);
        command.stdout(far).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The command has the far end alone.
        drop(command);
        let mut near = near;
        assert!(near.read(&mut [0; 16]).unwrap() > 0);
        drop(near);
        let mut told = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut told)
            .unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{args:?}: {told}");
        assert_eq!(told, "", "{args:?}");
    }
}
