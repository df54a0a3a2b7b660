//! The scripts' answers as values.
//!
//! Owns: reading them. Leaves to others: what they mean.

use std::collections::BTreeMap;

use ::redis::{FromRedisValue, Value};

use super::super::{Admission, Fleet, Left, Taken, Version};
use crate::rules::ids::NodeId;
use crate::rules::pool::breaker::{Breaker, Trial};
use crate::rules::pool::ema::Ema;
use crate::rules::pool::record::{LeaseId, Perf, Record, Session};

type Fields = BTreeMap<String, Vec<u8>>;

/// A record as it comes: id, fields, figures, leases, ends of trials.
type RawRecord = (
    String,
    Fields,
    BTreeMap<String, String>,
    u32,
    BTreeMap<String, u64>,
);

/// A page: time, version, base, version of the keys, last version in it, records, gone, length.
type RawPage = (
    u64,
    Version,
    Version,
    Version,
    Version,
    Vec<Value>,
    Vec<String>,
    usize,
);

/// A listing that is put together from pages.
pub(super) struct Listing {
    since: Version,
    /// Where the next page begins.
    from: Version,
    base: Option<Version>,
    records: BTreeMap<NodeId, Option<Record>>,
    fleet: Fleet,
}

impl Listing {
    pub(super) fn new(since: Version) -> Self {
        Self {
            since,
            from: since,
            base: None,
            records: BTreeMap::new(),
            fleet: Fleet {
                whole: since == 0,
                ..Fleet::default()
            },
        }
    }

    pub(super) fn from(&self) -> Version {
        self.from
    }

    /// Takes a page in; `true` if there is another one.
    pub(super) fn add(&mut self, answer: Value, page: usize) -> Result<bool, String> {
        let (now_ms, version, base, keys_version, last, records, gone, length) =
            plain::<RawPage>(answer)?;
        // The store cannot tell what changed since then, or it was emptied while we read.
        let unknown = !self.fleet.whole && (self.since < base || self.since > version);
        let emptied = self.base.is_some_and(|b| b != base);
        if unknown || emptied {
            *self = Self::new(0);
            return Ok(true);
        }
        self.base = Some(base);
        for value in records {
            let record = record(value)?;
            self.records.insert(record.node().clone(), Some(record));
        }
        for node in gone {
            self.records.insert(node.into(), None);
        }
        self.fleet.now_ms = now_ms;
        self.fleet.keys_version = keys_version;
        let more = length >= page;
        (self.from, self.fleet.version) = if more {
            (last, last)
        } else {
            (version, version)
        };
        Ok(more)
    }

    pub(super) fn done(self) -> Fleet {
        let mut fleet = self.fleet;
        for (node, record) in self.records {
            match record {
                Some(record) => fleet.records.push(record),
                None if fleet.whole => {},
                None => fleet.gone.push(node),
            }
        }
        fleet
    }
}

/// An answer of time and record.
pub(super) fn record_answer(answer: Value) -> Result<Record, String> {
    let (_, value): (u64, Value) = plain(answer)?;
    record(value)
}

/// The answer to a heartbeat.
pub(super) fn taken(answer: Value) -> Result<Taken, String> {
    let word = match &answer {
        Value::BulkString(word) => word.as_slice(),
        Value::SimpleString(word) => word.as_bytes(),
        _ => return record_answer(answer).map(|r| Taken::Taken(Box::new(r))),
    };
    match word {
        b"unknown" => Ok(Taken::Unknown),
        b"replaced" => Ok(Taken::Replaced),
        b"stale" => Ok(Taken::Stale),
        _ => Err("an unknown answer to a heartbeat".to_owned()),
    }
}

/// The answer to a worker that leaves.
pub(super) fn left(answer: Value) -> Result<Left, String> {
    let word: String = plain(answer)?;
    match word.as_str() {
        "left" => Ok(Left::Left),
        "replaced" => Ok(Left::Replaced),
        "unknown" => Ok(Left::Unknown),
        _ => Err("an unknown answer to a worker that leaves".to_owned()),
    }
}

/// The answer to a request for a place.
pub(super) fn admission(answer: Value) -> Result<Admission, String> {
    let parts: Vec<Value> = plain(answer)?;
    let mut parts = parts.into_iter();
    let mut next = || {
        parts
            .next()
            .ok_or("a short answer to a request for a place")
    };
    let word: String = plain(next()?)?;
    Ok(match word.as_str() {
        "granted" => Admission::Granted {
            trial: plain::<u8>(next()?)? == 1,
            leases: plain(next()?)?,
        },
        "full" => Admission::Full,
        "broken" => Admission::Broken {
            until: plain(next()?)?,
        },
        "draining" => Admission::Draining,
        "offline" => Admission::Offline,
        "gone" => Admission::Gone,
        _ => return Err("an unknown answer to a request for a place".to_owned()),
    })
}

fn record(value: Value) -> Result<Record, String> {
    let (id, fields, figures, leases, trials) = plain::<RawRecord>(value)?;
    let wrong = |what: &str| format!("{what} of node {id:?}");
    let json = |name: &str| fields.get(name).map(Vec::as_slice);
    let text = |name: &str| json(name).and_then(|v| std::str::from_utf8(v).ok());
    let time = |name: &str| {
        text(name)
            .and_then(|t| t.parse::<u64>().ok())
            .ok_or_else(|| wrong(name))
    };
    let registration = json("reg").and_then(|c| serde_json::from_slice(c).ok());
    let beat = match json("beat") {
        Some(content) => Some(serde_json::from_slice(content).map_err(|_| wrong("heartbeat"))?),
        None => None,
    };
    let trial = |lease: Option<&str>| {
        let lease = lease.filter(|l| !l.is_empty() && *l != "-")?;
        Some(Trial {
            lease: LeaseId::from(lease),
            until: trials.get(lease).copied().unwrap_or(0),
        })
    };
    let breaker = Breaker {
        failures: text("f").and_then(|f| f.parse().ok()).unwrap_or(0),
        open_until: text("o").and_then(|o| o.parse().ok()),
        trial: trial(text("t")),
    };
    let perf = |packed: &str| {
        let mut parts = packed.split(' ');
        let mut next = || parts.next().unwrap_or_default();
        Perf {
            breaker: Breaker {
                failures: next().parse().unwrap_or(0),
                open_until: next().parse().ok(),
                trial: None,
            },
            ttft_ms: Ema::of(next().parse().ok()),
            tokens_per_second: Ema::of(next().parse().ok()),
        }
    };
    let perf = figures.iter().map(|(model, packed)| {
        let mut figures = perf(packed);
        figures.breaker.trial = trial(packed.rsplit(' ').next());
        (model.clone(), figures)
    });
    Ok(Record {
        registration: registration.ok_or_else(|| wrong("registration"))?,
        key_name: text("key").unwrap_or_default().to_owned(),
        session: text("session").and_then(Session::parse),
        registered_at: time("registered_at")?,
        beat,
        beat_at: time("beat_at")?,
        drain: text("drain") == Some("1"),
        breaker,
        perf: perf.collect(),
        leases,
    })
}

fn plain<T: FromRedisValue>(value: Value) -> Result<T, String> {
    // The error's own text repeats the value.
    T::from_redis_value(value).map_err(|_| "a part of an answer has another type".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_no_script_gives_is_an_error_and_not_quoted() {
        let words = |word: &str| Value::BulkString(word.as_bytes().to_vec());
        for (word, want) in [
            ("left", Left::Left),
            ("replaced", Left::Replaced),
            ("unknown", Left::Unknown),
        ] {
            assert_eq!(left(words(word)), Ok(want));
        }
        let odd = "ERR-of-somebody-else";
        let errors = [
            left(words(odd)).unwrap_err(),
            left(Value::Int(1)).unwrap_err(),
            taken(words(odd)).unwrap_err(),
            taken(Value::Nil).unwrap_err(),
            admission(Value::Array(vec![words(odd)])).unwrap_err(),
            admission(Value::Array(vec![words("granted")])).unwrap_err(),
            admission(words(odd)).unwrap_err(),
        ];
        for error in errors {
            assert!(!error.contains(odd), "{error}");
        }
    }
}
