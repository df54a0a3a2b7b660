//! Without a daemon: exit 3, which socket, and how to start one.

use crate::world::World;

#[test]
fn every_call_says_which_socket_and_how_to_start_a_daemon() {
    let world = World::new();
    for args in [
        &["status"][..],
        &["select", "ollama", "x"],
        &["set-port", "ollama", "1"],
        &["workloads"],
        &["workloads", "9"],
        &["models"],
        &["providers"],
        &["replay"],
        &["replay", "--send"],
        &["workloads", "--export", "-"],
        &["healthcheck"],
        &["route", "--engine", "ollama", "--model", "m"],
        &["nodes"],
        &["nodes", "list"],
        &["nodes", "add", "ollama=http://tower:1"],
        &["nodes", "remove", "tower"],
        &["status", "--watch"],
        &["nodes", "list", "--watch"],
        &["workloads", "--follow"],
    ] {
        let said = world.run(args);
        assert_eq!(said.code, 3, "{args:?}: {}", said.err);
        assert_eq!(said.out, "", "{args:?}");
        let lines: Vec<_> = said.err.lines().collect();
        let socket = world.socket().display().to_string();
        assert_eq!(
            lines[0],
            format!("error: no daemon is listening on {socket}")
        );
        assert!(lines[1].contains("no such socket"), "{}", said.err);
        assert!(
            lines[2].starts_with("   try: nvpair-proxy serve"),
            "{}",
            said.err
        );
        assert_eq!(lines.len(), 3);
    }
}

#[test]
fn the_socket_is_the_flag_s_then_the_variable_s() {
    let world = World::new();
    let said = world.run(&["--socket", "/nowhere/a.sock", "status"]);
    assert!(said.err.contains("/nowhere/a.sock"), "{}", said.err);
    let mut command = world.command(&["status"]);
    command.env("NVPAIR_PROXY_SOCKET", "/nowhere/b.sock");
    let output = command.output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/b.sock"));
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn a_socket_left_behind_is_told_apart() {
    let world = World::new();
    let path = world.path().join("old.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let said = world.run(&["--socket", path.to_str().unwrap(), "status"]);
    assert_eq!(said.code, 3);
    assert!(said.err.contains("is gone"), "{}", said.err);
}

#[test]
fn errors_are_coloured_only_when_asked_for_off_a_terminal() {
    let world = World::new();
    assert!(!world.run(&["status"]).err.contains('\x1b'));
    assert!(
        world
            .run(&["status", "--color", "always"])
            .err
            .contains('\x1b')
    );
}
