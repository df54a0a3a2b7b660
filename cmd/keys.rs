//! `keys`: the keys that callers from other machines show.

use std::process::ExitCode;

use nvpair_proxy::control::client::KeysApiClient;
use nvpair_proxy::wire::client_keys::{ClientKeyCreated, ClientKeyInfo};

use crate::cli::{
    ClientKeyCreateArgs, ClientKeyRevokeArgs, ClientKeysArgs, ClientKeysVerb, Globals,
};
use crate::clock::since;
use crate::connect::with_daemon;
use crate::errors::CliError;
use crate::output::{self, Fit, Look};
use nvpair_proxy::wall_clock::unix_ms;

/// Runs it.
pub fn run(args: &ClientKeysArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    match &args.verb {
        Some(ClientKeysVerb::Create(args)) => create(args, globals),
        None | Some(ClientKeysVerb::List) => list(globals),
        Some(ClientKeysVerb::Revoke(args)) => revoke(args, globals),
    }
}

fn create(args: &ClientKeyCreateArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let created = with_daemon(globals, async |client| {
        let ClientKeyCreateArgs {
            name,
            allow,
            requests_per_minute,
            tokens_per_day,
        } = args;
        client
            .ask(async |c| {
                let (name, allow) = (name.clone(), allow.clone());
                c.keys_create(name, allow, *requests_per_minute, *tokens_per_day)
                    .await
            })
            .await
    })?;
    if globals.json {
        output::print_json(&created)?;
    } else if globals.quiet {
        // The key is what was asked for: also shown with --quiet.
        output::print(&format!("{}\n", created.key))?;
    } else {
        output::print(&told(&created))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn told(created: &ClientKeyCreated) -> String {
    let (info, key) = (&created.info, &created.key);
    let mut text = format!(
        "Key {}; it is not shown again:\n\n  {key}\n\nIt may use {}.\n\
         A client sends it where it takes an API key: OPENAI_API_KEY, or `Authorization: Bearer`.\n",
        info.name,
        output::list(&info.allow)
    );
    match created.allowed_cidrs.as_slice() {
        [] => text.push_str(
            "\nNo other machine is let in yet: set allowed_cidrs in the configuration.\n",
        ),
        networks => text.push_str(&format!("\nIt is taken from {}.\n", networks.join(", "))),
    }
    text
}

fn list(globals: &Globals) -> Result<ExitCode, CliError> {
    let list = with_daemon(globals, async |client| {
        client.ask(async |c| c.keys_list().await).await
    })?;
    if globals.json {
        output::print_json(&list)?;
    } else if list.keys.is_empty() {
        output::print("  none yet: nvpair-proxy keys create NAME --allow all\n")?;
    } else {
        let now = unix_ms();
        let rows: Vec<_> = list.keys.iter().map(|key| row(key, now)).collect();
        let head = [
            "KEY",
            "MAY USE",
            "A MINUTE",
            "TOKENS TODAY",
            "MADE",
            "LAST USED",
        ];
        output::print(&Look::stdout(globals).table(head, &rows, Fit::Fold))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(key: &ClientKeyInfo, now: u64) -> [String; 6] {
    let ago = |at| format!("{} ago", since(now, at));
    let minute = key.requests_per_minute.map(|n| n.to_string());
    let tokens = key
        .tokens_per_day
        .map(|most| format!("{} of {most}", key.tokens_today.unwrap_or(0)));
    [
        key.name.clone(),
        output::list(&key.allow),
        output::dash(minute.as_deref()),
        output::dash(tokens.as_deref()),
        ago(key.created_at),
        key.last_used_at.map_or_else(|| "never".to_owned(), ago),
    ]
}

fn revoke(args: &ClientKeyRevokeArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let name = args.name.clone();
    let revoked = with_daemon(globals, async |client| {
        client.ask(async |c| c.keys_revoke(name).await).await
    })?;
    if globals.json {
        output::print_json(&revoked)?;
    } else if !globals.quiet {
        let line = format!("revoked {}; its next request is refused", revoked.info.name);
        output::say(&line)?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> ClientKeyInfo {
        ClientKeyInfo {
            name: "phone".into(),
            allow: vec!["ollama/q*".into(), "pool".into()],
            requests_per_minute: Some(20),
            tokens_per_day: None,
            created_at: 0,
            last_used_at: None,
            tokens_today: None,
        }
    }

    #[test]
    fn a_person_is_told_what_the_key_opens_and_what_is_missing() {
        let mut created = ClientKeyCreated {
            schema_version: 1,
            info: info(),
            key: "ktms_ab".into(),
            allowed_cidrs: vec![],
        };
        let text = told(&created);
        assert!(
            text.contains("\n  ktms_ab\n") && text.contains("ollama/q*, pool"),
            "{text}"
        );
        assert!(text.contains("set allowed_cidrs"), "{text}");
        created.allowed_cidrs = vec!["10.0.0.0/8".into()];
        let text = told(&created);
        assert!(
            text.contains("taken from 10.0.0.0/8") && !text.contains("set allowed"),
            "{text}"
        );
    }

    #[test]
    fn a_row_shows_limits_where_there_are_some() {
        let mut key = info();
        assert_eq!(
            row(&key, 60_000),
            ["phone", "ollama/q*, pool", "20", "-", "1m ago", "never"]
        );
        key.tokens_per_day = Some(100);
        key.tokens_today = Some(7);
        key.last_used_at = Some(0);
        assert_eq!(row(&key, 60_000)[3..], ["7 of 100", "1m ago", "1m ago"]);
    }
}
