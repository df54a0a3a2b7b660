//! Either store, chosen once by the settings.
//!
//! Owns: passing calls on. Leaves to others: everything else.

use super::{
    Admission, Fleet, KeySet, Left, MemoryStore, PoolStore, RedisStore, StoreDown, Taken, Version,
};
use crate::rules::ids::NodeId;
use crate::rules::pool::blame::Outcome;
use crate::rules::pool::key::{KeyRecord, Revoked};
use crate::rules::pool::record::{Beat, LeaseId, Record, Registration, Session};

/// Where the pool is kept. Clones are the same store.
#[derive(Clone)]
pub enum Store {
    /// In this process.
    Memory(MemoryStore),
    /// In a Redis that several gateways share.
    Redis(RedisStore),
}

/// One call, on whichever it is.
macro_rules! on {
    ($self:ident, $store:ident => $call:expr) => {
        match $self {
            Store::Memory($store) => $call.await,
            Store::Redis($store) => $call.await,
        }
    };
}

impl PoolStore for Store {
    async fn changes(&self, since: Version) -> Result<Fleet, StoreDown> {
        on!(self, s => s.changes(since))
    }

    async fn changed(&self, since: Version) -> Result<(), StoreDown> {
        on!(self, s => s.changed(since))
    }

    async fn register(
        &self,
        registration: Registration,
        key_name: &str,
        session: &Session,
    ) -> Result<Record, StoreDown> {
        on!(self, s => s.register(registration, key_name, session))
    }

    async fn beat(&self, node: &NodeId, session: &Session, beat: Beat) -> Result<Taken, StoreDown> {
        on!(self, s => s.beat(node, session, beat))
    }

    async fn leave(&self, node: &NodeId, session: &Session) -> Result<Left, StoreDown> {
        on!(self, s => s.leave(node, session))
    }

    async fn evict(&self, node: &NodeId) -> Result<bool, StoreDown> {
        on!(self, s => s.evict(node))
    }

    async fn purge(&self, node: &NodeId, unless_beaten_since: u64) -> Result<bool, StoreDown> {
        on!(self, s => s.purge(node, unless_beaten_since))
    }

    async fn set_drain(&self, node: &NodeId, on: bool) -> Result<bool, StoreDown> {
        on!(self, s => s.set_drain(node, on))
    }

    async fn reset_breaker(&self, node: &NodeId) -> Result<bool, StoreDown> {
        on!(self, s => s.reset_breaker(node))
    }

    async fn acquire(
        &self,
        node: &NodeId,
        model: Option<&str>,
        lease: &LeaseId,
        max: u32,
        ttl_ms: u64,
    ) -> Result<Admission, StoreDown> {
        on!(self, s => s.acquire(node, model, lease, max, ttl_ms))
    }

    async fn renew(&self, node: &NodeId, lease: &LeaseId, ttl_ms: u64) -> Result<bool, StoreDown> {
        on!(self, s => s.renew(node, lease, ttl_ms))
    }

    async fn settle(
        &self,
        node: &NodeId,
        lease: &LeaseId,
        model: Option<&str>,
        outcome: Outcome,
    ) -> Result<(), StoreDown> {
        on!(self, s => s.settle(node, lease, model, outcome))
    }

    async fn put_key(&self, key: KeyRecord) -> Result<bool, StoreDown> {
        on!(self, s => s.put_key(key))
    }

    async fn revoke_key(&self, name: &str) -> Result<Option<Revoked>, StoreDown> {
        on!(self, s => s.revoke_key(name))
    }

    async fn keys(&self) -> Result<KeySet, StoreDown> {
        on!(self, s => s.keys())
    }
}
