//! Spans and readings as OTLP documents, in JSON or protobuf.
//!
//! Owns: attributes and names by the semantic conventions for GenAI and HTTP. Leaves to others: the
//! shapes and both encodings (`opentelemetry-proto`), sending (`otlp`).

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum, metric,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{
    ResourceSpans, ScopeSpans, Span as OtlpSpan, SpanFlags, Status,
};
use prost::Message;
use serde::Serialize;

use crate::telemetry::families::{Family, Kind, Label, Point, Value};
use crate::telemetry::spans::{Attempt, Part, Request, Span};

/// Form of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// JSON.
    Json,
    /// Protobuf.
    Protobuf,
}

impl Form {
    /// Its `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/x-protobuf",
        }
    }

    fn write(self, document: &(impl Message + Serialize)) -> Bytes {
        match self {
            // Only a map with keys that are no text could fail, and there is none.
            Self::Json => serde_json::to_vec(document).unwrap_or_default().into(),
            Self::Protobuf => document.encode_to_vec().into(),
        }
    }
}

/// Who speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Speaker {
    /// `service.name`.
    pub service: String,
    /// Version of the binary.
    pub version: String,
    /// `service.instance.id`: this run.
    pub instance: String,
}

impl Speaker {
    fn resource(&self) -> Resource {
        Resource {
            attributes: vec![
                text("service.name", &*self.service),
                text("service.version", &*self.version),
                text("service.instance.id", &*self.instance),
            ],
            ..Resource::default()
        }
    }

    fn scope(&self) -> InstrumentationScope {
        InstrumentationScope {
            name: "nvpair-proxy".to_owned(),
            version: self.version.clone(),
            ..InstrumentationScope::default()
        }
    }
}

/// A batch of spans.
pub fn traces(form: Form, speaker: &Speaker, spans: &[Span]) -> Bytes {
    let scope = ScopeSpans {
        scope: Some(speaker.scope()),
        spans: spans.iter().map(span).collect(),
        ..ScopeSpans::default()
    };
    form.write(&ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(speaker.resource()),
            scope_spans: vec![scope],
            ..ResourceSpans::default()
        }],
    })
}

/// A reading; its sums are counted since `since_ns`, both in Unix nanoseconds.
pub fn metrics(
    form: Form,
    speaker: &Speaker,
    families: &[Family],
    since_ns: u64,
    now_ns: u64,
) -> Bytes {
    let filled = families.iter().filter(|f| !f.points.is_empty());
    let scope = ScopeMetrics {
        scope: Some(speaker.scope()),
        metrics: filled.map(|f| metric(f, since_ns, now_ns)).collect(),
        ..ScopeMetrics::default()
    };
    form.write(&ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(speaker.resource()),
            scope_metrics: vec![scope],
            ..ResourceMetrics::default()
        }],
    })
}

/// How many spans of a batch the collector says it did not take, in its answer to it.
pub fn rejected_spans(form: Form, answer: &[u8]) -> u64 {
    let rejected = match form {
        Form::Json => rejected_in_json(answer, "rejectedSpans"),
        Form::Protobuf => ExportTraceServiceResponse::decode(answer)
            .ok()
            .and_then(|a| Some(a.partial_success?.rejected_spans)),
    };
    rejected.and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
}

/// How many values of a reading the collector says it did not take.
pub fn rejected_points(form: Form, answer: &[u8]) -> u64 {
    let rejected = match form {
        Form::Json => rejected_in_json(answer, "rejectedDataPoints"),
        Form::Protobuf => ExportMetricsServiceResponse::decode(answer)
            .ok()
            .and_then(|a| Some(a.partial_success?.rejected_data_points)),
    };
    rejected.and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
}

/// Not by the crate's shape: it takes no text for a number, which is how the standard has them.
fn rejected_in_json(answer: &[u8], key: &str) -> Option<i64> {
    let answer: serde_json::Value = serde_json::from_slice(answer).ok()?;
    let n = &answer["partialSuccess"][key];
    n.as_i64().or_else(|| n.as_str()?.parse().ok())
}

fn span(s: &Span) -> OtlpSpan {
    let mut attributes = common(s);
    let kind = match &s.part {
        Part::Request(r) => {
            of_request(&mut attributes, r);
            SpanKind::Server
        },
        Part::Attempt(a) => {
            of_attempt(&mut attributes, a);
            SpanKind::Client
        },
    };
    // To a server 4xx is the caller's doing; to a client it is an error.
    let failed = s
        .error
        .is_some_and(|e| kind == SpanKind::Client || e.is_ours());
    let code = if failed {
        StatusCode::Error
    } else {
        StatusCode::Unset
    };
    // A request's parent is on the other side of a connection, an attempt's is here.
    let mut flags = u32::from(s.context.flags()) | SpanFlags::ContextHasIsRemoteMask as u32;
    if kind == SpanKind::Server && s.parent.is_some() {
        flags |= SpanFlags::ContextIsRemoteMask as u32;
    }
    OtlpSpan {
        trace_id: s.context.trace.bytes().to_vec(),
        span_id: s.context.span.bytes().to_vec(),
        trace_state: s.state.as_deref().unwrap_or_default().to_owned(),
        parent_span_id: s.parent.map(|p| p.bytes().to_vec()).unwrap_or_default(),
        flags,
        name: name(s),
        kind: kind as i32,
        start_time_unix_nano: s.start_ns,
        end_time_unix_nano: s.end_ns,
        attributes,
        status: Some(Status {
            message: String::new(),
            code: code as i32,
        }),
        ..OtlpSpan::default()
    }
}

/// `chat MODEL`, or `GET /api/tags`, or only the method where the path is anybody's.
fn name(s: &Span) -> String {
    match (s.operation, s.model.as_deref(), &s.part) {
        (Some(operation), Some(model), _) => format!("{} {model}", operation.as_str()),
        (Some(operation), None, _) => operation.as_str().to_owned(),
        (None, _, Part::Request(Request { method, route, .. })) => match route {
            Some(route) => format!("{method} {route}"),
            None => (*method).to_owned(),
        },
        (None, _, Part::Attempt(_)) => "forward".to_owned(),
    }
}

fn common(s: &Span) -> Vec<KeyValue> {
    let mut all = Vec::with_capacity(16);
    all.push(text("nvpair.engine", s.engine.as_str()));
    if let Some(operation) = s.operation {
        all.push(text("gen_ai.operation.name", operation.as_str()));
        all.push(text("gen_ai.provider.name", &*s.provider));
    }
    if let Some(model) = &s.model {
        all.push(text("gen_ai.request.model", &**model));
    }
    if let Some(status) = s.status {
        all.push(number("http.response.status_code", status.into()));
    }
    if let Some(error) = s.error {
        all.push(text("error.type", error.as_text()));
    }
    all
}

fn of_request(all: &mut Vec<KeyValue>, r: &Request) {
    all.push(text("http.request.method", r.method));
    if let Some(route) = r.route {
        all.push(text("http.route", route));
    }
    if let Some(id) = &r.id {
        all.push(text("nvpair.request.id", id));
    }
    all.push(text("nvpair.state", r.state.as_str()));
    all.push(number("nvpair.attempts", r.attempts.into()));
    let tokens = [
        ("gen_ai.usage.input_tokens", r.prompt_tokens),
        ("gen_ai.usage.output_tokens", r.completion_tokens),
    ];
    for (key, n) in tokens {
        all.extend(n.map(|n| number(key, n)));
    }
}

fn of_attempt(all: &mut Vec<KeyValue>, a: &Attempt) {
    all.push(text("nvpair.node.id", a.node.as_str()));
    all.push(text("nvpair.outcome", a.outcome));
    all.push(text("server.address", &*a.host));
    all.push(number("server.port", a.port.into()));
    all.push(number("nvpair.attempt", a.number.into()));
    if let Some(again) = a.number.checked_sub(1).filter(|n| *n > 0) {
        all.push(number("http.request.resend_count", again.into()));
    }
}

fn metric(f: &Family, since_ns: u64, now_ns: u64) -> Metric {
    let temporality = AggregationTemporality::Cumulative as i32;
    let numbers = |since| f.points.iter().filter_map(move |p| level(p, since, now_ns));
    let data = match f.kind {
        Kind::Gauge => metric::Data::Gauge(Gauge {
            data_points: numbers(0).collect(),
        }),
        Kind::Counter => metric::Data::Sum(Sum {
            data_points: numbers(since_ns).collect(),
            aggregation_temporality: temporality,
            is_monotonic: true,
        }),
        Kind::Histogram => metric::Data::Histogram(Histogram {
            data_points: f
                .points
                .iter()
                .filter_map(|p| spread(p, since_ns, now_ns))
                .collect(),
            aggregation_temporality: temporality,
        }),
    };
    Metric {
        name: f.name.to_owned(),
        description: f.help.to_owned(),
        unit: f.unit.to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

fn level(p: &Point, start_time_unix_nano: u64, time_unix_nano: u64) -> Option<NumberDataPoint> {
    let Value::Number(n) = &p.value else {
        return None;
    };
    Some(NumberDataPoint {
        attributes: p.labels.iter().map(label).collect(),
        start_time_unix_nano,
        time_unix_nano,
        value: Some(Number::AsInt(i64::try_from(*n).unwrap_or(i64::MAX))),
        ..NumberDataPoint::default()
    })
}

fn spread(p: &Point, start_time_unix_nano: u64, time_unix_nano: u64) -> Option<HistogramDataPoint> {
    let Value::Spread(s) = &p.value else {
        return None;
    };
    Some(HistogramDataPoint {
        attributes: p.labels.iter().map(label).collect(),
        start_time_unix_nano,
        time_unix_nano,
        count: s.count(),
        sum: Some(s.sum),
        bucket_counts: s.counts.to_vec(),
        explicit_bounds: s.bounds.to_vec(),
        ..HistogramDataPoint::default()
    })
}

fn label((key, value): &Label) -> KeyValue {
    text(key, value.as_ref())
}

fn text(key: &str, value: impl AsRef<str>) -> KeyValue {
    pair(key, Any::StringValue(value.as_ref().to_owned()))
}

fn number(key: &str, value: u64) -> KeyValue {
    pair(key, Any::IntValue(i64::try_from(value).unwrap_or(i64::MAX)))
}

fn pair(key: &str, value: Any) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess;

    use super::*;

    #[test]
    fn a_collector_may_say_that_it_took_a_part() {
        let json = |text: &str| rejected_spans(Form::Json, text.as_bytes());
        assert_eq!(
            json(r#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"x"}}"#),
            3
        );
        assert_eq!(json(r#"{"partialSuccess":{"rejectedSpans":2}}"#), 2);
        for none in [
            "",
            "{}",
            "null",
            "[]",
            r#"{"partialSuccess":{"rejectedSpans":"-1"}}"#,
            "x",
        ] {
            assert_eq!(json(none), 0, "{none}");
        }
        let points = r#"{"partialSuccess":{"rejectedDataPoints":"4"}}"#;
        assert_eq!(rejected_points(Form::Json, points.as_bytes()), 4);
        let answer = ExportTraceServiceResponse {
            partial_success: Some(ExportTracePartialSuccess {
                rejected_spans: 5,
                error_message: String::new(),
            }),
        };
        assert_eq!(rejected_spans(Form::Protobuf, &answer.encode_to_vec()), 5);
        assert_eq!(rejected_spans(Form::Protobuf, b""), 0);
        assert_eq!(rejected_points(Form::Protobuf, b"\xff\xff"), 0);
    }
}
