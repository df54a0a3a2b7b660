//! The node keys as a gateway knows them: the store's, kept here as well, so that known keys stay
//! valid while the store is down.
//!
//! Owns: making keys, the cache, putting keys back into a store that lost everything. Leaves to
//! others: who may create and revoke, when to look again (`Fleet::keys_version` tells).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};
use tokio::time::{Instant, sleep_until};

use super::{KeySet, PoolStore, StoreDown, Version};
use crate::rules::ids::NodeId;
use crate::rules::pool::key::{self, KeyHash, KeyRecord, RANDOM_BYTES, Revoked};
use crate::rules::pool::sizes::Invalid;
use crate::rules::secret::Secret;
use crate::wall_clock;

/// Between two looks into the store for keys that nobody here knows.
const LOOKS: Duration = Duration::from_millis(100);

/// What a key is created with.
#[derive(Clone, Debug, Default)]
pub struct NewKey {
    /// Its name.
    pub name: String,
    /// The node it speaks for.
    pub node: String,
    /// Networks, addresses and host names; empty = the address that the node registers from.
    pub allow: Vec<String>,
    /// Patterns of models; empty = all.
    pub models: Vec<String>,
}

/// Why a key was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// A field is wrong.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The name is taken.
    #[error("a key named {0:?} exists; choose another name, or revoke it first")]
    Exists(String),
    /// The system gives no random bytes.
    #[error("the system gives no random bytes")]
    NoRandom,
    /// The store is down.
    #[error(transparent)]
    Store(#[from] StoreDown),
}

/// The keys, cached.
pub struct KeyRing<S> {
    store: Arc<S>,
    known: Mutex<Arc<KeySet>>,
    /// Held while the store is asked, so that an answer of before a revocation is never taken over
    /// after it.
    turn: tokio::sync::Mutex<()>,
    /// The last look for an unknown key.
    looked: tokio::sync::Mutex<Option<Look>>,
}

struct Look {
    begun: Instant,
    /// `None`: whoever asked left before it was over.
    answer: Option<Result<(), StoreDown>>,
}

impl<S: PoolStore> KeyRing<S> {
    /// An empty ring: [`KeyRing::refresh`] fills it.
    pub fn new(store: Arc<S>) -> Self {
        Self {
            store,
            known: Mutex::default(),
            turn: Default::default(),
            looked: Default::default(),
        }
    }

    /// The version of what is known: compare with [`super::Fleet::keys_version`].
    pub fn version(&self) -> Version {
        self.known().version
    }

    /// Takes the store's keys over. A store without any history of keys lost them (a flushed
    /// Redis): what is known here is put back.
    ///
    /// # Errors
    /// The store is down; what was known stays known.
    pub async fn refresh(&self) -> Result<(), StoreDown> {
        let _turn = self.turn.lock().await;
        self.take_over().await
    }

    async fn take_over(&self) -> Result<(), StoreDown> {
        let mut set = self.store.keys().await?;
        let known = self.known();
        if set.version == 0 && !known.keys.is_empty() {
            tracing::warn!(
                keys = known.keys.len(),
                "the pool's store lost its node keys; those known here are put back"
            );
            for key in &known.keys {
                self.store.put_key(key.clone()).await?;
            }
            set = self.store.keys().await?;
        }
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(set);
        Ok(())
    }

    /// The key that was presented, if it is known.
    pub fn find(&self, presented: &str) -> Option<KeyRecord> {
        key::find(&self.known().keys, presented).cloned()
    }

    /// The same; a key that is not known here is looked for in the store, since another gateway may
    /// have made it a moment ago. Whoever asks for unknown keys by the thousand waits: all of them
    /// together cost ten looks a second.
    ///
    /// # Errors
    /// It is not known here, and the store is down.
    pub async fn find_anywhere(&self, presented: &str) -> Result<Option<KeyRecord>, StoreDown> {
        if let Some(found) = self.find(presented) {
            return Ok(Some(found));
        }
        // What cannot be a key at all is not worth a question.
        if key::secret_part(presented).is_none() {
            return Ok(None);
        }
        let asked = Instant::now();
        let mut looked = self.looked.lock().await;
        if let Some(Look { begun, answer }) = &*looked {
            // One that began after the question answers it, too.
            if let (true, Some(answer)) = (*begun >= asked, answer) {
                answer.clone()?;
                return Ok(self.find(presented));
            }
            sleep_until(*begun + LOOKS).await;
        }
        let look = looked.insert(Look {
            begun: Instant::now(),
            answer: None,
        });
        let answer = self.refresh().await;
        look.answer = Some(answer.clone());
        answer?;
        Ok(self.find(presented))
    }

    /// The same, after a look into the store: for registrations, so that a key that another gateway
    /// revoked or made a moment ago counts at once. With the store down, what is known counts.
    pub async fn find_fresh(&self, presented: &str) -> Option<KeyRecord> {
        // Registering fails for the same reason and tells it.
        let _ = self.refresh().await;
        self.find(presented)
    }

    /// All keys that are known, by name.
    pub fn list(&self) -> Vec<KeyRecord> {
        self.known().keys.clone()
    }

    /// Makes a key and keeps its hash. This is the only time that the key itself is to be had.
    ///
    /// # Errors
    /// A field is wrong, the name is taken, or the store is down.
    pub async fn create(&self, new: NewKey) -> Result<(Secret, KeyRecord), CreateError> {
        let mut random = [0; RANDOM_BYTES];
        let filled = SystemRandom::new().fill(&mut random);
        filled.map_err(|_| CreateError::NoRandom)?;
        let secret = key::make(random);
        let hash = KeyHash::of(secret.reveal()).ok_or(CreateError::NoRandom)?;
        let record = KeyRecord {
            name: new.name,
            node: NodeId::from(new.node),
            hash,
            allow: new.allow,
            models: new.models,
            // For people only: nothing is decided by it.
            created_at: wall_clock::unix_ms(),
        };
        record.check()?;
        if !self.store.put_key(record.clone()).await? {
            return Err(CreateError::Exists(record.name));
        }
        self.refresh().await?;
        Ok((secret, record))
    }

    /// Revokes a key, and evicts the node that registered with it; `None` if there is none of this
    /// name.
    ///
    /// # Errors
    /// The store is down: the key is not revoked.
    pub async fn revoke(&self, name: &str) -> Result<Option<Revoked>, StoreDown> {
        let _turn = self.turn.lock().await;
        let revoked = self.store.revoke_key(name).await?;
        // It must not work here for a moment longer, whatever the refresh does.
        {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::make_mut(&mut known).keys.retain(|k| k.name != name);
        }
        self.take_over().await?;
        Ok(revoked)
    }

    fn known(&self) -> Arc<KeySet> {
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
