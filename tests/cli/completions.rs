//! `completions` and `generate`.

use std::os::unix::net::UnixListener;

use crate::world::World;

/// The names that `complete` gives for the end of this line, however slow this machine is.
fn names(world: &World, line: &[&str]) -> Vec<String> {
    names_within(world, "1m", line)
}

fn names_within(world: &World, within: &str, line: &[&str]) -> Vec<String> {
    let said = world.run(&[&["complete", "--within", within, "--"], line].concat());
    assert_eq!((said.code, &*said.err), (0, ""), "{line:?}");
    said.out.lines().map(str::to_owned).collect()
}

#[test]
fn names_are_those_of_the_daemon_and_of_the_engine_on_the_line() {
    let world = World::with_daemon();
    for (line, want) in [
        (&["select", "ollama", ""][..], &["this-pc", "tower.lan"][..]),
        // Two nodes of one name are told apart by their ids.
        (&["select", "lmstudio", ""], &["uuid-1", "uuid-2"]),
        (&["select", "llamacpp", ""], &[]),
        (
            &["workloads", "--node="],
            &["this-pc", "tower.lan", "uuid-1", "uuid-2"],
        ),
        (
            &["route", "--engine", "ollama", "--model", "q"],
            &["phi4", "qwen3:8b"],
        ),
    ] {
        assert_eq!(names(&world, line), want, "{line:?}");
    }
    for verb in ["drain", "resume", "reset"] {
        let line = ["nodes", verb, ""];
        assert_eq!(names(&world, &line), [""; 0], "{verb}: there is no pool");
        world.everything();
        assert_eq!(names(&world, &line), ["rig-01"], "{verb}");
        world.no_pool();
    }
    let socket = world.socket();
    let socket = socket.to_str().unwrap();
    let elsewhere = World::new();
    let line = ["--socket", socket, "select", "ollama", ""];
    assert_eq!(names(&elsewhere, &line), ["this-pc", "tower.lan"]);
}

#[test]
fn without_an_answer_there_are_no_names_and_no_words() {
    let line = ["select", "ollama", ""];
    let world = World::new();
    assert_eq!(names(&world, &line), [""; 0], "no daemon");
    std::fs::create_dir_all(world.socket().parent().unwrap()).unwrap();
    drop(UnixListener::bind(world.socket()).unwrap());
    assert_eq!(names(&world, &line), [""; 0], "a socket without a daemon");
    std::fs::remove_file(world.socket()).unwrap();
    // Its queue takes the connection, and nobody ever reads it.
    let _hung = UnixListener::bind(world.socket()).unwrap();
    let none = names_within(&world, "50ms", &line);
    assert_eq!(none, [""; 0], "a daemon that hangs");
}

#[test]
fn a_place_without_such_names_is_told_by_the_exit_code() {
    let world = World::with_daemon();
    for line in [&["status", "--"][..], &["serve", "--node", ""], &[]] {
        let said = world.run(&[&["complete", "--"], line].concat());
        assert_eq!((said.code, &*said.out, &*said.err), (1, "", ""), "{line:?}");
    }
}

#[test]
fn a_word_that_is_no_text_costs_no_words_on_stderr() {
    use std::os::unix::ffi::OsStrExt;
    let world = World::with_daemon();
    let mut command = world.command(&["complete", "--within", "1m", "--", "select", "ollama"]);
    let output = command
        .arg(std::ffi::OsStr::from_bytes(b"to\xff"))
        .output()
        .unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]));
    assert_eq!(output.stdout, b"this-pc\ntower.lan\n");
}

#[test]
fn units_name_the_binary_and_are_for_a_user_or_the_machine() {
    let world = World::new();
    let binary = ["--binary", "/opt/a b/nvpair-proxy"];
    let run = |args: &[&str]| world.run(&[&["generate"], args, &binary].concat());
    let user = run(&["systemd"]);
    assert_eq!(user.code, 0, "{}", user.err);
    let start = "ExecStart=\"/opt/a b/nvpair-proxy\" serve\n";
    assert!(user.out.contains(start) && user.out.contains("default.target"));
    assert_eq!(run(&["systemd", "--user"]).out, user.out);
    let system = run(&["systemd", "--system"]).out;
    assert!(system.contains(start) && system.contains("DynamicUser=yes"));
    for kind in ["--user", "--system"] {
        let agent = run(&["systemd", "--agent", kind]).out;
        let start = "ExecStart=\"/opt/a b/nvpair-proxy\" agent --node-key-file ";
        assert!(
            agent.contains(start) && agent.contains("$AGENT_FLAGS"),
            "{agent}"
        );
    }
    let plist = run(&["launchd"]).out;
    assert!(plist.contains("<string>/opt/a b/nvpair-proxy</string>"));
    let log = world.path().join("Library/Logs/nvpair-proxy.log");
    assert!(plist.contains(log.to_str().unwrap()), "{plist}");
    let json = world.run(&["generate", "systemd", "--json"]).json();
    assert_eq!(json["name"], "nvpair-proxy.service");
    let own = world.run(&["generate", "systemd"]).out;
    assert_eq!(json["text"], *own);
    let json = world
        .run(&["generate", "systemd", "--agent", "--json"])
        .json();
    assert_eq!(json["name"], "nvpair-proxy-agent.service");
    let json = world.run(&["generate", "launchd", "--json"]).json();
    assert_eq!(json["name"], "nvpair-proxy.plist");
    assert!(own.contains(env!("CARGO_BIN_EXE_nvpair-proxy")), "{own}");
    let relative = world.run(&["generate", "systemd", "--binary", "here"]);
    assert_eq!(relative.code, 2);
    assert!(relative.err.contains("it is relative"), "{}", relative.err);
    assert_eq!(
        world
            .run(&["generate", "systemd", "--user", "--system"])
            .code,
        2
    );
}

#[test]
fn every_shell_has_a_script_without_any_daemon() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let said = world.run(&["completions", shell]);
        assert_eq!(said.code, 0, "{shell}: {}", said.err);
        assert!(said.out.contains("set-port"), "{shell}");
        assert!(said.out.contains("socket"), "{shell}");
        assert!(said.out.contains("generate"), "{shell}");
        assert!(!said.out.contains("demo-engine"), "{shell}");
        let json = world.run(&["--json", "completions", shell]).json();
        assert_eq!(
            (&json["shell"], &json["script"]),
            (&shell.into(), &(*said.out).into())
        );
    }
    assert_eq!(world.run(&["completions", "tcsh"]).code, 2);
}

#[test]
fn generate_writes_the_same_twice_and_check_finds_a_changed_file() {
    let world = World::new();
    let dir = world.path().to_str().unwrap();
    assert_eq!(world.run(&["generate", "--check", dir]).code, 1);
    assert_eq!(world.run(&["generate", dir]).code, 0);
    assert_eq!(world.run(&["generate", "--check", dir]).code, 0);
    std::fs::write(world.path().join("man/stray.1"), "").unwrap();
    let said = world.run(&["generate", "--check", dir]);
    assert_eq!(said.code, 1);
    let told = format!("error: out of date: man/stray.1\n   try: nvpair-proxy generate {dir}\n");
    assert_eq!(said.err, told);
    let json = world.run(&["generate", "--check", dir, "--json"]);
    assert_eq!((json.code, json.err.as_str()), (1, ""));
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["out_of_date"], serde_json::json!(["man/stray.1"]));
    let json = world.run(&["generate", dir, "--json"]).json();
    assert_eq!(json["removed"], serde_json::json!(["man/stray.1"]));
    let written = json["written"].as_array().unwrap();
    assert!(
        written.contains(&"completions/nvpair-proxy.bash".into()),
        "{json}"
    );
    let json = world.run(&["generate", "--check", dir, "--json"]).json();
    assert_eq!(json["out_of_date"], serde_json::json!([]));
    assert_eq!(world.run(&["generate", dir]).code, 0);
    assert_eq!(world.run(&["generate", "--check", dir]).code, 0);
}
