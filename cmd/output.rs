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

/// Left margin of every table.
const INDENT: &str = "  ";

/// How text is laid out on one stream.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Whether colour is used.
    pub color: bool,
    /// Columns of the terminal; none when not a terminal, and then nothing is ever cut.
    pub width: Option<usize>,
}

/// What happens to a cell that is too wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It is cut, and ends in an ellipsis.
    Cut,
    /// It continues on the next line.
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
        let mut builder = Builder::default();
        builder.push_record(head);
        for row in rows {
            builder.push_record(row.iter().map(|cell| clean(cell)));
        }
        let mut table = builder.build();
        table.with(Style::empty()).with(Padding::new(0, 2, 0, 0));
        // Less is not readable anyway.
        let limit = self.width.map(|w| w.saturating_sub(INDENT.len()).max(40));
        match (limit, fit) {
            (None, _) => {},
            (Some(limit), Fit::Cut) => {
                let cut = Width::truncate(limit).suffix("…");
                table.with(cut.priority(Priority::max(true)));
            },
            (Some(limit), Fit::Wrap) => {
                let wrap = Width::wrap(limit).keep_words(true);
                table.with(wrap.priority(Priority::max(true)));
            },
        }
        let mut text = String::new();
        for (i, line) in table.to_string().lines().enumerate() {
            let line = line.trim_end();
            match i {
                0 if self.color => text.push_str(&format!("{INDENT}\x1b[1m{line}\x1b[0m\n")),
                _ => text.push_str(&format!("{INDENT}{line}\n")),
            }
        }
        text
    }

    /// A heading.
    pub fn heading(&self, text: &str) -> String {
        match self.color {
            true => format!("\x1b[1m{text}\x1b[0m\n"),
            false => format!("{text}\n"),
        }
    }
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

/// Writes to stderr. Nobody is left to be told that it is closed.
pub fn print_err(text: &str) {
    drop(write_to(&mut io::stderr().lock(), text.as_bytes()));
}

/// Writes a part of what goes on as long as somebody reads.
pub fn stream(text: &str) -> Result<Reader, CliError> {
    write_to(&mut io::stdout().lock(), text.as_bytes())
}

/// Writes one line of JSON Lines to stdout.
pub fn stream_json(document: &impl Serialize) -> Result<Reader, CliError> {
    let mut text = serde_json::to_string(document).context("cannot write the answer as JSON")?;
    text.push('\n');
    stream(&text)
}

/// Writes one JSON document to stdout.
pub fn print_json(document: &impl Serialize) -> Result<(), CliError> {
    let mut text =
        serde_json::to_string_pretty(document).context("cannot write the answer as JSON")?;
    text.push('\n');
    print(&text)
}

fn write_to(out: &mut impl Write, bytes: &[u8]) -> Result<Reader, CliError> {
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(Reader::There),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(e) => Err(e).context("cannot write to stdout")?,
    }
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
        let text = PIPE.table(["A", "LONG"], &[row(["1", &long])], Fit::Cut);
        assert_eq!(text, format!("  A  LONG\n  1  {long}\n"));
    }

    #[test]
    fn on_a_terminal_the_widest_column_gives_way() {
        let look = Look {
            color: false,
            width: Some(60),
        };
        let long = "word ".repeat(30);
        let cut = look.table(["A", "LONG"], &[row(["1", &long])], Fit::Cut);
        assert!(cut.lines().all(|l| l.chars().count() <= 60), "{cut}");
        assert!(cut.contains('…') && cut.lines().count() == 2, "{cut}");
        let wrapped = look.table(["A", "LONG"], &[row(["1", &long])], Fit::Wrap);
        assert!(
            wrapped.lines().all(|l| l.chars().count() <= 60),
            "{wrapped}"
        );
        assert_eq!(wrapped.matches("word").count(), 30, "{wrapped}");
    }

    #[test]
    fn a_name_cannot_steer_the_terminal() {
        let text = PIPE.table(["A", "B"], &[row(["a\x1b[2Jb", "c\nd"])], Fit::Cut);
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
