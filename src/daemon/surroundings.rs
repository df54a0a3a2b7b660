//! What surrounds this machine's facades: its own addresses and its cluster, watched.
//!
//! Owns: the watch, and what follows from a change. Leaves to others: reading either
//! (`net::interfaces`, `net::members`).
//!
//! Requests look at the cluster themselves; the watch is for what nobody asks about: a flip is
//! logged, connections to a removed peer are closed, views are rebuilt for whoever reads them.

use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::facade::Context;
use crate::net::interfaces::Interfaces;
use crate::net::stir::Stir;
use crate::net::tls::Cluster;
use crate::state::facade::Surroundings;

/// Between two looks, if nothing stirs.
const EVERY: Duration = Duration::from_secs(2);

/// The surroundings as of the last look.
pub struct Watched {
    interfaces: Interfaces,
    cluster: Option<Arc<Cluster>>,
}

impl Watched {
    /// Looks now, and again for as long as the daemon's parts live.
    pub fn start(context: &Arc<Context>) -> Arc<Self> {
        let watched = Arc::new(Self {
            interfaces: Interfaces::read(),
            cluster: context.cluster.clone(),
        });
        tokio::spawn(watch(watched.clone(), Arc::downgrade(context)));
        watched
    }
}

impl Surroundings for Watched {
    fn is_ours(&self, ip: IpAddr) -> bool {
        self.interfaces.has(ip)
    }

    fn is_pinned(&self, principal: &str) -> bool {
        let trust = self.cluster.as_ref().map(|c| c.members().trust());
        trust.is_some_and(|t| t.certificate(principal).is_some())
    }

    fn generation(&self) -> u64 {
        // Both only grow, so the sum changes whenever either does.
        let cluster = self.cluster.as_ref().map(|c| c.members().generation());
        self.interfaces.generation() + cluster.unwrap_or_default()
    }
}

/// Compares with what it saw itself: a request may have found the change first.
async fn watch(watched: Arc<Watched>, context: Weak<Context>) {
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut was_member = false;
    let cluster = watched.cluster.as_ref();
    let stir = Stir::of(cluster.map_or_else(Vec::new, |c| c.members().folders()));
    loop {
        tokio::select! {
            _ = tick.tick() => {},
            () = stir.stirred() => {},
        }
        stir.arm();
        let Some(context) = context.upgrade() else {
            return;
        };
        watched.interfaces.refresh();
        if let Some(cluster) = &watched.cluster {
            was_member = follow(cluster, was_member);
            context.upstreams.drop_unpinned();
        }
        for facade in context.shared.facades() {
            facade.refresh();
        }
    }
}

/// Whether this node is a member now; said in the log if that is new.
fn follow(cluster: &Cluster, was_member: bool) -> bool {
    let trust = cluster.members().refresh();
    let me = trust.me();
    match me {
        Some(me) if !was_member => {
            tracing::info!(
                node = me.principal,
                "member of the cluster: peers are served"
            );
        },
        None if was_member => {
            tracing::info!("no member of the cluster any more: peers are refused")
        },
        _ => {},
    }
    me.is_some()
}
