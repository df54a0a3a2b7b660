//! Reading a TOML document by hand, with every problem at its line and column.
//!
//! Owns: the walk: unknown, absent and mistyped keys, variables, places.
//! Leaves to others: which keys exist (`keys`), what a value may be (`kinds`). Not serde: it stops
//! at the first problem, and a person who fixes a file wants all of them at once.

use std::collections::BTreeMap;
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::expand::expand;
use super::keys::{self, Shape};
use super::kinds;
use super::paths::Env;
use crate::rules::nearest::closest;

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
    warnings: Vec<(usize, String)>,
    written: BTreeMap<String, usize>,
    from_env: BTreeMap<String, String>,
    variables: Vec<String>,
}

/// What was found besides the values.
#[derive(Debug, Default)]
pub struct Findings {
    /// What makes the file unusable, in the order of the document.
    pub problems: Vec<Problem>,
    /// What is odd and still usable, in the order of the document.
    pub warnings: Vec<Problem>,
    /// The line of every key that was written, by its path: `pool.listen`, `nodes[0].url`.
    pub written: BTreeMap<String, usize>,
    /// Keys that a variable set because the file does not, with its name.
    pub from_env: BTreeMap<String, String>,
    /// A sentence a variable that is ignored.
    pub variables: Vec<String>,
}

impl<'d> Reader<'d> {
    /// Reads `text` with the variables of `env`.
    pub fn new(text: &'d str, env: Env<'d>) -> Self {
        Self {
            text,
            env,
            problems: Vec::new(),
            warnings: Vec::new(),
            written: BTreeMap::new(),
            from_env: BTreeMap::new(),
            variables: Vec::new(),
        }
    }

    /// Notes a problem at this byte of the document.
    pub fn complain(&mut self, at: usize, message: impl Into<String>) {
        self.problems.push((at, message.into()));
    }

    /// Whether a problem was noted at this byte.
    pub fn is_wrong(&self, at: usize) -> bool {
        self.problems.iter().any(|(place, _)| *place == at)
    }

    /// Notes something odd at this byte of the document.
    pub fn warn(&mut self, at: usize, message: impl Into<String>) {
        self.warnings.push((at, message.into()));
    }

    /// Notes where a key of this path was written.
    pub fn note(&mut self, path: &str, at: usize) {
        self.written.insert(path.to_owned(), at);
    }

    /// The value of a variable that stands for the key of this path. A bad one is a warning that
    /// does not repeat it, and counts as absent.
    pub fn variable<T>(
        &mut self,
        path: &str,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let value = (self.env)(name).filter(|v| !v.is_empty())?;
        let read = match value.to_str() {
            Some(text) => parse(text.trim()),
            None => Err("it is not UTF-8".to_owned()),
        };
        match read {
            Ok(value) => {
                self.from_env.insert(path.to_owned(), name.to_owned());
                Some(value)
            },
            Err(e) => {
                self.variables.push(format!("{name} is ignored: {e}"));
                None
            },
        }
    }

    /// What was found.
    pub fn finish(self) -> Findings {
        let text = self.text;
        let in_order = |mut found: Vec<(usize, String)>| {
            found.sort();
            found.dedup();
            let placed = |(at, message)| placed(text, at, message);
            found.into_iter().map(placed).collect()
        };
        let line = |(path, at)| (path, placed(text, at, String::new()).line);
        Findings {
            problems: in_order(self.problems),
            warnings: in_order(self.warnings),
            written: self.written.into_iter().map(line).collect(),
            from_env: self.from_env,
            variables: self.variables,
        }
    }

    /// A table whose keys are those of `section`: complains about every other key and about every
    /// needed one that is absent. `at` = where the table begins, `path` = what stands in front of
    /// its keys, `place` = how it is called, if not as its section.
    pub fn section<'r, 't>(
        &'r mut self,
        table: &'t DeTable<'t>,
        section: &'static keys::Section,
        at: usize,
        path: &str,
        place: Option<&str>,
    ) -> Section<'r, 'd, 't> {
        let place = place.unwrap_or(section.place);
        let names = section.names();
        self.known(table, place, &names);
        for key in table.keys() {
            let name = key.get_ref().as_ref();
            if names.contains(&name) {
                self.written
                    .insert(format!("{path}{name}"), key.span().start);
            }
        }
        for key in section.keys.iter().filter(|k| k.required) {
            // A mistyped key is reported already; that the right one is absent too is no news.
            let meant = |k: &str| {
                !names.contains(&k) && closest(k, names.iter().copied()) == Some(key.name)
            };
            if !table.contains_key(key.name) && !table.keys().any(|k| meant(k.get_ref())) {
                let table = place.strip_prefix("in ").unwrap_or(place);
                self.complain(at, format!("{table} without `{}`", key.name));
            }
        }
        Section {
            reader: self,
            table,
            keys: section,
        }
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

    /// The values of a list, each with the byte where it stands; wrong entries are left out.
    pub fn entries<T>(
        &mut self,
        value: &DeValue,
        at: usize,
        key: &str,
        kind: Kind<T>,
    ) -> Option<Vec<(usize, T)>> {
        let DeValue::Array(entries) = value else {
            self.complain(at, format!("`{key}` must be a list, like [\"a\"]"));
            return None;
        };
        let mut read = Vec::with_capacity(entries.len());
        for entry in entries.iter() {
            read.extend(self.one(entry.span().start, entry.get_ref(), key, kind));
        }
        Some(read)
    }

    /// The table of a key, with the byte where it begins.
    pub fn table<'t>(
        &mut self,
        table: &'t DeTable<'t>,
        key: &str,
    ) -> Option<(usize, &'t DeTable<'t>)> {
        let value = table.get(key)?;
        match value.get_ref() {
            DeValue::Table(inner) => Some((value.span().start, inner)),
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

    /// One value, with the byte where it stands; `None` if it is wrong.
    pub fn one<T>(
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

/// A table with its row of keys.
pub struct Section<'r, 'd, 't> {
    /// The document.
    pub reader: &'r mut Reader<'d>,
    table: &'t DeTable<'t>,
    keys: &'static keys::Section,
}

impl<'t> Section<'_, '_, 't> {
    /// What the table says a key takes. A key that is not in the table would be unknown to users
    /// too, which a test of every key would see.
    fn shape(&self, key: &str) -> Option<Shape> {
        self.keys.key(key).map(|k| k.shape)
    }

    /// The value as it stands, with its byte.
    pub fn raw(&self, key: &str) -> Option<(usize, &'t DeValue<'t>)> {
        let value = self.table.get(key)?;
        Some((value.span().start, value.get_ref()))
    }

    /// The value of a key, with the byte where it stands; `None` if absent or wrong.
    pub fn spanned<T>(&mut self, key: &str, kind: Kind<T>) -> Option<(usize, T)> {
        let (at, value) = self.raw(key)?;
        self.reader.one(at, value, key, kind)
    }

    /// The value of a key; `None` if absent or wrong.
    pub fn value<T>(&mut self, key: &str, kind: Kind<T>) -> Option<T> {
        self.spanned(key, kind).map(|(_, value)| value)
    }

    /// The values of a list; wrong entries are left out.
    pub fn list<T>(&mut self, key: &str, kind: Kind<T>) -> Option<Vec<T>> {
        let (at, value) = self.raw(key)?;
        let read = self.reader.entries(value, at, key, kind)?;
        Some(read.into_iter().map(|(_, value)| value).collect())
    }

    /// `true` or `false`.
    pub fn switch(&mut self, key: &str) -> Option<bool> {
        self.value(key, &kinds::boolean)
    }

    /// A whole number in the key's range.
    pub fn number(&mut self, key: &str) -> Option<u32> {
        let (min, max) = match self.shape(key) {
            Some(Shape::Number(min, max)) => (min, max),
            _ => (0, u32::MAX),
        };
        self.value(key, &kinds::integer(min..=max))
    }

    /// A TCP port, with the byte where it stands.
    pub fn port(&mut self, key: &str) -> Option<(usize, u16)> {
        self.spanned(key, &kinds::port)
    }

    /// A duration in the key's range.
    pub fn span(&mut self, key: &str) -> Option<Duration> {
        let (min, max) = match self.shape(key) {
            Some(Shape::Span(min, max)) => (min, max),
            _ => (0, u64::MAX),
        };
        let (min, max) = (Duration::from_millis(min), Duration::from_millis(max));
        self.value(key, &kinds::duration(min..=max))
    }
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
