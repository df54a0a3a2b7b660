//! One reading of everything that is measured.
//!
//! Owns: what is read from the daemon's state at the moment. Leaves to others: what is counted when it
//! happens (`telemetry::metrics`), the forms on a wire.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::rules::engine::EngineId;
use crate::state::query::Queries;
use crate::telemetry::families::{Family, Kind, Label};
use crate::telemetry::hub::Telemetry;
use crate::wire::control::{NodeState, ProviderState, ProviderStatus, Status};
use crate::wire::pool::PoolStatus;

/// Counts records that never reached the journal.
pub type JournalLost = Box<dyn Fn() -> u64 + Send + Sync>;

/// What is read.
pub struct Sources {
    /// Spans and instruments.
    pub telemetry: Arc<Telemetry>,
    /// The daemon's state.
    pub queries: Arc<dyn Queries>,
    /// The journal, where there is one.
    pub journal_lost: Option<JournalLost>,
}

impl Sources {
    /// Reads all of it.
    pub async fn read(&self) -> Vec<Family> {
        let mut families = self.telemetry.metrics.read();
        let status = self.queries.status();
        families.extend(of_status(&status));
        families.extend(of_providers(&status.providers));
        if let Some(desk) = self.queries.pool() {
            families.extend(of_pool(&desk.shown().await));
        }
        families.push(Family::numbers(
            "nvpair_proxy.telemetry.dropped",
            "Spans that were lost: the queue was full, or the collector did not take them.",
            "{span}",
            Kind::Counter,
            [(Vec::new(), self.telemetry.spans.dropped())],
        ));
        if let Some(lost) = &self.journal_lost {
            families.push(Family::numbers(
                "nvpair_proxy.journal.lost",
                "Workloads whose records the journal could not keep.",
                "{record}",
                Kind::Counter,
                [(Vec::new(), lost())],
            ));
        }
        families
    }
}

fn engine(engine: EngineId) -> Label {
    ("engine", engine.as_str().into())
}

fn of_status(status: &Status) -> Vec<Family> {
    let in_flight = status
        .facades
        .iter()
        .map(|f| (vec![engine(f.engine)], f.in_flight));
    let mut nodes: BTreeMap<(EngineId, &'static str), u64> = BTreeMap::new();
    // A state without nodes is told too, so that its line does not vanish.
    for facade in &status.facades {
        for state in NodeState::ALL {
            nodes.insert((facade.engine, state.as_str()), 0);
        }
    }
    let mut reserved: BTreeMap<EngineId, u64> = BTreeMap::new();
    for facade in &status.facades {
        reserved.insert(facade.engine, 0);
    }
    for node in &status.nodes {
        *nodes.entry((node.engine, node.state.as_str())).or_default() += 1;
        *reserved.entry(node.engine).or_default() += node.reserved;
    }
    let w = status.workloads;
    let live = [("queued", w.queued), ("running", w.running)];
    vec![
        Family::numbers(
            "nvpair_proxy.requests.in_flight",
            "Requests that are served now, by facade.",
            "{request}",
            Kind::Gauge,
            in_flight,
        ),
        Family::numbers(
            "nvpair_proxy.workloads",
            "Inference requests that wait or run now.",
            "{workload}",
            Kind::Gauge,
            live.map(|(state, n)| (vec![("state", state.into())], n)),
        ),
        Family::numbers(
            "nvpair_proxy.reserved",
            "Places taken on nodes by requests on their way, by facade.",
            "{request}",
            Kind::Gauge,
            reserved.into_iter().map(|(e, n)| (vec![engine(e)], n)),
        ),
        Family::numbers(
            "nvpair_proxy.nodes",
            "Nodes by facade and state; the healthy ones are candidates.",
            "{node}",
            Kind::Gauge,
            nodes
                .into_iter()
                .map(|((e, state), n)| (vec![engine(e), ("state", state.into())], n)),
        ),
    ]
}

/// Names of providers are the file's, so there are few.
fn of_providers(providers: &[ProviderStatus]) -> Vec<Family> {
    let counted = |name, help, unit, n: fn(&ProviderStatus) -> u64| {
        let points = providers
            .iter()
            .map(move |p| (vec![("provider", p.name.clone().into())], n(p)));
        Family::numbers(name, help, unit, Kind::Counter, points)
    };
    let ready = providers.iter().map(|p| {
        let labels = vec![("provider", p.name.clone().into())];
        (labels, u64::from(p.state == ProviderState::Ready))
    });
    let penalties = providers
        .iter()
        .map(|p| (vec![("provider", p.name.clone().into())], p.penalty_ms));
    vec![
        Family::numbers(
            "nvpair_proxy.provider.ready",
            "Whether a provider is asked: 1, or 0 while it rests after failures or a rate limit.",
            "1",
            Kind::Gauge,
            ready,
        ),
        Family::numbers(
            "nvpair_proxy.provider.penalty",
            "What failures cost a provider among those of its tier.",
            "ms",
            Kind::Gauge,
            penalties,
        ),
        counted(
            "nvpair_proxy.provider.requests",
            "Requests sent to a provider.",
            "{request}",
            |p| p.requests,
        ),
        counted(
            "nvpair_proxy.provider.failures",
            "Failures of a provider.",
            "{failure}",
            |p| p.failures,
        ),
        counted(
            "nvpair_proxy.provider.limited",
            "Requests that a provider answered with 429.",
            "{request}",
            |p| p.limited,
        ),
    ]
}

fn of_pool(pool: &PoolStatus) -> Vec<Family> {
    let mut nodes: BTreeMap<String, u64> = BTreeMap::new();
    for node in &pool.nodes {
        *nodes.entry(node.state.clone()).or_default() += 1;
    }
    let store = u64::from(pool.store_error.is_none());
    vec![
        Family::numbers(
            "nvpair_proxy.pool.nodes",
            "Nodes of the pool, by state.",
            "{node}",
            Kind::Gauge,
            nodes
                .into_iter()
                .map(|(state, n)| (vec![("state", state.into())], n)),
        ),
        Family::numbers(
            "nvpair_proxy.pool.store_up",
            "Whether the pool's store can be used: 1 or 0.",
            "1",
            Kind::Gauge,
            [(Vec::new(), store)],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_that_rests_is_not_ready() {
        let provider = |name: &str, state| ProviderStatus {
            name: name.into(),
            base_url: "https://p/v1".into(),
            tier: 1,
            state,
            standing: None,
            penalty_ms: 4_000,
            cool_down_ms: 0,
            failures_in_a_row: 2,
            failures: 5,
            last_failure: None,
            requests: 9,
            limited: 3,
            models: Vec::new(),
        };
        let all = [
            provider("a", ProviderState::Ready),
            provider("b", ProviderState::CoolingDown),
        ];
        let text = crate::export::prometheus::text(&of_providers(&all));
        for line in [
            "nvpair_proxy_provider_ready{provider=\"a\"} 1",
            "nvpair_proxy_provider_ready{provider=\"b\"} 0",
            "nvpair_proxy_provider_penalty_milliseconds{provider=\"b\"} 4000",
            "nvpair_proxy_provider_requests_total{provider=\"a\"} 9",
            "nvpair_proxy_provider_failures_total{provider=\"a\"} 5",
            "nvpair_proxy_provider_limited_total{provider=\"a\"} 3",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in {text}");
        }
        let none = of_providers(&[]);
        assert!(none.iter().all(|f| f.points.is_empty()));
    }
}
