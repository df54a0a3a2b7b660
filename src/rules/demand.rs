//! How many tokens a request may need (product section 7): an estimate, for nodes that refuse what
//! does not fit their context.
//!
//! Owns: what of a body is text, and the bounds of an answer. Leaves to others: the model
//! (`model_scan`), what fits (`candidates`).
//!
//! Read only where a candidate tells its context or a key counts tokens, so that it may cost a second
//! look at the body.
//! Nothing of the body is kept.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Bytes of text that make a token, roughly, in most languages.
const BYTES_A_TOKEN: u64 = 4;

/// Keys whose text is not read by the model as text: names, kinds, encoded images and sound.
const NOT_TEXT: [&str; 10] = [
    "model",
    "role",
    "type",
    "url",
    "image_url",
    "data",
    "images",
    "format",
    "id",
    "keep_alive",
];

/// Keys at the top that bound the answer.
const BOUNDS: [&str; 3] = ["max_tokens", "max_completion_tokens", "max_output_tokens"];

/// Tokens that a request may need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Of input, by its text.
    pub input: u64,
    /// Of the answer at most; 0 = no bound was said.
    pub output: u64,
}

impl Demand {
    /// Both.
    pub fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

/// What the request of this body may need. Nothing for a body that cannot be read.
pub fn estimate(body: &[u8]) -> Demand {
    let mut found = Found::default();
    let mut json = serde_json::Deserializer::from_slice(body);
    // What was found before a mistake is as good an estimate.
    let _ = Value {
        found: &mut found,
        at: At::Top,
    }
    .deserialize(&mut json);
    Demand {
        input: found.text.div_ceil(BYTES_A_TOKEN),
        output: found.output,
    }
}

#[derive(Debug, Default)]
struct Found {
    text: u64,
    output: u64,
}

/// Where a value stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Top,
    /// In Ollama's `options`.
    Options,
    /// A bound of the answer.
    Bound,
    Elsewhere,
}

struct Value<'a> {
    found: &'a mut Found,
    at: At,
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        if !text.starts_with("data:") {
            self.found.text += text.len() as u64;
        }
        Ok(())
    }

    fn visit_u64<E>(self, n: u64) -> Result<(), E> {
        if self.at == At::Bound {
            self.found.output = self.found.output.max(n);
        }
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        loop {
            let next = seq.next_element_seed(Value {
                found: &mut *self.found,
                at: At::Elsewhere,
            })?;
            if next.is_none() {
                return Ok(());
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            if NOT_TEXT.contains(&&*key) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let at = match self.at {
                At::Top if BOUNDS.contains(&&*key) => At::Bound,
                At::Top if key == "options" => At::Options,
                At::Options if key == "num_predict" => At::Bound,
                _ => At::Elsewhere,
            };
            map.next_value_seed(Value {
                found: &mut *self.found,
                at,
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_counts_by_four_bytes_and_the_answer_by_its_bound() {
        for (body, want) in [
            (r#"{"model":"m","prompt":"12345678"}"#, 2),
            (r#"{"model":"m","prompt":"123456789"}"#, 3),
            (r#"{"prompt":"1234","max_tokens":100}"#, 101),
            (
                r#"{"prompt":"","max_completion_tokens":7,"max_tokens":5}"#,
                7,
            ),
            (r#"{"input":["1234","1234"],"max_output_tokens":3}"#, 5),
            (
                r#"{"prompt":"1234","options":{"num_predict":9,"num_ctx":4096}}"#,
                10,
            ),
            // Ollama's "no bound" bounds nothing.
            (r#"{"prompt":"1234","options":{"num_predict":-1}}"#, 1),
            // A bound elsewhere is no bound.
            (r#"{"prompt":"1234","metadata":{"max_tokens":900}}"#, 1),
            (r#"{"messages":[{"role":"user","content":"12345678"}]}"#, 2),
            (
                r#"{"messages":[{"role":"user","content":[{"type":"text","text":"1234"},
                {"type":"image_url","image_url":{"url":"data:image/png;base64,AAAAAAAA"}}]}]}"#,
                1,
            ),
            (
                r#"{"messages":[{"content":"1234","images":["AAAAAAAAAAAAAAAA"]}]}"#,
                1,
            ),
            (r#"{"input":"data:image/png;base64,AAAA"}"#, 0),
            (r#"{"prompt":"1234","#, 1),
            ("nonsense", 0),
            ("", 0),
        ] {
            assert_eq!(estimate(body.as_bytes()).total(), want, "{body}");
        }
    }

    #[test]
    fn deep_nesting_ends_the_look_and_nothing_else() {
        let deep = "[".repeat(1_000_000);
        assert_eq!(estimate(deep.as_bytes()), Demand::default());
    }
}
