//! The pool's nodes: how they are shown; `nodes drain`, `nodes resume`, `nodes reset`.

use std::process::ExitCode;
use std::time::Duration;

use nvpair_proxy::control::client::{ControlClient, PoolApiClient};
use nvpair_proxy::rules::units::human_age;
use nvpair_proxy::wire::pool::{PoolModelStatus, PoolNodeChanged, PoolNodeStatus, PoolStatus};

use crate::cli::{DrainArgs, Globals, PoolNodeArgs};
use crate::connect::{attached, with_daemon};
use crate::errors::CliError;
use crate::live::Interrupt;
use crate::output::{self, Fit, Look};

/// Time between two looks of `--wait`.
const PACE: Duration = Duration::from_millis(500);

/// `nodes drain`.
pub fn drain(args: &DrainArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let changed = attached(globals, async |client| {
        let id = args.pool_node.clone();
        let changed = client.ask(async |c| c.pool_drain(id).await).await?;
        match args.wait {
            true => until_idle(client, changed).await,
            false => Ok(Some(changed)),
        }
    })?;
    let Some(changed) = changed else {
        // Interrupted: the drain holds, and the shell is told that the wait is not over.
        return Ok(ExitCode::from(130));
    };
    if args.wait && !globals.json && !globals.quiet {
        output::say(&format!("{}: nothing runs on it any more", args.pool_node))?;
        return Ok(ExitCode::SUCCESS);
    }
    show(&changed, globals)
}

/// `nodes resume`.
pub fn resume(args: &PoolNodeArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let id = args.pool_node.clone();
    let changed = with_daemon(globals, async |client| {
        client.ask(async |c| c.pool_resume(id).await).await
    })?;
    show(&changed, globals)
}

/// `nodes reset`.
pub fn reset(args: &PoolNodeArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let id = args.pool_node.clone();
    let changed = with_daemon(globals, async |client| {
        client.ask(async |c| c.pool_reset(id).await).await
    })?;
    show(&changed, globals)
}

/// Looks again until no gateway has a request on the node, or it has left; `None` after Ctrl-C.
async fn until_idle(
    client: &ControlClient,
    mut changed: PoolNodeChanged,
) -> Result<Option<PoolNodeChanged>, CliError> {
    let interrupt = Interrupt::listen();
    while changed.node.leases > 0 {
        tokio::select! {
            () = tokio::time::sleep(PACE) => {},
            () = interrupt.pressed() => return Ok(None),
        }
        let list = client.ask(async |c| c.pool_list().await).await?;
        let id = &changed.node.id;
        match list.pool.nodes.into_iter().find(|n| n.id == *id) {
            Some(node) => changed.node = node,
            // It unregistered: what it had is over.
            None => changed.node.leases = 0,
        }
    }
    Ok(Some(changed))
}

fn show(changed: &PoolNodeChanged, globals: &Globals) -> Result<ExitCode, CliError> {
    if globals.json {
        output::print_json(changed)?;
    } else if !globals.quiet {
        let node = &changed.node;
        let state = state(node);
        let why = match node.reason.as_str() {
            "" => String::new(),
            reason => format!(", {reason}"),
        };
        let runs = match node.leases {
            0 => "nothing runs on it".to_owned(),
            1 => "1 request runs on it".to_owned(),
            n => format!("{n} requests run on it"),
        };
        output::say(&format!("{}: {state}{why}; {runs}", node.id))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn state(node: &PoolNodeStatus) -> String {
    node.state.replace('_', " ")
}

/// The pool's nodes, and what is wrong with its store.
pub fn table(pool: &PoolStatus, look: &Look) -> String {
    let mut text = String::new();
    if let Some(error) = &pool.store_error {
        let error = output::clean(error.trim_end());
        text.push_str(&format!("  not used now: {error}\n"));
    }
    if pool.nodes.is_empty() {
        text.push_str(
            "  none has registered: nvpair-proxy nodes keys create NAME --node-id ID prints how\n",
        );
        return text;
    }
    let row = |n: &PoolNodeStatus| {
        [
            n.id.clone(),
            n.engine.clone(),
            state(n),
            format!("{}/{}", n.leases.max(n.active_requests), n.slots),
            n.queue_depth.to_string(),
            n.weight.to_string(),
            human_age(Duration::from_millis(n.last_beat_age_ms)),
            n.address.clone(),
            models(n),
            n.reason.clone(),
        ]
    };
    let rows: Vec<_> = pool.nodes.iter().map(row).collect();
    let head = [
        "POOL NODE",
        "ENGINE",
        "STATE",
        "BUSY",
        "QUEUE",
        "WEIGHT",
        "BEAT",
        "ADDRESS",
        "MODELS (* warm)",
        "",
    ];
    text.push_str(&look.table(head, &rows, Fit::Fold));
    text
}

fn models(node: &PoolNodeStatus) -> String {
    let one = |m: &PoolModelStatus| {
        let star = if m.warm { "*" } else { "" };
        let figures = [
            m.ttft_ms.map(|ms| format!("{ms:.0} ms")),
            m.tokens_per_second.map(|tps| format!("{tps:.1} tok/s")),
            m.breaker
                .as_ref()
                .filter(|b| b.state != "closed")
                .map(|_| "broken".to_owned()),
        ];
        match figures.into_iter().flatten().collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => format!("{}{star}", m.id),
            figures => format!("{}{star} ({figures})", m.id),
        }
    };
    let mut sorted: Vec<_> = node.models.iter().collect();
    sorted.sort_by_key(|m| !m.warm);
    output::list(&sorted.into_iter().map(one).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIPE: Look = Look {
        color: false,
        width: None,
    };

    fn pool() -> PoolStatus {
        serde_json::from_value(serde_json::json!({
            "listen": "127.0.0.1:9090", "tls": false, "store": "memory", "nodes": [{
                "id": "rig-01", "engine": "vllm", "endpoint": "http://10.0.0.7:8000/v1",
                "address": "10.0.0.7:8000", "state": "circuit_broken",
                "reason": "5 failures in a row", "drain": false, "slots": 4, "leases": 1,
                "active_requests": 2, "queue_depth": 3, "base_weight": 4, "weight": 17,
                "last_beat_age_ms": 2500, "key": "rig", "agent_version": "0.1.0",
                "breaker": {"state": "open", "failures": 5, "retry_in_ms": 100},
                "models": [{"id": "cold", "warm": false},
                    {"id": "qwen3:8b", "warm": true, "ttft_ms": 120.4, "tokens_per_second": 45.26}],
            }],
        }))
        .unwrap()
    }

    #[test]
    fn a_node_is_shown_with_state_reason_load_and_speed() {
        let text = table(&pool(), &PIPE);
        for part in [
            "rig-01",
            "circuit broken",
            "2/4",
            "17",
            "2s",
            "qwen3:8b* (120 ms, 45.3 tok/s), cold",
            "5 failures in a row",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn an_empty_or_unusable_pool_says_what_to_do() {
        let mut empty = pool();
        empty.nodes.clear();
        empty.store_error = Some("the pool's store is down: refused".to_owned());
        let text = table(&empty, &PIPE);
        assert!(
            text.contains("not used now: the pool's store is down"),
            "{text}"
        );
        assert!(
            text.contains("nodes keys create NAME --node-id ID"),
            "{text}"
        );
    }
}
