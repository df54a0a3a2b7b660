//! What an engine tells about itself, as far as a probe wants to know (what users report: R65, R67,
//! R71, R75).
//!
//! Owns: what is owned, what is warm, slots, and whether a body is of the engine's shape at all.
//! Leaves to others: reading a list (`models`), asking (`net::probe`), what a node then is
//! (`director::standing`).
//!
//! A list is never refused for an entry or a field that is not understood; it is refused when it
//! has no list at all, since engines exist that answer 200 with an error text to anything.

use serde_json::Value;

use crate::rules::engine::{EngineId, ListShape, Naming};
use crate::rules::models::{self, Listed};

/// What one complete probe told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Models; `None` where the node answered but has no list (its models are configured).
    pub models: Option<Vec<String>>,
    /// Models in memory; `None` = not told this time.
    pub warm: Option<Vec<String>>,
    /// Parallel requests; `None` = not told this time.
    pub slots: Option<u32>,
    /// Context length by model.
    pub context: Vec<(String, u64)>,
}

/// Why a probe told nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Miss {
    /// It did not answer as it should; it may the next time.
    Silent(String),
    /// It is a facade of a proxy like us. Sending there could come back to us, so that it is no
    /// candidate from the first such answer on.
    Facade,
}

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

/// Reads an engine's inventory. `None` if there is no list in it. The other shape is read where the
/// engine's own is absent: llama-server sends both.
pub fn listing(engine: EngineId, body: &[u8]) -> Option<Listing> {
    let shapes = match engine.spec().inventory.shape {
        ListShape::Native => [ListShape::Native, ListShape::OpenAi],
        ListShape::OpenAi => [ListShape::OpenAi, ListShape::Native],
    };
    let naming = engine.spec().naming;
    let entries = shapes
        .into_iter()
        .find_map(|shape| models::inventory(body, shape, naming).ok())?;
    let router = entries.iter().any(|e| e.loaded.is_some());
    // One that could not be loaded has no owner here until that changes.
    let owned: Vec<_> = entries.into_iter().filter(|e| !e.failed).collect();
    Some(Listing {
        models: names(owned.iter()),
        warm: names(owned.iter().filter(|e| e.loaded == Some(true))),
        context: context(&owned),
        router,
    })
}

/// Reads the list of a server that speaks OpenAI's API and is no engine of the table.
pub fn open_listing(body: &[u8]) -> Option<Listing> {
    let entries = models::inventory(body, ListShape::OpenAi, Naming::Exact).ok()?;
    Some(Listing {
        models: names(entries.iter()),
        context: context(&entries),
        ..Listing::default()
    })
}

/// Whether a body is the engine's own list and nothing else: what identifies an engine nobody
/// named. Stricter than [`listing`], since something else may listen on the port.
pub fn identifies(engine: EngineId, body: &[u8]) -> bool {
    let spec = engine.spec();
    let enveloped = match spec.inventory.shape {
        ListShape::Native => true,
        ListShape::OpenAi => serde_json::from_slice::<Value>(body)
            .is_ok_and(|d| d.get("object") == Some(&Value::from("list"))),
    };
    enveloped && models::parse(body, spec.inventory.shape, spec.naming).is_ok()
}

/// What is in an engine's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Models; sorted, each once.
    pub warm: Vec<String>,
    /// Context length by model, where told.
    pub context: Vec<(String, u64)>,
}

/// Ollama's list of running models: all of them are in memory.
pub fn running(engine: EngineId, body: &[u8]) -> Option<Loaded> {
    loaded(engine, ListShape::Native, body, |_| true)
}

/// LM Studio's list with states.
pub fn states(engine: EngineId, body: &[u8]) -> Option<Loaded> {
    loaded(engine, ListShape::OpenAi, body, |e| e.loaded == Some(true))
}

fn loaded(
    engine: EngineId,
    shape: ListShape,
    body: &[u8],
    warm: impl Fn(&&Listed) -> bool,
) -> Option<Loaded> {
    let entries = models::inventory(body, shape, engine.spec().naming).ok()?;
    Some(Loaded {
        warm: names(entries.iter().filter(warm)),
        context: context(&entries),
    })
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

/// The names of models, aliases too: without them an alias would have no owner. Engines order their
/// lists by use; sorted, a list changes only when its content does.
fn names<'a>(entries: impl Iterator<Item = &'a Listed>) -> Vec<String> {
    let of = |e: &'a Listed| std::iter::once(&e.name).chain(&e.aliases).cloned();
    let mut names: Vec<String> = entries.flat_map(of).collect();
    names.sort();
    names.dedup();
    names
}

fn context(entries: &[Listed]) -> Vec<(String, u64)> {
    let told = |e: &Listed| Some((e.name.clone(), e.context_length?));
    let mut context: Vec<_> = entries.iter().filter_map(told).collect();
    context.sort();
    context
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(id: &str) -> EngineId {
        EngineId::parse(id).unwrap()
    }

    /// Ollama's list is of the native shape, llama.cpp's of the other.
    const NATIVE: &str = "ollama";
    const OPEN: &str = "llamacpp";

    fn names(id: &str, body: &str) -> Option<Vec<String>> {
        listing(engine(id), body.as_bytes()).map(|l| l.models)
    }

    #[test]
    fn lists_are_read_in_either_shape_and_odd_entries_are_skipped() {
        let native =
            r#"{"models":[{"name":"b:1","model":"b:1"},{"name":"a"},{"x":1},7,{"name":""}]}"#;
        assert_eq!(names(NATIVE, native).unwrap(), ["a", "b:1"]);
        let open = r#"{"object":"list","data":[{"id":"x","new":{}},{"id":"x"},{"id":null}]}"#;
        assert_eq!(names(OPEN, open).unwrap(), ["x"]);
        let both = r#"{"models":[{"name":"n"}],"object":"list","data":[{"id":"d"}]}"#;
        assert_eq!(names(OPEN, both).unwrap(), ["d"], "llama-server sends both");
        assert_eq!(names(NATIVE, both).unwrap(), ["n"]);
        assert_eq!(names(OPEN, native).unwrap(), ["a", "b:1"]);
        assert_eq!(names(NATIVE, r#"{"models":[]}"#).unwrap(), [""; 0]);
        for no in [
            r#"{"error":"Unexpected endpoint"}"#,
            r#"{"models":null}"#,
            "[]",
            "<html>",
            "",
        ] {
            assert_eq!(names(NATIVE, no), None, "{no}");
            assert_eq!(names(OPEN, no), None, "{no}");
        }
    }

    #[test]
    fn a_router_owns_what_is_unloaded_and_not_what_failed() {
        let body = r#"{"object":"list","data":[
            {"id":"l","status":{"value":"loaded"},"meta":{"n_ctx":4096}},
            {"id":"u","status":{"value":"unloaded","args":["/secret"]}},
            {"id":"w","status":{"value":"loading"}},
            {"id":"s","status":{"value":"sleeping"}},
            {"id":"f","status":{"value":"failed"}},
            {"id":"g","status":{"value":"unloaded","failed":true}}]}"#;
        let got = listing(engine(OPEN), body.as_bytes()).unwrap();
        assert_eq!(got.models, ["l", "s", "u", "w"]);
        assert_eq!(got.warm, ["l"]);
        assert_eq!(got.context, [("l".to_owned(), 4096)]);
        assert!(got.router);
    }

    #[test]
    fn an_alias_is_owned_like_its_model() {
        let body = r#"{"object":"list","data":[{"id":"m","aliases":["m","fast"]}]}"#;
        let got = listing(engine(OPEN), body.as_bytes()).unwrap();
        assert_eq!(got.models, ["fast", "m"]);
        assert!(!got.router);
    }

    #[test]
    fn only_the_engines_own_shape_identifies_it() {
        for (id, body, want) in [
            (NATIVE, r#"{"models":[]}"#, true),
            (NATIVE, r#"{"models":[{"name":"a"}]}"#, true),
            (NATIVE, r#"{"models":["a"]}"#, false),
            (NATIVE, r#"{"object":"list","data":[]}"#, false),
            (OPEN, r#"{"object":"list","data":[{"id":"a"}]}"#, true),
            (OPEN, r#"{"object":"list","data":[]}"#, true),
            (OPEN, r#"{"data":[{"id":"a"}]}"#, false),
            (OPEN, r#"{"object":"list","data":[{"name":"a"}]}"#, false),
            (OPEN, r#"{"error":"Unexpected endpoint or method."}"#, false),
            (OPEN, "Not Found", false),
        ] {
            assert_eq!(identifies(engine(id), body.as_bytes()), want, "{body}");
        }
    }

    #[test]
    fn loaded_models_are_told_per_engine() {
        let ps = br#"{"models":[{"name":"b","context_length":8192},{"model":"a"}]}"#;
        let got = running(engine(NATIVE), ps).unwrap();
        assert_eq!(
            (got.warm, got.context),
            (vec!["a".into(), "b".into()], vec![("b".into(), 8192)])
        );
        let v0 = br#"{"data":[{"id":"a","state":"loaded","loaded_context_length":4096,
            "max_context_length":32768},{"id":"b","state":"not-loaded","max_context_length":8192}]}"#;
        let got = states(engine("lmstudio"), v0).unwrap();
        assert_eq!(got.warm, ["a"]);
        assert_eq!(got.context, [("a".into(), 4096), ("b".into(), 8192)]);
        assert_eq!(running(engine(NATIVE), b"{}"), None);
        assert_eq!(states(engine("lmstudio"), br#"{"error":"x"}"#), None);
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
