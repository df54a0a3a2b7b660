//! Layer 6: the driver when there is no broker.
//!
//! Owns: enabling facades, and composing the parts: `plan` decides, `local` and `probe` look,
//! `keeper` keeps the nodes. Leaves to others: carrying commands out (`daemon`), choosing between
//! nodes (`rules`), printing (`cmd`). It sends commands and no ranking.

mod adapt;
pub mod keeper;
pub mod kept;
pub mod local;
pub mod plan;
pub mod probe;
pub mod standing;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::task::JoinHandle;

pub use adapt::Changes;
pub use keeper::{Jitter, ProbeNow, Timing};
pub use local::Place;
pub use plan::{PortReason, Row};

use crate::config::file::NodeSetting;
use crate::config::settings::{EngineSetting, PortAsk, Settings};
use crate::rules::engine::EngineId;
use crate::state::command::{Command, Commands, Enable, Enabled, PortRule};
use crate::state::named::Asks;
use crate::state::query::Queries;
use crate::wire::control::FacadeStatus;
use crate::wire::jsonrpc::{CommandError, ErrorCode};
use keeper::Keeper;

/// How a start differs from another apart from its settings.
pub struct Options {
    /// Times.
    pub timing: Timing,
    /// Where engines on this machine are looked for; empty = nowhere.
    pub places: Vec<Place>,
    /// How it is told that a port is taken.
    pub taken: PortCheck,
    /// Nodes of earlier runs, and requests to add and remove some.
    pub asks: Asks,
}

impl Options {
    /// The usual times, and every place where an engine may be.
    pub fn standard(settings: &Settings, jitter: Jitter, asks: Asks) -> Self {
        Self {
            timing: Timing::standard(jitter),
            places: local::places(settings),
            taken: PortCheck::Dial,
            asks,
        }
    }
}

/// How it is told that a port is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortCheck {
    /// By dialling it.
    Dial,
    /// These are.
    Known(Vec<u16>),
}

/// A started director.
pub struct Started {
    /// The facades that are up, in table order.
    pub rows: Vec<Row>,
    /// For a person: facades that are not up, nodes that did not answer.
    pub warnings: Vec<String>,
    /// For the request path.
    pub probe_now: ProbeNow,
    /// For other settings.
    pub changes: Changes,
    /// Keeps the nodes until it is aborted.
    pub task: JoinHandle<()>,
}

/// No facade could be enabled: each with its reason.
#[derive(Debug, PartialEq, Eq)]
pub struct StartError(pub Vec<(EngineId, String)>);

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("every engine is turned off in the configuration");
        }
        f.write_str("no facade could be enabled")?;
        for (engine, reason) in &self.0 {
            write!(f, "\n  {}: {reason}", engine.spec().display)?;
        }
        Ok(())
    }
}

impl std::error::Error for StartError {}

/// Probes once, enables the facades, tells the daemon its nodes, and goes on probing.
///
/// Waits for answers of commands: must not run on the task that carries commands out.
pub async fn start(
    settings: &Settings,
    host_name: &str,
    commands: Commands,
    queries: Arc<dyn Queries>,
    options: Options,
) -> Result<Started, StartError> {
    let Options {
        timing,
        places,
        taken,
        asks,
    } = options;
    let added = asks.book.nodes().to_vec();
    let wanted: Vec<_> = settings.engines.iter().map(|e| e.engine).collect();
    let (mut keeper, probe_now) = Keeper::new(
        commands.clone(),
        queries.clone(),
        timing,
        host_name,
        &settings.nodes,
        &places,
        asks,
    );
    for engine in idle(&wanted) {
        keeper.leave(engine);
    }
    keeper.first_round().await;
    // A daemon that takes nodes ahead of their facade answers its very first request right.
    keeper.tell_all().await;

    let opener = Opener {
        settings: Arc::new(settings.clone()),
        commands,
        queries,
        taken,
    };
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for setting in &settings.engines {
        match opener
            .open(*setting, &keeper.own_ports(setting.engine))
            .await
        {
            Ok((bound, reason)) => up.push((setting.engine, bound, reason)),
            Err(reason) => down.push((setting.engine, reason)),
        }
    }
    let engines: Vec<_> = up.iter().map(|(engine, ..)| *engine).collect();
    keeper.rest(idle(&engines)).await;
    if up.is_empty() {
        return Err(StartError(down));
    }
    keeper.tell_all().await;
    let facades = opener.queries.status().facades;
    let row = |(e, b, r): &(EngineId, Enabled, PortReason)| Row {
        // As bound: an address that somebody else has is left out.
        aliases: aliases(&facades, *e),
        ..plan::row(*e, b.port, *r, keeper.ids(*e), keeper.example(*e))
    };
    let rows = up.iter().map(row).collect();
    let mut warnings = warnings(&settings.nodes, &added, &wanted, down);
    warnings.extend(keeper.complaints());
    let (changes, wanted) = Changes::channel();
    let task = tokio::spawn(adapt::run(keeper, opener, wanted));
    Ok(Started {
        rows,
        warnings,
        probe_now,
        changes,
        task,
    })
}

/// Engines whose nodes nobody asks, given the facades: the gateway asks those of all.
fn idle(facades: &[EngineId]) -> Vec<EngineId> {
    if facades.contains(&EngineId::GATEWAY) {
        return Vec::new();
    }
    EngineId::all().filter(|e| !facades.contains(e)).collect()
}

fn aliases(facades: &[FacadeStatus], engine: EngineId) -> Vec<String> {
    let facade = facades.iter().find(|f| f.engine == engine);
    facade.map_or_else(Vec::new, |f| f.aliases.clone())
}

fn warnings(
    named: &[NodeSetting],
    added: &[NodeSetting],
    wanted: &[EngineId],
    down: Vec<(EngineId, String)>,
) -> Vec<String> {
    let facade = |(e, why): (EngineId, String)| format!("no {} facade: {why}", e.spec().display);
    let idle = named
        .iter()
        .chain(added)
        .filter(|n| idle(wanted).contains(&n.engine))
        .map(|n| {
            format!(
                "node {} is not used: the {} facade is off",
                n.url,
                n.engine.spec().display
            )
        });
    down.into_iter().map(facade).chain(idle).collect()
}

/// Enables facades, one after the other.
struct Opener {
    settings: Arc<Settings>,
    commands: Commands,
    queries: Arc<dyn Queries>,
    taken: PortCheck,
}

impl Opener {
    /// Enables one facade where its rules allow. `own` = ports where the engine itself is.
    async fn open(
        &self,
        setting: EngineSetting,
        own: &[u16],
    ) -> Result<(Enabled, PortReason), String> {
        let EngineSetting { engine, port: ask } = setting;
        let taken = self.taken(setting).await;
        let mut attempt = plan::first(engine, ask, &taken).map_err(|e| e.to_string())?;
        loop {
            match self.enable(engine, attempt, own).await {
                Ok(bound) => {
                    let reason = plan::reason(ask, attempt, &bound, own);
                    return Ok((bound, reason));
                },
                Err(e) if e.code == ErrorCode::BindFailed => {
                    attempt = plan::after(engine, ask, attempt, &taken).map_err(|_| e.message)?;
                },
                Err(e) => return Err(e.message),
            }
        }
    }

    /// Moves a facade that is up to where its setting wants it.
    async fn moved(&self, setting: EngineSetting) -> Result<(), String> {
        let EngineSetting { engine, port: ask } = setting;
        let (port, exact) = match ask {
            PortAsk::Exact(port) => (port, true),
            PortAsk::Requested(port) => (port, false),
            PortAsk::Default => (0, false),
        };
        let enable = Enable {
            engine,
            port: i64::from(port),
            alias_addresses: Vec::new(),
            ignore_persisted_port: exact,
        };
        let moved = self.commands.call(|r| Command::Move(enable, r)).await;
        match moved.map_err(|e| format!("stays where it is: {}", e.message))? {
            Enabled {
                rule: PortRule::Saved,
                port: saved,
                ..
            } if port != saved => Err(format!(
                "port {saved}, which set-port saved, goes before the configuration's"
            )),
            _ => Ok(()),
        }
    }

    async fn taken(&self, setting: EngineSetting) -> Vec<u16> {
        // A facade that is up already listens on its own port.
        if self.queries.is_enabled(setting.engine) {
            return Vec::new();
        }
        let fallback = setting.engine.spec().fallback_port;
        let mut taken = Vec::new();
        for port in [plan::wanted(setting.engine, setting.port), fallback] {
            if self.is_taken(port).await {
                taken.push(port);
            }
        }
        taken
    }

    async fn is_taken(&self, port: u16) -> bool {
        match &self.taken {
            PortCheck::Dial => local::listens(port).await,
            PortCheck::Known(ports) => ports.contains(&port),
        }
    }

    async fn enable(
        &self,
        engine: EngineId,
        attempt: plan::Attempt,
        own: &[u16],
    ) -> Result<Enabled, CommandError> {
        let asked = self.settings.aliases.iter().filter(|(e, _)| *e == engine);
        let asked: Vec<_> = asked.map(|(_, address)| *address).collect();
        let proposed = match asked.is_empty() {
            true => self.proposal(engine, attempt, own).await,
            false => None,
        };
        let Some(address) = proposed else {
            return self.send(engine, attempt, &asked).await;
        };
        match self.send(engine, attempt, &[address]).await {
            // Nobody asked for the alias, so it must not cost the facade: it may equal a saved port.
            Err(e) if e.code == ErrorCode::Refused => self.send(engine, attempt, &asked).await,
            other => other,
        }
    }

    /// The address in the engine's host variable, as an alias. Only where the engine itself runs
    /// elsewhere on this machine and nobody listens there: else its next start would find its port
    /// taken by us.
    async fn proposal(
        &self,
        engine: EngineId,
        attempt: plan::Attempt,
        own: &[u16],
    ) -> Option<SocketAddr> {
        let variables = &self.settings.host_variables;
        let (_, address) = *variables.iter().find(|(e, _)| *e == engine)?;
        let port = address.port();
        let primary = if attempt.port == 0 {
            engine.spec().standalone_port
        } else {
            attempt.port
        };
        let free = !own.is_empty() && port != primary && !self.is_taken(port).await;
        free.then_some(address)
    }

    async fn send(
        &self,
        engine: EngineId,
        attempt: plan::Attempt,
        aliases: &[SocketAddr],
    ) -> Result<Enabled, CommandError> {
        let enable = Enable {
            engine,
            port: i64::from(attempt.port),
            alias_addresses: aliases.iter().map(SocketAddr::to_string).collect(),
            ignore_persisted_port: attempt.ignore_saved,
        };
        self.commands.call(|r| Command::Enable(enable, r)).await
    }
}

#[cfg(test)]
mod tests;
