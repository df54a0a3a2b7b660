//! The configuration file as a JSON Schema, for editors and pipelines.
//!
//! Owns: turning the table of keys into one. Leaves to others: the table (`keys`), printing it
//! (`cmd`). Whatever is no text may be a text too, as the reader allows, since it may come from a
//! variable; what a schema cannot say (a port that is there twice) only `config check` finds.

use serde_json::{Map, Value, json};

use super::keys::{Key, Section, Shape, TOP};
use crate::rules::engine::EngineId;

/// A text with a variable in it, whose value only the start knows.
const VARIABLE: &str = r"\$\{";

/// The schema, draft 2020-12.
pub fn schema() -> Value {
    let mut schema = section(&TOP);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("Configuration of nvpair-proxy");
    schema
}

fn section(section: &Section) -> Value {
    let keys = section.keys.iter();
    let properties: Map<_, _> = keys.clone().map(|k| (k.name.to_owned(), key(k))).collect();
    let required: Vec<_> = keys.filter(|k| k.required).map(|k| k.name).collect();
    let mut schema = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn key(key: &Key) -> Value {
    let mut schema = shape(key.shape);
    schema["description"] = json!(key.help);
    if let Some(default) = default(key) {
        schema["default"] = default;
    }
    schema
}

/// The default as it would be written, in its own type.
pub(super) fn default(key: &Key) -> Option<Value> {
    let text = key.default;
    match key.shape {
        _ if text.is_empty() => None,
        Shape::Switch | Shape::Number(..) => serde_json::from_str(text).ok(),
        _ => Some(json!(text)),
    }
}

fn shape(shape: Shape) -> Value {
    let texts = json!({"type": "array", "items": {"type": "string"}});
    let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
    match shape {
        Shape::Text => json!({"type": "string"}),
        Shape::Secret => json!({"type": "string", "writeOnly": true}),
        Shape::Words(words) => json!({
            "anyOf": [{"enum": words}, {"type": "string", "pattern": VARIABLE}],
        }),
        Shape::Switch => json!({
            "anyOf": [
                {"type": "boolean"},
                {"type": "string", "pattern": format!("^(true|false)$|{VARIABLE}")},
            ],
        }),
        Shape::Number(min, max) => json!({
            "anyOf": [
                {"type": "integer", "minimum": min, "maximum": max},
                {"type": "string", "pattern": format!("^\\s*\\+?[0-9]+\\s*$|{VARIABLE}")},
            ],
        }),
        Shape::Span(..) => json!({
            "anyOf": [
                {"const": 0},
                {"type": "string", "pattern": format!("^\\s*\\+?(0|([0-9.]+(ns|us|µs|μs|ms|s|m|h))+)\\s*$|{VARIABLE}")},
            ],
        }),
        Shape::Size => json!({
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {
                    "type": "string",
                    "pattern": format!("^\\s*[0-9]+\\s*([kKmMgG][iI][bB]|[bB])?\\s*$|{VARIABLE}"),
                },
            ],
        }),
        Shape::Texts => texts,
        Shape::Map => map,
        Shape::TextsOrMap => json!({"anyOf": [texts, map]}),
        Shape::Lists => json!({
            "type": "object",
            "additionalProperties": {
                "type": "array",
                "minItems": 1,
                "items": {"type": "string", "pattern": format!("^[^/]+/.|{VARIABLE}")},
            },
        }),
        Shape::Table(inner) => section(inner),
        Shape::Tables(inner) => json!({"type": "array", "items": section(inner)}),
        Shape::Engines(inner) => {
            let one = |e: EngineId| (e.as_str().to_owned(), section(inner));
            let engines: Map<_, _> = EngineId::all().map(one).collect();
            json!({"type": "object", "additionalProperties": false, "properties": engines})
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Value {
        let table: toml::Table = text.parse().unwrap();
        serde_json::to_value(table).unwrap()
    }

    fn samples(folder: &str) -> Vec<(String, String)> {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let entries = std::fs::read_dir(root.join("tests/config").join(folder)).unwrap();
        let paths = entries.map(|e| e.unwrap().path());
        let toml = paths.filter(|p| p.extension().is_some_and(|e| e == "toml"));
        toml.map(|p| {
            let text = std::fs::read_to_string(&p).unwrap();
            (p.display().to_string(), text)
        })
        .collect()
    }

    #[test]
    fn every_valid_sample_satisfies_the_schema() {
        let schema = schema();
        assert!(jsonschema::meta::is_valid(&schema));
        let validator = jsonschema::validator_for(&schema).unwrap();
        for (path, text) in samples("valid") {
            if let Err(e) = validator.validate(&document(&text)) {
                panic!("{path}: {e} at {}", e.instance_path());
            }
        }
    }

    /// What is wrong with one value alone, a schema can tell; so that an editor does.
    #[test]
    fn unknown_keys_wrong_types_and_ranges_do_not() {
        let validator = jsonschema::validator_for(&schema()).unwrap();
        for text in [
            "polcy = \"ordered\"",
            "policy = \"fair\"",
            "policy = 1",
            "response_headers = \"yes\"",
            "drain_timeout = 30",
            "drain_timeout = \"5\"",
            "drain_timeout = \"1d\"",
            "max_request_bytes = 0",
            "max_request_bytes = \"64MB\"",
            "allowed_hosts = \"box.lan\"",
            "[engines.olama]\nport = 1",
            "[engines.ollama]\nport = 70000",
            "[[nodes]]\nengine = \"ollama\"",
            "[[nodes]]\nengine = \"ollama\"\nurl = \"http://x\"\nslots = 0",
            "[pool]\nbreaker_failures = 0",
            "[virtual_models]\nx = []",
            "[virtual_models]\nx = [\"m\"]",
            "[telemetry]\nprotocol = \"grpc\"",
            "[[providers]]\nname = \"x\"",
        ] {
            assert!(!validator.is_valid(&document(text)), "{text}");
        }
    }

    #[test]
    fn every_default_satisfies_its_own_key() {
        fn look(section: &Section) {
            for key in section.keys {
                if let Some(default) = default(key) {
                    let schema = shape(key.shape);
                    let validator = jsonschema::validator_for(&schema).unwrap();
                    assert!(validator.is_valid(&default), "{}: {default}", key.name);
                }
                match key.shape {
                    Shape::Table(i) | Shape::Tables(i) | Shape::Engines(i) => look(i),
                    _ => {},
                }
            }
        }
        look(&TOP);
    }
}
