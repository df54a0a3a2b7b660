//! `[telemetry]` and `[admin]` (product section 8).
//!
//! Owns: their settings and defaults. Leaves to others: exporting, listening.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use http::HeaderName;
use toml::de::{DeTable, DeValue};

use super::http_url::HttpUrl;
use super::keys;
use super::kinds;
use super::reader::{Reader, Section};
use crate::rules::secret::Secret;

/// Form of what is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// JSON bodies.
    HttpJson,
    /// Protobuf bodies.
    HttpProtobuf,
}

impl OtlpProtocol {
    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HttpJson => "http/json",
            Self::HttpProtobuf => "http/protobuf",
        }
    }
}

const PROTOCOLS: [(&str, OtlpProtocol); 2] = [
    (OtlpProtocol::HttpJson.as_str(), OtlpProtocol::HttpJson),
    (
        OtlpProtocol::HttpProtobuf.as_str(),
        OtlpProtocol::HttpProtobuf,
    ),
];

/// `[telemetry]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TelemetrySettings {
    /// The collector; `/v1/traces` and `/v1/metrics` are put behind its path.
    pub endpoint: HttpUrl,
    /// Form of the bodies.
    pub protocol: OtlpProtocol,
    /// Headers of every export. Names in lower case, each once.
    pub headers: Vec<(String, Secret)>,
    /// Whether traces are sent.
    pub traces: bool,
    /// Whether metrics are sent.
    pub metrics: bool,
    /// Between two exports of metrics.
    pub metrics_interval: Duration,
    /// Share of new traces that are recorded, 0 to 100.
    pub sample_percent: u32,
    /// `service.name`.
    pub service_name: String,
}

impl Default for TelemetrySettings {
    fn default() -> Self {
        Self {
            endpoint: HttpUrl {
                tls: false,
                host: Ipv4Addr::LOCALHOST.to_string(),
                port: 4318,
                path: String::new(),
            },
            protocol: OtlpProtocol::HttpJson,
            headers: Vec::new(),
            traces: true,
            metrics: true,
            metrics_interval: Duration::from_secs(60),
            sample_percent: 100,
            service_name: "nvpair-proxy".to_owned(),
        }
    }
}

/// `[admin]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdminSettings {
    /// Loopback.
    pub listen: SocketAddr,
}

impl Default for AdminSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 9464)),
        }
    }
}

/// Reads `[telemetry]`; `None` where it is absent or turned off.
pub(super) fn telemetry(r: &mut Reader, t: &DeTable) -> Option<TelemetrySettings> {
    let (at, table) = r.table(t, "telemetry")?;
    let mut s = r.section(table, &keys::TELEMETRY, at, "telemetry.", None);
    let d = TelemetrySettings::default();
    let enabled = s.switch("enabled").unwrap_or(true);
    let settings = TelemetrySettings {
        endpoint: s.value("endpoint", &kinds::http_url).unwrap_or(d.endpoint),
        protocol: s
            .value("protocol", &kinds::word(&PROTOCOLS))
            .unwrap_or(d.protocol),
        headers: headers(&mut s),
        traces: s.switch("traces").unwrap_or(d.traces),
        metrics: s.switch("metrics").unwrap_or(d.metrics),
        metrics_interval: s.span("metrics_interval").unwrap_or(d.metrics_interval),
        sample_percent: s.number("sample_percent").unwrap_or(d.sample_percent),
        service_name: s
            .value("service_name", &kinds::not_empty)
            .unwrap_or(d.service_name),
    };
    enabled.then_some(settings)
}

fn headers(s: &mut Section) -> Vec<(String, Secret)> {
    let Some((at, value)) = s.raw("headers") else {
        return Vec::new();
    };
    let r = &mut *s.reader;
    let DeValue::Table(map) = value else {
        r.complain(at, "`headers` must be a table, like { name = \"value\" }");
        return Vec::new();
    };
    let mut read: Vec<(String, Secret)> = Vec::new();
    for (key, value) in map {
        let given = key.get_ref().as_ref();
        let name = match HeaderName::from_bytes(given.as_bytes()) {
            Ok(name) => name.as_str().to_owned(),
            Err(_) => {
                let text = format!("`headers`: {given:?} is not a header's name");
                r.complain(key.span().start, text);
                continue;
            },
        };
        if read.iter().any(|(known, _)| *known == name) {
            let text = format!("`headers`: {name:?} is listed twice");
            r.complain(key.span().start, text);
            continue;
        }
        let value = r.one(value.span().start, value.get_ref(), given, &kinds::secret);
        read.extend(value.map(|(_, value)| (name, value)));
    }
    read
}

/// Reads `[admin]`; `None` where it is absent or turned off.
pub(super) fn admin(r: &mut Reader, t: &DeTable) -> Option<AdminSettings> {
    let (at, table) = r.table(t, "admin")?;
    let mut s = r.section(table, &keys::ADMIN, at, "admin.", None);
    let enabled = s.switch("enabled").unwrap_or(true);
    let listen = s.value("listen", &kinds::listen_loopback);
    let settings = AdminSettings {
        listen: listen.unwrap_or(AdminSettings::default().listen),
    };
    enabled.then_some(settings)
}
