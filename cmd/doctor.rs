//! `doctor`: what may be wrong on this machine, each finding with its remedy.

use std::process::ExitCode;

use nvpair_proxy::config::paths::process_env;
use nvpair_proxy::doctor::{self, Finding, Level, Options};
use nvpair_proxy::rules::units::count;
use nvpair_proxy::wire::control::SCHEMA_VERSION;
use serde::Serialize;

use crate::cli::{DoctorArgs, Globals};
use crate::connect::{self, OWN_VERSION};
use crate::errors::{CliError, Kind};
use crate::output::{self, Look};
use crate::runtime;

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    schema_version: u32,
    version: &'a str,
    problems: usize,
    warnings: usize,
    findings: &'a [Finding],
}

/// Runs it. Problems are an answer, told on stdout; the exit code says that there are some.
pub fn run(args: &DoctorArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let runtime = runtime::single()?;
    let options = Options {
        socket: connect::socket(globals).ok(),
        config: args.config.clone(),
        cluster_dir: args.cluster_dir.clone(),
        version: OWN_VERSION.to_owned(),
    };
    let findings = runtime.block_on(doctor::examine(options, &process_env));
    let of = |level| findings.iter().filter(|f| f.level == level).count();
    let (problems, warnings) = (of(Level::Problem), of(Level::Warning));
    if globals.json {
        output::print_json(&Report {
            schema_version: SCHEMA_VERSION,
            version: OWN_VERSION,
            problems,
            warnings,
            findings: &findings,
        })?;
    } else {
        let look = Look::stdout(globals);
        let least = match globals.quiet {
            true => Level::Warning,
            false => Level::Ok,
        };
        let shown = findings.iter().filter(|f| f.level >= least);
        let mut text: String = shown.map(|f| told(f, &look)).collect();
        if !globals.quiet {
            let (problems, warnings) = (count(problems, "problem"), count(warnings, "warning"));
            text.push_str(&format!("{problems}, {warnings}.\n"));
        }
        output::print(&text)?;
    }
    Ok(match problems {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(Kind::Failed as u8),
    })
}

/// Width of the words in front.
const MARGIN: usize = 8;

fn told(finding: &Finding, look: &Look) -> String {
    let word = finding.level.as_str();
    let colour = match finding.level {
        Level::Ok => "32",
        Level::Note => "36",
        Level::Warning => "33",
        Level::Problem => "1;31",
    };
    let line = format!("{}: {}", finding.check, finding.text);
    let mut lines = look.wrapped(&output::clean(&line), MARGIN + 1);
    if let Some(remedy) = &finding.remedy {
        lines.extend(look.wrapped(&output::clean(&format!("try: {remedy}")), MARGIN + 1));
    }
    let mut text = String::new();
    for (i, line) in lines.iter().enumerate() {
        let front = match i {
            0 => format!("{word:MARGIN$}"),
            _ => " ".repeat(MARGIN),
        };
        match look.color && i == 0 {
            true => text.push_str(&format!("\x1b[{colour}m{front}\x1b[0m {line}\n")),
            false => text.push_str(&format!("{front} {line}\n")),
        }
    }
    text
}
