//! The connection to Redis: one, multiplexed, that comes back by itself.
//!
//! Owns: both time-outs, replacing a connection that has gone dead, words for what failed. Leaves
//! to others: what is asked.
//!
//! The library's manager connects again after an error of the socket. Two cases it cannot see are
//! seen here: a server that was demoted to a replica (`READONLY`), and a connection whose other end
//! is silent, because its host went away without a word.
//!
//! It may be asked from another runtime than the one it was made in. What it spawns is in its own all
//! the same: a connection is not served by whoever happened to need it first.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::redis::aio::{ConnectionManager, ConnectionManagerConfig};
use ::redis::{Client, ErrorKind, FromRedisValue, RedisError, ServerErrorKind};
use tokio::runtime::Handle;

use super::super::{StoreDown, Version};
use super::scripts::Script;
use crate::rules::pool::redis_address::RedisAddress;

/// So many answers in a row that do not come make the connection suspect.
const SILENT: u32 = 3;

/// A connection is replaced at most this often.
const RENEW_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Link {
    address: RedisAddress,
    client: Client,
    /// For a connection, and for an answer.
    timeout: Duration,
    manager: Mutex<(ConnectionManager, Instant)>,
    home: Handle,
    /// Time-outs in a row.
    silent: AtomicU32,
}

impl Link {
    /// Inside the runtime that is to serve it.
    pub(super) fn new(address: RedisAddress, timeout: Duration) -> Result<Self, StoreDown> {
        let wrong = |e: RedisError| StoreDown {
            reason: address.masked(&format!("{address}: {e}")),
        };
        let client = Client::open(address.url().reveal()).map_err(wrong)?;
        let manager = connect(&client, timeout).map_err(wrong)?;
        Ok(Self {
            manager: Mutex::new((manager, Instant::now())),
            client,
            address,
            timeout,
            home: Handle::current(),
            silent: AtomicU32::new(0),
        })
    }

    pub(super) async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        now: &[u8],
        args: &[&[u8]],
    ) -> Result<T, StoreDown> {
        let mut call = script.prepare_invoke();
        call.arg(now);
        for arg in args {
            call.arg(*arg);
        }
        let mut connection = self.connection();
        let answer = self.at_home(call.invoke_async(&mut connection)).await;
        self.judge(answer)
    }

    pub(super) async fn version(&self) -> Result<Version, StoreDown> {
        let mut connection = self.connection();
        let mut get = ::redis::cmd("GET");
        let answer = get.arg("node:version").query_async(&mut connection);
        let answer = self.at_home(answer).await;
        Ok(self.judge::<Option<Version>>(answer)?.unwrap_or(0))
    }

    /// What is stored is not what was written: another version, or another program.
    pub(super) fn unreadable(&self, why: impl std::fmt::Display) -> StoreDown {
        let reason = format!("{}: unreadable: {why}", self.address);
        StoreDown {
            reason: self.address.masked(&reason),
        }
    }

    async fn at_home<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            let _home = self.home.enter();
            work.as_mut().poll(context)
        })
        .await
    }

    fn connection(&self) -> ConnectionManager {
        let manager = self.manager.lock().unwrap_or_else(PoisonError::into_inner);
        manager.0.clone()
    }

    fn judge<T>(&self, answer: Result<T, RedisError>) -> Result<T, StoreDown> {
        let error = match answer {
            Ok(value) => {
                self.silent.store(0, Ordering::Relaxed);
                return Ok(value);
            },
            Err(error) => error,
        };
        let silent = match error.is_timeout() {
            true => self.silent.fetch_add(1, Ordering::Relaxed) + 1,
            false => 0,
        };
        let demoted = error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly);
        if silent >= SILENT || demoted {
            self.replace();
        }
        Err(StoreDown {
            reason: format!("{}: {}", self.address, self.words(&error)),
        })
    }

    fn replace(&self) {
        let mut manager = self.manager.lock().unwrap_or_else(PoisonError::into_inner);
        if manager.1.elapsed() < RENEW_EVERY {
            return;
        }
        let _home = self.home.enter();
        if let Ok(new) = connect(&self.client, self.timeout) {
            *manager = (new, Instant::now());
            self.silent.store(0, Ordering::Relaxed);
        }
    }

    /// What failed, without a credential.
    fn words(&self, error: &RedisError) -> String {
        let text = match error.kind() {
            _ if error.is_timeout() => format!("no answer within {} ms", self.timeout.as_millis()),
            _ if error.is_connection_refusal() => "connection refused".to_owned(),
            ErrorKind::AuthenticationFailed => "it refuses the password".to_owned(),
            _ => error.to_string(),
        };
        let short: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
        self.address.masked(&short)
    }
}

/// Does not connect yet: the first call does.
fn connect(client: &Client, timeout: Duration) -> Result<ConnectionManager, RedisError> {
    let config = ConnectionManagerConfig::new()
        .set_connection_timeout(Some(timeout))
        .set_response_timeout(Some(timeout))
        .set_number_of_retries(1)
        .set_max_delay(Duration::from_millis(500));
    ConnectionManager::new_lazy_with_config(client.clone(), config)
}
