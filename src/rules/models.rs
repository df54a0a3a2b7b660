//! Model lists: one node's, read strictly to be merged or leniently to be known; and their merge.
//!
//! Owns: the two envelopes, a record's identity, the order of a merge, what a probe reads of a list.
//! Leaves to others: whom to ask, which answers count, the statuses (`facade`), keeping (`state`).
//!
//! For a merge one bad record spoils its node's whole list, since a client could not tell a cut list
//! from a whole one. A probe takes what it can, since a node with one odd entry still serves. Records
//! go out as they came in, so that what an engine tells beyond our knowledge is not lost.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::Value;
use serde_json::value::RawValue;

use super::engine::{ListShape, Naming};

/// One model as one node lists it.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    key: String,
    digest: Option<String>,
    json: &'a RawValue,
}

impl Record<'_> {
    /// What tells it from other models: the id, or the normalised name.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The record as received.
    pub fn json(&self) -> &str {
        self.json.get()
    }
}

/// Why a node's list cannot be used. It carries nothing of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// It is no JSON object.
    #[error("the model list is no JSON object")]
    NoObject,
    /// The array of the asked shape is missing.
    #[error("the model list has no array of models")]
    NoArray,
    /// A record is no object, or its identity is no string.
    #[error("a record of the model list does not decode")]
    BadRecord,
    /// A record has no identity.
    #[error("a record of the model list has no identity")]
    NoIdentity,
}

/// Reads one node's list for a merge: all of it or nothing.
pub fn parse(body: &[u8], shape: ListShape, naming: Naming) -> Result<Vec<Record<'_>>, Unusable> {
    entries(body, shape)?
        .into_iter()
        .map(|json| {
            let fields = fields(json).ok_or(Unusable::BadRecord)?;
            Ok(Record {
                key: identity(&fields, shape, naming)?,
                // Only logged when it differs, so not worth a list.
                digest: text(&fields, "digest").ok().flatten(),
                json,
            })
        })
        .collect()
}

/// All nodes' models, each once.
#[derive(Clone, Debug, Default)]
pub struct Merged<'a> {
    /// In the order of the lists; of several records for one model, the first.
    pub records: Vec<Record<'a>>,
    /// Models of which the lists show different digests, to be logged.
    pub conflicts: BTreeSet<String>,
}

/// Merges lists that are in candidate order.
pub fn merge<'a>(lists: impl IntoIterator<Item = Vec<Record<'a>>>) -> Merged<'a> {
    let mut merged = Merged::default();
    let mut seen: HashMap<String, usize> = HashMap::new();
    for record in lists.into_iter().flatten() {
        let Some(&first) = seen.get(&record.key) else {
            seen.insert(record.key.clone(), merged.records.len());
            merged.records.push(record);
            continue;
        };
        let digests = (&merged.records[first].digest, &record.digest);
        let differ =
            matches!(digests, (Some(a), Some(b)) if a != b && !a.is_empty() && !b.is_empty());
        if differ {
            merged.conflicts.insert(record.key);
        }
    }
    merged
}

/// The engine's envelope around records, and nothing else.
pub fn render(shape: ListShape, records: &[Record<'_>]) -> Vec<u8> {
    // The envelope is the empty list, opened where its records go.
    let empty = shape.empty();
    let (head, end) = empty.split_at(empty.len() - "]}".len());
    let records: Vec<_> = records.iter().map(Record::json).collect();
    [head, &records.join(","), end].concat().into_bytes()
}

/// What a probe learns of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name as the engine writes it, trimmed.
    pub name: String,
    /// Other names by which a request may ask for it.
    pub aliases: Vec<String>,
    /// Whether it is in memory, where the list tells.
    pub loaded: Option<bool>,
    /// The engine tried to load it and could not.
    pub failed: bool,
    /// How much context it has: as loaded, else at most.
    pub context_length: Option<u64>,
}

/// Reads one node's list for a probe: every entry that has a name, each model once.
pub fn inventory(body: &[u8], shape: ListShape, naming: Naming) -> Result<Vec<Listed>, Unusable> {
    let mut seen = HashSet::new();
    let mut listed = Vec::new();
    for json in entries(body, shape)? {
        let Ok(entry) = serde_json::from_str::<Value>(json.get()) else {
            continue;
        };
        let name = |key: &&str| Some(entry.get(key)?.as_str()?.trim()).filter(|n| !n.is_empty());
        let Some(name) = identity_keys(shape).iter().find_map(name) else {
            continue;
        };
        if seen.insert(naming.normalize(name).into_owned()) {
            listed.push(Listed {
                name: name.to_owned(),
                aliases: aliases(&entry),
                loaded: loaded(&entry),
                failed: failed(&entry),
                context_length: context_length(&entry),
            });
        }
    }
    Ok(listed)
}

/// llama.cpp's router tells `status.value`, LM Studio `state`. Every other word means that it must
/// be loaded first; a sleeping model's memory is given back too.
fn loaded(entry: &Value) -> Option<bool> {
    let told = entry
        .pointer("/status/value")
        .or_else(|| entry.get("state"))?;
    Some(told.as_str()? == "loaded")
}

fn failed(entry: &Value) -> bool {
    let told = |path| entry.pointer(path);
    told("/status/failed") == Some(&Value::Bool(true))
        || told("/status/value").and_then(Value::as_str) == Some("failed")
}

fn aliases(entry: &Value) -> Vec<String> {
    let listed = entry.get("aliases").and_then(Value::as_array);
    let names = listed.into_iter().flatten().filter_map(Value::as_str);
    names
        .map(str::trim)
        .filter(|a| !a.is_empty())
        .map(str::to_owned)
        .collect()
}

fn context_length(entry: &Value) -> Option<u64> {
    [
        "/loaded_context_length",
        "/meta/n_ctx",
        "/context_length",
        "/max_context_length",
        // vLLM.
        "/max_model_len",
    ]
    .iter()
    .find_map(|path| entry.pointer(path)?.as_u64().filter(|&length| length > 0))
}

/// The entries of the shape's array. llama-server sends the arrays of both shapes in one body.
fn entries(body: &[u8], shape: ListShape) -> Result<Vec<&RawValue>, Unusable> {
    let top: BTreeMap<String, &RawValue> =
        serde_json::from_slice(body).map_err(|_| Unusable::NoObject)?;
    let array = match shape {
        ListShape::Native => "models",
        ListShape::OpenAi => "data",
    };
    let array = top.get(array).ok_or(Unusable::NoArray)?;
    serde_json::from_str(array.get()).map_err(|_| Unusable::NoArray)
}

fn fields(json: &RawValue) -> Option<BTreeMap<String, &RawValue>> {
    serde_json::from_str(json.get()).ok()
}

fn identity_keys(shape: ListShape) -> &'static [&'static str] {
    match shape {
        ListShape::Native => &["model", "name"],
        ListShape::OpenAi => &["id"],
    }
}

/// The OpenAI id counts byte for byte even where names do not.
fn identity(
    fields: &BTreeMap<String, &RawValue>,
    shape: ListShape,
    naming: Naming,
) -> Result<String, Unusable> {
    let mut key = None;
    for name in identity_keys(shape) {
        // Read all of them, since one of a wrong kind spoils the record.
        let text = text(fields, name)?.unwrap_or_default();
        let text = match shape {
            ListShape::Native => naming.normalize(&text).into_owned(),
            ListShape::OpenAi => text,
        };
        key = key.or(Some(text).filter(|text| !text.is_empty()));
    }
    key.ok_or(Unusable::NoIdentity)
}

/// A field that is a string, null or absent.
fn text(fields: &BTreeMap<String, &RawValue>, key: &str) -> Result<Option<String>, Unusable> {
    let Some(json) = fields.get(key) else {
        return Ok(None);
    };
    serde_json::from_str(json.get()).map_err(|_| Unusable::BadRecord)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    use ListShape::{Native, OpenAi};
    use Naming::{Exact, ImpliedLatest};

    fn keys(body: &str, shape: ListShape, naming: Naming) -> Result<Vec<String>, Unusable> {
        let records = parse(body.as_bytes(), shape, naming)?;
        Ok(records.into_iter().map(|record| record.key).collect())
    }

    fn merged(bodies: &[&str], shape: ListShape) -> String {
        let lists = bodies
            .iter()
            .map(|body| parse(body.as_bytes(), shape, ImpliedLatest).unwrap());
        String::from_utf8(render(shape, &merge(lists).records)).unwrap()
    }

    #[test]
    fn the_first_record_of_a_model_wins_in_candidate_order() {
        let a = r#"{"object":"list","data":[{"id":"a","owned_by":"a"},{"id":"shared","owned_by":"first"}]}"#;
        let b = r#"{"data":[{"id":"shared","owned_by":"second"},{"id":"c","owned_by":"b"}],"x":1}"#;
        let want = r#"{"object":"list","data":[{"id":"a","owned_by":"a"},{"id":"shared","owned_by":"first"},{"id":"c","owned_by":"b"}]}"#;
        assert_eq!(merged(&[a, b], OpenAi), want);
    }

    #[test]
    fn native_names_meet_normalised_and_openai_ids_do_not() {
        let native = merged(
            &[
                r#"{"models":[{"name":"a"}]}"#,
                r#"{"models":[{"name":"x","model":"a:latest"}]}"#,
            ],
            Native,
        );
        assert_eq!(native, r#"{"models":[{"name":"a"}]}"#);
        let openai = merged(
            &[
                r#"{"data":[{"id":"a"}]}"#,
                r#"{"data":[{"id":"a:latest"}]}"#,
            ],
            OpenAi,
        );
        assert_eq!(
            openai,
            r#"{"object":"list","data":[{"id":"a"},{"id":"a:latest"}]}"#
        );
    }

    #[test]
    fn records_are_sent_as_they_were_received() {
        let record =
            r#"{ "id" : "a",  "big":12345678901234567890.10, "e":"\u00e9", "id2":{"z":1,"a":[ ]}}"#;
        let body = format!("\n{{\"data\":[ {record} ,{{\"id\":\"b\"}}]}}");
        assert_eq!(
            merged(&[&body], OpenAi),
            format!(r#"{{"object":"list","data":[{record},{{"id":"b"}}]}}"#)
        );
    }

    #[test]
    fn no_record_is_the_engines_empty_list() {
        for (shape, body) in [(Native, r#"{"models":[]}"#), (OpenAi, r#"{"data":[]}"#)] {
            assert_eq!(merged(&[body], shape), shape.empty());
            assert_eq!(merged(&[], shape), shape.empty());
        }
    }

    #[test]
    fn only_the_array_of_the_shape_is_read() {
        let both = r#"{"models":[{"name":"n"}],"object":"list","data":[{"id":"d"}]}"#;
        assert_eq!(keys(both, OpenAi, Exact), Ok(vec!["d".to_owned()]));
        assert_eq!(keys(both, Native, Exact), Ok(vec!["n".to_owned()]));
        let odd = r#"{"models":[3],"data":[{"id":"d"}]}"#;
        assert_eq!(keys(odd, OpenAi, Exact), Ok(vec!["d".to_owned()]));
    }

    #[test]
    fn a_body_without_the_array_is_unusable() {
        for (body, why) in [
            ("", Unusable::NoObject),
            ("not json", Unusable::NoObject),
            ("null", Unusable::NoObject),
            ("[]", Unusable::NoObject),
            (r#"[{"id":"a"}]"#, Unusable::NoObject),
            ("{malformed", Unusable::NoObject),
            (r#"{"data":[]} x"#, Unusable::NoObject),
            (r#"{"data":[}"#, Unusable::NoObject),
            ("{}", Unusable::NoArray),
            (r#"{"models":[]}"#, Unusable::NoArray),
            (r#"{"data":null}"#, Unusable::NoArray),
            (r#"{"data":{}}"#, Unusable::NoArray),
            (r#"{"data":"a"}"#, Unusable::NoArray),
        ] {
            assert_eq!(keys(body, OpenAi, Exact), Err(why), "{body}");
            assert_eq!(
                inventory(body.as_bytes(), OpenAi, Exact),
                Err(why),
                "{body}"
            );
        }
    }

    #[test]
    fn one_bad_record_spoils_the_list_but_not_the_probe() {
        for (record, why) in [
            ("3", Unusable::BadRecord),
            ("null", Unusable::BadRecord),
            (r#"["a"]"#, Unusable::BadRecord),
            (r#""a""#, Unusable::BadRecord),
            (r#"{"id":3}"#, Unusable::BadRecord),
            (r#"{"id":["a"]}"#, Unusable::BadRecord),
            ("{}", Unusable::NoIdentity),
            (r#"{"id":null}"#, Unusable::NoIdentity),
            (r#"{"id":""}"#, Unusable::NoIdentity),
            (r#"{"name":"a","model":"a"}"#, Unusable::NoIdentity),
        ] {
            for body in [
                format!(r#"{{"data":[{{"id":"good"}},{record}]}}"#),
                format!(r#"{{"data":[{record},{{"id":"good"}}]}}"#),
            ] {
                assert_eq!(keys(&body, OpenAi, Exact), Err(why), "{body}");
                let listed = inventory(body.as_bytes(), OpenAi, Exact).unwrap();
                assert_eq!(listed.len(), 1, "{body}");
                assert_eq!(listed[0].name, "good");
            }
        }
    }

    #[test]
    fn a_native_record_is_known_by_its_model_or_else_its_name() {
        for (record, want) in [
            (r#"{"model":"m","name":"n"}"#, Ok("m:latest")),
            (r#"{"name":"n","model":""}"#, Ok("n:latest")),
            (r#"{"name":"n","model":"  "}"#, Ok("n:latest")),
            (r#"{"name":"n","model":null}"#, Ok("n:latest")),
            (r#"{"name":" n:1 "}"#, Ok("n:1")),
            (r#"{"model":"m","model":"k"}"#, Ok("k:latest")),
            (r#"{"id":"a"}"#, Err(Unusable::NoIdentity)),
            (r#"{"name":" ","model":""}"#, Err(Unusable::NoIdentity)),
            (r#"{"model":"m","name":1}"#, Err(Unusable::BadRecord)),
        ] {
            let body = format!(r#"{{"models":[{record}]}}"#);
            let want = want.map(|key| vec![key.to_owned()]);
            assert_eq!(keys(&body, Native, ImpliedLatest), want, "{body}");
        }
    }

    #[test]
    fn an_openai_id_is_taken_verbatim() {
        let body = r#"{"data":[{"id":" a "},{"id":"A"},{"id":"a"},{"id":"\u0061"}]}"#;
        let want = [" a ", "A", "a", "a"].map(str::to_owned).to_vec();
        assert_eq!(keys(body, OpenAi, ImpliedLatest), Ok(want));
    }

    #[test]
    fn different_digests_of_a_model_are_told() {
        let body = |digest: &str| {
            format!(r#"{{"models":[{{"name":"a"{digest}}},{{"name":"b","digest":"z"}}]}}"#)
        };
        let bodies = [
            r#","digest":"1""#,
            r#","digest":"1""#,
            "",
            r#","digest":"""#,
            r#","digest":7"#,
        ];
        let bodies = bodies.map(body);
        let list = |body| parse(str::as_bytes(body), Native, Exact).unwrap();
        assert!(
            merge(bodies.iter().map(|body| list(body)))
                .conflicts
                .is_empty()
        );
        let lists = [&bodies[3], &bodies[0]].map(|body| list(body));
        assert!(merge(lists).conflicts.is_empty());
        let other = body(r#","digest":"2""#);
        let lists = [&bodies[0], &other, &other].map(|body| list(body));
        assert_eq!(merge(lists).conflicts, BTreeSet::from(["a".to_owned()]));
    }

    #[test]
    fn a_probe_reads_load_state_and_context() {
        let listed = |entry: &str| {
            let body = format!(r#"{{"data":[{{"id":"a",{entry}}}]}}"#);
            let listed = inventory(body.as_bytes(), OpenAi, Exact).unwrap().remove(0);
            (listed.loaded, listed.failed, listed.context_length)
        };
        for (entry, want) in [
            (r#""object":"model""#, (None, false, None)),
            (
                r#""status":{"value":"loaded","args":["-m"]}"#,
                (Some(true), false, None),
            ),
            (
                r#""status":{"value":"unloaded"}"#,
                (Some(false), false, None),
            ),
            (
                r#""status":{"value":"loading"}"#,
                (Some(false), false, None),
            ),
            (
                r#""status":{"value":"unloaded","failed":true,"exit_code":1}"#,
                (Some(false), true, None),
            ),
            (
                r#""status":{"value":"sleeping","failed":false}"#,
                (Some(false), false, None),
            ),
            (r#""status":{"value":"failed"}"#, (Some(false), true, None)),
            (r#""status":"loaded""#, (None, false, None)),
            (
                r#""state":"loaded","max_context_length":8,"loaded_context_length":4"#,
                (Some(true), false, Some(4)),
            ),
            (
                r#""state":"not-loaded","max_context_length":8"#,
                (Some(false), false, Some(8)),
            ),
            (
                r#""meta":{"n_ctx":4096,"n_ctx_train":8192}"#,
                (None, false, Some(4096)),
            ),
            (r#""context_length":2048"#, (None, false, Some(2048))),
            (
                r#""meta":null,"context_length":-1,"max_context_length":"8""#,
                (None, false, None),
            ),
            (
                r#""loaded_context_length":0,"max_context_length":8"#,
                (None, false, Some(8)),
            ),
        ] {
            assert_eq!(listed(entry), want, "{entry}");
        }
    }

    #[test]
    fn a_probe_lists_each_model_once_as_the_engine_writes_it() {
        let body = r#"{"models":[{"name":" A "},{"model":"a"},{"name":"x","model":"a:latest"},{"model":3,"name":"b"}]}"#;
        let names = |naming| -> Vec<_> {
            let listed = inventory(body.as_bytes(), Native, naming).unwrap();
            listed.into_iter().map(|listed| listed.name).collect()
        };
        assert_eq!(names(ImpliedLatest), ["A", "a", "b"]);
        assert_eq!(names(Exact), ["A", "a", "a:latest", "b"]);
    }

    #[test]
    fn deep_records_need_no_stack() {
        let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
        let body = format!(r#"{{"data":[{{"id":"a","x":{deep}}}]}}"#);
        assert_eq!(keys(&body, OpenAi, Exact), Ok(vec!["a".to_owned()]));
        assert_eq!(inventory(body.as_bytes(), OpenAi, Exact), Ok(vec![]));
    }

    /// A node's list of few models, so that nodes share some.
    fn body() -> impl Strategy<Value = String> {
        let record = ("[a-d]", 0..100u8).prop_map(|(id, n)| format!(r#"{{"id":"{id}","n":{n}}}"#));
        proptest::collection::vec(record, 0..6)
            .prop_map(|records| format!(r#"{{"data":[{}]}}"#, records.join(",")))
    }

    fn list(body: &str) -> Vec<Record<'_>> {
        parse(body.as_bytes(), OpenAi, Exact).unwrap()
    }

    fn shown(records: &[Record<'_>]) -> Vec<(String, String)> {
        records
            .iter()
            .map(|r| (r.key().to_owned(), r.json().to_owned()))
            .collect()
    }

    proptest! {
        #[test]
        fn merging_in_steps_is_merging_at_once(bodies in proptest::collection::vec(body(), 3)) {
            let [a, b, c] = [0, 1, 2].map(|i| list(&bodies[i]));
            let at_once = merge([a.clone(), b.clone(), c.clone()]).records;
            let left = merge([merge([a.clone(), b.clone()]).records, c.clone()]).records;
            let right = merge([a, merge([b, c]).records]).records;
            prop_assert_eq!(shown(&left), shown(&at_once));
            prop_assert_eq!(shown(&right), shown(&at_once));
        }

        #[test]
        fn merging_a_list_again_changes_nothing(a in body(), b in body()) {
            let once = merge([list(&a), list(&b)]).records;
            let twice = merge([list(&a), list(&b), list(&a), once.clone()]).records;
            prop_assert_eq!(shown(&twice), shown(&once));
        }

        #[test]
        fn every_model_is_there_once_with_its_first_record(
            bodies in proptest::collection::vec(body(), 0..4),
        ) {
            let all: Vec<_> = bodies.iter().flat_map(|body| list(body)).collect();
            let mut want: Vec<(String, String)> = Vec::new();
            for (key, json) in shown(&all) {
                if !want.iter().any(|(seen, _)| *seen == key) {
                    want.push((key, json));
                }
            }
            let merged = merge(bodies.iter().map(|body| list(body))).records;
            prop_assert_eq!(shown(&merged), want);
        }

        #[test]
        fn what_is_rendered_is_read_again(bodies in proptest::collection::vec(body(), 0..3)) {
            let merged = merge(bodies.iter().map(|body| list(body))).records;
            let out = render(OpenAi, &merged);
            let again = parse(&out, OpenAi, Exact).unwrap();
            prop_assert_eq!(shown(&again), shown(&merged));
        }

        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let body = [b"{\"data\":[", &bytes[..], b"]}"].concat();
            let strict = parse(&body, OpenAi, Exact).map(|list| list.len());
            let lenient = inventory(&body, OpenAi, Exact).map(|list| list.len());
            prop_assert!(lenient.is_ok() || strict.is_err());
        }
    }
}
