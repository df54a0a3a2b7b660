//! The link: one reader, one message at a time, each request answered once.
//!
//! Owns: the run of the link, answers and their form, the panic fence around a message.
//! Leaves to others: lines and envelopes (`codec`), what a message asks (`decode`), the queue
//! (`outbox`), carrying out (`daemon`).
//!
//! An answer is queued inside the command's responder, on the daemon's task: so notices that the
//! daemon emits before and after it stand before and after it in the output. The next line is read
//! only then; a slow command delays everything behind it, as in the original.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::io::AsyncRead;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::codec::{self, Inbound, Line, LineReader, MAX_INBOUND, Message};
use super::decode::{self, Call, Ignored};
use super::outbox::Outbox;
use crate::rules::engine::EngineId;
use crate::rules::ids::NodeId;
use crate::rules::log_level::LogLevel;
use crate::state::command::{Command, Commands, Enabled, Responder};
use crate::state::query::Queries;
use crate::wire::broker::NodeRecord;
use crate::wire::control::Selected;
use crate::wire::jsonrpc::{CommandError, ErrorCode};

/// What the broker waits for an answer; a later one it no longer hears.
const BUDGET: Duration = Duration::from_secs(5);

/// Longest part of an unknown method's name that is logged.
const NAME_SHOWN: usize = 64;

/// Why the link ended. Each is a reason to shut down.
#[derive(Debug)]
pub enum LinkEnd {
    /// The broker closed our input: the ordinary end.
    Eof,
    /// `shutdown` was answered.
    Shutdown,
    /// Our input cannot be read.
    Failed(io::Error),
}

/// Serves the link until it ends. Dropping the future ends it too, between two steps.
pub async fn run(
    input: impl AsyncRead + Unpin,
    outbox: Outbox,
    commands: Commands,
    queries: Arc<dyn Queries>,
) -> LinkEnd {
    let mut lines = LineReader::new(input, MAX_INBOUND);
    let link = Link {
        outbox,
        commands,
        queries,
    };
    loop {
        match lines.next().await {
            Ok(Some(Line::Whole(line))) => {
                if link.line(line).await == Next::End {
                    return LinkEnd::Shutdown;
                }
            },
            Ok(Some(Line::Oversized)) => {
                tracing::warn!(limit = MAX_INBOUND, "skipped a line above the limit");
            },
            Ok(None) => return LinkEnd::Eof,
            Err(e) => return LinkEnd::Failed(e),
        }
    }
}

struct Link {
    outbox: Outbox,
    commands: Commands,
    queries: Arc<dyn Queries>,
}

/// Whether another line is read.
#[derive(PartialEq)]
enum Next {
    Line,
    End,
}

impl Link {
    async fn line(&self, line: &[u8]) -> Next {
        // As in the original: bytes that are no UTF-8 spoil their character, not their message.
        let text = String::from_utf8_lossy(line);
        match codec::parse(&text) {
            Ok(Inbound::Message(message)) => self.message(message).await,
            Ok(Inbound::Response) => Next::Line,
            Err(why) => {
                tracing::warn!(%why, bytes = line.len(), "skipped a malformed line");
                Next::Line
            },
        }
    }

    /// Handles a message behind a fence: a panic costs this message only.
    async fn message(&self, message: Message<'_>) -> Next {
        let answer = Arc::new(Answer {
            outbox: self.outbox.clone(),
            id: message.id.map(ToOwned::to_owned),
            method: message.method.clone(),
            given: AtomicBool::new(false),
        });
        let started = Instant::now();
        let handled = self.handle(&message, &answer);
        let next = match AssertUnwindSafe(handled).catch_unwind().await {
            Ok(Ok(next)) => next,
            Ok(Err(refusal)) => {
                answer.refuse(&refusal);
                Next::Line
            },
            // Without the payload, which may quote content.
            Err(_) => {
                answer.refuse(&answer.unanswered());
                Next::Line
            },
        };
        if started.elapsed() > BUDGET {
            let method = shown(&message.method);
            tracing::warn!(method, "took longer than the broker's limit of 5 s");
        }
        next
    }

    async fn handle(
        &self,
        message: &Message<'_>,
        answer: &Arc<Answer>,
    ) -> Result<Next, CommandError> {
        let is_enabled = |engine| self.queries.is_enabled(engine);
        let call = if message.id.is_some() {
            decode::request(&message.method, message.params, is_enabled)?
        } else {
            match decode::notification(&message.method, message.params, is_enabled) {
                Ok(call) => call,
                Err(Ignored::NoFacade) => return Ok(Next::Line),
                Err(Ignored::Unknown) => {
                    let method = shown(&message.method);
                    tracing::info!(method, "ignored an unknown notification");
                    return Ok(Next::Line);
                },
                Err(Ignored::Invalid(refusal)) => return Err(refusal),
            }
        };
        let next = match call {
            Call::Shutdown => Next::End,
            _ => Next::Line,
        };
        self.carry_out(call, answer).await?;
        Ok(next)
    }

    /// Answers from the state, or asks the daemon and waits until its answer is queued.
    async fn carry_out(&self, call: Call, answer: &Arc<Answer>) -> Result<(), CommandError> {
        let last = matches!(call, Call::Shutdown);
        let (done, answered) = oneshot::channel();
        let reply = Reply {
            answer: Arc::clone(answer),
            done,
        };
        if let Some(command) = self.command(call, reply) {
            match self.commands.send(command).await {
                // A daemon that is stopping already does what a shutdown asks.
                Err(_) if last => answer.reply(&()),
                sent => sent?,
            }
            // Nothing is ever sent: it ends when the responder was called, or dropped by a panic.
            drop(answered.await);
        }
        if answer.given.load(Ordering::Acquire) {
            Ok(())
        } else {
            Err(answer.unanswered())
        }
    }

    /// The command that a call means, with its answer's form; `None` if it is answered already.
    fn command(&self, call: Call, to: Reply) -> Option<Command> {
        Some(match call {
            Call::Nodes(engine) => {
                let nodes = self.queries.nodes(engine);
                to.answer.reply(&NodeList { nodes });
                return None;
            },
            Call::Selected(engine) => {
                let pin = self.queries.selected(engine);
                to.answer.reply(&selected(pin.as_ref()));
                return None;
            },
            Call::Enable(enable) => {
                let engine = enable.engine;
                let to = to.shaped(move |Enabled { port, .. }| Listening { engine, port });
                Command::Enable(enable, to)
            },
            Call::SetPort(engine, port) => Command::SetPort(engine, port, to.shaped(|set| set)),
            Call::Select(engine, pin) => {
                let result = selected(pin.as_ref());
                Command::Select(engine, pin, to.shaped(|()| result))
            },
            Call::AddManual(engine, node) => {
                Command::AddManual(engine, node, to.shaped(|()| Added { added: true }))
            },
            Call::RemoveManual(engine, id) => {
                Command::RemoveManual(engine, id, to.shaped(|removed| Removed { removed }))
            },
            Call::SetLocalBackend(engine, backend) => {
                Command::SetLocalBackend(engine, backend, to.shaped(|()| Accepted { ok: true }))
            },
            Call::SetPriority(snapshot) => {
                Command::SetPriority(snapshot, to.shaped(|count| Count { count }))
            },
            Call::Discovery(engine, nodes) => Command::Discovery(engine, nodes, to.shaped(|()| ())),
            Call::SetLogLevel(level) => Command::SetLogLevel(level, to.shaped(Level::from)),
            Call::Shutdown => Command::Shutdown(to.shaped(|()| ())),
        })
    }
}

/// Makes the responder of a command.
struct Reply {
    answer: Arc<Answer>,
    /// Dropped when the answer is queued: only then may the next line be read.
    done: oneshot::Sender<()>,
}

impl Reply {
    /// A responder that answers with what `shape` makes of the result.
    fn shaped<T, R: Serialize>(self, shape: impl FnOnce(T) -> R + Send + 'static) -> Responder<T> {
        Responder::new(move |result| {
            match result {
                Ok(value) => self.answer.reply(&shape(value)),
                Err(refusal) => self.answer.refuse(&refusal),
            }
            drop(self.done);
        })
    }
}

/// The one answer of a message: the first counts. That of a notification goes nowhere.
struct Answer {
    outbox: Outbox,
    id: Option<Box<RawValue>>,
    method: String,
    given: AtomicBool,
}

impl Answer {
    fn reply(&self, result: &impl Serialize) {
        if self.is_first()
            && let Some(id) = &self.id
        {
            self.outbox.reply(id, result);
        }
    }

    fn refuse(&self, refusal: &CommandError) {
        if !self.is_first() {
            return;
        }
        match &self.id {
            Some(id) => self.outbox.refuse(id, refusal),
            None => {
                let (method, code) = (shown(&self.method), refusal.code.number());
                // Without the text, which may quote a value.
                tracing::warn!(method, code, "a notification was refused; nothing changed");
            },
        }
    }

    fn is_first(&self) -> bool {
        !self.given.swap(true, Ordering::AcqRel)
    }

    /// What is answered after a panic, here or in the daemon; the panic hook has told where.
    fn unanswered(&self) -> CommandError {
        let method = shown(&self.method);
        tracing::error!(
            method,
            "a message was left unanswered: a panic, or the daemon stopped"
        );
        let text = format!("internal error in {method}");
        CommandError::new(ErrorCode::Internal, text)
    }
}

/// The beginning of a method's name: whoever sent it may have put anything there.
fn shown(method: &str) -> &str {
    method
        .char_indices()
        .nth(NAME_SHOWN)
        .map_or(method, |(end, _)| &method[..end])
}

fn selected(pin: Option<&NodeId>) -> Selected {
    Selected {
        id: pin.map_or_else(String::new, ToString::to_string),
    }
}

/// Answer of `facade/enable`.
#[derive(Serialize)]
struct Listening {
    engine: EngineId,
    port: u16,
}

/// Answer of `nodes/list`.
#[derive(Serialize)]
struct NodeList {
    nodes: Vec<NodeRecord>,
}

/// Answer of `node/add-manual`.
#[derive(Serialize)]
struct Added {
    added: bool,
}

/// Answer of `node/remove-manual`.
#[derive(Serialize)]
struct Removed {
    removed: bool,
}

/// Answer of `node/set-local-backend`.
#[derive(Serialize)]
struct Accepted {
    ok: bool,
}

/// Answer of `node/set-priority`.
#[derive(Serialize)]
struct Count {
    count: usize,
}

/// Answer of `log/set-level`.
#[derive(Serialize)]
struct Level {
    level: &'static str,
}

impl From<LogLevel> for Level {
    fn from(level: LogLevel) -> Self {
        Self {
            level: level.as_str(),
        }
    }
}

#[cfg(test)]
mod tests;
