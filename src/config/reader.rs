//! Reading a TOML document by hand, with every problem at its line and column.
//!
//! Owns: the walk (unknown keys, wrong types, variables) and the kinds of values.
//! Leaves to others: which keys exist (`file`). Not serde: it stops at the first problem, and a
//! person who fixes a file wants all of them at once.

use std::ops::RangeInclusive;
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::expand::expand;
use super::paths::Env;
use crate::rules::nearest::closest;
use crate::rules::units::{parse_duration, parse_size};

/// One problem of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong; never the value of a key that holds a secret.
    pub message: String,
}

/// A value after its variables were replaced.
#[derive(Debug)]
pub enum Plain {
    /// A string.
    Text(String),
    /// An integer that fits.
    Integer(i64),
    /// A boolean.
    Boolean(bool),
    /// Anything else; no key of ours takes it.
    Other,
}

/// What a key takes: its value, or what is wrong with it. The key's name is for the sentence.
pub type Kind<'k, T> = &'k dyn Fn(&str, Plain) -> Result<T, String>;

/// A document being read: collects problems instead of stopping.
pub struct Reader<'d> {
    text: &'d str,
    env: Env<'d>,
    problems: Vec<(usize, String)>,
}

impl<'d> Reader<'d> {
    /// Reads `text` with the variables of `env`.
    pub fn new(text: &'d str, env: Env<'d>) -> Self {
        Self {
            text,
            env,
            problems: Vec::new(),
        }
    }

    /// Notes a problem at this byte of the document.
    pub fn complain(&mut self, at: usize, message: impl Into<String>) {
        self.problems.push((at, message.into()));
    }

    /// The problems, in the order of the document.
    pub fn finish(mut self) -> Vec<Problem> {
        self.problems.sort();
        self.problems.dedup();
        let text = self.text;
        self.problems
            .into_iter()
            .map(|(at, message)| placed(text, at, message))
            .collect()
    }

    /// Complains about every key of `table` that is not known. `place` says where, for people:
    /// `in [[nodes]]`.
    pub fn known(&mut self, table: &DeTable, place: &str, known: &[&str]) {
        for key in table
            .keys()
            .filter(|k| !known.contains(&k.get_ref().as_ref()))
        {
            let name = key.get_ref();
            let help = match closest(name, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known keys: {}", known.join(", ")),
            };
            self.complain(
                key.span().start,
                format!("unknown key `{name}` {place}; {help}"),
            );
        }
    }

    /// The value of a key, with the byte where it stands; `None` if absent or wrong.
    pub fn spanned<T>(&mut self, table: &DeTable, key: &str, kind: Kind<T>) -> Option<(usize, T)> {
        let value = table.get(key)?;
        self.one(value.span().start, value.get_ref(), key, kind)
    }

    /// The value of a key; `None` if absent or wrong.
    pub fn value<T>(&mut self, table: &DeTable, key: &str, kind: Kind<T>) -> Option<T> {
        self.spanned(table, key, kind).map(|(_, value)| value)
    }

    /// The values of a list; wrong entries are left out.
    pub fn list<T>(&mut self, table: &DeTable, key: &str, kind: Kind<T>) -> Option<Vec<T>> {
        let value = table.get(key)?;
        let DeValue::Array(entries) = value.get_ref() else {
            self.complain(
                value.span().start,
                format!("`{key}` must be a list, like [\"a\"]"),
            );
            return None;
        };
        let mut read = Vec::with_capacity(entries.len());
        for entry in entries.iter() {
            let one = self.one(entry.span().start, entry.get_ref(), key, kind);
            read.extend(one.map(|(_, value)| value));
        }
        Some(read)
    }

    /// The table of a key.
    pub fn table<'t>(&mut self, table: &'t DeTable<'t>, key: &str) -> Option<&'t DeTable<'t>> {
        let value = table.get(key)?;
        match value.get_ref() {
            DeValue::Table(inner) => Some(inner),
            _ => {
                let text = format!("`{key}` must be a table: write [{key}]");
                self.complain(value.span().start, text);
                None
            },
        }
    }

    /// The tables of a list of tables, each with the byte where it begins.
    pub fn tables<'t>(
        &mut self,
        table: &'t DeTable<'t>,
        key: &str,
    ) -> Vec<(usize, &'t DeTable<'t>)> {
        let Some(value) = table.get(key) else {
            return Vec::new();
        };
        let mut read = Vec::new();
        let mut all_tables = false;
        if let DeValue::Array(entries) = value.get_ref() {
            for entry in entries.iter() {
                if let DeValue::Table(inner) = entry.get_ref() {
                    read.push((entry.span().start, inner));
                }
            }
            all_tables = read.len() == entries.len();
        }
        if !all_tables {
            let text = format!("`{key}` must be a list of tables: write [[{key}]]");
            self.complain(value.span().start, text);
        }
        read
    }

    fn one<T>(
        &mut self,
        at: usize,
        value: &DeValue,
        key: &str,
        kind: Kind<T>,
    ) -> Option<(usize, T)> {
        match self.plain(value).and_then(|plain| kind(key, plain)) {
            Ok(value) => Some((at, value)),
            Err(message) => {
                self.complain(at, message);
                None
            },
        }
    }

    fn plain(&self, value: &DeValue) -> Result<Plain, String> {
        Ok(match value {
            DeValue::String(text) => Plain::Text(expand(text, self.env)?),
            DeValue::Boolean(b) => Plain::Boolean(*b),
            DeValue::Integer(n) => match i64::from_str_radix(n.as_str(), n.radix()) {
                Ok(n) => Plain::Integer(n),
                Err(_) => return Err(format!("the number {n} is too large")),
            },
            _ => Plain::Other,
        })
    }
}

/// Any text.
pub fn text(key: &str, value: Plain) -> Result<String, String> {
    match value {
        Plain::Text(text) => Ok(text),
        _ => Err(format!("`{key}` must be a text in quotes")),
    }
}

/// `true` or `false`; as a text too, so that it may come from a variable.
pub fn boolean(key: &str, value: Plain) -> Result<bool, String> {
    match value {
        Plain::Boolean(b) => Ok(b),
        Plain::Text(t) if t == "true" => Ok(true),
        Plain::Text(t) if t == "false" => Ok(false),
        _ => Err(format!("`{key}` must be true or false")),
    }
}

/// A whole number in a range; as a text too, so that it may come from a variable.
pub fn integer(range: RangeInclusive<u32>) -> impl Fn(&str, Plain) -> Result<u32, String> {
    move |key, value| {
        let number = match value {
            Plain::Integer(n) => Some(n),
            Plain::Text(t) => t.trim().parse().ok(),
            _ => None,
        };
        let number = number.ok_or_else(|| format!("`{key}` must be a whole number"))?;
        let inside = u32::try_from(number).ok().filter(|n| range.contains(n));
        inside.ok_or_else(|| {
            format!(
                "{key} {number} is not in {}..{}",
                range.start(),
                range.end()
            )
        })
    }
}

/// A TCP port.
pub fn port(key: &str, value: Plain) -> Result<u16, String> {
    let number = integer(1..=65535)(key, value)?;
    u16::try_from(number).map_err(|_| format!("{key} {number} is not in 1..65535"))
}

/// A duration; a bare 0 needs no quotes.
pub fn duration(key: &str, value: Plain) -> Result<Duration, String> {
    match value {
        Plain::Text(t) => parse_duration(t.trim()).map_err(|e| format!("`{key}`: {e}")),
        Plain::Integer(0) => Ok(Duration::ZERO),
        _ => Err(format!(
            "`{key}` must be a duration in quotes, like \"90s\" or \"1h30m\""
        )),
    }
}

/// A size in bytes.
pub fn size(key: &str, value: Plain) -> Result<u64, String> {
    let text = match value {
        Plain::Integer(n) => n.to_string(),
        Plain::Text(t) => t,
        _ => {
            return Err(format!(
                "`{key}`: write bytes, or a size in quotes, like \"64MiB\""
            ));
        },
    };
    parse_size(text.trim()).map_err(|e| format!("`{key}`: {e}"))
}

/// One of a few words.
pub fn word<T: Copy>(
    words: &'static [(&'static str, T)],
) -> impl Fn(&str, Plain) -> Result<T, String> {
    move |key, value| {
        let given = text(key, value)?;
        pick(words, &given).map_err(|e| format!("`{key}`: {e}"))
    }
}

/// The value of the word that was given, or a sentence that lists the words.
pub fn pick<T: Copy>(words: &[(&'static str, T)], given: &str) -> Result<T, String> {
    if let Some((_, value)) = words.iter().find(|(w, _)| *w == given) {
        return Ok(*value);
    }
    let known: Vec<_> = words.iter().map(|(w, _)| *w).collect();
    let help = match closest(given, known.iter().copied()) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("it is one of {}", known.join(", ")),
    };
    Err(format!("{given:?} is not known; {help}"))
}

fn placed(text: &str, at: usize, message: String) -> Problem {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    Problem {
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
        message,
    }
}
