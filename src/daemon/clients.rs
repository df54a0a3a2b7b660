//! Client keys out of the state folder: opened at the start, what they used saved now and then.
//!
//! Owns: whether keys are kept, when counts are saved, what is said where keys or networks are missing.
//! Leaves to others: the keys (`state::clients`), the files (`store`), the listeners (`commands`).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::state::clients::Clients;
use crate::state::settings::RequestSettings;
use crate::store::client_usage::KeyUsage;

/// Between two saves of what keys have used, if they used anything.
const EVERY: Duration = Duration::from_secs(60);

/// Why no keys are kept.
pub const DEMO: &str =
    "a demonstration keeps no client keys; run `nvpair-proxy serve` without --demo";
/// Why no keys are kept.
pub const NO_SOCKET: &str = "client keys need the control socket: without it none could be revoked";
/// Why no keys are kept.
pub const NO_FOLDER: &str =
    "client keys are kept in the state folder, and there is none; set STATE_DIRECTORY or HOME";

/// Keys that are kept, until the end.
pub struct Keeping {
    clients: Arc<Clients>,
    task: Option<JoinHandle<()>>,
}

/// Opens the keys of this folder, or none and why. What is wrong with them is a warning: requests of
/// this machine need no key.
pub fn open(clients: &Arc<Clients>, folder: Result<&Path, &'static str>) -> Keeping {
    let task = match folder {
        Err(why) => {
            clients.keep_none(why);
            None
        },
        Ok(folder) => {
            if let Err(told) = clients.keep_in(folder) {
                tracing::warn!("{told}");
            }
            Some(tokio::spawn(save_for_ever(clients.clone())))
        },
    };
    Keeping {
        clients: clients.clone(),
        task,
    }
}

impl Keeping {
    /// Saves what keys have used, for the last time.
    pub async fn end(self) {
        if let Some(task) = self.task {
            task.abort();
            save(&self.clients, self.clients.usage()).await;
        }
    }
}

/// What a person should know who let networks in: that a key is missing still.
pub fn advice(settings: &RequestSettings, clients: &Clients) -> Option<String> {
    (!settings.allowed_cidrs.is_empty() && clients.is_empty()).then(|| match clients.list() {
        Ok(_) => "allowed_cidrs: nobody is let in before there is a key; make one with \
                  `nvpair-proxy keys create NAME --allow all`"
            .to_owned(),
        Err(why) => format!("allowed_cidrs: nobody is let in: {why}"),
    })
}

async fn save_for_ever(clients: Arc<Clients>) {
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first one is at once.
    tick.tick().await;
    let mut saved = clients.usage();
    loop {
        tick.tick().await;
        let now = clients.usage();
        if now != saved {
            saved.clone_from(&now);
            save(&clients, now).await;
        }
    }
}

async fn save(clients: &Arc<Clients>, used: Vec<KeyUsage>) {
    let clients = clients.clone();
    let saved = tokio::task::spawn_blocking(move || clients.save(used)).await;
    if let Ok(Err(told)) = saved {
        tracing::warn!("what client keys have used is not saved: {told}");
    }
}
