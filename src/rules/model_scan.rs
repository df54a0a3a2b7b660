//! The model's name out of a request body (spec §5, product rules 13.27).
//!
//! Owns: a push validator of JSON that reads a body in whatever pieces it arrives, and keeps nothing
//! of it but the top-level `model`. Leaves to others: what the name means (`engine`), the bytes.
//!
//! The whole body is validated, since a broken one has no model: an engine that repairs it may read
//! another name than we did. Depth is a bit a level on the heap, because any local client may send
//! millions of brackets, and strings are skipped in blocks, because prompts are nearly all of a body.

use std::ops::Range;

/// Bytes of a model's name: a longer one is no model's.
pub(super) const NAME_LIMIT: usize = 4096;
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
    /// Bytes of earlier pieces.
    before: u64,
    /// Where the last string that may be the name begins and ends, quotes included.
    place: Range<u64>,
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
            before: 0,
            place: 0..0,
        }
    }

    /// Reads the next piece of the body. Where the body is cut makes no difference.
    pub fn push(&mut self, piece: &[u8]) {
        let mut at = 0;
        let mut state = self.state;
        while at < piece.len() {
            (state, at) = match state {
                State::Text => self.string(piece, at),
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
                    match self.token(state, byte) {
                        // Most of what begins is a string.
                        State::Text => {
                            if self.role == Role::Model {
                                self.place.start = self.before + at as u64;
                            }
                            self.string(piece, at + 1)
                        },
                        next => (next, at + 1),
                    }
                },
            };
        }
        self.state = state;
        self.before += piece.len() as u64;
    }

    /// Reads a string, and the colon or comma that nearly always stands right behind it.
    #[inline]
    fn string(&mut self, piece: &[u8], from: usize) -> (State, usize) {
        let (next, end) = self.text(piece, from);
        if next == State::After && self.role == Role::Model {
            self.place.end = self.before + end as u64;
        }
        match (next, piece.get(end)) {
            (State::Colon, Some(b':')) => (State::Value, end + 1),
            (State::After, Some(b',')) => (self.token(next, b','), end + 1),
            _ => (next, end),
        }
    }

    /// The model as it was written, untrimmed, once the whole body was pushed.
    ///
    /// The last `model` wins whatever its case; `null` counts as absent. `None` is every way of not
    /// having one: none, blank, too long, not a string, or a body that is not one JSON object.
    pub fn finish(self) -> Option<String> {
        self.finish_in_place().map(|(name, _)| name)
    }

    /// The same, and which bytes of the body it is, quotes included.
    pub fn finish_in_place(self) -> Option<(String, Range<u64>)> {
        match (self.state, self.nest.depth, self.found) {
            (State::After, 0, Found::Name(name)) if !name.trim().is_empty() => {
                Some((name, self.place))
            },
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
mod oracle;
#[cfg(test)]
mod tests;
