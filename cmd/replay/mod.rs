//! `replay`: recorded requests again, decided by the running daemon, or sent by it.
//!
//! Owns: handing a recording over, following the replay, Ctrl-C. Leaves to others: reading a file
//! (`recording`), the bar (`bar`), the wording (`text`).

mod bar;
mod recording;
mod text;

use std::process::ExitCode;
use std::time::Duration;

use nvpair_proxy::control::client::{ControlApiClient, ControlClient, ReplayUpdates};
use nvpair_proxy::wire::replay::{Arrival, ReplayReport, ReplayUpdate, Source};
use tokio::time::{Instant, sleep_until};

use crate::cli::{Globals, ReplayArgs};
use crate::connect::attached;
use crate::errors::{CliError, Kind};
use crate::live::Interrupt;
use crate::output::{self, Look};

use bar::Bar;
use recording::Recording;

/// Workloads handed over in one call: some 150 KB.
const BATCH: usize = 500;

/// Bytes of names in one call, give or take one line.
const BATCH_BYTES: usize = 1 << 20;

/// After Ctrl-C the daemon has this long to say what came of it.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// Runs it.
pub fn run(args: &ReplayArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let recording = match &args.file {
        Some(file) => Some(recording::read(file, args)?),
        None => None,
    };
    let mut skipped = 0;
    if let Some(recording) = &recording {
        skipped = recording.skipped;
        recording.warn();
    }
    let report = attached(globals, async |client| {
        replay(args, globals, client, recording).await
    })?;
    let Some(mut report) = report else {
        return Ok(ExitCode::FAILURE);
    };
    recording::warn_of_journal(report.skipped_lines);
    report.skipped_lines += skipped;
    match globals.json {
        true => output::print_json(&report)?,
        false => output::print(&text::report(
            &report,
            args,
            globals,
            &Look::stdout(globals),
        ))?,
    }
    let stopped = report.sent.as_ref().is_some_and(|s| s.cancelled);
    Ok(match stopped {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// Runs it in the daemon; nothing where Ctrl-C ended it without a result.
async fn replay(
    args: &ReplayArgs,
    globals: &Globals,
    client: &ControlClient,
    recording: Option<Recording>,
) -> Result<Option<ReplayReport>, CliError> {
    let interrupt = Interrupt::listen();
    let prepared = tokio::select! {
        prepared = prepare(args, client, recording) => prepared?,
        // It was not followed yet: the daemon forgets it.
        () = interrupt.pressed() => return Ok(None),
    };
    let (replay, mut updates) = prepared;
    let bar = Bar::start(args.send, globals);
    loop {
        tokio::select! {
            update = next(&mut updates) => match update? {
                ReplayUpdate { report: Some(report), .. } => return Ok(Some(report)),
                ReplayUpdate { failure: Some(why), .. } => {
                    return Err(CliError::new(Kind::Failed, "the replay failed").why(why));
                },
                ReplayUpdate { progress: Some(progress), .. } => bar.show(&progress),
                _ => {},
            },
            () = interrupt.pressed() => break,
        }
    }
    // Without requests there is nothing to be told yet.
    if !args.send {
        return Ok(None);
    }
    let again = Interrupt::listen();
    client.call(async |c| c.replay_cancel(replay).await).await?;
    let limit = Instant::now() + STOP_LIMIT;
    loop {
        tokio::select! {
            update = next(&mut updates) => {
                if let Some(report) = update?.report {
                    return Ok(Some(report));
                }
            },
            () = again.pressed() => return Ok(None),
            () = sleep_until(limit) => {
                return Err(CliError::new(Kind::Failed, "the daemon does not end the replay")
                    .try_this("nvpair-proxy status"));
            },
        }
    }
}

/// Prepares it, and follows it from its first moment on.
async fn prepare(
    args: &ReplayArgs,
    client: &ControlClient,
    recording: Option<Recording>,
) -> Result<(u64, ReplayUpdates), CliError> {
    let source = match recording {
        Some(_) => Source::Given,
        None => Source::Journal,
    };
    let since = args.since.map(|d| d.as_millis() as u64);
    let last = args.last.map(|n| n as usize);
    let started = client
        .call(async |c| {
            let (send, speed) = (Some(args.send), Some(args.speed));
            c.replay_start(args.engine, Some(source), since, last, send, speed)
                .await
        })
        .await?;
    let replay = started.replay;
    if let Some(recording) = recording {
        hand_over(client, replay, recording.arrivals).await?;
    }
    let updates = client
        .call(async |c| c.replay_subscribe(replay).await)
        .await?;
    Ok((replay, updates))
}

async fn hand_over(
    client: &ControlClient,
    replay: u64,
    arrivals: Vec<Arrival>,
) -> Result<(), CliError> {
    let mut rest = arrivals.into_iter().peekable();
    while rest.peek().is_some() {
        let batch = batch(&mut rest);
        client
            .call(async |c| c.replay_add(replay, batch).await)
            .await?;
    }
    Ok(())
}

/// As many as go into one call: names in a file may be long.
fn batch(rest: &mut impl Iterator<Item = Arrival>) -> Vec<Arrival> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while batch.len() < BATCH && bytes < BATCH_BYTES {
        let Some(arrival) = rest.next() else { break };
        bytes += arrival.model.len() + arrival.path.len();
        batch.push(arrival);
    }
    batch
}

async fn next(updates: &mut ReplayUpdates) -> Result<ReplayUpdate, CliError> {
    match updates.next().await {
        Some(Ok(update)) => Ok(update),
        Some(Err(e)) => Err(
            CliError::new(Kind::Failed, "the replay's answer cannot be read")
                .why(e.to_string())
                .try_this("the same version of daemon and command"),
        ),
        None => Err(
            CliError::new(Kind::Failed, "the connection to the daemon broke")
                .why("it ended, and the replay with it")
                .try_this("nvpair-proxy status"),
        ),
    }
}
