//! `serve`: runs the daemon in the foreground.
//!
//! Owns: turning flags into the daemon's options, the runtime, what a standalone start prints.
//! Leaves to others: everything that happens then (`daemon`).

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;

use nvpair_proxy::config::paths::{self, process_env};
use nvpair_proxy::config::settings::{self, SettingsError};
use nvpair_proxy::daemon::{self, Driver as DaemonDriver, Opened, Options, Row, StartError};
use nvpair_proxy::rules::log_level::LogLevel;
use nvpair_proxy::telemetry::logging;
use nvpair_proxy::telemetry::manager::Manager;
use nvpair_proxy::wire::control::{Mode, SCHEMA_VERSION};
use serde_json::{Value, json};

use crate::cli::{Driver, Globals, ServeArgs};
use crate::clients;
use crate::connect::{self, OWN_VERSION};
use crate::errors::{CliError, Kind};
use crate::output::{self, Look, StartupRow};
use crate::runtime::{self, LOG_FLUSH};

/// Runs it until it is told to stop.
pub fn run(args: &ServeArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let driver = args.driver();
    let brokered = matches!(driver, Driver::Stdio | Driver::Ipc(_));
    let demo = driver == Driver::Demo;
    let flags = args.flags(globals);
    let settings = match brokered {
        true => settings::load_brokered(&flags, &process_env),
        false => settings::load(&flags, &process_env),
    };
    let settings = settings.map_err(|e| usage(&e))?;
    let level = settings.log_level.unwrap_or(default_level(brokered));
    let log = logging::start(level, settings.log_format);
    logging::log_panics();
    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
    let options = Options {
        version: OWN_VERSION.to_owned(),
        socket: socket(args, globals, brokered)?,
        ports_dir: paths::ports_dir(&process_env),
        cluster_dir: args.cluster_dir().cloned(),
        state_dir: paths::state_dir(&process_env),
        log,
        pool: settings.pool.clone(),
        manager: Manager::of_process(brokered),
        driver: match driver {
            Driver::Stdio => DaemonDriver::Stdio,
            Driver::Ipc(endpoint) => DaemonDriver::Ipc(endpoint),
            Driver::Standalone => DaemonDriver::Standalone,
            Driver::Demo => DaemonDriver::Demo,
        },
        settings: Arc::new(settings),
        flags,
        default_level: default_level(brokered),
    };
    // One thread serves tens of thousands of requests a second, without locks that are fought for
    // and without wake-ups across cores; disk and name look-ups have threads of their own.
    let runtime = runtime::single()?;
    let ended = runtime.block_on(daemon::run(options, |opened| show(&opened, demo, globals)));
    runtime::end(runtime);
    logging::flush(LOG_FLUSH);
    ended.map(|_| ExitCode::SUCCESS).map_err(failed)
}

/// The start-up table already tells a person at a terminal what goes well.
fn default_level(brokered: bool) -> LogLevel {
    match !brokered && std::io::stderr().is_terminal() {
        true => LogLevel::Warn,
        false => LogLevel::Info,
    }
}

fn usage(error: &SettingsError) -> CliError {
    let text = error.to_string();
    let mut lines = text.lines();
    let first = CliError::new(Kind::Usage, lines.next().unwrap_or_default());
    lines
        .fold(first, CliError::why)
        .try_this("nvpair-proxy config check          (it names every problem, with its place)")
}

fn socket(
    args: &ServeArgs,
    globals: &Globals,
    brokered: bool,
) -> Result<Option<std::path::PathBuf>, CliError> {
    if args.no_control_socket {
        return Ok(None);
    }
    match connect::socket(globals) {
        Ok(path) => Ok(Some(path)),
        Err(_) if brokered => Ok(None),
        Err(e) => Err(e),
    }
}

fn show(opened: &Opened, demo: bool, globals: &Globals) {
    for warning in &opened.warnings {
        tracing::warn!("{warning}");
    }
    let shown = match globals.json {
        true => output::print_json(&document(opened, demo)),
        false => output::print(&startup(opened, demo, &Look::stdout(globals))),
    };
    // Nobody reads it: no reason to stop serving.
    drop(shown);
}

/// The start for a program that waits for it.
fn document(opened: &Opened, demo: bool) -> Value {
    let facade = |row: &Row| {
        json!({
            "engine": row.engine,
            "port": row.port,
            "aliases": row.aliases,
            "url": row.paste,
            "nodes": row.nodes,
        })
    };
    json!({
        "schema_version": SCHEMA_VERSION,
        "version": OWN_VERSION,
        "mode": mode(demo),
        "socket": opened.socket.as_ref().map(|path| path.display().to_string()),
        "facades": opened.rows.iter().map(facade).collect::<Value>(),
        "warnings": opened.warnings,
    })
}

fn mode(demo: bool) -> &'static str {
    match demo {
        true => Mode::Demo.as_str(),
        false => Mode::Standalone.as_str(),
    }
}

fn startup(opened: &Opened, demo: bool, look: &Look) -> String {
    let rows: Vec<_> = opened.rows.iter().map(startup_row).collect();
    let socket = match &opened.socket {
        Some(path) => format!("control socket {}", path.display()),
        None => "no control socket".to_owned(),
    };
    let mut text = format!(
        "nvpair-proxy {} · {} · {socket}\n\n{}\n",
        OWN_VERSION,
        mode(demo),
        output::startup_table(&rows, look),
    );
    let places = opened.rows.iter().map(|row| (row.engine, row.port));
    text.push_str(&format!("{}\n", clients::table(places, look)));
    let tries: Vec<_> = opened.rows.iter().filter_map(try_line).collect();
    if demo && !tries.is_empty() {
        text.push_str(&format!("Try, in another terminal:\n{}\n", tries.concat()));
    }
    text.push_str(&format!(
        "Ready in {} ms. `nvpair-proxy status` in another terminal shows what it does.\n",
        opened.took.as_millis()
    ));
    text
}

fn startup_row(row: &Row) -> StartupRow {
    let nodes: Vec<_> = row.nodes.iter().map(|n| n.as_str()).collect();
    StartupRow {
        engine: row.engine.spec().display.to_owned(),
        listening: listening(row),
        paste: row.paste.clone(),
        nodes: row.hint.clone().unwrap_or_else(|| nodes.join(", ")),
    }
}

/// The port with the rule that gave it, then the aliases.
fn listening(row: &Row) -> String {
    let primary = match &row.note {
        Some(note) => format!("{} ({note})", row.listening),
        None => row.listening.clone(),
    };
    let all: Vec<_> = std::iter::once(&primary).chain(&row.aliases).collect();
    all.into_iter().cloned().collect::<Vec<_>>().join(", ")
}

/// A request that works as it stands. Every engine's first route is a chat.
fn try_line(row: &Row) -> Option<String> {
    let path = row.engine.spec().routes.first()?.path;
    let model = serde_json::to_string(row.model.as_ref()?).ok()?;
    let body = format!(r#"{{"model":{model},"messages":[{{"role":"user","content":"hello"}}]}}"#);
    Some(format!("  curl -s {}{path} -d '{body}'\n", row.listening))
}

fn failed(e: StartError) -> CliError {
    let told = CliError::new(Kind::Failed, e.to_string());
    match e {
        StartError::Socket(why) => match why.other_daemon() {
            Some(socket) => told
                .try_this(format!(
                    "nvpair-proxy --socket {} status          (what it does)",
                    socket.display()
                ))
                .try_this("stop it first, or give this one its own --socket PATH and ports"),
            None => told.try_this("--socket PATH in a folder of your own"),
        },
        StartError::Ipc(_) => told
            .try_this("start the parent that listens there first; without one: nvpair-proxy serve"),
        StartError::Director(_) => {
            told.try_this("nvpair-proxy doctor          (it says who has which port)")
        },
        _ => told.try_this("nvpair-proxy doctor"),
    }
}
