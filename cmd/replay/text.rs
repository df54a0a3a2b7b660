//! A replay's report in words and tables.

use std::collections::BTreeMap;
use std::time::Duration;

use nvpair_proxy::rules::engine::EngineId;
use nvpair_proxy::rules::ids::JobId;
use nvpair_proxy::rules::units::{count, human_age};
use nvpair_proxy::wire::replay::{DryReport, NodeShare, ReplayReport, SentReport, Side};

use crate::cli::{Globals, ReplayArgs};
use crate::names::unique;
use crate::output::{Fit, Look, clean, dash};

/// Groups that are shown; with `-v` all are.
const GROUPS: usize = 15;

/// Workloads that are named of one group.
const NAMED: usize = 3;

/// A delay below this is none.
const LATE_MS: u64 = 1000;

/// The report.
pub fn report(report: &ReplayReport, args: &ReplayArgs, globals: &Globals, look: &Look) -> String {
    if report.workloads == 0 {
        return nothing(args);
    }
    let over = match (report.from_at, report.to_at) {
        (Some(from), Some(to)) => span(to.saturating_sub(from)),
        _ => span(0),
    };
    let most = match globals.verbose {
        0 => GROUPS,
        _ => usize::MAX,
    };
    let mut text = String::new();
    if let Some(dry) = &report.dry {
        text.push_str(&dry_head(report, dry, &over, look));
        text.push_str(&dry_table(dry, look));
        text.push_str(&moves(dry, most, look));
    }
    if let Some(sent) = &report.sent {
        text.push_str(&sent_report(report, sent, look));
    }
    text
}

fn nothing(args: &ReplayArgs) -> String {
    let place = match &args.file {
        Some(file) => clean(&file.display().to_string()),
        None => "the journal".to_owned(),
    };
    let narrowed = args.since.is_some() || args.engine.is_some();
    let such = if narrowed { " such" } else { "" };
    format!("Nothing to replay: no{such} workloads in {place}.\n")
}

fn dry_head(report: &ReplayReport, dry: &DryReport, over: &str, look: &Look) -> String {
    let known = dry.nodes.iter().filter(|n| n.known).count() as u64;
    let speed = f64::from(report.speed);
    let pace = match speed == 1.0 {
        true => String::new(),
        false => format!(" at {speed} times the pace"),
    };
    look.heading(&format!(
        "{} over {over}{pace}, against {} as {} now (nothing is sent)",
        count(report.workloads, "workload"),
        count(known, "node"),
        if known == 1 { "it is" } else { "they are" },
    )) + "\n"
}

fn dry_table(dry: &DryReport, look: &Look) -> String {
    let mut rows: Vec<_> = dry
        .nodes
        .iter()
        .map(|n| {
            [
                node(dry, n),
                n.then.to_string(),
                n.now.to_string(),
                n.peak_in_flight.to_string(),
            ]
        })
        .collect();
    rows.push([
        "no owner".to_owned(),
        dry.no_owner_then.to_string(),
        dry.no_owner_now.to_string(),
        String::new(),
    ]);
    look.table(["NODE", "THEN", "NOW", "PEAK IN FLIGHT"], &rows, Fit::Fold)
}

/// A node's name where no other has it, else its id.
fn node(dry: &DryReport, n: &NodeShare) -> String {
    let all = dry.nodes.iter().map(|o| (&o.node, &*o.name));
    let label = unique(&n.node, &n.name, all);
    match n.known {
        true => label.to_owned(),
        false => format!("{label} (not known here)"),
    }
}

/// The workloads that would move or find no owner, those alike together.
fn moves(dry: &DryReport, most: usize, look: &Look) -> String {
    let label = |id: &str| {
        let found = dry.nodes.iter().find(|n| n.node.as_str() == id && n.known);
        found.map_or_else(|| id.to_owned(), |n| node(dry, n))
    };
    let moved = dry.moved.iter().map(|m| {
        let (from, to) = (label(m.from.as_str()), label(m.to.as_str()));
        ((m.engine, m.model.clone(), from, to), m.id)
    });
    let mut text = format!("{} would move.\n", dry.moved.len());
    text.push_str(&groups(moved, ["FROM", "TO"], most, look));
    if !dry.unowned.is_empty() {
        text.push_str(&format!("{} would find no owner.\n", dry.unowned.len()));
        let unowned = dry.unowned.iter().map(|u| {
            let from = u.from.as_ref().map(|n| label(n.as_str()));
            (
                (u.engine, u.model.clone(), dash(from), u.reason.clone()),
                u.id,
            )
        });
        text.push_str(&groups(unowned, ["FROM", "WHY"], most, look));
    }
    text
}

type Group = (EngineId, String, String, String);

fn groups(
    all: impl Iterator<Item = (Group, JobId)>,
    [third, fourth]: [&str; 2],
    most: usize,
    look: &Look,
) -> String {
    let mut groups: BTreeMap<Group, Vec<JobId>> = BTreeMap::new();
    for (group, id) in all {
        groups.entry(group).or_default().push(id);
    }
    if groups.is_empty() {
        return String::new();
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    // Stable: those of one size stay by name.
    groups.sort_by_key(|(_, ids)| std::cmp::Reverse(ids.len()));
    let rows: Vec<_> = groups
        .iter()
        .take(most)
        .map(|((engine, model, from, to), ids)| {
            [
                engine.spec().display.to_owned(),
                model.clone(),
                from.clone(),
                to.clone(),
                ids.len().to_string(),
                named(ids),
            ]
        })
        .collect();
    let head = ["ENGINE", "MODEL", third, fourth, "WORKLOADS", "IDS"];
    let mut text = look.table(head, &rows, Fit::Fold);
    if groups.len() > most {
        let more = groups.len() - most;
        text.push_str(&format!("  … and {more} more such lines; -v shows all\n"));
    }
    text
}

fn named(ids: &[JobId]) -> String {
    let first = ids.iter().take(NAMED).map(ToString::to_string);
    let more = (ids.len() > NAMED).then(|| "…".to_owned());
    first.chain(more).collect::<Vec<_>>().join(", ")
}

fn sent_report(report: &ReplayReport, sent: &SentReport, look: &Look) -> String {
    let took = span(sent.took_ms);
    let wanted = report.workloads;
    let mut text = match sent.cancelled {
        true => look.heading(&format!(
            "Stopped: {} of {} sent, {} of them came to an end in {took}",
            sent.sent,
            count(wanted, "workload"),
            sent.ended
        )),
        false => look.heading(&format!(
            "{} of {} sent in {took}, at {} times the recorded pace",
            sent.sent,
            count(wanted, "workload"),
            report.speed
        )),
    };
    text.push('\n');
    let (then, now) = (&sent.recorded, &sent.replayed);
    let row = |name: &str, show: &dyn Fn(&Side) -> String| [name.to_owned(), show(then), show(now)];
    let ms = |ms: f64| format!("{:.2}s", ms / 1000.0);
    let rows = [
        row("completed", &|s| s.completed.to_string()),
        row("failed", &|s| s.failed.to_string()),
        row("cancelled", &|s| s.cancelled.to_string()),
        row("tokens", &|s| s.completion_tokens.to_string()),
        row("TTFT, half within", &|s| dash(s.ttft_ms.map(|t| ms(t.p50)))),
        row("TTFT, 95% within", &|s| dash(s.ttft_ms.map(|t| ms(t.p95)))),
        row("tok/s, median", &|s| {
            dash(s.tokens_per_second.map(|t| format!("{:.1}", t.p50)))
        }),
    ];
    text.push_str(&look.table(["", "RECORDED", "REPLAYED"], &rows, Fit::Fold));
    let failures = sent.failures.iter().map(|f| (&f.reason, f.requests));
    text.push_str(&counted("Failed", failures));
    let skipped = sent.skipped.iter().map(|s| (&s.reason, s.workloads));
    text.push_str(&counted("Not sent", skipped));
    if sent.shortened > 0 {
        let n = count(sent.shortened, "request");
        text.push_str(&format!("{n} shortened to 1 MiB.\n"));
    }
    if sent.late_ms >= LATE_MS {
        let late = span(sent.late_ms);
        text.push_str(&format!(
            "Up to {late} later than the pace wanted: 256 requests are under way at most.\n"
        ));
    }
    text
}

fn counted<'a>(what: &str, all: impl Iterator<Item = (&'a String, u64)>) -> String {
    let all: Vec<_> = all
        .map(|(why, n)| format!("{n} ({})", clean(why)))
        .collect();
    match all.as_slice() {
        [] => String::new(),
        all => format!("{what}: {}.\n", all.join(", ")),
    }
}

fn span(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        _ => human_age(Duration::from_millis(ms)),
    }
}
