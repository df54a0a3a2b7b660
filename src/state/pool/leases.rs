//! Places on pool nodes: asked of the store, kept while a request runs, given back once.
//!
//! Owns: the life of a lease and its renewal, the count of our own. Leaves to others: the atomic
//! changes (`store::pool`), the picture that requests are routed by (the parent), how an attempt's end
//! is judged (`rules::pool::blame`).
//!
//! A place is counted as ours before it is asked for and until the store has it back, so that the
//! picture never takes one of ours for somebody else's.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustc_hash::FxHashMap;
use tokio::task::AbortHandle;

use super::Pool;
use crate::rules::dispatch::Withheld;
use crate::rules::ids::NodeId;
use crate::rules::pool::blame::{Ended, Outcome};
use crate::rules::pool::record::LeaseId;
use crate::store::pool::{Admission, PoolStore};

/// A request that asks for a place on a pool node.
#[derive(Clone, Debug)]
pub struct Place {
    /// The node.
    pub node: NodeId,
    /// The model, as the node advertises it; `None` where none decides.
    pub model: Option<String>,
    /// Names the request, and the attempt, among those of all gateways.
    pub lease: LeaseId,
    /// Requests it runs side by side.
    pub slots: u32,
}

/// Who gives places on pool nodes.
pub trait Admissions: Send + Sync {
    /// A place, or why there is none now.
    fn admit(self: Arc<Self>, place: Place) -> BoxFuture<'static, Result<Lease, Withheld>>;
}

impl<S: PoolStore + 'static> Admissions for Pool<S> {
    fn admit(self: Arc<Self>, place: Place) -> BoxFuture<'static, Result<Lease, Withheld>> {
        async move {
            let Place {
                node,
                model,
                lease,
                slots,
            } = &place;
            let ttl = self.limits.lease_ttl_ms;
            let asking = Asking::new(&self, &place);
            let asked = self
                .store
                .acquire(node, model.as_deref(), lease, *slots, ttl)
                .await;
            asking.answered();
            match asked {
                Ok(Admission::Granted { .. }) => Ok(self.kept(place)),
                Ok(other) => {
                    self.count(node, false);
                    // The picture is behind.
                    self.wake.notify_one();
                    tracing::debug!(node = %place.node, answer = ?other, "no place on a pool node");
                    Err(Withheld::Busy)
                },
                Err(e) => {
                    tracing::debug!(node = %place.node, reason = %e, "no lease for a pool node");
                    // It may have been taken all the same.
                    self.settle(place, Outcome::of(Ended::Ours));
                    self.wake.notify_one();
                    Err(Withheld::StoreDown)
                },
            }
        }
        .boxed()
    }
}

impl<S: PoolStore + 'static> Pool<S> {
    /// One lease more or less of ours on a node.
    pub(super) fn count(&self, node: &NodeId, more: bool) {
        let mut held = self.lock_held();
        let count = held.entry(node.clone()).or_default();
        *count = match more {
            true => count.saturating_add(1),
            false => count.saturating_sub(1),
        };
        if *count == 0 {
            held.remove(node);
        }
    }

    pub(super) fn lock_held(&self) -> MutexGuard<'_, FxHashMap<NodeId, u32>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lease that was granted: renewed until it is given back.
    fn kept(self: Arc<Self>, place: Place) -> Lease {
        let renewal = {
            let (pool, place) = (self.clone(), place.clone());
            tokio::spawn(async move { pool.renew(&place).await }).abort_handle()
        };
        Lease {
            renewal,
            give_back: Some(Box::new(move |outcome| self.settle(place, outcome))),
        }
    }

    async fn renew(&self, place: &Place) {
        let every = Duration::from_millis(self.limits.lease_renewal_ms);
        loop {
            tokio::time::sleep(every).await;
            let ttl = self.limits.lease_ttl_ms;
            match self.store.renew(&place.node, &place.lease, ttl).await {
                Ok(true) => {},
                // What runs goes on: it is the count of others that is too low for a while.
                Ok(false) => tracing::debug!(node = %place.node, "a lease had expired"),
                Err(e) => {
                    tracing::debug!(node = %place.node, reason = %e, "a lease was not renewed")
                },
            }
        }
    }

    /// Gives a place back, in the background: whoever held it is done.
    fn settle(self: &Arc<Self>, place: Place, outcome: Outcome) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let pool = self.clone();
        runtime.spawn(async move {
            let model = place.model.as_deref();
            let settled = pool.store.settle(&place.node, &place.lease, model, outcome);
            if let Err(e) = settled.await {
                tracing::debug!(node = %place.node, reason = %e, "a lease runs out by itself");
            }
            pool.count(&place.node, false);
        });
    }
}

/// A place that is asked for, and counted as ours. Whoever asks may leave before the store answers: it
/// may have been taken all the same, and is given back.
pub(super) struct Asking<S: PoolStore + 'static>(Option<(Arc<Pool<S>>, Place)>);

impl<S: PoolStore + 'static> Asking<S> {
    pub(super) fn new(pool: &Arc<Pool<S>>, place: &Place) -> Self {
        pool.count(&place.node, true);
        Self(Some((pool.clone(), place.clone())))
    }

    /// The store has told what became of it.
    pub(super) fn answered(mut self) {
        self.0 = None;
    }
}

impl<S: PoolStore + 'static> Drop for Asking<S> {
    fn drop(&mut self) {
        if let Some((pool, place)) = self.0.take() {
            pool.settle(place, Outcome::of(Ended::Ours));
        }
    }
}

/// A place on a pool node, given back once: with the outcome, or when it is dropped.
pub struct Lease {
    renewal: AbortHandle,
    give_back: Option<Box<dyn FnOnce(Outcome) + Send + Sync>>,
}

impl Lease {
    /// The request, or its attempt there, ended like this.
    pub fn settle(mut self, outcome: Outcome) {
        self.end(outcome);
    }

    fn end(&mut self, outcome: Outcome) {
        self.renewal.abort();
        if let Some(give_back) = self.give_back.take() {
            give_back(outcome);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.end(Outcome::of(Ended::Ours));
    }
}
