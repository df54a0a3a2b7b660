//! `workloads --follow`: changes as they happen.
//!
//! Owns: the live rows of a terminal, the lines of a pipe. Leaves to others: a row's cells
//! (`workloads`), frames (`live`).

use std::process::ExitCode;
use std::time::Duration;

use nvpair_proxy::control::client::{Changes, ClientError, ControlApiClient, ControlClient, known};
use nvpair_proxy::wire::control::{Workload, WorkloadChange};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::cli::{Globals, WorkloadsArgs};
use crate::connect::attached;
use crate::errors::{CliError, Kind};
use crate::live::{self, Interrupt, View};
use crate::output::{self, Look, Reader};
use crate::workloads::{HEAD, node_id, row, table};
use nvpair_proxy::wall_clock::unix_ms;

/// A terminal is drawn this often at most.
const FRAME: Duration = Duration::from_millis(100);

/// And this often at least, since ages grow.
const REFRESH: Duration = Duration::from_secs(1);

/// Widths of a line's cells in a pipe, where what is to come cannot be measured.
const WIDTHS: [usize; 10] = [6, 9, 24, 9, 16, 6, 7, 6, 6, 0];

/// Lines of a terminal that are not rows: header, note and the prompt to come.
const AROUND: usize = 3;

/// Runs it until Ctrl-C, or until nobody reads any more.
pub fn run(args: &WorkloadsArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    attached(globals, async |client| {
        match live::on_terminal() && !globals.json {
            true => on_terminal(args, globals, client).await,
            false => lines(args, globals, client).await,
        }
    })
}

/// A line for each change.
async fn lines(
    args: &WorkloadsArgs,
    globals: &Globals,
    client: &ControlClient,
) -> Result<ExitCode, CliError> {
    let interrupt = Interrupt::listen();
    let node = node_id(args, client).await?;
    let (engine, state, model) = (args.engine, args.state, args.model.clone());
    let mut changes = client
        .call(async |c| c.workloads_subscribe(engine, state, model, node).await)
        .await?;
    let mut unread = std::pin::pin!(live::unread());
    let mut reader = match globals.json {
        true => Reader::There,
        false => output::stream(&line(&HEAD.map(str::to_owned)))?,
    };
    while reader == Reader::There {
        let change = tokio::select! {
            change = next(&mut changes) => change?,
            () = interrupt.pressed() => break,
            () = &mut unread => break,
        };
        reader = match globals.json {
            true => output::stream(&output::json_line(&change)?)?,
            false => output::stream(&plain(&change))?,
        };
    }
    Ok(ExitCode::SUCCESS)
}

async fn next(changes: &mut Changes) -> Result<WorkloadChange, CliError> {
    match changes.next().await {
        Some(Ok(change)) => {
            known(&change)?;
            Ok(change)
        },
        Some(Err(e)) => Err(ClientError::Unreadable(e.to_string()).into()),
        None => Err(
            CliError::new(Kind::Failed, "the connection to the daemon broke")
                .why("it ended, or this reader was far too slow")
                .try_this("nvpair-proxy status"),
        ),
    }
}

fn plain(change: &WorkloadChange) -> String {
    let row = line(&row(&change.workload, unix_ms()));
    match change.missed {
        0 => row,
        missed => format!("{}{row}", note(missed)),
    }
}

fn note(missed: u64) -> String {
    format!("  … {missed} changes missed: this reader was too slow\n")
}

fn line(cells: &[String; 10]) -> String {
    let padded = std::iter::zip(cells, WIDTHS)
        .map(|(cell, width)| format!("{:<width$}", output::clean(cell)));
    let joined = padded.collect::<Vec<_>>().join("  ");
    format!("  {}\n", joined.trim_end())
}

/// The newest workloads, drawn in place.
async fn on_terminal(
    args: &WorkloadsArgs,
    globals: &Globals,
    client: &ControlClient,
) -> Result<ExitCode, CliError> {
    let interrupt = Interrupt::listen();
    let node = node_id(args, client).await?;
    let (engine, model) = (args.engine, args.model.clone());
    // A change out of the state or the node that is asked for has to be seen, to remove its row.
    let mut changes = client
        .call(async |c| c.workloads_subscribe(engine, None, model, None).await)
        .await?;
    let mut rows = Rows::new(args, node);
    let list = client
        .ask(async |c| {
            let (state, model, node) = (args.state, args.model.clone(), rows.node.clone());
            c.workloads_list(engine, state, model, node, Some(rows.limit()))
                .await
        })
        .await?;
    rows.shown = list.workloads;
    let (mut view, mut drawn, mut stale) = (View::default(), Instant::now(), true);
    let mut tick = interval(FRAME);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            change = next(&mut changes) => {
                rows.apply(change?);
                stale = true;
            },
            _ = tick.tick() => if stale || drawn.elapsed() >= REFRESH {
                let text = rows.render(unix_ms(), &Look::stdout(globals));
                if view.draw(&text)? == Reader::Gone {
                    break;
                }
                (drawn, stale) = (Instant::now(), false);
            },
            () = interrupt.pressed() => break,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What is on the screen.
struct Rows<'a> {
    args: &'a WorkloadsArgs,
    node: Option<String>,
    /// Newest first.
    shown: Vec<Workload>,
    missed: u64,
}

impl<'a> Rows<'a> {
    fn new(args: &'a WorkloadsArgs, node: Option<String>) -> Self {
        Self {
            args,
            node,
            shown: Vec::new(),
            missed: 0,
        }
    }

    /// As many as there is room for, now.
    fn limit(&self) -> usize {
        let room = live::rows().saturating_sub(AROUND).max(1);
        self.args.limit.map_or(room, |limit| limit.min(room))
    }

    fn apply(&mut self, change: WorkloadChange) {
        self.missed += change.missed;
        let w = change.workload;
        let at = self
            .shown
            .iter()
            .position(|s| s.engine == w.engine && s.id == w.id);
        match (at, self.wants(&w)) {
            (Some(at), true) => self.shown[at] = w,
            (Some(at), false) => drop(self.shown.remove(at)),
            (None, true) => {
                let newer = |s: &Workload| s.created_at > w.created_at;
                let at = self.shown.iter().position(|s| !newer(s));
                self.shown.insert(at.unwrap_or(self.shown.len()), w);
            },
            (None, false) => {},
        }
        self.shown.truncate(self.limit());
    }

    fn wants(&self, w: &Workload) -> bool {
        let on = |id: &String| w.node.as_ref().is_some_and(|n| n.as_str() == id);
        self.args.state.is_none_or(|s| s == w.state) && self.node.as_ref().is_none_or(on)
    }

    fn render(&self, now_ms: u64, look: &Look) -> String {
        let mut text = match self.shown.is_empty() {
            true => "  none yet; Ctrl-C ends this\n".to_owned(),
            false => table(&self.shown, now_ms, look),
        };
        if self.missed > 0 {
            text.push_str(&note(self.missed));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvpair_proxy::rules::engine::EngineId;
    use nvpair_proxy::rules::ids::{JobId, RunId};
    use nvpair_proxy::wire::broker::WorkloadState as State;
    use nvpair_proxy::wire::control::SCHEMA_VERSION;

    fn change(id: u64, state: State, node: Option<&str>) -> WorkloadChange {
        let workload = Workload {
            engine: EngineId::parse("ollama").unwrap(),
            id: JobId(id),
            run_id: RunId::from_bytes([1; 8]),
            model: "m".into(),
            path: "/api/chat".into(),
            body_bytes: 1,
            state,
            node: node.map(Into::into),
            created_at: id,
            started_at: None,
            ended_at: None,
            status: None,
            error: None,
            stats: None,
            timeline: vec![],
        };
        WorkloadChange {
            schema_version: SCHEMA_VERSION,
            seq: 1,
            missed: 0,
            workload,
        }
    }

    fn args(state: Option<State>, limit: Option<usize>) -> WorkloadsArgs {
        WorkloadsArgs {
            id: None,
            engine: None,
            state,
            model: None,
            node: None,
            limit,
            follow: true,
            export: None,
        }
    }

    fn ids(rows: &Rows) -> Vec<u64> {
        rows.shown.iter().map(|w| w.id.0).collect()
    }

    #[test]
    fn rows_change_in_place_and_the_newest_is_on_top() {
        let args = args(None, Some(3));
        let mut rows = Rows::new(&args, None);
        for id in [1, 3, 2, 4] {
            rows.apply(change(id, State::Queued, None));
        }
        assert_eq!(ids(&rows), [4, 3, 2]);
        rows.apply(change(3, State::Completed, Some("a")));
        assert_eq!(ids(&rows), [4, 3, 2]);
        assert_eq!(rows.shown[1].state, State::Completed);
    }

    #[test]
    fn a_row_that_no_longer_fits_goes() {
        let args = args(Some(State::Running), None);
        let mut rows = Rows::new(&args, Some("a".into()));
        rows.apply(change(1, State::Running, Some("a")));
        rows.apply(change(2, State::Running, Some("b")));
        rows.apply(change(3, State::Queued, Some("a")));
        assert_eq!(ids(&rows), [1]);
        rows.apply(change(1, State::Completed, Some("a")));
        assert!(ids(&rows).is_empty());
    }

    #[test]
    fn what_was_missed_is_told() {
        let late = WorkloadChange {
            missed: 12,
            ..change(1, State::Queued, None)
        };
        let text = plain(&late);
        assert!(text.contains("12 changes missed"), "{text}");
        let args = args(None, None);
        let mut rows = Rows::new(&args, None);
        rows.apply(late);
        let look = Look {
            color: false,
            width: None,
        };
        assert!(rows.render(5, &look).contains("12 changes missed"));
    }
}
