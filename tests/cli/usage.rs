//! Wrong usage, help and version.

use crate::world::World;

#[test]
fn wrong_usage_is_told_on_stderr_with_code_2() {
    let world = World::new();
    for (args, hint) in [
        (&["frobnicate"][..], "frobnicate"),
        (&["set-port"], "ENGINE"),
        (&["set-port", "ollama", "70000"], "65535"),
        (&["set-port", "ollama", "-1"], "-1"),
        (&["set-port", "olama", "1"], "'ollama'"),
        (&["select", "ollama"], "NODE"),
        (&["select", "ollama", "x", "--auto"], "cannot be used with"),
        (&["workloads", "x"], "ENGINE/ID"),
        (&["workloads", "--state", "done"], "completed"),
        (&["workloads", "9", "--limit", "1"], "cannot be used with"),
        (&["models", "--engine", "vllm"], "lmstudio"),
        (
            &["nodes", "add", "olama=http://x:1"],
            "did you mean \"ollama\"",
        ),
        (&["nodes", "add", "ollama=x:1"], "write http://HOST:PORT"),
        (
            &["nodes", "add", "ollama=http://x:1", "--slots", "0"],
            "1..=4096",
        ),
        (&["nodes", "remove"], "NODE"),
        (&["nodes", "lst"], "'list'"),
        (&["nodes", "list", "--engine", "lmstudo"], "lmstudio"),
        (&["route", "--engine", "olama", "--model", "m"], "'ollama'"),
        (&["healthcheck", "olama"], "'ollama'"),
        (&["replay", "--engine", "olama"], "'ollama'"),
        (&["replay", "--speed", "0"], "0.01 to 1000"),
        (&["replay", "--speed", "fast"], "0.01 to 1000"),
        (&["replay", "--last", "0"], "1.."),
        (&["replay", "--since", "soon"], "1h30m"),
        (&["replay", "--since=-1h"], "negative"),
        (&["replay", "a", "b"], "unexpected argument"),
        (&["workloads", "--export"], "FILE"),
        (&["workloads", "9", "--export", "f"], "cannot be used with"),
        (
            &["workloads", "--follow", "--export", "f"],
            "cannot be used with",
        ),
        (&["status", "-log-level", "debug"], "unexpected argument"),
        (&["serve", "--response-header-timeout", "soon"], "1h30m"),
        (&["serve", "--response-header-timeout=-5s"], "negative"),
        (&["serve", "--ipc", "/s", "--demo"], "cannot be used with"),
        (&["-q", "-v", "status"], "cannot be used with"),
        // The drop-in form takes the original's flags and no other.
        (&["--demo"], "unexpected argument"),
        (&["-demo"], "unexpected argument"),
        (&["-response-header-timeout", "soon"], "1h30m"),
        (&["-log-level", "loud"], "possible values"),
    ] {
        let said = world.run(args);
        assert_eq!(said.code, 2, "{args:?}: {}", said.err);
        assert_eq!(said.out, "", "{args:?}");
        assert!(said.err.contains(hint), "{args:?}: {}", said.err);
    }
}

#[test]
fn the_version_is_on_stdout_in_both_spellings() {
    let world = World::new();
    let want = format!("nvpair-proxy {}\n", env!("CARGO_PKG_VERSION"));
    for args in [
        &["--version"][..],
        &["-version"],
        &["-log-level", "debug", "-version"],
    ] {
        let said = world.run(args);
        assert_eq!(
            (said.code, said.out.as_str()),
            (0, want.as_str()),
            "{args:?}"
        );
    }
}

/// What cannot be written is a failure, also where clap writes; a reader that went is none.
#[cfg(target_os = "linux")]
#[test]
fn help_on_a_full_disk_is_code_1_and_without_a_reader_0() {
    let world = World::new();
    for args in [&["--help"][..], &["--version"], &["status", "--help"]] {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let output = world.command(args).stdout(full).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {err}");
        assert!(err.contains("is the disk full?"), "{args:?}: {err}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = world.command(args).stdout(writer).output().unwrap();
        assert_eq!(
            (output.status.code(), output.stderr),
            (Some(0), vec![]),
            "{args:?}"
        );
    }
}

#[test]
fn help_names_every_subcommand_and_exit_code_and_hides_what_is_internal() {
    let help = World::new().run(&["--help"]);
    assert_eq!(help.code, 0);
    for word in [
        "serve",
        "status",
        "select",
        "set-port",
        "workloads",
        "models",
        "providers",
        "route",
        "replay",
        "healthcheck",
        "completions",
        "generate",
        "Examples:",
        "3  no daemon reachable",
    ] {
        assert!(help.out.contains(word), "{word}");
    }
    for word in ["demo-engine", "complete "] {
        assert!(!help.out.contains(word), "{word}");
    }
}

#[test]
fn every_subcommand_s_help_has_examples() {
    let world = World::new();
    for sub in [
        "serve",
        "status",
        "select",
        "set-port",
        "workloads",
        "models",
        "providers",
        "route",
        "nodes",
        "nodes list",
        "nodes add",
        "nodes remove",
        "doctor",
        "replay",
        "healthcheck",
        "completions",
        "generate",
    ] {
        let words: Vec<_> = sub.split(' ').chain(["--help"]).collect();
        let help = world.run(&words);
        assert_eq!(help.code, 0, "{sub}");
        assert!(
            help.out.contains("Examples:\n  nvpair-proxy"),
            "{sub}: {}",
            help.out
        );
    }
}

#[test]
fn colour_of_help_and_usage_errors_is_what_the_flag_says() {
    let world = World::new();
    for (args, coloured) in [
        (&["--help"][..], false),
        (&["--color", "always", "--help"], true),
        (&["status", "--help", "--color=always"], true),
        (&["status", "--color", "never", "--help"], false),
        (&["frobnicate", "--color", "always"], true),
        (&["frobnicate"], false),
    ] {
        let said = world.run(args);
        let text = said.out + &said.err;
        assert_eq!(text.contains('\x1b'), coloured, "{args:?}: {text}");
    }
}
