//! `workloads --export`: the journal's records in a file of the user's, or on stdout.
//!
//! Owns: the file. Leaves to others: which records (the daemon), their form (`wire::journal`).
//!
//! A file appears whole or not at all, for its owner only. An earlier export is replaced; any other
//! file is not ours to replace.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use nvpair_proxy::control::client::{ControlApiClient, ControlClient};
use nvpair_proxy::rules::units::count;
use nvpair_proxy::wire::control::SCHEMA_VERSION;
use nvpair_proxy::wire::journal::Record;
use nvpair_proxy::wire::replay::ExportEnd;
use serde_json::json;
use tempfile::NamedTempFile;

use crate::cli::{Globals, WorkloadsArgs};
use crate::connect::attached;
use crate::errors::{CliError, Kind};
use crate::live::Interrupt;
use crate::output::{self, Reader};
use crate::workloads::node_id;

/// An export's first line, if it has one, is not longer.
const FIRST_LINE: u64 = 64 * 1024;

/// Runs it.
pub fn run(path: &Path, args: &WorkloadsArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let to_stdout = path.as_os_str() == "-";
    let mut out = match to_stdout {
        true => Out::Stdout,
        false => Out::open(path)?,
    };
    let unfinished = out.unfinished();
    let end = attached(globals, async |client| {
        let interrupt = Interrupt::listen();
        tokio::select! {
            end = write_all(args, client, &mut out) => end,
            () = interrupt.pressed() => {
                Err(CliError::new(Kind::Failed, "stopped by Ctrl-C").why(unfinished))
            },
        }
    })?;
    out.finish(path)?;
    let Some(end) = end.filter(|_| !to_stdout) else {
        return Ok(ExitCode::SUCCESS);
    };
    if globals.json {
        output::print_json(&json!({
            "schema_version": SCHEMA_VERSION,
            "file": path.display().to_string(),
            "records": end.records,
            "skipped_lines": end.skipped_lines,
        }))?;
    } else if !globals.quiet {
        output::say(&format!("{} written to {}", told(&end), path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn told(end: &ExportEnd) -> String {
    let workloads = count(end.records, "workload");
    match end.skipped_lines {
        0 => workloads,
        n => {
            let lines = count(n, "unreadable line");
            format!("{workloads} ({lines} of the journal left out)")
        },
    }
}

/// Writes every part; nothing where nobody reads any more.
async fn write_all(
    args: &WorkloadsArgs,
    client: &ControlClient,
    out: &mut Out,
) -> Result<Option<ExportEnd>, CliError> {
    let node = node_id(args, client).await?;
    let mut parts = client
        .call(async |c| {
            c.workloads_export(
                args.engine,
                args.state,
                args.model.clone(),
                node,
                args.limit,
            )
            .await
        })
        .await?;
    loop {
        let part = match parts.next().await {
            Some(Ok(part)) => part,
            Some(Err(e)) => {
                return Err(CliError::new(Kind::Failed, "a part cannot be read")
                    .why(e.to_string())
                    .try_this("the same version of daemon and command"));
            },
            None => {
                return Err(CliError::new(Kind::Failed, "the export broke off")
                    .why("the daemon ended, or it cannot read its journal; its log says which"));
            },
        };
        if out.write(&part.records)? == Reader::Gone {
            return Ok(None);
        }
        if part.end.is_some() {
            return Ok(part.end);
        }
    }
}

/// Where records go.
enum Out {
    Stdout,
    /// Written aside, for the file of this path.
    Aside(BufWriter<NamedTempFile>, PathBuf),
    /// A pipe or a device, which cannot be replaced.
    Stream(BufWriter<File>),
}

impl Out {
    fn open(path: &Path) -> Result<Self, CliError> {
        let cannot = |e: io::Error| {
            CliError::new(Kind::Failed, format!("cannot write {}", path.display()))
                .why(e.to_string())
        };
        let target = match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => {
                let what = format!("{} is a folder", path.display());
                return Err(CliError::new(Kind::Usage, what).try_this("a file in it"));
            },
            Ok(meta) if !meta.is_file() => {
                let stream = File::options().write(true).open(path).map_err(cannot)?;
                return Ok(Self::Stream(BufWriter::new(stream)));
            },
            Ok(_) => {
                if !is_export(path).map_err(cannot)? {
                    let what = format!("{} exists and is no export", path.display());
                    return Err(CliError::new(Kind::Usage, what)
                        .why("only an earlier export is replaced")
                        .try_this("another name, or remove it first"));
                }
                // A link stays one.
                fs::canonicalize(path).map_err(cannot)?
            },
            Err(e) if e.kind() == io::ErrorKind::NotFound => path.to_owned(),
            Err(e) => return Err(cannot(e)),
        };
        let folder = match target.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        // For its owner only, from the start.
        let aside = NamedTempFile::new_in(folder).map_err(cannot)?;
        Ok(Self::Aside(BufWriter::new(aside), target))
    }

    /// What becomes of what is there already, where an export does not come to its end. A file that is
    /// written aside goes with its value.
    fn unfinished(&self) -> &'static str {
        match self {
            Self::Aside(..) => "nothing was written",
            Self::Stdout | Self::Stream(_) => "what was written is a part of it at most",
        }
    }

    fn write(&mut self, records: &[Record]) -> Result<Reader, CliError> {
        let mut text = Vec::new();
        for record in records {
            serde_json::to_writer(&mut text, record).context("cannot write a record as JSON")?;
            text.push(b'\n');
        }
        let written = match self {
            Self::Stdout => {
                let text = String::from_utf8(text).context("JSON is UTF-8")?;
                return output::stream(&text);
            },
            Self::Aside(file, _) => file.write_all(&text),
            Self::Stream(stream) => stream.write_all(&text),
        };
        match written {
            Ok(()) => Ok(Reader::There),
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
            Err(e) => Err(cannot_write(e)),
        }
    }

    fn finish(self, path: &Path) -> Result<(), CliError> {
        let finished = match self {
            Self::Stdout => Ok(()),
            Self::Stream(mut stream) => match stream.flush() {
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                other => other,
            },
            Self::Aside(file, target) => (|| {
                let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
                file.as_file().sync_all()?;
                file.persist(target).map_err(|e| e.error)?;
                Ok(())
            })(),
        };
        finished.map_err(|e| cannot_write(e).why(path.display().to_string()))
    }
}

fn cannot_write(e: io::Error) -> CliError {
    CliError::new(Kind::Failed, "cannot write the export")
        .why(e.to_string())
        .try_this("a folder where there is room, and that you may write to")
}

/// Whether a file is an earlier export: empty, or its first line is a record of some version.
fn is_export(path: &Path) -> io::Result<bool> {
    let mut line = Vec::new();
    let mut reader = BufReader::new(File::open(path)?).take(FIRST_LINE);
    reader.read_until(b'\n', &mut line)?;
    let known = |line: &[u8]| {
        use nvpair_proxy::wire::journal::LineError;
        !matches!(Record::parse(line), Err(LineError::Malformed))
    };
    Ok(line.is_empty() || known(line.trim_ascii_end()))
}
