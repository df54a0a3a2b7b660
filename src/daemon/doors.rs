//! What stands open beyond loopback: addresses, certificates.
//!
//! Owns: when facades listen at this machine's other addresses, and with which certificate. Leaves to
//! others: their sockets (`supervisor`), who is let in (`rules::ingress`), the handshake (`facade`).

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::config::gateway::TlsFiles;
use crate::facade::{Certificate, Context};
use crate::net::interfaces::Interfaces;
use crate::net::server_tls::ServerTls;
use crate::rules::engine::EngineId;

use super::supervisor::Listening;

/// Between two looks at this machine's addresses, while facades listen beyond loopback.
pub const LOOK: Duration = Duration::from_secs(5);

/// Whether anybody beyond loopback may come in: there are networks, and keys.
pub fn is_open(context: &Context) -> bool {
    let shared = &context.shared;
    !shared.clients.is_empty() && !shared.settings.now().allowed_cidrs.is_empty()
}

/// What is open as of the last look.
#[derive(Default)]
pub struct Doors {
    interfaces: Interfaces,
    /// Addresses that could not be had, and were told of.
    blocked: BTreeSet<(EngineId, IpAddr)>,
    /// The files of the certificates in force.
    files: HashMap<EngineId, TlsFiles>,
}

impl Doors {
    /// Listens at every address of this machine where keys and networks open the facades, else on
    /// loopback alone. An address that cannot be had is told once, and tried again at each look.
    pub fn reach(&mut self, context: &Context, listening: &mut HashMap<EngineId, Listening>) {
        let wanted = match is_open(context) {
            true => {
                self.interfaces.refresh();
                self.interfaces.bindable()
            },
            false => Vec::new(),
        };
        for (engine, up) in listening {
            let (engine, was_open) = (*engine, up.is_outside());
            let reached = up.reach(&wanted);
            for ip in reached.opened {
                self.blocked.remove(&(engine, ip));
                tracing::info!(%engine, %ip, "facade is open to other machines");
            }
            for (ip, e) in reached.failed {
                if self.blocked.insert((engine, ip)) {
                    tracing::warn!(%engine, %ip, reason = %e, "the facade cannot be reached at this address");
                }
            }
            if was_open && !up.is_outside() {
                tracing::info!(%engine, "facade is open to this machine alone");
            }
        }
    }

    /// Serves these certificates. A line for each that cannot be used; the one before it stays in
    /// force then, and where there was none nobody comes in beyond loopback.
    pub fn certify(&mut self, context: &Context, wanted: &[(EngineId, TlsFiles)]) -> Vec<String> {
        let (mut all, mut told) = (HashMap::new(), Vec::new());
        for (engine, files) in wanted {
            let engine = *engine;
            let before = context.certificates.of(engine);
            let served = match before {
                // It follows its files by itself.
                Some(Certificate::Served(tls)) if self.files.get(&engine) == Some(files) => {
                    Certificate::Served(tls)
                },
                before => match ServerTls::open(&files.cert, &files.key) {
                    Ok(tls) => {
                        self.files.insert(engine, files.clone());
                        Certificate::Served(Arc::new(tls))
                    },
                    Err(e) => {
                        let section = match engine.is_gateway() {
                            true => engine.to_string(),
                            false => format!("engines.{engine}"),
                        };
                        told.push(format!("{section}.tls_cert: {e}"));
                        before.unwrap_or(Certificate::Unusable)
                    },
                },
            };
            all.insert(engine, served);
        }
        self.files.retain(|engine, _| all.contains_key(engine));
        context.certificates.replace(all);
        told
    }
}
