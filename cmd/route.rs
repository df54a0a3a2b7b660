//! `route`: where a request for a model would go now, and why.

use std::process::ExitCode;

use nvpair_proxy::control::client::ControlApiClient;
use nvpair_proxy::rules::ids::NodeId;
use nvpair_proxy::wire::control::{RouteCandidate, RouteExcluded, RouteExplained};

use crate::cli::{Globals, RouteArgs};
use crate::connect::with_daemon;
use crate::errors::CliError;
use crate::names::unique;
use crate::output::{self, Look};

/// Runs it. The daemon decides as it would for a request; that nobody can serve it is an answer.
pub fn run(args: &RouteArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let told = with_daemon(globals, async |client| {
        client
            .ask(async |c| c.route_explain(args.engine, args.model.clone()).await)
            .await
    })?;
    match globals.json {
        true => output::print_json(&told)?,
        false => output::print(&render(&told, &Look::stdout(globals)))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn render(told: &RouteExplained, look: &Look) -> String {
    let wide = nodes(told).map(|(id, name)| label(told, id, name).chars().count());
    let wide = wide.max().unwrap_or(0);
    let mut text = String::new();
    if told.candidates.is_empty() {
        text.push_str(&look.heading("No node can serve it: a request is answered 502."));
    } else {
        text.push_str(&look.heading("Would try, in this order:"));
    }
    for (i, c) in told.candidates.iter().enumerate() {
        let name = label(told, &c.node, &c.name);
        push(
            &mut text,
            &format!("{:>3}  {name:<wide$}  {}", i + 1, terms(told, c)),
        );
    }
    if !told.excluded.is_empty() {
        text.push_str(&look.heading("Not eligible:"));
    }
    for e in &told.excluded {
        let name = label(told, &e.node, &e.name);
        push(&mut text, &format!("  {name:<wide$}  {}", reason(e)));
    }
    if !told.nearest.is_empty() {
        push(&mut text, &format!("Nearest: {}.", told.nearest.join(", ")));
    }
    push(&mut text, &last(told));
    text
}

fn push(text: &mut String, line: &str) {
    text.push_str(&output::clean(line));
    text.push('\n');
}

fn terms(told: &RouteExplained, c: &RouteCandidate) -> String {
    let load = match c.load {
        0 => "load 0".to_owned(),
        _ => format!(
            "load {} (pending {} + pressure {} + reserved {})",
            c.load, c.pending, c.pressure, c.reserved
        ),
    };
    let slots = (c.slots > 1).then(|| format!("{} slots", c.slots));
    let flags = [
        c.model.as_ref().map(|m| format!("as {m:?}")),
        c.pinned.then(|| "pinned".to_owned()),
        c.warm.then(|| "warm".to_owned()),
        (c.in_flight > 0).then(|| format!("{} in flight", c.in_flight)),
        slots,
        (told.policy == "weighted").then(|| format!("weight {}", c.weight)),
        c.ttft_ms.map(|ms| format!("first token {ms:.0} ms")),
        c.tokens_per_second.map(|tps| format!("{tps:.1} tokens/s")),
    ];
    let all: Vec<_> = std::iter::once(load)
        .chain(flags.into_iter().flatten())
        .collect();
    all.join(", ")
}

fn reason(e: &RouteExcluded) -> String {
    match e.near.as_slice() {
        [] => e.reason.clone(),
        near => format!("{} (has {})", e.reason, near.join(", ")),
    }
}

fn last(told: &RouteExplained) -> String {
    let pin = match &told.pin {
        None => "none".to_owned(),
        Some(id) => {
            let node = nodes(told).find(|(node, _)| *node == id);
            let name = node.map_or(id.as_str(), |(id, name)| label(told, id, name));
            match told.candidates.iter().any(|c| c.node == *id) {
                true => name.to_owned(),
                false => format!("{name}, which is not eligible"),
            }
        },
    };
    let scheduler = match told.generation {
        0 => format!("Scheduler: {}", told.policy),
        generation => format!("Scheduler generation {generation}"),
    };
    format!("Pin: {pin}.  {scheduler}.")
}

fn nodes(told: &RouteExplained) -> impl Iterator<Item = (&NodeId, &str)> {
    let candidates = told.candidates.iter().map(|c| (&c.node, &*c.name));
    candidates.chain(told.excluded.iter().map(|e| (&e.node, &*e.name)))
}

fn label<'a>(told: &RouteExplained, id: &'a NodeId, name: &'a str) -> &'a str {
    unique(id, name, nodes(told))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvpair_proxy::rules::engine::EngineId;
    use nvpair_proxy::wire::control::SCHEMA_VERSION;

    const LOOK: Look = Look {
        color: false,
        width: None,
    };

    fn told() -> RouteExplained {
        let candidate = |node: &str, name: &str| RouteCandidate {
            node: node.into(),
            name: name.into(),
            address: "127.0.0.1:1".into(),
            model: None,
            pending: 0,
            pressure: 0,
            reserved: 0,
            in_flight: 0,
            load: 0,
            slots: 1,
            weight: 100,
            ttft_ms: None,
            tokens_per_second: None,
            warm: true,
            pinned: false,
        };
        RouteExplained {
            schema_version: SCHEMA_VERSION,
            engine: EngineId::parse("ollama").unwrap(),
            model: "qwen3:8b".into(),
            policy: "listed".into(),
            generation: 41,
            pin: None,
            candidates: vec![
                candidate("uuid-1", "tower.lan"),
                RouteCandidate {
                    pending: 1,
                    reserved: 2,
                    load: 3,
                    in_flight: 1,
                    slots: 4,
                    ..candidate("this-pc", "")
                },
            ],
            excluded: vec![RouteExcluded {
                node: "attic".into(),
                name: "attic".into(),
                reason: "does not advertise the model".into(),
                near: vec!["qwen3:4b".into()],
            }],
            nearest: vec![],
        }
    }

    #[test]
    fn order_terms_and_reasons_line_up() {
        assert_eq!(
            render(&told(), &LOOK),
            "Would try, in this order:
  1  tower.lan  load 0, warm
  2  this-pc    load 3 (pending 1 + pressure 0 + reserved 2), warm, 1 in flight, 4 slots
Not eligible:
  attic      does not advertise the model (has qwen3:4b)
Pin: none.  Scheduler generation 41.
"
        );
    }

    #[test]
    fn a_pin_that_cannot_serve_and_an_empty_order_are_told() {
        let mut told = told();
        told.pin = Some("attic".into());
        told.candidates.clear();
        told.nearest = vec!["qwen3:4b".into()];
        told.generation = 0;
        let text = render(&told, &LOOK);
        for want in [
            "502",
            "Nearest: qwen3:4b.",
            "Pin: attic, which is not eligible.  Scheduler: listed.",
        ] {
            assert!(text.contains(want), "{text}");
        }
    }

    #[test]
    fn nodes_of_one_name_are_shown_by_id() {
        let mut told = told();
        told.excluded[0].name = "TOWER.lan".into();
        let text = render(&told, &LOOK);
        assert!(
            text.contains("1  uuid-1 ") && text.contains("  attic "),
            "{text}"
        );
    }
}
