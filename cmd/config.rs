//! `config`: checks, shows and finds the configuration, and lets the daemon read it again.
//!
//! Owns: how that is printed. Leaves to others: reading and judging (`config`), reloading (the
//! daemon).

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;

use nvpair_proxy::config::file::{FileError, placed};
use nvpair_proxy::config::paths::{self, process_env};
use nvpair_proxy::config::reader::Problem;
use nvpair_proxy::config::settings::{self, Flags, Settings};
use nvpair_proxy::config::{schema, show};
use nvpair_proxy::control::client::ControlApiClient;
use nvpair_proxy::rules::units::count;
use nvpair_proxy::wire::control::{ConfigReloaded, SCHEMA_VERSION};
use serde_json::{Value, json};

use crate::cli::{ConfigArgs, ConfigVerb, FileArgs, Globals};
use crate::connect::{self, with_daemon};
use crate::errors::{CliError, Kind};
use crate::output;

/// Runs it.
pub fn run(args: &ConfigArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    match &args.verb {
        ConfigVerb::Check(file) => check(file, globals),
        ConfigVerb::Show(file) => show(file, globals),
        ConfigVerb::Path => path(globals),
        ConfigVerb::Schema => {
            output::print_json(&schema::schema())?;
            Ok(ExitCode::SUCCESS)
        },
        ConfigVerb::Reload => reload(globals),
    }
}

fn flags(args: &FileArgs) -> Flags {
    Flags {
        config: args.file.clone(),
        ..Flags::default()
    }
}

/// The file as a person knows it.
fn shown(args: &FileArgs) -> String {
    let file = args
        .file
        .clone()
        .or_else(|| paths::config_file(&process_env));
    file.map_or_else(|| "config.toml".to_owned(), |f| f.display().to_string())
}

/// What a check found. Texts of problems never hold a secret.
#[derive(Default)]
struct Found {
    errors: Vec<Problem>,
    warnings: Vec<Problem>,
    /// Those that have no place in the file.
    elsewhere: Vec<String>,
}

fn check(args: &FileArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let file = shown(args);
    let flags = flags(args);
    let mut found = Found::default();
    match settings::read(&flags, &process_env) {
        Err(FileError::Invalid(problems)) => {
            (found.errors, found.warnings) = (problems.problems, problems.warnings);
        },
        Err(unreadable) => return Err(cannot_read(&unreadable)),
        Ok(mut config) => {
            found.warnings = std::mem::take(&mut config.warnings);
            let settings = settings::resolve(&flags, &config, &process_env);
            let settings = settings.map_err(|e| CliError::new(Kind::Usage, e.join("; ")))?;
            found.elsewhere = settings.warnings.clone();
            found.elsewhere.extend(missing_files(&settings));
        },
    }
    let valid = found.errors.is_empty();
    if globals.json {
        output::print_json(&document(&file, &found))?;
    } else {
        tell(&file, &found, globals)?;
    }
    Ok(ExitCode::from(match valid {
        true => 0,
        false => Kind::Usage as u8,
    }))
}

fn cannot_read(e: &FileError) -> CliError {
    CliError::new(Kind::Usage, e.to_string())
        .try_this("nvpair-proxy config path          (where it is looked for)")
}

fn document(file: &str, found: &Found) -> Value {
    let one = |p: &Problem| json!({"line": p.line, "column": p.column, "message": p.message});
    let elsewhere = found.elsewhere.iter().map(|m| json!({"message": m}));
    let warnings = found.warnings.iter().map(one).chain(elsewhere);
    json!({
        "schema_version": SCHEMA_VERSION,
        "file": file,
        "valid": found.errors.is_empty(),
        "errors": found.errors.iter().map(one).collect::<Value>(),
        "warnings": warnings.collect::<Value>(),
    })
}

/// Errors and warnings in the order of the file, on stderr; what is right, on stdout.
fn tell(file: &str, found: &Found, globals: &Globals) -> Result<(), CliError> {
    let word = |word: &'static str| {
        move |p: &Problem| Problem {
            message: format!("{word}: {}", p.message),
            ..p.clone()
        }
    };
    let errors = found.errors.iter().map(word("error"));
    let mut all: Vec<_> = errors
        .chain(found.warnings.iter().map(word("warning")))
        .collect();
    all.sort_by_key(|p| (p.line, p.column));
    let mut lines = placed(file, &all);
    lines.extend(found.elsewhere.iter().map(|w| format!("warning: {w}")));
    output::print_err(&lines.iter().map(|l| format!("{l}\n")).collect::<String>());
    let warnings = found.warnings.len() + found.elsewhere.len();
    let text = match (found.errors.len(), warnings) {
        (0, 0) if !Path::new(file).exists() => {
            format!("{file} is not there: the defaults hold\n")
        },
        (0, 0) => format!("{file} is valid\n"),
        (0, n) => format!("{file} is valid, with {}\n", count(n, "warning")),
        (e, 0) => format!("{file} is invalid: {}\n", count(e, "error")),
        (e, n) => format!(
            "{file} is invalid: {}, {}\n",
            count(e, "error"),
            count(n, "warning")
        ),
    };
    match (found.errors.is_empty(), globals.quiet) {
        (true, true) => {},
        (true, false) => output::print(&text)?,
        (false, _) => output::print_err(&text),
    }
    Ok(())
}

/// Files that the configuration names and that cannot be opened now.
fn missing_files(settings: &Settings) -> Vec<String> {
    let engines = settings.engine_tls.iter().map(|(_, tls)| tls);
    let gateway = settings.gateway.iter().filter_map(|g| g.tls.as_ref());
    let pool = settings.pool.iter().filter_map(|p| p.tls.as_ref());
    let named = engines.chain(gateway).chain(pool);
    let files = named.flat_map(|tls| [("tls_cert", &tls.cert), ("tls_key", &tls.key)]);
    let complaint = |(key, path): (&str, &std::path::PathBuf)| {
        let e = File::open(path).err()?;
        Some(format!("`{key}`: cannot open {}: {e}", path.display()))
    };
    files.filter_map(complaint).collect()
}

fn show(args: &FileArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let flags = flags(args);
    let config = settings::read(&flags, &process_env);
    let config = config.map_err(|e| match &e {
        FileError::Invalid(p) => {
            let what = CliError::new(Kind::Usage, format!("{} is invalid", shown(args)));
            placed(&shown(args), &p.problems)
                .into_iter()
                .fold(what, CliError::why)
        },
        FileError::Unreadable(..) => cannot_read(&e),
    })?;
    let settings = settings::resolve(&flags, &config, &process_env);
    let settings = settings.map_err(|e| CliError::new(Kind::Usage, e.join("; ")))?;
    let tables = show::tables(&settings, &config);
    if globals.json {
        let (values, sources) = show::json(&tables);
        output::print_json(&json!({
            "schema_version": SCHEMA_VERSION,
            "file": shown(args),
            "settings": values,
            "sources": sources,
            "warnings": settings.warnings,
        }))?;
    } else {
        let warnings = settings.warnings.iter();
        output::print_err(
            &warnings
                .map(|w| format!("warning: {w}\n"))
                .collect::<String>(),
        );
        output::print(&show::toml(&tables))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn path(globals: &Globals) -> Result<ExitCode, CliError> {
    let places = [
        ("config", paths::config_file(&process_env)),
        ("state", paths::state_dir(&process_env)),
        ("ports", paths::ports_dir(&process_env)),
        ("socket", connect::socket(globals).ok()),
    ];
    if globals.json {
        let one = |(name, path): &(&str, Option<std::path::PathBuf>)| {
            let value = path
                .as_ref()
                .map(|p| json!({"path": p.display().to_string(), "exists": p.exists()}));
            ((*name).to_owned(), value.unwrap_or_default())
        };
        let mut document: serde_json::Map<_, _> = places.iter().map(one).collect();
        document.insert("schema_version".to_owned(), json!(SCHEMA_VERSION));
        output::print_json(&document)?;
        return Ok(ExitCode::SUCCESS);
    }
    let line = |(name, path): &(&str, Option<std::path::PathBuf>)| match path {
        Some(path) => {
            let there = if path.exists() { "" } else { "  (not there)" };
            format!("{name:<7} {}{there}\n", path.display())
        },
        None => format!("{name:<7} unknown: there is no home folder\n"),
    };
    output::print(&places.iter().map(line).collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}

fn reload(globals: &Globals) -> Result<ExitCode, CliError> {
    let told = with_daemon(globals, async |client| {
        client.call(async |c| c.config_reload().await).await
    })?;
    if globals.json {
        output::print_json(&told)?;
        return Ok(ExitCode::from(if told.applied {
            0
        } else {
            Kind::Usage as u8
        }));
    }
    if !told.applied {
        let what = "the configuration was not taken; the one before stays in force";
        let told_all = CliError::new(Kind::Usage, what);
        return Err(told.errors.into_iter().fold(told_all, CliError::why));
    }
    let warnings = told.warnings.iter().map(|w| format!("warning: {w}\n"));
    output::print_err(&warnings.collect::<String>());
    if !globals.quiet {
        output::print(&reloaded(&told))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn reloaded(told: &ConfigReloaded) -> String {
    let mut text = match told.changed.is_empty() {
        true => "reloaded; nothing changed\n".to_owned(),
        false => format!("reloaded: {}\n", told.changed.join(", ")),
    };
    if !told.restart.is_empty() {
        if told.changed.is_empty() {
            text = "reloaded\n".to_owned();
        }
        text.push_str(&format!(
            "changed, and taken at the next start: {}\n",
            told.restart.join(", ")
        ));
    }
    text
}
