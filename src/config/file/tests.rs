//! The samples under `tests/config`, and what they cannot show.

use super::*;
use std::ffi::OsString;

fn env(name: &str) -> Option<OsString> {
    (name == "TOWER_KEY").then(|| "canary".into())
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
        }
        assert!(!got.contains("canary"), "{name}: a secret in {got}");
    }
    assert!(stale.is_empty(), "{}", stale.join("\n"));
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
    assert_eq!(c.nodes.len(), 2, "a disabled node is left out");
    let rig = &c.nodes[0];
    assert_eq!(rig.name.as_deref(), Some("rig"));
    assert_eq!(rig.url.to_string(), "http://tower.lan:11434");
    assert_eq!(rig.api_key.as_ref().map(Secret::reveal), Some("canary"));
    assert_eq!((rig.slots, rig.weight), (Some(4), Some(2)));
    assert!(
        !format!("{c:?}").contains("canary"),
        "debug output shows a secret"
    );
}

#[test]
fn an_empty_file_says_nothing() {
    assert_eq!(parse("config.toml", "", &env), Ok(Config::default()));
}
