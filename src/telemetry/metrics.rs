//! What is measured of requests and attempts, kept until it is read.
//!
//! Owns: the instruments, and that they stay small whatever comes from outside. Leaves to others:
//! when something ends (`request`), what is read from the state at the moment (`export::gauges`).
//!
//! Model names come from clients and nodes: the first hundred have labels of their own, the rest share
//! one. So it is with who ran them, since a reload can bring new providers. Each instrument has a bounded number of series.

use std::borrow::Cow;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::families::{Family, Kind, Label, Point, Spread, Value};
use crate::rules::engine::EngineId;
use crate::rules::semantics::{ErrorType, Operation};
use crate::rules::workload::State;

/// Models with a label of their own; and so many of who ran them.
pub const MODELS: usize = 100;

/// A longer name has no label of its own.
const MAX_NAME: usize = 128;

/// The label of all further ones.
const OTHER: &str = "_OTHER";

/// Series of one instrument that have labels for their model.
const SERIES: usize = 2_000;

/// Bounds of durations, in seconds, as the conventions give them.
const SECONDS: &[f64] = &[
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
];

/// Bounds of the time to the first token, in seconds, as the conventions give them.
const FIRST: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
];

/// Bounds of token counts, as the conventions give them.
const TOKENS: &[f64] = &[
    1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0,
    16777216.0, 67108864.0,
];

/// An ended request.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    /// The facade.
    pub engine: EngineId,
    /// How it ended.
    pub state: State,
    /// What went wrong.
    pub error: Option<ErrorType>,
    /// From arrival to end.
    pub took: Duration,
    /// What it was, if it ran a model that some node has.
    pub inference: Option<Inference<'a>>,
}

/// What is measured of a request that runs a model.
#[derive(Clone, Copy, Debug)]
pub struct Inference<'a> {
    /// What it does.
    pub operation: Operation,
    /// Who ran the model.
    pub provider: &'a str,
    /// Its model, as requested.
    pub model: &'a str,
    /// From arrival to the first content.
    pub first: Option<Duration>,
    /// Tokens of the prompt, where the engine told.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the answer, where the engine told.
    pub completion_tokens: Option<u64>,
}

/// The instruments.
#[derive(Debug, Default)]
pub struct Metrics(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    models: Names,
    providers: Names,
    requests: FxHashMap<(EngineId, State), u64>,
    attempts: FxHashMap<(EngineId, &'static str), u64>,
    durations: Histogram<(Kindred, Option<ErrorType>)>,
    tokens: Histogram<(Kindred, &'static str)>,
    firsts: Histogram<(Kindred, ())>,
}

/// Names by number; their numbers by name.
#[derive(Debug, Default)]
struct Names {
    names: Vec<Box<str>>,
    numbers: FxHashMap<Box<str>, u16>,
}

impl Names {
    /// The number of a name, if it has one or can get one.
    fn number(&mut self, name: &str) -> Option<u16> {
        if let Some(known) = self.numbers.get(name) {
            return Some(*known);
        }
        if self.names.len() >= MODELS || name.len() > MAX_NAME {
            return None;
        }
        let number = self.names.len() as u16;
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        Some(number)
    }

    fn label(&self, number: Option<u16>) -> Cow<'static, str> {
        let name = number.and_then(|i| self.names.get(usize::from(i)));
        name.map_or(OTHER.into(), |name| name.to_string().into())
    }
}

/// Requests that are measured together. Names are numbers; `None` = one of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Kindred {
    operation: Operation,
    provider: Option<u16>,
    model: Option<u16>,
}

#[derive(Debug)]
struct Histogram<K>(FxHashMap<K, Spread>);

impl<K> Default for Histogram<K> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<L: Copy + Eq + Hash> Histogram<(Kindred, L)> {
    fn take(&mut self, kindred: Kindred, more: L, bounds: &'static [f64], value: f64) {
        let mut key = (kindred, more);
        if self.0.len() >= SERIES && !self.0.contains_key(&key) {
            key.0.model = None;
        }
        let spread = self.0.entry(key).or_insert_with(|| Spread::new(bounds));
        spread.take(value);
    }

    fn points(&self, inner: &Inner, label: impl Fn(L) -> Option<Label>) -> Vec<Point> {
        let points = self.0.iter().map(|((kindred, more), spread)| {
            let mut labels = kindred.labels(inner);
            labels.extend(label(*more));
            Point {
                labels,
                value: Value::Spread(spread.clone()),
            }
        });
        sorted(points.collect())
    }
}

impl Kindred {
    fn labels(self, inner: &Inner) -> Vec<Label> {
        vec![
            ("gen_ai.operation.name", self.operation.as_str().into()),
            ("gen_ai.provider.name", inner.providers.label(self.provider)),
            ("gen_ai.request.model", inner.models.label(self.model)),
        ]
    }
}

impl Metrics {
    /// A request ended.
    pub fn ended(&self, e: &Ended) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *inner.requests.entry((e.engine, e.state)).or_default() += 1;
        let Some(i) = &e.inference else { return };
        let kindred = Kindred {
            operation: i.operation,
            provider: inner.providers.number(i.provider),
            model: inner.models.number(i.model),
        };
        let took = e.took.as_secs_f64();
        inner.durations.take(kindred, e.error, SECONDS, took);
        if let Some(first) = i.first {
            inner.firsts.take(kindred, (), FIRST, first.as_secs_f64());
        }
        for (kind, n) in [("input", i.prompt_tokens), ("output", i.completion_tokens)] {
            if let Some(n) = n {
                inner.tokens.take(kindred, kind, TOKENS, n as f64);
            }
        }
    }

    /// An attempt ended with this outcome.
    pub fn attempted(&self, engine: EngineId, outcome: &'static str) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *inner.attempts.entry((engine, outcome)).or_default() += 1;
    }

    /// All of it, as it is now.
    pub fn read(&self) -> Vec<Family> {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let engine = |e: &EngineId| -> Label { ("engine", e.as_str().into()) };
        let requests = inner.requests.iter().map(|((e, state), n)| {
            let labels = vec![engine(e), ("state", state.as_str().into())];
            (labels, *n)
        });
        let attempts = inner.attempts.iter().map(|((e, outcome), n)| {
            let labels = vec![engine(e), ("outcome", (*outcome).into())];
            (labels, *n)
        });
        let mut families = vec![
            Family::numbers(
                "nvpair_proxy.requests",
                "Requests that ended, by facade and how.",
                "{request}",
                Kind::Counter,
                requests,
            ),
            Family::numbers(
                "nvpair_proxy.attempts",
                "Attempts at nodes that ended, by facade and how.",
                "{attempt}",
                Kind::Counter,
                attempts,
            ),
        ];
        for family in &mut families {
            family.points = sorted(std::mem::take(&mut family.points));
        }
        let spread = |name, help, unit, points| Family {
            name,
            help,
            unit,
            kind: Kind::Histogram,
            points,
        };
        families.push(spread(
            "gen_ai.client.operation.duration",
            "Duration of inference requests, from arrival to the end of the answer.",
            "s",
            inner
                .durations
                .points(&inner, |error| error.map(|e| ("error.type", e.as_text()))),
        ));
        families.push(spread(
            "gen_ai.client.token.usage",
            "Tokens that engines reported for a request.",
            "{token}",
            inner
                .tokens
                .points(&inner, |kind| Some(("gen_ai.token.type", kind.into()))),
        ));
        families.push(spread(
            "gen_ai.server.time_to_first_token",
            "From a request's arrival to the first content of its answer.",
            "s",
            inner.firsts.points(&inner, |()| None),
        ));
        families
    }
}

/// In the order of their labels, so that two readings can be compared.
fn sorted(mut points: Vec<Point>) -> Vec<Point> {
    points.sort_by(|a, b| a.labels.cmp(&b.labels));
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(model: &str, error: Option<ErrorType>) -> Ended<'_> {
        Ended {
            engine: EngineId::all().next().unwrap(),
            state: State::Completed,
            error,
            took: Duration::from_millis(30),
            inference: Some(Inference {
                operation: Operation::Chat,
                provider: "vllm",
                model,
                first: Some(Duration::from_millis(5)),
                prompt_tokens: Some(10),
                completion_tokens: None,
            }),
        }
    }

    fn family(m: &Metrics, name: &str) -> Family {
        let mut all = m.read().into_iter();
        all.find(|f| f.name == name).unwrap()
    }

    #[test]
    fn a_request_counts_in_every_instrument_it_has_a_value_for() {
        let m = Metrics::default();
        m.ended(&chat("m", None));
        m.attempted(EngineId::all().next().unwrap(), "answered");
        let counts: Vec<_> = m.read().iter().map(|f| (f.name, f.points.len())).collect();
        assert_eq!(
            counts,
            [
                ("nvpair_proxy.requests", 1),
                ("nvpair_proxy.attempts", 1),
                ("gen_ai.client.operation.duration", 1),
                ("gen_ai.client.token.usage", 1),
                ("gen_ai.server.time_to_first_token", 1),
            ]
        );
        let tokens = family(&m, "gen_ai.client.token.usage");
        let label = |name| {
            tokens.points[0]
                .labels
                .iter()
                .find(|l| l.0 == name)
                .unwrap()
                .1
                .clone()
        };
        assert_eq!(label("gen_ai.token.type"), "input");
        assert_eq!(label("gen_ai.request.model"), "m");
        assert_eq!(label("gen_ai.provider.name"), "vllm");
    }

    #[test]
    fn a_request_without_a_model_is_counted_alone() {
        let m = Metrics::default();
        m.ended(&Ended {
            inference: None,
            ..chat("m", None)
        });
        assert_eq!(
            family(&m, "nvpair_proxy.requests").points[0].value,
            Value::Number(1)
        );
        assert!(
            family(&m, "gen_ai.client.operation.duration")
                .points
                .is_empty()
        );
    }

    #[test]
    fn models_from_outside_do_not_make_it_grow() {
        let m = Metrics::default();
        for i in 0..10_000 {
            m.ended(&chat(&format!("m{i}"), None));
        }
        m.ended(&chat(&"x".repeat(MAX_NAME + 1), None));
        let f = family(&m, "gen_ai.client.operation.duration");
        assert_eq!(f.points.len(), MODELS + 1);
        let rest = f
            .points
            .iter()
            .find(|p| p.labels.iter().any(|l| l.1 == OTHER))
            .unwrap();
        let Value::Spread(spread) = &rest.value else {
            panic!("{rest:?}")
        };
        assert_eq!(spread.count(), 10_001 - MODELS as u64);
    }

    #[test]
    fn errors_do_not_make_it_grow_either() {
        let m = Metrics::default();
        for model in 0..MODELS {
            for status in 400..600 {
                m.ended(&chat(&format!("m{model}"), Some(ErrorType::Status(status))));
            }
        }
        let points = family(&m, "gen_ai.client.operation.duration").points.len();
        assert!((SERIES..=SERIES + 200).contains(&points), "{points}");
    }
}
