//! The samples under `tests/config`, and what they cannot show.

use super::super::gateway::TargetName;
use super::*;
use std::ffi::OsString;

fn env(name: &str) -> Option<OsString> {
    let known = ["TOWER_KEY", "GROQ_KEY", "OTLP_KEY", "REDIS_PASSWORD"];
    known.contains(&name).then(|| "canary".into())
}

/// The samples of a folder, by name.
fn samples(folder: &str) -> Vec<(String, PathBuf)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/config")
        .join(folder);
    let entries = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    let toml = entries.filter(|p| p.extension().is_some_and(|e| e == "toml"));
    let mut all: Vec<_> = toml
        .map(|p| (p.file_stem().unwrap().to_string_lossy().into_owned(), p))
        .collect();
    all.sort();
    assert!(!all.is_empty());
    all
}

#[test]
fn every_valid_sample_is_accepted() {
    for (name, path) in samples("valid") {
        let text = std::fs::read_to_string(&path).unwrap();
        if let Err(e) = parse("config.toml", &text, &env) {
            panic!("{name}: {e}");
        }
    }
}

#[test]
fn every_invalid_sample_gives_exactly_the_message_beside_it() {
    let mut stale = Vec::new();
    for (name, path) in samples("invalid") {
        let text = std::fs::read_to_string(&path).unwrap();
        let want = std::fs::read_to_string(path.with_extension("txt")).unwrap_or_default();
        let got = parse("config.toml", &text, &env)
            .expect_err(&name)
            .to_string();
        if got.trim_end() != want.trim_end() {
            stale.push(format!("--- {name}\n{got}\n"));
            update(&path, &got);
        }
        assert!(!got.contains("canary"), "{name}: a secret in {got}");
    }
    assert!(stale.is_empty(), "{}", stale.join("\n"));
}

/// `UPDATE_GENERATED=1` writes what is said now beside the samples, to be read and committed.
fn update(sample: &Path, text: &str) {
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::write(sample.with_extension("txt"), format!("{text}\n")).unwrap();
    }
}

#[test]
fn every_odd_sample_is_accepted_with_exactly_the_warnings_beside_it() {
    let mut stale = Vec::new();
    for (name, path) in samples("odd") {
        let text = std::fs::read_to_string(&path).unwrap();
        let want = std::fs::read_to_string(path.with_extension("txt")).unwrap_or_default();
        let config = parse("config.toml", &text, &env).unwrap_or_else(|e| panic!("{name}: {e}"));
        let got = placed("config.toml", &config.warnings).join("\n");
        assert!(!got.is_empty(), "{name}");
        if got.trim_end() != want.trim_end() {
            stale.push(format!("--- {name}\n{got}\n"));
            update(&path, &got);
        }
    }
    assert!(stale.is_empty(), "{}", stale.join("\n"));
}

/// A key that nobody reads would be accepted and do nothing.
#[test]
fn every_key_of_the_table_is_read() {
    use super::super::keys::{Section, Shape, TOP};
    fn look(section: &Section, header: &str) {
        for key in section.keys {
            // No key takes a list of lists.
            let text = format!("{header}\n{} = [[1]]\n", key.name);
            let told = parse("config.toml", &text, &env).expect_err(key.name);
            let about = |p: &Problem| p.line == 2 && !p.message.contains("unknown key");
            assert!(told.problems.iter().any(about), "{text}: {told}");
            match key.shape {
                Shape::Table(inner) => look(inner, &format!("[{}]", key.name)),
                Shape::Tables(inner) => look(inner, &format!("[[{}]]", key.name)),
                Shape::Engines(inner) => look(inner, "[engines.ollama]"),
                _ => {},
            }
        }
    }
    look(&TOP, "");
}

#[test]
fn every_range_of_the_table_is_kept() {
    use super::super::keys::{Section, Shape, TOP};
    fn look(section: &Section, header: &str) {
        let refused = |key: &str, value: &str| {
            let text = format!("{header}\n{key} = {value}\n");
            let told = parse("config.toml", &text, &env);
            let about = |p: &Problem| p.line == 2 && p.message.contains(" is not in ");
            told.is_err_and(|p| p.problems.iter().any(about))
        };
        for key in section.keys {
            match key.shape {
                Shape::Number(min, max) => {
                    for (value, want) in [(min, false), (max, false), (max + 1, true)] {
                        assert_eq!(
                            refused(key.name, &value.to_string()),
                            want,
                            "{} {value}",
                            key.name
                        );
                    }
                    if min > 0 {
                        assert!(refused(key.name, &(min - 1).to_string()), "{}", key.name);
                    }
                },
                Shape::Span(min, max) => {
                    let ms = |n: u64| format!("\"{n}ms\"");
                    assert!(!refused(key.name, &ms(min)) && !refused(key.name, &ms(max)));
                    if min > 0 {
                        assert!(refused(key.name, &ms(min - 1)), "{}", key.name);
                        assert!(refused(key.name, &ms(max + 1)), "{}", key.name);
                    }
                },
                Shape::Table(inner) => look(inner, &format!("[{}]", key.name)),
                Shape::Tables(inner) => look(inner, &format!("[[{}]]", key.name)),
                Shape::Engines(inner) => look(inner, "[engines.ollama]"),
                _ => {},
            }
        }
    }
    look(&TOP, "");
}

#[test]
fn relative_paths_count_from_the_folder_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    let text = "[gateway]\ntls_cert = \"a.pem\"\ntls_key = \"/k\"\n[pool]\nusage_file = \"u\"";
    std::fs::write(&path, text).unwrap();
    let config = load(&path, true, &env).unwrap();
    let tls = config.gateway.unwrap().tls.unwrap();
    assert_eq!((tls.cert, tls.key), (dir.path().join("a.pem"), "/k".into()));
    assert_eq!(config.pool.unwrap().usage_file, Some(dir.path().join("u")));
}

#[test]
fn the_full_sample_says_what_it_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config/valid/full.toml");
    let text = std::fs::read_to_string(path).unwrap();
    let c = parse("config.toml", &text, &env).unwrap();
    assert_eq!(c.policy, Some(Policy::Ordered));
    assert_eq!(c.response_header_timeout, Some(Duration::from_secs(900)));
    assert_eq!(c.max_request_bytes, Some(64 << 20));
    assert_eq!(c.commit_gate_first_byte, Some(true));
    let hosts = vec!["box.lan".to_owned(), "192.168.1.4".to_owned()];
    assert_eq!(c.allowed_hosts, Some(hosts));
    assert_eq!(c.engines.len(), 2);
    assert_eq!(c.nodes.len(), 3, "a disabled node is left out");
    let rig = &c.nodes[0];
    assert_eq!(rig.name.as_deref(), Some("rig"));
    assert_eq!(rig.url.to_string(), "http://tower.lan:11434");
    assert_eq!(rig.api_key.as_ref().map(Secret::reveal), Some("canary"));
    assert_eq!((rig.slots, rig.weight), (Some(4), Some(2)));
    let peer = c.nodes[2].peer.as_deref();
    assert_eq!(peer, Some("01234567-89ab-cdef-0123-456789abcdef"));
    let pool = c.pool.as_ref().unwrap();
    assert_eq!((pool.breaker_failures, pool.listen.port()), (3, 9443));
    assert_eq!(c.gateway.as_ref().and_then(|g| g.port), Some(4100));
    let names: Vec<_> = c
        .providers
        .iter()
        .map(|p| (p.name.as_str(), p.tier))
        .collect();
    assert_eq!(names, [("groq", 1), ("gemini", 0)]);
    assert_eq!(c.providers[1].models[0].upstream, "gemini-2.5-flash");
    let fast = c.virtual_models.iter().find(|v| v.name == "fast").unwrap();
    let targets: Vec<_> = fast.targets.iter().map(|t| &t.target).collect();
    let ollama = EngineId::parse("ollama").unwrap();
    assert_eq!(
        targets,
        [
            &TargetName::Node("rig".into()),
            &TargetName::Engine(ollama),
            &TargetName::Pool,
            &TargetName::Provider("groq".into())
        ]
    );
    let chat = c
        .virtual_models
        .iter()
        .find(|v| v.name == "vendor/chat")
        .unwrap();
    assert_eq!(chat.targets[0].model, "models/gemini-2.5-flash");
    let telemetry = c.telemetry.as_ref().unwrap();
    assert_eq!(telemetry.headers[0].0, "authorization");
    assert_eq!(telemetry.headers[0].1.reveal(), "Bearer canary");
    assert!(!telemetry.metrics && telemetry.traces);
    assert_eq!(c.admin.unwrap().listen.to_string(), "127.0.0.1:9500");
    assert!(c.warnings.is_empty(), "{:?}", c.warnings);
    assert!(
        !format!("{c:?}").contains("canary"),
        "debug output shows a secret"
    );
}

#[test]
fn an_empty_file_says_nothing() {
    let empty = Config {
        file: "config.toml".into(),
        ..Config::default()
    };
    assert_eq!(parse("config.toml", "", &env), Ok(empty));
}
