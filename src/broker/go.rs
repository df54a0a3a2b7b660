//! Parameters read as the original's library reads them (control-plane facts, transport).
//!
//! Owns: the lenient rules, in one place: a field's name matches in any ASCII case, the last
//! duplicate wins, unknown fields are skipped, `null` is the zero value, an integer is a plain
//! integer literal. Leaves to others: which fields a method has (`decode`).
//!
//! serde's derive can express none of the first, third and fourth rule together, and the broker
//! relies on them; so objects are split into raw members once and each member is read by type.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of a JSON object with these names, in the order of `names`; `None` where absent.
/// Returns `None` for anything that is not an object.
pub fn members<'a, const N: usize>(
    text: &'a str,
    names: [&'static str; N],
) -> Option<[Option<&'a RawValue>; N]> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let found = deserializer.deserialize_map(Members(&names)).ok()?;
    deserializer.end().ok()?;
    Some(found)
}

/// Reads a member: absent and `null` are the zero value; `None` if it is of another type.
pub fn value<T: Go>(member: Option<&RawValue>) -> Option<T> {
    match member.map(RawValue::get) {
        None | Some("null") => Some(T::default()),
        Some(text) => T::read(text),
    }
}

/// A type with the original's reading rules; its default is its zero value.
pub trait Go: Default {
    /// Reads a JSON value that is not `null`; `None` if it is of another type.
    fn read(text: &str) -> Option<Self>;
}

impl Go for String {
    fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

impl Go for bool {
    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

// A JSON number that Rust parses as an integer has neither fraction nor exponent.
impl Go for i64 {
    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Go for u64 {
    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl<T: Go> Go for Option<T> {
    fn read(text: &str) -> Option<Self> {
        T::read(text).map(Some)
    }
}

impl<T: Go> Go for Vec<T> {
    fn read(text: &str) -> Option<Self> {
        let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
        items.into_iter().map(|item| value(Some(item))).collect()
    }
}

/// Keys of a map are data, so their case counts, unlike that of field names.
impl<T: Go> Go for BTreeMap<String, T> {
    fn read(text: &str) -> Option<Self> {
        let items: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
        items
            .into_iter()
            .map(|(key, item)| Some((key, value(Some(item))?)))
            .collect()
    }
}

/// Splits an object; keeps nothing of members that nobody asked for.
struct Members<'n, const N: usize>(&'n [&'static str; N]);

impl<'de, const N: usize> Visitor<'de> for Members<'_, N> {
    type Value = [Option<&'de RawValue>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = [None; N];
        while let Some(position) = map.next_key_seed(Position(self.0))? {
            match position {
                Some(i) => found[i] = Some(map.next_value()?),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }
}

/// Where a key stands among the wanted names.
struct Position<'n>(&'n [&'static str]);

impl<'de> DeserializeSeed<'de> for Position<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_str(self)
    }
}

impl Visitor<'_> for Position<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self
            .0
            .iter()
            .position(|name| name.eq_ignore_ascii_case(key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Go>(text: &str) -> Option<T> {
        let raw: &RawValue = serde_json::from_str(text).unwrap();
        value(Some(raw))
    }

    #[test]
    fn names_match_in_any_case_and_the_last_duplicate_wins() {
        let [a, b] = members(
            r#"{"PORT":1,"other":{"port":9},"po\u0072t":2,"ID":"x"}"#,
            ["port", "id"],
        )
        .unwrap();
        assert_eq!(value::<i64>(a), Some(2));
        assert_eq!(value::<String>(b).as_deref(), Some("x"));
    }

    #[test]
    fn only_a_whole_object_has_members() {
        for text in ["[]", "1", "\"x\"", "null", "", "{", "{} x", "{\"a\":}"] {
            assert!(members(text, ["a"]).is_none(), "{text}");
        }
        assert_eq!(members("{}", ["a"]).unwrap()[0].map(RawValue::get), None);
    }

    #[test]
    fn absent_and_null_are_the_zero_value() {
        assert_eq!(value::<i64>(None), Some(0));
        assert_eq!(read::<i64>("null"), Some(0));
        assert_eq!(read::<String>("null"), Some(String::new()));
        assert_eq!(read::<bool>("null"), Some(false));
        assert_eq!(read::<Vec<String>>("null"), Some(vec![]));
        assert_eq!(read::<Option<Vec<String>>>("null"), Some(None));
        assert_eq!(
            read::<Vec<String>>(r#"["a",null]"#),
            Some(vec!["a".into(), String::new()])
        );
    }

    #[test]
    fn an_integer_is_a_plain_integer_literal() {
        assert_eq!(read::<i64>("-7"), Some(-7));
        assert_eq!(read::<u64>("18446744073709551615"), Some(u64::MAX));
        for text in [
            "1.0",
            "1e3",
            "\"1\"",
            "true",
            "[1]",
            "{}",
            "9223372036854775808",
        ] {
            assert_eq!(read::<i64>(text), None, "{text}");
        }
        for text in ["-1", "1.5", "18446744073709551616"] {
            assert_eq!(read::<u64>(text), None, "{text}");
        }
    }

    #[test]
    fn another_type_does_not_decode() {
        assert_eq!(read::<String>("1"), None);
        assert_eq!(read::<bool>("\"true\""), None);
        assert_eq!(read::<bool>("0"), None);
        assert_eq!(read::<Vec<String>>(r#"["a",1]"#), None);
        assert_eq!(read::<Vec<String>>(r#"{"a":1}"#), None);
        assert_eq!(read::<BTreeMap<String, i64>>("[]"), None);
    }

    #[test]
    fn keys_of_a_map_keep_their_case() {
        let map: BTreeMap<String, i64> = read(r#"{"ol":1,"OL":2,"ol":3,"x":null}"#).unwrap();
        let want = [("OL", 2), ("ol", 3), ("x", 0)].map(|(k, v)| (k.to_owned(), v));
        assert_eq!(map, BTreeMap::from(want));
    }
}
