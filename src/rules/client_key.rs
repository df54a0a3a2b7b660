//! Client keys: what a caller shows to use a facade, what that lets it use, and how much of it.
//!
//! Owns: their prefixes, grants, the two limits and what counts against them. Leaves to others: the
//! form that all keys share (`key_form`), the clock and who holds the counts (`state::clients`),
//! where a key stands in a request (`facade`).
//!
//! A new key may use nothing but what is said. `all` is a word of its own, since it also opens what
//! changes an engine's state.

use serde::{Deserialize, Serialize};

use super::engine::EngineId;
use super::gateway::POOL;
use super::ids::NodeId;
use super::key_form::{self, KeyHash, RANDOM_BYTES, pattern_matches};
use super::pool::key as node_key;
use super::pool::sizes::{Invalid, MAX_EXACT, MAX_NODE_ID, is_model_name};
use super::rate::{Bucket, PerMinute};
use super::secret::Secret;

/// In front of every key that is made.
pub const PREFIX: &str = "ktms_";
/// In front of keys of old, taken as well.
pub const LEGACY_PREFIX: &str = "llm_";

/// Most requests a minute that a key may be limited to.
pub const MAX_REQUESTS: u32 = 1_000_000;

/// Grants everything.
const ALL: &str = "all";
/// In front of a virtual model's name.
const VIRTUAL: &str = "virtual";
/// Any target, before a model.
const ANY: &str = "*";

const MS_OF_DAY: u64 = 24 * 60 * 60 * 1_000;

/// What is kept of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientKey {
    /// Its name, for people.
    pub name: String,
    /// Its hash. The key itself is nowhere.
    pub hash: KeyHash,
    /// What it may use, as it was said; at least one.
    pub allow: Vec<String>,
    /// Requests it may make in a minute, 1 to [`MAX_REQUESTS`]; `None` = no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u32>,
    /// Tokens it may use in a day of UTC, at least 1; `None` = no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_day: Option<u64>,
    /// Unix ms.
    pub created_at: u64,
}

/// A new key of these random bytes: prefix and 64 hex digits.
pub fn make(random: [u8; RANDOM_BYTES]) -> Secret {
    key_form::make(PREFIX, random)
}

/// The secret part of a presented key; `None` if it is no client key at all.
pub fn secret_part(presented: &str) -> Option<&str> {
    // A node key has a longer prefix that begins alike.
    if node_key::secret_part(presented).is_some() {
        return None;
    }
    key_form::secret_part(presented, [PREFIX, LEGACY_PREFIX])
}

/// The token in a header's value: `Bearer TOKEN`, or the token alone.
pub fn token(value: &[u8]) -> &[u8] {
    let value = value.trim_ascii();
    match value.split_at_checked(6) {
        Some((scheme, rest))
            if scheme.eq_ignore_ascii_case(b"bearer")
                && rest.first().is_some_and(u8::is_ascii_whitespace) =>
        {
            rest.trim_ascii_start()
        },
        _ => value,
    }
}

/// Whether a header's value may be a client key. Cheap, and never wrong where it says no.
pub fn may_be_key(value: &[u8]) -> bool {
    let token = token(value);
    token.starts_with(PREFIX.as_bytes()) || token.starts_with(LEGACY_PREFIX.as_bytes())
}

impl ClientKey {
    /// Checks name, hash, grants and limits.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn check(&self) -> Result<(), Invalid> {
        key_form::name(&self.name)?;
        if !self.hash.is_whole() {
            return Err(Invalid::new("hash", "is no SHA-256 in lower-case hex"));
        }
        Grants::parse(&self.allow)?;
        if let Some(n) = self.requests_per_minute
            && !(1..=MAX_REQUESTS).contains(&n)
        {
            let why = format!("is {n}; give 1..{MAX_REQUESTS}, or leave it out for no limit");
            return Err(Invalid::new("requests_per_minute", why));
        }
        if let Some(n) = self.tokens_per_day
            && !(1..=MAX_EXACT).contains(&n)
        {
            let why = format!("is {n}; give 1..{MAX_EXACT}, or leave it out for no limit");
            return Err(Invalid::new("tokens_per_day", why));
        }
        Ok(())
    }
}

/// A place where a request may be sent, as grants see it.
#[derive(Clone, Copy, Debug)]
pub struct TargetRef<'a> {
    /// Its id; of a provider its name.
    pub node: &'a NodeId,
    /// What it is.
    pub kind: TargetKind,
}

/// What a target is to a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// A node of this engine: this machine's, a named one, or a peer.
    Node(EngineId),
    /// A node that registered itself, whatever its engine.
    Pool,
    /// A fallback provider.
    Provider,
}

/// One `--allow`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Grant {
    All,
    Virtual(String),
    /// Models of any target.
    Any(String),
    Engine(EngineId, Option<String>),
    Pool(Option<String>),
    /// A node's id or a provider's name.
    Named(String, Option<String>),
}

/// What a key may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(Vec<Grant>);

impl Grants {
    /// Reads `all`, `TARGET`, `TARGET/MODEL`, `*/MODEL` and `virtual/NAME`. `*` in a model's or a
    /// virtual model's name stands for any text.
    ///
    /// # Errors
    /// Which entry is none of these, or that there is no entry.
    pub fn parse(allow: &[String]) -> Result<Self, Invalid> {
        if allow.is_empty() {
            let why = "is empty; say what the key may use: all, TARGET, TARGET/MODEL, */MODEL or virtual/NAME";
            return Err(Invalid::new("allow", why));
        }
        key_form::entries("allow", allow)?;
        let each = allow.iter().enumerate();
        let read = each
            .map(|(i, text)| grant(text).map_err(|why| Invalid::new(format!("allow[{i}]"), why)));
        read.collect::<Result<_, _>>().map(Self)
    }

    /// Whether everything was granted by its word: then also what changes an engine's state.
    pub fn is_all(&self) -> bool {
        self.0.contains(&Grant::All)
    }

    /// Whether a model may be used at a target. `model` is the name as it is compared; empty = the
    /// request names none, which takes a grant of every model there.
    pub fn allows(&self, target: TargetRef, model: &str) -> bool {
        self.reaching(target, |wanted| wanted.is_none_or(|w| names(w, model)))
    }

    /// Whether any model at all may be used at a target.
    pub fn allows_some(&self, target: TargetRef) -> bool {
        self.reaching(target, |_| true)
    }

    /// Whether a virtual model may be used. Its targets are judged by the grant of its name.
    pub fn allows_virtual(&self, name: &str) -> bool {
        self.0.iter().any(|grant| match grant {
            Grant::All => true,
            Grant::Virtual(wanted) => pattern_matches(wanted, name),
            _ => false,
        })
    }

    fn reaching(&self, target: TargetRef, model: impl Fn(Option<&String>) -> bool) -> bool {
        self.0.iter().any(|grant| match (grant, target.kind) {
            (Grant::All, _) => true,
            (Grant::Any(wanted), _) => model(Some(wanted)),
            (Grant::Engine(engine, wanted), TargetKind::Node(of)) => {
                *engine == of && model(wanted.as_ref())
            },
            (Grant::Pool(wanted), TargetKind::Pool) => model(wanted.as_ref()),
            (Grant::Named(name, wanted), _) => {
                name == target.node.as_str() && model(wanted.as_ref())
            },
            _ => false,
        })
    }
}

/// A model's name as people write it: the tag that an engine adds to a name without one counts for
/// nothing.
fn names(wanted: &str, model: &str) -> bool {
    let plain = model.strip_suffix(":latest");
    pattern_matches(wanted, model) || plain.is_some_and(|plain| pattern_matches(wanted, plain))
}

fn grant(text: &str) -> Result<Grant, &'static str> {
    if text == ALL {
        return Ok(Grant::All);
    }
    let (target, model) = match text.split_once('/') {
        Some((target, model)) => (target, Some(model.to_owned())),
        None => (text, None),
    };
    let odd = |text: &str| text.chars().any(|c| c.is_control() || c.is_whitespace());
    if target.is_empty() || target.len() > MAX_NODE_ID || odd(target) {
        return Err(
            "begins with no target; write TARGET, TARGET/MODEL, */MODEL, virtual/NAME or all",
        );
    }
    if model.as_ref().is_some_and(|m| !is_model_name(m)) {
        return Err("names no model behind the `/`; leave the `/` out for every model");
    }
    match (target, model) {
        (ALL, Some(_)) => Err("has something behind `all`; write */MODEL for a model anywhere"),
        (ANY, Some(model)) => Ok(Grant::Any(model)),
        (ANY, None) => Err("is `*` alone; write `all` for everything, or */MODEL"),
        (VIRTUAL, Some(name)) => Ok(Grant::Virtual(name)),
        (VIRTUAL, None) => Err("names no virtual model; write virtual/NAME, or virtual/*"),
        (POOL, model) => Ok(Grant::Pool(model)),
        (target, _) if target.contains('*') => {
            Err("has a `*` in the target; only a model's name may have one")
        },
        (target, model) => Ok(match EngineId::parse(target) {
            Some(engine) => Grant::Engine(engine, model),
            None => Grant::Named(target.to_owned(), model),
        }),
    }
}

/// How much a key may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests a minute.
    pub requests: Option<PerMinute>,
    /// Tokens a day of UTC.
    pub tokens: Option<u64>,
}

impl From<&ClientKey> for Limits {
    fn from(key: &ClientKey) -> Self {
        Self {
            requests: key.requests_per_minute.map(PerMinute::new),
            tokens: key.tokens_per_day,
        }
    }
}

/// When something happens.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Milliseconds that only grow.
    pub steady_ms: u64,
    /// Unix milliseconds: says which day it is.
    pub unix_ms: u64,
}

impl Moment {
    fn day(self) -> u64 {
        self.unix_ms / MS_OF_DAY
    }
}

/// Why a request is over its key's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Too many requests in this minute.
    Requests {
        /// The limit.
        per_minute: u32,
        /// Until the next one.
        retry_ms: u64,
    },
    /// Not enough tokens left today.
    Tokens {
        /// The limit.
        per_day: u64,
        /// What the request may need.
        needs: u64,
        /// What is left.
        left: u64,
        /// Until the next day begins.
        retry_ms: u64,
    },
}

impl Over {
    /// Whole seconds until it is worth another try, at least 1.
    pub fn retry_seconds(self) -> u64 {
        let (Self::Requests { retry_ms, .. } | Self::Tokens { retry_ms, .. }) = self;
        retry_ms.div_ceil(1_000).max(1)
    }
}

/// Tokens that were set aside for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Reserved {
    day: u64,
    tokens: u64,
}

/// What a key has used of its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    requests: Option<Bucket>,
    day: u64,
    used: u64,
    reserved: u64,
}

impl Allowance {
    /// One that has used so many tokens on this day (days since 1970, UTC).
    pub fn used_before(day: u64, tokens: u64) -> Self {
        Self {
            day,
            used: tokens,
            ..Self::default()
        }
    }

    /// Takes a request in that may need so many tokens. A request that is refused counts nowhere.
    ///
    /// # Errors
    /// It is over a limit.
    pub fn charge(&mut self, limits: Limits, now: Moment, tokens: u64) -> Result<Reserved, Over> {
        self.roll(now);
        if let Some(per_day) = limits.tokens {
            let spoken_for = self.used.saturating_add(self.reserved);
            let left = per_day.saturating_sub(spoken_for);
            // One that needs nothing measurable still needs something left.
            if tokens.max(1) > left {
                return Err(Over::Tokens {
                    per_day,
                    needs: tokens,
                    left,
                    retry_ms: MS_OF_DAY - now.unix_ms % MS_OF_DAY,
                });
            }
        }
        if let Some(rate) = limits.requests {
            let full = || Bucket::full(rate, now.steady_ms);
            let bucket = self.requests.get_or_insert_with(full);
            bucket
                .take(rate, now.steady_ms)
                .map_err(|retry_ms| Over::Requests {
                    per_minute: rate.count(),
                    retry_ms,
                })?;
        }
        self.reserved = self.reserved.saturating_add(tokens);
        Ok(Reserved {
            day: self.day,
            tokens,
        })
    }

    /// A request ended and used so many tokens. They count on the day that it began.
    pub fn settle(&mut self, reserved: Reserved, used: u64) {
        if reserved.day == self.day {
            self.reserved = self.reserved.saturating_sub(reserved.tokens);
            self.used = self.used.saturating_add(used);
        }
    }

    /// The day, in days since 1970 (UTC), and the tokens used on it so far.
    pub fn today(&mut self, now: Moment) -> (u64, u64) {
        self.roll(now);
        (self.day, self.used)
    }

    /// A new day begins with nothing used. A clock that is set back begins none.
    fn roll(&mut self, now: Moment) {
        if now.day() > self.day {
            self.day = now.day();
            self.used = 0;
            self.reserved = 0;
        }
    }
}

#[cfg(test)]
mod tests;
