//! The pool in a Redis that several gateways share.
//!
//! Owns: which script makes which change, and giving back what a call may have taken that nobody
//! got an answer to. Leaves to others: the connection (`link`), reading answers (`decode`), the
//! transitions themselves (`scripts/*.lua`, which mirror `rules::pool`).
//!
//! Each change is one script, so one round trip, and atomic.

mod decode;
mod link;
mod scripts;

use std::sync::Arc;
use std::time::Duration;

use ::redis::{FromRedisValue, Value};

use super::{Admission, Clock, Fleet, KeySet, Left, PoolStore, StoreDown, Taken, Version};
use crate::rules::ids::NodeId;
use crate::rules::pool::blame::{Blame, Outcome};
use crate::rules::pool::breaker::End;
use crate::rules::pool::ema::{ALPHA, is_sample};
use crate::rules::pool::key::{KeyRecord, Revoked};
use crate::rules::pool::limits::Limits;
use crate::rules::pool::record::{Beat, LeaseId, Record, Registration, Session};
use crate::rules::pool::redis_address::RedisAddress;

use link::Link;
use scripts::Script;

/// For a connection, and for an answer.
const TIMEOUT: Duration = Duration::from_millis(300);

/// Records a page of a listing has: a script blocks everybody else.
const PAGE: usize = 200;

/// How often a gateway asks whether there is something new.
const POLL: Duration = Duration::from_millis(250);

/// A lease that may have been taken is given back at least this often, until that works or the
/// lease has expired.
const GIVE_BACK_EVERY: Duration = Duration::from_secs(1);

/// The pool in Redis. Clones share one connection.
#[derive(Clone)]
pub struct RedisStore {
    shared: Arc<Shared>,
}

struct Shared {
    link: Link,
    limits: Limits,
    /// Instead of the server's time, in tests.
    clock: Option<Clock>,
}

impl RedisStore {
    /// A store that connects at its first call, and again whenever it has to. Inside a runtime.
    ///
    /// # Errors
    /// The address is none to the Redis library.
    pub fn new(address: RedisAddress, limits: Limits) -> Result<Self, StoreDown> {
        Self::build(address, limits, TIMEOUT, None)
    }

    /// A store for tests: whose time passes as they like, and which a slow machine does not make
    /// impatient.
    #[doc(hidden)]
    pub fn for_tests(
        address: RedisAddress,
        limits: Limits,
        clock: Clock,
    ) -> Result<Self, StoreDown> {
        Self::build(address, limits, 100 * TIMEOUT, Some(clock))
    }

    fn build(
        address: RedisAddress,
        limits: Limits,
        timeout: Duration,
        clock: Option<Clock>,
    ) -> Result<Self, StoreDown> {
        let shared = Shared {
            link: Link::new(address, timeout)?,
            limits,
            clock,
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        args: &[&[u8]],
    ) -> Result<T, StoreDown> {
        let now = self.shared.clock.as_ref().map(|now| now().to_string());
        let now = now.unwrap_or_default();
        self.shared.link.run(script, now.as_bytes(), args).await
    }

    /// Whether a script that answers 1 or 0 did what it was asked to.
    async fn done(&self, script: &Script, args: &[&[u8]]) -> Result<bool, StoreDown> {
        Ok(self.run::<i64>(script, args).await? == 1)
    }

    fn unreadable(&self, why: impl std::fmt::Display) -> StoreDown {
        self.shared.link.unreadable(why)
    }

    async fn send_settle(
        &self,
        node: &NodeId,
        lease: &LeaseId,
        model: Option<&str>,
        outcome: &Outcome,
    ) -> Result<(), StoreDown> {
        let means = |end: End| match end {
            End::Success => "s",
            End::Failure => "f",
            End::Neutral => "n",
        };
        let figure = |figure: Option<f64>| {
            let figure = figure.filter(|f| outcome.blame == Blame::Success && is_sample(*f));
            figure.map_or_else(|| "-".to_owned(), |f| f.to_string())
        };
        let limits = &self.shared.limits;
        let args = [
            node.as_str(),
            lease.as_str(),
            model.unwrap_or_default(),
            means(outcome.blame.for_node()),
            means(outcome.blame.for_model()),
            &limits.failures.to_string(),
            &limits.cooldown_ms.to_string(),
            &figure(outcome.sample.ttft_ms),
            &figure(outcome.sample.tokens_per_second),
            &ALPHA.to_string(),
        ];
        self.run::<i64>(&scripts::SETTLE, &args.map(str::as_bytes))
            .await?;
        Ok(())
    }
}

/// Gives a lease back in the background unless it is told not to: a call that got no answer, or
/// whose caller went away, may have been carried out all the same.
struct GiveBack {
    store: RedisStore,
    what: Option<(NodeId, LeaseId, Option<String>)>,
    for_ms: u64,
}

impl GiveBack {
    fn answered(&mut self) {
        self.what = None;
    }
}

impl Drop for GiveBack {
    fn drop(&mut self) {
        let Some((node, lease, model)) = self.what.take() else {
            return;
        };
        // Without a runtime the process ends, and the lease expires.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let store = self.store.clone();
        let end = tokio::time::Instant::now() + Duration::from_millis(self.for_ms);
        let nothing = Outcome {
            blame: Blame::Nothing,
            sample: Default::default(),
        };
        runtime.spawn(async move {
            while tokio::time::Instant::now() < end {
                let sent = store.send_settle(&node, &lease, model.as_deref(), &nothing);
                if sent.await.is_ok() {
                    return;
                }
                tokio::time::sleep(GIVE_BACK_EVERY).await;
            }
        });
    }
}

impl PoolStore for RedisStore {
    async fn changes(&self, since: Version) -> Result<Fleet, StoreDown> {
        let mut listing = decode::Listing::new(since);
        loop {
            let (from, page) = (listing.from().to_string(), PAGE.to_string());
            let answer: Value = self
                .run(&scripts::CHANGES, &[from.as_bytes(), page.as_bytes()])
                .await?;
            let more = listing.add(answer, PAGE).map_err(|e| self.unreadable(e))?;
            if !more {
                return Ok(listing.done());
            }
        }
    }

    async fn changed(&self, since: Version) -> Result<(), StoreDown> {
        loop {
            if self.shared.link.version().await? != since {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn register(
        &self,
        registration: Registration,
        key_name: &str,
        session: &Session,
    ) -> Result<Record, StoreDown> {
        let content = serde_json::to_vec(&registration).map_err(|e| self.unreadable(e))?;
        let max = registration.max_concurrency.to_string();
        let mut args: Vec<&[u8]> = vec![
            registration.node.as_str().as_bytes(),
            &content,
            key_name.as_bytes(),
            session.as_str().as_bytes(),
            max.as_bytes(),
        ];
        args.extend(registration.models.iter().map(|m| m.id.as_bytes()));
        let answer: Value = self.run(&scripts::REGISTER, &args).await?;
        decode::record_answer(answer).map_err(|e| self.unreadable(e))
    }

    async fn beat(&self, node: &NodeId, session: &Session, beat: Beat) -> Result<Taken, StoreDown> {
        let content = serde_json::to_vec(&beat).map_err(|e| self.unreadable(e))?;
        let seq = beat.seq.to_string();
        let args: [&[u8]; 5] = [
            node.as_str().as_bytes(),
            session.as_str().as_bytes(),
            seq.as_bytes(),
            &content,
            flag(beat.draining),
        ];
        let answer: Value = self.run(&scripts::BEAT, &args).await?;
        decode::taken(answer).map_err(|e| self.unreadable(e))
    }

    async fn leave(&self, node: &NodeId, session: &Session) -> Result<Left, StoreDown> {
        let args = [node.as_str(), session.as_str()].map(str::as_bytes);
        let answer: Value = self.run(&scripts::LEAVE, &args).await?;
        decode::left(answer).map_err(|e| self.unreadable(e))
    }

    async fn evict(&self, node: &NodeId) -> Result<bool, StoreDown> {
        self.done(&scripts::REMOVE, &[node.as_str().as_bytes(), b""])
            .await
    }

    async fn purge(&self, node: &NodeId, unless_beaten_since: u64) -> Result<bool, StoreDown> {
        let since = unless_beaten_since.to_string();
        let args = [node.as_str(), &since].map(str::as_bytes);
        self.done(&scripts::REMOVE, &args).await
    }

    async fn set_drain(&self, node: &NodeId, on: bool) -> Result<bool, StoreDown> {
        self.done(&scripts::DRAIN, &[node.as_str().as_bytes(), flag(on)])
            .await
    }

    async fn reset_breaker(&self, node: &NodeId) -> Result<bool, StoreDown> {
        self.done(&scripts::RESET, &[node.as_str().as_bytes()])
            .await
    }

    async fn acquire(
        &self,
        node: &NodeId,
        model: Option<&str>,
        lease: &LeaseId,
        max: u32,
        ttl_ms: u64,
    ) -> Result<Admission, StoreDown> {
        let mut give_back = GiveBack {
            store: self.clone(),
            what: Some((node.clone(), lease.clone(), model.map(str::to_owned))),
            for_ms: ttl_ms,
        };
        let args = [
            node.as_str(),
            model.unwrap_or_default(),
            lease.as_str(),
            &max.to_string(),
            &ttl_ms.to_string(),
            &self.shared.limits.ttl_ms.to_string(),
        ];
        let answer: Value = self
            .run(&scripts::ACQUIRE, &args.map(str::as_bytes))
            .await?;
        let admission = decode::admission(answer).map_err(|e| self.unreadable(e))?;
        give_back.answered();
        Ok(admission)
    }

    async fn renew(&self, node: &NodeId, lease: &LeaseId, ttl_ms: u64) -> Result<bool, StoreDown> {
        let ttl = ttl_ms.to_string();
        let args = [node.as_str(), lease.as_str(), &ttl].map(str::as_bytes);
        self.done(&scripts::RENEW, &args).await
    }

    async fn settle(
        &self,
        node: &NodeId,
        lease: &LeaseId,
        model: Option<&str>,
        outcome: Outcome,
    ) -> Result<(), StoreDown> {
        let mut give_back = GiveBack {
            store: self.clone(),
            what: Some((node.clone(), lease.clone(), model.map(str::to_owned))),
            for_ms: self.shared.limits.lease_ttl_ms,
        };
        self.send_settle(node, lease, model, &outcome).await?;
        give_back.answered();
        Ok(())
    }

    async fn put_key(&self, key: KeyRecord) -> Result<bool, StoreDown> {
        let content = serde_json::to_vec(&key).map_err(|e| self.unreadable(e))?;
        self.done(&scripts::PUT_KEY, &[key.name.as_bytes(), &content])
            .await
    }

    async fn revoke_key(&self, name: &str) -> Result<Option<Revoked>, StoreDown> {
        let answer: Option<(Vec<u8>, bool)> =
            self.run(&scripts::REVOKE_KEY, &[name.as_bytes()]).await?;
        let revoked = answer.map(|(content, evicted)| {
            let key = serde_json::from_slice(&content).map_err(|e| self.unreadable(e))?;
            Ok(Revoked { key, evicted })
        });
        revoked.transpose()
    }

    async fn keys(&self) -> Result<KeySet, StoreDown> {
        let (version, contents): (u64, Vec<Vec<u8>>) = self.run(&scripts::KEYS, &[]).await?;
        let keys = contents
            .iter()
            .map(|content| serde_json::from_slice(content));
        let mut keys: Vec<KeyRecord> = keys
            .collect::<Result<_, _>>()
            .map_err(|e| self.unreadable(e))?;
        keys.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(KeySet { version, keys })
    }
}

fn flag(on: bool) -> &'static [u8] {
    if on { b"1" } else { b"0" }
}
