//! Layer 7: the only place that builds the parts and joins them.
//!
//! Owns: start and end of the process's work. Leaves to others: every part's own business;
//! `commands` carries commands out, `supervisor` holds the listeners.

mod clients;
mod commands;
mod doors;
mod heartbeat;
mod journal;
mod pool;
mod providers;
pub mod registry;
mod reload;
mod shutdown;
mod supervisor;
mod surroundings;
mod telemetry;
pub mod usage;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::config::pool::PoolSettings;
use crate::config::settings::{Flags, Settings};
use crate::control::socket::{ControlSocket, SocketError};
use crate::demo;
use crate::director;
use crate::facade::{Certificates, Context};
use crate::net::listen::Scope;
use crate::net::places::Places;
use crate::net::sockets::Sockets;
use crate::net::stream::Network;
use crate::net::tls::Cluster;
use crate::net::upstream::Upstreams;
use crate::replay::{self, Recordings};
use crate::rules::engine::EngineId;
use crate::rules::ids::RunId;
use crate::rules::log_level::LogLevel;
use crate::rules::places::Limits;
use crate::rules::policy::Policy;
use crate::state::activity::Activity;
use crate::state::command::{Command, Commands, Enable};
use crate::state::events::Events;
use crate::state::facade::{Alone, Surroundings};
use crate::state::lifetime::{Lifetime, Phase};
use crate::state::named::{Asks, Book};
use crate::state::query::Queries;
use crate::state::scheduler::Scheduler;
use crate::state::settings::RequestSettings;
use crate::state::shared::Shared;
use crate::store::ports::Ports;
use crate::telemetry::hub::Telemetry;
use crate::telemetry::logging::LogHandle;
use crate::telemetry::manager::Manager;
use crate::wall_clock;
use crate::wire::control::{DaemonInfo, Mode};

pub use crate::director::Row;
use commands::Executor;
pub use shutdown::Ended;

/// Commands waiting to be carried out.
const QUEUE: usize = 256;

/// Who drives the daemon.
pub enum Driver {
    /// A parent on stdin and stdout.
    Stdio,
    /// A parent that listens on this endpoint.
    Ipc(String),
    /// The director.
    Standalone,
    /// The director, over sample engines.
    Demo,
}

/// How a daemon is started.
pub struct Options {
    /// Version of the binary.
    pub version: String,
    /// Its driver.
    pub driver: Driver,
    /// What flags, environment and file say.
    pub settings: Arc<Settings>,
    /// The flags among them, for when the file is read again.
    pub flags: Flags,
    /// The log's threshold where nobody says one.
    pub default_level: LogLevel,
    /// Path of the control socket; `None` = none.
    pub socket: Option<PathBuf>,
    /// Folder of the port files; `None` = none is known. A demonstration saves none and restores
    /// none, whatever this is.
    pub ports_dir: Option<PathBuf>,
    /// Folder of the cluster's certificates and pins; `None` = never a member of one.
    pub cluster_dir: Option<PathBuf>,
    /// Folder of the journal; `None` = none is known. A demonstration keeps none, and neither does a
    /// daemon without a control socket.
    pub state_dir: Option<PathBuf>,
    /// The log's switch.
    pub log: LogHandle,
    /// The node pool, if it runs.
    pub pool: Option<PoolSettings>,
    /// The service manager that is told of start, life and end.
    pub manager: Manager,
}

/// What a standalone start shows a person.
pub struct Opened {
    /// The facades.
    pub rows: Vec<director::Row>,
    /// Things to know.
    pub warnings: Vec<String>,
    /// The control socket, if there is one.
    pub socket: Option<PathBuf>,
    /// From the call to here.
    pub took: Duration,
}

/// Why a daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The control socket is unusable, or another daemon listens there.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// No facade could be enabled.
    #[error(transparent)]
    Director(#[from] director::StartError),
    /// The sample engines did not start.
    #[error("the sample engines did not start: {0}")]
    Demo(String),
    /// The parent's endpoint cannot be reached.
    #[error("cannot connect to the parent's endpoint: {0}")]
    Ipc(String),
    /// The admin listener cannot be opened.
    #[error("{0}")]
    Admin(String),
    /// The node pool cannot run as it is configured.
    #[error("the node pool does not start: {0}")]
    Pool(String),
    /// The TLS library does not work here.
    #[error("cannot prepare TLS for the cluster: {0}")]
    Tls(String),
    /// A facade's certificate cannot be served.
    #[error("{0}")]
    Certificate(String),
    /// The system refused something basic.
    #[error("{what}: {source}")]
    System {
        /// What.
        what: &'static str,
        /// Why.
        source: std::io::Error,
    },
}

/// Runs a daemon until it is told to stop. `opened` is called once, when a standalone daemon
/// serves; a brokered one shows nothing.
///
/// # Errors
/// It could not start. Once it runs it ends orderly.
pub async fn run(options: Options, opened: impl FnOnce(Opened)) -> Result<Ended, StartError> {
    let begun = std::time::Instant::now();
    // From here on a signal ends the daemon orderly, also while it still starts.
    let signals = shutdown::Signals::listen();
    let hangup = reload::Hangup::listen();
    let descriptors = crate::net::descriptors::raise();
    tracing::debug!(limit = ?descriptors.limit, before = ?descriptors.before, "open descriptors");
    let Options {
        version,
        driver,
        settings,
        flags,
        default_level,
        socket,
        ports_dir,
        cluster_dir,
        state_dir,
        log,
        pool,
        manager,
    } = options;
    let brokered = matches!(driver, Driver::Stdio | Driver::Ipc(_));
    // Workers' connections are counted apart from clients'.
    let staying = pool
        .as_ref()
        .map_or(0, |_| registry::staying(descriptors.limit));
    let clients = descriptors.limit.map(|n| n.saturating_sub(staying as u64));
    let machine = machine_name();
    let control = bind_control(socket.as_deref(), brokered)?;
    // Two daemons must not write the same files; the socket's lock is what only one can hold.
    let holds_lock = control.is_some();
    let policy = if brokered {
        Policy::Listed
    } else {
        settings.policy
    };
    let info = info(
        version.clone(),
        &driver,
        holds_lock.then_some(socket).flatten(),
    );
    let events = Arc::<Events>::default();
    let shared = Arc::new(Shared::new(
        info,
        RequestSettings::from(&*settings),
        events.clone(),
        Scheduler::new(policy),
    ));
    let may_keep = holds_lock && !matches!(driver, Driver::Demo);
    let keys = match &state_dir {
        _ if matches!(driver, Driver::Demo) => Err(clients::DEMO),
        _ if !holds_lock => Err(clients::NO_SOCKET),
        None => Err(clients::NO_FOLDER),
        Some(folder) => Ok(folder.as_path()),
    };
    let keeping = clients::open(&shared.clients, keys);
    let state_dir = state_dir.filter(|_| may_keep);
    // Under a broker its list is what there is, and nobody probes.
    let named = (!brokered).then(|| open_book(state_dir.as_deref()));
    let (desk, asks) = named.map(Asks::open).unzip();
    let journal = journal::start(state_dir.clone(), &shared.workloads);
    let lifetime = Arc::<Lifetime>::default();
    let recordings = Recordings {
        workloads: shared.workloads.clone(),
        journal: state_dir.clone().zip(journal.clone()),
    };
    let replays = replay::Desk::new(shared.clone(), recordings, lifetime.clone());
    shared.replay_with(Arc::new(replays));
    let in_cluster = cluster_dir.is_some();
    let cluster = open_cluster(cluster_dir)?;
    let network = Arc::<Network>::default();
    let (telemetry, spans) = Telemetry::new();
    let context = Arc::new(Context {
        shared: shared.clone(),
        upstreams: Upstreams::new(cluster.clone(), network.clone()),
        sockets: Sockets::new(network),
        cluster,
        lifetime: lifetime.clone(),
        certificates: Certificates::default(),
        activity: Activity::default(),
        places: Places::new(Limits::of(clients)),
        machine: machine.clone(),
        telemetry: Arc::new(telemetry),
        on_failure: std::sync::OnceLock::new(),
    });
    let (commands, queue) = Commands::queue(QUEUE);
    let queries: Arc<dyn Queries> = shared.clone();
    let (scope, surroundings) = reach(&context, brokered || in_cluster);
    let ports = match &driver {
        Driver::Demo => Ports::Unsaved,
        _ => Ports::in_folder(ports_dir),
    };
    let stop = shutdown::Stop::default();
    let (reloads, asked) = tokio::sync::mpsc::unbounded_channel();
    let mut executor = Executor::new(
        context.clone(),
        surroundings,
        ports,
        scope,
        !brokered,
        desk,
        log,
        version.clone(),
        stop.clone(),
        reloads,
    );

    let link = match &driver {
        Driver::Stdio | Driver::Ipc(_) => {
            Some(shutdown::Link::open(&driver, &events, &version, &stop).await?)
        },
        _ => None,
    };
    certify(&mut executor, &settings, in_cluster, brokered)?;
    if let Some(advice) = clients::advice(&RequestSettings::from(&*settings), &shared.clients) {
        tracing::warn!("{advice}");
    }
    let executor = tokio::spawn(executor.run(queue));
    let pool = match pool.map(|p| pool::start(&p, state_dir.as_deref(), &machine, staying, &shared))
    {
        Some(Ok(running)) => Some(running),
        // A broker would take an exit for a crash.
        Some(Err(reason)) if brokered => {
            tracing::warn!(reason, "the node pool does not run");
            None
        },
        Some(Err(reason)) => return Err(StartError::Pool(reason)),
        None => None,
    };
    let server = match control {
        Some(control) => match control.serve(commands.clone(), queries.clone()) {
            Ok(server) => Some(server),
            Err(source) if !brokered => {
                return Err(StartError::System {
                    what: "cannot serve the control socket",
                    source,
                });
            },
            Err(e) => {
                tracing::warn!(reason = %e, "no control socket");
                None
            },
        },
        None => None,
    };
    let lost = journal.clone();
    let mut parts = shutdown::Parts {
        context: context.clone(),
        executor,
        manager: manager.clone(),
        server,
        journal,
        link: None,
        director: None,
        fleet: None,
        reloader: None,
        drain: None,
    };
    // Whoever follows the settings subscribes to it.
    let in_force = tokio::sync::watch::Sender::new(settings.clone());
    // A demonstration asks its samples and nobody else, whatever a file says.
    if !matches!(driver, Driver::Demo) {
        providers::follow(shared.providers.clone(), in_force.subscribe());
    }
    parts.drain = (!brokered).then(|| in_force.subscribe());
    let followed = in_force.subscribe();
    let telemetry = telemetry::start(&context, followed, spans, &version, lost, brokered)
        .map_err(StartError::Admin)?;
    let mut reloader = reload::Reloader {
        flags,
        settings: in_force,
        default_level,
        commands: commands.clone(),
        director: None,
        stop: stop.clone(),
        context: context.clone(),
        manager: manager.clone(),
    };
    match driver {
        Driver::Stdio | Driver::Ipc(_) => {
            parts.link = link.map(|l| l.start(commands.clone(), queries, &stop));
            open_gateway(&settings, &commands).await;
        },
        Driver::Standalone => {
            let asks = asks.unwrap_or_else(|| Asks::open(Book::unsaved()).1);
            let options = director::Options::standard(&settings, Box::new(jitter), asks);
            let started = director::start(&settings, &machine, commands, queries, options).await?;
            reloader.director = Some(parts.joined(started, begun, opened));
        },
        Driver::Demo => {
            let fleet = demo::start_fleet()
                .await
                .map_err(|e| StartError::Demo(e.to_string()))?;
            let settings = with_fleet((*settings).clone(), &fleet);
            let asks = asks.unwrap_or_else(|| Asks::open(Book::unsaved()).1);
            let options = director::Options {
                places: Vec::new(),
                ..director::Options::standard(&settings, Box::new(jitter), asks)
            };
            let started = director::start(&settings, &machine, commands, queries, options).await?;
            parts.fleet = Some(fleet);
            // The samples are its nodes, whatever a file says.
            drop(parts.joined(started, begun, opened));
        },
    }
    parts.reloader = Some(reloader.start(hangup, asked));
    manager.ready(&heartbeat::summary(&context, Phase::Running));
    heartbeat::start(manager, context, parts.executor.abort_handle());
    let ended = parts.until_stopped(stop, signals).await;
    let stopped = async {
        if let Some(pool) = pool {
            pool.stop().await;
        }
    };
    tokio::join!(stopped, telemetry.stop(), keeping.end());
    Ok(ended)
}

/// Under a broker nobody else opens it. An exit would be a crash to the parent.
async fn open_gateway(settings: &Settings, commands: &Commands) {
    let Some(gateway) = &settings.gateway else {
        return;
    };
    let enable = Enable {
        engine: EngineId::GATEWAY,
        port: gateway.port.unwrap_or(0).into(),
        alias_addresses: Vec::new(),
        ignore_persisted_port: false,
    };
    if let Err(e) = commands.call(|r| Command::Enable(enable, r)).await {
        tracing::warn!(reason = e.message, "the gateway does not listen");
    }
}

/// The nodes that were added in earlier runs; a file that cannot be used is never a reason not to
/// start.
fn open_book(state_dir: Option<&std::path::Path>) -> Book {
    let (book, problem) = Book::open(state_dir);
    if let Some(problem) = problem {
        tracing::warn!("{problem}");
    }
    book
}

/// Takes the facades' certificates into service. Under a broker an exit is a crash, so that one that
/// cannot be used is a warning there, and nobody comes in beyond loopback.
fn certify(
    executor: &mut Executor,
    settings: &Settings,
    in_cluster: bool,
    brokered: bool,
) -> Result<(), StartError> {
    let certificates = settings.certificates();
    if in_cluster && !certificates.is_empty() {
        tracing::warn!(
            "tls_cert of a facade is not used: with --cluster-dir, TLS on a facade's port is the \
             cluster's, and callers with a client key are served in the clear"
        );
    }
    let told = executor.certify(&certificates);
    match told.is_empty() || brokered {
        false => Err(StartError::Certificate(told.join("\n"))),
        true => {
            told.iter().for_each(|line| tracing::warn!("{line}"));
            Ok(())
        },
    }
}

fn open_cluster(folder: Option<PathBuf>) -> Result<Option<Arc<Cluster>>, StartError> {
    let opened = folder.map(Cluster::open).transpose();
    let opened = opened.map_err(|e| StartError::Tls(e.to_string()))?;
    Ok(opened.map(Arc::new))
}

/// Alone, or one machine of several: then others come to its port, and its own record may be relayed
/// to it with an address of its own. Alone, a node's address is meant as it is written.
fn reach(context: &Arc<Context>, among_others: bool) -> (Scope, Arc<dyn Surroundings>) {
    match among_others {
        true => (Scope::Everywhere, surroundings::Watched::start(context)),
        false => (Scope::Loopback, Arc::new(Alone)),
    }
}

/// Under a broker an exit is a crash to the supervisor, so an unusable socket is a warning there.
fn bind_control(
    path: Option<&std::path::Path>,
    brokered: bool,
) -> Result<Option<ControlSocket>, SocketError> {
    match path.map(ControlSocket::bind) {
        None => Ok(None),
        Some(Ok(socket)) => Ok(Some(socket)),
        Some(Err(e)) if brokered => {
            tracing::warn!(reason = %e, "no control socket; status and the others will not work");
            Ok(None)
        },
        Some(Err(e)) => Err(e),
    }
}

fn info(version: String, driver: &Driver, socket: Option<PathBuf>) -> DaemonInfo {
    let unix = wall_clock::since_epoch();
    DaemonInfo {
        version,
        pid: std::process::id(),
        mode: match driver {
            Driver::Stdio | Driver::Ipc(_) => Mode::Broker,
            Driver::Standalone => Mode::Standalone,
            Driver::Demo => Mode::Demo,
        },
        run_id: run_id(unix),
        started_at: unix.as_millis() as u64,
        socket: socket.map(|p| p.display().to_string()),
    }
}

/// Eight bytes that no other run has: the standard library's hasher is keyed from the system's
/// random source.
fn run_id(unix: Duration) -> RunId {
    use std::hash::{BuildHasher, RandomState};
    let bits = RandomState::new().hash_one((unix.as_nanos(), std::process::id()));
    RunId::from_bytes(bits.to_be_bytes())
}

/// A number from 0 to 1 that nobody can foretell, to spread what would else come at once: each hasher of
/// the standard library has keys of its own.
fn jitter() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    (RandomState::new().hash_one(0u8) >> 11) as f64 / (1u64 << 53) as f64
}

fn machine_name() -> String {
    let name = rustix::system::uname();
    name.nodename().to_str().unwrap_or("localhost").to_owned()
}

/// The sample engines as named nodes.
fn with_fleet(mut settings: Settings, fleet: &demo::Fleet) -> Settings {
    use crate::config::file::NodeSetting;
    use crate::config::node_url::NodeUrl;
    settings.nodes = fleet
        .nodes()
        .into_iter()
        .map(|(engine, name, address)| NodeSetting {
            name: Some(name),
            ..NodeSetting::bare(engine, NodeUrl::of(address))
        })
        .collect();
    settings
}
