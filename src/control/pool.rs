//! The node pool's calls of the control socket: keys, drain, resume, reset, list.
//!
//! Owns: their trait and handlers. Leaves to others: the pool (`state::fleet`), workers' calls
//! (`registry`), strictness and panics (`door`).
//! A trait of its own, since it is merged in whether or not there is a pool: without one each call
//! says so.

use std::sync::Arc;

use jsonrpsee::core::{RpcResult, async_trait};
use jsonrpsee::proc_macros::rpc;
use jsonrpsee::types::ErrorObjectOwned;

use super::server::{random, refusal};
use crate::rules::ids::NodeId;
use crate::rules::pool::key::{self, KeyHash, KeyRecord, Revoked};
use crate::state::fleet::{Answer, PoolDesk, key_info};
use crate::state::query::Queries;
use crate::wall_clock;
use crate::wire::control::SCHEMA_VERSION;
use crate::wire::jsonrpc::CommandError;
use crate::wire::pool::{KeyCreated, KeyList, KeyRevoked, PoolList, PoolNodeChanged, PoolStatus};

/// The pool's calls.
#[rpc(server, client)]
pub trait PoolApi {
    /// The pool and its nodes.
    #[method(name = "pool/list", param_kind = map)]
    async fn pool_list(&self) -> RpcResult<PoolList>;

    /// A node takes nothing new; what it has ends well. Holds until `pool/resume`, also when the
    /// node registers again.
    #[method(name = "pool/drain", param_kind = map)]
    async fn pool_drain(&self, id: String) -> RpcResult<PoolNodeChanged>;

    /// Ends a drain.
    #[method(name = "pool/resume", param_kind = map)]
    async fn pool_resume(&self, id: String) -> RpcResult<PoolNodeChanged>;

    /// Closes a node's breakers.
    #[method(name = "pool/reset", param_kind = map)]
    async fn pool_reset(&self, id: String) -> RpcResult<PoolNodeChanged>;

    /// Makes a key for one node. Shown this once.
    #[method(name = "pool/keys/create", param_kind = map)]
    async fn pool_keys_create(
        &self,
        name: String,
        node_id: String,
        allow: Option<Vec<String>>,
        models: Option<Vec<String>>,
    ) -> RpcResult<KeyCreated>;

    /// All keys, without what is secret of them.
    #[method(name = "pool/keys/list", param_kind = map)]
    async fn pool_keys_list(&self) -> RpcResult<KeyList>;

    /// Ends a key at once, and its node's registration with it.
    #[method(name = "pool/keys/revoke", param_kind = map)]
    async fn pool_keys_revoke(&self, name: String) -> RpcResult<KeyRevoked>;
}

/// The daemon's end of the trait.
pub(super) struct PoolHandlers {
    /// Where the pool is found, if there is one.
    pub(super) queries: Arc<dyn Queries>,
}

fn refused(text: impl Into<String>) -> ErrorObjectOwned {
    refusal(&CommandError::refused(text))
}

/// An answer of the pool, or that it cannot be used now.
async fn asked<T>(answer: Answer<'_, T>) -> RpcResult<T> {
    answer.await.map_err(|down| {
        refused(format!(
            "{down}; nothing was changed, try again when it is back"
        ))
    })
}

impl PoolHandlers {
    fn desk(&self) -> RpcResult<Arc<PoolDesk>> {
        let none = || {
            refused(
                "this daemon has no node pool; add a [pool] section to its configuration and \
                 restart it",
            )
        };
        self.queries.pool().ok_or_else(none)
    }

    /// The node as it is after a change that says whether it was there.
    async fn changed(
        &self,
        desk: &PoolDesk,
        id: &str,
        was_there: bool,
    ) -> RpcResult<PoolNodeChanged> {
        let nodes = match was_there {
            true => asked(desk.fleet.status()).await?.nodes,
            false => Vec::new(),
        };
        let unknown = || {
            refused(format!(
                "no pool node {id:?}; `nvpair-proxy nodes list` shows those there are"
            ))
        };
        let node = nodes.into_iter().find(|n| n.id == id);
        let node = node.ok_or_else(unknown)?;
        Ok(PoolNodeChanged {
            schema_version: SCHEMA_VERSION,
            node,
        })
    }
}

#[async_trait]
impl PoolApiServer for PoolHandlers {
    async fn pool_list(&self) -> RpcResult<PoolList> {
        let pool: PoolStatus = asked(self.desk()?.fleet.status()).await?;
        Ok(PoolList {
            schema_version: SCHEMA_VERSION,
            pool,
        })
    }

    async fn pool_drain(&self, id: String) -> RpcResult<PoolNodeChanged> {
        let desk = self.desk()?;
        let was_there = asked(desk.fleet.drain(&NodeId::from(id.as_str()), true)).await?;
        self.changed(&desk, &id, was_there).await
    }

    async fn pool_resume(&self, id: String) -> RpcResult<PoolNodeChanged> {
        let desk = self.desk()?;
        let was_there = asked(desk.fleet.drain(&NodeId::from(id.as_str()), false)).await?;
        self.changed(&desk, &id, was_there).await
    }

    async fn pool_reset(&self, id: String) -> RpcResult<PoolNodeChanged> {
        let desk = self.desk()?;
        let was_there = asked(desk.fleet.reset(&NodeId::from(id.as_str()))).await?;
        self.changed(&desk, &id, was_there).await
    }

    async fn pool_keys_create(
        &self,
        name: String,
        node_id: String,
        allow: Option<Vec<String>>,
        models: Option<Vec<String>>,
    ) -> RpcResult<KeyCreated> {
        let desk = self.desk()?;
        let secret = key::make(random()?);
        let hash = KeyHash::of(secret.reveal()).ok_or_else(|| refused("no key could be made"))?;
        let record = KeyRecord {
            name,
            node: NodeId::from(node_id),
            hash,
            allow: allow.unwrap_or_default(),
            models: models.unwrap_or_default(),
            // For people: no rule depends on it.
            created_at: wall_clock::unix_ms(),
        };
        let checked = record.check();
        checked.map_err(|e| refusal(&CommandError::params(e.to_string())))?;
        let info = key_info(&record);
        if !asked(desk.fleet.put_key(record)).await? {
            return Err(refused(format!(
                "there is a key {:?} already; choose another name, or revoke that one first",
                info.name
            )));
        }
        let fingerprint = (desk.fingerprint)();
        tracing::info!(key = info.name, node = info.node_id, "a node key was made");
        Ok(KeyCreated {
            schema_version: SCHEMA_VERSION,
            info,
            key: secret.reveal().to_owned(),
            proxy_addr: desk.proxy_addr.clone(),
            tls: fingerprint.is_some(),
            fingerprint,
        })
    }

    async fn pool_keys_list(&self) -> RpcResult<KeyList> {
        let keys = asked(self.desk()?.fleet.keys()).await?;
        Ok(KeyList {
            schema_version: SCHEMA_VERSION,
            keys: keys.iter().map(key_info).collect(),
        })
    }

    async fn pool_keys_revoke(&self, name: String) -> RpcResult<KeyRevoked> {
        let desk = self.desk()?;
        let Some(Revoked { key, evicted }) = asked(desk.fleet.revoke_key(&name)).await? else {
            return Err(refused(format!(
                "no node key {name:?}; `nvpair-proxy nodes keys list` shows those there are"
            )));
        };
        let down = |down| {
            refused(format!(
                "the key is revoked, and its node {:?} could not be put out: {down}; it goes \
                 when its heartbeats are refused for long enough",
                key.node.as_str()
            ))
        };
        // Two keys may speak for one node. The other one's agent registers again by itself.
        let evicted = evicted || desk.fleet.evict(&key.node).await.map_err(down)?;
        tracing::info!(key = name, node = %key.node, evicted, "a node key was revoked");
        Ok(KeyRevoked {
            schema_version: SCHEMA_VERSION,
            info: key_info(&key),
            evicted,
        })
    }
}
