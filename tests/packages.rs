//! What the packages are made from: files that are there, settings that are valid, no word of one
//! place without the other. Building and installing them is in `tests/packaging`.

use std::fs;
use std::path::Path;

use nvpair_proxy::config::settings::{self, Flags};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn text(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn manifest() -> toml::Table {
    text("Cargo.toml").parse().expect("it is TOML")
}

/// The assets of the Debian package: source, destination.
fn assets() -> Vec<(String, String)> {
    let manifest = manifest();
    let deb = &manifest["package"]["metadata"]["deb"];
    let assets = deb["assets"].as_array().expect("a list").iter();
    let word = |asset: &toml::Value, i: usize| asset[i].as_str().expect("text").to_owned();
    assets.map(|a| (word(a, 0), word(a, 1))).collect()
}

/// Fills in what a sample has as comments: lines whose `#` has no blank behind it.
fn uncommented(sample: &str) -> String {
    let line = |l: &str| match l.strip_prefix('#') {
        Some(rest) if !rest.starts_with(' ') => format!("{rest}\n"),
        _ => format!("{l}\n"),
    };
    sample.lines().map(line).collect()
}

fn load(config: &str) -> Result<settings::Settings, settings::SettingsError> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("config.toml");
    fs::write(&path, config).expect("it can be written");
    let flags = Flags {
        config: Some(path),
        ..Flags::default()
    };
    settings::load(&flags, &|name| (name == "TOWER_KEY").then(|| "k".into()))
}

#[test]
fn the_sample_configuration_sets_nothing_and_every_line_of_it_is_valid() {
    let sample = text("cmd/package/config.toml");
    assert!(load(&sample).expect("it is valid").nodes.is_empty());
    let filled = load(&uncommented(&sample));
    let filled = filled.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(filled.nodes.len(), 1);
    assert_eq!(filled.warnings, [""; 0]);
}

#[test]
fn the_debian_package_has_every_generated_file_and_nothing_that_is_not_there() {
    let assets = assets();
    for (source, _) in &assets {
        // A folder's glob, or what cargo builds.
        let path = source.split('*').next().unwrap_or(source);
        let there = path.starts_with("target/") || Path::new(ROOT).join(path).exists();
        assert!(there, "{source}");
    }
    for want in [
        "completions/nvpair-proxy.bash",
        "completions/_nvpair-proxy",
        "completions/nvpair-proxy.fish",
        "man/*.1",
        "cmd/package/nvpair-proxy.service",
        "cmd/package/user/nvpair-proxy.service",
        "cmd/package/config.toml",
    ] {
        assert!(assets.iter().any(|(source, _)| source == want), "{want}");
    }
}

#[test]
fn the_configuration_is_a_conffile_and_the_unit_reads_it() {
    let manifest = manifest();
    let deb = &manifest["package"]["metadata"]["deb"];
    let config = deb["conf-files"][0].as_str().expect("text");
    let (_, place) = assets()
        .into_iter()
        .find(|(source, _)| source == "cmd/package/config.toml")
        .expect("it is packed");
    assert_eq!(config, format!("/{place}config.toml"));
    let unit = text("cmd/package/nvpair-proxy.service");
    assert!(unit.contains("ConfigurationDirectory=nvpair-proxy\n"));
}

#[test]
fn maintainer_scripts_cannot_fail() {
    let manifest = manifest();
    let deb = &manifest["package"]["metadata"]["deb"];
    let folder = deb["maintainer-scripts"].as_str().expect("text");
    for name in ["postinst", "prerm", "postrm"] {
        let script = text(&format!("{folder}{name}"));
        assert!(script.starts_with("#!/bin/sh\n"), "{name}");
        assert!(script.ends_with("\nexit 0\n"), "{name}");
        let code = script.lines().filter(|l| !l.trim_start().starts_with('#'));
        assert!(!code.into_iter().any(|l| l.contains("set -e")), "{name}");
    }
}

#[test]
fn units_give_the_drain_its_time_and_are_told_by_the_daemon() {
    for unit in [
        "cmd/package/nvpair-proxy.service",
        "cmd/package/user/nvpair-proxy.service",
    ] {
        let unit = text(unit);
        for line in ["Type=notify", "WatchdogSec=30", "TimeoutStopSec=11min"] {
            assert!(unit.lines().any(|l| l == line), "{line}");
        }
    }
}

#[test]
fn the_release_has_four_platforms_a_static_one_and_two_installers() {
    let manifest = manifest();
    let dist = &manifest["workspace"]["metadata"]["dist"];
    let has = |key: &str, want: &str| {
        let list = dist[key].as_array().expect("a list").iter();
        list.into_iter().any(|v| v.as_str() == Some(want))
    };
    for target in [
        "aarch64-apple-darwin",
        "x86_64-apple-darwin",
        "aarch64-unknown-linux-gnu",
        "x86_64-unknown-linux-gnu",
        "x86_64-unknown-linux-musl",
    ] {
        assert!(has("targets", target), "{target}");
    }
    assert!(has("installers", "shell") && has("installers", "homebrew"));
    for entry in dist["include"].as_array().expect("a list") {
        let path = entry.as_str().expect("text");
        assert!(Path::new(ROOT).join(path).exists(), "{path}");
    }
}
