//! Layer 7: looks at this machine for what may be wrong, with or without a daemon.
//!
//! Owns: the findings, their order, and what each part may ask. Leaves to others: printing (`cmd`),
//! mending anything: it changes nothing.
//!
//! Each part gathers facts and judges them apart, so that a judgement is a plain test. No finding
//! shows the value of a variable, a key, or an answer's body: only names, numbers and reasons.

mod cluster;
mod engines;
mod machine;
mod owners;
mod telemetry;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::file::{Config, NodeSetting};
use crate::config::paths::{self, Env};
use crate::config::settings::{self, Flags, Settings};
use crate::control::client::{ClientError, ControlApiClient, ControlClient};
use crate::net::fetch::Limits;
use crate::state::named::Book;
use crate::wire::control::Status;

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Good to know.
    Note,
    /// Works, but not for everything or not for long.
    Warning,
    /// Does not work.
    Problem,
}

impl Level {
    /// Its word, as in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What was looked at: `daemon`, `configuration`, `port`, `engine`, `node`, `trust`,
    /// `descriptors`, `proxy`, `socket`, `state`, `telemetry`.
    pub check: String,
    /// How serious it is.
    pub level: Level,
    /// What was found.
    pub text: String,
    /// What to do; none where nothing is to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Finding {
    fn new(check: &str, level: Level, text: impl Into<String>) -> Self {
        Self {
            check: check.to_owned(),
            level,
            text: text.into(),
            remedy: None,
        }
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

/// What to look at.
pub struct Options {
    /// The control socket, if one is known.
    pub socket: Option<PathBuf>,
    /// The configuration file, if not the default one.
    pub config: Option<PathBuf>,
    /// The cluster folder; `None` = the running daemon's, if the system tells it.
    pub cluster_dir: Option<PathBuf>,
    /// Version of this command.
    pub version: String,
}

/// How long the daemon may take to answer.
const DAEMON: Duration = Duration::from_secs(3);

/// An engine that takes longer than this has a problem of its own.
fn limits() -> Limits {
    Limits {
        connect: Duration::from_secs(1),
        whole: Duration::from_secs(3),
        ..Limits::default()
    }
}

/// Looks at everything. Nothing found here is an error: it is a finding.
pub async fn examine(options: Options, env: Env<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let status = daemon(&options, &mut found).await;
    let settings = configuration(&options, env, &mut found);
    let state_dir = paths::state_dir(env);
    let (book, unusable) = Book::open(state_dir.as_deref());
    found.extend(machine::socket(options.socket.as_deref()));
    found.extend(machine::state(state_dir.as_deref(), unusable));
    if let Some(settings) = &settings {
        let status = status.as_ref();
        found.extend(engines::ports(settings, status, paths::ports_dir(env)).await);
        found.extend(engines::local(settings, status).await);
        found.extend(engines::nodes(&named(settings, &book), status).await);
        found.extend(telemetry::collector(settings, status).await);
    }
    let daemon_pid = status.as_ref().map(|s| s.daemon.pid);
    let cluster = options
        .cluster_dir
        .or_else(|| owners::cluster_dir(daemon_pid?));
    found.push(cluster::trust(cluster.as_deref()));
    found.push(machine::descriptors(daemon_pid));
    found.extend(machine::proxies(env));
    found
}

/// The nodes of file and book, where no daemon tells how they are.
fn named(settings: &Settings, book: &Book) -> Vec<NodeSetting> {
    let mut nodes = settings.nodes.clone();
    for node in book.nodes() {
        if !nodes
            .iter()
            .any(|n| n.engine == node.engine && n.url == node.url)
        {
            nodes.push(node.clone());
        }
    }
    nodes
}

/// What the daemon says, if one runs.
async fn daemon(options: &Options, found: &mut Vec<Finding>) -> Option<Status> {
    let Some(socket) = &options.socket else {
        found.push(
            Finding::new(
                "daemon",
                Level::Problem,
                "no control socket is known here: neither XDG_RUNTIME_DIR nor a home folder is set",
            )
            .remedy("--socket PATH, or set NVPAIR_PROXY_SOCKET"),
        );
        return None;
    };
    let client = match ControlClient::connect(socket, DAEMON).await {
        Ok(client) => client,
        Err(e) => {
            found.push(unreached(&e));
            return None;
        },
    };
    match client.ask(async |c| c.status().await).await {
        Ok(status) => {
            found.push(running(&status, &options.version));
            Some(status)
        },
        Err(e) => {
            let text = format!("a daemon listens, but does not answer as it should: {e}");
            let other = "restart the daemon with this version of the command, or look at its log";
            found.push(Finding::new("daemon", Level::Problem, text).remedy(other));
            None
        },
    }
}

fn unreached(error: &ClientError) -> Finding {
    match error {
        ClientError::NoDaemon { path, source } => {
            let stale = source.kind() == std::io::ErrorKind::ConnectionRefused;
            let text = match stale {
                true => format!("no daemon runs; {} was left behind by one", path.display()),
                false => format!("no daemon runs: there is no {}", path.display()),
            };
            Finding::new("daemon", Level::Note, text).remedy("nvpair-proxy serve")
        },
        ClientError::Denied { path, source } => {
            let text = format!("{} cannot be used: {source}", path.display());
            Finding::new("daemon", Level::Problem, text)
                .remedy("be the user who runs the daemon, or --socket PATH for another one")
        },
        other => Finding::new("daemon", Level::Problem, other.to_string())
            .remedy("look at the daemon's log; restart it if it hangs"),
    }
}

fn running(status: &Status, own: &str) -> Finding {
    let d = &status.daemon;
    let text = format!(
        "version {} runs ({}, process {})",
        d.version,
        d.mode.as_str(),
        d.pid
    );
    if d.version == own {
        return Finding::new("daemon", Level::Ok, text);
    }
    let text = format!("{text}; this command is version {own}");
    Finding::new("daemon", Level::Warning, text)
        .remedy("restart the daemon, so that both are of one version")
}

/// The settings a daemon would have here; the defaults where they have problems.
fn configuration(options: &Options, env: Env, found: &mut Vec<Finding>) -> Option<Settings> {
    let flags = Flags {
        config: options.config.clone(),
        ..Flags::default()
    };
    let path = options.config.clone().or_else(|| paths::config_file(env));
    match settings::load(&flags, env) {
        Ok(settings) => {
            let text = match &path {
                Some(path) if path.exists() => format!("{} is valid", path.display()),
                Some(path) => format!("none: there is no {}, and none is needed", path.display()),
                None => "none".to_owned(),
            };
            found.push(Finding::new("configuration", Level::Ok, text));
            for warning in &settings.warnings {
                let finding = Finding::new("configuration", Level::Warning, warning);
                found.push(finding.remedy("mend or unset the variable"));
            }
            Some(settings)
        },
        Err(e) => {
            let text = e.to_string().replace('\n', "; ");
            let finding = Finding::new("configuration", Level::Problem, text);
            found.push(finding.remedy("mend the file: a daemon does not start with it"));
            defaults()
        },
    }
}

fn defaults() -> Option<Settings> {
    // Without flags, file and environment nothing can be wrong.
    settings::resolve(&Flags::default(), &Config::default(), &|_| None).ok()
}

#[cfg(test)]
mod tests;
