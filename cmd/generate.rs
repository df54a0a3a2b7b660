//! `generate`: writes completions/ and man/, or checks that they are as they would be written.
//!
//! Owns: which files there are. Leaves to others: what is in them (`completions`, `man`),
//! units for service managers (`units`).
//! Nothing here may depend on the machine: the output is committed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory, ValueEnum};
use clap_complete::{Generator, Shell};
use nvpair_proxy::rules::units::count;
use nvpair_proxy::wire::control::SCHEMA_VERSION;
use serde_json::json;

use crate::cli::{Cli, GenerateArgs, GenerateVerb, Globals};
use crate::completions::script;
use crate::errors::{CliError, Kind};
use crate::man;
use crate::output;
use crate::units;

/// The folders that hold generated files and nothing else.
const FOLDERS: [&str; 2] = ["completions", "man"];

/// Runs it.
pub fn run(args: &GenerateArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    match &args.verb {
        Some(GenerateVerb::Systemd(args)) => return units::systemd(args, globals),
        Some(GenerateVerb::Launchd(args)) => return units::launchd(args, globals),
        None => {},
    }
    let files = files()?;
    match args.check {
        true => check(&args.dir, &files, globals),
        false => write(&args.dir, &files, globals),
    }
}

/// Every file, by its path below the folder.
fn files() -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for shell in Shell::value_variants() {
        let name = shell.file_name("nvpair-proxy");
        files.insert(
            Path::new("completions").join(name),
            script(*shell)?.into_bytes(),
        );
    }
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    pages(&root, &mut files)?;
    Ok(files)
}

/// The page of a command and those of its visible subcommands.
fn pages(command: &Command, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<()> {
    for sub in command.get_subcommands().filter(|s| !s.is_hide_set()) {
        pages(sub, files)?;
    }
    let (name, page) = man::page(command)?;
    files.insert(Path::new("man").join(name), page);
    Ok(())
}

fn write(
    dir: &Path,
    files: &BTreeMap<PathBuf, Vec<u8>>,
    globals: &Globals,
) -> Result<ExitCode, CliError> {
    let strays = strays(dir, files)?;
    for stray in &strays {
        fs::remove_file(dir.join(stray))
            .with_context(|| format!("cannot remove {}", stray.display()))?;
    }
    for folder in FOLDERS {
        fs::create_dir_all(dir.join(folder)).with_context(|| format!("cannot make {folder}/"))?;
    }
    for (path, content) in files {
        fs::write(dir.join(path), content)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if globals.json {
        output::print_json(&json!({
            "schema_version": SCHEMA_VERSION,
            "written": names(files.keys()),
            "removed": names(strays.iter()),
        }))?;
    } else if !globals.quiet {
        output::say(&format!("{} written", count(files.len(), "file")))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn check(
    dir: &Path,
    files: &BTreeMap<PathBuf, Vec<u8>>,
    globals: &Globals,
) -> Result<ExitCode, CliError> {
    let mut wrong = strays(dir, files)?;
    for (path, content) in files {
        if fs::read(dir.join(path)).ok().as_ref() != Some(content) {
            wrong.push(path.clone());
        }
    }
    let wrong = names(wrong.iter());
    if globals.json {
        output::print_json(&json!({"schema_version": SCHEMA_VERSION, "out_of_date": wrong}))?;
    }
    match (wrong.is_empty(), globals.json) {
        (true, _) => Ok(ExitCode::SUCCESS),
        (false, true) => Ok(ExitCode::from(Kind::Failed as u8)),
        (false, false) => {
            let what = format!("out of date: {}", wrong.join(", "));
            let again = format!("nvpair-proxy generate {}", dir.display());
            Err(CliError::new(Kind::Failed, what).try_this(again))
        },
    }
}

fn names<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> Vec<String> {
    paths.map(|p| p.display().to_string()).collect()
}

/// Files in our folders that we do not write: left by a subcommand that is gone.
fn strays(dir: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) -> Result<Vec<PathBuf>> {
    let mut strays = Vec::new();
    for folder in FOLDERS {
        let Ok(entries) = fs::read_dir(dir.join(folder)) else {
            continue;
        };
        for entry in entries {
            let name = entry
                .with_context(|| format!("cannot read {folder}/"))?
                .file_name();
            let path = Path::new(folder).join(name);
            if !files.contains_key(&path) {
                strays.push(path);
            }
        }
    }
    Ok(strays)
}
