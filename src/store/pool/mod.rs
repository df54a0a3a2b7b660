//! The pool's records, leases and keys: in memory, or in a Redis that several gateways share.
//!
//! Owns: the one trait, the atomicity of each change, the pool's clock. Leaves to others: what the
//! values mean (`rules::pool`), when to ask (`state::pool`), who may ask (`registry`).
//!
//! The clock is the store's: the process's own monotonic one in memory, the server's `TIME` in
//! Redis. So gateways and workers whose clocks differ by a minute agree on who is offline.

mod either;
mod key_ring;
mod memory;
mod redis;

use std::fmt;
use std::future::Future;

use crate::rules::ids::NodeId;
use crate::rules::pool::blame::Outcome;
use crate::rules::pool::key::{KeyRecord, Revoked};
use crate::rules::pool::record::{Beat, LeaseId, Record, Registration, Session};

pub use crate::store::key_file::KeyFileError;
pub use either::Store;
pub use key_ring::{CreateError, KeyRing, NewKey};
pub use memory::{Clock, MemoryStore, system_clock};
pub use redis::RedisStore;

/// The store cannot be reached or does not answer in time. Pool nodes are then not used.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pool's store is down: {reason}")]
pub struct StoreDown {
    /// What failed. Never a credential.
    pub reason: String,
}

impl fmt::Debug for StoreDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A point in the history of a store's records. 0 is before all of them.
pub type Version = u64;

/// The records, or what changed of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fleet {
    /// The store's time, Unix ms.
    pub now_ms: u64,
    /// Where this stands in the history: what the next [`PoolStore::changes`] is asked with.
    pub version: Version,
    /// Whether `records` are all there are. Otherwise they are those that changed.
    pub whole: bool,
    /// Records, by id.
    pub records: Vec<Record>,
    /// Nodes that are gone since, by id; empty where `whole`.
    pub gone: Vec<NodeId>,
    /// Changes when a key was added or revoked: read [`PoolStore::keys`] again.
    pub keys_version: Version,
}

/// The node keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeySet {
    /// Changes with every key that is added or revoked. 0 where there never was a key, so also in a
    /// store that lost everything; never 0 after a key was revoked.
    pub version: Version,
    /// All keys, by name.
    pub keys: Vec<KeyRecord>,
}

/// What became of a heartbeat.
#[must_use]
#[derive(Clone, Debug, PartialEq)]
pub enum Taken {
    /// The record as it is now.
    Taken(Box<Record>),
    /// No such node: it must register again.
    Unknown,
    /// A newer registration replaced this session.
    Replaced,
    /// The session is right, but its sequence number was seen before.
    Stale,
}

/// What became of a call that unregisters.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It has left.
    Left,
    /// No such node.
    Unknown,
    /// A newer registration replaced this session.
    Replaced,
}

/// What became of a request for a place on a node.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The lease is taken, or prolonged where this request had it already.
    Granted {
        /// Whether this request is the trial of a breaker.
        trial: bool,
        /// Leases on the node, this one included.
        leases: u32,
    },
    /// All its places are taken.
    Full,
    /// A breaker is open, or its trial is under way.
    Broken {
        /// Unix ms after which it is worth asking again.
        until: u64,
    },
    /// It takes nothing new.
    Draining,
    /// It was not heard of within the TTL.
    Offline,
    /// No such node.
    Gone,
}

/// Where the pool is kept. Each method is one atomic change and, in Redis, one round trip.
///
/// Every method fails with [`StoreDown`] alone; the memory store never does, but for keys that it
/// cannot write to their file.
pub trait PoolStore: Send + Sync {
    /// All records.
    fn fleet(&self) -> impl Future<Output = Result<Fleet, StoreDown>> + Send {
        self.changes(0)
    }

    /// The records that changed after a version; all of them where the store cannot tell.
    fn changes(&self, since: Version) -> impl Future<Output = Result<Fleet, StoreDown>> + Send;

    /// Waits until there is something newer than this version. In Redis by asking a few times a
    /// second; drop the future to stop.
    fn changed(&self, since: Version) -> impl Future<Output = Result<(), StoreDown>> + Send;

    /// Puts a node in under a new session; an older session of it is replaced. An operator's drain,
    /// breakers and averages stay.
    fn register(
        &self,
        registration: Registration,
        key_name: &str,
        session: &Session,
    ) -> impl Future<Output = Result<Record, StoreDown>> + Send;

    /// Takes a heartbeat in.
    fn beat(
        &self,
        node: &NodeId,
        session: &Session,
        beat: Beat,
    ) -> impl Future<Output = Result<Taken, StoreDown>> + Send;

    /// Unregisters. A node that an operator drains keeps its record, without a session, so that the
    /// drain still holds when it comes back.
    fn leave(
        &self,
        node: &NodeId,
        session: &Session,
    ) -> impl Future<Output = Result<Left, StoreDown>> + Send;

    /// Removes a node, whatever its state; `false` if there was none.
    fn evict(&self, node: &NodeId) -> impl Future<Output = Result<bool, StoreDown>> + Send;

    /// Removes a node if it was last heard of before this time (Unix ms): it may have come back
    /// since the caller looked.
    fn purge(
        &self,
        node: &NodeId,
        unless_beaten_since: u64,
    ) -> impl Future<Output = Result<bool, StoreDown>> + Send;

    /// Sets or lifts an operator's drain; `false` if there is no such node.
    fn set_drain(
        &self,
        node: &NodeId,
        on: bool,
    ) -> impl Future<Output = Result<bool, StoreDown>> + Send;

    /// Closes the node's breakers, those of its models too; `false` if there is no such node.
    fn reset_breaker(&self, node: &NodeId) -> impl Future<Output = Result<bool, StoreDown>> + Send;

    /// Asks for a place on a node: expired leases go, breakers are asked, the rest is counted
    /// against `max` (and against what the node registered, if that is less), a trial is claimed.
    ///
    /// A call that failed may still have taken the lease: always give it back by
    /// [`PoolStore::settle`].
    fn acquire(
        &self,
        node: &NodeId,
        model: Option<&str>,
        lease: &LeaseId,
        max: u32,
        ttl_ms: u64,
    ) -> impl Future<Output = Result<Admission, StoreDown>> + Send;

    /// Prolongs a lease, and the trial that it may be; `false` if it had expired. It outlives the
    /// node's record: what runs on a node that has left still counts when the node comes back.
    fn renew(
        &self,
        node: &NodeId,
        lease: &LeaseId,
        ttl_ms: u64,
    ) -> impl Future<Output = Result<bool, StoreDown>> + Send;

    /// Gives a lease back and takes in how the request ended: breakers, averages, the trial.
    /// Without a lease only the lease's part is void; call it once a request.
    fn settle(
        &self,
        node: &NodeId,
        lease: &LeaseId,
        model: Option<&str>,
        outcome: Outcome,
    ) -> impl Future<Output = Result<(), StoreDown>> + Send;

    /// Adds a key; `false` if one of this name exists.
    fn put_key(&self, key: KeyRecord) -> impl Future<Output = Result<bool, StoreDown>> + Send;

    /// Removes a key, if it is there. A node that registered with it goes with it.
    fn revoke_key(
        &self,
        name: &str,
    ) -> impl Future<Output = Result<Option<Revoked>, StoreDown>> + Send;

    /// All keys.
    fn keys(&self) -> impl Future<Output = Result<KeySet, StoreDown>> + Send;
}
