//! `status`: facades, nodes with the terms of their load, scheduler and counts.

use std::process::ExitCode;

use nvpair_proxy::control::client::{ControlApiClient, ControlClient};
use nvpair_proxy::rules::engine::EngineId;
use nvpair_proxy::wire::control::{DoorStatus, Mode, NodeStatus, Status, TelemetryStatus};
use nvpair_proxy::wire::pool::PoolUsage;

use crate::cli::{Globals, StatusArgs};
use crate::clients;
use crate::clock::since;
use crate::connect::{attached, with_daemon};
use crate::errors::CliError;
use crate::live;
use crate::names;
use crate::output::{self, Fit, Look};
use nvpair_proxy::wall_clock::unix_ms;

/// Runs it.
pub fn run(args: &StatusArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let now = async |client: &ControlClient| client.ask(async |c| c.status().await).await;
    if args.watch {
        return attached(globals, async |client| {
            live::watch(globals, async || {
                let status = now(client).await?;
                match globals.json {
                    true => output::json_line(&status),
                    false => {
                        let look = Look::stdout(globals);
                        Ok(render(&status, unix_ms(), &look, Parts::Changing))
                    },
                }
            })
            .await
        });
    }
    let status = with_daemon(globals, now)?;
    if globals.json {
        output::print_json(&status)?;
    } else {
        let look = Look::stdout(globals);
        output::print(&render(&status, unix_ms(), &look, Parts::All))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parts {
    /// Everything.
    All,
    /// Without the clients' addresses, which hardly change and take room.
    Changing,
}

fn render(status: &Status, now_ms: u64, look: &Look, parts: Parts) -> String {
    let mut text = look.heading("Facades");
    text.push_str(&facades(status, now_ms, look));
    text.push('\n');
    text.push_str(&look.heading("Nodes"));
    text.push_str(&nodes(status, look));
    text.push('\n');
    if let Some(pool) = &status.pool {
        let tls = if pool.tls { "TLS" } else { "in the clear" };
        let heading = format!("Pool: registry on {}, {tls}", output::clean(&pool.listen));
        text.push_str(&look.heading(&heading));
        text.push_str(&crate::nodes::pool::table(pool, look));
        text.push_str(&usage(pool.usage.as_ref(), look));
        text.push('\n');
    }
    if !status.providers.is_empty() {
        text.push_str(&look.heading("Providers"));
        text.push_str(&crate::providers::table(&status.providers, look));
        text.push('\n');
    }
    let facades = status.facades.iter().map(|f| (f.engine, f.port));
    let clients = clients::table(facades, look);
    if parts == Parts::All && !clients.is_empty() {
        text.push_str(&look.heading("Clients"));
        text.push_str(&format!("{clients}\n"));
    }
    text.push_str(&door(&status.door, look));
    text.push_str(&summary(status, look));
    text.push_str(&telemetry(status.telemetry.as_ref(), look));
    text
}

/// Who is let in besides the usual callers; nothing where nobody is.
fn door(door: &DoorStatus, look: &Look) -> String {
    let mut text = String::new();
    let mut line = |what: &str, list: &[String], more: &str| {
        let told = format!("{what}: {}{more}", list.join(", "));
        text.push_str(&look.sentence("", &told));
    };
    if !door.allowed_cidrs.is_empty() {
        let keys = match door.client_keys {
            0 => " (no client key yet: nobody comes in)".to_owned(),
            1 => " with 1 client key".to_owned(),
            n => format!(" with {n} client keys"),
        };
        line("Open to", &door.allowed_cidrs, &keys);
    }
    if !door.allowed_hosts.is_empty() {
        line("Further names in Host", &door.allowed_hosts, "");
    }
    match door.allowed_origins.as_deref() {
        None => {},
        Some([]) => line("Browser origins", &["none".to_owned()], ""),
        Some(origins) => line("Browser origins", origins, " alone"),
    }
    text
}

/// Usage events that are not where they should be; nothing while all are.
fn usage(usage: Option<&PoolUsage>, look: &Look) -> String {
    let Some(usage) = usage else {
        return String::new();
    };
    let mut parts = Vec::new();
    let collector = usage.collector.unwrap_or_default();
    let lost = usage.file_lost.unwrap_or(0) + collector.lost;
    if lost > 0 {
        parts.push(format!("{lost} lost"));
    }
    if collector.queued > 0 {
        parts.push(format!("{} wait for the collector", collector.queued));
    }
    match parts.is_empty() {
        true => String::new(),
        false => look.sentence("  ", &format!("usage events: {}", parts.join(", "))),
    }
}

fn facades(status: &Status, now_ms: u64, look: &Look) -> String {
    if status.facades.is_empty() {
        return match status.daemon.mode {
            Mode::Broker => "  none is enabled: the parent has not asked for any yet\n",
            Mode::Standalone | Mode::Demo => "  none is enabled\n",
        }
        .to_owned();
    }
    let rows: Vec<[String; 6]> = status
        .facades
        .iter()
        .map(|f| {
            let all = f.engine.is_gateway();
            let nodes = status.nodes.iter().filter(|n| all || n.engine == f.engine);
            [
                f.engine.spec().display.to_owned(),
                f.port.to_string(),
                output::dash(f.pin.as_ref().map(|id| names::shown(status, id))),
                nodes.count().to_string(),
                f.in_flight.to_string(),
                since(now_ms, f.since_at),
            ]
        })
        .collect();
    let head = ["ENGINE", "PORT", "PIN", "NODES", "IN FLIGHT", "SINCE"];
    if status.facades.iter().all(|f| f.aliases.is_empty()) {
        return look.table(head, &rows, Fit::Fold);
    }
    // Few have any, so that the column is there for those only.
    let [engine, port, pin, nodes, in_flight, since] = head;
    let head = [engine, port, "ALIASES", pin, nodes, in_flight, since];
    let rows: Vec<_> = std::iter::zip(&status.facades, rows)
        .map(|(f, [engine, port, pin, nodes, in_flight, since])| {
            let aliases = output::list(&f.aliases);
            [engine, port, aliases, pin, nodes, in_flight, since]
        })
        .collect();
    look.table(head, &rows, Fit::Fold)
}

fn nodes(status: &Status, look: &Look) -> String {
    if status.nodes.is_empty() {
        return no_nodes(status, None);
    }
    let mut text = full(status, look);
    for node in &status.nodes {
        if let Some(reason) = &node.reason {
            let (name, engine) = (names::label(status, node), node.engine.spec().display);
            text.push_str(&look.sentence("  ", &format!("{name} ({engine}): {reason}")));
        }
    }
    text
}

/// What to do where there are no nodes, of this engine or of any.
pub fn no_nodes(status: &Status, engine: Option<EngineId>) -> String {
    if status.daemon.mode == Mode::Broker {
        return "  none yet: the parent has told of no machine\n".to_owned();
    }
    let facades = status.facades.iter();
    let facades = facades.filter(|f| engine.is_none_or(|e| e == f.engine));
    let start = facades.map(|f| {
        let spec = f.engine.spec();
        format!("{} on {}", spec.display, spec.port_beside(f.port))
    });
    let start = start.collect::<Vec<_>>().join(", or ");
    if start.is_empty() {
        return "  none: a node belongs to a facade, and none is enabled\n".to_owned();
    }
    let engine = engine.map_or("ENGINE", EngineId::as_str);
    format!(
        "  none yet: start {start};\n  \
         it is found within seconds. For another machine: nvpair-proxy nodes add {engine}=http://HOST:PORT\n"
    )
}

/// The terms of the load in columns of their own; where those do not fit, the same sum in one, so
/// that names keep their length.
fn full(status: &Status, look: &Look) -> String {
    let row = |n: &NodeStatus| {
        let [name, engine, kind, state, models, warm] = common(status, n);
        let [load, pending, pressure, reserved] =
            [n.load, n.pending, n.pressure, n.reserved].map(|v| v.to_string());
        [
            name, engine, kind, state, load, pending, pressure, reserved, models, warm,
        ]
    };
    let head = [
        "NODE",
        "ENGINE",
        "KIND",
        "STATE",
        "LOAD",
        "= PENDING",
        "+ PRESSURE",
        "+ RESERVED",
        "MODELS",
        "WARM",
    ];
    let rows: Vec<_> = status.nodes.iter().map(row).collect();
    match look.fits(head, &rows) {
        true => look.table(head, &rows, Fit::Fold),
        false => narrow(status, look),
    }
}

fn narrow(status: &Status, look: &Look) -> String {
    let row = |n: &NodeStatus| {
        let [name, engine, kind, state, models, warm] = common(status, n);
        let load = format!("{}={}+{}+{}", n.load, n.pending, n.pressure, n.reserved);
        [name, engine, kind, state, load, models, warm]
    };
    let head = ["NODE", "ENGINE", "KIND", "STATE", "LOAD", "MODELS", "WARM"];
    let rows: Vec<_> = status.nodes.iter().map(row).collect();
    let table = look.table(head, &rows, Fit::Fold);
    format!("{table}  LOAD = pending + pressure + reserved\n")
}

fn common(status: &Status, node: &NodeStatus) -> [String; 6] {
    [
        names::label(status, node).to_owned(),
        node.engine.spec().display.to_owned(),
        node.kind.as_str().to_owned(),
        node.state.as_str().to_owned(),
        node.models.len().to_string(),
        output::list(&node.warm),
    ]
}

fn summary(status: &Status, look: &Look) -> String {
    let scheduler = match status.scheduler.age_ms {
        Some(age) => format!(
            "generation {}, {} s old",
            status.scheduler.generation,
            age / 1000
        ),
        // Only a broker sends snapshots; without one there is nothing to miss.
        None if status.daemon.mode == Mode::Broker => "listed, no snapshot yet".to_owned(),
        None => status.scheduler.policy.clone(),
    };
    let w = &status.workloads;
    let told = format!(
        "Scheduler: {scheduler}.  Workloads: {} running, {} queued, {} done, {} failed, {} cancelled.",
        w.running, w.queued, w.completed, w.failed, w.cancelled
    );
    look.sentence("", &told)
}

/// Where traces and metrics go, and what did not get there; nothing where they go nowhere.
fn telemetry(telemetry: Option<&TelemetryStatus>, look: &Look) -> String {
    let Some(t) = telemetry else {
        return String::new();
    };
    let mut parts = Vec::new();
    if let Some(collector) = &t.collector {
        let mut text = format!("to {collector}");
        if let Some(problem) = &t.problem {
            text.push_str(&format!(", which does not take it: {problem}"));
        }
        if t.dropped > 0 {
            text.push_str(&format!(", {} spans lost", t.dropped));
        }
        parts.push(text);
    }
    if let Some(admin) = &t.admin {
        parts.push(format!("http://{admin}/metrics"));
    }
    look.sentence("", &format!("Telemetry: {}.", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvpair_proxy::rules::ids::RunId;
    use nvpair_proxy::wire::control::*;
    use nvpair_proxy::wire::pool::CollectorUsage;

    const PIPE: Look = Look {
        color: false,
        width: None,
    };

    #[test]
    fn telemetry_is_told_with_what_is_wrong_with_it() {
        assert_eq!(telemetry(None, &PIPE), "");
        let mut t = TelemetryStatus {
            collector: Some("http://c:4318".into()),
            sent: 9,
            ..TelemetryStatus::default()
        };
        assert_eq!(telemetry(Some(&t), &PIPE), "Telemetry: to http://c:4318.\n");
        t.problem = Some("connection refused".into());
        t.dropped = 3;
        t.admin = Some("127.0.0.1:9464".into());
        assert_eq!(
            telemetry(Some(&t), &PIPE),
            "Telemetry: to http://c:4318, which does not take it: connection refused, 3 spans lost; \
             http://127.0.0.1:9464/metrics.\n"
        );
        t.collector = None;
        assert_eq!(
            telemetry(Some(&t), &PIPE),
            "Telemetry: http://127.0.0.1:9464/metrics.\n"
        );
    }

    #[test]
    fn usage_events_are_only_mentioned_where_some_are_missing() {
        let told = |file_lost, sent, queued, lost| {
            let collector = CollectorUsage { sent, queued, lost };
            let all = Some(PoolUsage {
                file_lost,
                collector: Some(collector),
            });
            usage(all.as_ref(), &PIPE)
        };
        assert_eq!(usage(None, &PIPE), "");
        assert_eq!(told(Some(0), 9, 0, 0), "");
        assert_eq!(
            told(Some(2), 9, 4, 1),
            "  usage events: 3 lost, 4 wait for the collector\n"
        );
    }

    fn status() -> Status {
        let node = NodeStatus {
            id: "tower".into(),
            name: "tower.lan".into(),
            engine: EngineId::parse("lmstudio").unwrap(),
            kind: NodeKind::Manual,
            state: NodeState::Unreachable,
            reason: Some("connection refused".into()),
            address: None,
            pending: 2,
            pressure: 1,
            reserved: 0,
            load: 3,
            models: vec!["a".into()],
            warm: vec!["qwen3:8b".into()],
        };
        Status {
            schema_version: SCHEMA_VERSION,
            daemon: DaemonInfo {
                version: "0.0.0".into(),
                pid: 1,
                mode: Mode::Standalone,
                run_id: RunId::from_bytes([0; 8]),
                started_at: 0,
                socket: None,
            },
            facades: vec![],
            nodes: vec![node],
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
    fn eighty_columns_keep_names_whole_and_sums_readable() {
        let look = Look {
            color: false,
            width: Some(80),
        };
        let text = render(&status(), 0, &look, Parts::All);
        assert!(
            text.lines().take(7).all(|l| l.chars().count() <= 80),
            "{text}"
        );
        assert!(text.contains("tower.lan  LM Studio  manual"), "{text}");
        assert!(text.contains("3=2+1+0"), "{text}");
        assert!(
            text.contains("tower.lan (LM Studio): connection refused"),
            "{text}"
        );
        assert!(text.contains("Scheduler: weighted."), "{text}");
        assert!(text.contains("none is enabled"), "{text}");
    }

    #[test]
    fn a_start_without_anything_says_what_to_do() {
        let look = Look {
            color: false,
            width: Some(80),
        };
        let mut status = status();
        status.nodes.clear();
        // The facade has LM Studio's own port, so that LM Studio must go elsewhere.
        status.facades = [("ollama", 11435), ("lmstudio", 1234)]
            .map(|(id, port)| FacadeStatus {
                engine: EngineId::parse(id).unwrap(),
                port,
                aliases: vec![],
                pin: None,
                in_flight: 0,
                since_at: 0,
            })
            .to_vec();
        let text = render(&status, 0, &look, Parts::All);
        for want in ["Ollama on 11434, or LM Studio on 1235", "nodes add ENGINE="] {
            assert!(text.contains(want), "{text}");
        }
        assert!(text.contains("\nClients\n"), "{text}");
        let text = render(&status, 0, &look, Parts::Changing);
        assert!(!text.contains("Clients"), "{text}");
        status.facades.clear();
        status.daemon.mode = Mode::Broker;
        let text = render(&status, 0, &look, Parts::All);
        for want in ["has not asked for any", "has told of no machine", "yet."] {
            assert!(text.contains(want), "{text}");
        }
        assert!(!text.contains("--node"), "{text}");
    }

    #[test]
    fn machines_of_one_name_are_shown_by_their_ids() {
        let mut status = status();
        let mut other = status.nodes[0].clone();
        other.id = "uuid-2".into();
        status.nodes.push(other.clone());
        other.name = String::new();
        other.id = "uuid-3".into();
        status.nodes.push(other);
        let look = Look {
            color: false,
            width: None,
        };
        let text = render(&status, 0, &look, Parts::All);
        for id in ["tower ", "uuid-2 ", "uuid-3 "] {
            assert!(text.contains(&format!("  {id}")), "{id} in {text}");
        }
        assert!(!text.contains("tower.lan"), "{text}");
    }
}
