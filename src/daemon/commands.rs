//! The one reader of commands: carries each out, answers it, and says what follows from it.
//!
//! Owns: the order of checks, answers and notices, which a parent relies on.
//! Leaves to others: decoding (`broker`, `control`), the state (`state`), sockets (`supervisor`).

mod nodes;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use crate::config::gateway::TlsFiles;
use crate::facade::{Context, Facade};
use crate::net::listen::{self, Scope};
use crate::rules::addresses::is_loopback_host;
use crate::rules::discovery::Extra;
use crate::rules::engine::EngineId;
use crate::rules::ids::NodeId;
use crate::rules::port;
use crate::state::command::{
    Apply, Command, CommandQueue, Enable, Enabled, LocalBackend, ManualNode, PrioritySnapshot,
    Responder,
};
use crate::state::discovery::{announced, manual, project};
use crate::state::events::Notice;
use crate::state::facade::{FacadeState, SnapshotChange, Surroundings};
use crate::state::named::{Desk, NewNode, NodeAsk};
use crate::store::ports::Ports;
use crate::telemetry::logging::LogHandle;
use crate::wall_clock;
use crate::wire::broker::{DirectoryNode, NodeRecord};
use crate::wire::control::{ConfigReloaded, NodeAdded, NodeState, PortSet, SCHEMA_VERSION};
use crate::wire::jsonrpc::{CommandError, ErrorCode};

use super::doors::{Doors, LOOK, is_open};
use super::shutdown::Stop;
use super::supervisor::{Died, Listening, bind_all};

/// Carries commands out.
pub struct Executor {
    context: Arc<Context>,
    surroundings: Arc<dyn Surroundings>,
    ports: Ports,
    scope: Scope,
    log: LogHandle,
    version: String,
    stop: Stop,
    reloads: mpsc::UnboundedSender<Responder<ConfigReloaded>>,
    listening: HashMap<EngineId, Listening>,
    openings: u64,
    doors: Doors,
    /// Nodes told before their facade listens: only a standalone driver may, so that its very first
    /// request finds them.
    early: Option<HashMap<EngineId, Arc<FacadeState>>>,
    /// Who keeps the nodes that people name, if anybody.
    desk: Option<Desk>,
    died: (mpsc::UnboundedSender<Died>, mpsc::UnboundedReceiver<Died>),
}

impl Executor {
    /// An executor without facades. `early`: nodes may be told before their facade is enabled.
    /// `desk`: who keeps the nodes that people name; `None` = they are kept as they stand.
    pub fn new(
        context: Arc<Context>,
        surroundings: Arc<dyn Surroundings>,
        ports: Ports,
        scope: Scope,
        early: bool,
        desk: Option<Desk>,
        log: LogHandle,
        version: String,
        stop: Stop,
        reloads: mpsc::UnboundedSender<Responder<ConfigReloaded>>,
    ) -> Self {
        Self {
            context,
            surroundings,
            ports,
            scope,
            log,
            version,
            stop,
            reloads,
            listening: HashMap::new(),
            openings: 0,
            doors: Doors::default(),
            early: early.then(HashMap::new),
            desk,
            died: mpsc::unbounded_channel(),
        }
    }

    /// Reads commands until the queue ends. A panic in one ends only that one: its responder goes
    /// unanswered, and whoever waits is told of an internal error.
    pub async fn run(mut self, mut queue: CommandQueue) {
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                Some(died) = self.died.1.recv() => self.withdraw(&died),
                command = queue.recv() => match command {
                    Some(command) => {
                        let fenced = AssertUnwindSafe(self.carry_out(command)).catch_unwind();
                        drop(fenced.await);
                    },
                    None => return,
                },
                _ = look.tick(), if self.scope == Scope::Loopback && is_open(&self.context) => {
                    self.reach();
                },
            }
        }
    }

    async fn carry_out(&mut self, command: Command) {
        match command {
            Command::Enable(enable, r) => self.enable(enable, r).await,
            Command::SetPort(engine, port, r) => {
                let result = self.set_port(engine, port).await;
                r.answer(result);
            },
            Command::Select(engine, node, r) => self.select(engine, node, r),
            Command::AddManual(engine, node, r) => self.add_manual(engine, *node, r),
            Command::RemoveManual(engine, node, r) => self.remove_manual(engine, &node, r),
            Command::AddNode(node, r) => self.add_node(node, r),
            Command::RemoveNode(engine, node, r) => self.remove_node(engine, node, r),
            Command::SetLocalBackend(engine, backend, r) => {
                r.answer(self.set_local_backend(engine, backend));
            },
            Command::SetPriority(snapshot, r) => r.answer(self.set_priority(snapshot)),
            Command::Discovery(engine, nodes, r) => {
                self.discovery(engine, nodes);
                r.answer(Ok(()));
            },
            Command::SetLogLevel(level, r) => {
                self.log.set(level);
                r.answer(Ok(level));
            },
            Command::Apply(values, r) => {
                r.answer(Ok(self.apply(*values)));
            },
            Command::Reach(r) => {
                self.reach();
                r.answer(Ok(()));
            },
            Command::Move(wanted, r) => {
                let moved = self.move_as_enabled(wanted).await;
                r.answer(moved);
            },
            Command::Disable(engine, r) => r.answer(self.disable(engine)),
            Command::Reload(r) => self.reload(r),
            Command::Shutdown(r) => {
                r.answer(Ok(()));
                self.stop.now();
            },
        }
    }

    async fn enable(&mut self, enable: Enable, r: Responder<Enabled>) {
        let engine = enable.engine;
        let opened = self.open(enable).await;
        if let Err((port, e)) = &opened
            && e.code == ErrorCode::BindFailed
        {
            // Before the answer: the broker picks its fallback port on reading it.
            self.emit(Notice::BindFailed(engine, *port, e.message.clone()));
        }
        r.answer(opened.map_err(|(_, e)| e));
    }

    async fn open(&mut self, enable: Enable) -> Result<Enabled, (u16, CommandError)> {
        let engine = enable.engine;
        let refused = |text: String| (0, CommandError::refused(text));
        let request = port::request(enable.port).map_err(refused)?;
        if !enable.alias_addresses.is_empty() && !engine.spec().aliases {
            let none = port::aliases(engine, &enable.alias_addresses, 0);
            return Err(refused(none.err().unwrap_or_default()));
        }
        if let Some(up) = self.listening.get(&engine) {
            let (port, rule) = (up.facade().state.port(), port::Decided::Requested);
            return Ok(Enabled {
                port,
                rule,
                already: true,
            });
        }
        let ports = self.ports.clone();
        let saved = blocking(move || ports.load(engine))
            .await
            .map_err(|e| (0, e))?;
        let (port, rule) = port::decide(engine, request, saved, enable.ignore_persisted_port);
        let aliases = port::aliases(engine, &enable.alias_addresses, port).map_err(refused)?;
        let primary = listen::bind(self.scope, port).map_err(|e| {
            let text = format!("cannot listen on port {port}: {e}");
            (port, CommandError::new(ErrorCode::BindFailed, text))
        })?;
        let state = self.early_state(engine);
        let bound = self.bind_aliases(engine, &aliases);
        state.set_aliases(
            bound
                .iter()
                .filter_map(|s| s.local_addr().ok())
                .map(host_port)
                .collect(),
        );
        state.opened(port, wall_clock::unix_ms());
        // Findable before anybody can reach it.
        self.context.shared.publish(state.clone());
        self.emit(Notice::Ready(engine, port));
        self.emit(Notice::Subscribe(engine));
        let facade = Facade {
            context: self.context.clone(),
            state,
        };
        self.openings += 1;
        let up = Listening::open(facade, self.openings, primary, bound, &self.died.0);
        self.listening.insert(engine, up);
        tracing::info!(%engine, port, "facade listens");
        self.reach();
        Ok(Enabled {
            port,
            rule,
            already: false,
        })
    }

    /// The state a facade opens with: with the nodes that were told early, if any.
    fn early_state(&mut self, engine: EngineId) -> Arc<FacadeState> {
        let early = self.early.as_mut().and_then(|e| e.remove(&engine));
        early.unwrap_or_else(|| {
            let scheduler = self.context.shared.scheduler.clone();
            Arc::new(FacadeState::new(
                engine,
                self.surroundings.clone(),
                scheduler,
            ))
        })
    }

    /// Aliases are all bound or none; an occupied one is not fatal and its owner is left alone.
    fn bind_aliases(
        &self,
        engine: EngineId,
        wanted: &[SocketAddr],
    ) -> Vec<tokio::net::TcpListener> {
        if wanted.is_empty() {
            return Vec::new();
        }
        let id = format!("{}:{engine}-host-alias-blocked", engine.spec().component);
        match bind_all(wanted) {
            Ok(bound) => {
                self.emit(Notice::ErrorClear(engine, id));
                bound
            },
            Err((address, e)) => {
                let text = format!(
                    "the address {address} that clients of {} use is taken ({e}); its owner was \
                     not touched, and the facade is reachable on its own port only",
                    engine.spec().display
                );
                tracing::warn!(%engine, %address, reason = %e, "alias address is taken");
                self.emit(Notice::ErrorReport(engine, id, text));
                Vec::new()
            },
        }
    }

    async fn set_port(&mut self, engine: EngineId, port: i64) -> Result<PortSet, CommandError> {
        let known = self
            .listening
            .get(&engine)
            .map(|up| up.facade().state.port());
        let current = known.ok_or_else(|| CommandError::no_facade(engine.as_str()))?;
        let port = u16::try_from(port)
            .ok()
            .filter(|p| *p > 0)
            .ok_or_else(|| CommandError::params(format!("port {port} is not in 1..65535")))?;
        let sockets = match port == current {
            true => None,
            false => Some(listen::bind(self.scope, port).map_err(|e| {
                CommandError::refused(format!("cannot listen on port {port}: {e}"))
            })?),
        };
        let ports = self.ports.clone();
        blocking(move || ports.save(engine, port))
            .await?
            .map_err(|e| {
                CommandError::refused(format!(
                    "cannot save port {port}, so nothing was changed: {e}"
                ))
            })?;
        if let (Some(sockets), Some(up)) = (sockets, self.listening.get_mut(&engine)) {
            up.facade().state.set_port(port);
            up.move_to(sockets, &self.died.0);
            tracing::info!(%engine, port, "facade moved");
            self.emit(Notice::Ready(engine, port));
            self.reach();
        }
        Ok(PortSet {
            version: self.version.clone(),
            port,
        })
    }

    /// Listens beyond loopback where keys and networks open the facades.
    fn reach(&mut self) {
        if self.scope == Scope::Loopback {
            self.doors.reach(&self.context, &mut self.listening);
        }
    }

    /// Serves these certificates; a line for each that cannot be used.
    pub fn certify(&mut self, wanted: &[(EngineId, TlsFiles)]) -> Vec<String> {
        self.doors.certify(&self.context, wanted)
    }

    fn apply(&mut self, values: Apply) -> Vec<String> {
        // Ahead of the networks: nobody comes in in the clear meanwhile.
        let told = self.certify(&values.certificates);
        let shared = &self.context.shared;
        shared.settings.swap(values.requests);
        if let Some(policy) = values.policy {
            shared.scheduler.set_policy(policy);
        }
        if let Some(level) = values.log_level {
            self.log.set(level);
        }
        self.reach();
        told
    }

    /// Moves a facade to where it would be opened now. The new port is bound first, so that a lost
    /// bind changes nothing.
    async fn move_as_enabled(&mut self, wanted: Enable) -> Result<Enabled, CommandError> {
        let engine = wanted.engine;
        let request = port::request(wanted.port).map_err(CommandError::refused)?;
        let ports = self.ports.clone();
        let saved = blocking(move || ports.load(engine)).await?;
        let (port, rule) = port::decide(engine, request, saved, wanted.ignore_persisted_port);
        let up = self.listening.get_mut(&engine);
        let up = up.ok_or_else(|| CommandError::no_facade(engine.as_str()))?;
        let moved = Enabled {
            port,
            rule,
            already: up.facade().state.port() == port,
        };
        if !moved.already {
            let sockets = listen::bind(self.scope, port).map_err(|e| {
                let text = format!("cannot listen on port {port}: {e}");
                CommandError::new(ErrorCode::BindFailed, text)
            })?;
            up.facade().state.set_port(port);
            up.move_to(sockets, &self.died.0);
            tracing::info!(%engine, port, "facade moved");
            self.emit(Notice::Ready(engine, port));
            self.reach();
        }
        Ok(moved)
    }

    /// Closes a facade's listeners. Its state is kept for another `Enable`: requests under way need
    /// it, and their numbers must not come again.
    fn disable(&mut self, engine: EngineId) -> Result<bool, CommandError> {
        let Some(early) = &mut self.early else {
            return Err(CommandError::refused(
                "a broker's facade cannot be turned off",
            ));
        };
        let Some(up) = self.listening.remove(&engine) else {
            return Ok(false);
        };
        let state = up.facade().state.clone();
        state.retire();
        self.context.shared.withdraw(engine);
        early.insert(engine, state);
        tracing::info!(%engine, "facade turned off");
        Ok(true)
    }

    /// Hands the question on: reloading sends commands, so that this task cannot wait for it.
    fn reload(&self, r: Responder<ConfigReloaded>) {
        if let Err(refused) = self.reloads.send(r) {
            let text = "the configuration cannot be read again now: the daemon starts or ends";
            refused.0.answer(Err(CommandError::refused(text)));
        }
    }

    fn facade(&self, engine: EngineId) -> Result<Arc<FacadeState>, CommandError> {
        let facade = self.context.shared.facade(engine);
        facade.ok_or_else(|| CommandError::no_facade(engine.as_str()))
    }

    fn facade_or_early(&mut self, engine: EngineId) -> Result<Arc<FacadeState>, CommandError> {
        if engine.is_gateway() {
            return Err(nodes::no_nodes_of_its_own());
        }
        match (self.facade(engine), &mut self.early) {
            (Err(_), Some(early)) => {
                let surroundings = &self.surroundings;
                let scheduler = &self.context.shared.scheduler;
                let new = || {
                    let state = Arc::new(FacadeState::new(
                        engine,
                        surroundings.clone(),
                        scheduler.clone(),
                    ));
                    self.context.shared.remember(state.clone());
                    state
                };
                Ok(early.entry(engine).or_insert_with(new).clone())
            },
            (known, _) => known,
        }
    }

    /// An accept loop died: its facade is withdrawn, so that enabling it works again.
    fn withdraw(&mut self, died: &Died) {
        let Died {
            engine,
            opening,
            reason,
        } = died;
        if self
            .listening
            .get(engine)
            .is_none_or(|up| up.opening != *opening)
        {
            return;
        }
        self.listening.remove(engine);
        self.context.shared.withdraw(*engine);
        tracing::error!(%engine, reason, "facade stopped listening and was withdrawn");
    }

    fn emit(&self, notice: Notice) {
        self.context.shared.events.emit(&notice);
    }
}

/// Disk work, off the thread that serves requests.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CommandError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| {
        CommandError::new(
            ErrorCode::Internal,
            "internal error while reading or writing a file",
        )
    })
}

fn host_port(a: SocketAddr) -> (String, u16) {
    (a.ip().to_string(), a.port())
}

#[cfg(test)]
mod tests;
