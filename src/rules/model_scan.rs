//! The model's name out of a request body (spec §5, product rules 13.27).
//!
//! Owns: a push validator of JSON that reads a body in whatever pieces it arrives, and keeps nothing
//! of it but the top-level `model`. Leaves to others: what the name means (`engine`), the bytes.
//!
//! The whole body is validated, since a broken one has no model: an engine that repairs it may read
//! another name than we did. Depth is a bit a level on the heap, because any local client may send
//! millions of brackets, and strings are skipped in blocks, because prompts are nearly all of a body.

/// A longer model name than this is no model's name.
const NAME_LIMIT: usize = 4096;
/// One character of a decoded string takes at most six bytes as an escape.
const ESCAPE: usize = 6;
/// The key that is looked for.
const KEY: &str = "model";
/// The byte order mark that some clients begin with.
const MARK: &[u8] = &[0xEF, 0xBB, 0xBF];
/// As many as the digits of an escape; which ones they are does not matter.
const DIGITS: &[u8] = &[0; 4];
/// White space skipped a word at a time: what deep indentation is made of.
const BLANKS: u64 = 0x2020_2020_2020_2020;

/// The model that `body` asks for; see [`ModelScan::finish`].
pub fn scan(body: &[u8]) -> Option<String> {
    let mut scan = ModelScan::new();
    scan.push(body);
    scan.finish()
}

/// Reads a request body as it arrives.
#[derive(Debug)]
pub struct ModelScan {
    state: State,
    /// What must still come of a byte order mark, a literal, or (as a length) an escape's digits.
    due: &'static [u8],
    nest: Nest,
    /// What the string being read is.
    role: Role,
    /// The key just read was the one looked for, and its value is next.
    matched: bool,
    /// The part of the string being read that came in earlier pieces, still escaped.
    raw: Vec<u8>,
    /// `raw` is incomplete because the string is too long to be of use.
    overlong: bool,
    found: Found,
}

/// What the next byte belongs to. One byte large: it is read and written with every token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// At the very start, where a byte order mark may stand.
    Mark,
    /// The top-level object must begin.
    Start,
    /// A value must begin.
    Value,
    /// Behind `[`: a value or the end.
    ValueOrEnd,
    /// Behind a comma in an object.
    Key,
    /// Behind `{`.
    KeyOrEnd,
    Colon,
    /// Behind a value.
    After,
    Text,
    /// Behind a backslash.
    Escape,
    /// In the digits behind `\u`.
    Hex,
    Number(Num),
    /// In `true`, `false` or `null`.
    Literal,
    /// Not JSON, or no object: nothing more is read.
    Broken,
}

/// Where in a number we are (RFC 8259 section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Num {
    Minus,
    Zero,
    Int,
    Point,
    Fraction,
    E,
    Sign,
    Exponent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    TopKey,
    Key,
    Value,
    Model,
}

#[derive(Debug)]
enum Found {
    Nothing,
    Name(String),
    /// The last `model` was a string that is no name.
    Unusable,
    /// Some `model` was neither string nor null, which spoils the body like a syntax error does.
    WrongKind,
}

/// The open brackets, one bit each.
#[derive(Debug, Default)]
struct Nest {
    depth: usize,
    /// The innermost levels, the last one lowest; 1 is an object.
    bits: u64,
    /// Full words of the levels further out.
    outer: Vec<u64>,
}

impl Nest {
    const WORD: usize = 64;

    fn open(&mut self, object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(Self::WORD) {
            self.outer.push(self.bits);
        }
        self.bits = (self.bits << 1) | u64::from(object);
        self.depth += 1;
    }

    fn in_object(&self) -> bool {
        self.depth > 0 && self.bits & 1 == 1
    }

    /// Closes the innermost level if it is of this kind.
    fn close(&mut self, object: bool) -> bool {
        if self.depth == 0 || self.in_object() != object {
            return false;
        }
        self.depth -= 1;
        self.bits >>= 1;
        if self.depth.is_multiple_of(Self::WORD)
            && let Some(bits) = self.outer.pop()
        {
            self.bits = bits;
        }
        true
    }
}

impl Default for ModelScan {
    fn default() -> Self {
        Self::new()
    }
}

impl ModelScan {
    /// A scan that has seen nothing.
    pub fn new() -> Self {
        Self {
            state: State::Mark,
            due: MARK,
            nest: Nest::default(),
            role: Role::Value,
            matched: false,
            raw: Vec::new(),
            overlong: false,
            found: Found::Nothing,
        }
    }

    /// Reads the next piece of the body. Where the body is cut makes no difference.
    pub fn push(&mut self, piece: &[u8]) {
        let mut at = 0;
        let mut state = self.state;
        while at < piece.len() {
            (state, at) = match state {
                State::Text => self.text(piece, at),
                State::Number(num) => number(num, !self.nest.in_object(), piece, at),
                State::Mark | State::Escape | State::Hex | State::Literal => {
                    self.within(state, piece[at], at)
                },
                State::Broken => break,
                State::Start
                | State::Value
                | State::ValueOrEnd
                | State::Key
                | State::KeyOrEnd
                | State::Colon
                | State::After => {
                    at = skip_blanks(piece, at);
                    let Some(&byte) = piece.get(at) else { break };
                    (self.token(state, byte), at + 1)
                },
            };
        }
        self.state = state;
    }

    /// The model as it was written, untrimmed, once the whole body was pushed.
    ///
    /// The last `model` wins whatever its case; `null` counts as absent. `None` is every way of not
    /// having one: none, blank, too long, not a string, or a body that is not one JSON object.
    pub fn finish(self) -> Option<String> {
        match (self.state, self.nest.depth, self.found) {
            (State::After, 0, Found::Name(name)) if !name.trim().is_empty() => Some(name),
            _ => None,
        }
    }

    /// The state behind `byte`, which is no blank and stands between values.
    #[inline]
    fn token(&mut self, state: State, byte: u8) -> State {
        match state {
            State::Value => self.value(byte),
            State::After => match byte {
                b',' if self.nest.in_object() => State::Key,
                b',' if self.nest.depth > 0 => State::Value,
                b'}' => self.close(true),
                b']' => self.close(false),
                _ => State::Broken,
            },
            State::Key | State::KeyOrEnd if byte == b'"' => {
                let top = self.nest.depth == 1;
                self.begin(if top { Role::TopKey } else { Role::Key })
            },
            State::Colon if byte == b':' => State::Value,
            State::ValueOrEnd if byte != b']' => self.value(byte),
            State::ValueOrEnd => self.close(false),
            State::KeyOrEnd if byte == b'}' => self.close(true),
            State::Start if byte == b'{' => self.open(true),
            _ => State::Broken,
        }
    }

    #[inline]
    fn value(&mut self, byte: u8) -> State {
        let model = std::mem::take(&mut self.matched);
        if model && !matches!(byte, b'"' | b'n') {
            self.found = Found::WrongKind;
        }
        match byte {
            b'"' => self.begin(if model { Role::Model } else { Role::Value }),
            b'{' => self.open(true),
            b'[' => self.open(false),
            b'-' => State::Number(Num::Minus),
            b'0' => State::Number(Num::Zero),
            b'1'..=b'9' => State::Number(Num::Int),
            b't' => self.literal(b"rue"),
            b'f' => self.literal(b"alse"),
            b'n' => self.literal(b"ull"),
            _ => State::Broken,
        }
    }

    fn literal(&mut self, due: &'static [u8]) -> State {
        self.due = due;
        State::Literal
    }

    fn open(&mut self, object: bool) -> State {
        self.nest.open(object);
        if object {
            State::KeyOrEnd
        } else {
            State::ValueOrEnd
        }
    }

    fn close(&mut self, object: bool) -> State {
        if self.nest.close(object) {
            State::After
        } else {
            State::Broken
        }
    }

    fn begin(&mut self, role: Role) -> State {
        self.role = role;
        self.raw.clear();
        self.overlong = false;
        State::Text
    }

    /// Reads a string to its end or the piece's, and tells where it stopped.
    #[inline]
    fn text(&mut self, piece: &[u8], from: usize) -> (State, usize) {
        let mut at = from;
        loop {
            at += plain(&piece[at..]);
            match piece.get(at) {
                Some(b'"') => return (self.end_text(&piece[from..at]), at + 1),
                Some(b'\\') => match escape(&piece[at + 1..]) {
                    Some(len) => at += 1 + len,
                    // Wrong, or cut by the end of the piece: byte by byte then.
                    None => {
                        self.keep(&piece[from..=at]);
                        return (State::Escape, at + 1);
                    },
                },
                Some(_) => return (State::Broken, at),
                None => {
                    self.keep(&piece[from..]);
                    return (State::Text, at);
                },
            }
        }
    }

    /// One byte of what is read byte by byte; `at` is its place.
    fn within(&mut self, state: State, byte: u8, at: usize) -> (State, usize) {
        if matches!(state, State::Escape | State::Hex) {
            self.keep(&[byte]);
        }
        let wanted = match state {
            State::Hex => byte.is_ascii_hexdigit(),
            State::Escape => byte == b'u' || is_simple_escape(byte),
            _ => self.due.first() == Some(&byte),
        };
        if !wanted {
            return match state {
                // No mark: the byte is the first of the text.
                State::Mark if self.due.len() == MARK.len() => (State::Start, at),
                _ => (State::Broken, at),
            };
        }
        if state == State::Escape {
            self.due = DIGITS;
            let next = if byte == b'u' {
                State::Hex
            } else {
                State::Text
            };
            return (next, at + 1);
        }
        self.due = &self.due[1..];
        let next = match state {
            _ if !self.due.is_empty() => state,
            State::Mark => State::Start,
            State::Hex => State::Text,
            _ => State::After,
        };
        (next, at + 1)
    }

    /// Keeps a part of the string if it is one we want, and if it can still be that.
    fn keep(&mut self, part: &[u8]) {
        let limit = match self.role {
            Role::Key | Role::Value => return,
            Role::TopKey => ESCAPE * KEY.len(),
            Role::Model => ESCAPE * NAME_LIMIT,
        };
        if self.raw.len() + part.len() > limit {
            self.overlong = true;
        } else if !self.overlong {
            self.raw.extend_from_slice(part);
        }
    }

    /// The string ends; `last` is what was not kept yet.
    #[inline]
    fn end_text(&mut self, last: &[u8]) -> State {
        if matches!(self.role, Role::TopKey | Role::Model) {
            self.end_wanted(last);
        }
        match self.role {
            Role::Key | Role::TopKey => State::Colon,
            Role::Value | Role::Model => State::After,
        }
    }

    fn end_wanted(&mut self, last: &[u8]) {
        let whole = if self.raw.is_empty() && !self.overlong {
            last
        } else {
            self.keep(last);
            &self.raw
        };
        if self.role == Role::TopKey {
            self.matched = !self.overlong && is_key(whole);
        } else if !matches!(self.found, Found::WrongKind) {
            let name = if self.overlong { None } else { name(whole) };
            self.found = name.map_or(Found::Unusable, Found::Name);
        }
    }
}

/// Reads a number to its end or the piece's, and tells where it stopped.
///
/// In a list it goes straight on to the next whole number: inputs of token ids are long lists.
#[inline]
fn number(mut num: Num, list: bool, piece: &[u8], from: usize) -> (State, usize) {
    let mut at = from;
    while let Some(&byte) = piece.get(at) {
        num = match (num, byte) {
            (Num::Int | Num::Fraction | Num::Exponent, b'0'..=b'9') => num,
            (Num::Point, b'0'..=b'9') => Num::Fraction,
            (Num::Minus, b'0') => Num::Zero,
            (Num::Minus, b'1'..=b'9') => Num::Int,
            (Num::Zero | Num::Int, b'.') => Num::Point,
            (Num::Zero | Num::Int | Num::Fraction, b'e' | b'E') => Num::E,
            (Num::E, b'+' | b'-') => Num::Sign,
            (Num::E | Num::Sign, b'0'..=b'9') => Num::Exponent,
            (Num::Int, b',') if list && matches!(piece.get(at + 1), Some(b'1'..=b'9')) => num,
            (Num::Zero | Num::Int | Num::Fraction | Num::Exponent, _) => return (State::After, at),
            (Num::Minus | Num::Point | Num::E | Num::Sign, _) => return (State::Broken, at),
        };
        at += 1;
    }
    (State::Number(num), at)
}

/// Whether this escaped key is the one looked for.
fn is_key(raw: &[u8]) -> bool {
    let len = raw.len();
    if len == KEY.len() {
        return raw.eq_ignore_ascii_case(KEY.as_bytes());
    }
    // Only escapes make the key longer, so other keys are not decoded.
    (KEY.len()..=ESCAPE * KEY.len()).contains(&len)
        && memchr::memchr(b'\\', raw).is_some()
        && decode(raw).is_some_and(|key| key.eq_ignore_ascii_case(KEY))
}

fn name(raw: &[u8]) -> Option<String> {
    if raw.len() > ESCAPE * NAME_LIMIT {
        return None;
    }
    decode(raw).filter(|name| name.len() <= NAME_LIMIT)
}

/// The text of a string's inside, which is known to be well formed but for its encoding.
fn decode(raw: &[u8]) -> Option<String> {
    if memchr::memchr(b'\\', raw).is_none() {
        return Some(std::str::from_utf8(raw).ok()?.to_owned());
    }
    let quoted = [b"\"", raw, b"\""].concat();
    serde_json::from_slice(&quoted).ok()
}

/// The length of the whole and correct escape behind a backslash.
#[inline]
fn escape(behind: &[u8]) -> Option<usize> {
    match behind {
        [byte, ..] if is_simple_escape(*byte) => Some(1),
        [b'u', hex @ ..] if hex.get(..4)?.iter().all(u8::is_ascii_hexdigit) => Some(5),
        _ => None,
    }
}

#[inline]
fn is_simple_escape(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')
}

/// The first place from `at` on that is no blank.
#[inline]
fn skip_blanks(piece: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = piece.get(at) {
        at += 1;
        while let Some(word) = piece[at..].first_chunk()
            && u64::from_ne_bytes(*word) == BLANKS
        {
            at += size_of::<u64>();
        }
    }
    at
}

/// How many bytes of a string's inside come before a quote, a backslash or a control byte.
#[inline]
fn plain(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    let seen = |rest: &[u8]| bytes.len() - rest.len();
    // Keys and most values end within two words; only then is a search worth its start.
    for _ in 0..2 {
        let Some((word, behind)) = rest.split_first_chunk() else {
            break;
        };
        let stops = stops(u64::from_le_bytes(*word));
        if stops != 0 {
            return seen(rest) + stops.trailing_zeros() as usize / 8;
        }
        rest = behind;
    }
    loop {
        let window = &rest[..rest.len().min(WINDOW)];
        let stop = memchr::memchr2(b'"', b'\\', window);
        let run = &window[..stop.unwrap_or(window.len())];
        // A minimum has no branch, so it compiles to vectors.
        if run.iter().fold(u8::MAX, |least, &byte| least.min(byte)) < b' ' {
            let control = run.iter().position(|&byte| byte < b' ');
            return seen(rest) + control.unwrap_or(run.len());
        }
        rest = &rest[run.len()..];
        if stop.is_some() || rest.is_empty() {
            return seen(rest);
        }
    }
}

/// A string is gone through twice, so in parts that stay in the nearest cache.
const WINDOW: usize = 8192;

/// The high bit of each byte that ends a run. Bits above the lowest one set may be wrong, since
/// borrows run upwards; the lowest is right.
#[inline]
fn stops(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    let zero = |w: u64| w.wrapping_sub(ONES) & !w;
    let control = word.wrapping_sub(ONES * b' ' as u64) & !word;
    (zero(quote) | zero(backslash) | control) & (ONES << 7)
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use proptest::prelude::*;
    use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

    use super::*;

    fn one(model: &str) -> Option<String> {
        Some(model.to_owned())
    }

    fn pieces(body: &[u8], size: usize) -> Option<String> {
        let mut scan = ModelScan::new();
        body.chunks(size).for_each(|piece| scan.push(piece));
        scan.finish()
    }

    /// The answer, which must be the same however the body is cut.
    fn all_ways(body: &[u8]) -> Option<String> {
        let whole = scan(body);
        for size in 1..=body.len().clamp(1, 20) {
            assert_eq!(pieces(body, size), whole, "in pieces of {size}");
        }
        whole
    }

    #[test]
    fn the_top_level_model_is_found_wherever_it_stands() {
        for body in [
            r#"{"model":"a"}"#,
            r#" { "model" : "a" } "#,
            "\r\n\t{\"x\":[1,{}],\"model\"\n:\t\"a\"}\n",
            r#"{"messages":[{"model":"no"}],"options":{"model":3},"model":"a","z":null}"#,
            r#"{"x":-0.5e+10,"y":true,"z":false,"n":[],"o":{},"model":"a"}"#,
        ] {
            assert_eq!(all_ways(body.as_bytes()), one("a"), "{body}");
        }
    }

    #[test]
    fn a_nested_model_is_not_the_model() {
        for body in [
            r#"{"x":{"model":"a"}}"#,
            r#"{"x":[{"model":"a"}]}"#,
            r#"{"x":"model","y":"a"}"#,
            r#"[{"model":"a"}]"#,
        ] {
            assert_eq!(all_ways(body.as_bytes()), None, "{body}");
        }
    }

    #[test]
    fn the_keys_case_and_escapes_do_not_matter() {
        for key in [
            "model",
            "Model",
            "MODEL",
            r"mod\u0065l",
            r"\u004d\u006F\u0064\u0045\u006c",
        ] {
            let body = format!(r#"{{"{key}":"a"}}"#);
            assert_eq!(all_ways(body.as_bytes()), one("a"), "{body}");
        }
        for key in [
            "model ",
            "models",
            "mode",
            "",
            r"mod\\u0065l",
            r"mode\/",
            "m\u{f6}del",
            "name",
        ] {
            let body = format!(r#"{{"{key}":"a"}}"#);
            assert_eq!(all_ways(body.as_bytes()), None, "{body}");
        }
    }

    #[test]
    fn escapes_in_the_name_are_decoded() {
        for (written, name) in [
            (r"a\u0062c", "abc"),
            (r#"\"\\\/\b\f\n\r\tx"#, "\"\\/\u{8}\u{c}\n\r\tx"),
            (r"\ud83d\ude00", "\u{1f600}"),
            ("\u{1f600}", "\u{1f600}"),
            (r"\uD83D\uDE00!", "\u{1f600}!"),
            ("org/model:7b@sha256", "org/model:7b@sha256"),
        ] {
            let body = format!(r#"{{"model":"{written}"}}"#);
            assert_eq!(all_ways(body.as_bytes()), one(name), "{body}");
        }
    }

    #[test]
    fn the_last_of_several_names_wins() {
        for (body, name) in [
            (r#"{"model":"a","model":"b"}"#, one("b")),
            (r#"{"model":"a","MODEL":"b"}"#, one("b")),
            (r#"{"model":"a","model":""}"#, None),
            (r#"{"model":"","model":"b"}"#, one("b")),
            (r#"{"model":"\ud800","model":"b"}"#, one("b")),
            (r#"{"model":"b","model":"\ud800"}"#, None),
        ] {
            assert_eq!(all_ways(body.as_bytes()), name, "{body}");
        }
    }

    #[test]
    fn null_is_like_no_model_and_leaves_an_earlier_one() {
        assert_eq!(all_ways(br#"{"model":null}"#), None);
        assert_eq!(all_ways(br#"{"model":"a","model":null}"#), one("a"));
        assert_eq!(all_ways(br#"{"model":null,"model":"a"}"#), one("a"));
        assert_eq!(all_ways(br#"{"model":nul}"#), None);
    }

    #[test]
    fn a_model_of_another_kind_spoils_the_body_before_and_after_a_name() {
        for value in [
            "1",
            "-1",
            "true",
            "false",
            "{}",
            r#"{"model":"a"}"#,
            r#"["a"]"#,
            "[]",
        ] {
            for body in [
                format!(r#"{{"model":{value}}}"#),
                format!(r#"{{"model":"a","model":{value}}}"#),
                format!(r#"{{"Model":{value},"model":"a"}}"#),
            ] {
                assert_eq!(all_ways(body.as_bytes()), None, "{body}");
            }
        }
    }

    #[test]
    fn a_blank_name_is_none_and_a_name_is_not_trimmed() {
        for blank in ["", " ", r"\t\n", "\u{a0}", "\u{3000} "] {
            let body = format!(r#"{{"model":"{blank}"}}"#);
            assert_eq!(all_ways(body.as_bytes()), None, "{body}");
        }
        assert_eq!(all_ways(br#"{"model":" a "}"#), one(" a "));
    }

    #[test]
    fn anything_but_one_json_object_has_no_model() {
        for body in [
            "",
            " ",
            "null",
            "\"model\"",
            "3",
            "[]",
            "{}",
            "{}{}",
            r#"{"model":"a"}}"#,
            r#"{"model":"a"} x"#,
            r#"{"model":"a"},"#,
            r#"{"model":"a"},{}"#,
            r#"{"model":"a","x":1,2}"#,
            r#"{"model":"a","x":[{"y":1,2}]}"#,
            r#"{"model":"a"}{"model":"a"}"#,
            r#"{"model":"a""#,
            r#"{"model":"a"#,
            r#"{"model":"a",}"#,
            r#"{,"model":"a"}"#,
            r#"{"model" "a"}"#,
            r#"{"model"::"a"}"#,
            r#"{"model":"a" "b":1}"#,
            r#"{model:"a"}"#,
            r#"{'model':'a'}"#,
            r#"{"model":"a","x"}"#,
            r#"{"model":"a",3:4}"#,
            r#"{"model":"a","x":}"#,
            r#"{"model":"a","x":[}]}"#,
            r#"{"model":"a","x":[1,]}"#,
            r#"{"model":"a","x":[1 2]}"#,
            r#"{"model":"a","x":{]}"#,
            r#"{"model":"a","x":[1}"#,
            r#"{"model":"a","x":[}"#,
            r#"{"model":"a"]"#,
            r#"{"model":"a" /* c */}"#,
            "\u{1f}{\"model\":\"a\"}",
            "{\"model\":\"a\"}\0",
            "\u{a0}{\"model\":\"a\"}",
        ] {
            assert_eq!(all_ways(body.as_bytes()), None, "{body}");
        }
    }

    #[test]
    fn values_are_checked_by_the_whole_grammar() {
        let body = |value: &str| format!(r#"{{"model":"a","x":{value},"y":[{value}]}}"#);
        for good in [
            "0",
            "-0",
            "10",
            "1.5",
            "-1.50",
            "1e5",
            "1E+5",
            "0e-05",
            "0.0e0",
            "12345678901234567890123",
            "true",
            "false",
            "null",
            r#""\u00e9""#,
            "[1,22,3.5,0,-4,5e1]",
            "[1 ,2]",
        ] {
            assert_eq!(all_ways(body(good).as_bytes()), one("a"), "{good}");
        }
        for bad in [
            "01",
            "-",
            "-a",
            "+1",
            ".5",
            "1.",
            "1.e5",
            "1e",
            "1e+",
            "--1",
            "1-",
            "0x1",
            "1_0",
            "NaN",
            "Infinity",
            "tru",
            "truee",
            "True",
            "nul",
            "nulll",
            "fals",
            "undefined",
            r#""\x""#,
            r#""\u12g4""#,
            r#""\u123""#,
            "\"\n\"",
            "\"\u{1}\"",
            "\"a\u{1f}bcdefghijklmnopqrstuvwxyz\"",
            "[1,02]",
            "[1,,2]",
            "[1,2,]",
        ] {
            assert_eq!(all_ways(body(bad).as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn bad_encoding_matters_in_the_model_only() {
        let body = |key: &[u8], model: &[u8], other: &[u8]| {
            [
                b"{\"",
                key,
                b"\":1,\"model\":\"",
                model,
                b"\",\"x\":\"",
                other,
                b"\"}",
            ]
            .concat()
        };
        assert_eq!(all_ways(&body(b"k", b"a", b"b")), one("a"));
        for bad in [
            &b"\xff"[..],
            b"\xc3",
            b"\xed\xa0\x80",
            br"\ud800",
            br"\udc00\ud800",
            br"\ud800x",
        ] {
            assert_eq!(all_ways(&body(bad, b"a", bad)), one("a"), "{bad:?}");
            assert_eq!(all_ways(&body(b"k", bad, b"b")), None, "{bad:?}");
        }
        // DEL and C1 are no control bytes to JSON.
        assert_eq!(
            all_ways(&body(b"k", b"a\x7f", b"\x7f\xc2\x80")),
            one("a\u{7f}")
        );
    }

    #[test]
    fn a_control_byte_is_seen_at_any_place_of_a_long_string() {
        for len in [
            1,
            7,
            8,
            9,
            15,
            16,
            17,
            40,
            63,
            64,
            65,
            200,
            WINDOW - 1,
            WINDOW + 1,
        ] {
            for at in [0, 1 % len, len / 2, len - 1] {
                let mut text = vec![b'x'; len];
                let good = [b"{\"model\":\"a\",\"x\":\"", &text[..], b"\"}"].concat();
                assert_eq!(scan(&good), one("a"), "{len}");
                text[at] = 0x1f;
                let bad = [b"{\"model\":\"a\",\"x\":\"", &text[..], b"\"}"].concat();
                assert_eq!(scan(&bad), None, "{at} of {len}");
                text[at] = b'\\';
                text.insert(at + 1, b'n');
                let escaped = [b"{\"model\":\"a\",\"x\":\"", &text[..], b"\"}"].concat();
                assert_eq!(scan(&escaped), one("a"), "{at} of {len}");
            }
        }
    }

    #[test]
    fn a_byte_order_mark_may_come_first() {
        assert_eq!(all_ways(b"\xef\xbb\xbf{\"model\":\"a\"}"), one("a"));
        assert_eq!(all_ways(b"\xef\xbb\xbf \n{\"model\":\"a\"}"), one("a"));
        for bad in [
            &b"\xef\xbb{}"[..],
            b"\xef",
            b" \xef\xbb\xbf",
            b"\xef \xbb\xbf",
            b"\xef\xbb\xbf\xef\xbb\xbf",
        ] {
            let body = [bad, b"{\"model\":\"a\"}"].concat();
            assert_eq!(all_ways(&body), None, "{bad:?}");
        }
    }

    #[test]
    fn a_name_of_the_limit_is_the_longest() {
        for (unit, len) in [("a", 1), (r"\u0061", 1), (r"\n", 1), ("\u{e9}", 2)] {
            let body = |n: usize| format!(r#"{{"model":"x{}"}}"#, unit.repeat(n));
            let most = (NAME_LIMIT - 1) / len;
            for size in [usize::MAX, 4000, 7, 1] {
                let found = pieces(body(most).as_bytes(), size).map(|name| name.len());
                assert_eq!(found, Some(1 + most * len), "{unit} in {size}");
                assert_eq!(
                    pieces(body(most + 1).as_bytes(), size),
                    None,
                    "{unit} in {size}"
                );
            }
        }
        let late = format!(r#"{{"model":"{}","model":"a"}}"#, "x".repeat(100_000));
        assert_eq!(scan(late.as_bytes()), one("a"));
        assert_eq!(pieces(late.as_bytes(), 1000), one("a"));
    }

    #[test]
    fn long_strings_and_keys_are_not_kept() {
        let mut scan = ModelScan::new();
        scan.push(b"{\"");
        for _ in 0..1000 {
            scan.push(&[b'k'; 100]);
        }
        scan.push(b"\":\"");
        for _ in 0..1000 {
            scan.push(&[b'v'; 100]);
        }
        assert!(
            scan.raw.capacity() <= 2 * ESCAPE * KEY.len(),
            "{}",
            scan.raw.capacity()
        );
        scan.push(b"\",\"model\":\"a\"}");
        assert_eq!(scan.finish(), one("a"));
    }

    #[test]
    fn three_million_brackets_are_no_deeper_than_one() {
        let deep = 3_000_000;
        for (open, close) in [("[", "]"), (r#"{"k":"#, "}")] {
            let mut body = String::from(r#"{"x":"#);
            body.push_str(&open.repeat(deep));
            body.push('0');
            body.push_str(&close.repeat(deep));
            let unclosed = format!(r#"{},"model":"a"}}"#, &body[..body.len() - 1]);
            body.push_str(r#","model":"a"}"#);
            assert_eq!(scan(body.as_bytes()), one("a"));
            assert_eq!(scan(unclosed.as_bytes()), None);
        }
    }

    #[test]
    fn every_depth_remembers_what_it_is_in() {
        for depth in 1..200 {
            let kinds: Vec<bool> = (0..depth).map(|i| i % 3 == 0 || i % 7 == 0).collect();
            let open: String = kinds
                .iter()
                .map(|&o| if o { "{\"k\":" } else { "[" })
                .collect();
            let mut close: Vec<u8> = kinds
                .iter()
                .rev()
                .map(|&o| if o { b'}' } else { b']' })
                .collect();
            let body = |close: &[u8]| {
                [
                    b"{\"model\":\"a\",\"x\":",
                    open.as_bytes(),
                    b"1",
                    close,
                    b"}",
                ]
                .concat()
            };
            assert_eq!(scan(&body(&close)), one("a"), "{depth}");
            let at = depth / 2;
            close[at] = if close[at] == b'}' { b']' } else { b'}' };
            assert_eq!(scan(&body(&close)), None, "{depth}");
        }
    }

    #[test]
    fn a_hundred_megabytes_of_base64_are_passed_over() {
        let block = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5ejAx+/";
        let block = block.repeat((1 << 20) / block.len());
        let mut scan = ModelScan::new();
        scan.push(b"{\"images\":[\"");
        for _ in 0..100 {
            scan.push(block.as_bytes());
        }
        scan.push(b"\"],\"model\":\"llava\"}");
        assert_eq!(scan.finish(), one("llava"));
    }

    /// The same rules over serde_json's reader.
    struct Oracle(Option<String>);

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

    /// What the rules say, or nothing where serde_json is stricter than they are.
    fn oracle(body: &[u8]) -> Option<Option<String>> {
        match serde_json::from_slice::<Oracle>(body) {
            Ok(Oracle(name)) => Some(name.filter(|name| !name.trim().is_empty())),
            Err(e) if e.to_string().contains("surrogate") => None,
            Err(e) if e.to_string().contains("unexpected end of hex escape") => None,
            Err(_) => Some(None),
        }
    }

    fn blank() -> impl Strategy<Value = String> {
        prop_oneof![4 => Just(String::new()), 1 => "[ \n\r\t]{0,12}"]
    }

    fn text() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            "[a-zA-Z0-9 :/.é😀-]{0,24}",
            Just(r#"\""#.to_owned()),
            Just(r"\\".to_owned()),
            Just(r"\n".to_owned()),
            Just(r"\u0065".to_owned()),
            Just(r"\ud83d\ude00".to_owned()),
        ];
        proptest::collection::vec(part, 0..4).prop_map(|parts| format!("\"{}\"", parts.concat()))
    }

    fn key() -> impl Strategy<Value = String> {
        prop_oneof![
            3 => proptest::sample::select(vec![
                "\"model\"", "\"MODEL\"", "\"Model\"", r#""mod\u0065l""#, "\"name\"", "\"mode\"",
            ]).prop_map(str::to_owned),
            1 => text(),
        ]
    }

    fn object(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
        let entry =
            (key(), blank(), blank(), value).prop_map(|(k, a, b, v)| format!("{k}{a}:{b}{v}"));
        let entries = proptest::collection::vec((entry, blank()), 0..5);
        (entries, blank()).prop_map(|(entries, space)| {
            let entries: Vec<_> = entries
                .into_iter()
                .map(|(e, b)| format!("{b}{e}{b}"))
                .collect();
            format!("{{{space}{}}}", entries.join(","))
        })
    }

    fn json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            4 => text(),
            1 => "-?(0|[1-9][0-9]{0,3})(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?",
            1 => proptest::sample::select(vec!["true", "false", "null"]).prop_map(str::to_owned),
        ];
        let value = leaf.prop_recursive(4, 24, 4, |inner| {
            let list =
                proptest::collection::vec((blank(), inner.clone()), 0..4).prop_map(|items| {
                    let items: Vec<_> = items
                        .into_iter()
                        .map(|(b, v)| format!("{b}{v}{b}"))
                        .collect();
                    format!("[{}]", items.join(","))
                });
            prop_oneof![list, object(inner)]
        });
        (blank(), object(value), blank()).prop_map(|(a, body, b)| format!("{a}{body}{b}"))
    }

    /// Removes, doubles or replaces a character, anywhere.
    fn mutated() -> impl Strategy<Value = String> {
        let change = (
            any::<proptest::sample::Index>(),
            0..3u8,
            r#"["\\{}\[\]:,0-9eu+. \x01tnx-]"#,
        );
        (json(), proptest::collection::vec(change, 1..4)).prop_map(|(body, changes)| {
            let mut chars: Vec<char> = body.chars().collect();
            for (at, kind, with) in changes {
                let at = at.index(chars.len());
                match kind {
                    0 if chars.len() > 1 => drop(chars.remove(at)),
                    1 => chars.insert(at, with.chars().next().unwrap()),
                    _ => chars[at] = with.chars().next().unwrap(),
                }
            }
            chars.into_iter().collect()
        })
    }

    proptest! {
        #[test]
        fn it_agrees_with_serde_json_on_json(body in json()) {
            let want = oracle(body.as_bytes());
            prop_assume!(want.is_some());
            prop_assert_eq!(Some(scan(body.as_bytes())), want, "{}", body);
        }

        #[test]
        fn it_agrees_with_serde_json_on_nearly_json(body in mutated()) {
            let want = oracle(body.as_bytes());
            prop_assume!(want.is_some());
            prop_assert_eq!(Some(scan(body.as_bytes())), want, "{}", body);
        }

        #[test]
        fn where_the_body_is_cut_makes_no_difference(
            body in prop_oneof![json(), mutated()],
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..6),
        ) {
            let body = body.as_bytes();
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
            cuts.sort_unstable();
            let mut scanner = ModelScan::new();
            let mut from = 0;
            for cut in cuts.into_iter().chain([body.len()]) {
                scanner.push(&body[from..cut]);
                from = cut;
            }
            prop_assert_eq!(scanner.finish(), scan(body));
            prop_assert_eq!(pieces(body, 1), scan(body));
        }

        #[test]
        fn any_bytes_are_taken(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let inside = [b"{\"model\":\"", &body[..], b"\"}"].concat();
            prop_assert_eq!(pieces(&inside, 3), scan(&inside));
            prop_assert_eq!(pieces(&body, 3), scan(&body));
        }
    }
}
