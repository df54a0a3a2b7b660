//! `doctor`.

use crate::world::World;

#[test]
fn without_a_daemon_it_looks_at_everything_and_that_is_no_problem() {
    let world = World::new();
    let said = world.run(&["doctor"]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    for check in [
        "daemon",
        "configuration",
        "port",
        "engine",
        "trust",
        "descriptors",
        "proxy",
        "state",
    ] {
        assert!(
            said.out.contains(&format!(" {check}: ")),
            "{check}: {}",
            said.out
        );
    }
    assert!(said.out.contains("try: nvpair-proxy serve"), "{}", said.out);
    let last = said.out.lines().last().unwrap();
    let json = world.run(&["doctor", "--json"]).json();
    let warnings = json["warnings"].as_u64().unwrap();
    let s = if warnings == 1 { "" } else { "s" };
    assert_eq!(last, format!("0 problems, {warnings} warning{s}."));
    assert!(!said.out.contains('\x1b'));
    assert_eq!(
        (&json["schema_version"], &json["problems"]),
        (&1.into(), &0.into())
    );
}

#[test]
fn a_problem_is_code_1_and_quiet_shows_only_what_needs_doing() {
    let world = World::new();
    let config = world.path().join("bad.toml");
    std::fs::write(&config, "polcy = \"x\"\n").unwrap();
    let args = ["-q", "doctor", "--config", config.to_str().unwrap()];
    let said = world.run(&args);
    assert_eq!((said.code, said.err.as_str()), (1, ""));
    assert!(
        said.out.starts_with("problem  configuration: "),
        "{}",
        said.out
    );
    assert!(said.out.contains("did you mean"), "{}", said.out);
    assert!(!said.out.contains("ok "), "{}", said.out);
}

#[test]
fn a_daemon_of_another_version_and_a_port_that_is_not_its_own_are_told() {
    let world = World::with_daemon();
    let said = world.run(&["doctor", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let found = json["findings"].as_array().unwrap();
    let of = |check: &str| {
        found
            .iter()
            .filter(|f| f["check"] == check)
            .collect::<Vec<_>>()
    };
    assert_eq!(of("daemon")[0]["level"], "warning", "{}", said.out);
    assert!(of("daemon")[0]["text"].as_str().unwrap().contains("9.9.9"));
    assert_eq!(of("node").len(), 4);
    // The fake daemon's facades do not listen, which is a problem.
    assert!(
        of("port").iter().any(|f| f["level"] == "problem"),
        "{}",
        said.out
    );
    assert_eq!(said.code, 1);
}

#[test]
fn a_proxy_variable_is_named_and_its_value_is_not() {
    let world = World::new();
    let mut command = world.command(&["doctor"]);
    command.env("http_proxy", "http://me:canary@proxy:3128");
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("warning  proxy: http_proxy is set"), "{text}");
    assert!(text.contains("NO_PROXY=localhost"), "{text}");
    assert!(!text.contains("canary"), "{text}");
}

#[test]
fn a_socket_left_behind_is_told_with_the_way_out() {
    let world = World::new();
    let path = world.path().join("old.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let said = world.run(&["doctor", "--socket", path.to_str().unwrap()]);
    assert!(said.out.contains("was left behind"), "{}", said.out);
}
