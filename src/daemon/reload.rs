//! Reading the configuration again while requests are served.
//!
//! Owns: who asks for it (SIGHUP, `config/reload`, a file that changed), that a file is taken whole
//! or not at all, and what is said about it. Leaves to others: reading (`config`), the difference
//! (`config::change`), the facades and nodes (`director`), the values of requests (`commands`).
//!
//! One task does it, one reload after the other. It is not the executor's: it sends commands and
//! waits for them.

use std::fs::File;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::config::change;
use crate::config::file::{FileError, placed};
use crate::config::paths::{config_file, process_env};
use crate::config::settings::{self, Flags, Settings, SettingsError};
use crate::director::Changes;
use crate::facade::Context;
use crate::net::watched::{News, Watched};
use crate::rules::log_level::LogLevel;
use crate::state::command::{Apply, Command, Commands, Responder};
use crate::state::lifetime::Phase;
use crate::state::settings::RequestSettings;
use crate::telemetry::manager::Manager;
use crate::wire::control::{ConfigReloaded, SCHEMA_VERSION};
use crate::wire::jsonrpc::{CommandError, ErrorCode};

use super::shutdown::Stop;
use super::{clients, heartbeat};

/// Between two looks at the file. A change counts when the next look finds it unchanged, so that a
/// file that is being written is not read half.
const LOOK: Duration = Duration::from_secs(1);

/// The file is another one than before.
const CHANGED: &str = "the file changed";

/// The first look: the file may have changed since the start read it.
const FIRST: &str = "the file changed during the start";

/// SIGHUP. Also what a terminal sends as it goes.
pub struct Hangup {
    signal: Option<Signal>,
    /// Whether a person looks at us: then the end of the terminal is the end of the daemon, as it is
    /// of everything else that was started there. `nohup` sends stderr elsewhere.
    at_terminal: bool,
}

impl Hangup {
    /// Listens from now on.
    pub fn listen() -> Self {
        let signal = signal(SignalKind::hangup());
        let signal =
            signal.inspect_err(|e| tracing::warn!(reason = %e, "cannot listen for SIGHUP"));
        Self {
            signal: signal.ok(),
            at_terminal: std::io::stderr().is_terminal(),
        }
    }

    /// Waits for the next one; says whether the terminal is gone.
    async fn next(&mut self) -> bool {
        if let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            return self.at_terminal && File::open("/dev/tty").is_err();
        }
        std::future::pending().await
    }
}

/// Somebody who waits for a reload.
pub type Asked = Responder<ConfigReloaded>;

/// What reloading needs.
pub struct Reloader {
    /// The flags of the start: they go on to beat the file.
    pub flags: Flags,
    /// The settings in force; parts that follow them subscribe.
    pub settings: watch::Sender<Arc<Settings>>,
    /// The log's threshold where nobody says one.
    pub default_level: LogLevel,
    /// The daemon.
    pub commands: Commands,
    /// Facades and nodes; `None` where somebody else decides on them (a broker, a demonstration).
    pub director: Option<Changes>,
    /// Ends the daemon with its terminal.
    pub stop: Stop,
    /// The running parts: callers with a key, without whom networks let nobody in, and what the manager
    /// is told.
    pub context: Arc<Context>,
    /// Told of a reload's begin and end.
    pub manager: Manager,
}

impl Reloader {
    /// Reloads whenever somebody asks, until it is aborted.
    pub fn start(self, hangup: Hangup, asked: mpsc::UnboundedReceiver<Asked>) -> JoinHandle<()> {
        tokio::spawn(self.run(hangup, asked))
    }

    async fn run(self, mut hangup: Hangup, mut asked: mpsc::UnboundedReceiver<Asked>) {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut file = Followed::new(self.file());
        let mut why = FIRST;
        loop {
            tokio::select! {
                Some(responder) = asked.recv() => responder.answer(self.reload("config/reload").await),
                gone = hangup.next() => match gone {
                    true => {
                        tracing::info!("the terminal is gone; shutting down");
                        self.stop.now();
                    },
                    false => drop(self.reload("SIGHUP").await),
                },
                _ = looks.tick() => {
                    let (looked, changed) = file.look().await;
                    file = looked;
                    if changed {
                        drop(self.reload(why).await);
                        why = CHANGED;
                    }
                },
            }
        }
    }

    fn file(&self) -> Option<PathBuf> {
        self.flags
            .config
            .clone()
            .or_else(|| config_file(&process_env))
    }

    /// Reloads, and keeps the service manager informed: it waits for a reload that it asked for itself,
    /// so that a bad file has to end one too. A look that finds nothing new is none.
    async fn reload(&self, why: &str) -> Result<ConfigReloaded, CommandError> {
        let mut begun = Begun::default();
        if ![CHANGED, FIRST].contains(&why) {
            begun.tell(&self.manager);
        }
        let done = self.read_and_apply(why, &mut begun).await;
        if begun.0 {
            let status = heartbeat::summary(&self.context, Phase::Running);
            self.manager.ready(&status);
        }
        done
    }

    /// Reads the file and puts it in force, or logs and tells every error and changes nothing.
    async fn read_and_apply(
        &self,
        why: &str,
        begun: &mut Begun,
    ) -> Result<ConfigReloaded, CommandError> {
        let flags = self.flags.clone();
        let read = tokio::task::spawn_blocking(move || settings::load(&flags, &process_env)).await;
        let read = read.map_err(|_| {
            let text = "internal error while reading the configuration; see the log";
            CommandError::new(ErrorCode::Internal, text)
        })?;
        let mut told = ConfigReloaded {
            schema_version: SCHEMA_VERSION,
            applied: false,
            file: self.file().map(|f| f.display().to_string()),
            changed: Vec::new(),
            restart: Vec::new(),
            warnings: Vec::new(),
            errors: Vec::new(),
        };
        match read {
            // Nobody asked, and it says the same in other words.
            Ok(new) if [CHANGED, FIRST].contains(&why) && self.is_in_force(&new) => {
                told.applied = true;
                return Ok(told);
            },
            Ok(new) => {
                begun.tell(&self.manager);
                self.put_in_force(new, &mut told).await?;
            },
            // The start has said so, and under a broker goes on without the file.
            Err(_) if why == FIRST => return Ok(told),
            Err(e) => told.errors = errors(&e),
        }
        report(why, &told);
        Ok(told)
    }

    fn is_in_force(&self, settings: &Settings) -> bool {
        change::keys(&self.settings.borrow(), settings).is_empty()
    }

    async fn put_in_force(
        &self,
        new: Settings,
        told: &mut ConfigReloaded,
    ) -> Result<(), CommandError> {
        let old = self.settings.borrow().clone();
        let changed = change::keys(&old, &new);
        let new = Arc::new(new);
        told.warnings.clone_from(&new.warnings);
        let apply = Apply {
            requests: RequestSettings::from(&*new),
            certificates: new.certificates(),
            // A broker decides by its list, a demonstration by what it was started with.
            policy: self.director.as_ref().map(|_| new.policy),
            // Only if the file changed it: a call may have set another one meanwhile.
            log_level: (old.log_level != new.log_level)
                .then(|| new.log_level.unwrap_or(self.default_level)),
        };
        let apply = Box::new(apply);
        let failed = self.commands.call(|r| Command::Apply(apply, r)).await?;
        told.warnings.extend(failed);
        let requests = RequestSettings::from(&*new);
        told.warnings
            .extend(clients::advice(&requests, &self.context.shared.clients));
        (told.changed, told.restart) = (changed.live, changed.restart);
        match &self.director {
            Some(director) => told.warnings.extend(director.apply(new.clone()).await),
            None => told
                .changed
                .retain(|k| !["policy", "engines", "nodes", "drain_timeout"].contains(&k.as_str())),
        }
        self.settings.send_replace(new);
        told.applied = true;
        Ok(())
    }
}

/// Whether the manager was told that a reload began.
#[derive(Default)]
struct Begun(bool);

impl Begun {
    fn tell(&mut self, manager: &Manager) {
        if !std::mem::replace(&mut self.0, true) {
            manager.reloading();
        }
    }
}

/// Every error, a line each.
fn errors(e: &SettingsError) -> Vec<String> {
    let mut all = e.flags.clone();
    match &e.file {
        Some(FileError::Invalid(p)) => all.extend(placed(&p.file, &p.problems)),
        Some(other) => all.push(other.to_string()),
        None => {},
    }
    all
}

fn report(why: &str, told: &ConfigReloaded) {
    for error in &told.errors {
        tracing::error!("{error}");
    }
    for warning in &told.warnings {
        tracing::warn!("{warning}");
    }
    if !told.applied {
        tracing::error!(
            why,
            errors = told.errors.len(),
            "the configuration was not reloaded; the one before stays in force"
        );
        return;
    }
    let (changed, restart) = (told.changed.join(" "), told.restart.join(" "));
    tracing::info!(why, changed, "the configuration was reloaded");
    if !told.restart.is_empty() {
        tracing::warn!(keys = restart, "these keys changed and take another start");
    }
}

/// The file as it is looked at every now and then.
struct Followed {
    path: Option<PathBuf>,
    watched: Watched,
    /// What the last look found; nothing before the first one.
    last: Option<News>,
    /// Whether it changed and has not been still since.
    moving: bool,
}

impl Followed {
    fn new(path: Option<PathBuf>) -> Self {
        Self {
            path,
            watched: Watched::default(),
            last: None,
            moving: false,
        }
    }

    /// Looks, off the thread that serves requests; says whether it changed and is still now.
    async fn look(self) -> (Self, bool) {
        let path = self.path.clone();
        let look = tokio::task::spawn_blocking(move || {
            let mut this = self;
            let changed = this.look_now();
            (this, changed)
        });
        // A panic in there costs the memory of the last look, and nothing else.
        look.await.unwrap_or_else(|_| (Self::new(path), false))
    }

    fn look_now(&mut self) -> bool {
        let Some(path) = &self.path else {
            return false;
        };
        let news = self.watched.look(path);
        let same = matches!(news, News::Same) || self.last.as_ref() == Some(&news);
        if !same {
            self.moving = true;
            self.last = Some(news);
            return false;
        }
        std::mem::take(&mut self.moving)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_counts_once_it_is_still() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        let mut file = Followed::new(Some(path.clone()));
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        assert!(!file.look_now() && file.look_now(), "the first look is one");
        assert!(!file.look_now(), "not there");
        write("a");
        assert!(!file.look_now(), "it may be half");
        write("ab");
        assert!(!file.look_now(), "it was");
        assert!(file.look_now());
        assert!(!file.look_now(), "told once");
        write("ab");
        assert!(!file.look_now() && !file.look_now(), "the same again");
        std::fs::remove_file(&path).unwrap();
        assert!(!file.look_now());
        assert!(file.look_now(), "that it went is a change too");
        assert!(!Followed::new(None).look_now());
    }
}
