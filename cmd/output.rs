//! What goes to stdout: tables, lines, JSON.
//!
//! Owns: widths, colour, the start-up table, a closed stdout. Leaves to others: what is shown.
//! A reader that went away (`| head`) is no failure: it has what it wanted.

use std::io::{self, IsTerminal, Write};

use anyhow::Context;
use clap::ColorChoice;
use serde::Serialize;
use tabled::builder::Builder;
use tabled::settings::peaker::Priority;
use tabled::settings::{Padding, Style, Width};

use crate::cli::Globals;
use crate::errors::CliError;
use crate::fold;

/// Left margin of every table.
const INDENT: &str = "  ";

/// How text is laid out on one stream.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Whether colour is used.
    pub color: bool,
    /// Columns of the terminal; none when not a terminal, and then lines are as long as they are.
    pub width: Option<usize>,
}

/// What happens to a table that is too wide; nothing is ever cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The last column continues on the next line, and where that is not enough the last ones stand
    /// below their row.
    Fold,
    /// The widest columns continue on the next line, where they stand.
    Wrap,
}

impl Look {
    /// For stdout.
    pub fn stdout(globals: &Globals) -> Self {
        let terminal = io::stdout().is_terminal();
        let width = terminal_size::terminal_size().map(|(w, _)| usize::from(w.0));
        Self {
            color: use_color(globals.color, terminal),
            width: width.filter(|_| terminal),
        }
    }

    /// A table with a header, indented, in columns two spaces apart.
    pub fn table<const N: usize>(&self, head: [&str; N], rows: &[[String; N]], fit: Fit) -> String {
        let rows: Vec<[String; N]> = rows
            .iter()
            .map(|row| std::array::from_fn(|i| clean(&row[i])))
            .collect();
        let lines = match (self.limit(), fit) {
            (Some(limit), Fit::Wrap) => wrapped(head, &rows, limit),
            (limit, _) => fold::lines(&head, &rows, limit.unwrap_or(usize::MAX)),
        };
        let mut text = String::new();
        for (i, line) in lines.iter().enumerate() {
            match i {
                0 if self.color => text.push_str(&format!("{INDENT}\x1b[1m{line}\x1b[0m\n")),
                _ => text.push_str(&format!("{INDENT}{line}\n")),
            }
        }
        text
    }

    /// Whether a table has its columns side by side without a line more.
    pub fn fits<const N: usize>(&self, head: [&str; N], rows: &[[String; N]]) -> bool {
        let wide = fold::total(&fold::widths(&head, rows));
        self.limit().is_none_or(|limit| wide <= limit)
    }

    /// A text in lines that fit behind `before` columns.
    pub fn wrapped(&self, text: &str, before: usize) -> Vec<String> {
        match self.width {
            Some(width) => fold::wrap(text, width.saturating_sub(before).max(20)),
            None => vec![text.to_owned()],
        }
    }

    /// A sentence in lines that fit, the first one behind `indent`, the others a step further in. A live
    /// view shows no more of a line than fits.
    pub fn sentence(&self, indent: &str, text: &str) -> String {
        let further = format!("\n{indent}{INDENT}");
        let lines = self.wrapped(&clean(text), indent.len() + INDENT.len());
        format!("{indent}{}\n", lines.join(&further))
    }

    fn limit(&self) -> Option<usize> {
        // Less is not readable anyway.
        self.width.map(|w| w.saturating_sub(INDENT.len()).max(20))
    }

    /// A heading.
    pub fn heading(&self, text: &str) -> String {
        match self.color {
            true => format!("\x1b[1m{text}\x1b[0m\n"),
            false => format!("{text}\n"),
        }
    }
}

fn wrapped<const N: usize>(head: [&str; N], rows: &[[String; N]], limit: usize) -> Vec<String> {
    let mut builder = Builder::default();
    builder.push_record(head);
    for row in rows {
        builder.push_record(row);
    }
    let mut table = builder.build();
    table.with(Style::empty()).with(Padding::new(0, 2, 0, 0));
    // Below this the library has no room for a letter a column.
    let wrap = Width::wrap(limit.max(40)).keep_words(true);
    table.with(wrap.priority(Priority::max(true)));
    let text = table.to_string();
    text.lines().map(|l| l.trim_end().to_owned()).collect()
}

/// Whether colour goes to a stream.
pub fn use_color(choice: ColorChoice, terminal: bool) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
    }
}

/// Whether colour goes to stderr.
pub fn stderr_color(globals: &Globals) -> bool {
    use_color(globals.color, io::stderr().is_terminal())
}

/// Text from elsewhere without control characters: a node's name must not steer a terminal.
pub fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

/// A value or a dash.
pub fn dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |v| v.to_string())
}

/// A list or a dash.
pub fn list<T: ToString>(values: &[T]) -> String {
    match values {
        [] => "-".to_owned(),
        _ => values
            .iter()
            .map(T::to_string)
            .collect::<Vec<_>>()
            .join(", "),
    }
}

/// Whether somebody still reads stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Yes, as far as is known.
    There,
    /// It went away.
    Gone,
}

/// Writes text to stdout.
pub fn print(text: &str) -> Result<(), CliError> {
    stream(text).map(drop)
}

/// Writes one line to stdout, whatever names are in it.
pub fn say(line: &str) -> Result<(), CliError> {
    print(&(clean(line) + "\n"))
}

/// Writes to stderr. Nobody is left to be told that it is closed.
pub fn print_err(text: &str) {
    drop(write_to(&mut io::stderr().lock(), text.as_bytes()));
}

/// Writes a part of what goes on as long as somebody reads.
pub fn stream(text: &str) -> Result<Reader, CliError> {
    write_to(&mut io::stdout().lock(), text.as_bytes())
}

/// Says something beside the answer, on stderr.
pub fn note(text: &str) {
    // Nobody is left to be told that stderr is closed.
    drop(writeln!(io::stderr().lock(), "{}", clean(text)));
}

/// One line of JSON Lines.
pub fn json_line(document: &impl Serialize) -> Result<String, CliError> {
    let text = serde_json::to_string(document).context("cannot write the answer as JSON")?;
    Ok(text + "\n")
}

/// Writes one JSON document to stdout.
pub fn print_json(document: &impl Serialize) -> Result<(), CliError> {
    let mut text =
        serde_json::to_string_pretty(document).context("cannot write the answer as JSON")?;
    text.push('\n');
    print(&text)
}

fn write_to(out: &mut impl Write, bytes: &[u8]) -> Result<Reader, CliError> {
    told(out.write_all(bytes).and_then(|()| out.flush()))
}

/// What became of something written to stdout.
pub fn told(written: io::Result<()>) -> Result<Reader, CliError> {
    match written {
        Ok(()) => Ok(Reader::There),
        Err(e) if is_gone(&e) => Ok(Reader::Gone),
        Err(e) => {
            let told = CliError::from(anyhow::Error::new(e).context("cannot write to stdout"));
            Err(told.try_this("where it is written to: is the disk full?"))
        },
    }
}

/// Whether nobody reads any more: the pipe's other end or the terminal was closed.
fn is_gone(e: &io::Error) -> bool {
    #[cfg(unix)]
    if e.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) && !is_file() {
        return true;
    }
    e.kind() == io::ErrorKind::BrokenPipe
}

/// Whether stdout is a file: there the same error is a broken disk.
#[cfg(unix)]
fn is_file() -> bool {
    use std::os::fd::AsFd;
    let own = io::stdout().as_fd().try_clone_to_owned();
    own.map(std::fs::File::from)
        .and_then(|f| f.metadata())
        .is_ok_and(|m| m.is_file())
}

/// One facade at start-up.
#[derive(Clone, Debug)]
pub struct StartupRow {
    /// Display name of the engine.
    pub engine: String,
    /// Where it listens, and why there.
    pub listening: String,
    /// What a client is given.
    pub paste: String,
    /// Its nodes, or how to get some.
    pub nodes: String,
}

/// The table a standalone daemon shows once its facades listen; the caller prints it.
pub fn startup_table(rows: &[StartupRow], look: &Look) -> String {
    let rows: Vec<_> = rows
        .iter()
        .cloned()
        .map(|r| [r.engine, r.listening, r.paste, r.nodes])
        .collect();
    let head = ["ENGINE", "LISTENING", "PASTE INTO A CLIENT", "NODES"];
    look.table(head, &rows, Fit::Wrap)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIPE: Look = Look {
        color: false,
        width: None,
    };

    fn row(cells: [&str; 2]) -> [String; 2] {
        cells.map(str::to_owned)
    }

    #[test]
    fn a_piped_table_is_never_cut() {
        let long = "x".repeat(300);
        let text = PIPE.table(["A", "LONG"], &[row(["1", &long])], Fit::Fold);
        assert_eq!(text, format!("  A  LONG\n  1  {long}\n"));
    }

    #[test]
    fn on_a_terminal_long_cells_take_more_lines() {
        let look = Look {
            color: false,
            width: Some(60),
        };
        let long = "word ".repeat(30);
        let cut = look.table(["A", "LONG"], &[row(["1", &long])], Fit::Fold);
        assert!(cut.lines().all(|l| l.chars().count() <= 60), "{cut}");
        assert_eq!(cut.matches("word").count(), 30, "{cut}");
        let wrapped = look.table(["A", "LONG"], &[row(["1", &long])], Fit::Wrap);
        assert!(
            wrapped.lines().all(|l| l.chars().count() <= 60),
            "{wrapped}"
        );
        assert_eq!(wrapped.matches("word").count(), 30, "{wrapped}");
    }

    #[test]
    fn a_name_cannot_steer_the_terminal() {
        let text = PIPE.table(["A", "B"], &[row(["a\x1b[2Jb", "c\nd"])], Fit::Fold);
        assert!(
            !text.contains('\x1b') && text.lines().count() == 2,
            "{text:?}"
        );
    }

    #[test]
    fn the_start_up_table_wraps_what_is_long() {
        let rows = [StartupRow {
            engine: "llama.cpp".into(),
            listening: "localhost:8080".into(),
            paste: "http://localhost:8080/v1".into(),
            nodes: "none yet: start llama-server on 8081, or add --node llamacpp=URL".into(),
        }];
        let look = Look {
            color: false,
            width: Some(100),
        };
        let text = startup_table(&rows, &look);
        assert!(
            text.starts_with("  ENGINE     LISTENING       PASTE INTO A CLIENT"),
            "{text}"
        );
        assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
        assert_eq!(text.lines().count(), 3, "{text}");
    }

    #[test]
    fn a_closed_reader_is_no_failure_and_a_full_disk_is() {
        struct Failing(io::ErrorKind);
        impl Write for Failing {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(self.0.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let gone = write_to(&mut Failing(io::ErrorKind::BrokenPipe), b"x");
        assert_eq!(gone.unwrap(), Reader::Gone);
        assert!(write_to(&mut Failing(io::ErrorKind::StorageFull), b"x").is_err());
    }
}
