//! A collector: takes OTLP over HTTP in both forms and decodes it.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::trace::v1::Span as OtlpSpan;
use prost::Message;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::support::engine::{Engine, Reply, Request};
use crate::support::{LIMIT, wait};

/// Takes what it is sent.
pub struct Collector {
    pub engine: Engine,
}

/// A span as it was told.
#[derive(Clone, Debug)]
pub struct Span {
    pub service: String,
    pub raw: OtlpSpan,
}

/// A value as it was told.
#[derive(Clone, Debug)]
pub struct Point {
    pub name: String,
    pub labels: Vec<(String, String)>,
    /// A number, or how many values a histogram has.
    pub n: u64,
}

impl Collector {
    pub fn start() -> Self {
        Self::answering(Reply::json(200, &json!({})))
    }

    /// One that answers everything like this.
    pub fn answering(reply: Reply) -> Self {
        let engine = Engine::always(reply);
        Self { engine }
    }

    pub fn port(&self) -> u16 {
        self.engine.port()
    }

    /// All spans so far.
    pub fn spans(&self) -> Vec<Span> {
        let documents = self.engine.requests_for("/otlp/v1/traces");
        documents
            .iter()
            .filter(|r| r.whole)
            .flat_map(spans_of)
            .collect()
    }

    /// Waits for so many spans.
    #[track_caller]
    pub fn expect(&self, n: usize) -> Vec<Span> {
        let found = wait(LIMIT, || Some(self.spans()).filter(|s| s.len() >= n));
        let found = found.unwrap_or_else(|| panic!("waited for {n} spans: {:#?}", self.spans()));
        assert_eq!(found.len(), n, "{found:#?}");
        found
    }

    /// The values of the last reading.
    pub fn points(&self) -> Vec<Point> {
        let documents = self.engine.requests_for("/otlp/v1/metrics");
        let last = documents.iter().rev().find(|r| r.whole);
        last.map(points_of).unwrap_or_default()
    }

    /// Waits until a value of this name with these labels is this.
    #[track_caller]
    pub fn expect_point(&self, name: &str, labels: &[(&str, &str)], n: u64) {
        let is = |p: &Point| {
            let has = |(k, v): &(&str, &str)| p.labels.iter().any(|(a, b)| a == k && b == v);
            p.name == name && p.n == n && labels.iter().all(has)
        };
        let found = wait(LIMIT, || self.points().iter().any(is).then_some(()));
        assert!(
            found.is_some(),
            "{name} {labels:?} {n}: {:#?}",
            self.points()
        );
    }
}

fn decoded<D: Message + Default + DeserializeOwned>(request: &Request) -> D {
    match request.header("content-type") {
        Some("application/json") => serde_json::from_slice(&request.body).unwrap(),
        Some("application/x-protobuf") => D::decode(&*request.body).unwrap(),
        other => panic!("what is {other:?}?"),
    }
}

fn spans_of(request: &Request) -> Vec<Span> {
    let document: ExportTraceServiceRequest = decoded(request);
    let mut spans = Vec::new();
    for resource in document.resource_spans {
        let of = resource.resource.unwrap();
        let service = text(&of.attributes, "service.name").unwrap();
        assert!(text(&of.attributes, "service.instance.id").is_some());
        for scope in resource.scope_spans {
            assert_eq!(scope.scope.unwrap().name, "nvpair-proxy");
            spans.extend(scope.spans.into_iter().map(|raw| Span {
                service: service.clone(),
                raw,
            }));
        }
    }
    spans
}

fn points_of(request: &Request) -> Vec<Point> {
    let document: ExportMetricsServiceRequest = decoded(request);
    let metrics = document
        .resource_metrics
        .into_iter()
        .flat_map(|r| r.scope_metrics)
        .flat_map(|s| s.metrics);
    let mut points = Vec::new();
    for metric in metrics {
        let name = metric.name.clone();
        let mut push = |attributes: &[KeyValue], n| {
            points.push(Point {
                name: name.clone(),
                labels: attributes.iter().map(shown).collect(),
                n,
            });
        };
        match metric.data.unwrap() {
            Data::Gauge(g) => g
                .data_points
                .iter()
                .for_each(|p| push(&p.attributes, number(p.value))),
            Data::Sum(s) => {
                assert!(s.is_monotonic && s.aggregation_temporality == 2);
                s.data_points.iter().for_each(|p| {
                    assert!(
                        0 < p.start_time_unix_nano && p.start_time_unix_nano <= p.time_unix_nano
                    );
                    push(&p.attributes, number(p.value));
                });
            },
            Data::Histogram(h) => h.data_points.iter().for_each(|p| {
                assert_eq!(p.bucket_counts.len(), p.explicit_bounds.len() + 1);
                assert_eq!(p.bucket_counts.iter().sum::<u64>(), p.count);
                push(&p.attributes, p.count);
            }),
            other => panic!("nobody makes {other:?}"),
        }
    }
    points
}

fn number(value: Option<Number>) -> u64 {
    match value.unwrap() {
        Number::AsInt(n) => u64::try_from(n).unwrap(),
        Number::AsDouble(n) => panic!("{n}"),
    }
}

fn shown(pair: &KeyValue) -> (String, String) {
    let value = match pair.value.clone().unwrap().value.unwrap() {
        Any::StringValue(s) => s,
        Any::IntValue(n) => n.to_string(),
        other => panic!("nobody says {other:?}"),
    };
    (pair.key.clone(), value)
}

fn text(pairs: &[KeyValue], key: &str) -> Option<String> {
    let found = pairs.iter().find(|p| p.key == key);
    found.map(|p| shown(p).1)
}

impl Span {
    pub fn is_request(&self) -> bool {
        self.raw.kind == 2
    }

    pub fn id(&self) -> String {
        hex(&self.raw.span_id)
    }

    pub fn parent(&self) -> String {
        hex(&self.raw.parent_span_id)
    }

    pub fn trace(&self) -> String {
        hex(&self.raw.trace_id)
    }

    pub fn failed(&self) -> bool {
        self.raw.status.as_ref().unwrap().code == 2
    }

    /// An attribute as text.
    pub fn says(&self, key: &str) -> Option<String> {
        text(&self.raw.attributes, key)
    }

    #[track_caller]
    pub fn is(&self, pairs: &[(&str, &str)]) {
        for (key, value) in pairs {
            assert_eq!(
                self.says(key).as_deref(),
                Some(*value),
                "{key} of {self:#?}"
            );
        }
    }
}

/// The only span that is like this.
#[track_caller]
pub fn only(spans: &[Span], like: impl Fn(&Span) -> bool) -> Span {
    let mut found = spans.iter().filter(|s| like(s));
    let one = found.next().unwrap_or_else(|| panic!("none of {spans:#?}"));
    assert!(found.next().is_none(), "several of {spans:#?}");
    one.clone()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
