//! A recording in a file or on stdin: JSON lines as the journal has them.
//!
//! Owns: reading it line by line, and which lines are no records. Leaves to others: what a record is
//! (`wire::journal`), what is taken of it beyond engine and number (the daemon).
//!
//! One bad line costs that line alone. A file without any record is no recording.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use nvpair_proxy::rules::replay::{MOST, Pick};
use nvpair_proxy::rules::units::count;
use nvpair_proxy::wire::journal::{LineError, Record};
use nvpair_proxy::wire::replay::Arrival;

use crate::cli::ReplayArgs;
use crate::errors::{CliError, Kind};
use crate::output;

/// A longer line is no record: the journal writes none.
const LONGEST: usize = 64 * 1024;

/// What is in a file.
#[derive(Debug, Default)]
pub struct Recording {
    /// Its workloads, as far as they are wanted.
    pub arrivals: Vec<Arrival>,
    /// Lines that are no records.
    pub skipped: u64,
    torn: bool,
    malformed: u64,
    versions: BTreeMap<u64, u64>,
    /// Whether any line was a record, wanted or not.
    any: bool,
    first_bad: Option<(u64, LineError)>,
}

/// Reads a recording; `-` is stdin.
pub fn read(file: &Path, args: &ReplayArgs) -> Result<Recording, CliError> {
    let unreadable = |e: io::Error| {
        CliError::new(Kind::Usage, format!("cannot read {}", file.display()))
            .why(e.to_string())
            .try_this("a file written by: nvpair-proxy workloads --export FILE")
    };
    if file.as_os_str() == "-" {
        return gather(&mut io::stdin().lock(), file, args, unreadable);
    }
    let opened = File::open(file).map_err(unreadable)?;
    gather(&mut BufReader::new(opened), file, args, unreadable)
}

fn gather(
    reader: &mut impl BufRead,
    file: &Path,
    args: &ReplayArgs,
    unreadable: impl Fn(io::Error) -> CliError,
) -> Result<Recording, CliError> {
    let pick = Pick {
        engine: args.engine,
        from_at: None,
        last: args.last.map(|n| n as usize),
    };
    let room = pick
        .last
        .map_or(MOST, |last| last.saturating_mul(2).clamp(1024, MOST));
    let mut recording = Recording::default();
    let (mut line, mut number) = (Vec::new(), 0);
    while let Some(end) = read_line(reader, &mut line).map_err(&unreadable)? {
        number += 1;
        let record = match end {
            End::TooLong => Err(LineError::Malformed),
            _ if line.is_empty() => continue,
            _ => Record::parse(&line),
        };
        match record {
            Ok(record) => recording.take(&record, pick),
            Err(why) => recording.skip(number, why, end == End::OfFile),
        }
        if recording.arrivals.len() > room {
            pick.apply(&mut recording.arrivals);
        }
        if recording.arrivals.len() > MOST {
            let what = format!("{} has more than {MOST} workloads", file.display());
            return Err(CliError::new(Kind::Usage, what)
                .try_this("--last N for the newest, or --engine ENGINE for one facade's"));
        }
    }
    match recording.first_bad {
        Some((at, why)) if !recording.any => {
            let what = format!("{} is no recording", file.display());
            Err(CliError::new(Kind::Usage, what)
                .why(format!("line {at}: {why}"))
                .try_this(match why {
                    LineError::Version(_) => "the version of nvpair-proxy that recorded it",
                    LineError::Malformed => {
                        "a file written by: nvpair-proxy workloads --export FILE"
                    },
                }))
        },
        _ => Ok(recording),
    }
}

impl Recording {
    fn take(&mut self, record: &Record, pick: Pick) {
        self.any = true;
        if pick.engine.is_none_or(|e| e == record.engine) {
            self.arrivals.push(Arrival::from(record));
        }
    }

    fn skip(&mut self, line: u64, why: LineError, last: bool) {
        self.skipped += 1;
        self.first_bad.get_or_insert((line, why));
        match why {
            LineError::Version(v) => *self.versions.entry(v).or_default() += 1,
            LineError::Malformed if last => self.torn = true,
            LineError::Malformed => self.malformed += 1,
        }
    }

    /// Tells on stderr what was skipped, each kind once.
    pub fn warn(&self) {
        let mut told = String::new();
        for (version, n) in &self.versions {
            told.push_str(&format!(
                "warning: {} skipped: format version {version}, which another version of \
                 nvpair-proxy writes\n",
                count(*n, "line")
            ));
        }
        if self.malformed > 0 {
            let n = count(self.malformed, "line");
            told.push_str(&format!("warning: {n} skipped: no record of a journal\n"));
        }
        if self.torn {
            told.push_str("warning: the last line is torn and was skipped\n");
        }
        output::print_err(&told);
    }
}

/// Tells on stderr how many lines of the daemon's own journal it could not read.
pub fn warn_of_journal(skipped: u64) {
    if skipped > 0 {
        let n = count(skipped, "line");
        output::print_err(&format!(
            "warning: {n} of the journal skipped: torn, or of another version\n"
        ));
    }
}

/// How a line ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// With its newline.
    Whole,
    /// With the file.
    OfFile,
    /// It is longer than [`LONGEST`]; what is read of it says nothing.
    TooLong,
}

/// Reads one line without its newline; none at the end.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<End>> {
    line.clear();
    let most = LONGEST as u64 + 1;
    if reader.by_ref().take(most).read_until(b'\n', line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        return Ok(Some(End::Whole));
    }
    if line.len() <= LONGEST {
        return Ok(Some(End::OfFile));
    }
    loop {
        let held = reader.fill_buf()?;
        let (used, over) = match held.iter().position(|b| *b == b'\n') {
            Some(at) => (at + 1, true),
            None => (held.len(), held.is_empty()),
        };
        reader.consume(used);
        if over {
            return Ok(Some(End::TooLong));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_a_newline_the_file_or_not_in_time() {
        let long = "x".repeat(LONGEST + 1);
        let longest = "y".repeat(LONGEST);
        let text = format!("a\r\n\n{long}\n{longest}\n{long}{long}\nb");
        // A small buffer, so that long lines come in pieces.
        let mut reader = BufReader::with_capacity(16, text.as_bytes());
        let (mut line, mut seen) = (Vec::new(), Vec::new());
        while let Some(end) = read_line(&mut reader, &mut line).unwrap() {
            let kept = (end != End::TooLong).then_some(line.len());
            seen.push((end, kept));
        }
        assert_eq!(
            seen,
            [
                (End::Whole, Some(1)),
                (End::Whole, Some(0)),
                (End::TooLong, None),
                (End::Whole, Some(LONGEST)),
                (End::TooLong, None),
                (End::OfFile, Some(1)),
            ]
        );
    }
}
