//! What `--json` prints has exactly the keys that the help of the subcommand, and so its man page,
//! says.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

use serde_json::Value;

use crate::world::World;

/// A documented shape: `{a, b?, c: {…}, d: [{…}], e: []}`.
#[derive(Debug)]
enum Shape {
    /// Whatever it is.
    Any,
    /// A list of these.
    List(Box<Shape>),
    /// These keys, and whether each may be absent.
    Object(BTreeMap<String, (bool, Shape)>),
}

impl Shape {
    /// The shape in a help text.
    fn in_help(help: &str) -> Self {
        let (_, rest) = help
            .split_once("With --json: ")
            .expect("a documented shape");
        Self::read(&mut rest.chars().peekable())
    }

    fn read(text: &mut Peekable<Chars>) -> Self {
        blank(text);
        match text.peek() {
            Some('{') => {
                text.next();
                let mut keys = BTreeMap::new();
                loop {
                    blank(text);
                    match text.peek() {
                        Some('}') => break,
                        Some(',') => {},
                        Some(_) => {
                            let (name, rest) = key(text);
                            assert!(keys.insert(name, rest).is_none(), "a key twice");
                            continue;
                        },
                        None => panic!("the shape does not end"),
                    }
                    text.next();
                }
                text.next();
                Self::Object(keys)
            },
            Some('[') => {
                text.next();
                blank(text);
                let of = match text.peek() {
                    Some(']') => Self::Any,
                    _ => Self::read(text),
                };
                blank(text);
                assert_eq!(text.next(), Some(']'));
                Self::List(Box::new(of))
            },
            other => panic!("no shape begins with {other:?}"),
        }
    }

    fn check(&self, value: &Value, at: &str) {
        match (self, value) {
            (Self::Any, _) | (_, Value::Null) => {},
            (Self::List(of), Value::Array(list)) => {
                for (i, item) in list.iter().enumerate() {
                    of.check(item, &format!("{at}[{i}]"));
                }
            },
            (Self::Object(keys), Value::Object(found)) => {
                for (name, value) in found {
                    let documented = keys.get(name);
                    let (_, shape) =
                        documented.unwrap_or_else(|| panic!("{at}.{name} is not documented"));
                    shape.check(value, &format!("{at}.{name}"));
                }
                for (name, (optional, _)) in keys {
                    assert!(
                        *optional || found.contains_key(name),
                        "{at}.{name} is not there"
                    );
                }
            },
            (shape, value) => panic!("{at}: {value} is no {shape:?}"),
        }
    }
}

fn blank(text: &mut Peekable<Chars>) {
    while text.peek().is_some_and(|c| c.is_whitespace()) {
        text.next();
    }
}

fn key(text: &mut Peekable<Chars>) -> (String, (bool, Shape)) {
    let mut name = String::new();
    while let Some(c) = text
        .peek()
        .filter(|c| c.is_ascii_alphanumeric() || **c == '_')
    {
        name.push(*c);
        text.next();
    }
    assert!(!name.is_empty(), "a key, not {:?}", text.peek());
    let optional = text.next_if_eq(&'?').is_some();
    blank(text);
    let shape = match text.next_if_eq(&':') {
        Some(_) => Shape::read(text),
        None => Shape::Any,
    };
    (name, (optional, shape))
}

#[test]
fn the_documents_are_what_the_help_says() {
    let world = World::with_daemon();
    world.everything();
    let dir = world.path().join("generated");
    let dir = dir.to_str().unwrap();
    let checked = format!("--check {dir}");
    for (sub, args) in [
        ("status", ""),
        ("select", "ollama tower"),
        ("select", "ollama --auto"),
        ("set-port", "ollama 11500"),
        ("workloads", ""),
        ("workloads", "90"),
        ("models", ""),
        ("providers", ""),
        ("route", "--engine ollama --model qwen3:8b"),
        ("nodes list", ""),
        ("nodes add", "ollama=http://x:2"),
        ("nodes remove", "tower"),
        ("doctor", ""),
        ("healthcheck", ""),
        ("healthcheck", "llamacpp"),
        ("config check", ""),
        ("config show", ""),
        ("config path", ""),
        ("completions", "bash"),
        ("generate", dir),
        ("generate systemd", ""),
        ("generate launchd", ""),
    ] {
        let words = || sub.split(' ').chain(args.split_whitespace());
        let help = world
            .run(&sub.split(' ').chain(["--help"]).collect::<Vec<_>>())
            .out;
        let said = world.run(&words().chain(["--json"]).collect::<Vec<_>>());
        let document: Value = serde_json::from_str(&said.out)
            .unwrap_or_else(|e| panic!("{sub} {args}: {e}: {}{}", said.out, said.err));
        assert_eq!(document["schema_version"], 1, "{sub}");
        Shape::in_help(&help).check(&document, sub);
    }
    let said = world.run(
        &[
            &["generate", "--json"],
            &*checked.split(' ').collect::<Vec<_>>(),
        ]
        .concat(),
    );
    assert_eq!(
        said.json(),
        serde_json::json!({"schema_version": 1, "out_of_date": []})
    );
}

#[test]
fn a_shape_that_lacks_a_key_is_noticed() {
    let shape = Shape::in_help("With --json: {a, b?: [{c}], d: []}");
    let check = |json: &str| {
        let value: Value = serde_json::from_str(json).unwrap();
        std::panic::catch_unwind(|| shape.check(&value, "x")).is_ok()
    };
    assert!(check(r#"{"a":1,"d":[]}"#));
    assert!(check(r#"{"a":1,"b":[{"c":1}],"d":["x"]}"#));
    for bad in [
        r#"{"d":[]}"#,
        r#"{"a":1,"d":[],"e":1}"#,
        r#"{"a":1,"d":[],"b":[{}]}"#,
        r#"{"a":1,"d":{}}"#,
    ] {
        assert!(!check(bad), "{bad}");
    }
}
