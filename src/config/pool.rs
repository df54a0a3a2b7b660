//! `[pool]`: the pool of nodes that register themselves (product section 7).
//!
//! Owns: its settings, their defaults and variables, and which of them contradict each other.
//! Leaves to others: the pool itself.
//!
//! Its variables are older than the file and yield to it, unlike all others: they configure a
//! container image, and whoever writes a file means it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use toml::de::DeTable;

use super::gateway::{TlsFiles, tls_files};
use super::http_url::HttpUrl;
use super::keys;
use super::kinds;
use super::reader::{Plain, Reader, Section};
use crate::rules::pool::limits::Limits;
use crate::rules::pool::redis_address::RedisAddress;
use crate::rules::units::parse_duration;

/// Port of a registry where none is given.
pub const REGISTRY_PORT: u16 = 9090;

/// Where the pool keeps nodes and leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreSetting {
    /// In this process.
    Memory,
    /// In a Redis that several gateways may share.
    Redis(RedisAddress),
}

/// `[pool]`, complete: what the file does not say, a variable or the default says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// Address of the registry.
    pub listen: SocketAddr,
    /// Its certificate; `None` = one that is made, beyond loopback.
    pub tls: Option<TlsFiles>,
    /// Where nodes and leases are kept.
    pub store: StoreSetting,
    /// Silence after which a node is gone.
    pub heartbeat_ttl: Duration,
    /// Between two heartbeats; at most half of `heartbeat_ttl`.
    pub heartbeat_interval: Duration,
    /// Between two looks for silent nodes.
    pub sweep_interval: Duration,
    /// How long a gone node is remembered; above `heartbeat_ttl`.
    pub retention: Duration,
    /// Failures in a row that take a node out; at least 1.
    pub breaker_failures: u32,
    /// Time until such a node gets its trial.
    pub breaker_cooldown: Duration,
    /// °C from which a node is suspect.
    pub suspect_temperature: u32,
    /// GPU percent from which a node is suspect; 101 is never.
    pub suspect_utilization: u32,
    /// Life of a lease that is not renewed.
    pub lease_ttl: Duration,
    /// Between two renewals; at most half of `lease_ttl`.
    pub lease_renewal: Duration,
    /// Networks for endpoints, whatever a key allows; empty = the key alone decides.
    pub allowed_endpoints: Vec<IpNet>,
    /// Registrations from one key in a minute; at least 1.
    pub registrations_per_minute: u32,
    /// A line a finished request goes here.
    pub usage_file: Option<PathBuf>,
    /// The same is posted here.
    pub usage_collector: Option<HttpUrl>,
}

impl Default for PoolSettings {
    fn default() -> Self {
        let d = Limits::default();
        let ms = Duration::from_millis;
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, REGISTRY_PORT)),
            tls: None,
            store: StoreSetting::Memory,
            heartbeat_ttl: ms(d.ttl_ms),
            heartbeat_interval: ms(d.beat_ms),
            sweep_interval: ms(d.sweep_ms),
            retention: ms(d.retention_ms),
            breaker_failures: d.failures,
            breaker_cooldown: ms(d.cooldown_ms),
            suspect_temperature: d.suspect_temperature,
            suspect_utilization: d.suspect_utilization,
            lease_ttl: ms(d.lease_ttl_ms),
            lease_renewal: ms(d.lease_renewal_ms),
            allowed_endpoints: Vec::new(),
            registrations_per_minute: 60,
            usage_file: None,
            usage_collector: None,
        }
    }
}

impl PoolSettings {
    /// Those of them that are limits of the pool's rules.
    pub fn limits(&self) -> Limits {
        let ms = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        Limits {
            ttl_ms: ms(self.heartbeat_ttl),
            beat_ms: ms(self.heartbeat_interval),
            sweep_ms: ms(self.sweep_interval),
            retention_ms: ms(self.retention),
            failures: self.breaker_failures,
            cooldown_ms: ms(self.breaker_cooldown),
            suspect_temperature: self.suspect_temperature,
            suspect_utilization: self.suspect_utilization,
            lease_ttl_ms: ms(self.lease_ttl),
            lease_renewal_ms: ms(self.lease_renewal),
        }
    }
}

/// Reads the table; `None` where it is absent or turned off.
pub(super) fn pool(r: &mut Reader, t: &DeTable) -> Option<PoolSettings> {
    let (at, table) = r.table(t, "pool")?;
    let mut s = r.section(table, &keys::POOL, at, "pool.", None);
    let d = PoolSettings::default();
    let enabled = s.switch("enabled").unwrap_or(true);
    let whole = |unit: u64| move |text: &str| whole(text, unit);
    let settings = PoolSettings {
        listen: s.value("listen", &kinds::listen).unwrap_or(d.listen),
        tls: tls_files(&mut s),
        store: s
            .value("store", &store)
            .or_else(|| variable(&mut s, "store", "REDIS_ADDR", redis))
            .unwrap_or(d.store),
        heartbeat_ttl: timed(
            &mut s,
            "heartbeat_ttl",
            "NODE_HEARTBEAT_TTL_SECONDS",
            whole(1),
        )
        .unwrap_or(d.heartbeat_ttl),
        heartbeat_interval: timed(
            &mut s,
            "heartbeat_interval",
            "NODE_HEARTBEAT_INTERVAL_SECONDS",
            whole(1),
        )
        .unwrap_or(d.heartbeat_interval),
        sweep_interval: timed(&mut s, "sweep_interval", "NODE_SWEEP_INTERVAL", sweep)
            .unwrap_or(d.sweep_interval),
        retention: timed(
            &mut s,
            "retention",
            "NODE_RETENTION_TTL_DAYS",
            whole(24 * 60 * 60),
        )
        .unwrap_or(d.retention),
        breaker_failures: s.number("breaker_failures").unwrap_or(d.breaker_failures),
        breaker_cooldown: s.span("breaker_cooldown").unwrap_or(d.breaker_cooldown),
        suspect_temperature: s
            .number("suspect_temperature")
            .unwrap_or(d.suspect_temperature),
        suspect_utilization: s
            .number("suspect_utilization")
            .unwrap_or(d.suspect_utilization),
        lease_ttl: s.span("lease_ttl").unwrap_or(d.lease_ttl),
        lease_renewal: s.span("lease_renewal").unwrap_or(d.lease_renewal),
        allowed_endpoints: s
            .list("allowed_endpoints", &kinds::cidr)
            .unwrap_or(d.allowed_endpoints),
        registrations_per_minute: s
            .number("registrations_per_minute")
            .unwrap_or(d.registrations_per_minute),
        usage_file: s.value("usage_file", &kinds::path),
        usage_collector: s
            .value("usage_collector", &kinds::http_url)
            .or_else(|| variable(&mut s, "usage_collector", "USAGE_COLLECTOR_HOST", collector)),
    };
    for bad in settings.limits().misfits() {
        // In the place of a value that is wrong by itself stands the default, which nobody wrote.
        let sound = |key| s.raw(key).is_none_or(|(at, _)| !s.reader.is_wrong(at));
        if sound(bad.setting) && sound(bad.beside) {
            // Where somebody wrote it: the other one may be a default or a variable.
            let place = s.raw(bad.setting).or_else(|| s.raw(bad.beside));
            let text = format!("`{}`: {}", bad.setting, bad.why);
            s.reader.complain(place.map_or(at, |(at, _)| at), text);
        }
    }
    enabled.then_some(settings)
}

/// A duration of the file, else of a variable in the same range.
fn timed(
    s: &mut Section,
    key: &'static str,
    name: &str,
    parse: impl Fn(&str) -> Result<Duration, String>,
) -> Option<Duration> {
    let range = match keys::POOL.key(key).map(|k| k.shape) {
        Some(keys::Shape::Span(min, max)) => min..=max,
        _ => 0..=u64::MAX,
    };
    s.span(key).or_else(|| {
        variable(s, key, name, |text| {
            let given = parse(text)?;
            match range.contains(&u64::try_from(given.as_millis()).unwrap_or(u64::MAX)) {
                true => Ok(given),
                false => Err("it is out of range".to_owned()),
            }
        })
    })
}

/// The value of a variable where the file has no such key. A bad one is a warning and counts as
/// absent, as every variable of ours.
fn variable<T>(
    s: &mut Section,
    key: &str,
    name: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Option<T> {
    if s.raw(key).is_some() {
        return None;
    }
    s.reader.variable(&format!("pool.{key}"), name, parse)
}

/// A whole number of a unit of so many seconds.
fn whole(text: &str, unit: u64) -> Result<Duration, String> {
    let number: u64 = text
        .parse()
        .map_err(|_| "it must be a whole number".to_owned())?;
    let seconds = number.checked_mul(unit).ok_or("it is out of range")?;
    Ok(Duration::from_secs(seconds))
}

/// A sweep interval as NODE_SWEEP_INTERVAL has it: seconds, or a duration with its unit.
///
/// # Errors
/// It is neither.
pub fn sweep(text: &str) -> Result<Duration, String> {
    whole(text, 1).or_else(|_| parse_duration(text).map_err(|e| e.to_string()))
}

/// `host:port`, or a URL.
fn redis(text: &str) -> Result<StoreSetting, String> {
    RedisAddress::parse(text).map(StoreSetting::Redis)
}

/// `host`, `host:port`, or a URL.
fn collector(text: &str) -> Result<HttpUrl, String> {
    match text.contains("://") {
        true => HttpUrl::parse(text),
        false => HttpUrl::parse(&format!("http://{text}")),
    }
}

fn store(key: &str, value: Plain) -> Result<StoreSetting, String> {
    let text = kinds::not_empty(key, value)?;
    match text.as_str() {
        "memory" => Ok(StoreSetting::Memory),
        url if url.contains("://") => redis(url).map_err(|e| format!("`{key}`: {e}")),
        _ => Err(format!(
            "`{key}` must be \"memory\" or a URL like redis://HOST:6379/0"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;
    use std::ffi::OsString;

    fn read(text: &str, vars: &[(&str, &str)]) -> (PoolSettings, Vec<String>) {
        let env = |name: &str| {
            let found = vars.iter().find(|(k, _)| *k == name);
            found.map(|(_, v)| OsString::from(v))
        };
        let config = file::parse("config.toml", text, &env).unwrap();
        (config.pool.unwrap(), config.variables)
    }

    #[test]
    fn the_file_beats_the_variables_and_those_the_defaults() {
        let vars = [
            ("REDIS_ADDR", "cache.lan:6380"),
            ("NODE_HEARTBEAT_TTL_SECONDS", "20"),
            ("NODE_HEARTBEAT_INTERVAL_SECONDS", "4"),
            ("NODE_SWEEP_INTERVAL", "2500ms"),
            ("NODE_RETENTION_TTL_DAYS", "3"),
            ("USAGE_COLLECTOR_HOST", "meter.lan:8080"),
        ];
        let (p, warnings) = read("[pool]\n", &vars);
        assert!(warnings.is_empty());
        let shown = match &p.store {
            StoreSetting::Redis(address) => address.to_string(),
            StoreSetting::Memory => "memory".into(),
        };
        assert_eq!(shown, "redis://cache.lan:6380");
        assert_eq!(p.heartbeat_ttl, Duration::from_secs(20));
        assert_eq!(p.heartbeat_interval, Duration::from_secs(4));
        assert_eq!(p.sweep_interval, Duration::from_millis(2500));
        assert_eq!(p.retention, Duration::from_secs(3 * 86_400));
        let collector = p.usage_collector.map(|u| u.to_string());
        assert_eq!(collector.as_deref(), Some("http://meter.lan:8080"));

        let file = "[pool]\nstore = \"memory\"\nheartbeat_ttl = \"1m\"\n";
        let (p, _) = read(file, &vars);
        assert_eq!(p.store, StoreSetting::Memory);
        assert_eq!(p.heartbeat_ttl, Duration::from_secs(60));
        assert_eq!(read("[pool]\n", &[]).0, PoolSettings::default());
    }

    #[test]
    fn a_bad_variable_is_a_warning_without_its_value() {
        let vars = [
            ("REDIS_ADDR", "http://canary"),
            ("NODE_HEARTBEAT_TTL_SECONDS", "canary"),
            ("NODE_SWEEP_INTERVAL", "0"),
            ("NODE_RETENTION_TTL_DAYS", "99999999999999999999"),
        ];
        let (p, warnings) = read("[pool]\n", &vars);
        assert_eq!(p, PoolSettings::default());
        assert_eq!(warnings.len(), 4, "{warnings:?}");
        assert!(!warnings.concat().contains("canary"), "{warnings:?}");
    }

    #[test]
    fn the_settings_and_the_rules_have_the_same_limits() {
        assert_eq!(PoolSettings::default().limits(), Limits::default());
    }

    /// What is read without a problem is what the pool starts with.
    #[test]
    fn a_store_that_the_daemon_would_refuse_is_refused_when_it_is_read() {
        let text = "[pool]\nstore = \"rediss://me:canary@cache.lan\"\n";
        let told = file::parse("config.toml", text, &|_| None).unwrap_err();
        let told = told.to_string();
        assert!(told.contains("(TLS) is not supported"), "{told}");
        assert!(!told.contains("canary"), "{told}");
    }

    #[test]
    fn a_redis_password_is_kept_and_never_shown() {
        let (p, _) = read("[pool]\nstore = \"redis://me:canary@cache.lan/2\"\n", &[]);
        let StoreSetting::Redis(redis) = &p.store else {
            panic!("{:?}", p.store)
        };
        assert_eq!(redis.url().reveal(), "redis://me:canary@cache.lan/2");
        assert_eq!(redis.to_string(), "redis://***@cache.lan:6379/2");
        assert!(!format!("{p:?}").contains("canary"));
    }
}
