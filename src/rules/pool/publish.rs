//! A record of the pool as the request path sees it.
//!
//! Owns: which state makes a node a candidate, a resting owner, or none. Leaves to others: the states
//! (`standing`), the choice (`policy`).

use super::breaker::Gate;
use super::endpoint::{Endpoint, Scheme};
use super::limits::Limits;
use super::record::Record;
use super::standing::{PoolState, standing};
use crate::rules::discovery::{Extra, Node, Pooled};
use crate::rules::weighted::{Facts, Health, Speed, weights};

/// The node at this time (Unix ms of the store's clock), with so many requests on it that are not of
/// this gateway. `None` once it counts as having left: it is offline, or its endpoint cannot be read.
pub fn node(record: &Record, elsewhere: u32, now_ms: u64, limits: &Limits) -> Option<Node> {
    let now = standing(record, now_ms, limits);
    if now.state == PoolState::Offline {
        return None;
    }
    let resting = (!now.takes()).then_some(now.reason);
    let endpoint = Endpoint::parse(&record.registration.endpoint).ok()?;
    let registration = &record.registration;
    let models = record.models();
    let names = |warm_only: bool| {
        let wanted = models.iter().filter(move |m| m.is_warm || !warm_only);
        wanted.map(|m| m.id.clone()).collect()
    };
    let context = models
        .iter()
        .filter_map(|m| Some((m.id.clone(), m.context_length?)));
    let resting_models = record.perf.iter().filter_map(|(model, perf)| {
        let why = "this model failed on it too often in a row".to_owned();
        matches!(perf.breaker.gate(now_ms), Gate::Refuse { .. }).then(|| (model.clone(), why))
    });
    let speeds = record.perf.iter().map(|(model, perf)| {
        let speed = Speed {
            ttft_ms: perf.ttft_ms,
            tps: perf.tokens_per_second,
        };
        (model.clone(), speed)
    });
    let pooled = Pooled {
        engine: Some(registration.engine),
        health: match now.state {
            PoolState::Suspect => Health::Suspect,
            _ => Health::Healthy,
        },
        active: elsewhere,
        queue: record.queue_depth(),
        tls: endpoint.scheme == Scheme::Https,
        resting,
        resting_models: resting_models.collect(),
        speeds: speeds.collect(),
    };
    Some(Node {
        id: record.node().clone(),
        host: endpoint.host,
        port: registration.address.port(),
        addresses: vec![registration.address.ip().to_string()],
        txt: Vec::new(),
        models: names(false),
        principal: None,
        extra: Extra {
            prefix: endpoint.prefix,
            warm: names(true),
            slots: registration.max_concurrency,
            weight: registration.base_weight,
            context: context.collect(),
            pool: Some(pooled),
            ..Extra::default()
        },
    })
}

/// The weight it would be picked by now, before speed; 0 if it would not be picked.
pub fn weight(record: &Record, now_ms: u64, limits: &Limits) -> u64 {
    if !standing(record, now_ms, limits).takes() || record.free() == 0 {
        return 0;
    }
    let facts = Facts {
        seat: 0,
        slots: record.registration.max_concurrency,
        base_weight: record.registration.base_weight,
        active: u64::from(record.in_flight()),
        queue: u64::from(record.queue_depth()),
        warm: true,
        health: Health::Healthy,
        speed: Speed::default(),
    };
    weights(&[facts])[0].unsigned_abs()
}
