//! The callers that have a key: who they are, what they have used.
//!
//! Owns: the ring of keys in force, each one's counts, and the book that they are kept in. Leaves to
//! others: what a key may use and what counts (`rules::client_key`), finding one in a request
//! (`facade`), the files (`store`), when counts are saved (`daemon`).
//!
//! A key is looked for among those of this moment, at every request: one that was revoked is nobody's
//! from the next request on.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tokio::time::Instant;

use crate::rules::client_key::{
    Allowance, ClientKey, Grants, Limits, Moment, Over, Reserved, secret_part, token,
};
use crate::rules::demand::Demand;
use crate::rules::key_form::KeyHash;
use crate::rules::usage::Stats;
use crate::store::client_usage::{KeyUsage, UsageBook};
use crate::store::key_file::{KeyFile, KeyFileError};
use crate::wall_clock;
use crate::wire::client_keys::ClientKeyInfo;

/// Name of the file of the keys in the state folder.
const KEYS: &str = "client-keys.json";

/// A caller with a key.
pub struct Client {
    key: ClientKey,
    name: Arc<str>,
    grants: Grants,
    limits: Limits,
    allowance: Mutex<Allowance>,
    /// Unix ms; 0 = never.
    last_used: AtomicU64,
    began: Instant,
}

impl Client {
    /// A caller with this key, which has used this.
    fn new(key: ClientKey, used: Option<&KeyUsage>, began: Instant) -> Self {
        // The file was checked, and so was a new key: one that cannot be read opens nothing.
        let grants = Grants::parse(&key.allow).unwrap_or_default();
        let allowance = used.map_or_else(Allowance::default, |u| {
            Allowance::used_before(u.day, u.tokens)
        });
        Self {
            name: key.name.as_str().into(),
            grants,
            limits: Limits::from(&key),
            allowance: Mutex::new(allowance),
            last_used: AtomicU64::new(used.and_then(|u| u.last_used_at).unwrap_or(0)),
            key,
            began,
        }
    }

    /// The key's name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// What it may use.
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Whether its tokens are counted: then a request's demand has to be known.
    pub fn counts_tokens(&self) -> bool {
        self.limits.tokens.is_some()
    }

    /// It makes a request at this Unix millisecond.
    pub fn seen(&self, unix_ms: u64) {
        self.last_used.fetch_max(unix_ms, Ordering::Relaxed);
    }

    /// Takes a request in that may need this much. The charge is settled when the request ends.
    ///
    /// # Errors
    /// It is over a limit of the key.
    pub fn charge(self: &Arc<Self>, demand: Demand) -> Result<Charge, Over> {
        let now = self.now();
        let reserved = self.allowance().charge(self.limits, now, demand.total())?;
        Ok(Charge {
            client: self.clone(),
            reserved: Some(reserved),
            demand,
        })
    }

    fn now(&self) -> Moment {
        Moment {
            steady_ms: self.began.elapsed().as_millis() as u64,
            unix_ms: wall_clock::unix_ms(),
        }
    }

    fn allowance(&self) -> MutexGuard<'_, Allowance> {
        self.allowance
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn info(&self) -> ClientKeyInfo {
        let (_, tokens) = self.allowance().today(self.now());
        ClientKeyInfo {
            name: self.key.name.clone(),
            allow: self.key.allow.clone(),
            requests_per_minute: self.key.requests_per_minute,
            tokens_per_day: self.key.tokens_per_day,
            created_at: self.key.created_at,
            last_used_at: self.last_used_at(),
            tokens_today: self.counts_tokens().then_some(tokens),
        }
    }

    fn last_used_at(&self) -> Option<u64> {
        Some(self.last_used.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }

    fn usage(&self) -> KeyUsage {
        let (day, tokens) = self.allowance().today(self.now());
        KeyUsage {
            name: self.key.name.clone(),
            created_at: self.key.created_at,
            last_used_at: self.last_used_at(),
            day,
            tokens,
        }
    }
}

/// One request's charge. Dropped unsettled it gives its tokens back: nothing was answered.
pub struct Charge {
    client: Arc<Client>,
    reserved: Option<Reserved>,
    demand: Demand,
}

impl Charge {
    /// An answer went out, below status 400. What was not measured of it is taken for what the
    /// request could need: an answer that nobody can read must not be free.
    pub fn answered(mut self, stats: Option<&Stats>) {
        let used = match stats {
            None => self.demand.total(),
            Some(stats) => stats
                .prompt_tokens
                .unwrap_or(self.demand.input)
                .saturating_add(stats.completion_tokens.unwrap_or(0)),
        };
        self.settle(used);
    }

    fn settle(&mut self, used: u64) {
        if let Some(reserved) = self.reserved.take() {
            self.client.allowance().settle(reserved, used);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.settle(0);
    }
}

/// Why a change of the keys was not made, or they cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// This daemon keeps none.
    #[error("{0}")]
    Nowhere(&'static str),
    /// The file cannot be used or written.
    #[error(transparent)]
    File(#[from] KeyFileError),
    /// The name is taken.
    #[error("there is a key {0:?} already; choose another name, or revoke that one first")]
    Exists(String),
    /// There is no such key.
    #[error("no client key {0:?}; `nvpair-proxy keys list` shows those there are")]
    Unknown(String),
}

/// Where keys are kept.
enum Book {
    /// Nowhere, and why.
    Nowhere(&'static str),
    /// In a file that could not be used at the last look.
    Closed(PathBuf),
    /// In this file.
    Open(KeyFile<ClientKey>),
}

/// All callers with a key. Changes block: they write a file.
pub struct Clients {
    known: RwLock<Arc<[Arc<Client>]>>,
    /// Whether there are any: all that a request costs where there are none.
    any: AtomicBool,
    book: Mutex<Book>,
    usage: Mutex<Option<UsageBook>>,
    /// What keys used in earlier runs whose file cannot be used so far.
    earlier: Mutex<Vec<KeyUsage>>,
    began: Instant,
}

impl Default for Clients {
    fn default() -> Self {
        Self {
            known: RwLock::new(Arc::new([])),
            any: AtomicBool::new(false),
            book: Mutex::new(Book::Nowhere("this daemon keeps no client keys")),
            usage: Mutex::default(),
            earlier: Mutex::default(),
            began: Instant::now(),
        }
    }
}

impl Clients {
    /// No keys are kept, for this reason.
    pub fn keep_none(&self, why: &'static str) {
        *self.book() = Book::Nowhere(why);
    }

    /// Keys are kept in this folder: takes those in that are there, with what they have used. Blocks.
    ///
    /// # Errors
    /// A sentence: the keys cannot be used, so that there are none until the file is right (it is
    /// looked at again by each call), or what they have used is not known.
    pub fn keep_in(&self, folder: &Path) -> Result<(), String> {
        let book = UsageBook::in_folder(folder);
        let used = book.load();
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner) = Some(book);
        let mut keys = self.book();
        *keys = Book::Closed(folder.join(KEYS));
        let used = used.map(|used| *self.earlier() = used);
        self.open(&mut keys)
            .map_err(|e| format!("no client key is valid: {e}"))?;
        used.map_err(|e| format!("what client keys used today is not known and counted anew: {e}"))
    }

    /// Whether nobody has a key.
    pub fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    /// The caller whose key a header's value shows. All hashes are compared, whichever matches.
    pub fn recognise(&self, value: &[u8]) -> Option<Arc<Client>> {
        if self.is_empty() {
            return None;
        }
        let presented = std::str::from_utf8(token(value)).ok()?;
        let hash = KeyHash::of_secret(secret_part(presented)?);
        let mut found = None;
        for client in self.known().iter() {
            if client.key.hash.matches(&hash) {
                found = Some(client.clone());
            }
        }
        found
    }

    /// Adds a key, valid from now on. Blocks.
    ///
    /// # Errors
    /// The name is taken, or it cannot be kept: then it is not valid.
    pub fn add(&self, key: ClientKey) -> Result<ClientKeyInfo, KeysError> {
        let mut book = self.book();
        let file = self.opened(&mut book)?;
        if !file.add(key.clone())? {
            return Err(KeysError::Exists(key.name));
        }
        let client = Arc::new(Client::new(key, None, self.began));
        let info = client.info();
        let mut all = self.known().to_vec();
        all.push(client);
        self.replace(all);
        Ok(info)
    }

    /// Ends a key: the next request with it is a stranger's. Blocks.
    ///
    /// # Errors
    /// There is none of this name, or the file cannot be written: then it is still valid.
    pub fn revoke(&self, name: &str) -> Result<ClientKeyInfo, KeysError> {
        let mut book = self.book();
        let file = self.opened(&mut book)?;
        let unknown = || KeysError::Unknown(name.to_owned());
        file.remove(name)?.ok_or_else(unknown)?;
        let (gone, left) = self
            .known()
            .iter()
            .cloned()
            .partition(|c| c.key.name == name);
        self.replace(left);
        let gone: Vec<Arc<Client>> = gone;
        gone.first().map(|c| c.info()).ok_or_else(unknown)
    }

    /// All keys, by name. Blocks where the file has to be looked at again.
    ///
    /// # Errors
    /// None can be kept here.
    pub fn list(&self) -> Result<Vec<ClientKeyInfo>, KeysError> {
        self.opened(&mut self.book())?;
        let mut all: Vec<_> = self.known().iter().map(|c| c.info()).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// How many keys are in force.
    pub fn count(&self) -> usize {
        self.known().len()
    }

    /// What every key has used so far; also those whose file cannot be used now.
    pub fn usage(&self) -> Vec<KeyUsage> {
        let mut all = self.earlier().clone();
        all.extend(self.known().iter().map(|c| c.usage()));
        all
    }

    /// Writes down what keys have used. Blocks.
    ///
    /// # Errors
    /// A sentence: it cannot be written.
    pub fn save(&self, used: Vec<KeyUsage>) -> Result<(), String> {
        let book = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        book.as_ref().map_or(Ok(()), |book| book.save(used))
    }

    /// The file of keys, after another look if it could not be used before.
    fn opened<'b>(&self, book: &'b mut Book) -> Result<&'b mut KeyFile<ClientKey>, KeysError> {
        self.open(book)?;
        match book {
            Book::Open(file) => Ok(file),
            Book::Nowhere(why) => Err(KeysError::Nowhere(why)),
            // `open` gave its error then.
            Book::Closed(_) => Err(KeysError::Nowhere(
                "the file of the client keys is not open",
            )),
        }
    }

    fn open(&self, book: &mut Book) -> Result<(), KeyFileError> {
        let Book::Closed(path) = book else {
            return Ok(());
        };
        let file = KeyFile::<ClientKey>::open(path)?;
        let used = std::mem::take(&mut *self.earlier());
        let client = |key: ClientKey| {
            let used = used
                .iter()
                .find(|u| u.name == key.name && u.created_at == key.created_at);
            Arc::new(Client::new(key, used, self.began))
        };
        self.replace(file.keys().into_iter().map(client).collect());
        *book = Book::Open(file);
        Ok(())
    }

    fn replace(&self, all: Vec<Arc<Client>>) {
        let any = !all.is_empty();
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = all.into();
        self.any.store(any, Ordering::Release);
    }

    fn known(&self) -> Arc<[Arc<Client>]> {
        self.known
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn earlier(&self) -> MutexGuard<'_, Vec<KeyUsage>> {
        self.earlier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
