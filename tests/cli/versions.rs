//! A daemon of another version, and a socket behind which is something else.

use std::io::Read;
use std::os::unix::net::UnixListener;

use crate::world::World;

#[test]
fn documents_of_another_schema_are_refused_with_both_versions() {
    let world = World::with_daemon_of_schema(2);
    for args in [
        &["status"][..],
        &["status", "--json"],
        &["nodes"],
        &["healthcheck"],
    ] {
        let said = world.run(args);
        assert_eq!(said.code, 1, "{args:?}");
        assert_eq!(
            said.err,
            format!(
                "error: the daemon's answer is of schema 2, and this command reads 1\n       \
                 the daemon is version 9.9.9, this command is {}\n   \
                 try: restart the daemon, so that both are of one version\n",
                env!("CARGO_PKG_VERSION")
            ),
            "{args:?}"
        );
        assert!(!said.out.contains("facades"), "{}", said.out);
    }
}

#[test]
fn something_else_behind_the_socket_is_told_and_nothing_hangs() {
    let world = World::new();
    let path = world.path().join("else.sock");
    let listener = UnixListener::bind(&path).unwrap();
    // Reads the greeting and hangs up.
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        drop(stream.read(&mut [0; 512]));
    });
    let said = world.run(&["--socket", path.to_str().unwrap(), "status"]);
    assert_eq!((said.code, said.out.as_str()), (1, ""));
    assert!(
        said.err
            .starts_with("error: the connection to the daemon broke"),
        "{}",
        said.err
    );
    assert!(said.err.contains("   try: "), "{}", said.err);
    other.join().unwrap();
}

#[test]
fn verbose_says_who_answers_on_stderr() {
    let world = World::with_daemon();
    let said = world.run(&["-v", "status", "--json"]);
    let socket = world.socket();
    let want = format!(
        "daemon 9.9.9 (standalone, process 7) on {}\n",
        socket.display()
    );
    assert_eq!(said.err, want);
    said.json();
}
