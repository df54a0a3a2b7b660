//! `nodes keys`: the keys that workers register with.

use std::process::ExitCode;

use anyhow::Context;
use nvpair_proxy::control::client::PoolApiClient;
use nvpair_proxy::rules::pool::record::PoolEngine;
use nvpair_proxy::wire::pool::{KeyCreated, KeyInfo};

use crate::cli::{Globals, KeyCreateArgs, KeyRevokeArgs, KeysArgs, KeysVerb};
use crate::clock::since;
use crate::connect::with_daemon;
use crate::errors::CliError;
use crate::output::{self, Fit, Look};
use nvpair_proxy::wall_clock::unix_ms;

/// Runs it.
pub fn run(args: &KeysArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    match &args.verb {
        Some(KeysVerb::Create(args)) => create(args, globals),
        None | Some(KeysVerb::List) => list(globals),
        Some(KeysVerb::Revoke(args)) => revoke(args, globals),
    }
}

fn create(args: &KeyCreateArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let KeyCreateArgs {
        name,
        node_id,
        allow,
        models,
        engine,
    } = args;
    let created = with_daemon(globals, async |client| {
        client
            .ask(async |c| {
                c.pool_keys_create(
                    name.clone(),
                    node_id.clone(),
                    Some(allow.clone()),
                    Some(models.clone()),
                )
                .await
            })
            .await
    })?;
    let join = join(&created, *engine);
    if globals.json {
        let mut document = serde_json::to_value(&created).context("cannot write the key")?;
        document["join"] = join.into();
        output::print_json(&document)?;
        return Ok(ExitCode::SUCCESS);
    }
    // The key is what was asked for: also shown with --quiet.
    if globals.quiet {
        output::print(&format!("{}\n", created.key))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::print(&told(&created, &join))?;
    Ok(ExitCode::SUCCESS)
}

fn told(created: &KeyCreated, join: &str) -> String {
    let info = &created.info;
    let mut text = format!(
        "Key {} for node {}; it is not shown again:\n\n  {}\n\nOn the worker:\n\n  {join}\n",
        info.name, info.node_id, created.key
    );
    if info.allow.is_empty() {
        text.push_str("\nIt may serve only at the address that it registers from.\n");
    }
    if !created.tls {
        text.push_str(
            "\nThe registry listens on this machine alone and in the clear. For workers on other \
             machines set\n`listen` in [pool], or let them come by ssh.\n",
        );
    }
    text
}

/// The command that makes a worker join. What only the worker knows is written as it usually is.
fn join(created: &KeyCreated, engine: PoolEngine) -> String {
    let port = engine.usual_port();
    let single = created.info.allow.iter().find(|a| !a.contains('/'));
    let host = match single {
        Some(address) if address.contains(':') => format!("[{}]", address.trim_matches(['[', ']'])),
        Some(host) => host.clone(),
        None => "WORKER-ADDRESS".to_owned(),
    };
    let pin = created.fingerprint.as_ref();
    let pin = pin.map_or(String::new(), |pin| format!(" --proxy-fingerprint {pin}"));
    format!(
        "NODE_KEY={} nvpair-proxy agent --proxy-addr {}{pin} --node-id {} --engine {engine} \
         --engine-url http://127.0.0.1:{port} --endpoint http://{host}:{port}",
        created.key, created.proxy_addr, created.info.node_id
    )
}

fn list(globals: &Globals) -> Result<ExitCode, CliError> {
    let keys = with_daemon(globals, async |client| {
        client.ask(async |c| c.pool_keys_list().await).await
    })?;
    if globals.json {
        output::print_json(&keys)?;
    } else if keys.keys.is_empty() {
        output::print("  none yet: nvpair-proxy nodes keys create NAME --node-id ID\n")?;
    } else {
        let rows: Vec<_> = keys.keys.iter().map(row).collect();
        let head = ["KEY", "NODE", "MAY SERVE AT", "MODELS", "MADE"];
        output::print(&Look::stdout(globals).table(head, &rows, Fit::Fold))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(key: &KeyInfo) -> [String; 5] {
    let or = |list: &[String], none: &str| match list {
        [] => none.to_owned(),
        some => output::list(some),
    };
    [
        key.name.clone(),
        key.node_id.clone(),
        or(&key.allow, "where it registers from"),
        or(&key.models, "all"),
        format!("{} ago", since(unix_ms(), key.created_at)),
    ]
}

fn revoke(args: &KeyRevokeArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let name = args.name.clone();
    let revoked = with_daemon(globals, async |client| {
        client.ask(async |c| c.pool_keys_revoke(name).await).await
    })?;
    if globals.json {
        output::print_json(&revoked)?;
    } else if !globals.quiet {
        let node = &revoked.info.node_id;
        let then = match revoked.evicted {
            true => format!("node {node} was put out"),
            false => format!("node {node} was not registered"),
        };
        let line = format!("revoked {}; {then}", revoked.info.name);
        output::say(&line)?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(allow: &[&str], fingerprint: Option<&str>) -> KeyCreated {
        KeyCreated {
            schema_version: 1,
            info: KeyInfo {
                name: "rig".into(),
                node_id: "rig-01".into(),
                allow: allow.iter().map(|a| (*a).to_owned()).collect(),
                models: vec![],
                created_at: 0,
            },
            key: "ktms_node_ab".into(),
            proxy_addr: "gw.lan:9090".into(),
            tls: fingerprint.is_some(),
            fingerprint: fingerprint.map(str::to_owned),
        }
    }

    #[test]
    fn the_join_command_is_whole() {
        let key = created(&["10.0.0.0/8", "10.0.0.15"], Some("sha256:cd"));
        assert_eq!(
            join(&key, PoolEngine::Vllm),
            "NODE_KEY=ktms_node_ab nvpair-proxy agent --proxy-addr gw.lan:9090 \
             --proxy-fingerprint sha256:cd --node-id rig-01 --engine vllm \
             --engine-url http://127.0.0.1:8000 --endpoint http://10.0.0.15:8000"
        );
        let key = created(&["fd00::7"], None);
        let text = join(&key, PoolEngine::Ollama);
        assert!(
            text.ends_with("--endpoint http://[fd00::7]:11434"),
            "{text}"
        );
        assert!(!text.contains("fingerprint"), "{text}");
    }

    #[test]
    fn a_person_is_told_what_the_key_does_not_open() {
        let key = created(&[], None);
        let text = told(&key, &join(&key, PoolEngine::Ollama));
        assert!(
            text.contains("only at the address that it registers from"),
            "{text}"
        );
        assert!(text.contains("on this machine alone"), "{text}");
        assert!(text.contains("WORKER-ADDRESS"), "{text}");
        let key = created(&["10.0.0.7"], Some("sha256:cd"));
        let text = told(&key, "J");
        assert!(
            !text.contains("only at") && !text.contains("in the clear"),
            "{text}"
        );
    }
}
