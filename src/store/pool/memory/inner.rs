//! What the memory store holds, and each change of it at one time.
//!
//! Owns: the records, leases and history. Leaves to others: the lock and the clock (`memory`), the
//! transitions (`rules::pool`).

use std::collections::{BTreeMap, HashMap};

use super::super::{Admission, Version};
use crate::rules::ids::NodeId;
use crate::rules::pool::blame::{Blame, Outcome};
use crate::rules::pool::breaker::Gate;
use crate::rules::pool::limits::Limits;
use crate::rules::pool::record::{LeaseId, Perf, Record};
use crate::rules::pool::sizes::MAX_MODELS;

/// So many nodes that are gone are remembered, so that whoever asks what changed hears of it.
const REMEMBERED: usize = 1_000;

#[derive(Default)]
pub(super) struct Inner {
    pub(super) nodes: BTreeMap<NodeId, Record>,
    /// Unix ms of their ends. Apart from the records, which they outlive.
    pub(super) leases: HashMap<NodeId, HashMap<LeaseId, u64>>,
    /// When each node, also one that is gone, changed last.
    pub(super) versions: HashMap<NodeId, Version>,
    pub(super) history: BTreeMap<Version, NodeId>,
    pub(super) version: Version,
    /// Of changes up to this one not everything is remembered.
    pub(super) forgotten: Version,
    pub(super) keys_version: Version,
}

impl Inner {
    pub(super) fn touch(&mut self, node: &NodeId) {
        self.version += 1;
        if let Some(old) = self.versions.insert(node.clone(), self.version) {
            self.history.remove(&old);
        }
        self.history.insert(self.version, node.clone());
    }

    pub(super) fn remove(&mut self, node: &NodeId) -> bool {
        if self.nodes.remove(node).is_none() {
            return false;
        }
        self.touch(node);
        if self.history.len() - self.nodes.len() > REMEMBERED {
            self.forget();
        }
        true
    }

    /// Forgets the older half of the nodes that are gone.
    pub(super) fn forget(&mut self) {
        let gone = self.history.iter();
        let gone = gone.filter(|(_, node)| !self.nodes.contains_key(*node));
        let old: Vec<_> = gone
            .take(REMEMBERED / 2)
            .map(|(v, n)| (*v, n.clone()))
            .collect();
        for (version, node) in old {
            self.history.remove(&version);
            self.versions.remove(&node);
            self.forgotten = version;
        }
    }

    /// Drops what has expired and counts the rest.
    pub(super) fn count(&mut self, node: &NodeId, now: u64) -> u32 {
        let Some(leases) = self.leases.get_mut(node) else {
            return 0;
        };
        leases.retain(|_, until| *until > now);
        let count = leases.len();
        if count == 0 {
            self.leases.remove(node);
        }
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    pub(super) fn view(&mut self, node: &NodeId, now: u64) -> Option<Record> {
        let leases = self.count(node, now);
        let mut record = self.nodes.get(node)?.clone();
        record.leases = leases;
        Some(record)
    }

    pub(super) fn holds(&self, node: &NodeId, lease: &LeaseId, now: u64) -> bool {
        let until = self.leases.get(node).and_then(|l| l.get(lease));
        until.is_some_and(|until| *until > now)
    }

    pub(super) fn hold(&mut self, node: &NodeId, lease: &LeaseId, until: u64) {
        let leases = self.leases.entry(node.clone()).or_default();
        leases.insert(lease.clone(), until);
    }

    /// Prolongs a lease that is held, and the trial that it is.
    pub(super) fn prolong(&mut self, node: &NodeId, lease: &LeaseId, until: u64) {
        self.hold(node, lease, until);
        if let Some(record) = self.nodes.get_mut(node) {
            record.breaker.renew(lease, until);
            record
                .perf
                .values_mut()
                .for_each(|p| p.breaker.renew(lease, until));
        }
    }

    pub(super) fn acquire(&mut self, now: u64, ask: &Ask<'_>, limits: &Limits) -> Admission {
        let Ask {
            node,
            model,
            lease,
            max,
            until,
        } = *ask;
        let leases = self.count(node, now);
        let held = self.holds(node, lease, now);
        let Some(record) = self.nodes.get_mut(node) else {
            return Admission::Gone;
        };
        let silent = now.saturating_sub(record.beat_at) > limits.ttl_ms;
        if record.session.is_none() || silent {
            return Admission::Offline;
        }
        let model = model.filter(|m| record.perf.contains_key(*m));
        let is_trial = |r: &Record| {
            let scopes = model.and_then(|m| r.perf.get(m)).map(|p| &p.breaker);
            let scopes = [Some(&r.breaker), scopes].into_iter().flatten();
            scopes
                .filter_map(|b| b.trial.as_ref())
                .any(|t| t.lease == *lease)
        };
        if held {
            let trial = is_trial(record);
            self.prolong(node, lease, until);
            return Admission::Granted { trial, leases };
        }
        if record.drain || record.beat.as_ref().is_some_and(|b| b.draining) {
            return Admission::Draining;
        }
        let of_node = record.breaker.gate(now);
        let of_model = model.and_then(|m| record.perf.get(m));
        let of_model = of_model.map_or(Gate::Pass, |p| p.breaker.gate(now));
        let refused = |gate| match gate {
            Gate::Refuse { until } => Some(until),
            Gate::Pass | Gate::Try => None,
        };
        if let Some(until) = refused(of_node).max(refused(of_model)) {
            return Admission::Broken { until };
        }
        if leases >= max.min(record.registration.max_concurrency) {
            return Admission::Full;
        }
        if of_node == Gate::Try {
            record.breaker.claim(lease, until);
        }
        if of_model == Gate::Try
            && let Some(perf) = model.and_then(|m| record.perf.get_mut(m))
        {
            perf.breaker.claim(lease, until);
        }
        self.hold(node, lease, until);
        self.touch(node);
        Admission::Granted {
            trial: of_node == Gate::Try || of_model == Gate::Try,
            leases: leases + 1,
        }
    }
}

/// Who asks for a place where, until when.
pub(super) struct Ask<'a> {
    pub(super) node: &'a NodeId,
    pub(super) model: Option<&'a str>,
    pub(super) lease: &'a LeaseId,
    pub(super) max: u32,
    pub(super) until: u64,
}

/// Takes the end of a request in.
pub(super) fn settle(
    record: &mut Record,
    lease: &LeaseId,
    model: Option<&str>,
    outcome: &Outcome,
    now: u64,
    limits: &Limits,
) {
    let (failures, cooldown) = (limits.failures, limits.cooldown_ms);
    let blame = outcome.blame;
    record
        .breaker
        .settle(lease, blame.for_node(), now, failures, cooldown);
    let Some(model) = model else {
        return;
    };
    if !record.perf.contains_key(model) && record.perf.len() >= MAX_MODELS {
        return;
    }
    let perf = record.perf.entry(model.to_owned()).or_default();
    perf.breaker
        .settle(lease, blame.for_model(), now, failures, cooldown);
    if blame == Blame::Success {
        perf.ttft_ms.add(outcome.sample.ttft_ms);
        perf.tokens_per_second.add(outcome.sample.tokens_per_second);
    }
    if *perf == Perf::default() {
        record.perf.remove(model);
    }
}
