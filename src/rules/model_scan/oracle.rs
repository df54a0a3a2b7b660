//! The rule of the scan over serde_json's reader, to compare the scan with.
//!
//! Owns: which `model` counts. Leaves to others: where serde_json is stricter or laxer than the rule.
//! The tests and the fuzz target read this one file.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The same rules over serde_json's reader.
pub(super) struct Oracle(pub(super) Option<String>);

impl<'de> Deserialize<'de> for Oracle {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Top;
        impl<'de> Visitor<'de> for Top {
            type Value = Oracle;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Oracle, A::Error> {
                let mut name = None;
                while let Some(key) = map.next_key::<String>()? {
                    if !key.eq_ignore_ascii_case("model") {
                        map.next_value::<IgnoredAny>()?;
                    } else if let Text(Some(text)) = map.next_value()? {
                        name = Some(text);
                    }
                }
                Ok(Oracle(name))
            }
        }
        d.deserialize_map(Top)
    }
}

/// A string or null; anything else is an error.
struct Text(Option<String>);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Text;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(Some(text.to_owned())))
            }
            fn visit_unit<E: de::Error>(self) -> Result<Text, E> {
                Ok(Text(None))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Text, A::Error> {
                Err(de::Error::custom("a list"))
            }
        }
        d.deserialize_any(Any)
    }
}
