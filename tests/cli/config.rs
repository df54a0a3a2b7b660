//! `config`, with and without a daemon.

use serde_json::{Value, json};

use crate::world::World;

/// A world whose default file says this.
fn with_file(text: &str) -> (World, String) {
    let world = World::new();
    let folder = world.path().join("config/nvpair-proxy");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("config.toml");
    std::fs::write(&path, text).unwrap();
    (world, path.display().to_string())
}

const BAD: &str = "\
policy = \"fair\"
[[providers]]
name = \"groq\"
base_url = \"https://api.example\"
api_key = \"${GROQ_KEY}\"
[virtual_models]
x = [\"grok/m\"]
";

#[test]
fn check_names_every_error_and_warning_with_its_place() {
    let (world, path) = with_file(BAD);
    let said = world.run(&["config", "check"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""));
    let lines: Vec<_> = said.err.lines().collect();
    let starts = [
        format!("{path}:1:10  error: `policy`: \"fair\" is not known"),
        format!("{path}:2:1   warning: `providers` is used by the gateway only"),
        format!("{path}:5:11  error: ${{GROQ_KEY}} is not set"),
        format!("{path}:6:1   warning: `virtual_models` is used by the gateway only"),
        format!("{path}:7:6   warning: \"grok\" is no provider"),
        format!("{path} is invalid: 2 errors, 3 warnings"),
    ];
    assert_eq!(lines.len(), starts.len(), "{}", said.err);
    for (line, start) in lines.iter().zip(&starts) {
        assert!(line.starts_with(start), "{line}\n{start}");
    }
    let said = world.run(&["config", "check", "--json"]);
    let told: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((said.code, said.err.as_str()), (2, ""));
    assert_eq!(
        (&told["valid"], &told["schema_version"]),
        (&json!(false), &json!(1))
    );
    assert_eq!(told["errors"][1]["line"], 5);
    assert_eq!(told["warnings"].as_array().unwrap().len(), 3);
}

#[test]
fn check_of_a_good_file_exits_0_and_warnings_do_not_change_that() {
    let (world, path) = with_file("policy = \"ordered\"");
    let said = world.run(&["config", "check"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    assert_eq!(said.out, format!("{path} is valid\n"));
    assert_eq!(world.run(&["config", "check", "--quiet"]).out, "");

    let other = world.path().join("other.toml");
    std::fs::write(
        &other,
        "[engines.ollama]\ntls_cert = \"gone.pem\"\ntls_key = \"gone.key\"\n[virtual_models]\nm = [\"ollama/m\"]",
    )
    .unwrap();
    let other = other.to_str().unwrap();
    let mut command = world.command(&["config", "check", other]);
    let output = command.env("NVPAIR_LOG_LEVEL", "loud").output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{err}");
    for part in [
        "NVPAIR_LOG_LEVEL is ignored",
        "gone.pem",
        "gone.key",
        "there is no [gateway]",
    ] {
        assert!(err.contains(part), "{err}");
    }
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(out, format!("{other} is valid, with 4 warnings\n"));
}

#[test]
fn a_file_that_is_not_there_is_fine_unless_it_was_named() {
    let world = World::new();
    let said = world.run(&["config", "check"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(
        said.out.ends_with("is not there: the defaults hold\n"),
        "{}",
        said.out
    );
    for verb in ["check", "show"] {
        let said = world.run(&["config", verb, "/nowhere/x.toml"]);
        assert_eq!((said.code, said.out.as_str()), (2, ""));
        assert!(
            said.err.starts_with("error: cannot read /nowhere/x.toml"),
            "{}",
            said.err
        );
    }
}

#[test]
fn show_masks_secrets_and_says_where_values_come_from() {
    let (world, _) = with_file(
        "policy = \"ordered\"\n[pool]\nstore = \"redis://u:canary@cache.lan\"\n[[providers]]\n\
         name = \"p\"\nbase_url = \"https://p.example/v1\"\napi_key = \"${KEY}\"",
    );
    let run = |args: &[&str]| {
        let mut command = world.command(args);
        let output = command
            .env("KEY", "canary")
            .env("NODE_SWEEP_INTERVAL", "7")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = run(&["config", "show"]);
    for line in [
        "policy = \"ordered\"  # config.toml:1",
        "drain_timeout = \"10m\"  # default",
        "[engines.ollama]",
        "[pool]",
        "store = \"redis://***@cache.lan:6379\"  # config.toml:3",
        "sweep_interval = \"7s\"  # environment NODE_SWEEP_INTERVAL",
        "port = 4000  # default",
        "api_key = \"***\"  # config.toml",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
    let told: Value = serde_json::from_str(&run(&["config", "show", "--json"])).unwrap();
    assert_eq!(told["settings"]["pool"]["sweep_interval"], "7s");
    assert_eq!(told["settings"]["providers"][0]["name"], "p");
    assert_eq!(told["sources"]["policy"], "config.toml:1");
    assert!(!text.contains("canary") && !told.to_string().contains("canary"));
    let (world, path) = with_file(BAD);
    let said = world.run(&["config", "show"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""));
    assert!(said.err.contains(&format!("{path}:1:10")), "{}", said.err);
}

#[test]
fn path_says_where_things_are_and_which_are_there() {
    let (world, path) = with_file("");
    let said = world.run(&["config", "path"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    assert!(
        said.out.contains(&format!("config  {path}\n")),
        "{}",
        said.out
    );
    assert!(
        said.out.contains("control.sock  (not there)\n"),
        "{}",
        said.out
    );
    let told = world.run(&["config", "path", "--json"]).json();
    assert_eq!(told["config"], json!({"path": path, "exists": true}));
    assert_eq!(told["socket"]["exists"], false);
}

#[test]
fn schema_is_one_json_document() {
    let said = World::new().run(&["config", "schema"]).json();
    assert_eq!(
        said["properties"]["pool"]["properties"]["listen"]["default"],
        "127.0.0.1:9090"
    );
    assert_eq!(said["additionalProperties"], false);
}

#[test]
fn reload_without_a_daemon_is_3() {
    let said = World::new().run(&["config", "reload"]);
    assert_eq!(said.code, 3);
    assert!(said.err.contains("try: nvpair-proxy serve"), "{}", said.err);
}
