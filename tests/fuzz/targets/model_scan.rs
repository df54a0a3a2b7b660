//! The model of a body: as serde_json has it, and however the body is cut.

#![no_main]

use std::fmt;

use libfuzzer_sys::fuzz_target;
use nvpair_proxy::rules::model_scan::{ModelScan, scan};
use nvpair_proxy_fuzz::PIECES;
use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Long names are nobody's, and an escape takes six bytes.
const SHORT: usize = 4096 / 6;

fuzz_target!(|body: &[u8]| {
    let found = scan(body);
    for size in PIECES {
        let mut cut = ModelScan::new();
        body.chunks(size).for_each(|piece| cut.push(piece));
        assert_eq!(cut.finish(), found, "in pieces of {size}");
    }
    if let Some(wanted) = oracle(body) {
        assert_eq!(found, wanted);
    }
});

/// What serde_json says, or nothing where it is stricter or laxer than the rule.
fn oracle(body: &[u8]) -> Option<Option<String>> {
    let text = std::str::from_utf8(body).ok()?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match serde_json::from_str::<Model>(text) {
        Ok(Model(Some(name))) if name.len() > SHORT => None,
        Ok(Model(name)) => Some(name.filter(|name| !name.trim().is_empty())),
        Err(e) => {
            let why = e.to_string();
            let apart = [
                "surrogate",
                "unexpected end of hex escape",
                "recursion limit",
            ];
            (!apart.iter().any(|a| why.contains(a))).then_some(None)
        },
    }
}

struct Model(Option<String>);

impl<'de> Deserialize<'de> for Model {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Top;
        impl<'de> Visitor<'de> for Top {
            type Value = Model;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Model, A::Error> {
                let mut name = None;
                while let Some(key) = map.next_key::<String>()? {
                    if !key.eq_ignore_ascii_case("model") {
                        map.next_value::<IgnoredAny>()?;
                    } else if let Text(Some(text)) = map.next_value()? {
                        name = Some(text);
                    }
                }
                Ok(Model(name))
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
