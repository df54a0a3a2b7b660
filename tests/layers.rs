//! Modules use lower layers only, and `rules` is pure: the table of `src/lib.rs`, enforced.
//!
//! Read from the source text and not from the compiler, so that a path counts wherever it stands:
//! in a `use`, however nested, or inline. Tests inside a file may use what they like.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Each module and those it may use, itself and the clock aside.
const TABLE: [(&str, &str); 18] = [
    ("rules", ""),
    ("wire", "rules"),
    ("config", "rules wire"),
    ("store", "rules wire"),
    ("net", "rules wire"),
    ("telemetry", "rules wire"),
    ("state", "rules sync wire config store"),
    ("demo", "rules wire config store net telemetry state"),
    ("replay", "rules wire config store net telemetry state"),
    ("facade", "rules wire net telemetry state"),
    ("control", "rules wire net state"),
    ("broker", "rules wire net state"),
    ("registry", "rules wire net state"),
    ("agent", "rules wire net"),
    ("export", "rules wire net telemetry state"),
    // It turns settings into commands, so it reads them; the other drivers are told everything.
    ("director", "rules wire net state config"),
    (
        "daemon",
        "rules wire config store net telemetry state demo replay facade control broker registry director export",
    ),
    // It looks at what the others use, and changes nothing.
    (
        "doctor",
        "rules wire config store net state control director",
    ),
];

/// What time it is: for all but those that decide or describe.
const CLOCK: &str = "wall_clock";
const CLOCKLESS: [&str; 2] = ["rules", "wire"];

/// What every file of `cmd/` may use, and what one file may use besides.
const CMD: [&str; 5] = ["rules", "wire", "config", "control::client", CLOCK];
const CMD_MORE: [(&str, &[&str]); 4] = [
    ("serve.rs", &["daemon", "telemetry", "state"]),
    ("agent.rs", &["agent", "net", "telemetry"]),
    ("demo_engine.rs", &["demo"]),
    ("doctor.rs", &["doctor"]),
];

/// What would make a decision depend on more than its arguments: paths, or their beginnings.
const IMPURE: [&str; 24] = [
    "std::time::Instant",
    "std::time::SystemTime",
    "std::sync::Mutex",
    "std::sync::RwLock",
    "std::sync::Condvar",
    "std::sync::Barrier",
    "std::sync::Once",
    "std::sync::OnceLock",
    "std::sync::LazyLock",
    "std::sync::mpsc",
    "std::sync::atomic",
    "std::net::TcpStream",
    "std::net::TcpListener",
    "std::net::UdpSocket",
    "std::net::ToSocketAddrs",
    "std::fs",
    "std::io",
    "std::env",
    "std::thread",
    "std::process",
    "std::hash::RandomState",
    "tokio",
    "tracing",
    "rand",
];

#[test]
fn modules_use_lower_layers_only() {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for (file, text) in sources("src") {
        // `lib.rs` only declares.
        let Some((module, _)) = file.split_once('/') else {
            continue;
        };
        let found = upward(module, &text).into_iter();
        wrong.extend(found.map(|path| format!("src/{file}: {path}")));
        seen.insert(module.to_owned());
    }
    assert_eq!(wrong, [""; 0], "see the table in src/lib.rs");
    let table: BTreeSet<_> = TABLE.iter().map(|(m, _)| (*m).to_owned()).collect();
    assert_eq!(seen, table, "every module has its row");
}

#[test]
fn no_path_leaves_its_module_by_super() {
    let mut wrong = Vec::new();
    for (file, text) in sources("src") {
        // From `a/mod.rs` one step leads to the root, from `a/b.rs` two.
        let depth = file.split('/').count() - usize::from(file.ends_with("/mod.rs"));
        let out = "super::".repeat(depth);
        let found = paths(&text).into_iter().filter(|p| p.starts_with(&out));
        wrong.extend(found.map(|path| format!("src/{file}: {path}")));
    }
    assert_eq!(wrong, [""; 0], "write crate::");
}

#[test]
fn the_command_line_asks_and_does_not_act() {
    let mut wrong = Vec::new();
    for (file, text) in sources("cmd") {
        let found = beyond(&file, &text).into_iter();
        wrong.extend(found.map(|path| format!("cmd/{file}: {path}")));
    }
    assert_eq!(wrong, [""; 0], "see the table in src/lib.rs");
}

#[test]
fn rules_depend_on_their_arguments_alone() {
    let mut wrong = Vec::new();
    for (file, text) in sources("src/rules") {
        let found = impure(&text).into_iter();
        wrong.extend(found.map(|path| format!("src/rules/{file}: {path}")));
    }
    assert_eq!(wrong, [""; 0]);
}

/// Paths in a file of this module that its row does not allow.
fn upward(module: &str, text: &str) -> Vec<String> {
    let row = TABLE.iter().find(|(m, _)| *m == module);
    let allowed = row.map_or("", |(_, allowed)| *allowed);
    let ok = |path: &String| {
        let used = path.split("::").nth(1).unwrap_or_default();
        let clock = used == CLOCK && !CLOCKLESS.contains(&module);
        used == module || clock || allowed.split(' ').any(|a| a == used)
    };
    let ours = paths(text).into_iter().filter(|p| begins(p, "crate"));
    ours.filter(|p| !ok(p)).collect()
}

/// Paths in a file of the binary that reach further into the library than they may.
fn beyond(file: &str, text: &str) -> Vec<String> {
    let more = CMD_MORE.iter().find(|(f, _)| *f == file);
    let more = more.map_or(&[][..], |(_, more)| *more);
    let ok = |path: &String| {
        let used = path.trim_start_matches("nvpair_proxy::");
        CMD.iter().chain(more).any(|prefix| begins(used, prefix))
    };
    let ours = paths(text)
        .into_iter()
        .filter(|p| begins(p, "nvpair_proxy"));
    ours.filter(|p| !ok(p)).collect()
}

fn impure(text: &str) -> Vec<String> {
    let bad = |path: &String| IMPURE.iter().any(|prefix| begins(path, prefix));
    paths(text).into_iter().filter(bad).collect()
}

/// Whether a path is `prefix` or something below it.
fn begins(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Every path of at least two parts in a file outside its tests, groups written out.
fn paths(text: &str) -> Vec<String> {
    let tokens = without_tests(&tokens(text));
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        at = match is_name(&tokens[at]) {
            true => path(&tokens, at, "", &mut found),
            false => at + 1,
        };
    }
    found.retain(|p| p.contains("::"));
    found
}

/// Reads one path, or one tree of a `use`, that begins here; gives the place behind it.
fn path(tokens: &[String], mut at: usize, prefix: &str, found: &mut Vec<String>) -> usize {
    let mut parts = prefix.to_owned();
    while at < tokens.len() && is_name(&tokens[at]) {
        if !parts.is_empty() {
            parts.push_str("::");
        }
        parts.push_str(&tokens[at]);
        at += 1;
        if tokens.get(at).is_none_or(|t| t != "::") {
            break;
        }
        at += 1;
        if tokens.get(at).is_some_and(|t| t == "{") {
            return group(tokens, at + 1, &parts, found);
        }
    }
    found.push(parts);
    at
}

fn group(tokens: &[String], mut at: usize, prefix: &str, found: &mut Vec<String>) -> usize {
    while at < tokens.len() && tokens[at] != "}" {
        at = match is_name(&tokens[at]) {
            true => path(tokens, at, prefix, found),
            false => at + 1,
        };
    }
    at + 1
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Names, `::` and single signs, without comments and the content of literals.
fn tokens(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let in_word = |i: usize| {
        chars
            .get(i)
            .is_some_and(|c| c.is_alphanumeric() || *c == '_')
    };
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let next = chars.get(at + 1).copied().unwrap_or(' ');
        match chars[at] {
            '/' if next == '/' => at = find(&chars, at, "\n"),
            '"' => at = behind_text(&chars, at),
            // A character, or else a lifetime: only a character has a closing quote.
            '\'' if next == '\\' => at = find(&chars, at + 3, "'") + 1,
            '\'' if chars.get(at + 2) == Some(&'\'') => at += 3,
            ':' if next == ':' => {
                tokens.push("::".to_owned());
                at += 2;
            },
            _ if in_word(at) => {
                let end = (at..).find(|i| !in_word(*i)).unwrap_or(at + 1);
                let word: String = chars[at..end].iter().collect();
                // `r#"` and `br"` open a text without escapes, `b"` and `c"` one with them.
                match raw_fence(&chars, end).filter(|_| matches!(&*word, "r" | "br" | "cr")) {
                    Some(signs) => at = behind_raw(&chars, end + signs, signs),
                    None => {
                        tokens.push(word);
                        at = end;
                    },
                }
            },
            c => {
                tokens.extend((!c.is_whitespace()).then(|| c.to_string()));
                at += 1;
            },
        }
    }
    tokens
}

fn find(chars: &[char], from: usize, wanted: &str) -> usize {
    (from..chars.len())
        .find(|i| wanted.contains(chars[*i]))
        .unwrap_or(chars.len())
}

fn behind_text(chars: &[char], at: usize) -> usize {
    let mut end = find(chars, at + 1, "\"\\");
    while chars.get(end) == Some(&'\\') {
        end = find(chars, end + 2, "\"\\");
    }
    end + 1
}

/// The number of `#` here, if a quote follows them.
fn raw_fence(chars: &[char], at: usize) -> Option<usize> {
    let quote = (at..chars.len()).find(|i| chars[*i] != '#')?;
    (chars[quote] == '"').then_some(quote - at)
}

fn behind_raw(chars: &[char], quote: usize, signs: usize) -> usize {
    let closes =
        |i: &usize| chars[*i] == '"' && (1..=signs).all(|n| chars.get(i + n) == Some(&'#'));
    let end = (quote + 1..chars.len()).find(closes);
    end.unwrap_or(chars.len()) + 1 + signs
}

/// Leaves out what stands behind `#[cfg(test)]`: a block, or a declaration up to its semicolon.
fn without_tests(tokens: &[String]) -> Vec<String> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if !tokens[at..].iter().take(MARK.len()).eq(MARK.iter()) {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        let mut depth = 0;
        let ends = |token: &String| {
            match token.as_str() {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {},
            }
            depth == 0 && matches!(token.as_str(), "}" | ";")
        };
        at += MARK.len();
        at += 1 + tokens[at..]
            .iter()
            .position(ends)
            .unwrap_or(tokens.len() - at);
    }
    kept
}

/// The source files below a folder, with their paths in it; not those that are tests as a whole.
fn sources(folder: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut folders: Vec<PathBuf> = vec![root.clone()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder is there") {
            let path = entry.expect("it can be listed").path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with("tests.rs") && path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).expect("source is text");
                let below = path.strip_prefix(&root).unwrap_or(&path);
                found.push((below.to_string_lossy().replace('\\', "/"), text));
            }
        }
    }
    assert!(!found.is_empty(), "nothing was read of {folder}");
    found.sort();
    found
}

#[test]
fn a_planted_violation_is_found_wherever_it_stands() {
    for text in [
        "use crate::facade::Context;",
        "use crate::{rules::ids, facade::Context};",
        "use crate::{\n    rules::ids::NodeId,\n    // why\n    facade,\n};",
        "fn f(c: &crate::facade::Context<'_>) -> char { '\\'' }",
        "pub(in crate::facade) fn f() {}",
        "#[cfg(test)]\nmod tests { use crate::daemon; }\nuse crate::facade::Context;",
        "#[cfg(test)]\nmod tests;\nuse crate::facade::Context;",
        r##"const A: &str = r#"" // "#; use crate::facade::Context;"##,
        r#"const A: &[u8] = b"\" // "; use crate::facade::Context;"#,
        "const A: char = '\"'; use crate::facade::Context; const B: char = '\"';",
    ] {
        let found = upward("control", text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].starts_with("crate::facade"), "{found:?}");
    }
    assert_eq!(upward("rules", "use crate::wire::x;"), ["crate::wire::x"]);
    assert_eq!(upward("net", "use crate::store::x;"), ["crate::store::x"]);
    assert_eq!(upward("new", "use crate::rules::x;"), ["crate::rules::x"]);
}

#[test]
fn what_is_allowed_or_no_code_is_no_violation() {
    for text in [
        "use crate::control::api; use crate::state::{command::Command, query};",
        "// use crate::facade;\n/// [`crate::facade`]\nfn f() {}",
        "const A: &str = \"crate::facade \\\" crate::facade\";",
        "#[cfg(test)]\nmod tests { use crate::facade::{A, B}; fn f() { g(); } }",
        "#[cfg(test)]\nuse crate::facade::A;",
    ] {
        assert_eq!(upward("control", text), [""; 0], "{text}");
    }
}

#[test]
fn the_rows_of_the_binary_are_kept_apart() {
    let text = "use nvpair_proxy::{daemon, control::client::ControlClient, rules::ids};";
    assert_eq!(beyond("serve.rs", text), [""; 0]);
    assert_eq!(beyond("status.rs", text), ["nvpair_proxy::daemon"]);
    let server = "use nvpair_proxy::control::server;";
    assert_eq!(
        beyond("serve.rs", server),
        ["nvpair_proxy::control::server"]
    );
}

#[test]
fn an_impure_rule_is_found_and_values_are_no_sockets() {
    for text in [
        "use std::time::{Duration, Instant};",
        "use std::{fs, fmt};",
        "let t = std::time::SystemTime::now();",
        "use std::sync::{Arc, Mutex};",
        "tokio::spawn(f());",
        "use std::net::{IpAddr, TcpStream};",
        "let r = rand::random();",
    ] {
        assert_eq!(impure(text).len(), 1, "{text}: {:?}", impure(text));
    }
    let fine = "use std::net::{IpAddr, SocketAddr}; use std::sync::Arc; use std::time::Duration;";
    assert_eq!(impure(fine), [""; 0]);
}
