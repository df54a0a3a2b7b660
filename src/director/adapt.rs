//! The director's life after its start: probing, and following another configuration.
//!
//! Owns: the loop, and the order in which a difference is carried out.
//! Leaves to others: the difference (`config::change`), nodes (`keeper`), facades (`open`).
//!
//! What goes away goes first, so that a port or a name is free for whoever takes it next.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::keeper::{Keeper, News};
use super::{Opener, idle};
use crate::config::change;
use crate::config::settings::Settings;
use crate::rules::engine::EngineId;
use crate::state::command::Command;

/// Other settings, and who waits until they are carried out.
pub(super) struct Wanted {
    settings: Arc<Settings>,
    told: oneshot::Sender<Vec<String>>,
}

/// Hands the running director other settings.
pub struct Changes(mpsc::Sender<Wanted>);

impl Changes {
    pub(super) fn channel() -> (Self, mpsc::Receiver<Wanted>) {
        let (tx, rx) = mpsc::channel(1);
        (Self(tx), rx)
    }

    /// Waits until the director did what these settings ask for; a line for each thing that could
    /// not be done. New nodes are probed after that.
    pub async fn apply(&self, settings: Arc<Settings>) -> Vec<String> {
        let (told, answer) = oneshot::channel();
        let gone = || vec!["facades and nodes are as before: the director ended".to_owned()];
        if self.0.send(Wanted { settings, told }).await.is_err() {
            return gone();
        }
        answer.await.unwrap_or_else(|_| gone())
    }
}

enum Event {
    Met(News),
    Wanted(Wanted),
}

/// Probes for ever, and follows other settings.
pub(super) async fn run(
    mut keeper: Keeper,
    mut opener: Opener,
    mut changes: mpsc::Receiver<Wanted>,
) {
    loop {
        let event = tokio::select! {
            news = keeper.next() => Event::Met(news),
            Some(wanted) = changes.recv() => Event::Wanted(wanted),
        };
        match event {
            Event::Met(News::Probed(node)) => keeper.announce(node).await,
            Event::Met(News::Asked(ask)) => keeper.carry_out(ask).await,
            Event::Met(News::Nothing) => {},
            Event::Wanted(Wanted { settings, told }) => {
                let lines = adapt(&mut keeper, &mut opener, settings).await;
                // Whoever asked may have gone.
                drop(told.send(lines));
            },
        }
    }
}

async fn adapt(keeper: &mut Keeper, opener: &mut Opener, new: Arc<Settings>) -> Vec<String> {
    let old = std::mem::replace(&mut opener.settings, new.clone());
    let engines = change::engines(&old.engines, &new.engines);
    let wanted: Vec<_> = new.engines.iter().map(|e| e.engine).collect();
    let mut told = Vec::new();
    for engine in idle(&wanted) {
        if !keeper.rests(engine) {
            keeper.leave(engine);
        }
    }
    for engine in engines.off {
        let commands = &opener.commands;
        if let Err(e) = commands.call(|r| Command::Disable(engine, r)).await {
            told.push(line(engine, &e.message));
        }
    }
    keeper.change(&change::nodes(&old.nodes, &new.nodes)).await;
    for setting in &new.engines {
        let engine = setting.engine;
        let moved = engines.moved.contains(setting);
        if !opener.queries.is_enabled(engine) {
            // New, or it could not be opened before.
            for engine in asked_by(engine)
                .filter(|e| keeper.rests(*e))
                .collect::<Vec<_>>()
            {
                keeper.enter(engine).await;
            }
            if let Err(reason) = opener.open(*setting, &keeper.own_ports(engine)).await {
                let up: Vec<_> = (wanted.iter().copied())
                    .filter(|e| opener.queries.is_enabled(*e))
                    .collect();
                for engine in asked_by(engine).filter(|e| idle(&up).contains(e)) {
                    keeper.leave(engine);
                }
                told.push(line(engine, &reason));
            }
        } else if moved && let Err(reason) = opener.moved(*setting).await {
            told.push(line(engine, &reason));
        }
    }
    keeper.tell_all().await;
    told
}

/// The engines whose nodes a facade needs.
fn asked_by(facade: EngineId) -> impl Iterator<Item = EngineId> {
    EngineId::all().filter(move |e| facade.is_gateway() || *e == facade)
}

fn line(engine: EngineId, reason: &str) -> String {
    format!("{} facade: {reason}", engine.spec().display)
}
