//! The providers of the settings in force.
//!
//! Owns: handing them over at the start and after each reload. Leaves to others: what becomes of them
//! (`state::providers`).

use std::sync::Arc;

use tokio::sync::watch;

use crate::config::settings::Settings;
use crate::state::providers::Providers;

/// Sets the providers now, and again whenever the settings change, for as long as somebody may change
/// them.
pub fn follow(providers: Arc<Providers>, mut in_force: watch::Receiver<Arc<Settings>>) {
    set(&providers, &in_force.borrow_and_update());
    tokio::spawn(async move {
        while in_force.changed().await.is_ok() {
            set(&providers, &in_force.borrow_and_update());
        }
    });
}

fn set(providers: &Providers, settings: &Settings) {
    for wrong in providers.set(&settings.providers) {
        tracing::warn!("{wrong}");
    }
}
