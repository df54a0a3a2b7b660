//! The node pool out of its settings: store, registry, picture.
//!
//! Owns: which store, joining the parts, their end. Leaves to others: everything that happens then
//! (`state::pool`, `registry`).

use std::path::Path;
use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::config::pool::{PoolSettings, StoreSetting};
use crate::rules::pool::limits::Limits;
use crate::state::pool::{Pool, PoolDoor};
use crate::state::shared::Shared;
use crate::store::pool::{MemoryStore, RedisStore, Store, system_clock};
use crate::wire::usage_event::Served;

use super::registry::{self, Server};
use super::usage::{self, Usage};

/// Name of the file of the keys in the state folder.
const KEYS: &str = "node-keys.json";

/// A pool that runs until this is dropped.
pub struct Running {
    server: Option<Server>,
    picture: JoinHandle<()>,
    usage: Option<Usage>,
}

impl Running {
    /// Stops answering workers, after the calls in hand; the last usage events go out.
    pub async fn stop(mut self) {
        let server = self.server.take();
        let usage = self.usage.take();
        let stopped = async {
            if let Some(server) = server {
                server.stop().await;
            }
        };
        let told = async {
            if let Some(usage) = usage {
                usage.end().await;
            }
        };
        tokio::join!(stopped, told);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.picture.abort();
    }
}

/// Starts the pool: from now on workers register, `staying` of them over connections that stay, and
/// requests have places on their nodes.
///
/// # Errors
/// A sentence that says what to do.
pub fn start(
    settings: &PoolSettings,
    state_dir: Option<&Path>,
    machine: &str,
    staying: usize,
    shared: &Arc<Shared>,
) -> Result<Running, String> {
    let limits = settings.limits();
    let (store, kind) = store(settings, state_dir, &limits)?;
    let pool = Pool::new(Arc::new(store), limits, kind);
    let mut opened = registry::open(settings, state_dir, machine, staying, pool.clone())?;
    let (keys, providers) = (pool.clone(), shared.providers.clone());
    let usage = usage::start(
        settings,
        &shared.workloads,
        Arc::new(move |node| match providers.find(node.as_str()) {
            Some(_) => Served::Provider,
            None => Served::Node(keys.key_of(node)),
        }),
    )?;
    opened.desk.usage = usage.as_ref().map(Usage::counts);
    pool.opened(PoolDoor {
        listen: opened.server.address().to_string(),
        tls: (opened.desk.fingerprint)().is_some(),
    });
    shared.set_pool(opened.desk);
    shared.set_admissions(pool.clone());
    let picture = tokio::spawn(pool.run(Arc::downgrade(shared)));
    Ok(Running {
        server: Some(opened.server),
        picture,
        usage,
    })
}

fn store(
    settings: &PoolSettings,
    state_dir: Option<&Path>,
    limits: &Limits,
) -> Result<(Store, &'static str), String> {
    match &settings.store {
        StoreSetting::Memory => {
            tracing::info!(
                "the node pool is kept in memory: leases are this gateway's own; give `store = \
                 \"redis://...\"` in [pool] where several gateways share the nodes"
            );
            let folder = state_dir.ok_or(
                "the node pool keeps the hashes of its keys in the state folder, and there is \
                 none; set STATE_DIRECTORY or HOME",
            )?;
            let store = MemoryStore::open(system_clock(), limits.clone(), &folder.join(KEYS));
            Ok((Store::Memory(store.map_err(|e| e.to_string())?), "memory"))
        },
        StoreSetting::Redis(address) => {
            let store = RedisStore::new(address.clone(), limits.clone());
            let store = store.map_err(|e| e.to_string())?;
            Ok((Store::Redis(store), "redis"))
        },
    }
}
