//! `models`: the merged catalogue.

use std::process::ExitCode;

use nvpair_proxy::control::client::ControlApiClient;
use nvpair_proxy::rules::engine::EngineId;
use nvpair_proxy::wire::control::{ModelList, NodeState, NodeStatus, Status};

use crate::cli::{Globals, ModelsArgs};
use crate::connect::with_daemon;
use crate::errors::CliError;
use crate::output::{self, Fit, Look};
use crate::status::no_nodes;

/// Runs it.
pub fn run(args: &ModelsArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let (list, status) = with_daemon(globals, async |client| {
        let list = client
            .ask(async |c| c.models_list(args.engine, Some(args.loaded)).await)
            .await?;
        // Why there are none is a question of nodes.
        let status = match list.models.is_empty() && !globals.json {
            true => Some(client.ask(async |c| c.status().await).await?),
            false => None,
        };
        Ok((list, status))
    })?;
    match (globals.json, status) {
        (true, _) => output::print_json(&list)?,
        (false, Some(status)) => output::print(&none(args, &status))?,
        (false, None) => output::print(&table(&list, &Look::stdout(globals)))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Why the catalogue is empty, and what to do.
fn none(args: &ModelsArgs, status: &Status) -> String {
    let wanted = |e: EngineId| args.engine.is_none_or(|engine| engine == e);
    let nodes: Vec<_> = status.nodes.iter().filter(|n| wanted(n.engine)).collect();
    let answers = |n: &&&NodeStatus| n.state == NodeState::Healthy;
    let answering: Vec<_> = nodes.iter().filter(answers).collect();
    if !status.facades.iter().any(|f| wanted(f.engine)) {
        return match args.engine {
            Some(engine) => format!("  none: no {} facade is enabled\n", engine.spec().display),
            None => "  none: no facade is enabled\n".to_owned(),
        };
    }
    if nodes.is_empty() {
        return no_nodes(status, args.engine);
    }
    if answering.is_empty() {
        return "  none: no node can be reached; `nvpair-proxy status` says why\n".to_owned();
    }
    if args.loaded && answering.iter().any(|n| !n.models.is_empty()) {
        return "  none is in memory; `nvpair-proxy models` shows those that can be loaded\n"
            .to_owned();
    }
    "  none: the nodes answer, but list no models; install one with the engine's own tools\n"
        .to_owned()
}

fn table(list: &ModelList, look: &Look) -> String {
    let rows: Vec<_> = list
        .models
        .iter()
        .map(|m| {
            [
                m.model.clone(),
                m.engine.spec().display.to_owned(),
                output::list(&m.owners),
                output::list(&m.loaded),
                output::dash(m.context_length),
            ]
        })
        .collect();
    let head = ["MODEL", "ENGINE", "NODES", "LOADED ON", "CONTEXT"];
    look.table(head, &rows, Fit::Fold)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvpair_proxy::rules::ids::RunId;
    use nvpair_proxy::wire::control::*;

    fn engine() -> EngineId {
        EngineId::parse("ollama").unwrap()
    }

    fn status(nodes: &[(NodeState, &[&str])]) -> Status {
        let node = |(state, models): &(NodeState, &[&str])| NodeStatus {
            id: "a".into(),
            name: "a".into(),
            engine: engine(),
            kind: NodeKind::Manual,
            state: *state,
            reason: None,
            address: None,
            pending: 0,
            pressure: 0,
            reserved: 0,
            load: 0,
            models: models.iter().map(|m| (*m).to_owned()).collect(),
            warm: vec![],
        };
        Status {
            schema_version: SCHEMA_VERSION,
            daemon: DaemonInfo {
                version: String::new(),
                pid: 1,
                mode: Mode::Standalone,
                run_id: RunId::from_bytes([0; 8]),
                started_at: 0,
                socket: None,
            },
            facades: vec![FacadeStatus {
                engine: engine(),
                port: 1,
                aliases: vec![],
                pin: None,
                in_flight: 0,
                since_at: 0,
            }],
            nodes: nodes.iter().map(node).collect(),
            scheduler: SchedulerStatus {
                policy: "weighted".into(),
                generation: 0,
                age_ms: None,
            },
            workloads: WorkloadCounts::default(),
            providers: vec![],
            door: Default::default(),
            pool: None,
            telemetry: None,
        }
    }

    #[test]
    fn an_empty_catalogue_says_why_and_what_to_do() {
        let (up, down) = (NodeState::Healthy, NodeState::Unreachable);
        let args = |engine: Option<&str>, loaded| ModelsArgs {
            engine: engine.map(|e| EngineId::parse(e).unwrap()),
            loaded,
        };
        for (args, nodes, want) in [
            (args(None, false), vec![], "start Ollama on 11434"),
            (args(Some("llamacpp"), false), vec![], "no llama.cpp facade"),
            (
                args(None, false),
                vec![(down, &["m"][..])],
                "status` says why",
            ),
            (args(None, true), vec![(up, &["m"][..])], "in memory"),
            (args(None, true), vec![(up, &[][..])], "install one"),
            (args(None, false), vec![(up, &[][..])], "install one"),
        ] {
            let text = none(&args, &status(&nodes));
            assert!(text.contains(want), "{text}");
        }
    }
}
