//! `serve`: runs the daemon in the foreground.
//!
//! Owns: turning flags into the daemon's options, the runtime, what a standalone start prints.
//! Leaves to others: everything that happens then (`daemon`).

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use nvpair_proxy::config::file::{Config, LogFormat as SettingFormat};
use nvpair_proxy::config::paths::{self, process_env};
use nvpair_proxy::config::settings::{self, Flags, Settings, SettingsError};
use nvpair_proxy::daemon::{self, Driver as DaemonDriver, Opened, Options, StartError};
use nvpair_proxy::rules::budget::Cap as Limit;
use nvpair_proxy::rules::log_level::{LogFormat, LogLevel};
use nvpair_proxy::state::settings::RequestSettings;
use nvpair_proxy::telemetry::logging;

use crate::cli::{Cap, Driver, Globals, ServeArgs};
use crate::connect;
use crate::errors::{CliError, Kind};
use crate::output::{self, Look, StartupRow};

/// What was logged gets this long to be written at the end.
const LOG_FLUSH: Duration = Duration::from_millis(300);

/// Runs it until it is told to stop.
pub fn run(args: &ServeArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let driver = args.driver();
    let brokered = matches!(driver, Driver::Stdio | Driver::Ipc(_));
    let settings = settings(args, brokered)?;
    let (level, warning) = args.log_level(globals, &process_env);
    let level = if args.log_level.is_none() && globals.verbose == 0 && !globals.quiet {
        LogLevel::parse(settings.log_level.as_str()).unwrap_or(level)
    } else {
        level
    };
    let form = match settings.log_format {
        SettingFormat::Text => LogFormat::Text,
        SettingFormat::Json => LogFormat::Json,
    };
    let log = logging::start(level, form);
    logging::log_panics();
    for warning in warning.iter().chain(&settings.warnings) {
        tracing::warn!("{warning}");
    }
    let options = Options {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        requests: requests(&settings),
        socket: socket(args, globals, brokered)?,
        ports_dir: if driver == Driver::Demo {
            None
        } else {
            paths::ports_dir(&process_env)
        },
        log,
        drain: settings.drain_timeout,
        driver: match driver {
            Driver::Stdio => DaemonDriver::Stdio,
            Driver::Ipc(endpoint) => DaemonDriver::Ipc(endpoint),
            Driver::Standalone => DaemonDriver::Standalone(Box::new(settings)),
            Driver::Demo => DaemonDriver::Demo(Box::new(settings)),
        },
    };
    // One thread serves tens of thousands of requests a second, without locks that are fought for
    // and without wake-ups across cores; disk and name look-ups have threads of their own.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let look = Look::stdout(globals);
    let json = globals.json;
    let ended = runtime.block_on(daemon::run(options, |opened| show(&opened, &look, json)));
    // Threads that read a terminal or a pipe must not keep the process.
    runtime.shutdown_timeout(Duration::from_millis(50));
    logging::flush(LOG_FLUSH);
    ended.map(|_| ExitCode::SUCCESS).map_err(failed)
}

fn settings(args: &ServeArgs, brokered: bool) -> Result<Settings, CliError> {
    let flags = flags(args);
    match settings::load(&flags, &process_env) {
        Ok(settings) => Ok(settings),
        // An exit is a crash to the parent, so a bad file is a warning there.
        Err(SettingsError {
            flags: bad,
            file: Some(e),
        }) if brokered && bad.is_empty() => {
            let mut settings = settings::resolve(&flags, &Config::default(), &process_env)
                .map_err(|bad| usage(&bad.join("\n")))?;
            settings
                .warnings
                .push(format!("the configuration file is not used: {e}"));
            Ok(settings)
        },
        Err(e) => Err(usage(&e.to_string())),
    }
}

fn usage(text: &str) -> CliError {
    let mut lines = text.lines();
    let mut error = CliError::new(Kind::Usage, lines.next().unwrap_or_default());
    for line in lines {
        error = error.why(line);
    }
    error
}

fn flags(args: &ServeArgs) -> Flags {
    let engine = |e: &crate::cli::EnginePort| match e.port {
        Some(port) => format!("{}={port}", e.engine),
        None => e.engine.to_string(),
    };
    Flags {
        config: args.config.clone(),
        engines: args.engines.iter().map(engine).collect(),
        nodes: args
            .nodes
            .iter()
            .map(|n| format!("{}={}", n.engine, n.url))
            .collect(),
        aliases: args
            .aliases
            .iter()
            .map(|a| format!("{}={}", a.engine, a.address))
            .collect(),
        response_header_timeout: args.response_header_timeout.map(|cap| match cap {
            Cap::Off => "0".to_owned(),
            Cap::After(d) => format!("{}ns", d.as_nanos()),
        }),
        max_request_bytes: args.max_request_bytes.map(|n| n.to_string()),
        log_level: args.log_level.map(|l| l.as_str().to_owned()),
        log_format: None,
    }
}

fn requests(s: &Settings) -> RequestSettings {
    let cap = |d: Option<Duration>| d.map_or(Limit::Off, Limit::After);
    RequestSettings {
        max_request_bytes: s.max_request_bytes,
        response_cap: cap(s.response_header_timeout),
        stream_idle_cap: cap(s.stream_idle_timeout),
        commit_on_first_byte: s.commit_gate_first_byte,
        allowed_hosts: s.allowed_hosts.iter().map(|h| h.to_lowercase()).collect(),
        allowed_origins: s.allowed_origins.clone(),
        response_headers: s.response_headers,
    }
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

fn show(opened: &Opened, look: &Look, json: bool) {
    for warning in &opened.warnings {
        tracing::warn!("{warning}");
    }
    if json {
        return;
    }
    let rows: Vec<_> = opened
        .rows
        .iter()
        .map(|row| {
            let nodes: Vec<_> = row.nodes.iter().map(|n| n.as_str()).collect();
            let listening = match &row.note {
                Some(note) => format!("{} ({note})", row.listening),
                None => row.listening.clone(),
            };
            StartupRow {
                engine: row.engine.spec().display.to_owned(),
                listening,
                paste: row.paste.clone(),
                nodes: row.hint.clone().unwrap_or_else(|| nodes.join(", ")),
            }
        })
        .collect();
    let socket = match &opened.socket {
        Some(path) => format!("control socket {}", path.display()),
        None => "no control socket".to_owned(),
    };
    let text = format!(
        "nvpair-proxy {} · standalone · {socket}\n\n{}\nReady in {} ms. `nvpair-proxy status` in \
         another terminal shows what it does.\n",
        env!("CARGO_PKG_VERSION"),
        output::startup_table(&rows, look),
        opened.took.as_millis(),
    );
    // Nobody reads it: no reason to stop serving.
    drop(output::print(&text));
}

fn failed(e: StartError) -> CliError {
    CliError::new(Kind::Failed, e.to_string())
}
