//! What an engine tells about its models, read leniently (what users report: R65, R67, R71, R75).
//!
//! Owns: the shapes of lists, load states and slots, and whether a body is of the engine's shape
//! at all. Leaves to others: asking (`probe`), what a node then is (`standing`).
//!
//! A list is never refused for an entry or a field that is not understood; it is refused when it
//! has no list at all, since engines exist that answer 200 with an error text to anything.

use serde_json::Value;

use crate::rules::engine::ListShape;

/// A model list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Models it can serve, loaded or not; sorted, each once.
    pub models: Vec<String>,
    /// Those in memory, where the list itself tells.
    pub warm: Vec<String>,
    /// Context length by model, where told.
    pub context: Vec<(String, u64)>,
    /// Whether entries carry a load state: a llama.cpp router, which loads on demand.
    pub router: bool,
}

/// Reads the inventory of an engine whose list has this shape. `None` if there is no list in it.
/// The other shape is read where the engine's own is absent: llama-server sends both.
pub fn listing(shape: ListShape, body: &[u8]) -> Option<Listing> {
    let document: Value = serde_json::from_slice(body).ok()?;
    let array = |key: &str| document.get(key).and_then(Value::as_array);
    let entries = match shape {
        ListShape::Native => array("models").or_else(|| array("data")),
        ListShape::OpenAi => array("data").or_else(|| array("models")),
    }?;
    let mut listing = Listing::default();
    for entry in entries {
        add(&mut listing, entry);
    }
    tidy(&mut listing.models);
    tidy(&mut listing.warm);
    listing.context.sort();
    listing.context.dedup_by(|a, b| a.0 == b.0);
    Some(listing)
}

/// Whether a body is the engine's own list and nothing else: what identifies an engine nobody
/// named. Stricter than [`listing`], since something else may listen on the port.
pub fn identifies(shape: ListShape, body: &[u8]) -> bool {
    let Ok(document) = serde_json::from_slice::<Value>(body) else {
        return false;
    };
    let (key, enveloped) = match shape {
        ListShape::Native => ("models", true),
        ListShape::OpenAi => ("data", document.get("object") == Some(&Value::from("list"))),
    };
    let entries = document.get(key).and_then(Value::as_array);
    enveloped && entries.is_some_and(|list| list.iter().all(|e| name(shape, e).is_some()))
}

/// Ollama's list of running models: names and their context length.
pub fn running(body: &[u8]) -> Option<Loaded> {
    let document: Value = serde_json::from_slice(body).ok()?;
    let mut loaded = Loaded::default();
    for entry in document.get("models")?.as_array()? {
        let Some(name) = name(ListShape::Native, entry) else {
            continue;
        };
        note(&mut loaded.context, name, entry.get("context_length"));
        loaded.warm.push(name.to_owned());
    }
    Some(loaded.tidied())
}

/// LM Studio's list with states.
pub fn states(body: &[u8]) -> Option<Loaded> {
    let document: Value = serde_json::from_slice(body).ok()?;
    let mut loaded = Loaded::default();
    for entry in document.get("data")?.as_array()? {
        let Some(name) = name(ListShape::OpenAi, entry) else {
            continue;
        };
        let length = entry
            .get("loaded_context_length")
            .or(entry.get("max_context_length"));
        note(&mut loaded.context, name, length);
        if entry.get("state").and_then(Value::as_str) == Some("loaded") {
            loaded.warm.push(name.to_owned());
        }
    }
    Some(loaded.tidied())
}

/// The number of slots in llama.cpp's properties.
pub fn slots(body: &[u8]) -> Option<u32> {
    let document: Value = serde_json::from_slice(body).ok()?;
    let slots = document.get("total_slots")?.as_u64()?;
    u32::try_from(slots).ok().filter(|n| *n > 0)
}

/// The machine-readable code of a refusal by a facade (`{"error","code"}`), if the body is one.
pub fn refusal_code(body: &[u8]) -> Option<String> {
    let document: Value = serde_json::from_slice(body).ok()?;
    Some(document.get("code")?.as_str()?.to_owned())
}

/// What is in an engine's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Models; sorted, each once.
    pub warm: Vec<String>,
    /// Context length by model, where told.
    pub context: Vec<(String, u64)>,
}

impl Loaded {
    fn tidied(mut self) -> Self {
        tidy(&mut self.warm);
        self.context.sort();
        self.context.dedup_by(|a, b| a.0 == b.0);
        self
    }
}

/// How far a router has got with a model.
enum LoadState {
    NotTold,
    Loaded,
    /// Unloaded or on its way: owned, and cold until it is there.
    Cold,
    /// It could not be loaded: not an owner until that changes.
    Failed,
}

fn load_state(entry: &Value) -> LoadState {
    let Some(status) = entry.get("status") else {
        return LoadState::NotTold;
    };
    let failed = |v: &Value| v.get("failed").and_then(Value::as_bool) == Some(true);
    match status.get("value").and_then(Value::as_str) {
        _ if failed(status) || failed(entry) => LoadState::Failed,
        Some("failed") => LoadState::Failed,
        Some("loaded" | "sleeping") => LoadState::Loaded,
        Some(_) => LoadState::Cold,
        None => LoadState::NotTold,
    }
}

fn add(listing: &mut Listing, entry: &Value) {
    let text = |key: &str| {
        entry
            .get(key)
            .and_then(Value::as_str)
            .filter(|n| !n.is_empty())
    };
    let Some(id) = text("id")
        .or_else(|| text("model"))
        .or_else(|| text("name"))
    else {
        return;
    };
    let state = load_state(entry);
    listing.router |= !matches!(state, LoadState::NotTold);
    if matches!(state, LoadState::Failed) {
        return;
    }
    // A request may name a model by an alias too; without it the alias would have no owner.
    let aliases = entry
        .get("aliases")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let aliases = aliases.filter_map(Value::as_str).filter(|a| !a.is_empty());
    for name in std::iter::once(id).chain(aliases) {
        listing.models.push(name.to_owned());
        if matches!(state, LoadState::Loaded) {
            listing.warm.push(name.to_owned());
        }
    }
    note(
        &mut listing.context,
        id,
        entry.get("meta").and_then(|m| m.get("n_ctx")),
    );
}

/// The identity of an entry: `model` or else `name`, or `id`.
fn name(shape: ListShape, entry: &Value) -> Option<&str> {
    let text = |key: &str| {
        entry
            .get(key)
            .and_then(Value::as_str)
            .filter(|n| !n.is_empty())
    };
    match shape {
        ListShape::Native => text("model").or_else(|| text("name")),
        ListShape::OpenAi => text("id"),
    }
}

fn note(context: &mut Vec<(String, u64)>, name: &str, length: Option<&Value>) {
    let length = length.and_then(Value::as_u64).filter(|n| *n > 0);
    context.extend(length.map(|n| (name.to_owned(), n)));
}

/// Engines order their lists by use; sorted, a list changes only when its content does.
fn tidy(names: &mut Vec<String>) {
    names.sort();
    names.dedup();
}

#[cfg(test)]
mod tests {
    use super::*;
    use ListShape::{Native, OpenAi};

    fn names(shape: ListShape, body: &str) -> Option<Vec<String>> {
        listing(shape, body.as_bytes()).map(|l| l.models)
    }

    #[test]
    fn lists_are_read_in_either_shape_and_odd_entries_are_skipped() {
        let native =
            r#"{"models":[{"name":"b:1","model":"b:1"},{"name":"a"},{"x":1},7,{"name":""}]}"#;
        assert_eq!(names(Native, native).unwrap(), ["a", "b:1"]);
        let open = r#"{"object":"list","data":[{"id":"x","new":{}},{"id":"x"},{"id":null}]}"#;
        assert_eq!(names(OpenAi, open).unwrap(), ["x"]);
        let both = r#"{"models":[{"name":"n"}],"object":"list","data":[{"id":"d"}]}"#;
        assert_eq!(
            names(OpenAi, both).unwrap(),
            ["d"],
            "llama-server sends both"
        );
        assert_eq!(names(Native, both).unwrap(), ["n"]);
        assert_eq!(names(OpenAi, native).unwrap(), ["a", "b:1"]);
        assert_eq!(names(Native, r#"{"models":[]}"#).unwrap(), [""; 0]);
        for no in [
            r#"{"error":"Unexpected endpoint"}"#,
            r#"{"models":null}"#,
            "[]",
            "<html>",
            "",
        ] {
            assert_eq!(names(Native, no), None, "{no}");
            assert_eq!(names(OpenAi, no), None, "{no}");
        }
    }

    #[test]
    fn a_router_owns_what_is_unloaded_and_not_what_failed() {
        let body = r#"{"object":"list","data":[
            {"id":"l","status":{"value":"loaded"},"meta":{"n_ctx":4096}},
            {"id":"u","status":{"value":"unloaded","args":["/secret"]}},
            {"id":"w","status":{"value":"loading"}},
            {"id":"f","status":{"value":"failed"}},
            {"id":"g","status":{"value":"unloaded","failed":true}}]}"#;
        let got = listing(OpenAi, body.as_bytes()).unwrap();
        assert_eq!(got.models, ["l", "u", "w"]);
        assert_eq!(got.warm, ["l"]);
        assert_eq!(got.context, [("l".to_owned(), 4096)]);
        assert!(got.router);
    }

    #[test]
    fn an_alias_is_owned_like_its_model() {
        let body = r#"{"object":"list","data":[{"id":"m","aliases":["m","fast"]}]}"#;
        let got = listing(OpenAi, body.as_bytes()).unwrap();
        assert_eq!(got.models, ["fast", "m"]);
        assert!(!got.router);
    }

    #[test]
    fn only_the_engines_own_shape_identifies_it() {
        for (shape, body, want) in [
            (Native, r#"{"models":[]}"#, true),
            (Native, r#"{"models":[{"name":"a"}]}"#, true),
            (Native, r#"{"models":["a"]}"#, false),
            (Native, r#"{"object":"list","data":[]}"#, false),
            (OpenAi, r#"{"object":"list","data":[{"id":"a"}]}"#, true),
            (OpenAi, r#"{"object":"list","data":[]}"#, true),
            (OpenAi, r#"{"data":[{"id":"a"}]}"#, false),
            (OpenAi, r#"{"object":"list","data":[{"name":"a"}]}"#, false),
            (
                OpenAi,
                r#"{"error":"Unexpected endpoint or method."}"#,
                false,
            ),
            (OpenAi, "Not Found", false),
        ] {
            assert_eq!(identifies(shape, body.as_bytes()), want, "{body}");
        }
    }

    #[test]
    fn loaded_models_are_told_per_engine() {
        let ps = br#"{"models":[{"name":"b","context_length":8192},{"model":"a"}]}"#;
        let got = running(ps).unwrap();
        assert_eq!(
            (got.warm, got.context),
            (vec!["a".into(), "b".into()], vec![("b".into(), 8192)])
        );
        let v0 = br#"{"data":[{"id":"a","state":"loaded","loaded_context_length":4096,
            "max_context_length":32768},{"id":"b","state":"not-loaded","max_context_length":8192}]}"#;
        let got = states(v0).unwrap();
        assert_eq!(got.warm, ["a"]);
        assert_eq!(got.context, [("a".into(), 4096), ("b".into(), 8192)]);
        assert_eq!(running(b"{}"), None);
        assert_eq!(states(br#"{"error":"x"}"#), None);
    }

    #[test]
    fn slots_are_told_by_properties_only() {
        assert_eq!(slots(br#"{"total_slots":4,"x":1}"#), Some(4));
        for no in [
            &br#"{"total_slots":0}"#[..],
            br#"{"total_slots":"4"}"#,
            b"{}",
            b"no",
        ] {
            assert_eq!(slots(no), None);
        }
    }
}
